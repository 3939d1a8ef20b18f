//! The connection with a server.

use super::config::NatsConfig;
use crate::dial::password;
use crate::tls::explained;
use crate::{SourceError, SourceOutcome};
use async_nats::jetstream::consumer::pull::{Config as PullConfig, Stream as Messages};
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy};
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::message::Message;
use async_nats::jetstream::stream::Info;
use async_nats::jetstream::{self, Context, ErrorCode};
use async_nats::{ConnectErrorKind, ConnectOptions, Event};
use evertally_declare::error::usage;
use futures_util::StreamExt;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// How long a connection, and an answer, may take.
const TIMEOUT: Duration = Duration::from_secs(8);
/// How long a consumer outlives its connection.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(30);
/// Without a sign of life for twice this time, the connection is lost.
const HEARTBEAT: Duration = Duration::from_secs(3);
/// The most bytes of messages that are underway.
const FETCH_BYTES: usize = 4 << 20;

fn away(why: impl std::fmt::Display) -> SourceError {
    SourceError::Away(explained(format_args!("the server of NATS: {why}")))
}

fn late<T>(_: T) -> SourceError {
    away(format_args!("no answer in {} seconds", TIMEOUT.as_secs()))
}

/// A connection. It is not repaired: after a problem another one is made, which reads the password again.
pub(super) struct NatsClient {
    context: Context,
    lost: watch::Receiver<bool>,
}

impl NatsClient {
    pub(super) async fn connect(config: &NatsConfig) -> SourceOutcome<Self> {
        let (sender, lost) = watch::channel(false);
        let mut options = ConnectOptions::new()
            .event_callback(move |event| {
                if matches!(event, Event::Disconnected | Event::Closed) {
                    sender.send_replace(true);
                }
                std::future::ready(())
            })
            .name("evertally")
            .connection_timeout(TIMEOUT)
            .request_timeout(Some(TIMEOUT))
            .max_reconnects(1)
            .require_tls(config.encryption.is_on());
        if let Some(secret) = password(config.options.password_file.as_deref())? {
            options = match &config.user {
                Some(user) => options.user_and_password(user.clone(), secret),
                None => options.token(secret),
            };
        }
        if let Some(tls) = config.encryption.config()? {
            options = options.tls_client_config((*tls).clone());
        }
        let scheme = if config.encryption.is_on() { "tls" } else { "nats" };
        let bracketed = |host: &str| if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let servers: Vec<String> =
            config.hosts.iter().map(|(host, port)| format!("{scheme}://{}:{port}", bracketed(host))).collect();
        let connected = timeout(TIMEOUT * 2, options.connect(&servers[..])).await.map_err(late)?;
        let client = connected.map_err(|error| match error.kind() {
            ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
                usage("the server of NATS refuses the user or the password").into()
            }
            ConnectErrorKind::ServerParse => usage("the URL names an invalid server").into(),
            _ => away(error),
        })?;
        let mut context = jetstream::new(client);
        context.set_timeout(TIMEOUT);
        Ok(Self { context, lost })
    }

    /// What the server knows about a stream.
    pub(super) async fn info(&self, stream: &str) -> SourceOutcome<Info> {
        let found = timeout(TIMEOUT, self.context.get_stream(stream)).await.map_err(late)?;
        let found = found.map_err(|error| match error.kind() {
            GetStreamErrorKind::JetStream(own) => match own.error_code() {
                ErrorCode::STREAM_NOT_FOUND => {
                    usage(format!("there is no stream {stream}; create it, or correct the name")).into()
                }
                ErrorCode::JETSTREAM_NOT_ENABLED | ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT => {
                    usage("JetStream is not enabled for this user; enable it at the server").into()
                }
                _ => away(error),
            },
            _ => away(error),
        })?;
        Ok(found.cached_info().clone())
    }

    /// Reads a stream from a message on.
    pub(super) async fn follow(&self, config: &NatsConfig, start_sequence: u64) -> SourceOutcome<MessageStream> {
        let consumer = PullConfig {
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence },
            ack_policy: AckPolicy::None,
            filter_subject: config.subject.clone().unwrap_or_default(),
            inactive_threshold: FORGOTTEN_AFTER,
            memory_storage: true,
            num_replicas: 1,
            ..PullConfig::default()
        };
        let made = self.context.create_consumer_on_stream(consumer, config.stream.as_str());
        let consumer = timeout(TIMEOUT, made).await.map_err(late)?.map_err(away)?;
        let messages = consumer.stream().max_bytes_per_batch(FETCH_BYTES).heartbeat(HEARTBEAT).messages();
        let messages = timeout(TIMEOUT, messages).await.map_err(late)?.map_err(away)?;
        Ok(MessageStream { messages, lost: self.lost.clone() })
    }
}

/// The messages of a stream, in order.
pub(super) struct MessageStream {
    messages: Messages,
    lost: watch::Receiver<bool>,
}

impl MessageStream {
    /// The next message. Dropping the future loses none.
    pub(super) async fn next(&mut self) -> SourceOutcome<Message> {
        tokio::select! {
            biased;
            message = self.messages.next() => match message {
                Some(message) => message.map_err(away),
                None => Err(away("the consumer ended")),
            },
            // A server that was started again does not know the consumer.
            _ = self.lost.wait_for(|lost| *lost) => Err(away("the connection was lost")),
        }
    }
}
