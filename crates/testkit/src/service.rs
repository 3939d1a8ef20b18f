//! A service as a process, and a minimal HTTP client: it must recognise a connection that ends in the middle of an
//! answer as exactly that.

use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// A running service.
pub struct Child {
    process: Arc<Mutex<std::process::Child>>,
    /// The address for writers and the operator.
    pub url: String,
}

impl Child {
    /// Starts the program, and waits until it answers.
    ///
    /// # Panics
    /// If it ends before it answers.
    pub fn start(program: &str, folder: &Path, arguments: &[&str]) -> Self {
        let mut process = Command::new(program)
            .current_dir(folder)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program is there");
        let mut message = String::new();
        let mut lines = BufReader::new(process.stderr.take().expect("it is piped"));
        let url = loop {
            let mut line = String::new();
            if lines.read_line(&mut line).expect("it says text") == 0 {
                let _ = process.wait();
                panic!("the service has ended:\n{message}");
            }
            if let Some(url) = line.trim().strip_prefix("writing and operating: ") {
                break url.to_owned();
            }
            message.push_str(&line);
        };
        // Something must read its later output.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::stderr()));
        Self { process: Arc::new(Mutex::new(process)), url }
    }

    /// Kills it after some time, as `kill -9` does.
    pub fn kill_after(&self, time: Duration) -> JoinHandle<()> {
        let process = Arc::clone(&self.process);
        std::thread::spawn(move || {
            std::thread::sleep(time);
            let _ = process.lock().expect("nobody panics").kill(); // it may have ended
        })
    }

    /// Waits for its end; requests a shutdown if it was not killed.
    ///
    /// # Panics
    /// If it was asked to shut down and did not exit successfully.
    pub fn end(self, is_asked: bool) {
        let mut process = self.process.lock().expect("nobody panics");
        if is_asked {
            let reply = Command::new("kill").arg(process.id().to_string()).status().expect("there is kill");
            assert!(reply.success());
        } else {
            let _ = process.kill();
        }
        let status = process.wait().expect("it ends");
        assert!(!is_asked || status.success(), "the service has ended with {status}");
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub bytes: Vec<u8>,
    /// Its body as text; empty if it is not text.
    pub text: String,
}

impl Answer {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Its body as JSON.
    ///
    /// # Panics
    /// If it is not JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}

/// A client of a service at an address of this machine.
pub struct Client {
    address: String,
}

impl Client {
    /// A client of the service at `http://ADDRESS`.
    pub fn new(url: &str) -> Self {
        Self { address: url.trim_start_matches("http://").to_owned() }
    }

    /// The address.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sends a GET request.
    ///
    /// # Errors
    /// If the answer is not complete.
    pub fn get(&self, path: &str, token: &str) -> Result<Answer> {
        self.ask("GET", path, token, &[], b"")
    }

    /// Sends a POST request.
    ///
    /// # Errors
    /// If the answer is not complete.
    pub fn post(&self, path: &str, token: &str, headers: &[(&str, &str)], body: &[u8]) -> Result<Answer> {
        self.ask("POST", path, token, headers, body)
    }

    /// Sends any request; without a token if `token` is empty.
    ///
    /// # Errors
    /// If the answer is not complete.
    pub fn ask(&self, method: &str, path: &str, token: &str, headers: &[(&str, &str)], body: &[u8]) -> Result<Answer> {
        let mut socket = TcpStream::connect(&self.address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut more: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        if !token.is_empty() {
            more += &format!("authorization: Bearer {token}\r\n");
        }
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{more}content-length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        // A service that refuses a body may do so before receiving it.
        let _ = socket.write_all(&[head.as_bytes(), body].concat());
        let mut from = BufReader::new(socket);
        let mut first = String::new();
        from.read_line(&mut first)?;
        let broken = || Error::from(ErrorKind::UnexpectedEof);
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(broken)?;
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            if from.read_line(&mut line)? == 0 {
                return Err(broken());
            }
            let Some((name, value)) = line.trim().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let answer = Answer { status, headers, bytes: Vec::new(), text: String::new() };
        let length = answer.header("content-length").and_then(|length| length.parse().ok());
        let is_empty = method == "HEAD" || [204, 304].contains(&status);
        let is_chunked = answer.header("transfer-encoding") == Some("chunked");
        let bytes = if is_chunked && !is_empty {
            chunks(&mut from)?
        } else {
            let mut bytes = vec![0; if is_empty { 0 } else { length.ok_or_else(broken)? }];
            from.read_exact(&mut bytes)?;
            bytes
        };
        Ok(Answer { text: String::from_utf8(bytes.clone()).unwrap_or_default(), bytes, ..answer })
    }
}

/// A body in chunks, ended by an empty one.
fn chunks(from: &mut impl BufRead) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let mut line = String::new();
        from.read_line(&mut line)?;
        let length = usize::from_str_radix(line.trim(), 16).map_err(|_| Error::from(ErrorKind::UnexpectedEof))?;
        let start = bytes.len();
        bytes.resize(start + length + 2, 0);
        from.read_exact(&mut bytes[start..])?;
        bytes.truncate(start + length);
        if length == 0 {
            return Ok(bytes);
        }
    }
}
