//! Listeners: they accept connections, each within its limits.

use super::activity::{CloseReason, ConnectionActivity, TrackedBody, TrackedSocket};
use super::app::{App, Peer, Side};
use super::connections::{ConnectionGuard, ConnectionLimits, Connections};
use super::pace::Paced;
use super::sockets::{ClientSocket, ListeningSocket};
use super::{openapi, proxy_header, readiness, routes};
use crate::config::{LimitsConfig, Listener};
use crate::cors::Cors;
use crate::proxies::Networks;
use crate::tls::{self, ClientCertificate, ReloadingTls};
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use evertally_declare::error::Result;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tower::ServiceExt;

/// The timeout of a TLS handshake, and of the header of a proxy.
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
    socket: ListeningSocket,
    tls: Option<Arc<ReloadingTls>>,
    side: Side,
    cors: Cors,
    proxies: Arc<Proxies>,
}

/// The proxies in front of a listener.
struct Proxies {
    trusted: Networks,
    /// Whether they send a header of the PROXY protocol.
    send_header: bool,
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
        let socket = ListeningSocket::bind(config).await?;
        let tls = config.tls().map(ReloadingTls::new).transpose()?;
        let proxies = Proxies { trusted: config.trusted_proxies.clone(), send_header: config.proxy_protocol };
        Ok(Self { socket, tls, side, cors: config.cors.clone(), proxies: Arc::new(proxies) })
    }

    /// The URL of the listener.
    pub fn url(&self) -> String {
        self.socket.url(self.tls.is_some())
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
            listeners.iter().filter_map(|bound| Some((bound.side.word(), Arc::clone(bound.tls.as_ref()?))));
        app.set_certificates(certificates.collect());
        for bound in listeners {
            if let Some(renewed) = &bound.tls {
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
    loop {
        let accepted = tokio::select! {
            accepted = bound.socket.accept() => accepted,
            _ = stopping.changed() => break,
        };
        let Ok((socket, peer)) = accepted else {
            // Usually out of descriptors: let existing connections finish first.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        if !Arc::ptr_eq(&settings, &app.settings()) {
            settings = app.settings();
            connections.set_limits(allowed(&settings.limits, room));
        }
        let idle = settings.limits.idle.duration().max(MIN_IDLE);
        let activity = ConnectionActivity::new(idle);
        let has_header = bound.proxies.send_header && bound.proxies.trusted.contain(peer);
        if bound.proxies.send_header && !has_header && !peer.is_loopback() {
            continue; // only proxies may connect, and programs on this machine
        }
        // The limits per address are those of the client, whose address a proxy is about to send.
        let limited = if has_header { Ipv4Addr::LOCALHOST.into() } else { peer };
        let Some((guard, closes)) = connections.enter(limited, &activity) else { continue };
        let arriving = Arriving {
            peer,
            has_header,
            proxies: Arc::clone(&bound.proxies),
            connections: Arc::clone(&connections),
            router: router.clone(),
            tls: bound.tls.clone(),
        };
        tokio::spawn(arriving.handle(socket, guard, activity, stopping.clone()));
        if closes {
            tokio::task::yield_now().await; // to the one that makes room
        }
    }
    drop(bound.socket);
    let all_gone = async {
        while connections.count() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, all_gone).await;
}

/// An accepted connection with everything for its requests.
struct Arriving {
    peer: IpAddr,
    /// Whether a proxy sends the address of the client first.
    has_header: bool,
    proxies: Arc<Proxies>,
    connections: Arc<Connections>,
    router: Router,
    tls: Option<Arc<ReloadingTls>>,
}

/// The other end of a connection, and the proxies that are believed.
struct Peering {
    address: IpAddr,
    proxies: Arc<Proxies>,
    certificate: Option<ClientCertificate>,
}

impl Arriving {
    /// Answers the requests of the connection. It counts until `guard` is dropped.
    async fn handle(
        self,
        mut socket: ClientSocket,
        mut guard: ConnectionGuard,
        activity: Arc<ConnectionActivity>,
        mut stopping: watch::Receiver<bool>,
    ) {
        let mut address = self.peer;
        if self.has_header {
            let header = tokio::time::timeout(HANDSHAKE_TIMEOUT, proxy_header::read(&mut socket));
            let header = tokio::select! {
                header = header => header,
                _ = activity.is_over() => return,
                _ = stopping.changed() => return,
            };
            let Ok(Ok(client)) = header else { return };
            if let Some(client) = client {
                drop(guard);
                let Some((own, _)) = self.connections.enter(client, &activity) else { return };
                (address, guard) = (client, own);
            }
        }
        let socket = TrackedSocket { socket, activity: Arc::clone(&activity) };
        let mut peer = Peering { address, proxies: self.proxies, certificate: None };
        match self.tls {
            None => answer(socket, peer, &activity, self.router, stopping).await,
            Some(tls) => {
                let authority = ClientCertificate::authority(&tls);
                let agreed = tokio::select! {
                    agreed = tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.acceptor().accept(socket)) => agreed,
                    _ = activity.is_over() => return,
                    _ = stopping.changed() => return,
                };
                if let Ok(Ok(socket)) = agreed {
                    peer.certificate = ClientCertificate::of(socket.get_ref().1, authority);
                    answer(socket, peer, &activity, self.router, stopping).await;
                }
            }
        }
        drop(guard);
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
        let client = peer.proxies.trusted.client_of(peer.address, request.headers());
        request.extensions_mut().insert(Peer(client));
        if let Some(certificate) = &peer.certificate {
            request.extensions_mut().insert(certificate.clone());
        }
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
