//! Which connections are admitted, and how often the log speaks of the others.

use super::progress::SyslogProgress;
use evertally_feeds::LogPause;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

/// Counts the connections of a listener.
pub(super) struct Admission {
    progress: Arc<SyslogProgress>,
    /// The most connections of one origin.
    of_origin: usize,
    origins: Mutex<BTreeMap<IpAddr, usize>>,
    full: LogPause,
    failed: LogPause,
}

/// A connection that counts until this is dropped.
pub(super) struct AdmittedConnection {
    admission: Arc<Admission>,
    origin: IpAddr,
}

/// The address, or the first half of an IPv6 address: a sender has all addresses that share it.
fn origin_of(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V4(_) => peer,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

impl Admission {
    /// Admits at most `most` connections, of which one origin may have a quarter.
    pub(super) fn new(most: usize, progress: Arc<SyslogProgress>) -> Arc<Self> {
        let of_origin = (most / 4).max(1);
        let (full, failed) = Default::default();
        Arc::new(Self { progress, of_origin, origins: Mutex::default(), full, failed })
    }

    /// Counts a connection if there is room for it. This machine alone may use all the room.
    pub(super) fn enter(self: &Arc<Self>, peer: IpAddr) -> Option<AdmittedConnection> {
        let origin = if peer.is_loopback() { peer } else { origin_of(peer) };
        let mut origins = self.origins.lock().unwrap_or_else(PoisonError::into_inner);
        let own = origins.get(&origin).copied().unwrap_or(0);
        if !peer.is_loopback() && own >= self.of_origin {
            self.log_full(peer, "one address has a quarter of the connections of a listener for syslog");
            return None;
        }
        if !self.progress.enter() {
            self.log_full(peer, "all connections of a listener for syslog are in use");
            return None;
        }
        origins.insert(origin, own + 1);
        Some(AdmittedConnection { admission: Arc::clone(self), origin })
    }

    fn log_full(&self, peer: IpAddr, problem: &'static str) {
        if self.full.is_over() {
            let (stream, listener) = (&self.progress.stream, self.progress.address);
            tracing::warn!(stream, %listener, %peer, "{problem}: others are refused (logged once a minute)");
        }
    }

    /// Counts a connection that was closed before its first message, and logs why. Nothing that the peer has sent may
    /// be in `why`.
    pub(super) fn fail(&self, peer: IpAddr, why: &'static str) {
        self.progress.closed.fetch_add(1, Ordering::Relaxed);
        if self.failed.is_over() {
            let (stream, listener) = (&self.progress.stream, self.progress.address);
            tracing::warn!(
                stream, %listener, %peer, why, "a TLS handshake of a sender of syslog failed (logged once a minute)"
            );
        }
    }
}

impl Drop for AdmittedConnection {
    fn drop(&mut self) {
        let admission = &self.admission;
        admission.progress.leave();
        let mut origins = admission.origins.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = origins.get_mut(&self.origin) {
            *own -= 1;
            if *own == 0 {
                origins.remove(&self.origin);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_has_a_quarter_and_this_machine_all() {
        let address = "127.0.0.1:6514".parse().unwrap();
        let progress = Arc::new(SyslogProgress::new("logs", address, 8, None));
        let admission = Admission::new(8, Arc::clone(&progress));
        let enter = |peer: &str| admission.enter(peer.parse().unwrap());
        let mut kept = vec![enter("2001:db8::1").unwrap(), enter("2001:db8::2").unwrap()];
        assert!(enter("2001:db8::3").is_none() && progress.problems().is_empty());
        kept.extend((0..6).map(|_| enter("127.0.0.1").unwrap()));
        assert!(enter("10.0.0.1").is_none() && progress.problems()[0].contains("all 8 connections"));
        drop(kept);
        assert!(progress.problems().is_empty() && admission.origins.lock().unwrap().is_empty());
        assert!(!admission.full.is_over(), "it was logged a moment ago");
    }
}
