//! `evertally serve`: events come in over HTTP, private releases go out on schedule, for many streams and for years,
//! through crashes and upgrades. One folder, one process.
//!
//! | module | what |
//! |---|---|
//! | [`config`] | `serve.toml` |
//! | [`clock`] | what time it is, and when to doubt it |
//! | [`store`] | the folder: one database, in which a change is whole or was never made |
//! | [`engine`] | streams that live: batches in, closed steps out, all that was promised after any crash |
//! | [`http`] | listeners, routes, limits, the page |
//! | [`tokens`] | who may do what |
//! | [`feed`] | files that are followed, and sent to a service elsewhere |
//! | [`folder`] | the folder, as files |
//! | [`descriptors`] | how many connections there may be, so that the store can always open its files |
//! | [`supervisor`] | signs of life for the service manager |
//! | [`webhook`] | publications, sent to whoever wants them |
//! | [`witness`] | what is kept outside the folder, so that an old copy of it is known as one |
//!
//! The engine knows no HTTP and has no thread of its own that matters: what it does follows from the batches it is given
//! and the time it is told, so that tests play whole years, crashes included, from a seed.

#![forbid(unsafe_code)]

pub mod clock;
pub mod config;
pub mod demo;
pub mod descriptors;
pub mod engine;
pub mod feed;
pub mod folder;
pub mod http;
pub mod program;
pub mod sealed;
pub mod serving;
pub mod store;
pub mod supervisor;
pub mod tokens;
pub mod webhook;
pub mod witness;
