//! A web server and an object store on this machine, for tests.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request, as far as tests need it.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) method: String,
    /// The path with its query.
    pub(super) target: String,
    /// Lines of the head, in lower case.
    head: Vec<String>,
    pub(super) body: Vec<u8>,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    fn parameter(&self, name: &str) -> Option<String> {
        let (_, query) = self.target.split_once('?')?;
        let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))?;
        Some(value.replace("%2F", "/"))
    }
}

/// A response.
#[derive(Clone, Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
    pub(super) framing: Framing,
    /// After how many bytes of the body the connection is closed.
    pub(super) cut_at: Option<usize>,
    /// A pause before the second half of the body.
    pub(super) pause: Option<Duration>,
}

/// How the end of a body is marked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Framing {
    Length,
    Chunked,
    Close,
}

impl Response {
    pub(super) fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        let (headers, framing) = (Vec::new(), Framing::Length);
        Self { status, headers, body: body.into(), framing, cut_at: None, pause: None }
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn send(&self, mut to: TcpStream, method: &str) -> std::io::Result<()> {
        let mut head = format!("HTTP/1.1 {} Status\r\nConnection: close\r\n", self.status);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        match self.framing {
            Framing::Length => head += &format!("Content-Length: {}\r\n", self.body.len()),
            Framing::Chunked => head += "Transfer-Encoding: chunked\r\n",
            Framing::Close => {}
        }
        to.write_all((head + "\r\n").as_bytes())?;
        if method == "HEAD" {
            return Ok(());
        }
        let body = &self.body[..self.cut_at.unwrap_or(self.body.len())];
        for (part, half) in body.chunks(body.len() / 2 + 1).enumerate() {
            if let Some(pause) = self.pause.filter(|_| part > 0) {
                std::thread::sleep(pause);
            }
            if matches!(self.framing, Framing::Chunked) {
                write!(to, "{:x}\r\n", half.len())?;
                to.write_all(half)?;
                to.write_all(b"\r\n")?;
            } else {
                to.write_all(half)?;
            }
            to.flush()?;
        }
        if matches!(self.framing, Framing::Chunked) && self.cut_at.is_none() {
            to.write_all(b"0\r\n\r\n")?;
        }
        Ok(())
    }
}

/// A server that runs until the test ends.
pub(super) struct Server {
    pub(super) address: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Answers requests; `answer` also gets the number of earlier ones.
    pub(super) fn new(answer: impl Fn(&Request, usize) -> Response + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer) = (requests.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let (connection, seen, answer) = (connection.unwrap(), seen.clone(), answer.clone());
                std::thread::spawn(move || {
                    let Some(request) = read_request(&connection) else { return };
                    let earlier = {
                        let mut seen = seen.lock().unwrap();
                        seen.push(request.clone());
                        seen.len() - 1
                    };
                    // The client may have gone.
                    let _ = answer(&request, earlier).send(connection, &request.method);
                });
            }
        });
        Self { address, requests }
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

fn read_request(connection: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(connection);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.by_ref().take(1 << 16).read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let mut first = lines.first()?.split(' ');
    let (method, target) = (first.next()?.to_owned(), first.next()?.to_owned());
    let head = lines[1..].iter().map(|line| match line.split_once(": ") {
        Some((name, value)) => format!("{}: {value}", name.to_lowercase()),
        None => line.clone(),
    });
    let mut request = Request { method, target, head: head.collect(), body: Vec::new() };
    let length: u64 = request.header("content-length").map_or(0, |length| length.parse().unwrap());
    reader.take(length).read_to_end(&mut request.body).ok()?;
    Some(request)
}

/// Answers as S3 does, with addresses of the form `/bucket/name`.
pub(super) fn answer_s3(objects: &[(String, Vec<u8>)], request: &Request) -> Response {
    let path = request.target.split('?').next().unwrap_or_default();
    if let Some(prefix) = request.parameter("prefix").or_else(|| request.parameter("list-type").map(|_| String::new()))
    {
        return list(objects, &prefix, request.parameter("delimiter").is_some());
    }
    let Some((_, body)) = objects.iter().find(|(name, _)| path == format!("/bucket/{name}")) else {
        return Response::new(404, "<Error><Code>NoSuchKey</Code><Key>secret-key</Key></Error>");
    };
    let tag = format!("\"{:x}\"", BuildHasherDefault::<DefaultHasher>::default().hash_one(body));
    if request.header("if-match").is_some_and(|wanted| wanted != tag) {
        return Response::new(412, "<Error><Code>PreconditionFailed</Code></Error>");
    }
    let ranged = request.header("range").map(|range| {
        let (from, to) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
        let to = if to.is_empty() { body.len() } else { to.parse::<usize>().unwrap() + 1 };
        from.parse().unwrap()..to.min(body.len())
    });
    let response = match ranged {
        None => Response::new(200, body.clone()),
        Some(range) => {
            let shown = format!("bytes {}-{}/{}", range.start, range.end - 1, body.len());
            Response::new(206, &body[range]).with("Content-Range", shown)
        }
    };
    response.with("ETag", tag).with("Last-Modified", "Wed, 01 May 2024 00:00:00 GMT")
}

fn list(objects: &[(String, Vec<u8>)], prefix: &str, is_flat: bool) -> Response {
    let mut text = String::from("<ListBucketResult>");
    // Out of order, as other stores than S3 may list them.
    for (name, body) in objects.iter().rev() {
        let Some(rest) = name.strip_prefix(prefix) else { continue };
        if is_flat && rest.contains('/') {
            continue;
        }
        let size = body.len();
        text += &format!(
            "<Contents><Key>{name}</Key><LastModified>2024-05-01T00:00:00.000Z</LastModified><Size>{size}</Size>\
             </Contents>"
        );
    }
    Response::new(200, text + "</ListBucketResult>")
}
