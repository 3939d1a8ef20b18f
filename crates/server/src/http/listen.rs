//! Listeners: connections in, each within its limits.

use super::app::{App, Peer, Side};
use super::{routes, tls};
use crate::config::Listener;
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use evertally_publish::error::{Context, Result};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tower::ServiceExt;

/// How long a client may take for the head of a request, and be idle between two.
const HEAD: Duration = Duration::from_secs(20);
/// How long it may take to agree on a cipher.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long requests under way may take once the service stops.
const LAST: Duration = Duration::from_secs(10);
/// Bytes and number of the headers of a request.
const HEADER_BYTES: usize = 64 << 10;
const HEADERS: usize = 64;

/// A listener that is bound to its address, and accepts nobody yet.
pub struct Bound {
    listener: TcpListener,
    tls: Option<tokio_rustls::TlsAcceptor>,
    side: Side,
    /// Where it listens.
    pub address: SocketAddr,
}

/// Listeners that accept; they end when this is told to stop.
pub struct Serving {
    stop: watch::Sender<bool>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Bound {
    /// Binds a listener.
    ///
    /// # Errors
    /// If its address is taken, or its certificate cannot be used.
    pub async fn new(side: Side, config: &Listener) -> Result<Self> {
        let listener =
            TcpListener::bind(config.listen).await.context(format_args!("cannot listen at {}", config.listen))?;
        let tls = match (&config.certificate, &config.certificate_key) {
            (Some(chain), Some(key)) => Some(tls::acceptor(chain, key)?),
            _ => None,
        };
        let address = listener.local_addr()?;
        Ok(Self { listener, tls, side, address })
    }

    /// The address for people.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.tls.is_some() { "https" } else { "http" }, self.address)
    }
}

impl Serving {
    /// Begins to accept.
    pub fn start(app: &Arc<App>, listeners: Vec<Bound>) -> Self {
        let (stop, stopping) = watch::channel(false);
        let mut tasks: Vec<_> =
            listeners.into_iter().map(|bound| tokio::spawn(accept(Arc::clone(app), bound, stopping.clone()))).collect();
        let forgetting = Arc::clone(app);
        tasks.push(tokio::spawn(async move {
            let mut stopping = stopping;
            loop {
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_secs(60)) => forgetting.limits.forget(),
                    _ = stopping.changed() => return,
                }
            }
        }));
        Self { stop, tasks }
    }

    /// Accepts nobody any more, and waits some seconds for requests under way.
    pub async fn stop(self) {
        let _ = self.stop.send(true);
        for task in self.tasks {
            let _ = task.await;
        }
    }
}

/// Connections by address, so that nobody takes all of them.
#[derive(Default)]
struct PerAddress(Mutex<HashMap<IpAddr, usize>>);

impl PerAddress {
    fn enter(self: &Arc<Self>, peer: IpAddr, most: usize) -> Option<Entered> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(peer).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Entered { counts: Arc::clone(self), peer })
    }
}

struct Entered {
    counts: Arc<PerAddress>,
    peer: IpAddr,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut counts = self.counts.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.peer);
            }
        }
    }
}

async fn accept(app: Arc<App>, bound: Bound, mut stopping: watch::Receiver<bool>) {
    let router = routes::router(&app, bound.side, bound.tls.is_some());
    let room = Arc::new(Semaphore::new(app.config.connections));
    let (all, per_address) = (u32::try_from(app.config.connections).unwrap_or(u32::MAX), Arc::<PerAddress>::default());
    loop {
        let accepted = tokio::select! {
            accepted = bound.listener.accept() => accepted,
            _ = stopping.changed() => break,
        };
        let Ok((socket, peer)) = accepted else {
            // Out of descriptors, mostly: those who are here go first.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let peer = peer.ip().to_canonical();
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else { continue };
        let Some(entered) = per_address.enter(peer, app.config.connections_per_address) else { continue };
        let (router, tls, stopping) = (router.clone(), bound.tls.clone(), stopping.clone());
        tokio::spawn(async move {
            converse(socket, peer, router, tls, stopping).await;
            drop((permit, entered));
        });
    }
    let _ = tokio::time::timeout(LAST, room.acquire_many(all)).await;
}

async fn converse(
    socket: TcpStream,
    peer: IpAddr,
    router: Router,
    tls: Option<tokio_rustls::TlsAcceptor>,
    stopping: watch::Receiver<bool>,
) {
    let _ = socket.set_nodelay(true);
    match tls {
        None => answer(socket, peer, router, stopping).await,
        Some(tls) => {
            if let Ok(Ok(socket)) = tokio::time::timeout(HANDSHAKE, tls.accept(socket)).await {
                answer(socket, peer, router, stopping).await;
            }
        }
    }
}

async fn answer(
    socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: IpAddr,
    router: Router,
    mut stopping: watch::Receiver<bool>,
) {
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(Peer(peer));
        router.clone().oneshot(request)
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(HEADER_BYTES).max_headers(HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HEADER_BYTES as u32)
        .max_concurrent_streams(64)
        .keep_alive_interval(HEAD)
        .keep_alive_timeout(HEAD);
    let connection = builder.serve_connection(TokioIo::new(socket), service);
    tokio::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => {}
        _ = stopping.changed() => {
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(LAST, connection).await;
        }
    }
}
