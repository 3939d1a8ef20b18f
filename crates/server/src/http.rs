//! The service over HTTP: two listeners, one for reading and one for writing and operating.

mod activity;
mod answers;
mod app;
mod body;
mod body_fault;
mod connections;
mod feed_target;
mod hub;
mod limits;
mod listen;
mod negotiation;
mod openapi;
mod pace;
mod page;
mod pieces;
mod problem;
mod proxy_header;
mod readiness;
mod records;
mod routes;
mod samples;
mod sockets;
mod threads;
mod work;

pub use answers::publication_message;
pub use app::{App, AppParts, AppSettings, Side};
pub(crate) use feed_target::feed_targets;
pub use listen::{BoundListener, Serving};
pub use openapi::document;
pub(crate) use readiness::ReplicaState;
#[cfg(unix)]
pub(crate) use sockets::check as check_socket;
