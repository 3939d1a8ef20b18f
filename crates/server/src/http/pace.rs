//! A minimum rate for the bodies of requests: a client that stops in the middle, or sends a byte from time to time,
//! would hold a connection and a thread for nothing.

use super::activity::{ConnectionActivity, MIN_BYTES_PER_SEC};
use super::body_fault::Exceeded;
use axum::BoxError;
use axum::http::Request;
use axum::http::header::EXPECT;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::{Instant, Sleep, sleep};

/// How long a client may be silent in the middle of a body.
const MAX_SILENCE: Duration = Duration::from_secs(30);

/// How long a body may arrive more slowly than at [`MIN_BYTES_PER_SEC`].
const SLOW_START: Duration = Duration::from_secs(30);

/// The most bytes of an unread body that are still read and discarded.
const MAX_DISCARDED_BYTES: u64 = 32 << 20;

/// A body that ends with [`Exceeded::Slow`] if its client is too slow. If the request is answered before the body is
/// complete, the rest is read in the background: many clients read an answer only after they have sent everything, and
/// report a connection that is reset before that as broken.
pub(super) struct Paced {
    rest: Option<Rest>,
    /// Whether the client sends the body without being asked to (`Expect: 100-continue`).
    comes_anyway: bool,
}

/// A body that has not ended.
struct Rest {
    body: Incoming,
    activity: Arc<ConnectionActivity>,
    /// When the body was first requested, and when it is too late for its next bytes.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
    bytes: u64,
}

impl Paced {
    /// The body of a request.
    pub(super) fn of(request: Request<Incoming>, activity: &Arc<ConnectionActivity>) -> Request<Self> {
        let comes_anyway = !request.headers().contains_key(EXPECT);
        request.map(|body| {
            let rest = Rest { body, activity: Arc::clone(activity), waiting: None, bytes: 0 };
            Self { rest: Some(rest).filter(|rest| !rest.body.is_end_stream()), comes_anyway }
        })
    }
}

impl Rest {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let (began, silence) = self.waiting.get_or_insert_with(|| (Instant::now(), Box::pin(sleep(MAX_SILENCE))));
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                let now = Instant::now();
                self.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
                silence.as_mut().reset(now + MAX_SILENCE);
                let passed = now.duration_since(*began);
                if passed > SLOW_START && self.bytes < MIN_BYTES_PER_SEC * passed.as_secs() {
                    return Poll::Ready(Some(Err(Exceeded::Slow.into())));
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => match silence.as_mut().poll(context) {
                Poll::Ready(()) => Poll::Ready(Some(Err(Exceeded::Slow.into()))),
                Poll::Pending => Poll::Pending,
            },
        }
    }

    /// Reads and discards the rest. The connection is not idle meanwhile.
    async fn discard(mut self) {
        let _under_way = self.activity.begin();
        while self.bytes < MAX_DISCARDED_BYTES {
            match std::future::poll_fn(|context| self.poll_frame(context)).await {
                Some(Ok(_)) => {}
                None | Some(Err(_)) => return,
            }
        }
    }
}

impl Drop for Paced {
    fn drop(&mut self) {
        if let (Some(rest), true, Ok(runtime)) = (self.rest.take(), self.comes_anyway, Handle::try_current()) {
            drop(runtime.spawn(rest.discard()));
        }
    }
}

impl Body for Paced {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Some(rest) = &mut self.rest else { return Poll::Ready(None) };
        let next = rest.poll_frame(context);
        let has_ended = match &next {
            Poll::Ready(Some(Ok(_))) => rest.body.is_end_stream(),
            Poll::Ready(_) => true,
            Poll::Pending => false,
        };
        if has_ended {
            self.rest = None;
        }
        next
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.rest.as_ref().map_or(SizeHint::with_exact(0), |rest| rest.body.size_hint())
    }
}
