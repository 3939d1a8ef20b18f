//! PostgreSQL, with its server program.

#[path = "../common/mod.rs"]
mod common;
mod logical;
mod server;
mod sink;
mod table;
