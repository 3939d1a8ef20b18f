//! Listeners: they accept connections, each within its limits.

use super::activity::{CloseReason, ConnectionActivity, TrackedBody, TrackedSocket};
use super::app::{App, Peer, Side};
use super::connections::{ConnectionLimits, Connections};
use super::pace::Paced;
use super::{openapi, readiness, routes, tls};
use crate::config::{LimitsConfig, Listener};
use crate::cors::Cors;
use crate::proxies::TrustedProxies;
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use evertally_declare::error::{Context, Result};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tower::ServiceExt;

/// The timeout of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The shortest idle timeout that a configuration can set.
const MIN_IDLE: Duration = Duration::from_millis(100);
/// The time a connection has to end gracefully.
const GRACEFUL_CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// The time that requests under way have to finish once the service stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes, and the most headers, in the head of a request.
const HEADER_BYTES: usize = 64 << 10;
const HEADERS: usize = 64;

/// A listener that is bound to its address, but accepts no connections yet.
pub struct BoundListener {
    listener: TcpListener,
    tls: Option<(tokio_rustls::TlsAcceptor, Arc<tls::CertificateReloader>)>,
    side: Side,
    cors: Cors,
    proxies: Arc<TrustedProxies>,
    /// The address it listens at.
    pub address: SocketAddr,
}

/// Listeners that accept connections until they are stopped.
pub struct Serving {
    app: Arc<App>,
    stop: watch::Sender<bool>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl BoundListener {
    /// Binds a listener.
    ///
    /// # Errors
    /// If its address is in use, or its certificate cannot be used.
    pub async fn new(side: Side, config: &Listener) -> Result<Self> {
        let listener =
            TcpListener::bind(config.listen).await.context(format_args!("cannot listen at {}", config.listen))?;
        let tls = match (&config.certificate, &config.certificate_key) {
            (Some(chain), Some(key)) => Some(tls::acceptor(chain, key)?),
            _ => None,
        };
        let address = listener.local_addr()?;
        let (cors, proxies) = (config.cors.clone(), Arc::new(config.trusted_proxies.clone()));
        Ok(Self { listener, tls, side, cors, proxies, address })
    }

    /// The URL of the listener.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.tls.is_some() { "https" } else { "http" }, self.address)
    }
}

impl Serving {
    /// Begins to accept connections. `descriptors` is the number of descriptors for clients, shared equally by the
    /// listeners.
    pub fn start(app: &Arc<App>, listeners: Vec<BoundListener>, descriptors: usize) -> Self {
        let (stop, stopping) = watch::channel(false);
        let room = descriptors / listeners.len().max(1);
        let mut tasks = Vec::new();
        let certificates =
            listeners.iter().filter_map(|bound| Some((bound.side.word(), Arc::clone(&bound.tls.as_ref()?.1))));
        app.set_certificates(certificates.collect());
        for bound in listeners {
            if let Some((_, renewed)) = &bound.tls {
                let renewed = Arc::clone(renewed);
                tasks.push(tokio::spawn(repeat(tls::RELOAD_INTERVAL, stopping.clone(), move || renewed.look())));
            }
            tasks.push(tokio::spawn(accept(Arc::clone(app), bound, room, stopping.clone())));
        }
        let forgetting = Arc::clone(app);
        tasks.push(tokio::spawn(repeat(Duration::from_secs(60), stopping.clone(), move || {
            forgetting.limits.forget();
            forgetting.tokens.save_uses();
        })));
        let checking = Arc::clone(app);
        tasks.push(tokio::spawn(repeat(readiness::CHECK_INTERVAL, stopping, move || {
            checking.readiness.check(&checking.service);
        })));
        Self { app: Arc::clone(app), stop, tasks }
    }

    /// Stops accepting connections, and waits some seconds for requests under way.
    pub async fn stop(self) {
        self.app.readiness.begin_shutdown();
        let _ = self.stop.send(true);
        for task in self.tasks {
            let _ = task.await;
        }
    }
}

/// Runs `what` at regular intervals, in a thread that may block.
async fn repeat(often: Duration, mut stopping: watch::Receiver<bool>, what: impl Fn() + Clone + Send + 'static) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(often) => drop(tokio::task::spawn_blocking(what.clone()).await),
            _ = stopping.changed() => return,
        }
    }
}

