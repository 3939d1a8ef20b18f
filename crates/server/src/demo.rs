//! A demonstration: the flights that left New York in 2013, played at high speed.
//!
//! The events are real, the clock is not: an hour takes half a second. Each flight is sent when its hour has come, in
//! batches, as a client would send it. Folder and key are temporary and are deleted when the program ends.

#![expect(clippy::disallowed_methods, reason = "a temporary folder")]

use crate::clock::{Clock, FastClock};
use crate::config::Config;
use crate::http::Side;
use crate::serving::{Running, shutdown_signal};
use evertally_declare::error::{PipelineError, Result, failure};
use evertally_declare::event::{Columns, Field};
use evertally_declare::format::Format;
use evertally_declare::steps::Instant;
use evertally_tables::input::{Events, ReadOptions};
use std::fmt::Write;
use std::io::Cursor;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The flights: time, origin and aircraft.
const FLIGHTS: &[u8] = include_bytes!("../demo/flights-2013.parquet");

/// Midnight in New York, 2013-01-01.
const START: i64 = 1_357_016_400_000_000;

/// Seconds of 2013 per real second: an hour takes half a second.
const SPEED: f64 = 7200.0;

/// The interval between two batches of flights.
const SEND_INTERVAL: Duration = Duration::from_millis(100);

/// The streams of the demonstration: counts since New Year, and counts of the last week.
const STREAMS: &str = r#"
[[stream]]
stream = "flights"
title = "Flights from New York in 2013"
public = true
time = "time"
start = "2013-01-01"
end = "2014-01-01"
every = "1h"
time-zone = "America/New_York"
group-by = ["origin"]
groups = ["EWR", "JFK", "LGA"]
person = "aircraft"
max-events = 300
max-events-per-step = 3
rho = 0.5
missing = "skip"

[[stream]]
stream = "flights-of-the-week"
title = "Flights from New York in the last 7 days"
public = true
time = "time"
start = "2013-01-01"
every = "1h"
unbounded = true
time-zone = "America/New_York"
group-by = ["origin"]
groups = ["EWR", "JFK", "LGA"]
workload = "window(7d)"
rho = 0.5
"#;

/// Plays the year until the process receives a signal to end.
///
/// # Errors
/// If the address is in use, or temporary files cannot be written.
pub async fn play(listen: SocketAddr, started: impl FnOnce(&Running, &str)) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("serve.toml");
    let head = format!(
        "folder = \"data\"\nkey = \"key/demo.key\"\n[private]\nlisten = \"{listen}\"\n[steps]\ngrace = \"1h\"\ndelay = \
         \"15m\"\nahead = \"1h\"\ncatch-up = \"0s\"\n"
    );
    std::fs::write(&file, head + STREAMS)?;
    let clock = Arc::new(FastClock::new(Instant::from_micros(START), SPEED));
    let running = Running::by(&Config::read(&file)?, Arc::clone(&clock) as Arc<dyn Clock>).await?;
    let (_, token) = running.app.tokens.make(&crate::tokens::Role::Operate, "demonstration")?;
    let shutdown = shutdown_signal()?;
    started(&running, &token);
    clock.go();
    let is_over = Arc::new(AtomicBool::new(false));
    let feeding = {
        let (service, is_over) = (Arc::clone(&running.service), Arc::clone(&is_over));
        std::thread::spawn(move || feed(&service, &*clock, &is_over))
    };
    shutdown.await?;
    is_over.store(true, Ordering::Relaxed);
    running.stop().await;
    feeding.join().map_err(|_| failure("the demonstration ended early"))?
}

/// The URL of the demonstration.
pub fn url(running: &Running) -> &str {
    running.url(Side::Private).unwrap_or("")
}

/// Sends each flight once its time has come.
fn feed(service: &crate::engine::Service, clock: &dyn Clock, is_over: &AtomicBool) -> Result<()> {
    let flights = flights()?;
    let (mut at, mut number) = (0, 0);
    let streams = service.streams();
    while !is_over.load(Ordering::Relaxed) && at < flights.len() {
        std::thread::sleep(SEND_INTERVAL);
        let now = clock.now().micros();
        let to = at + flights[at..].partition_point(|(time, _)| *time <= now);
        if to == at {
            continue;
        }
        let text: String = flights[at..to].iter().map(|(_, line)| line.as_str()).collect();
        (at, number) = (to, number + 1);
        for info in &streams {
            let batch = (Format::JsonLines, Box::new(Cursor::new(text.clone().into_bytes())) as _);
            let taken = service.accept(info, format!("hour {number}").as_str(), batch);
            if let Some(refusal) = taken.err().filter(|_| !is_over.load(Ordering::Relaxed)) {
                tracing::warn!(stream = info.name(), refusal = %refusal, "flights were not accepted");
            }
        }
    }
    Ok(())
}

/// All flights ordered by time, each as a line of JSON.
fn flights() -> Result<Vec<(i64, String)>> {
    let columns = Columns {
        time: "time".into(),
        time_of_day: None,
        labels: vec!["origin".into()],
        person: Some("aircraft".into()),
        value: None,
        filter: Vec::new(),
    };
    let (options, running) = (ReadOptions::default(), AtomicBool::new(false));
    let bytes = Box::new(Cursor::new(FLIGHTS));
    let mut events = Events::from_reader("flights of 2013", bytes, Format::Parquet, &columns, &options, &running)?;
    let mut flights = Vec::new();
    let mut visit = |event: &evertally_declare::event::Event<'_>| -> Result<()> {
        let (Field::Instant(time) | Field::Civil(time)) = event.time() else { return Ok(()) };
        let mut line = format!("{{\"time\":\"{}\",\"origin\":\"{}\"", Field::Instant(time), event.label(0));
        if !event.person().is_missing() {
            write!(line, ",\"aircraft\":\"{}\"", event.person()).expect("a String accepts every write");
        }
        flights.push((time, line + "}\n"));
        Ok(())
    };
    while events.next_batch::<PipelineError>(&mut visit)? {}
    flights.sort();
    Ok(flights)
}
