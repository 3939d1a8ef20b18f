//! Running sums: a plan, a key and the data so far, released step by step.
//!
//! [`RunningSum`] is one running sum; [`GroupedSums`] is one per declared group, with each event in exactly one group;
//! [`DiscoveredSums`] is one per key that occurs in the data, without declaring the keys. All are used the same way:
//! `add` events to the open step, `tick` to close it and get its release. [`LazyVector`] holds up to 2^40 running sums,
//! of which only the touched ones cost anything, and releases those that are read.
//!
//! A release is a pure function of plan, key, stream name and data: the same calls give the same bytes on any machine,
//! and a stream restored from its [state](crate::state) continues as if it had never stopped. The caller must keep two
//! rules:
//!
//! * one stream name serves **one** data set per key: the difference of two releases with equal noise is exact;
//! * with [`Unit::Person`](crate::privacy::Unit::Person), at most `max_events` events of a person may be added, and at
//!   most `max_events_per_step` of them to one step; the same holds for every other
//!   [bound](crate::privacy::PersonBounds).

#![cfg_attr(not(test), deny(clippy::cast_precision_loss, clippy::float_arithmetic))] // none between data and noise

mod discovered;
mod groups;
mod lazy;
mod read;
mod release;
mod running;
mod series;
mod stateless;
mod sum_noise;

pub use discovered::DiscoveredSums;
pub use groups::{GroupedSums, Groups};
pub use lazy::{LazyPlan, LazySampling, LazyVector, StatelessVector};
pub use release::Release;
pub use running::RunningSum;
pub use stateless::{StatelessSum, StatelessSums, StepPass};

#[cfg(test)]
mod tests;
