//! Webhooks: publications, sent to subscribers.
//!
//! The store is the outbox: publications stay there, together with the last one delivered to each webhook. A
//! publication is sent again until it is answered with a status of 2xx, in order, and with the same `Idempotency-Key`
//! each time, so that repetitions are recognizable. A webhook receives the publications after it was first configured.
//! Each stream has its own order and its own pauses: one that is refused delays no other.

use crate::engine::{Service, StreamInfo};
use crate::http::publication_message;
use evertally_declare::error::{PipelineError, Result, failure};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often webhooks check for new publications.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The first and the longest pause after an error.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(300);
/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// A stream whose last publication was not accepted.
struct Setback {
    problem: String,
    pause: Duration,
    until: Instant,
}

/// Why publications of a stream were not sent, and how many were accepted before.
struct Unsent {
    error: PipelineError,
    accepted: u64,
}

/// What an operator has to know: the problem of the first stream, and the names of the others.
fn in_words(setbacks: &BTreeMap<String, Setback>) -> Option<String> {
    let first = setbacks.values().next()?;
    let others: Vec<&str> = setbacks.keys().skip(1).map(String::as_str).collect();
    Some(match others.is_empty() {
        true => first.problem.clone(),
        false => format!("{}; nor publications of {}", first.problem, others.join(", ")),
    })
}

/// A webhook.
pub struct Webhook {
    address: String,
    streams: Vec<String>,
    authorization: Option<String>,
    agent: ureq::Agent,
    problem: Arc<Mutex<Option<String>>>,
}

impl Webhook {
    /// A webhook at a URL, for these streams, or for all public ones if none are named.
    pub fn new(address: &str, streams: &[String], authorization: Option<String>) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(ANSWER_TIMEOUT))
            .http_status_as_error(false)
            .max_redirects(0)
            .build();
        let (address, streams) = (address.to_owned(), streams.to_vec());
        Self { address, streams, authorization, agent: config.into(), problem: Arc::default() }
    }

    /// Why it cannot be delivered, if it cannot; shared with its observers.
    pub fn problem(&self) -> Arc<Mutex<Option<String>>> {
        Arc::clone(&self.problem)
    }

    /// Sends publications until `is_over`. Its thread waits for nothing but answers. A stream whose publication is not
    /// accepted waits for its next attempt alone.
    pub fn run(&self, service: &Service, is_over: &AtomicBool) {
        let mut setbacks = BTreeMap::new();
        while !is_over.load(Ordering::Relaxed) {
            for info in service.streams().iter().filter(|info| self.wants(info)) {
                self.go_on(service, info, &mut setbacks, is_over);
            }
            self.say(in_words(&setbacks));
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Sends the new publications of a stream, unless it waits after an error.
    fn go_on(
        &self,
        service: &Service,
        info: &StreamInfo,
        setbacks: &mut BTreeMap<String, Setback>,
        is_over: &AtomicBool,
    ) {
        let name = info.name();
        if setbacks.get(name).is_some_and(|setback| Instant::now() < setback.until) {
            return;
        }
        match self.send_new(service, info, is_over) {
            // Sending may have been cut off.
            Ok(()) if is_over.load(Ordering::Relaxed) => {}
            Ok(()) => {
                if setbacks.remove(name).is_some() {
                    tracing::info!(stream = name, address = self.address, "a webhook accepts publications again");
                }
            }
            Err(Unsent { error, accepted }) => {
                tracing::warn!(stream = name, %error, "a webhook refuses a publication");
                // A receiver that accepted something in between is not down.
                let before = setbacks.get(name).filter(|_| accepted == 0).map(|setback| setback.pause);
                let pause = before.map_or(FIRST_PAUSE, |pause| MAX_PAUSE.min(2 * pause));
                let setback = Setback { problem: error.to_string(), pause, until: Instant::now() + pause };
                setbacks.insert(name.to_owned(), setback);
            }
        }
    }

    fn say(&self, problem: Option<String>) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }

    fn send_new(&self, service: &Service, info: &StreamInfo, is_over: &AtomicBool) -> Result<(), Unsent> {
        let mut accepted = 0;
        let mut all = || -> Result<()> {
            let shown = info.progress().publications;
            let Some(last) = service.delivered(&self.address, info)? else {
                return service.set_delivered(&self.address, info, shown);
            };
            for publication in last + 1..=shown {
                if is_over.load(Ordering::Relaxed) {
                    return Ok(());
                }
                self.send(service, info, publication)?;
                service.set_delivered(&self.address, info, publication)?;
                accepted += 1;
            }
            Ok(())
        };
        all().map_err(|error| Unsent { error, accepted })
    }

    fn wants(&self, info: &StreamInfo) -> bool {
        if self.streams.is_empty() { info.is_public() } else { self.streams.iter().any(|name| name == info.name()) }
    }

    fn send(&self, service: &Service, info: &StreamInfo, publication: u64) -> Result<()> {
        let message = publication_message(service, info, publication)?;
        let name = info.name();
        let mut request = self.agent.post(&self.address).header("content-type", "application/json");
        request = request.header("idempotency-key", format!("{name}/{publication}"));
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        let cannot = |why: String| {
            failure(format!("the webhook {} did not accept publication {publication} of `{name}`: {why}", self.address))
        };
        let answer = request.send(&message).map_err(|e| cannot(e.to_string()))?;
        match answer.status().as_u16() {
            200..=299 => Ok(()),
            status => Err(cannot(format!("it answered with status {status}"))),
        }
    }
}
