//! The HTTP client: requests of the stores' library are sent by ureq, which is also the client of the service.

use super::settings::ConnectionSettings;
use async_trait::async_trait;
use bytes::Bytes;
use evertally_declare::error::ReadProblem;
use http_body::{Body, Frame};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse, HttpResponseBody,
    HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use std::io::Read;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// Bytes that are read from a connection at once.
const CHUNK: usize = 128 * 1024;

/// Addresses that issue credentials inside a cloud. Elsewhere they do not answer.
pub(super) const METADATA_HOSTS: [&str; 3] = ["169.254.169.254", "169.254.170.2", "metadata.google.internal"];

/// Until a service that issues credentials inside a cloud is reached.
const NEAR_TIMEOUT: Duration = Duration::from_secs(1);

/// The variable that names a file of certificates, which replaces the list of well-known ones.
const CERTIFICATES: &str = "SSL_CERT_FILE";

/// Whether the host of a URL is this machine, as `host` or `host:port`.
pub(super) fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Which servers a client asks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerReach {
    /// This machine, and the services of a cloud for its machines. They either answer at once or do not exist, and no
    /// proxy stands between: they may be asked without encryption.
    Near,
    /// Any server.
    Far {
        /// How many redirects are followed; none away from https.
        redirects: u32,
    },
}

/// A client.
///
/// # Errors
/// If the declared file of certificates cannot be used.
pub(super) fn agent(settings: &ConnectionSettings, reach: ServerReach) -> Result<ureq::Agent, ReadProblem> {
    let redirects = if let ServerReach::Far { redirects } = reach { redirects } else { 0 };
    let mut config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(redirects)
        .max_redirects_will_error(false)
        .https_only(redirects > 0)
        .user_agent(concat!("evertally/", env!("CARGO_PKG_VERSION")))
        .timeout_connect(Some(if reach == ServerReach::Near { NEAR_TIMEOUT } else { settings.connect_timeout }))
        .timeout_send_body(Some(settings.idle_timeout * 4))
        .timeout_recv_response(Some(settings.idle_timeout))
        .timeout_per_read(Some(settings.idle_timeout));
    if reach == ServerReach::Near {
        config = config.proxy(None);
    }
    if let Some(path) = settings.get(CERTIFICATES) {
        let unusable = |why: String| ReadProblem(format!("{CERTIFICATES}={path}: {why}"));
        let pem = std::fs::read(path).map_err(|error| unusable(format!("it cannot be read ({error})")))?;
        let certificate = |item| if let Ok(PemItem::Certificate(one)) = item { Some(one) } else { None };
        let certificates: Vec<Certificate<'static>> = parse_pem(&pem).filter_map(certificate).collect();
        if certificates.is_empty() {
            return Err(unusable("it contains no certificate".into()));
        }
        config = config.tls_config(TlsConfig::builder().root_certs(RootCerts::new_with_certs(&certificates)).build());
    }
    Ok(config.build().into())
}

/// How the last request ended, for messages.
#[derive(Clone, Debug, Default)]
pub(super) struct LastAnswer {
    pub(super) host: String,
    pub(super) status: Option<u16>,
    /// Why there is no answer.
    pub(super) failure: Option<String>,
    /// Whether it was not sent, because it would not be encrypted.
    pub(super) is_refused: bool,
}

/// Sends the requests of the stores' library, and keeps how the last one ended.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    far: ureq::Agent,
    near: ureq::Agent,
    last: Arc<Mutex<LastAnswer>>,
}

impl Connector {
    pub(super) fn new(settings: &ConnectionSettings) -> Result<Self, ReadProblem> {
        let (far, near) = (agent(settings, ServerReach::Far { redirects: 0 })?, agent(settings, ServerReach::Near)?);
        Ok(Self { far, near, last: Arc::default() })
    }

    pub(super) fn last_answer(&self) -> LastAnswer {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let allows_http = options.get_config_value(&ClientConfigKey::AllowHttp).as_deref() == Some("true");
        Ok(HttpClient::new(Client { connector: self.clone(), allows_http }))
    }
}

