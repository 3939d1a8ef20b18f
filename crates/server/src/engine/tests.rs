//! Streams that live.
