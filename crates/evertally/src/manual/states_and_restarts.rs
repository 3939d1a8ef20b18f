//! Continuing tomorrow, after a crash, or on another machine.
//!
//! `save` returns the current state of a stream as bytes; `restore`, with the same plan, key and name, continues it
//! bit for bit.
//!
//! ```
//! use evertally::{Budget, GuardedKey, PlanRequest, Rho, RunningSum, SecretKey};
//! let plan = PlanRequest::count(10, Budget::Zcdp(Rho::new(0.5)?)).plan()?;
//! let key = GuardedKey::published_nothing(SecretKey::generate()?);
//! let name: evertally::StreamName = "visits".parse()?;
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
//! * States are versioned and carry a keyed hash: damaged bytes, and those of another stream, are refused with
//!   [`is_state`](crate::Error::is_state).
//! * They hold **exact sums**: keep them as secret as the data. States of lazy vectors and of
//!   `VectorNoise` (`evertally-training`) also hold noise: keep them as secret as the key.
//! * An *older* state of the same stream is undamaged and valid; no hash can refuse it. Restoring one and then adding
//!   different events breaks the rule of [`keys_and_streams`](super::keys_and_streams).
//!
//! A plan can be saved in any serde format. It is derived again when it is read, so a changed file is refused. A step
//! that was computed but not published before a crash is computed again, identical to the last bit.
