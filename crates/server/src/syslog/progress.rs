//! The state of a listener, for its operator.

use crate::tls::ReloadingTls;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Rows of some messages, each a line of JSON.
pub(super) type MessageRows = Vec<Vec<u8>>;

/// Why a message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyslogRefusal {
    /// It is not a message of syslog.
    Malformed,
    /// It is longer than configured.
    TooLong,
    /// Its connection ended in it.
    Incomplete,
    /// The stream does not accept it.
    NotAccepted,
}

impl SyslogRefusal {
    /// All reasons.
    pub(crate) const ALL: [Self; 4] = [Self::Malformed, Self::TooLong, Self::Incomplete, Self::NotAccepted];

    /// The reason as one word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::TooLong => "too-long",
            Self::Incomplete => "incomplete",
            Self::NotAccepted => "not-accepted",
        }
    }
}

/// How a listener gets on.
pub struct SyslogProgress {
    /// Its stream.
    pub stream: String,
    /// The address that it listens at.
    pub address: SocketAddr,
    /// Messages that were put into the queue.
    pub(super) read: AtomicU64,
    pub(super) rows: AtomicU64,
    pub(super) refused: [AtomicU64; SyslogRefusal::ALL.len()],
    pub(super) connections: AtomicUsize,
    /// Connections that were closed at once: of other addresses, without a certificate, or too many.
    pub(super) closed: AtomicU64,
    /// The most connections.
    most: usize,
    /// Whether a connection was refused since there was room for one.
    lacks_room: AtomicBool,
    pub(super) problem: Mutex<Option<String>>,
    /// Why refused messages are not set aside.
    aside_problem: Mutex<Option<String>>,
    tls: Option<Arc<ReloadingTls>>,
}

impl SyslogProgress {
    pub(super) fn new(stream: &str, address: SocketAddr, most: usize, tls: Option<Arc<ReloadingTls>>) -> Self {
        Self {
            stream: stream.to_owned(),
            address,
            read: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            refused: Default::default(),
            connections: AtomicUsize::new(0),
            closed: AtomicU64::new(0),
            most,
            lacks_room: AtomicBool::new(false),
            problem: Mutex::default(),
            aside_problem: Mutex::default(),
            tls,
        }
    }

    /// Messages that were committed since the start.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Messages that were read and are neither committed nor refused.
    pub fn waiting(&self) -> u64 {
        let done = self.rows() + self.refused(SyslogRefusal::NotAccepted);
        self.read.load(Ordering::Relaxed).saturating_sub(done)
    }

    /// Messages that were refused since the start, for a reason.
    pub fn refused(&self, reason: SyslogRefusal) -> u64 {
        self.refused[reason as usize].load(Ordering::Relaxed)
    }

    /// Counts refused messages.
    pub(super) fn refuse(&self, reason: SyslogRefusal, messages: u64) {
        self.refused[reason as usize].fetch_add(messages, Ordering::Relaxed);
    }

    /// Open connections, and those that were refused since the start.
    pub fn connections(&self) -> (usize, u64) {
        (self.connections.load(Ordering::Relaxed), self.closed.load(Ordering::Relaxed))
    }

    /// Why nothing is committed now.
    pub fn problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All problems, in words: also those that stop no messages.
    pub(super) fn problems(&self) -> Vec<String> {
        let aside = self.aside_problem.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let full = self.lacks_room.load(Ordering::Relaxed).then(|| {
            let most = self.most;
            format!("all {most} connections are in use, so others are refused: find out who connects, or allow more")
        });
        self.problem().into_iter().chain(aside).chain(full).collect()
    }

    /// Counts another connection if there is room for it.
    pub(super) fn enter(&self) -> bool {
        let has_room = self.connections.load(Ordering::Relaxed) < self.most;
        if has_room {
            self.connections.fetch_add(1, Ordering::Relaxed);
        } else {
            self.lacks_room.store(true, Ordering::Relaxed);
        }
        has_room
    }

    /// Counts a connection no more.
    pub(super) fn leave(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
        self.lacks_room.store(false, Ordering::Relaxed);
    }

    /// When its certificate expires, in seconds since 1970.
    pub(crate) fn certificate_expiry(&self) -> Option<i64> {
        self.tls.as_ref()?.expiry()
    }

    /// Sets the problem, and returns whether it has changed.
    pub(super) fn set_problem(&self, problem: Option<String>) -> bool {
        Self::replace(&self.problem, problem)
    }

    /// Sets why refused messages are not set aside, and returns whether it has changed.
    pub(super) fn set_aside_problem(&self, problem: Option<String>) -> bool {
        Self::replace(&self.aside_problem, problem)
    }

    fn replace(own: &Mutex<Option<String>>, problem: Option<String>) -> bool {
        let mut own = own.lock().unwrap_or_else(PoisonError::into_inner);
        let has_changed = *own != problem;
        *own = problem;
        has_changed
    }
}
