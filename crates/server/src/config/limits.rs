//! `[limits]`: what a request and a client may use.

use super::TimeSpan;
use serde::Deserialize;

/// Limits per request and per client.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct LimitsConfig {
    /// Bytes of a batch as it is sent.
    pub body_bytes: u64,
    /// Bytes of a batch after decompression.
    pub decoded_bytes: u64,
    /// Bytes of memory for decoding one batch, approximately.
    pub decoding_bytes: u64,
    /// Bytes of memory for all batches together while they are read, approximately.
    pub all_decoding_bytes: u64,
    /// Ids of rows in the open steps of one stream.
    pub ids: u64,
    /// Batches of Parquet and Arrow that are decoded at the same time.
    pub decoders: usize,
    /// Open connections per listener, as far as the limit of open files allows.
    pub connections: usize,
    /// Open connections per address. Connections from this machine have no such limit: a proxy may be in front.
    pub connections_per_address: usize,
    /// Open connections per network: the 2^64 IPv6 addresses that share their first half.
    pub connections_per_network: usize,
    /// How long a connection may be open without a request: before the first, between two, and until a head is
    /// complete.
    pub idle: TimeSpan,
    /// Requests per second and address or token, on average.
    pub requests_per_second: u32,
    /// Watchers per stream.
    pub watchers: usize,
    /// Bytes that stay free on the disk of the folder.
    pub free_bytes: u64,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            body_bytes: 32 << 20,
            decoded_bytes: 256 << 20,
            decoding_bytes: 64 << 20,
            all_decoding_bytes: 512 << 20,
            ids: 4_000_000,
            decoders: 4,
            connections: 20_000,
            connections_per_address: 2000,
            connections_per_network: 4000,
            idle: TimeSpan(20_000_000),
            requests_per_second: 1000,
            watchers: 10_000,
            free_bytes: 256 << 20,
        }
    }
}
