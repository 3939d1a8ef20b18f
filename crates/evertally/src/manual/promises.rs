//! What a plan promises, and what breaks it.
//!
//! A [`Plan`](crate::Plan) promises something about the **whole history of releases together**. Anyone may see all of
//! them and know anything else: whether one unit's data are in the stream changes the probability of every
//! observation by a bounded factor only. [`Plan::guarantee`](crate::Plan::guarantee) gives the bound in every privacy
//! definition.
//!
//! ```
//! use evertally::{Budget, Delta, PlanRequest, Rho};
//! let plan = PlanRequest::count(365, Budget::Zcdp(Rho::new(0.5)?)).plan()?;
//! let guarantee = plan.guarantee();
//! assert_eq!(guarantee.rho, Rho::new(0.5)?);
//! // Read as (ε, δ): the same noise, another way to state it.
//! assert!(guarantee.epsilon_at(Delta::new(1e-6)?) < 4.9);
//! # Ok::<(), evertally::Error>(())
//! ```
//!
//! Anything computed from releases alone (differences, averages, plots) costs no additional budget.
//!
//! # What the caller must do
//! The library sees numbers, not people. The caller must:
//!
//! * **Bound what a unit contributes.** With [`Unit::person(4)`](crate::Unit::person) no more than four events of a
//!   person may be added, over all steps and groups; the rest must be dropped before [`add`](crate::RunningSum::add).
//! * **Declare before looking.** Horizon, groups, bounds of values and budget are decided before the first datum. A
//!   group that appears because someone is in it reveals that person; bounds read from the data leak in the same way.
//! * **Release every step.** A clock or a schedule decides when a step is closed, never the events.
//! * **Record, then publish.** If a published release is computed again from other data, with the same key and name,
//!   the difference between the two data sets is revealed exactly: see [`keys_and_streams`](super::keys_and_streams).
//!
//! # Not promised
//! Nothing is hidden from a holder of the key: it removes all noise, permanently. The time and memory of a
//! computation may depend on the data. Numbers in floating point (`evertally-training`, and
//! [`LazySampling::Float`](crate::LazySampling::Float)) have noise whose distribution is right to many digits, not
//! exactly.
