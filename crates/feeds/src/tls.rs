//! Encrypted connections.

use crate::{Address, SourceOptions, is_this_machine};
use evertally_declare::error::{Context, Result, failure, usage};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What servers answer to a client without a certificate, or with one that they do not trust.
const CLIENT_ALERTS: [&str; 4] =
    ["alert: CertificateRequired", "alert: BadCertificate", "alert: CertificateUnknown", "alert: UnknownCA"];

/// The files of encrypted connections.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionFiles {
    authority: Option<PathBuf>,
    client: Option<(PathBuf, PathBuf)>,
}

/// Whether the connections of a URL are encrypted.
#[derive(Clone, Debug)]
pub(crate) struct Encryption {
    files: Option<ConnectionFiles>,
    /// What the operator should know about connections that are not.
    pub(crate) warning: Option<String>,
}

impl ConnectionFiles {
    pub(crate) fn of(options: &SourceOptions) -> Self {
        Self { authority: options.authority.clone(), client: options.client.clone() }
    }

    /// The configuration of clients that trust the public authorities, or only the one in a file. The files are read
    /// again at each connection, so that they can be renewed.
    ///
    /// # Errors
    /// If a file cannot be read, or contains no certificate or key.
    pub(crate) fn config(&self) -> Result<Arc<ClientConfig>> {
        let mut roots = RootCertStore::empty();
        if let Some(path) = &self.authority {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|e| usage(format!("{}: {e}", path.display())))?;
            }
        } else {
            roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(failure)?;
        let config = config.with_root_certificates(roots);
        let Some((chain, key)) = &self.client else { return Ok(Arc::new(config.with_no_client_auth())) };
        let secret = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|_| {
            usage(format!("{} contains no private key that can be read without a password", key.display()))
        })?;
        let config = config.with_client_auth_cert(certificates(chain)?, secret);
        let fits = config.map_err(|e| usage(format!("{} and {}: {e}", chain.display(), key.display())))?;
        Ok(Arc::new(fits))
    }
}

impl Encryption {
    /// What a URL and its options ask for. Takes the parameter `tls` out of the query.
    ///
    /// # Errors
    /// If they contradict each other, a file is invalid, or a password would be sent to another machine unencrypted
    /// without an explicit `tls=false`. `hides_password` is whether the protocol itself keeps it secret.
    pub(crate) fn of(address: &mut Address, options: &SourceOptions, hides_password: bool) -> Result<Self> {
        let flag = address.query.optional_flag("tls")?;
        let (by_scheme, remedy) = match address.scheme.as_str() {
            "rediss" | "mqtts" => (Some(true), ""),
            "redis" => (Some(false), "write rediss://"),
            "mqtt" => (Some(false), "write mqtts://"),
            _ => (None, "add tls=true"),
        };
        let scheme = &address.scheme;
        let is_encrypted = match (by_scheme, flag) {
            (Some(true), Some(false)) => {
                return Err(usage(format!("{scheme}:// is encrypted, and tls=false is not: remove one of them")));
            }
            (Some(false), Some(true)) => {
                return Err(usage(format!("{scheme}:// is not encrypted: {remedy} instead of tls=true")));
            }
            (by_scheme, flag) => by_scheme.or(flag).unwrap_or(false),
        };
        let files = ConnectionFiles::of(options);
        if is_encrypted {
            files.config()?;
            return Ok(Self { files: Some(files), warning: None });
        }
        refuse_files(options, remedy)?;
        let other = address.hosts.iter().find(|(host, _)| !is_this_machine(host)).filter(|_| flag.is_none());
        let warning = match other {
            Some((host, _)) if options.password_file.is_some() && !hides_password => {
                return Err(usage(format!(
                    "{host} is another machine, and the password would be sent to it unencrypted: {remedy}; in a \
                     network that nobody else can read, write tls=false"
                )));
            }
            Some((host, _)) => Some(format!(
                "{scheme}://{host}: rows are not encrypted on their way; {remedy}, or write tls=false in a network \
                 that nobody else can read"
            )),
            None => None,
        };
        Ok(Self { files: None, warning })
    }

    /// The configuration of an encrypted connection; `None` if it is not.
    ///
    /// # Errors
    /// As [`ConnectionFiles::config`].
    pub(crate) fn config(&self) -> Result<Option<Arc<ClientConfig>>> {
        self.files.as_ref().map(ConnectionFiles::config).transpose()
    }

    /// Whether connections are encrypted.
    pub(crate) fn is_on(&self) -> bool {
        self.files.is_some()
    }
}

/// Refuses the files of encrypted connections for one that is not.
///
/// # Errors
/// If there are such files.
pub(crate) fn refuse_files(options: &SourceOptions, remedy: &str) -> Result<()> {
    let given = match (&options.authority, &options.client) {
        (Some(_), _) => "the certificate of an authority is",
        (None, Some(_)) => "the certificate of a client is",
        (None, None) => return Ok(()),
    };
    Err(usage(format!("{given} given, but the connection would not be encrypted: {remedy}")))
}

