//! From the events of a declared stream to releases that are recorded before anyone sees them, and the report of what
//! they promise.
//!
//! | module | contents |
//! |---|---|
//! | [`session`] | events in, closed steps out |
//! | [`rows`], [`row`], [`views`] | the rows of a released table |
//! | [`bounds`] | which contribution bounds suit the data of some persons |
//! | [`report`] | the promise of a release, and what a reader may conclude |

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

pub mod bounds;
pub mod leb128;
pub mod report;
pub mod row;
pub mod rows;
pub mod session;
pub mod views;
