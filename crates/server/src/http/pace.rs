//! Bodies of requests that must keep coming: a client that stops in the middle, or sends a byte now and then, holds a
//! connection and a thread for nothing.

use super::body::Exceeded;
use axum::BoxError;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// How long a client may be silent in the middle of a body.
const SILENCE: Duration = Duration::from_secs(30);

/// A body must come at so many bytes a second, once it has been coming for a while.
pub(super) const LEAST_RATE: u64 = 1000;

/// How long it may come more slowly.
const PATIENCE: Duration = Duration::from_secs(30);

/// A body that ends with [`Exceeded::Slow`] where its client is too slow.
pub(super) struct Paced {
    body: Incoming,
    /// Since it was asked for, and until when it must go on.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
    bytes: u64,
}

impl Paced {
    pub(super) fn new(body: Incoming) -> Self {
        Self { body, waiting: None, bytes: 0 }
    }
}

impl Body for Paced {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let own = &mut *self;
        let (began, silence) = own.waiting.get_or_insert_with(|| (Instant::now(), Box::pin(sleep(SILENCE))));
        match Pin::new(&mut own.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                let now = Instant::now();
                own.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
                silence.as_mut().reset(now + SILENCE);
                let passed = now.duration_since(*began);
                if passed > PATIENCE && own.bytes < LEAST_RATE * passed.as_secs() {
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

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
