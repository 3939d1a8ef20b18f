//! The pipeline under every front of evertally: from the events of a declared stream to releases that are recorded
//! before anyone sees them, and the report of what they promise.
//!
//! A front (the program, the Python package, a service) fills in what is wanted, hands over events and takes rows; it
//! decides nothing. Nothing here knows a file format, a flag or a terminal.
//!
//! | module | what |
//! |---|---|
//! | [`declaration`] | what a stream is, as anyone declares it, and its one validation |
//! | [`problem`] | errors as data, worded by every front |
//! | [`reading`] | what is published at every step: windows in steps or in time |
//! | [`steps`] | times, and the horizon cut into steps |
//! | [`stream`] | what is known of a stream before any event |
//! | [`event`] | one row of events, however it is held |
//! | [`identity`] | which cells are one person, group or item |
//! | [`groups`] | the declared groups of a release |
//! | [`measures`] | several measures of one stream under one budget |
//! | [`session`] | events in, closed steps out |
//! | [`rows`] | the rows of a released table |
//! | [`cluster`] | the same release made by many processes |
//! | [`closing`] | through which step a run publishes |
//! | [`disk`] | the few things done to files that must survive a crash |
//! | [`ledger`], [`keyfile`] | what a key has published, and where it is kept |
//! | [`protected`] | which files no output may replace |
//! | [`source`] | the budget of a data source, which publications under all keys spend |
//! | [`searched`] | factorizations that are searched for minutes, kept on disk |
//! | [`report`] | what was promised, and what a reader may conclude |

#![forbid(unsafe_code)]

pub mod bounds;
mod civil;
pub mod closing;
pub mod cluster;
pub mod declaration;
pub mod disk;
pub mod error;
pub mod event;
pub mod field;
pub mod follows;
pub mod groups;
mod hex;
pub mod identity;
pub mod keyfile;
mod leb128;
pub mod ledger;
pub mod lock;
pub mod measures;
pub mod parameter;
pub mod policy;
pub mod problem;
pub mod protected;
pub mod protects;
pub mod publication;
pub mod reading;
pub mod records;
pub mod report;
pub mod row;
pub mod rows;
pub mod scales;
pub mod planner;
pub mod session;
pub mod settings;
pub mod source;
pub mod steps;
pub mod stream;
pub mod tuples;
mod version;
pub mod view;
pub mod views;
pub mod words;
