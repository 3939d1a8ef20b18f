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
//! use evertally::{Budget, PlanRequest, Rho, RunningSum, SecretKey};
//! let plan = PlanRequest::count(10, Budget::Zcdp(Rho::new(0.5)?)).plan()?;
//! let key = SecretKey::generate()?;
//! let mut release = |events: i64| -> evertally::Result<f64> {
//!     let mut stream = RunningSum::new(plan.clone(), &key, "visits".parse()?)?;
//!     stream.add_sum(events)?;
//!     Ok(stream.tick()?.value())
//! };
//! assert_eq!(release(120)? - release(119)?, 1.0); // never do this
//! # Ok::<(), evertally::Error>(())
//! ```
//!
//! A program that embeds the library keeps a record of what it has published under which name, and refuses other data:
//! as the ledger of the program `evertally` does. Write the record before anyone can see the release.
//!
//! A changed plan has independent noise: the digest of the plan is part of every name. Its budget adds to what was
//! spent.
//!
//! Keys come from the operating system ([`SecretKey::generate`](crate::SecretKey::generate)), are overwritten when
//! dropped, and are shown by no `Debug`. Keep them apart from the data: who has both needs no release.