/// The limits of a listener, logged if the limit of open files allows fewer connections.
fn most(limits: &LimitsConfig, side: Side, room: usize) -> ConnectionLimits {
    let allowed = allowed(limits, room);
    if allowed.all < limits.connections {
        tracing::info!(
            side = ?side,
            connections = allowed.all,
            "fewer connections than configured: the limit of open files (ulimit -n, LimitNOFILE) allows no more"
        );
    }
    allowed
}

fn allowed(limits: &LimitsConfig, room: usize) -> ConnectionLimits {
    let all = limits.connections.min(room).max(1);
    ConnectionLimits {
        all,
        of_address: limits.connections_per_address.max(1),
        of_network: limits.connections_per_network.max(1),
    }
}

async fn accept(app: Arc<App>, bound: BoundListener, room: usize, mut stopping: watch::Receiver<bool>) {
    let router = routes::router(&app, bound.side, bound.tls.is_some(), &bound.cors, openapi::text);
    let mut settings = app.settings();
    let connections = Connections::new(most(&settings.limits, bound.side, room));
    let tls = bound.tls.map(|(tls, _)| tls);
    loop {
        let accepted = tokio::select! {
            accepted = bound.listener.accept() => accepted,
            _ = stopping.changed() => break,
        };
        let Ok((socket, peer)) = accepted else {
            // Usually out of descriptors: let existing connections finish first.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let peer = peer.ip().to_canonical();
        if !Arc::ptr_eq(&settings, &app.settings()) {
            settings = app.settings();
            connections.set_limits(allowed(&settings.limits, room));
        }
        let idle = settings.limits.idle.duration().max(MIN_IDLE);
        let activity = ConnectionActivity::new(idle);
        let Some((entered, closes)) = connections.enter(peer, &activity) else { continue };
        let (router, tls, stopping) = (router.clone(), tls.clone(), stopping.clone());
        let peer = Peering { address: peer, proxies: Arc::clone(&bound.proxies) };
        tokio::spawn(async move {
            handle_connection(socket, peer, &activity, router, tls, stopping).await;
            drop(entered);
        });
        if closes {
            tokio::task::yield_now().await; // to the one that makes room
        }
    }
    let all_gone = async {
        while connections.count() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, all_gone).await;
}

/// The other end of a connection, and the proxies that are believed.
struct Peering {
    address: IpAddr,
    proxies: Arc<TrustedProxies>,
}

async fn handle_connection(
    socket: TcpStream,
    peer: Peering,
    activity: &Arc<ConnectionActivity>,
    router: Router,
    tls: Option<tokio_rustls::TlsAcceptor>,
    mut stopping: watch::Receiver<bool>,
) {
    let _ = socket.set_nodelay(true);
    let socket = TrackedSocket { socket, activity: Arc::clone(activity) };
    match tls {
        None => answer(socket, peer, activity, router, stopping).await,
        Some(tls) => {
            let agreed = tokio::select! {
                agreed = tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(socket)) => agreed,
                _ = activity.is_over() => return,
                _ = stopping.changed() => return,
            };
            if let Ok(Ok(socket)) = agreed {
                answer(socket, peer, activity, router, stopping).await;
            }
        }
    }
}

async fn answer(
    socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peering,
    activity: &Arc<ConnectionActivity>,
    router: Router,
    mut stopping: watch::Receiver<bool>,
) {
    let begun = Arc::clone(activity);
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let under_way = begun.begin();
        let mut request = Paced::wrap(request, &begun).map(Body::new);
        let client = peer.proxies.client_of(peer.address, request.headers());
        request.extensions_mut().insert(Peer(client));
        let answered = router.clone().oneshot(request);
        async move { answered.await.map(|answer| answer.map(|body| TrackedBody { body, _under_way: under_way })) }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(activity.idle())
        .max_buf_size(HEADER_BYTES)
        .max_headers(HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HEADER_BYTES as u32)
        .max_concurrent_streams(64)
        .keep_alive_interval(activity.idle())
        .keep_alive_timeout(activity.idle());
    let connection = builder.serve_connection(TokioIo::new(socket), service);
    tokio::pin!(connection);
    let last = tokio::select! {
        _ = connection.as_mut() => return,
        over = activity.is_over() => match over {
            CloseReason::Idle => GRACEFUL_CLOSE_TIMEOUT,
            CloseReason::AtOnce => return,
        },
        _ = stopping.changed() => SHUTDOWN_TIMEOUT,
    };
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(last, connection).await;
}
