//! The state of webhooks, for an operator.

use crate::engine::DeadLetter;

/// The state of a webhook, for an operator.
#[derive(Clone, Debug)]
pub struct WebhookState {
    /// What messages call it.
    pub name: String,
    /// Its streams.
    pub streams: Vec<WebhookStream>,
}

/// The deliveries of a stream to a webhook.
#[derive(Clone, Debug)]
pub struct WebhookStream {
    /// The name of the stream.
    pub name: String,
    /// The last publication that was accepted or set aside; `None` before the first attempt.
    pub delivered: Option<u64>,
    /// The last publication shown.
    pub published: u64,
    /// Why the next one is not accepted, if so.
    pub problem: Option<String>,
    /// Publications that were set aside.
    pub dead: Vec<DeadLetter>,
}
