//! The body of a batch as bytes for a parser, within limits of memory, time and size.

use super::body_fault::{Coding, Exceeded};
use super::problem::ProblemAnswer;
use crate::engine::{Decoding, Refusal, Share};
use axum::body::{Body, BodyDataStream};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use evertally_declare::error::{PipelineError, usage};
use sha2::{Digest, Sha256};
use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio_stream::Stream;
use tokio_util::io::{StreamReader, SyncIoBridge};

/// The window of a zstd body has at most 8 MiB (RFC 9659): the decoder allocates it before any data.
const WINDOW_LOG: u32 = 23;

/// The limits of a body, and its expected digest.
pub(super) struct BodyLimits {
    pub(super) coding: Coding,
    pub(super) bytes: u64,
    pub(super) decoded: u64,
    pub(super) sha256: Option<[u8; 32]>,
}

/// An incoming body, for a thread that may block.
pub(super) struct Incoming {
    raw: LimitedReader<SyncIoBridge<StreamReader<Chunks, Bytes>>>,
    expected: BodyLimits,
}

impl Incoming {
    /// Must be called inside the runtime; nothing is read yet.
    pub(super) fn new(body: Body, expected: BodyLimits) -> Self {
        let inner = SyncIoBridge::new(StreamReader::new(Chunks(body.into_data_stream())));
        Self { raw: LimitedReader::new(inner, expected.bytes, Exceeded::Bytes(expected.bytes)), expected }
    }

    /// Its decoded bytes. Must be called in a thread that may block: decoders read when they are created.
    ///
    /// # Errors
    /// If a decoder cannot be created, or has no memory.
    pub(super) fn open(self, decoding: &Decoding) -> Result<Box<dyn Read + Send>, ProblemAnswer> {
        let Self { raw, expected } = self;
        let raw = Checked { inner: raw, digest: expected.sha256.map(|digest| (Sha256::new(), digest)) };
        Ok(decode(raw, expected.coding, expected.decoded, decoding)?)
    }
}

/// Bytes that are compressed as HTTP names it, decoded; at most `limit` of them. Must be called in a thread that may
/// block.
///
/// # Errors
/// If a decoder cannot be created, or has no memory.
pub(super) fn decoded(
    raw: impl Read + Send + 'static,
    coding: Option<&str>,
    limit: u64,
    decoding: &Decoding,
) -> Result<Box<dyn Read + Send>, Refusal> {
    let coding = match coding {
        None => Coding::None,
        Some("gzip") => Coding::Gzip,
        Some("zstd") => Coding::Zstd,
        Some(other) => return Err(usage(format!("rows cannot be compressed as {other}")).into()),
    };
    decode(raw, coding, limit, decoding)
}

fn decode(
    mut raw: impl Read + Send + 'static,
    coding: Coding,
    limit: u64,
    decoding: &Decoding,
) -> Result<Box<dyn Read + Send>, Refusal> {
    let exceeded = Exceeded::Decoded(limit);
    let decoded = |inner, window| Decoded { inner, coding, _window: window };
    Ok(match coding {
        Coding::None => Box::new(raw),
        Coding::Gzip => {
            let inner = flate2::read::MultiGzDecoder::new(io::BufReader::new(raw));
            Box::new(LimitedReader::new(decoded(Box::new(inner), None), limit, exceeded))
        }
        Coding::Zstd => {
            let window = match decoding.share(1 << WINDOW_LOG) {
                Ok(window) => window,
                Err(busy) => {
                    // Many clients read the answer only after they have sent everything.
                    io::copy(&mut raw, &mut io::sink()).map_err(PipelineError::from)?;
                    return Err(busy);
                }
            };
            let inner = zstd::Decoder::new(raw).and_then(|mut inner| {
                inner.window_log_max(WINDOW_LOG)?;
                Ok(inner)
            });
            let inner = inner.map_err(PipelineError::from)?;
            Box::new(LimitedReader::new(decoded(Box::new(inner), Some(window)), limit, exceeded))
        }
    })
}

/// The content of a block of snappy, which has at most `limit` bytes.
///
/// # Errors
/// If it is damaged or too large, or there is no memory.
pub(super) fn decode_snappy(block: &[u8], limit: u64, memory: &mut Share) -> Result<Vec<u8>, ProblemAnswer> {
    let damaged = |_| ProblemAnswer::damaged("the body is not a block of snappy; compress it again and send it again");
    // The length is stated at the beginning.
    let length = snap::raw::decompress_len(block).map_err(damaged)? as u64;
    if length > limit {
        return Err(Exceeded::Decoded(limit).into());
    }
    memory.use_more(length)?;
    snap::raw::Decoder::new().decompress_vec(block).map_err(damaged)
}

/// The output of a decompressor. Its own errors become faults of the body; errors of the connection are passed on.
struct Decoded {
    inner: Box<dyn Read + Send>,
    coding: Coding,
    /// The decompressor's share of the memory for all batches.
    _window: Option<Share>,
}

impl Read for Decoded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            _ if Exceeded::new(&error).is_some() => error,
            _ => Exceeded::Damaged(self.coding).into(),
        })
    }
}

/// The bytes of a body as they arrive; [`Paced`](super::pace::Paced) enforces a minimum rate.
struct Chunks(BodyDataStream);

impl Stream for Chunks {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        Pin::new(&mut self.0).poll_next(context).map_err(|error| {
            let error = io::Error::other(error);
            if Exceeded::new(&error).is_some() {
                return error;
            }
            tracing::debug!(%error, "a body ended early");
            Exceeded::Cut.into()
        })
    }
}

/// A reader with a limit of bytes.
struct LimitedReader<R> {
    inner: R,
    left: u64,
    most: u64,
    exceeded: Exceeded,
}

impl<R> LimitedReader<R> {
    fn new(inner: R, most: u64, exceeded: Exceeded) -> Self {
        Self { inner, left: most, most, exceeded }
    }
}

impl<R: Read> Read for LimitedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let Some(left) = self.left.checked_sub(count as u64) else {
            self.left = 0;
            if matches!(self.exceeded, Exceeded::Bytes(_)) {
                // Many clients read the answer only after they have sent everything.
                io::copy(&mut (&mut self.inner).take(self.most), &mut io::sink())?;
            }
            return Err(self.exceeded.into());
        };
        self.left = left;
        Ok(count)
    }
}

/// A reader that checks the digest of its bytes.
struct Checked<R> {
    inner: R,
    digest: Option<(Sha256, [u8; 32])>,
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let Some((hasher, expected)) = &mut self.digest else { return Ok(count) };
        hasher.update(&buffer[..count]);
        if count == 0 && !buffer.is_empty() && hasher.clone().finalize().as_slice() != expected.as_slice() {
            return Err(Exceeded::Digest.into());
        }
        Ok(count)
    }
}

/// The SHA-256 in a `Content-Digest` header (RFC 9530); `None` if it names no known algorithm.
pub(super) fn sha256_of(header: &str) -> Result<Option<[u8; 32]>, ProblemAnswer> {
    let Some(code) = header.split(',').find_map(|part| part.trim().strip_prefix("sha-256=:")) else { return Ok(None) };
    let digest =
        code.strip_suffix(':').and_then(|code| STANDARD.decode(code).ok()).and_then(|bytes| bytes.try_into().ok());
    digest.map(Some).ok_or_else(|| ProblemAnswer::bad("Content-Digest has no SHA-256: write sha-256=:BASE64:"))
}
