//! Puts load on a service on this machine and reports its throughput and latency.
//!
//! ```text
//! cargo run --release --example load -- 127.0.0.1:8800 STREAM TOKEN \
//!     [--rows 1000] [--seconds 20] [--clients 8] [--rate BATCHES] [--persons 100000]
//! ```
//!
//! Each client has its own connection. It sends a batch of NDJSON rows as soon as the previous one is answered, or,
//! with `--rate`, all clients together send that number of batches per second. Clients write HTTP by hand, so that they
//! take little of the machine's time.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone)]
struct Load {
    address: String,
    stream: String,
    token: String,
    rows: usize,
    seconds: u64,
    clients: usize,
    rate: Option<f64>,
    persons: u64,
    time: String,
}

impl Load {
    fn from_args() -> Result<Self, Failure> {
        let mut arguments = std::env::args().skip(1);
        let mut next = |what: &str| arguments.next().ok_or(format!("{what} is missing"));
        let (address, stream, token) = (next("the address")?, next("the stream")?, next("the token")?);
        let time = "2026-01-01T00:30:00Z".to_owned();
        let mut load =
            Self { address, stream, token, rows: 1000, seconds: 20, clients: 8, rate: None, persons: 100_000, time };
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or(format!("{name} needs a value"))?;
            match name.as_str() {
                "--rows" => load.rows = value.parse()?,
                "--seconds" => load.seconds = value.parse()?,
                "--clients" => load.clients = value.parse()?,
                "--rate" => load.rate = Some(value.parse()?),
                "--persons" => load.persons = value.parse()?,
                "--time" => load.time = value,
                _ => return Err(format!("there is no {name}").into()),
            }
        }
        Ok(load)
    }

    /// The rows of a batch, different for each number.
    fn body(&self, number: u64) -> String {
        let mut body = String::new();
        let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        for _ in 0..self.rows {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let (person, group) = (state % self.persons, (state >> 32) % 10);
            let time = &self.time;
            writeln!(body, "{{\"time\":\"{time}\",\"person\":\"p{person}\",\"group\":\"g{group}\"}}")
                .expect("a String accepts every write");
        }
        body
    }
}

fn main() -> Result<(), Failure> {
    let load = Load::from_args()?;
    // Bodies are built before the clock starts.
    let bodies: Arc<Vec<String>> = Arc::new((0..64).map(|number| load.body(number)).collect());
    let began = Instant::now();
    let unique = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_nanos();
    let clients: Vec<_> = (0..load.clients)
        .map(|client| {
            let (load, bodies) = (load.clone(), Arc::clone(&bodies));
            std::thread::spawn(move || send(&load, &bodies, began, client, unique))
        })
        .collect();
    let mut times = Vec::new();
    for client in clients {
        times.extend(client.join().map_err(|_| "a client ended early")??);
    }
    let seconds = began.elapsed().as_secs_f64();
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    let events = times.len() * load.rows;
    println!(
        "{} batches of {} rows in {seconds:.1} s: {:.0} events/s",
        times.len(),
        load.rows,
        events as f64 / seconds
    );
    println!(
        "answered after (ms): median {:.1}, 90 % {:.1}, 99 % {:.1}, longest {:.1}",
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    );
    Ok(())
}

/// Sends batches until the time is up; returns how long each took.
fn send(load: &Load, bodies: &[String], began: Instant, client: usize, unique: u128) -> Result<Vec<Duration>, Failure> {
    let mut socket = TcpStream::connect(&load.address)?;
    socket.set_nodelay(true)?;
    let mut answers = BufReader::new(socket.try_clone()?);
    let (mut times, mut number) = (Vec::new(), 0u64);
    let pause = load.rate.map(|rate| Duration::from_secs_f64(load.clients as f64 / rate));
    let mut due = began + pause.unwrap_or_default().mul_f64(client as f64 / load.clients as f64);
    while began.elapsed() < Duration::from_secs(load.seconds) {
        if let Some(pause) = pause {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            // Measured from the due time: a late start counts against the service.
            due += pause;
        }
        let body = &bodies[(number as usize * load.clients + client) % bodies.len()];
        let head = format!(
            "POST /v1/streams/{}/events HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: \
                application/x-ndjson\r\nidempotency-key: {unique}-{client}-{number}\r\ncontent-length: {}\r\n\r\n",
            load.stream,
            load.address,
            load.token,
            body.len()
        );
        let asked = if pause.is_some() { due - pause.unwrap_or_default() } else { Instant::now() };
        socket.write_all(head.as_bytes())?;
        socket.write_all(body.as_bytes())?;
        let answer = read(&mut answers)?;
        if !answer.0.contains(" 200 ") {
            return Err(format!("{}: {}", answer.0.trim(), String::from_utf8_lossy(&answer.1)).into());
        }
        times.push(asked.elapsed());
        number += 1;
    }
    Ok(times)
}

/// An answer: its first line and its body.
fn read(from: &mut impl BufRead) -> Result<(String, Vec<u8>), Failure> {
    let (mut first, mut length) = (String::new(), 0);
    from.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        from.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    Ok((first, body))
}
