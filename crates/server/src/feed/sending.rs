//! The HTTP client that sends batches to the service.

use super::format::Encoding;
use evertally_declare::error::{Context, PipelineError, Result, usage};
use evertally_declare::header_text::is_header_text;
use serde::Deserialize;
use std::path::Path;
use std::time::Duration;
use ureq::http::Uri;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A stream of a service, as the target of batches.
pub struct Remote {
    agent: ureq::Agent,
    address: String,
    authorization: String,
}

/// The service's answer to a batch.
pub(super) enum BatchReply {
    Accepted(u64),
    /// Other bytes were accepted under this id, with this number of rows.
    Differs(Option<u64>),
    BadRows(Vec<RefusedRow>),
}

/// Why there is no answer.
pub(super) enum SendError {
    /// The batch can be sent again.
    Away(String),
    /// `is_certain` means that nothing was accepted under this id, now or before.
    Refused { error: PipelineError, is_certain: bool },
}

/// A row that the service refuses.
#[derive(Debug, Deserialize)]
pub(super) struct RefusedRow {
    #[serde(default)]
    pub(super) row: Option<u64>,
    #[serde(default)]
    pub(super) field: Option<String>,
    pub(super) problem: String,
    #[serde(default)]
    pub(super) remedy: Option<String>,
}

#[derive(Deserialize)]
struct AcceptedBatch {
    rows: u64,
}

#[derive(Deserialize)]
struct ProblemDetails {
    #[serde(default)]
    detail: Option<String>,
    #[serde(default)]
    errors: Vec<RefusedRow>,
    #[serde(default)]
    taken_rows: Option<u64>,
}

impl Remote {
    /// A stream of the service at a URL such as `https://HOST:PORT`. `authority` is a file with the certificate of the
    /// issuer, if that is not a well-known one.
    ///
    /// # Errors
    /// If the URL is invalid, or the token would be sent unencrypted.
    pub fn new(url: &str, stream: &str, token: &str, authority: Option<&Path>) -> Result<Self> {
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
        if !is_header_text(token) {
            return Err(usage("invalid token; create one with `evertally token make --role write:STREAM`"));
        }
        let mut config = ureq::Agent::config_builder()
            .timeout_global(Some(ANSWER_TIMEOUT))
            .http_status_as_error(false)
            .max_redirects(0) // the token is sent to no other host
            .max_redirects_will_error(false);
        if let Some(authority) = authority {
            let shown = authority.display();
            let pem = std::fs::read(authority).context(format_args!("cannot read {shown}"))?;
            let certificates: Vec<Certificate<'static>> = parse_pem(&pem)
                .filter_map(|item| if let Ok(PemItem::Certificate(one)) = item { Some(one) } else { None })
                .collect();
            if certificates.is_empty() {
                return Err(usage(format!("{shown} contains no certificate")));
            }
            let roots = RootCerts::new_with_certs(&certificates);
            config = config.tls_config(TlsConfig::builder().root_certs(roots).build());
        }
        let address = format!("{}/v1/streams/{stream}/events", url.trim_end_matches('/'));
        Ok(Self { agent: config.build().into(), address, authorization: format!("Bearer {token}") })
    }

    /// How messages name the stream.
    pub fn place(&self) -> &str {
        &self.address
    }

    pub(super) fn send(&self, id: &str, format: Encoding, body: &[u8]) -> Result<BatchReply, SendError> {
        let away = |why: String| SendError::Away(format!("{} cannot be reached: {why}", self.address));
        let mut request = self.agent.post(&self.address).header("authorization", &self.authorization);
        request = request.header("idempotency-key", id).header("content-type", format.format.media_type());
        if let Some(coding) = format.compression {
            request = request.header("content-encoding", coding);
        }
        let mut answer = request.send(body).map_err(|error| {
            let why = error.to_string();
            if why.contains("invalid peer certificate") {
                // An invalid certificate stays invalid: no retry.
                let remedy = "pass the certificate of its issuer with --authority; a self-signed certificate must not \
                              be marked as an authority (CA:FALSE)";
                let error = usage(format!("the certificate of {} is not trusted: {why}; {remedy}", self.address));
                return SendError::Refused { error, is_certain: false };
            }
            away(why)
        })?;
        let status = answer.status().as_u16();
        let text = answer.body_mut().read_to_string().map_err(|e| away(e.to_string()))?;
        if status == 200 {
            let taken: AcceptedBatch =
                serde_json::from_str(&text).map_err(|e| self.unexpected_status(status, &e.to_string()))?;
            return Ok(BatchReply::Accepted(taken.rows));
        }
        let problem: ProblemDetails = match serde_json::from_str(&text) {
            Ok(problem) => problem,
            Err(_) if status >= 500 => return Err(away(format!("it answered with status {status}"))),
            Err(error) => return Err(self.unexpected_status(status, &error.to_string())),
        };
        match status {
            409 => Ok(BatchReply::Differs(problem.taken_rows)),
            422 if !problem.errors.is_empty() => Ok(BatchReply::BadRows(problem.errors)),
            408 | 429 | 500..=599 => {
                let why = problem.detail.unwrap_or_else(|| format!("status {status}"));
                Err(SendError::Away(format!("{} does not accept the batch now: {why}", self.address)))
            }
            _ => {
                let why = problem.detail.unwrap_or_else(|| format!("it answered with status {status}"));
                let error = usage(format!("the service at {} refused the batch: {why}", self.address));
                Err(SendError::Refused { error, is_certain: [400, 413, 415, 422].contains(&status) })
            }
        }
    }

    fn unexpected_status(&self, status: u16, why: &str) -> SendError {
        let what = format!("{} answered with status {status}, but not as evertally does: {why}", self.address);
        SendError::Refused { error: usage(what), is_certain: false }
    }
}

/// Whether a host name means this machine.
fn is_this_machine(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}
