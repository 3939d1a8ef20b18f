//! What a plan promises, and what breaks it.
//!
//! A [`Plan`](crate::Plan) promises something about the **whole history of releases together**, whoever sees all of
//! them and whatever else they know: whether one unit's data are in the stream or not changes the probability of
//! anything one can see by a bounded factor. [`Plan::guarantee`](crate::Plan::guarantee) says the bound in every
//! currency.
//!
//! ```
//! use evertally::{Budget, Delta, PlanRequest, Rho};
//! let plan = PlanRequest::count(365, Budget::Zcdp(Rho::new(0.5)?)).plan()?;
//! let guarantee = plan.guarantee();
//! assert_eq!(guarantee.rho, Rho::new(0.5)?);
//! // Read as (ε, δ): the same noise, another way to say it.
//! assert!(guarantee.epsilon_at(Delta::new(1e-6)?) < 4.9);
//! # Ok::<(), evertally::Error>(())
//! ```
//!
//! Whatever is computed from releases alone (differences, averages, pictures) costs nothing more.
//!
//! # What the caller must do
//! The library sees numbers, not people. These are the caller's:
//!
//! * **Bound what a unit contributes.** With [`Unit::person(4)`](crate::Unit::person) no more than four events of a
//!   person may be added, over all steps and groups; the rest must be dropped before [`add`](crate::RunningSum::add).
//! * **Declare before looking.** Horizon, groups, bounds of values and budget are decided before the first datum. A
//!   group that appears because someone is in it tells so; bounds that were read off the data do, too.
//! * **Release every step.** When a step is closed must follow from a clock or a schedule, never from the events.
//! * **Record, then show.** A release that was seen and then computed again from other data, with the same key and
//!   name, is revealed exactly: see [`keys_and_streams`](super::keys_and_streams).
//!
//! # What is not promised
//! Nothing is hidden from who holds the key: it removes all noise, for ever. Time and memory that a computation takes
//! may depend on the data. Numbers in floating point ([`vector`](crate::vector), and
//! [`Sampling::Float`](crate::Sampling::Float)) have noise whose law is right to many digits, not exactly.
