//! Connections over TCP, plain or encrypted, for clients that leave the transport to their caller.

use crate::SourceError;
use crate::tls::{Encryption, explained};
use evertally_declare::error::{Context, Result, usage};
use rustls_pki_types::ServerName;
use std::fmt;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// How long the other side may take to answer.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);

/// A connection.
pub(crate) trait Wire: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<W: AsyncRead + AsyncWrite + Send + Sync + Unpin> Wire for W {}

/// One server, and how it is reached.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) encryption: Encryption,
}

impl Server {
    /// Connects.
    pub(crate) async fn connect(&self) -> Result<Box<dyn Wire>, SourceError> {
        let config = self.encryption.config()?;
        let host = self.host.clone();
        let connect = async {
            let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
            stream.set_nodelay(true)?;
            let Some(config) = config else { return Ok(Box::new(stream) as Box<dyn Wire>) };
            let name = ServerName::try_from(host).map_err(std::io::Error::other)?;
            Ok::<_, std::io::Error>(Box::new(TlsConnector::from(config).connect(name, stream).await?) as Box<dyn Wire>)
        };
        match tokio::time::timeout(TIMEOUT, connect).await {
            Ok(Ok(wire)) => Ok(wire),
            Ok(Err(e)) => Err(SourceError::Away(format!("cannot connect to {self}: {}", explained(e)))),
            Err(_) => Err(SourceError::Away(format!("{self} does not answer"))),
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let brackets = self.host.contains(':');
        write!(f, "{}{}{}:{}", if brackets { "[" } else { "" }, self.host, if brackets { "]" } else { "" }, self.port)
    }
}

/// Reads the password file of a source or a sink, so that a missing or empty one is known before the first connection.
///
/// # Errors
/// If it cannot be read, or contains no password.
pub fn check_password_file(file: &Path) -> Result<()> {
    read_password(file).map(drop)
}

/// The password in a file, without the line end. It is read at every connection, so that it can be replaced.
pub(crate) fn password(file: Option<&Path>) -> Result<Option<String>, SourceError> {
    let Some(file) = file else { return Ok(None) };
    Ok(Some(read_password(file)?))
}

fn read_password(file: &Path) -> Result<String> {
    // If there is none, its name may be the password: that is not shown.
    let text = std::fs::read_to_string(file).context("the file that `password-file` names cannot be read")?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(usage(format!("{} contains no password", file.display()))),
        password => Ok(password.to_owned()),
    }
}
