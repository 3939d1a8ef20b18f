//! The service at the other end.

use super::cutting::Format;
use evertally_declare::error::{Context, Error, Result, usage};
use serde::Deserialize;
use std::path::Path;
use std::time::Duration;
use ureq::http::Uri;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A stream of a service that is written to.
pub struct Remote {
    agent: ureq::Agent,
    address: String,
    authorization: String,
}

/// What is said of a batch.
pub(super) enum Answer {
    Taken(u64),
    /// Other bytes were taken under this id, of so many rows.
    Differs(Option<u64>),
    BadRows(Vec<BadRow>),
}

/// Why nothing is said of it.
pub(super) enum Trouble {
    /// It can be sent again.
    Away(String),
    /// `is_certain` says that nothing was taken under this id, now or before.
    Refused { error: Error, is_certain: bool },
}

/// A row that the service does not take.
#[derive(Debug, Deserialize)]
pub(super) struct BadRow {
    #[serde(default)]
    pub(super) row: Option<u64>,
    #[serde(default)]
    pub(super) field: Option<String>,
    pub(super) problem: String,
    #[serde(default)]
    pub(super) remedy: Option<String>,
}

#[derive(Deserialize)]
struct Taken {
    rows: u64,
}

#[derive(Deserialize)]
struct Problem {
    #[serde(default)]
    detail: Option<String>,
    #[serde(default)]
    errors: Vec<BadRow>,
    #[serde(default)]
    taken_rows: Option<u64>,
}

impl Remote {
    /// A stream of the service at an address such as `https://HOST:PORT`. `authority` is a file with the certificate of who
    /// vouches for the service, where that is nobody whom all know.
    ///
    /// # Errors
    /// If the address is none, or the token would travel for all to read.
    pub fn new(url: &str, stream: &str, token: &str, authority: Option<&Path>) -> Result<Self> {
        let uri: Uri = url.parse().map_err(|e| usage(format!("`{url}` is no address: {e}")))?;
        let host = uri.host().ok_or_else(|| usage(format!("`{url}` is no address; write https://HOST:PORT")))?;
        match uri.scheme_str() {
            Some("https") => {}
            Some("http") if is_this_machine(host) => {}
            Some("http") => {
                return Err(usage(format!(
                    "{host} is another machine, and http would show it the token on the way: use https"
                )));
            }
            _ => return Err(usage(format!("`{url}` is no address; write https://HOST:PORT"))),
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(usage(format!("`{url}` has a path; give the address of the service alone")));
        }
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(usage("the token is none; make one with `evertally token make --role write:STREAM`"));
        }
        let mut config = ureq::Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .http_status_as_error(false)
            .max_redirects(0) // a token goes nowhere else
            .max_redirects_will_error(false);
        if let Some(authority) = authority {
            let shown = authority.display();
            let pem = std::fs::read(authority).context(format_args!("cannot read {shown}"))?;
            let certificates: Vec<Certificate<'static>> = parse_pem(&pem)
                .filter_map(|item| if let Ok(PemItem::Certificate(one)) = item { Some(one) } else { None })
                .collect();
            if certificates.is_empty() {
                return Err(usage(format!("{shown} holds no certificate")));
            }
            let roots = RootCerts::new_with_certs(&certificates);
            config = config.tls_config(TlsConfig::builder().root_certs(roots).build());
        }
        let address = format!("{}/v1/streams/{stream}/events", url.trim_end_matches('/'));
        Ok(Self { agent: config.build().into(), address, authorization: format!("Bearer {token}") })
    }

    /// How messages name it.
    pub fn place(&self) -> &str {
        &self.address
    }

    pub(super) fn send(&self, id: &str, format: Format, body: &[u8]) -> Result<Answer, Trouble> {
        let away = |why: String| Trouble::Away(format!("{} cannot be reached: {why}", self.address));
        let mut request = self.agent.post(&self.address).header("authorization", &self.authorization);
        request = request.header("idempotency-key", id).header("content-type", format.content_type());
        if let Some(coding) = format.coding() {
            request = request.header("content-encoding", coding);
        }
        let mut answer = request.send(body).map_err(|error| {
            let why = error.to_string();
            if why.contains("invalid peer certificate") {
                // Waiting mends no certificate.
                let remedy = "give the certificate of who vouches for it with --authority; a certificate that vouches for \
                              itself must not be one of an authority (CA:FALSE)";
                let error = usage(format!("the certificate of {} is not to be trusted: {why}; {remedy}", self.address));
                return Trouble::Refused { error, is_certain: false };
            }
            away(why)
        })?;
        let status = answer.status().as_u16();
        let text = answer.body_mut().read_to_string().map_err(|e| away(e.to_string()))?;
        if status == 200 {
            let taken: Taken = serde_json::from_str(&text).map_err(|e| self.strange(status, &e.to_string()))?;
            return Ok(Answer::Taken(taken.rows));
        }
        let problem: Problem = match serde_json::from_str(&text) {
            Ok(problem) => problem,
            Err(_) if status >= 500 => return Err(away(format!("it answers with status {status}"))),
            Err(error) => return Err(self.strange(status, &error.to_string())),
        };
        match status {
            409 => Ok(Answer::Differs(problem.taken_rows)),
            422 if !problem.errors.is_empty() => Ok(Answer::BadRows(problem.errors)),
            408 | 429 | 500..=599 => {
                let why = problem.detail.unwrap_or_else(|| format!("status {status}"));
                Err(Trouble::Away(format!("{} does not take the batch now: {why}", self.address)))
            }
            _ => {
                let why = problem.detail.unwrap_or_else(|| format!("it answers with status {status}"));
                let error = usage(format!("the service at {} refuses the batch: {why}", self.address));
                Err(Trouble::Refused { error, is_certain: [400, 413, 415, 422].contains(&status) })
            }
        }
    }

    fn strange(&self, status: u16, why: &str) -> Trouble {
        let what = format!("{} answers with status {status}, and not as evertally does: {why}", self.address);
        Trouble::Refused { error: usage(what), is_certain: false }
    }
}

/// Whether a name stands for the machine itself.
fn is_this_machine(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}
