//! Going on tomorrow, after a crash, on another machine.
//!
//! `save` gives the bytes of a stream as it stands; `restore`, with the same plan, key and name, goes on bit for bit.
//!
//! ```
//! use evertally::{Budget, GuardedKey, PlanRequest, Rho, RunningSum, SecretKey};
//! let plan = PlanRequest::count(10, Budget::Zcdp(Rho::new(0.5)?)).plan()?;
//! let (key, name) = (GuardedKey::published_nothing(SecretKey::generate()?), "visits".parse::<evertally::StreamName>()?);
//! let mut today = RunningSum::new(plan.clone(), &key, name.clone())?;
//! today.add(1)?;
//! today.tick()?;
//! let saved = today.save();
//!
//! let mut tomorrow = RunningSum::restore(plan, &key, name, &saved)?;
//! assert_eq!(tomorrow.tick()?, today.tick()?);
//! # Ok::<(), evertally::Error>(())
//! ```
//!
//! * States are versioned and carry a keyed hash: damaged or foreign bytes are refused, as
//!   [`is_state`](crate::Error::is_state).
//! * They hold **exact sums**: as secret as the data. Those of lazy vectors and of
//!   [`VectorNoise`](crate::VectorNoise) hold noise, too: as secret as the key.
//! * An *older* state of the same stream is whole and belongs there; no hash can refuse it. Who goes back to one and
//!   adds other events breaks the rule of [`keys_and_streams`](super::keys_and_streams).
//!
//! A plan is saved by any serde format, and derived again when it is read: a changed file is refused. A step that was
//! computed and not shown before a crash is computed again, the same to the last bit.
