//! The service over HTTP: who may do what, what is said of whatever is wrong, and what nobody must see.

mod answering;
mod batches;
mod copies;
mod feeding;
mod hidden;
mod identities;
mod lasting;
mod neighbours;
mod reading;
mod roles;
mod server;
mod sums;
