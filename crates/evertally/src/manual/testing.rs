//! How to test a program whose results are random.
//!
//! With a key from a seed, every release is the same in every run. Such a key protects nobody, as its type name says:
//!
//! ```
//! use evertally::{Budget, GuardedKey, PlanRequest, Rho, RunningSum, TestSeed};
//! let plan = PlanRequest::count(100, Budget::Zcdp(Rho::new(0.5)?)).plan()?;
//! let key = GuardedKey::insecure_from_test_seed(TestSeed(1));
//! let run = |name: &str| -> evertally::Result<Vec<f64>> {
//!     let mut stream = RunningSum::new(plan.clone(), &key, name.parse()?)?;
//!     (0..100).map(|_| Ok(stream.tick()?.value())).collect()
//! };
//! assert_eq!(run("a")?, run("a")?);
//!
//! // Never compare a release with the true value exactly; compare the difference with its standard error.
//! let largest = run("a")?.into_iter().map(f64::abs).fold(0.0, f64::max);
//! assert!(largest < 5.0 * plan.max_std_error());
//! # Ok::<(), evertally::Error>(())
//! ```
//!
//! Statistical tests fix their seeds, so that they always pass or always fail, and state the probability that a correct
//! program fails. `evertally lab audit` draws many releases of neighbouring streams and tries to refute a plan's
//! guarantee.
