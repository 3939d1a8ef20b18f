//! A receiver of Prometheus's [remote write](https://prometheus.io/docs/specs/prw/remote_write_spec/) 1.0, to which
//! released values are written with the ends of their steps.
//!
//! Receivers accept a sample that they have already, so writing a publication again changes nothing.

mod samples;

pub use samples::Samples;

use crate::http::{ANSWER_TIMEOUT, RemoteTls, http_agent, is_this_machine};
use crate::tls::refuse_files;
use crate::{Address, Sink, SinkContent, SinkMemory, SourceError, SourceOptions, SourcePosition, blocking};
use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use evertally_declare::error::{Context, PipelineError, Result, usage};
use evertally_declare::header_text::is_header_text;
use samples::requests;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use ureq::Body;
use ureq::http::Response;

/// The longest pause that a receiver may ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(600);

/// The most letters of an answer that messages show.
const MAX_SHOWN: usize = 200;

/// Words by which receivers refuse a sample because of its time. It will never be accepted.
const OLD: [&str; 6] = [
    "out of order",
    "out of bounds",
    "too old",
    "duplicate sample",
    "new value for a duplicate",
    "too far in the past",
];

/// The sink.
struct RemoteWrite {
    receiver: Arc<SampleReceiver>,
    /// The receiver asked for no request before this time.
    earliest: Option<Instant>,
    /// Whether the last samples were refused because of their time.
    is_refusing: bool,
    warnings: Vec<String>,
}

struct SampleReceiver {
    agent: ureq::Agent,
    url: String,
    user: Option<String>,
    password_file: Option<PathBuf>,
    tenant: Option<String>,
}

/// The answer to samples.
enum WriteOutcome {
    Accepted,
    /// They will never be accepted because of their time.
    Old(String),
    /// They may be accepted later, after a pause if the receiver names one.
    Later(String, Option<Duration>),
}

/// Opens a sink by its URL, `prometheus+https://USER@HOST/PATH`.
///
/// # Errors
/// If the URL is invalid, or a secret would be sent unencrypted, or a file that it needs is invalid.
pub(crate) fn open(url: &str, mut address: Address, options: &SourceOptions) -> Result<Box<dyn Sink>> {
    let (host, _) = address.only_host(443)?;
    let mut query = std::mem::take(&mut address.query);
    let tenant = query.take("tenant")?;
    if query.take("tls")?.is_some() {
        return Err(usage("the scheme decides about encryption: write prometheus+https:// without tls"));
    }
    query.refuse_others(&["tenant"])?;
    if tenant.as_ref().is_some_and(|tenant| !is_header_text(tenant)) {
        return Err(usage("the parameter `tenant` of the URL is not a valid tenant; write letters and digits"));
    }
    if address.user.is_some() && options.password_file.is_none() {
        return Err(usage("the URL names a user; write the password to a file, and name it in password-file"));
    }
    if address.scheme == "prometheus+http" && options.password_file.is_some() && !is_this_machine(&host) {
        return Err(usage(format!(
            "{host} is another machine, and http would reveal the password on the way: use prometheus+https, also in a \
             network that nobody else can read"
        )));
    }
    if address.scheme == "prometheus+http" {
        refuse_files(options, "write prometheus+https://")?;
    }
    let client = options.client.as_ref().map(|(chain, key)| (chain.as_path(), key.as_path()));
    let tls = RemoteTls { authority: options.authority.as_deref(), client };
    let scheme = address.scheme.trim_start_matches("prometheus+");
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let authority = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
    let path = if path.is_empty() { "api/v1/write" } else { path };
    let receiver = SampleReceiver {
        agent: http_agent(tls, ANSWER_TIMEOUT)?,
        url: format!("{scheme}://{authority}/{path}"),
        user: address.user,
        password_file: options.password_file.clone(),
        tenant,
    };
    receiver.authorization()?;
    let mut warnings = Vec::new();
    if scheme == "http" && !is_this_machine(&host) {
        let shown = &receiver.url;
        warnings.push(format!("{shown}: samples are not encrypted on their way; use prometheus+https"));
    }
    let receiver = Arc::new(receiver);
    Ok(Box::new(RemoteWrite { receiver, earliest: None, is_refusing: false, warnings }))
}

impl SampleReceiver {
    /// The value of the header. The file is read again for every request, so that a new secret needs no restart.
    fn authorization(&self) -> Result<Option<String>> {
        let Some(path) = &self.password_file else { return Ok(None) };
        let text = std::fs::read_to_string(path).context("the file that `password-file` names cannot be read")?;
        let secret = text.trim();
        if secret.is_empty() || (self.user.is_none() && !is_header_text(secret)) {
            return Err(usage(format!("{} contains no password or token in one line", path.display())));
        }
        let header = match &self.user {
            Some(user) => format!("Basic {}", STANDARD.encode(format!("{user}:{secret}"))),
            None => format!("Bearer {secret}"),
        };
        Ok(Some(header))
    }

