//! What a connection is doing, and when to close it.
//!
//! A connection without a request under way is closed after some seconds, in any protocol and in any state: before its
//! first byte, in the middle of a head, between two requests. A connection is also closed if its client does not read
//! the answer.

use axum::BoxError;
use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Instant;

/// The minimum rate of a client in bytes per second, when it sends a body and when it reads an answer.
pub(super) const MIN_BYTES_PER_SEC: u64 = 1000;

/// How long in total a client may read nothing, before it must have read at least [`MIN_BYTES_PER_SEC`] bytes per
/// second.
const MAX_UNREAD_TIME: Duration = Duration::from_secs(60);

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CloseReason {
    /// It had no request for long: it may end gracefully.
    Idle,
    /// Its client does not read, or its descriptor is needed.
    AtOnce,
}

/// What a connection is doing.
pub(super) struct ConnectionActivity {
    /// How long the connection may be idle.
    idle: Duration,
    /// How long its client may read nothing.
    unread: Duration,
    state: Mutex<BodyState>,
    close: Notify,
}

struct BodyState {
    /// Requests whose answers are not fully written.
    requests: usize,
    /// Whether there was ever a request.
    has_asked: bool,
    idle_since: Instant,
    /// Since when the client reads nothing.
    stalled_since: Option<Instant>,
    /// For how long the client has read nothing, and how many bytes it has read, since the connection was last idle.
    stalled: Duration,
    taken: u64,
}

impl ConnectionActivity {
    /// For a connection that may be idle this long.
    pub(super) fn new(idle: Duration) -> Arc<Self> {
        let idle_since = Instant::now();
        let state = BodyState {
            requests: 0,
            has_asked: false,
            idle_since,
            stalled_since: None,
            stalled: Duration::ZERO,
            taken: 0,
        };
        Arc::new(Self { idle, unread: MAX_UNREAD_TIME, state: Mutex::new(state), close: Notify::new() })
    }

    /// How long the connection may be idle.
    pub(super) fn idle(&self) -> Duration {
        self.idle
    }

    fn state(&self) -> MutexGuard<'_, BodyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a request; it is under way until the result is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> UnderWay {
        let mut state = self.state();
        (state.requests, state.has_asked) = (state.requests + 1, true);
        UnderWay(Arc::clone(self))
    }

    /// Since when the connection is idle, and whether it ever had a request; `None` if a request is under way.
    pub(super) fn idle_since(&self) -> Option<(bool, Instant)> {
        let state = self.state();
        (state.requests == 0).then_some((state.has_asked, state.idle_since))
    }

    /// Closes the connection, to make room for others.
    pub(super) fn close(&self) {
        self.close.notify_one();
    }

    /// Waits until the connection has to be closed, and returns the reason.
    pub(super) async fn is_over(&self) -> CloseReason {
        loop {
            let next = {
                let state = self.state();
                let now = Instant::now();
                match state.stalled_since {
                    Some(since) => {
                        let stalled = state.stalled + now.duration_since(since);
                        if stalled > self.unread && state.taken < MIN_BYTES_PER_SEC * stalled.as_secs() {
                            return CloseReason::AtOnce;
                        }
                        now + self.unread.saturating_sub(stalled).max(Duration::from_secs(1))
                    }
                    None if state.requests == 0 && now >= state.idle_since + self.idle => return CloseReason::Idle,
                    None if state.requests == 0 => state.idle_since + self.idle,
                    // Check again, before its client can have read nothing for too long.
                    None => now + self.idle.min(self.unread),
                }
            };
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                () = self.close.notified() => return CloseReason::AtOnce,
            }
        }
    }

    fn wrote(&self, poll: &Poll<io::Result<usize>>) {
        let mut state = self.state();
        match poll {
            Poll::Pending => {
                state.stalled_since.get_or_insert_with(Instant::now);
            }
            Poll::Ready(written) => {
                if let Some(since) = state.stalled_since.take() {
                    state.stalled += since.elapsed();
                }
                state.taken += written.as_ref().map_or(0, |bytes| *bytes as u64);
            }
        }
    }
}

/// A request that is under way.
pub(super) struct UnderWay(Arc<ConnectionActivity>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.requests -= 1;
        if state.requests == 0 {
            (state.idle_since, state.stalled, state.taken) = (Instant::now(), Duration::ZERO, 0);
        }
    }
}

/// The body of an answer: its request is under way until the body is written or dropped.
pub(super) struct TrackedBody {
    pub(super) body: Body,
    pub(super) _under_way: UnderWay,
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A socket that records whether its client reads.
pub(super) struct TrackedSocket<S> {
    pub(super) socket: S,
    pub(super) activity: Arc<ConnectionActivity>,
}

impl<S: AsyncRead + Unpin> AsyncRead for TrackedSocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TrackedSocket<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.activity.wrote(&wrote);
        wrote
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.socket).poll_write_vectored(context, slices);
        self.activity.wrote(&wrote);
        wrote
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::timeout;

    const LONG: Duration = Duration::from_secs(3600);
    const SOON: Duration = Duration::from_secs(10);

    fn activity(idle: Duration, unread: Duration) -> Arc<ConnectionActivity> {
        let made = Arc::into_inner(ConnectionActivity::new(idle)).unwrap();
        Arc::new(ConnectionActivity { unread, ..made })
    }

    #[tokio::test]
    async fn nothing_is_under_way_for_long() {
        let activity = activity(Duration::from_millis(50), LONG);
        assert_eq!(timeout(SOON, activity.is_over()).await, Ok(CloseReason::Idle));
        let under_way = activity.begin();
        assert!(timeout(Duration::from_millis(300), activity.is_over()).await.is_err(), "a request is under way");
        drop(under_way);
        assert_eq!(timeout(SOON, activity.is_over()).await, Ok(CloseReason::Idle));
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_is_let_go_and_one_that_does_is_not() {
        for reads in [false, true] {
            let activity = activity(LONG, Duration::from_millis(100));
            let (ours, mut theirs) = tokio::io::duplex(64);
            let mut socket = TrackedSocket { socket: ours, activity: Arc::clone(&activity) };
            let _under_way = activity.begin();
            let writing = tokio::spawn(async move { while socket.write_all(&[0; 1000]).await.is_ok() {} });
            let reading = tokio::spawn(async move {
                let mut bytes = [0; 4096];
                while reads && theirs.read(&mut bytes).await.is_ok() {}
                tokio::time::sleep(LONG).await;
            });
            let over = timeout(Duration::from_secs(4), activity.is_over()).await;
            assert_eq!(over.ok(), (!reads).then_some(CloseReason::AtOnce));
            writing.abort();
            reading.abort();
        }
    }
}
