//! URLs of NATS.

use crate::tls::Encryption;
use crate::{Address, SourceOptions};
use evertally_declare::error::{Result, usage};

const PORT: u16 = 4222;

/// The parts of a URL, and its options.
#[derive(Clone, Debug)]
pub(crate) struct NatsConfig {
    pub(super) hosts: Vec<(String, u16)>,
    pub(super) user: Option<String>,
    pub(super) encryption: Encryption,
    pub(super) stream: String,
    /// Only messages of these subjects.
    pub(super) subject: Option<String>,
    pub(super) starts_at_latest: bool,
    pub(super) options: SourceOptions,
}

impl NatsConfig {
    pub(crate) fn new(mut address: Address, options: &SourceOptions) -> Result<Self> {
        let stream = address.path.clone();
        if stream.is_empty() || stream.contains(['.', '*', '>', '/', '\\']) || stream.contains(char::is_whitespace) {
            return Err(usage("the URL has no name of a stream; write nats://HOST:4222/STREAM"));
        }
        if address.hosts.is_empty() {
            return Err(usage("the URL names no server; write nats://HOST:4222/STREAM"));
        }
        if address.user.is_some() && options.password_file.is_none() {
            return Err(usage("the source needs a password; write it to a file, and name that with --password-file"));
        }
        let encryption = Encryption::of(&mut address, options, false)?;
        let subject = address.query.take("subject")?;
        if subject.as_ref().is_some_and(|subject| subject.is_empty() || subject.contains(char::is_whitespace)) {
            return Err(usage("the parameter `subject` of the URL is not a subject; write subject=orders.>"));
        }
        let starts_at_latest = match address.query.take("start")?.as_deref() {
            None | Some("earliest") => false,
            Some("latest") => true,
            Some(other) => {
                return Err(usage(format!("the parameter `start` of the URL is `{other}`; choose earliest or latest")));
            }
        };
        address.query.refuse_others(&["start", "subject", "tls"])?;
        Ok(Self {
            hosts: address.hosts.into_iter().map(|(host, port)| (host, port.unwrap_or(PORT))).collect(),
            user: address.user,
            encryption,
            stream,
            subject,
            starts_at_latest,
            options: options.clone(),
        })
    }
}
