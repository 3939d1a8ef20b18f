//! One name, one data set.
//!
//! Noise is a function of (key, stream name, plan, purpose, node). The same four give the same noise, for ever and
//! everywhere: that is what makes releases repeatable, and what makes this the one rule that must never be broken:
//!
//! > **A key and a stream name serve one data set under one plan.**
//!
//! Two data sets with equal noise reveal their difference exactly:
//!
//! ```
//! use evertally::{Budget, GuardedKey, PlanRequest, Rho, RunningSum, SecretKey};
//! let plan = PlanRequest::count(10, Budget::Zcdp(Rho::new(0.5)?)).plan()?;
//! let key = GuardedKey::allow_noise_reuse(SecretKey::generate()?);
//! let mut release = |events: i64| -> evertally::Result<f64> {
//!     let mut stream = RunningSum::new(plan.clone(), &key, "visits".parse()?)?;
//!     stream.add_sum(events)?;
//!     Ok(stream.tick()?.value())
//! };
//! assert_eq!(release(120)? - release(119)?, 1.0); // never do this
//! # Ok::<(), evertally::Error>(())
//! ```
//!
//! So everything that issues noise takes a [`GuardedKey`](crate::noise::GuardedKey): a key with the record of what was issued
//! with it. The record refuses an object that would issue the same noise again; `allow_noise_reuse` above keeps none.
//! The record in memory ends with the program. The ledger beside a key file, which `evertally-publish` keeps, does not, and
//! the program, the service and the Python package share it.
//!
//! A changed plan has independent noise: the digest of the plan is part of every name. Its budget adds to what was
//! spent.
//!
//! Keys come from the operating system ([`SecretKey::generate`](crate::SecretKey::generate)), are overwritten when
//! dropped, and are shown by no `Debug`. Keep them apart from the data: who has both needs no release.
