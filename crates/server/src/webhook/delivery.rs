//! One webhook: sends publications, and tries again.

use super::settings::WebhookSettings;
use super::state::{WebhookState, WebhookStream};
use crate::engine::{Service, StreamInfo};
use evertally_declare::error::{PipelineError, Result, failure};
use evertally_feeds::CancellationToken;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often webhooks check for new publications.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The first and the longest pause after an error.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(300);
/// The longest pause that a receiver can ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);
/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// The statuses with which a receiver refuses the content of a message. Others mean that it, or the way to it, is
/// broken: then the next message would fare no better.
const CONTENT_REFUSED: [u16; 6] = [400, 409, 410, 413, 415, 422];

/// A stream whose last publication was not accepted.
struct Setback {
    problem: String,
    pause: Duration,
    until: Instant,
    /// The publication, and since when its content is refused.
    refused: Option<(u64, Instant)>,
}

/// Why a publication was not accepted.
pub(super) struct NotAccepted {
    error: PipelineError,
    status: Option<u16>,
    retry_after: Option<Duration>,
}

impl From<PipelineError> for NotAccepted {
    fn from(error: PipelineError) -> Self {
        Self { error, status: None, retry_after: None }
    }
}

impl fmt::Display for NotAccepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

/// Why publications of a stream were not sent, the first of them, and how many were accepted before.
struct UnsentPublication {
    why: NotAccepted,
    publication: u64,
    accepted: u64,
}

/// The problem of the first stream, and the names of the others.
fn in_words(setbacks: &BTreeMap<String, Setback>) -> Option<String> {
    let first = setbacks.values().next()?;
    let others: Vec<&str> = setbacks.keys().skip(1).map(String::as_str).collect();
    Some(match others.is_empty() {
        true => first.problem.clone(),
        false => format!("{}; nor publications of {}", first.problem, others.join(", ")),
    })
}

/// Writes the message about a publication.
pub type MessageWriter = fn(&Service, &StreamInfo, u64) -> Result<String>;

/// A webhook.
pub(super) struct Webhook {
    message: MessageWriter,
    settings: WebhookSettings,
    agent: ureq::Agent,
    setbacks: Mutex<BTreeMap<String, Setback>>,
    /// The numbers of dead letters, by stream.
    dead: Mutex<BTreeMap<String, usize>>,
}