/// A client of one store, or of the service that issues its credentials.
#[derive(Debug)]
struct Client {
    connector: Connector,
    allows_http: bool,
}

/// A request to another machine without TLS.
#[derive(Debug)]
struct Unencrypted;

impl std::fmt::Display for Unencrypted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "the address of the store begins with http, which is not encrypted; use https, or set AWS_ALLOW_HTTP=true \
             or AZURE_ALLOW_HTTP=true in a network that you trust",
        )
    }
}

impl std::error::Error for Unencrypted {}

#[async_trait]
impl HttpService for Client {
    /// Blocks: each thread that reads has its own runtime.
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let host = request.uri().host().unwrap_or_default().to_owned();
        let is_encrypted = request.uri().scheme_str() == Some("https");
        let is_refused = !is_encrypted && !self.allows_http && !is_loopback(&host);
        let answer = match is_refused {
            true => Err(HttpError::new(HttpErrorKind::Unknown, Unencrypted)),
            false => self.connector.send(request, is_loopback(&host) || METADATA_HOSTS.contains(&&*host)),
        };
        let mut last = LastAnswer { host, ..LastAnswer::default() };
        match &answer {
            Ok(response) => last.status = Some(response.status().as_u16()),
            Err(error) => {
                last.failure = Some(innermost(error));
                last.is_refused = is_refused;
            }
        }
        *self.connector.last.lock().unwrap_or_else(PoisonError::into_inner) = last;
        answer
    }
}

impl Connector {
    fn send(&self, request: HttpRequest, is_near: bool) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let agent = if is_near { &self.near } else { &self.far };
        let bytes = whole(body)?;
        let sent = match &bytes[..] {
            [] => agent.run(http::Request::from_parts(parts, ())),
            bytes => agent.run(http::Request::from_parts(parts, bytes)),
        };
        let (parts, body) = sent.map_err(http_error)?.into_parts();
        let body = BlockingBody { reader: Mutex::new(body.into_reader()) };
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
    }
}

/// The bytes of a body, all of which are in memory.
fn whole(mut body: HttpRequestBody) -> Result<Vec<u8>, HttpError> {
    let mut bytes = Vec::with_capacity(body.content_length());
    let mut context = Context::from_waker(Waker::noop());
    while let Poll::Ready(Some(frame)) = Pin::new(&mut body).poll_frame(&mut context) {
        bytes.extend_from_slice(frame?.data_ref().map_or(&[], |data| &data[..]));
    }
    Ok(bytes)
}

/// Why a server cannot be reached, with the remedy if its certificate is not accepted.
pub(super) fn unreachable(server: &str, failure: &str) -> String {
    let remedy = match failure.contains("certificate") {
        true => format!("; if you trust it, name the certificate of its issuer in {CERTIFICATES}"),
        false => String::new(),
    };
    format!("{server} cannot be reached ({failure}){remedy}")
}

/// The text of the error that caused an error.
pub(super) fn innermost(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

/// The error with its kind, which decides whether the library sends the request again.
fn http_error(error: ureq::Error) -> HttpError {
    let kind = match &error {
        ureq::Error::Timeout(_) => HttpErrorKind::Timeout,
        ureq::Error::Io(_) | ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => HttpErrorKind::Connect,
        _ => HttpErrorKind::Unknown,
    };
    HttpError::new(kind, error)
}

/// The body of a response, which is read when it is polled.
struct BlockingBody {
    /// Never locked twice at once. The library needs a type that can be shared.
    reader: Mutex<ureq::BodyReader<'static>>,
}

impl Body for BlockingBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let mut chunk = vec![0; CHUNK];
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        Poll::Ready(match reader.read(&mut chunk) {
            Ok(0) => None,
            Ok(read) => {
                chunk.truncate(read);
                Some(Ok(Frame::data(chunk.into())))
            }
            Err(error) => Some(Err(HttpError::new(HttpErrorKind::Interrupted, error))),
        })
    }
}
