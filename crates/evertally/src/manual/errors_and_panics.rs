//! Who must act on each class of error.
//!
//! Everything that can fail returns [`Error`](crate::Error): one sentence to show, and a class to branch on. A call
//! that failed has changed nothing.
//!
//! | class | who must act, and why |
//! |---|---|
//! | [`is_invalid`] | the caller: a parameter or value is out of its documented range |
//! | [`is_weak_budget`] | the caller: the budget gives almost no protection, which was not explicitly allowed |
//! | [`is_overflow`] | the caller: a sum leaves 64 bits; use a coarser grid |
//! | [`is_horizon_exhausted`] | the operator: the last step has been released; see below |
//! | [`is_state`] | the operator: these saved bytes do not belong here, or are damaged |
//! | [`ErrorKind::Randomness`](crate::ErrorKind) | the operator: the operating system returned no random bytes |
//!
//! [`is_invalid`]: crate::Error::is_invalid
//! [`is_weak_budget`]: crate::Error::is_weak_budget
//! [`is_overflow`]: crate::Error::is_overflow
//! [`is_horizon_exhausted`]: crate::Error::is_horizon_exhausted
//! [`is_state`]: crate::Error::is_state
//!
//! After the last step, a new stream needs a new plan, and its budget adds up.
//!
//! ```
//! use evertally::{Budget, Epsilon, GuardedKey, PlanRequest, RunningSum, SecretKey};
//! let plan = PlanRequest::count(1, Budget::Pure(Epsilon::new(1.0)?)).plan()?;
//! let mut stream = RunningSum::new(plan, &GuardedKey::published_nothing(SecretKey::generate()?), "short".parse()?)?;
//! stream.tick()?;
//! assert!(stream.tick().unwrap_err().is_horizon_exhausted());
//! assert!(Epsilon::new(1000.0).unwrap_err().is_weak_budget());
//! # Ok::<(), evertally::Error>(())
//! ```
//!
//! Constructors check their arguments; accepted arguments do not fail later for the same reason. Functions of a step
//! ([`std_error`](crate::Plan::std_error) and the like) panic for a step outside the horizon, as their documentation
//! states.
