//! Webhooks: publications, sent to subscribers.
//!
//! The store is the outbox: publications stay there, together with the last one delivered to each webhook. A
//! publication is sent again until it is answered with a status of 2xx, in order, and with the same `Idempotency-Key`
//! each time, so that repetitions are recognizable. A webhook receives the publications after it was first configured.

use crate::engine::{Service, StreamInfo};
use crate::http::publication_message;
use evertally_declare::error::{Result, failure};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often webhooks check for new publications.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The first and the longest pause after an error.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(300);
/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

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

    /// Sends publications until `is_over`. Its thread waits for nothing but answers.
    pub fn run(&self, service: &Service, is_over: &AtomicBool) {
        let mut pause = FIRST_PAUSE;
        while !is_over.load(Ordering::Relaxed) {
            match self.send_new(service, is_over) {
                Ok(()) => {
                    pause = FIRST_PAUSE;
                    self.say(None);
                    std::thread::sleep(POLL_INTERVAL);
                }
                Err(error) => {
                    self.say(Some(error.to_string()));
                    let until = std::time::Instant::now() + pause;
                    while std::time::Instant::now() < until && !is_over.load(Ordering::Relaxed) {
                        std::thread::sleep(POLL_INTERVAL);
                    }
                    pause = MAX_PAUSE.min(2 * pause);
                }
            }
        }
    }

    fn say(&self, problem: Option<String>) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }

    fn send_new(&self, service: &Service, is_over: &AtomicBool) -> Result<()> {
        for info in service.streams().iter().filter(|info| self.wants(info)) {
            let shown = info.progress().publications;
            let Some(last) = service.delivered(&self.address, info)? else {
                service.set_delivered(&self.address, info, shown)?;
                continue;
            };
            for publication in last + 1..=shown {
                if is_over.load(Ordering::Relaxed) {
                    return Ok(());
                }
                self.send(service, info, publication)?;
                service.set_delivered(&self.address, info, publication)?;
            }
        }
        Ok(())
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
