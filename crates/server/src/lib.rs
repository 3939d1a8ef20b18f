//! `evertally serve`: accepts events over HTTP and publishes private releases on schedule, for many streams and for
//! years, through crashes and upgrades. One folder, one process.
//!
//! | module | what |
//! |---|---|
//! | [`config`] | `serve.toml` |
//! | [`cors`] | which other web sites may read |
//! | [`clock`] | the service's clock, and when to doubt the machine's |
//! | [`backup`] | copies of the folder, requested and on schedule |
//! | [`store`] | the folder: one database with atomic changes |
//! | [`engine`] | running streams: batches in, closed steps out, every promise kept after any crash |
//! | [`proxies`] | reverse proxies that are believed about their clients |
//! | [`role`] | permissions of tokens and certificates |
//! | [`http`] | listeners, routes, limits, the page |
//! | [`tokens`] | who may do what |
//! | [`audit`] | who did what |
//! | [`folder`] | the files of the folder |
//! | [`oidc`] | tokens of other issuers, for people and workloads |
//! | [`descriptors`] | the limit on connections, so that the store can always open its files |
//! | [`standby`] | a second machine that takes over |
//! | [`supervisor`] | signs of life for the service manager |
//! | [`syslog`] | listeners for messages of syslog |
//! | `tls` | certificates, also those of clients |
//! | [`webhook`] | publications, sent to subscribers |
//! | [`witness`] | a record outside the folder that reveals old copies of it |
//!
//! The engine does not depend on HTTP and needs no thread: its actions follow from its batches and its clock. Therefore
//! tests play whole years, crashes included, from a seed.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

pub mod audit;
pub mod backup;
pub mod clock;
pub mod config;
pub mod cors;
pub mod demo;
pub mod descriptors;
pub mod engine;
mod extensions;
mod feeds;
pub mod folder;
pub mod http;
mod meters;
pub mod oidc;
pub mod program;
pub mod proxies;
pub mod role;
pub mod sealed;
pub mod serving;
mod sinks;
pub mod standby;
pub mod store;
pub mod supervisor;
mod synchronisation;
pub mod syslog;
mod tls;
pub mod tokens;
pub mod webhook;
pub mod witness;
mod workers;
