//! One name, one data set.
//!
//! Noise is a function of (key, stream name, plan, purpose, node). The same four give the same noise, permanently and
//! everywhere. That makes releases repeatable, and it makes this rule one that must never be broken:
//!
//! > **A key and a stream name serve one data set under one plan.**
//!
//! Two data sets released with equal noise reveal their difference exactly:
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
//! Therefore everything that issues noise takes a [`GuardedKey`](crate::noise::GuardedKey): a key with a record of
//! the noise issued with it. The record refuses an object that would issue the same noise again; `allow_noise_reuse`
//! above keeps no record. The record in memory ends with the program. The ledger that `evertally-ledger` keeps next
//! to a key file persists; the program, the service and the Python package share it. Its `LoggedKey` also logs for
//! which data each step was issued.
//!
//! A changed plan has independent noise: the digest of the plan is part of every name. Its budget adds to the budget
//! already spent.
//!
//! Keys come from the operating system ([`SecretKey::generate`](crate::SecretKey::generate)), are overwritten when
//! dropped, and never appear in `Debug` output. Store them separately from the data: anyone with both needs no
//! release.
