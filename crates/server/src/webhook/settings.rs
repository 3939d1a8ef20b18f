//! The settings of a webhook, together with its secrets: a changed secret is a change, too.

use super::signature::Signer;
use crate::config::{WebhookConfig, secret_of};
use crate::workers::WorkerConfig;
use evertally_declare::error::Result;

#[derive(Clone, PartialEq)]
pub(super) struct WebhookSettings {
    pub(super) config: WebhookConfig,
    pub(super) name: String,
    /// The value of the header `Authorization`.
    pub(super) authorization: Option<String>,
    pub(super) signer: Option<Signer>,
}

impl WebhookSettings {
    /// Reads the secrets of a webhook.
    ///
    /// # Errors
    /// If one cannot be read.
    pub(super) fn read(config: &WebhookConfig) -> Result<Self> {
        let authorization = config.authorization_file.as_deref();
        let authorization = authorization.map(|path| secret_of(path, "authorization-file")).transpose()?;
        let signer = config.secret_file.as_deref().map(Signer::from_file).transpose()?;
        Ok(Self { config: config.clone(), name: config.name(), authorization, signer })
    }
}

impl WorkerConfig for WebhookSettings {
    const NAME: &str = "webhook";

    fn is_same_work(&self, other: &Self) -> bool {
        self.config.url == other.config.url
    }
}
