//! A stream of a service, reached over HTTP.

use super::following::blocking;
use super::target::{BatchAnswer, FeedTarget, RefusedRow, SendError};
use super::{SourceBatch, SourcePosition};
use async_trait::async_trait;
use evertally_declare::error::{Context, PipelineError, Result, usage};
use evertally_declare::header_text::is_header_text;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use ureq::http::{Response, Uri};
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};
use ureq::{Body, RequestBuilder};

/// How long an answer may take.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Names that systems give this machine, in any case of letters.
const LOCAL_NAMES: [&str; 3] = ["localhost", "ip6-localhost", "ip6-loopback"];

/// Characters that need no escape in a part of a path or a query.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A stream of a service, as the target of batches.
#[derive(Clone)]
pub struct Remote(Arc<RemoteStream>);

struct RemoteStream {
    agent: ureq::Agent,
    /// The URL of the stream, to which the name of a resource is added.
    address: String,
    /// The token; without one, the certificate of the client.
    token: Option<Token>,
}

/// The files of a connection to a service.
#[derive(Clone, Copy, Debug, Default)]
pub struct RemoteTls<'p> {
    /// The certificate of the issuer, if that is not a well-known one.
    pub authority: Option<&'p Path>,
    /// The certificate of the client with its chain, and its private key.
    pub client: Option<(&'p Path, &'p Path)>,
}

/// The token that allows writing.
#[derive(Clone, Debug)]
pub enum Token {
    /// A token.
    Text(String),
    /// A file with it, which is read again for every request, so that a new token needs no restart.
    File(PathBuf),
}

#[derive(Deserialize)]
struct AcceptedBatch {
    rows: u64,
}

#[derive(Deserialize)]
struct StoredPositions {
    positions: BTreeMap<String, SourcePosition>,
}

#[derive(Default, Deserialize)]
struct ProblemDetails {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    detail: Option<String>,
    #[serde(default)]
    errors: Vec<RefusedRow>,
    #[serde(default)]
    position: Option<SourcePosition>,
    #[serde(default)]
    before_row: Option<u64>,
}

impl Token {
    fn read(&self) -> Result<String> {
        let text = match self {
            Self::Text(text) => text.clone(),
            Self::File(path) => {
                std::fs::read_to_string(path).context(format_args!("cannot read {}", path.display()))?
            }
        };
        let token = text.trim();
        if !is_header_text(token) {
            return Err(usage("invalid token; create one with `evertally token make --role write:STREAM`"));
        }
        Ok(format!("Bearer {token}"))
    }
}

impl Remote {
    /// A stream of the service at a URL such as `https://HOST:PORT`.
    ///
    /// # Errors
    /// If the URL is invalid, there is neither a token nor a certificate, the token would be sent unencrypted, or a
    /// file cannot be read.
    pub fn new(url: &str, stream: &str, token: Option<Token>, tls: RemoteTls<'_>) -> Result<Self> {
        let uri: Uri = url.parse().map_err(|e| usage(format!("`{url}` is not a valid URL: {e}")))?;
        let host = uri.host().ok_or_else(|| usage(format!("`{url}` is not a valid URL; write https://HOST:PORT")))?;
        match uri.scheme_str() {
            Some("https") => {}
            Some("http") if is_this_machine(host) => {}
            Some("http") => {
                return Err(usage(format!(
                    "{host} is another machine, and http would reveal the token on the way: use https"
                )));
            }
            _ => return Err(usage(format!("`{url}` is not a valid URL; write https://HOST:PORT"))),
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(usage(format!("`{url}` has a path; give only the address of the service")));
        }
        match (&token, tls.client) {
            (Some(token), _) => drop(token.read()?),
            (None, Some(_)) if uri.scheme_str() == Some("https") => {}
            (None, Some(_)) => return Err(usage("a certificate needs an encrypted connection: use https")),
            (None, None) => return Err(usage("give a token, or the certificate of a client")),
        }
        let address = format!("{}/v1/streams/{}", url.trim_end_matches('/'), escaped(stream));
        Ok(Self(Arc::new(RemoteStream { agent: http_agent(tls, ANSWER_TIMEOUT)?, address, token })))
    }
}