    fn post(&self, request: &[u8]) -> Result<WriteOutcome, PipelineError> {
        let mut post = self
            .agent
            .post(&self.url)
            .header("content-type", "application/x-protobuf")
            .header("content-encoding", "snappy")
            .header("x-prometheus-remote-write-version", "0.1.0")
            .header("user-agent", concat!("evertally/", env!("CARGO_PKG_VERSION")));
        if let Some(authorization) = self.authorization()? {
            post = post.header("authorization", authorization);
        }
        if let Some(tenant) = &self.tenant {
            post = post.header("x-scope-orgid", tenant);
        }
        match post.send(request) {
            Ok(answer) => self.judge(answer),
            Err(error) => Ok(WriteOutcome::Later(format!("{} cannot be reached: {error}", self.url), None)),
        }
    }

    fn judge(&self, mut answer: Response<Body>) -> Result<WriteOutcome, PipelineError> {
        let status = answer.status().as_u16();
        if answer.status().is_success() {
            return Ok(WriteOutcome::Accepted);
        }
        let pause = answer.headers().get("retry-after").and_then(|text| text.to_str().ok()?.trim().parse().ok());
        let text = answer.body_mut().with_config().limit(64 << 10).read_to_string().unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        let why: String = line.chars().filter(|letter| !letter.is_control()).take(MAX_SHOWN).collect();
        let words = text.to_ascii_lowercase().replace('-', " ");
        match status {
            400 | 409 | 422 if OLD.iter().any(|old| words.contains(old)) => Ok(WriteOutcome::Old(why)),
            408 | 429 | 500..=599 => {
                let pause = pause.map(|seconds| Duration::from_secs(seconds).min(MAX_RETRY_AFTER));
                Ok(WriteOutcome::Later(format!("{} accepts nothing now: status {status}, {why}", self.url), pause))
            }
            _ => Err(usage(format!(
                "{} refused the samples: status {status}, {why}; check its URL, its credentials and its limits",
                self.url
            ))),
        }
    }
}

#[async_trait]
impl Sink for RemoteWrite {
    fn shown(&self) -> String {
        let tenant = self.receiver.tenant.as_ref().map(|tenant| format!(", tenant {tenant}")).unwrap_or_default();
        format!("{}{tenant}", self.receiver.url)
    }

    fn content(&self) -> SinkContent {
        SinkContent::Samples
    }

    /// The same samples may be written again.
    fn memory(&self) -> SinkMemory {
        SinkMemory::Caller
    }

    async fn last(&mut self) -> Result<Option<SourcePosition>, SourceError> {
        Ok(None)
    }

    async fn write(&mut self, _after: Option<&str>, rows: &[u8], position: &str) -> Result<(), SourceError> {
        if let Some(earliest) = self.earliest {
            tokio::time::sleep_until(earliest).await;
        }
        self.earliest = None;
        for request in requests(rows)? {
            let receiver = Arc::clone(&self.receiver);
            match blocking(move || receiver.post(&request)).await.map_err(SourceError::Fault)? {
                WriteOutcome::Accepted => self.is_refusing = false,
                WriteOutcome::Old(why) => {
                    if !std::mem::replace(&mut self.is_refusing, true) {
                        let publication = position.split(' ').next().unwrap_or_default();
                        self.warnings.push(format!(
                            "the receiver will never accept samples of publication {publication}, because their time \
                             is before that of others; they are omitted, as are those of the next publications until \
                             it accepts some: {why}"
                        ));
                    }
                }
                WriteOutcome::Later(why, pause) => {
                    self.earliest = pause.map(|pause| Instant::now() + pause);
                    return Err(SourceError::Away(why));
                }
            }
        }
        Ok(())
    }

    fn warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open_sink;

    #[test]
    fn urls() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("password");
        std::fs::write(&file, "secret\n").expect("written");
        let with_file = SourceOptions { password_file: Some(file), ..SourceOptions::default() };
        let without = SourceOptions::default();
        for (url, options, shown) in [
            ("prometheus+https://u@h:9/a%20b/push?tenant=t", &with_file, "https://h:9/a%20b/push, tenant t"),
            ("prometheus+http://h", &without, "http://h/api/v1/write"),
            ("prometheus+http://[::1]:9090/", &with_file, "http://[::1]:9090/api/v1/write"),
        ] {
            assert_eq!(open_sink(url, "visits", options).expect(url).shown(), shown);
        }
        let warned = |url: &str| open_sink(url, "visits", &without).expect(url).warnings();
        assert!(warned("prometheus+http://h")[0].contains("not encrypted"));
        assert!(warned("prometheus+http://0.0.0.0:9090").is_empty() && warned("prometheus+https://h").is_empty());
        for (url, options, why) in [
            ("prometheus+http://h/", &with_file, "use prometheus+https"),
            ("prometheus+https://u@h/", &without, "password-file"),
            ("prometheus+https://u:secret@h/", &with_file, "has a password"),
            ("prometheus+https:///write", &without, "no host"),
            ("prometheus+https://h/?a=b", &without, "no parameter `a`"),
            ("prometheus+http://u@h/?tls=false", &with_file, "without tls"),
            ("prometheus+https://h/?tenant=%0a", &without, "not a valid tenant"),
        ] {
            let error = open_sink(url, "visits", options).err().expect(url).to_string();
            assert!(error.contains(why) && !error.contains("secret"), "{url}: {error}");
        }
    }
}
