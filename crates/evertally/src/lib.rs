//! Differentially private **continual release**: running counts and sums of a sensitive event stream,
//! published step after step with one privacy guarantee for the whole history.
//!
//! Three things are kept separate:
//!
//! * a [`plan`] is public and is decided before the first datum: horizon, budget, neighbours, factorization, noise
//!   scale;
//! * [`noise`] is a pure function of a secret key and the name of a noise variable;
//! * a [`stream`] is plan + key + data so far, and yields the same releases no matter who computes them, or when.
//!
//! # A first example
//!
//! Daily visits for a year, with one guarantee for all 365 releases: whether any single visit took place changes the
//! probability of anything an observer can see in them by at most a factor of `e`.
//!
//! ```
//! use evertally::{Budget, Epsilon, GuardedKey, PlanRequest, RunningSum, SecretKey};
//!
//! let plan = PlanRequest::count(365, Budget::Pure(Epsilon::new(1.0)?)).plan()?;
//! let key = GuardedKey::published_nothing(SecretKey::generate()?);
//! let mut visits = RunningSum::new(plan, &key, "visits".parse()?)?;
//!
//! visits.add(1)?; // an event of the open day
//! visits.add(1)?;
//! let release = visits.tick()?; // the day is over
//! assert_eq!(release.step(), 1);
//! println!("{release} ± {:.1}", visits.plan().std_error(release.step()));
//! # Ok::<(), evertally::Error>(())
//! ```
//!
//! # Which type do I need?
//!
//! | I want to release | type | plan it with |
//! |---|---|---|
//! | one running count or sum | [`RunningSum`] | [`PlanRequest`] |
//! | one for each of some declared groups | [`GroupedSums`] | [`PlanRequest`] |
//! | any of very many counters, read at any steps | [`LazyVector`] | [`LazyPlan`] |
//! | any of them, read in any order, without state | [`StatelessVector`] | [`LazyPlan`] |
//! | counts of items from a universe too large to list | [`CountSketch`], [`sketch::CountMin`] | [`SketchPlan`] |
//! | ranges, quantiles, heavy hitters of keys | [`sketch::DyadicCounts`], [`sketch::DyadicSketch`] | [`SketchPlan`] |
//! | noise for gradients of millions of coordinates | `VectorNoise` of the crate `evertally-training` | |
//! | several streams over the same people, under one budget | [`privacy::composition`] | |
//! | to compare mechanisms | [`MechanismName::build`], [`Mechanism`] | [`PlanRequest::candidates`] |
//!
//! [`MechanismName::build`]: mechanism::MechanismName::build
//!
//! All of them are created with `new(plan, &key, name, …)`, receive events through `add`, and close a step with `tick`.
//! `save` returns their state, and `restore(plan, &key, name, …, state)` resumes from it.
//!
//! The [`manual`] explains what the guarantee means, what breaks it, and the practical questions: units, budgets,
//! states, threads, testing. The README introduces the program `evertally` and the Python package.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod error;
mod hex;
pub mod manual;
pub mod mechanism;
pub mod noise;
pub mod number;
pub mod plan;
pub mod privacy;
pub mod sketch;
pub mod state;
pub mod stream;

pub use error::{Error, ErrorKind, Result};
pub use hex::hex;
#[doc(no_inline)]
pub use mechanism::{Mechanism, MechanismName, Participation};
#[doc(no_inline)]
pub use noise::{GuardedKey, SecretKey, StreamName, TestSeed};
#[doc(no_inline)]
pub use number::Grid;
#[doc(no_inline)]
pub use plan::{Guarantee, NoiseKind, Objective, Plan, PlanRequest};
#[doc(no_inline)]
pub use privacy::{Budget, Delta, Epsilon, Neighbours, Rho, Unit, Values};
#[doc(no_inline)]
pub use sketch::{CountSketch, SketchPlan};
#[doc(no_inline)]
pub use stream::{GroupedSums, Groups, LazyPlan, LazySampling, LazyVector, Release, RunningSum, StatelessVector};