/// A client that trusts the public authorities, or only the one in a file, and follows no redirect.
///
/// # Errors
/// If a file cannot be read, or has no certificate or key.
pub fn http_agent(tls: RemoteTls<'_>, timeout: Duration) -> Result<ureq::Agent> {
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(timeout))
        .http_status_as_error(false)
        .max_redirects(0) // the token is sent to no other host
        .max_redirects_will_error(false);
    let mut encryption = TlsConfig::builder();
    if let Some(authority) = tls.authority {
        encryption = encryption.root_certs(RootCerts::new_with_certs(&certificates(authority)?));
    }
    if let Some((chain, key)) = tls.client {
        let pem = std::fs::read(key).context(format_args!("cannot read {}", key.display()))?;
        let secret = PrivateKey::from_pem(&pem);
        let secret = secret.map_err(|_| usage(format!("{} contains no private key", key.display())))?;
        encryption = encryption.client_cert(Some(ClientCert::new_with_certs(&certificates(chain)?, secret)));
    }
    Ok(config.tls_config(encryption.build()).build().into())
}

/// The certificates in a file.
fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>> {
    let shown = path.display();
    let pem = std::fs::read(path).context(format_args!("cannot read {shown}"))?;
    let found: Vec<Certificate<'static>> = parse_pem(&pem)
        .filter_map(|item| if let Ok(PemItem::Certificate(one)) = item { Some(one) } else { None })
        .collect();
    match found.is_empty() {
        true => Err(usage(format!("{shown} contains no certificate"))),
        false => Ok(found),
    }
}

fn escaped(text: &str) -> impl std::fmt::Display {
    utf8_percent_encode(text, UNRESERVED)
}

impl RemoteStream {
    /// A request with the token, if there is one.
    fn authorized<B>(&self, request: RequestBuilder<B>) -> Result<RequestBuilder<B>> {
        Ok(match &self.token {
            Some(token) => request.header("authorization", token.read()?),
            None => request,
        })
    }

    fn positions(&self, source: &str) -> Result<BTreeMap<String, SourcePosition>, SendError> {
        let url = format!("{}/positions?source={}", self.address, escaped(source));
        let request = self.authorized(self.agent.get(&url))?;
        let (status, text) = self.answer(request.call())?;
        match status {
            200 => Ok(self.parsed::<StoredPositions>(status, &text)?.positions),
            _ => Err(self.refused(status, self.problem(status, &text)?)),
        }
    }

    fn send(&self, query: &str, kind: &str, coding: Option<&str>, body: &[u8]) -> Result<BatchAnswer, SendError> {
        let url = format!("{}/events?{query}", self.address);
        let mut request = self.authorized(self.agent.post(&url))?;
        request = request.header("content-type", kind);
        if let Some(coding) = coding {
            request = request.header("content-encoding", coding);
        }
        let (status, text) = self.answer(request.send(body))?;
        if status == 200 {
            return Ok(BatchAnswer::Accepted(self.parsed::<AcceptedBatch>(status, &text)?.rows));
        }
        let problem = self.problem(status, &text)?;
        match status {
            409 if problem.kind.ends_with(":other-position") => Ok(BatchAnswer::Elsewhere(problem.position)),
            503 if problem.kind.ends_with(":not-open") => {
                let why = problem.detail.unwrap_or_default();
                Ok(BatchAnswer::NotOpen { why, before_row: problem.before_row })
            }
            422 if !problem.errors.is_empty() => Ok(BatchAnswer::BadRows(problem.errors)),
            _ => Err(self.refused(status, problem)),
        }
    }

