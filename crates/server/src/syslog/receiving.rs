//! Connections of senders.

use super::admission::Admission;
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

/// The timeout of a TLS handshake: until its end anyone may hold a connection.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// The bytes that are read at once.
const READ_BYTES: usize = 16 << 10;
/// The bytes of rows that wait for the committer together.
const PART_BYTES: usize = 64 << 10;

/// A listener, and what its connections need.
pub(super) struct Receiver {
    pub(super) config: SyslogConfig,
    pub(super) admission: Arc<Admission>,
    pub(super) zone: TimeZone,
    pub(super) now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    pub(super) tls: Option<Arc<ReloadingTls>>,
    pub(super) progress: Arc<SyslogProgress>,
    pub(super) stopping: watch::Receiver<bool>,
}

/// Why a handshake failed, without anything that the peer has sent.
fn reason_of(error: &std::io::Error) -> &'static str {
    match error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::NoCertificatesPresented) => "the sender has no certificate",
        Some(rustls::Error::InvalidCertificate(_)) => "the certificate of the sender is not valid here",
        Some(rustls::Error::AlertReceived(_)) => "the sender does not accept the certificate of the service",
        Some(rustls::Error::PeerIncompatible(_)) => "the sender has no version or cipher of TLS that is accepted",
        Some(_) => "the sender does not speak TLS correctly",
        None => "the connection ended",
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
            let peer = peer.ip().to_canonical();
            let Some(admitted) = self.may_connect(peer).then(|| self.admission.enter(peer)).flatten() else {
                self.progress.closed.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            let (own, queue) = (Arc::clone(&self), queue.clone());
            tokio::spawn(async move {
                own.connection(socket, peer, &queue).await;
                drop(admitted);
            });
        }
    }

    /// Without `from`, the certificate of a client decides, or it is on this machine.
    fn may_connect(&self, peer: IpAddr) -> bool {
        self.config.from.is_empty() || self.config.from.contain(peer)
    }

    async fn connection(&self, socket: TcpStream, peer: IpAddr, queue: &mpsc::Sender<MessageRows>) {
        let Some(tls) = &self.tls else { return self.receive(socket, None, queue).await };
        let authority = ClientCertificate::authority(tls);
        let mut stopping = self.stopping.clone();
        let agreed = tokio::select! {
            agreed = tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.acceptor().accept(socket)) => agreed,
            _ = stopping.changed() => return,
        };
        let socket = match agreed {
            Ok(Ok(socket)) => socket,
            Ok(Err(error)) => return self.admission.fail(peer, reason_of(&error)),
            Err(_) => return self.admission.fail(peer, "it took too long"),
        };
        let certificate = ClientCertificate::of(socket.get_ref().1, authority);
        if !self.is_named(certificate.as_ref()) {
            return self.admission.fail(peer, "no name of the certificate of the sender is in `clients`");
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
        let is_valid = || certificate.as_ref().is_none_or(ClientCertificate::is_valid);
        while is_valid() {
            let read = tokio::select! {
                biased;
                _ = stopping.wait_for(|stops| *stops) => break,
                read = tokio::time::timeout(self.config.idle.duration(), socket.read(&mut bytes)) => read,
            };
            let Ok(Ok(length @ 1..)) = read else { break };
            framer.push(&bytes[..length]);
            // The sender may have been silent for longer than its certificate was valid.
            if !is_valid() {
                break;
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;
    use tokio::io::AsyncWriteExt;

    #[tokio::test]
    async fn nothing_counts_that_was_sent_after_the_authority_was_replaced() {
        let config: SyslogConfig = toml::from_str("listen = \"127.0.0.1:0\"\nstream = \"logs\"").unwrap();
        let progress = Arc::new(SyslogProgress::new("logs", config.listen, 10, None));
        let (_stop, stopping) = watch::channel(false);
        let receiver = Receiver {
            config,
            admission: Admission::new(10, Arc::clone(&progress)),
            zone: TimeZone::UTC,
            now: Arc::new(Timestamp::now),
            tls: None,
            progress: Arc::clone(&progress),
            stopping,
        };
        let authorities = Arc::new(AtomicU64::new(0));
        let certificate = ClientCertificate::with_names(&[], &[], &authorities);
        let (mut sender, socket) = tokio::io::duplex(1000);
        let (queue, mut rows) = mpsc::channel::<MessageRows>(10);
        let sending = async {
            sender.write_all(b"<14>1 - h a - - - first\n").await.unwrap();
            assert_eq!(rows.recv().await.unwrap().len(), 1);
            authorities.fetch_add(1, Ordering::AcqRel); // while the connection is being read
            sender.write_all(b"<14>1 - h a - - - second\n").await.unwrap();
        };
        tokio::join!(receiver.receive(socket, Some(certificate), &queue), sending);
        drop(queue);
        assert!(rows.recv().await.is_none(), "the second is not used");
        assert_eq!(progress.refused(SyslogRefusal::Incomplete), 1);
    }
}
