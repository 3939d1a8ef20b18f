//! Asks the service of a configuration on this machine whether it is ready.

use crate::config::{Config, ListenAddress, Listener};
use crate::serving;
use evertally_declare::error::{Result, failure, usage};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

/// How long the check may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The header with which a proxy speaks for itself (PROXY protocol, version 2, `LOCAL`).
const LOCAL_HEADER: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
/// More is not an answer of this service.
const MAX_ANSWER: u64 = 64 << 10;

/// Asks the service of a configuration on this machine whether it is ready, and returns its answer. A running follower
/// is healthy, too, as long as it could take over.
///
/// # Errors
/// If it does not answer within five seconds, or is not ready; the answer says why.
pub fn health(config: &Path) -> Result<String> {
    let config = Config::read(config)?;
    if config.standby.is_some()
        && let Some(following) = serving::follower_health(&config.folder)?
    {
        return Ok(following);
    }
    let listeners = [&config.private, &config.public];
    let listener = listeners.into_iter().flatten().find(|listener| !listener.require_client_certificate);
    let listener = listener.ok_or_else(|| {
        usage(
            "every listener requires a client certificate, and this check has none: ask for /readyz with the \
             certificate of a client",
        )
    })?;
    let shown = &listener.listen;
    let (is_ready, text) = match (&listener.listen, needs_header(listener)) {
        (ListenAddress::Tcp(address), false) => over_http(listener, local(*address))?,
        (_, has_header) => over_socket(listener, has_header)
            .map_err(|error| failure(format!("the service at {shown} does not answer: {error}")))?,
    };
    if is_ready {
        return Ok(text);
    }
    let problem: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let why = problem["detail"].as_str().unwrap_or(&text);
    Err(failure(format!("the service at {shown} is not ready: {why}")))
}

/// An address of this machine for a listener.
fn local(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
    }
    address
}

/// Whether connections from this machine need the header of a proxy.
fn needs_header(listener: &Listener) -> bool {
    let own = match &listener.listen {
        ListenAddress::Tcp(address) => local(*address).ip(),
        ListenAddress::Unix(_) => Ipv4Addr::LOCALHOST.into(),
    };
    listener.proxy_protocol && listener.trusted_proxies.contain(own)
}

/// The answer over TCP, with or without TLS, and whether it is a success.
fn over_http(listener: &Listener, address: SocketAddr) -> Result<(bool, String)> {
    let scheme = if listener.certificate.is_some() { "https" } else { "http" };
    let agent = ureq::Agent::config_builder()
        .timeout_global(Some(TIMEOUT))
        .http_status_as_error(false)
        // The name in the certificate is that of the service for others. Nothing secret is sent.
        .tls_config(ureq::tls::TlsConfig::builder().disable_verification(true).build())
        .build();
    let mut answer = ureq::Agent::from(agent)
        .get(format!("{scheme}://{address}/readyz"))
        .call()
        .map_err(|error| failure(format!("the service at {address} does not answer: {error}")))?;
    let text = answer.body_mut().read_to_string().unwrap_or_default().trim().to_owned();
    Ok((answer.status().is_success(), text))
}

/// A connection without TLS.
trait PlainSocket: Read + Write {}
impl<S: Read + Write> PlainSocket for S {}

fn connect(listener: &Listener) -> std::io::Result<Box<dyn PlainSocket>> {
    match &listener.listen {
        ListenAddress::Tcp(address) => {
            let socket = TcpStream::connect_timeout(&local(*address), TIMEOUT)?;
            socket.set_read_timeout(Some(TIMEOUT))?;
            Ok(Box::new(socket))
        }
        #[cfg(unix)]
        ListenAddress::Unix(path) => {
            let socket = std::os::unix::net::UnixStream::connect(path)?;
            socket.set_read_timeout(Some(TIMEOUT))?;
            Ok(Box::new(socket))
        }
        #[cfg(not(unix))]
        ListenAddress::Unix(_) => Err(std::io::ErrorKind::Unsupported.into()),
    }
}

/// The answer at a Unix socket, or after the header of a proxy.
fn over_socket(listener: &Listener, has_header: bool) -> Result<(bool, String)> {
    if listener.certificate.is_some() {
        return Err(usage("this check speaks no TLS there; ask the proxy in front of it for /readyz"));
    }
    let mut socket = connect(listener)?;
    if has_header {
        socket.write_all(LOCAL_HEADER)?;
    }
    socket.write_all(b"GET /readyz HTTP/1.0\r\nhost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    socket.take(MAX_ANSWER).read_to_string(&mut answer)?;
    let (head, text) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let is_success = head.split(' ').nth(1).is_some_and(|status| status.starts_with('2'));
    Ok((is_success, text.trim().to_owned()))
}