impl Webhook {
    pub(super) fn new(settings: WebhookSettings, message: MessageWriter) -> Self {
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(ANSWER_TIMEOUT))
            .http_status_as_error(false)
            .max_redirects(0)
            .build();
        Self { message, settings, agent: agent.into(), setbacks: Mutex::default(), dead: Mutex::default() }
    }

    /// What messages call it.
    pub(super) fn name(&self) -> &str {
        &self.settings.name
    }

    /// The key of its records in the store.
    pub(super) fn url(&self) -> &str {
        &self.settings.config.url
    }

    /// Why publications are not delivered, in words for an operator.
    pub(super) fn problem(&self) -> Option<String> {
        let refused = in_words(&self.setbacks());
        let dead = self.dead.lock().unwrap_or_else(PoisonError::into_inner);
        let count: usize = dead.values().sum();
        let set_aside = (count > 0).then(|| {
            let streams: Vec<&str> = dead.keys().map(String::as_str).collect();
            format!(
                "the webhook {} refused {count} {} of {} for good: send them again or discard them \
                 (`/v1/webhooks/dead-letters`)",
                self.name(),
                if count == 1 { "publication" } else { "publications" },
                streams.join(", ")
            )
        });
        let both: Vec<String> = refused.into_iter().chain(set_aside).collect();
        (!both.is_empty()).then(|| both.join("; "))
    }

    fn setbacks(&self) -> MutexGuard<'_, BTreeMap<String, Setback>> {
        self.setbacks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its state, for an operator.
    pub(super) fn state(&self, service: &Service) -> Result<WebhookState> {
        let stream = |info: &StreamInfo| -> Result<WebhookStream> {
            Ok(WebhookStream {
                name: info.name().to_owned(),
                delivered: service.delivered(self.url(), info)?,
                published: info.progress().publications,
                problem: self.setbacks().get(info.name()).map(|setback| setback.problem.clone()),
                dead: service.dead_letters(self.url(), info)?,
            })
        };
        let streams = service.streams();
        let streams = streams.iter().filter(|info| self.wants(info)).map(|info| stream(info)).collect::<Result<_>>()?;
        Ok(WebhookState { name: self.name().to_owned(), streams })
    }

    /// Sends publications until it is cancelled. Its thread waits for nothing but answers. A stream whose publication
    /// is not accepted waits for its next attempt alone.
    pub(super) fn run(&self, service: &Service, cancelled: &CancellationToken) {
        self.note_dead_letters(service);
        while !cancelled.is_cancelled() {
            for info in service.streams().iter().filter(|info| self.wants(info)) {
                self.deliver(service, info, cancelled);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Counts the dead letters in the store.
    pub(super) fn note_dead_letters(&self, service: &Service) {
        let streams = service.streams();
        let counts = streams.iter().filter(|info| self.wants(info)).filter_map(|info| {
            let count = service.dead_letters(self.url(), info).ok()?.len();
            (count > 0).then(|| (info.name().to_owned(), count))
        });
        *self.dead.lock().unwrap_or_else(PoisonError::into_inner) = counts.collect();
    }

    /// Sends the new publications of a stream, unless it waits after an error.
    fn deliver(&self, service: &Service, info: &StreamInfo, cancelled: &CancellationToken) {
        let name = info.name();
        if self.setbacks().get(name).is_some_and(|setback| Instant::now() < setback.until) {
            return;
        }
        match self.send_new(service, info, cancelled) {
            // Sending may have been cut off.
            Ok(()) if cancelled.is_cancelled() => {}
            Ok(()) => {
                if self.setbacks().remove(name).is_some() {
                    tracing::info!(stream = name, webhook = self.name(), "a webhook accepts publications again");
                }
            }
            Err(unsent) => self.set_back(service, info, &unsent),
        }
    }

    /// Sets the next attempt after an error, or sets a publication aside whose content was refused for too long.
    fn set_back(&self, service: &Service, info: &StreamInfo, unsent: &UnsentPublication) {
        let UnsentPublication { why, publication, accepted } = unsent;
        let name = info.name();
        tracing::warn!(stream = name, webhook = self.name(), error = %why, "a webhook refuses a publication");
        let mut setbacks = self.setbacks();
        let before = setbacks.remove(name);
        let now = Instant::now();
        let is_content = why.status.is_some_and(|status| CONTENT_REFUSED.contains(&status));
        let since = before.as_ref().and_then(|before| before.refused).filter(|(of, _)| of == publication);
        let refused = is_content.then(|| since.unwrap_or((*publication, now)));
        if let (Some((_, since)), Some(status)) = (refused, why.status)
            && now.duration_since(since) >= self.settings.config.give_up_after.duration()
        {
            let set_aside = service.set_dead_letter(self.url(), info, *publication, status);
            if set_aside.is_ok() {
                tracing::error!(stream = name, publication, status, "a refused publication is set aside");
                drop(setbacks);
                self.note_dead_letters(service);
                return;
            }
        }
        // A receiver that accepted something in between is not down.
        let before = before.filter(|_| *accepted == 0).map(|before| before.pause);
        let pause = before.map_or(FIRST_PAUSE, |pause| MAX_PAUSE.min(2 * pause));
        let until = now + why.retry_after.map_or(pause, |asked| pause.max(asked.min(MAX_RETRY_AFTER)));
        setbacks.insert(name.to_owned(), Setback { problem: why.to_string(), pause, until, refused });
    }

    fn send_new(
        &self,
        service: &Service,
        info: &StreamInfo,
        cancelled: &CancellationToken,
    ) -> Result<(), UnsentPublication> {
        let (mut accepted, mut publication) = (0, 0);
        let mut all = || -> Result<(), NotAccepted> {
            let shown = info.progress().publications;
            let Some(last) = service.delivered(self.url(), info)? else {
                return Ok(service.set_delivered(self.url(), info, shown)?);
            };
            for next in last + 1..=shown {
                if cancelled.is_cancelled() {
                    return Ok(());
                }
                publication = next;
                self.send(service, info, next)?;
                service.set_delivered(self.url(), info, next)?;
                accepted += 1;
            }
            Ok(())
        };
        all().map_err(|why| UnsentPublication { why, publication, accepted })
    }

    fn wants(&self, info: &StreamInfo) -> bool {
        let streams = &self.settings.config.streams;
        if streams.is_empty() { info.is_public() } else { streams.iter().any(|name| name == info.name()) }
    }

    /// Sends one publication.
    ///
    /// # Errors
    /// If it is not accepted.
    pub(super) fn send(&self, service: &Service, info: &StreamInfo, publication: u64) -> Result<(), NotAccepted> {
        let message = (self.message)(service, info, publication)?;
        let name = info.name();
        let mut request = self.agent.post(self.url()).header("content-type", "application/json");
        // Headers are ASCII, names of streams need not be.
        let encoded: String = form_urlencoded::byte_serialize(name.as_bytes()).collect();
        request = request.header("idempotency-key", format!("{encoded}/{publication}"));
        if let Some(authorization) = &self.settings.authorization {
            request = request.header("authorization", authorization);
        }
        if let Some(signer) = &self.settings.signer {
            let (id, seconds) = (message_id(service, name, publication), jiff::Timestamp::now().as_second());
            request = request
                .header("webhook-id", &id)
                .header("webhook-timestamp", seconds.to_string())
                .header("webhook-signature", signer.sign(&id, seconds, &message));
        }
        let cannot = |why: String| {
            failure(format!("the webhook {} did not accept publication {publication} of `{name}`: {why}", self.name()))
        };
        let answer = request.send(&message).map_err(|e| cannot(e.to_string()))?;
        match answer.status().as_u16() {
            200..=299 => Ok(()),
            status => Err(NotAccepted {
                error: cannot(format!("it answered with status {status}")),
                status: Some(status),
                retry_after: answer.headers().get("retry-after").and_then(|text| retry_after(text.to_str().ok()?)),
            }),
        }
    }
}

/// The id of a message: the same each time that it is sent, and without a full stop, which separates the signed parts.
fn message_id(service: &Service, stream: &str, publication: u64) -> String {
    let text = format!("{} {publication} {stream}", service.folder_id);
    let digest = blake3::derive_key("evertally serve 1 webhook message", text.as_bytes());
    format!("msg_{}", evertally::hex(&digest[..16]))
}

/// The pause in a `Retry-After` header: seconds, or a date (RFC 9110, section 10.2.3).
fn retry_after(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text.trim()).ok()?;
    let seconds = at.as_second().saturating_sub(jiff::Timestamp::now().as_second());
    Some(Duration::from_secs(seconds.try_into().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_may_ask_for_a_pause() {
        assert_eq!(retry_after("120"), Some(Duration::from_secs(120)));
        let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(90);
        let date = soon.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let pause = retry_after(&date).unwrap();
        assert!((80..=90).contains(&pause.as_secs()), "{pause:?}");
        assert_eq!(retry_after("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        assert_eq!(retry_after("soon"), None);
    }
}
