//! Webhooks: publications, sent to subscribers.
//!
//! The store is the outbox: publications stay there, together with the last one delivered to each webhook. A
//! publication is sent again until it is answered with a status of 2xx, in order, and with the same `Idempotency-Key`
//! each time, so that repetitions are recognizable. A webhook receives the publications after it was first configured.
//! Each stream has its own order and its own pauses: one that is refused delays no other.
//!
//! A publication whose content the receiver keeps refusing becomes a *dead letter*: it is set aside, the next ones are
//! sent, and an operator sends it again or discards it.

mod delivery;
mod signature;
mod state;

pub use state::{WebhookState, WebhookStream};

use crate::config::{WebhookConfig, secret_of};
use crate::engine::{Refusal, Service, StreamInfo};
pub use delivery::MessageWriter;
use delivery::Webhook;
use evertally_declare::error::{Result, usage};
use signature::Signer;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The most dead letters that one request of an operator sends again.
const MAX_RESENT: usize = 100;

/// All webhooks of a service.
pub struct Webhooks {
    message: MessageWriter,
    running: RwLock<Vec<RunningWebhook>>,
}

struct RunningWebhook {
    config: WebhookConfig,
    hook: Arc<Webhook>,
    is_over: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What an operator does with dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadLetterAction {
    /// Sends them again; accepted ones are removed.
    Resend,
    /// Removes them: they are never sent.
    Discard,
}

impl Webhooks {
    /// No webhooks yet; `message` writes the bodies of their requests.
    pub fn new(message: MessageWriter) -> Self {
        Self { message, running: RwLock::default() }
    }

    /// Starts the webhooks of a configuration; those that run already with the same settings continue, and others stop.
    ///
    /// # Errors
    /// If a secret cannot be read; then nothing has changed.
    pub fn set(&self, configs: &[WebhookConfig], service: &Arc<Service>) -> Result<()> {
        let hook = |config| webhook_of(config, self.message);
        let hooks = configs.iter().map(hook).collect::<Result<Vec<Webhook>>>()?;
        let mut running = self.running.write().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *running);
        for (config, hook) in configs.iter().zip(hooks) {
            // A changed secret is a change, too.
            let same = before.iter().position(|own| own.config == *config && own.hook.has_secrets_of(&hook));
            running.push(match same {
                Some(place) => before.swap_remove(place),
                None => {
                    let earlier = before.iter().find(|own| own.config.url == config.url).and_then(RunningWebhook::end);
                    RunningWebhook::start(config, hook, service, earlier)
                }
            });
        }
        before.iter().for_each(|ended| drop(ended.end()));
        Ok(())
    }

    /// Checks that the secrets of webhooks can be read.
    ///
    /// # Errors
    /// The first that cannot.
    pub fn check(configs: &[WebhookConfig]) -> Result<()> {
        configs.iter().try_for_each(|config| secrets_of(config).map(drop))
    }

    /// Tells all webhooks to end, and waits briefly for them: one that waits for an answer may take longer.
    pub fn stop(&self, most: Duration) {
        let running = self.running.read().unwrap_or_else(PoisonError::into_inner);
        running.iter().for_each(|own| own.is_over.store(true, Ordering::Relaxed));
        let until = Instant::now() + most;
        while running.iter().any(|own| !own.is_finished()) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Why publications are not delivered, in words for an operator.
    pub fn problems(&self) -> Vec<String> {
        let running = self.running.read().unwrap_or_else(PoisonError::into_inner);
        running.iter().filter_map(|own| own.hook.problem()).collect()
    }

    /// The state of all webhooks.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn states(&self, service: &Service) -> Result<Vec<WebhookState>> {
        self.hooks().iter().map(|hook| hook.state(service)).collect()
    }

    fn hooks(&self) -> Vec<Arc<Webhook>> {
        let running = self.running.read().unwrap_or_else(PoisonError::into_inner);
        running.iter().map(|own| Arc::clone(&own.hook)).collect()
    }

    /// Sends dead letters of a stream again, or discards them; returns how many are left. All of them without a
    /// `publication`. It may take as long as the receiver does.
    ///
    /// # Errors
    /// If there is no such webhook or dead letter, or the receiver refuses one of them again: the earlier ones are
    /// removed then.
    pub fn settle_dead_letters(
        &self,
        service: &Service,
        url: &str,
        info: &StreamInfo,
        publication: Option<u64>,
        action: DeadLetterAction,
    ) -> Result<usize, Refusal> {
        let hook = self.hooks().into_iter().find(|hook| hook.address() == url);
        let hook = hook.ok_or_else(|| usage(format!("the configuration has no webhook with the url `{url}`")))?;
        let mut dead = service.dead_letters(url, info)?;
        dead.retain(|letter| publication.is_none_or(|wanted| letter.publication == wanted));
        if dead.is_empty() {
            return Err(usage(format!("the webhook has no such dead letter of stream `{}`", info.name())).into());
        }
        for letter in dead.iter().take(MAX_RESENT) {
            if action == DeadLetterAction::Resend {
                hook.send(service, info, letter.publication).map_err(|refused| usage(refused.to_string()))?;
            }
            service.remove_dead_letter(url, info, letter.publication)?;
        }
        let left = service.dead_letters(url, info)?.len();
        hook.note_dead_letters(service);
        Ok(left)
    }
}

impl RunningWebhook {
    /// Starts a webhook once the thread of an earlier one with the same URL has ended: the latter may wait for an
    /// answer to a publication, which the new one would send again.
    fn start(config: &WebhookConfig, hook: Webhook, service: &Arc<Service>, earlier: Option<JoinHandle<()>>) -> Self {
        let (hook, is_over) = (Arc::new(hook), Arc::<AtomicBool>::default());
        let (sending, service, ends) = (Arc::clone(&hook), Arc::clone(service), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || {
            if let Some(earlier) = earlier {
                let _ = earlier.join(); // if it has panicked, nothing more is sent by it
            }
            sending.run(&service, &ends);
        });
        Self { config: config.clone(), hook, is_over, thread: Mutex::new(Some(thread)) }
    }

    /// Tells it to end, and returns its thread.
    fn end(&self) -> Option<JoinHandle<()>> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread().take()
    }

    fn thread(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_finished(&self) -> bool {
        self.thread().as_ref().is_none_or(JoinHandle::is_finished)
    }
}

/// The value of the header `Authorization`, and the signer.
fn secrets_of(config: &WebhookConfig) -> Result<(Option<String>, Option<Signer>)> {
    let authorization = config.authorization_file.as_deref().map(secret_of).transpose()?;
    Ok((authorization, config.secret_file.as_deref().map(Signer::from_file).transpose()?))
}

fn webhook_of(config: &WebhookConfig, message: MessageWriter) -> Result<Webhook> {
    let (authorization, signer) = secrets_of(config)?;
    Ok(Webhook::new(config, message, authorization, signer))
}