    /// The status and the text of an answer.
    fn answer(&self, answer: Result<Response<Body>, ureq::Error>) -> Result<(u16, String), SendError> {
        let away = |why: String| SendError::Away(format!("{} cannot be reached: {why}", self.address));
        let mut answer = answer.map_err(|error| {
            let why = error.to_string();
            if why.contains("invalid peer certificate") {
                // An invalid certificate stays invalid: no retry.
                let remedy = "pass the certificate of its issuer with --authority; a self-signed certificate must not \
                              be marked as an authority (CA:FALSE)";
                let error = format!("the certificate of {} is not trusted: {why}; {remedy}", self.address);
                return SendError::Refused(usage(error));
            }
            away(why)
        })?;
        let text = answer.body_mut().read_to_string().map_err(|e| away(e.to_string()))?;
        Ok((answer.status().as_u16(), text))
    }

    fn parsed<T: DeserializeOwned>(&self, status: u16, text: &str) -> Result<T, SendError> {
        serde_json::from_str(text).map_err(|error| {
            let what = format!("{} answered with status {status}, but not as evertally does: {error}", self.address);
            SendError::Refused(usage(what))
        })
    }

    fn problem(&self, status: u16, text: &str) -> Result<ProblemDetails, SendError> {
        match serde_json::from_str(text) {
            Ok(problem) => Ok(problem),
            Err(_) if status >= 500 => Ok(ProblemDetails::default()),
            Err(_) => self.parsed(status, text),
        }
    }

    fn refused(&self, status: u16, problem: ProblemDetails) -> SendError {
        let why = problem.detail.unwrap_or_else(|| format!("it answered with status {status}"));
        match status {
            408 | 429 | 500..=599 => SendError::Away(format!("{} accepts nothing now: {why}", self.address)),
            _ => SendError::Refused(usage(format!("the service at {} refused the batch: {why}", self.address))),
        }
    }
}

impl From<PipelineError> for SendError {
    fn from(error: PipelineError) -> Self {
        Self::Refused(error)
    }
}

#[async_trait]
impl FeedTarget for Remote {
    fn shown(&self) -> String {
        self.0.address.clone()
    }

    async fn positions(&self, source: &str) -> Result<BTreeMap<String, SourcePosition>, SendError> {
        let (stream, source) = (Arc::clone(&self.0), source.to_owned());
        blocking(move || stream.positions(&source)).await
    }

    async fn send(&self, source: &str, batch: &SourceBatch, body: Vec<u8>) -> Result<BatchAnswer, SendError> {
        let mut query = format!("source={}&position={}", escaped(source), escaped(&batch.position));
        if !batch.partition.is_empty() {
            query.push_str(&format!("&partition={}", escaped(&batch.partition)));
        }
        if let Some(after) = &batch.after {
            query.push_str(&format!("&after={}", escaped(after)));
        }
        let (stream, kind, coding) = (Arc::clone(&self.0), batch.rows.format.media_type(), batch.rows.compression);
        blocking(move || stream.send(&query, kind, coding, &body)).await
    }
}

/// Whether a host name means this machine.
pub fn is_this_machine(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        // A connection to the address of all interfaces stays on this machine.
        let address = address.to_canonical();
        return address.is_loopback() || address.is_unspecified();
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    LOCAL_NAMES.iter().any(|local| name.eq_ignore_ascii_case(local))
}

#[cfg(test)]
mod tests {
    use super::is_this_machine;

    #[test]
    fn names_of_this_machine() {
        for host in [
            "localhost",
            "LOCALHOST",
            "localhost.",
            "ip6-localhost",
            "127.0.0.1",
            "127.8.0.1",
            "0.0.0.0",
            "::1",
            "[::1]",
            "::",
            "[::ffff:127.0.0.1]",
        ] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in ["", ".", "localhost..", "localhost.example", "10.0.0.5", "::ffff:10.0.0.5", "2001:db8::1"] {
            assert!(!is_this_machine(host), "{host}");
        }
    }
}