/// A problem with a connection. If it is the certificate of the other side, with the remedy.
pub(crate) fn explained(problem: impl fmt::Display) -> String {
    let problem = problem.to_string();
    let remedy = if problem.contains("UnknownIssuer") {
        "; name its authority (in a configuration: authority, for evertally feed: --source-authority)"
    } else if problem.contains("CaUsedAsEndEntity") {
        "; a self-signed certificate must not be marked as an authority (CA:FALSE)"
    } else if CLIENT_ALERTS.iter().any(|alert| problem.contains(alert)) {
        "; the server wants the certificate of a client that it trusts (in a configuration: certificate and \
         certificate-key, for evertally feed: --source-certificate and --source-key)"
    } else {
        ""
    };
    problem + remedy
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).context(format_args!("cannot read {}", path.display()))
}

/// The certificates in a file.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let shown = path.display();
    let found: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&read(path)?)
        .collect::<Result<_, _>>()
        .map_err(|e| usage(format!("{shown}: {e}")))?;
    match found.is_empty() {
        true => Err(usage(format!("{shown} contains no certificate"))),
        false => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use crate::{SourceOptions, open, open_sink};

    #[test]
    fn nothing_is_sent_unencrypted_unasked() {
        let password = || SourceOptions { password_file: Some("/p".into()), ..SourceOptions::default() };
        let authority = || SourceOptions { authority: Some("/ca.pem".into()), ..SourceOptions::default() };
        let client = || SourceOptions { client: Some(("/c".into(), "/k".into())), ..SourceOptions::default() };
        for (url, options, why) in [
            ("kafka://u@b/t?sasl=plain", password(), "unencrypted: add tls=true"),
            ("kafka://localhost,u.example/t", authority(), "add tls=true"),
            ("nats://u@n/S", password(), "unencrypted: add tls=true"),
            ("nats://n/S", client(), "certificate of a client is given"),
            ("redis://u@r/?stream=a", password(), "write rediss://"),
            ("redis://r/?stream=a&tls=true", password(), "write rediss:// instead"),
            ("redis://localhost/?stream=a", authority(), "would not be encrypted: write rediss://"),
            ("rediss://r/?stream=a&tls=false", SourceOptions::default(), "remove one of them"),
            ("rediss://r/?stream=a", authority(), "cannot read /ca.pem"),
            ("mqtt://u@m/a", password(), "unencrypted: write mqtts://"),
            ("mqtts://m/a", client(), "cannot read /k"),
            ("postgresql://u@d/x?table=t&order-by=i&sslmode=disable", authority(), "write sslmode=verify-full"),
            ("postgresql://u@localhost/x?table=t&order-by=i", authority(), "cannot read /ca.pem"),
            ("postgresql://u@/x?table=t&order-by=i&host=/run", authority(), "socket of this machine: remove authority"),
            ("postgresql://u@%2Frun/x?table=t&order-by=i&sslmode=verify-full", password(), "remove sslmode"),
            ("s3://b/f/", client(), "AWS_ACCESS_KEY_ID"),
        ] {
            let error = open(url, &options).err().expect(url).to_string();
            assert!(error.contains(why), "{url}: {error}");
        }
        let warnings = |url: &str, options: SourceOptions| open(url, &options).expect(url).warnings();
        for url in ["kafka://u@b/t?sasl=scram-sha-256", "nats://[::1],n/S", "redis://r/?stream=a", "mqtt://m/a"] {
            let options = if url.contains("sasl") { password() } else { SourceOptions::default() };
            assert!(warnings(url, options)[0].text().contains("rows are not encrypted"), "{url}");
        }
        for url in ["nats://u@n/S?tls=false", "redis://u@r/?stream=a&tls=false", "mqtt://u@m/a?tls=false"] {
            assert!(warnings(url, password()).is_empty(), "{url}");
        }
        let warned = |url: &str| open_sink(url, "visits", &password()).expect(url).warnings();
        for url in ["kafka://u@b/t?sasl=scram-sha-256", "postgresql://u@db/x?table=t&sslmode=disable"] {
            assert!(warned(url)[0].contains("rows are not encrypted"), "{url}");
        }
        for url in ["kafka://u@LOCALHOST/t?sasl=plain", "postgresql://u@localhost./x?table=t"] {
            assert!(warned(url).is_empty(), "{url}");
        }
        for url in
            ["nats://u@[::1]/S", "redis://u@127.0.0.1/?stream=a", "mqtt://u@localhost/a", "nats://u@n/S?tls=true"]
        {
            assert!(warnings(url, password()).is_empty(), "{url}");
        }
    }
}
