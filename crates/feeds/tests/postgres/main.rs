//! PostgreSQL, with its server program.

mod logical;
mod server;
mod sink;
mod table;
