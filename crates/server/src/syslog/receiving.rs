//! Connections of senders.

use super::framing::{Framer, SyslogFrame};
use super::message::row_of;
use super::progress::{MessageRows, SyslogProgress, SyslogRefusal};
use crate::config::SyslogConfig;
use crate::tls::{self, ClientCertificate, ReloadingTls};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

/// The timeout of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The bytes that are read at once.
const READ_BYTES: usize = 16 << 10;
/// The bytes of rows that wait for the committer together.
const PART_BYTES: usize = 64 << 10;

/// A listener, and what its connections need.
pub(super) struct Receiver {
    pub(super) config: SyslogConfig,
    /// The most connections.
    pub(super) connections: usize,
    pub(super) zone: TimeZone,
    pub(super) now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    pub(super) tls: Option<Arc<ReloadingTls>>,
    pub(super) progress: Arc<SyslogProgress>,
    pub(super) stopping: watch::Receiver<bool>,
}

/// A connection that counts until this is dropped.
struct CountedSender(Arc<SyslogProgress>);

impl Drop for CountedSender {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Receiver {
    /// Accepts connections until the listener stops. The queue is closed once all of them have ended.
    pub(super) async fn accept(self: Arc<Self>, listener: TcpListener, queue: mpsc::Sender<MessageRows>) {
        let mut stopping = self.stopping.clone();
        let mut looked = tokio::time::interval(tls::RELOAD_INTERVAL);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stopping.changed() => return,
                _ = looked.tick() => {
                    if let Some(tls) = &self.tls {
                        let tls = Arc::clone(tls);
                        drop(tokio::task::spawn_blocking(move || tls.look()).await);
                    }
                    continue;
                }
            };
            let Ok((socket, peer)) = accepted else {
                tokio::time::sleep(Duration::from_millis(100)).await; // usually out of descriptors
                continue;
            };
            let is_full = self.progress.connections.load(Ordering::Relaxed) >= self.connections;
            if is_full || !self.may_connect(peer.ip().to_canonical()) {
                self.progress.closed.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            self.progress.connections.fetch_add(1, Ordering::Relaxed);
            let counted = CountedSender(Arc::clone(&self.progress));
            let (own, queue) = (Arc::clone(&self), queue.clone());
            tokio::spawn(async move {
                own.connection(socket, &queue).await;
                drop(counted);
            });
        }
    }

    /// Without `from`, the certificate of a client decides, or it is on this machine.
    fn may_connect(&self, peer: IpAddr) -> bool {
        self.config.from.is_empty() || self.config.from.contain(peer)
    }

    async fn connection(&self, socket: TcpStream, queue: &mpsc::Sender<MessageRows>) {
        let Some(tls) = &self.tls else { return self.receive(socket, None, queue).await };
        let authority = ClientCertificate::authority(tls);
        let mut stopping = self.stopping.clone();
        let agreed = tokio::select! {
            agreed = tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.acceptor().accept(socket)) => agreed,
            _ = stopping.changed() => return,
        };
        let socket = agreed.ok().and_then(Result::ok);
        let Some(socket) = socket else {
            self.progress.closed.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let certificate = ClientCertificate::of(socket.get_ref().1, authority);
        if !self.is_named(certificate.as_ref()) {
            self.progress.closed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.receive(socket, certificate, queue).await;
    }

    /// Whether a client may send, by the names of its certificate.
    fn is_named(&self, certificate: Option<&ClientCertificate>) -> bool {
        let clients = &self.config.clients;
        clients.is_empty() || certificate.is_some_and(|own| clients.iter().any(|name| own.has_name(name)))
    }

    /// Reads messages until the connection or the listener ends. Complete messages are in the queue after that.
    async fn receive(
        &self,
        mut socket: impl AsyncRead + Unpin,
        certificate: Option<ClientCertificate>,
        queue: &mpsc::Sender<MessageRows>,
    ) {
        let mut framer = Framer::new(self.config.message_bytes);
        let (mut bytes, mut stopping) = (vec![0; READ_BYTES], self.stopping.clone());
        while certificate.as_ref().is_none_or(ClientCertificate::is_valid) {
            let read = tokio::select! {
                biased;
                _ = stopping.wait_for(|stops| *stops) => break,
                read = tokio::time::timeout(self.config.idle.duration(), socket.read(&mut bytes)) => read,
            };
            let Ok(Ok(length @ 1..)) = read else { break };
            framer.push(&bytes[..length]);
            if !self.take(&mut framer, queue).await {
                return;
            }
        }
        if framer.is_partial() {
            self.progress.refuse(SyslogRefusal::Incomplete, 1);
        }
    }

    /// Puts all complete messages into the queue, and waits while it is full. Returns whether the connection may
    /// continue.
    async fn take(&self, framer: &mut Framer, queue: &mpsc::Sender<MessageRows>) -> bool {
        let (mut part, mut size, now) = (MessageRows::new(), 0, (self.now)());
        loop {
            let row = match framer.next() {
                Ok(Some(SyslogFrame::Message(message))) => {
                    row_of(message, now, &self.zone).ok_or(SyslogRefusal::Malformed)
                }
                Ok(Some(SyslogFrame::TooLong)) => Err(SyslogRefusal::TooLong),
                Ok(None) => return part.is_empty() || queue.send(part).await.is_ok(),
                Err(_) => {
                    self.progress.refuse(SyslogRefusal::Malformed, 1);
                    if !part.is_empty() {
                        let _ = queue.send(part).await;
                    }
                    return false;
                }
            };
            match row {
                Ok(row) => {
                    self.progress.read.fetch_add(1, Ordering::Relaxed);
                    size += row.len();
                    part.push(row);
                }
                Err(reason) => self.progress.refuse(reason, 1),
            }
            if size >= PART_BYTES {
                size = 0;
                if queue.send(std::mem::take(&mut part)).await.is_err() {
                    return false;
                }
            }
        }
    }
}
