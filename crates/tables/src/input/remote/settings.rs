//! ConnectionSettings of connections: variables of the environment, timeouts and retries.

use evertally_declare::error::ReadProblem;
use object_store::{BackoffConfig, RetryConfig};
use std::time::Duration;

/// The settings of connections.
#[derive(Clone, Debug)]
pub(super) struct ConnectionSettings {
    /// Variables of the environment, with credentials and addresses of stores.
    pub(super) variables: Vec<(String, String)>,
    /// Until a connection is open.
    pub(super) connect_timeout: Duration,
    /// Until the next bytes arrive.
    pub(super) idle_timeout: Duration,
    /// How often a request is sent again, and how long a download may make no progress.
    pub(super) max_retries: usize,
    pub(super) retry_timeout: Duration,
    pub(super) first_pause: Duration,
}

impl ConnectionSettings {
    pub(super) fn from_environment() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self::new(std::env::vars_os().filter_map(text).collect())
    }

    pub(super) fn new(variables: Vec<(String, String)>) -> Self {
        Self {
            variables,
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            max_retries: 5,
            retry_timeout: Duration::from_secs(150),
            first_pause: Duration::from_millis(200),
        }
    }

    /// For a caller that tries again soon: failures are reported within seconds.
    pub(super) fn impatient(self) -> Self {
        Self {
            connect_timeout: Duration::from_secs(3),
            idle_timeout: Duration::from_secs(10),
            max_retries: 1,
            retry_timeout: Duration::from_secs(10),
            ..self
        }
    }

    /// The value of a variable that is not empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.variables.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| &**value).filter(|value| !value.is_empty())
    }

    /// The variables with this prefix that are options of a store, with their values.
    pub(super) fn options<K: std::str::FromStr>(&self, prefix: &str) -> impl Iterator<Item = (K, &str)> {
        let of_store = self.variables.iter().filter(move |(name, value)| name.starts_with(prefix) && !value.is_empty());
        of_store.filter_map(|(name, value)| Some((name.to_ascii_lowercase().parse().ok()?, &**value)))
    }

    /// Refuses variables of a store that cannot be right. The library does not check them, and panics.
    ///
    /// # Errors
    /// The name of the variable, never its value.
    pub(super) fn check(&self, prefix: &str) -> Result<(), ReadProblem> {
        for (name, value) in self.variables.iter().filter(|(name, _)| name.starts_with(prefix)) {
            if !value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
                let problem = "contains a line end or another character that is not printable ASCII; set it without";
                return Err(ReadProblem(format!("{name} {problem}")));
            }
            let is_address = name.contains("ENDPOINT") && !value.is_empty() && !value.starts_with("true");
            if is_address && !is_url(value) {
                let problem = "is not the URL of a server; write it as https://HOST or https://HOST:PORT";
                return Err(ReadProblem(format!("{name} {problem}")));
            }
        }
        Ok(())
    }

    pub(super) fn retries(&self) -> RetryConfig {
        let backoff = BackoffConfig { init_backoff: self.first_pause, max_backoff: Duration::from_secs(10), base: 2.0 };
        RetryConfig { backoff, max_retries: self.max_retries, retry_timeout: self.retry_timeout }
    }
}

/// Whether a text is the URL of a server, with a valid port if it has one.
fn is_url(text: &str) -> bool {
    let Ok(uri) = text.parse::<http::Uri>() else { return false };
    let Some(authority) = uri.authority() else { return false };
    let port = authority.as_str().rsplit_once(':').map(|(_, port)| port).filter(|port| !port.ends_with(']'));
    matches!(uri.scheme_str(), Some("http" | "https"))
        && !authority.host().is_empty()
        && port.is_none_or(|port| port.parse::<u16>().is_ok())
}
