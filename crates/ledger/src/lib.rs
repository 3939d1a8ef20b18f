//! What each key has published, the budget of each data source, and the files in which both are kept.
//!
//! | module | contents |
//! |---|---|
//! | [`ledger`] | what a key has published, so that one key and stream name never serve two data sets |
//! | [`source`] | the budget of a data source, which publications under all keys spend |
//! | `counted` | which of several streams count towards a total |
//! | [`noise_log`] | for which data each step of noise was issued, so that it is never used for other data |
//! | [`planner`] | plans; factorizations whose search takes minutes are kept on disk |
//! | [`keyfile`], [`disk`], [`lock`] | key files, the few operations on files that must survive a crash, and locks |
//! | [`platform`] | the systems on which keys and records may be kept |
//! | [`protected`], [`protects`] | the files that no output may replace, and the unit that a budget protects |

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod counted;
pub mod disk;
pub mod keyfile;
pub mod ledger;
pub mod lock;
pub mod noise_log;
pub mod planner;
pub mod platform;
pub mod protected;
pub mod protects;
pub mod source;
mod version;
