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
mod settings;
mod signature;
mod state;

pub use state::{WebhookState, WebhookStream};

use crate::config::WebhookConfig;
use crate::engine::{Refusal, Service, StreamInfo};
use crate::workers::{WorkerTask, Workers};
pub use delivery::MessageWriter;
use delivery::Webhook;
use evertally_declare::error::{Result, usage};
use settings::WebhookSettings;
use std::sync::Arc;
use std::time::Duration;

/// The most dead letters that one request of an operator sends again.
const MAX_RESENT: usize = 100;

/// All webhooks of a service.
pub struct Webhooks {
    message: MessageWriter,
    running: Workers<WebhookSettings, Webhook>,
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
        Self { message, running: Workers::default() }
    }

    /// Starts the webhooks of a configuration; those that run already with the same settings continue, and others stop.
    ///
    /// # Errors
    /// If a secret cannot be read; then nothing has changed.
    pub fn set(&self, configs: &[WebhookConfig], service: &Arc<Service>) -> Result<()> {
        let settings = configs.iter().map(WebhookSettings::read).collect::<Result<Vec<_>>>()?;
        self.running.set(&settings, |settings| {
            let hook = Arc::new(Webhook::new(settings.clone(), self.message));
            let (sending, service) = (Arc::clone(&hook), Arc::clone(service));
            let work: WorkerTask = Box::new(move |cancelled| sending.run(&service, cancelled));
            Ok((hook, work))
        })
    }

    /// Checks that the secrets of webhooks can be read.
    ///
    /// # Errors
    /// The first that cannot.
    pub fn check(configs: &[WebhookConfig]) -> Result<()> {
        configs.iter().try_for_each(|config| WebhookSettings::read(config).map(drop))
    }

    /// Ends all webhooks, and waits for them, but not longer than `most`: one that waits for an answer may take longer.
    pub fn stop(&self, most: Duration) {
        self.running.stop(most);
    }

    /// Why publications are not delivered, in words for an operator.
    pub fn problems(&self) -> Vec<String> {
        self.running.progress().iter().filter_map(|hook| hook.problem()).collect()
    }

    /// The state of all webhooks.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn states(&self, service: &Service) -> Result<Vec<WebhookState>> {
        self.running.progress().iter().map(|hook| hook.state(service)).collect()
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
        name: &str,
        info: &StreamInfo,
        publication: Option<u64>,
        action: DeadLetterAction,
    ) -> Result<usize, Refusal> {
        let hook = self.running.progress().into_iter().find(|hook| hook.name() == name);
        let hook = hook.ok_or_else(|| usage(format!("the configuration has no webhook called `{name}`")))?;
        let mut dead = service.dead_letters(hook.url(), info)?;
        dead.retain(|letter| publication.is_none_or(|wanted| letter.publication == wanted));
        if dead.is_empty() {
            return Err(usage(format!("the webhook has no such dead letter of stream `{}`", info.name())).into());
        }
        for letter in dead.iter().take(MAX_RESENT) {
            if action == DeadLetterAction::Resend {
                hook.send(service, info, letter.publication).map_err(|refused| usage(refused.to_string()))?;
            }
            service.remove_dead_letter(hook.url(), info, letter.publication)?;
        }
        let left = service.dead_letters(hook.url(), info)?.len();
        hook.note_dead_letters(service);
        Ok(left)
    }
}
