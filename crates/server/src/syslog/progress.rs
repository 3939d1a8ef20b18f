//! The state of a listener, for its operator.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

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
    pub(super) problem: Mutex<Option<String>>,
}

impl SyslogProgress {
    pub(super) fn new(stream: &str, address: SocketAddr) -> Self {
        Self {
            stream: stream.to_owned(),
            address,
            read: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            refused: Default::default(),
            connections: AtomicUsize::new(0),
            closed: AtomicU64::new(0),
            problem: Mutex::default(),
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

    /// Sets the problem, and returns whether it has changed.
    pub(super) fn set_problem(&self, problem: Option<String>) -> bool {
        let mut own = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *own, problem.clone()) != problem
    }
}
