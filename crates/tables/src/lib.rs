//! Tables in and out of evertally: CSV, JSON lines, Parquet and Arrow, plain or compressed.
//!
//! [`input`] reads events, one pass in bounded memory; [`output`] writes the released table, and makes all files of a
//! run appear together or not at all; [`released`] turns a table in memory into a released one; [`history`] answers
//! questions to one; [`cluster`] has the rows that go between the processes of a cluster, and
//! [`sums`] releases what an engine has counted by itself.

#![forbid(unsafe_code)]

pub mod cluster;
pub mod history;
pub mod input;
pub mod output;
pub mod progress;
pub mod released;
pub mod sums;
