//! Table input and output of evertally: CSV, JSON lines, Parquet and Arrow, plain or compressed.
//!
//! [`input`] reads events in one pass with bounded memory; [`output`] writes the released table, and makes all files of
//! a run appear together or not at all; [`released`] turns a table in memory into a released one; [`history`] answers
//! queries on a released table; [`cluster`] has the rows exchanged between the processes of a cluster; and [`sums`]
//! releases sums that an engine has computed itself.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

pub mod cluster;
pub mod history;
pub mod input;
pub mod output;
pub mod progress;
pub mod released;
pub mod sums;
