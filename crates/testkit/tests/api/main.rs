//! The service over HTTP: permissions, the answers to invalid requests, and hidden data.

mod answering;
mod batches;
mod changing;
mod copies;
mod erasing;
mod extending;
mod feeding;
mod hidden;
mod identities;
mod ids;
mod lasting;
mod listeners;
mod measuring;
mod neighbours;
mod positions;
mod reader_clients;
mod reading;
mod records;
mod replicas;
mod roles;
mod row_ids;
mod server;
mod sinking;
mod sums;
mod syslog;
mod webhooks;
