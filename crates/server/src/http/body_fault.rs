//! Why the body of a request ends early.

use std::fmt;
use std::io;

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    None,
    Gzip,
    Zstd,
}

/// Why a body ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exceeded {
    Bytes(u64),
    Decoded(u64),
    Slow,
    Digest,
    /// It cannot be decompressed.
    Damaged(Coding),
    /// The connection ended early.
    Cut,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(most) => {
                write!(f, "a batch has at most {most} bytes; send it in parts, each with its own id")
            }
            Self::Decoded(most) => {
                write!(f, "a batch has at most {most} bytes after decompression; send it in parts")
            }
            Self::Slow => f.write_str("the body came too slowly"),
            Self::Digest => f.write_str("the SHA-256 of the body does not match its `Content-Digest`; send it again"),
            Self::Damaged(coding) => {
                let (name, window) = match coding {
                    Coding::Zstd => ("zstd", " (with a window of at most 8 MiB)"),
                    _ => ("gzip", ""),
                };
                write!(
                    f,
                    "the body is damaged, truncated, or not compressed as its `Content-Encoding` states; compress it \
                     again with {name}{window} and send it again"
                )
            }
            Self::Cut => f.write_str("the connection ended before the body was complete; send it again"),
        }
    }
}

impl std::error::Error for Exceeded {}

impl Exceeded {
    /// The cause of a read error, if it is one of these.
    pub(super) fn new(error: &io::Error) -> Option<Self> {
        let mut source: Option<&(dyn std::error::Error + 'static)> = error.get_ref().map(|error| error as _);
        while let Some(error) = source {
            if let Some(exceeded) = error.downcast_ref::<Self>() {
                return Some(*exceeded);
            }
            if let Some(inner) = error.downcast_ref::<io::Error>() {
                return Self::new(inner);
            }
            source = error.source();
        }
        None
    }
}

impl From<Exceeded> for io::Error {
    fn from(exceeded: Exceeded) -> Self {
        Self::other(exceeded)
    }
}
