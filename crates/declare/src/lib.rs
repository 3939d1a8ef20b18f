//! What can be released, declared once for every front end of evertally.
//!
//! A front end (the program, the Python package, a service) fills in a [`Declaration`](declaration::Declaration). It
//! [resolves](declaration::Declaration::resolve) to [`Settings`](settings::Settings), and with a plan to a
//! [`Stream`](stream::Stream). Nothing here reads or writes a file, or
//! knows a flag or a terminal.
//!
//! | module | contents |
//! |---|---|
//! | [`parameter`] | the single table of all parameters |
//! | [`declaration`] | the declared values and their validation |
//! | [`settings`], [`stream`] | a checked declaration, and the same with its plan |
//! | [`problem`], [`error`] | errors as data, worded by every front end |
//! | [`steps`], [`publication`], [`closing`] | times, the steps of the horizon, the published steps, and the last one |
//! | [`reading`] | the workloads published at every step: windows in steps or in time |
//! | [`mod@line`] | the lines of a release, in words for readers |
//! | [`format`](mod@format) | the single table of all formats |
//! | [`event`], [`field`], [`identity`] | one row of events, its cells, and their identities |
//! | [`filter`], [`numbers`] | which rows are counted, and how texts are read as numbers |
//! | [`header_text`] | ids of batches and tokens: texts in headers of requests |
//! | [`groups`], [`scales`], [`tuples`] | the declared groups of a release |
//! | [`measures`] | several measures of one stream under one budget |
//! | [`policy`], [`view`] | policies for events that do not fit, and views of released values |
//! | [`records`], [`follows`] | a ledger's record of the streams that have begun |
//! | [`chain`] | consecutive streams, and in how many of them one privacy unit can have data |
//! | [`url`](mod@url) | URLs instead of paths |
//! | [`words`] | texts in messages |

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod as_text;
pub mod chain;
mod civil;
pub mod closing;
pub mod declaration;
pub mod error;
pub mod event;
pub mod field;
pub mod filter;
pub mod follows;
pub mod format;
pub mod groups;
pub mod header_text;
pub mod identity;
pub mod line;
pub mod measures;
pub mod numbers;
pub mod parameter;
pub mod policy;
pub mod problem;
pub mod publication;
pub mod reading;
pub mod records;
pub mod scales;
pub mod settings;
pub mod steps;
pub mod stream;
pub mod titles;
pub mod tuples;
pub mod url;
pub mod view;
pub mod words;
