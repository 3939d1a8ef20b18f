//! Who is protected, how strongly, and what several streams spend together.
//!
//! # Units
//! Neighbouring data sets differ in one **unit**. With [`Unit::Event`](crate::Unit) a unit is a single event: a person
//! with a hundred events is protected a hundred times less. With [`Unit::person`](crate::Unit::person) it is everything
//! a person adds, up to the contribution bounds.
//!
//! ```
//! use evertally::{Budget, PlanRequest, Rho, Unit};
//! let request = PlanRequest::count(365, Budget::Zcdp(Rho::new(0.5)?));
//! let events = request.clone().plan()?;
//! let persons = request.clone().with_unit(Unit::person(10)).plan()?;
//! let spread_out = request.with_unit(Unit::person(10).per_step(1)).plan()?;
//! // Ten events per person need ten times the noise, and less if they cannot fall into one step.
//! assert!(persons.max_std_error() > 9.9 * events.max_std_error());
//! assert!(spread_out.max_std_error() < persons.max_std_error());
//! # Ok::<(), evertally::Error>(())
//! ```
//!
//! Further bounds limit a person's events per group, their number of groups, and the distance between their steps. The
//! unit may also be the events of a person in one **period**: all bounds start again in each period, so that they suit
//! any horizon. A person active in `j` periods has `j` such units. Events are limited to all of these bounds by
//! [`Contributions`](crate::privacy::contribution::Contributions).
//!
//! ```
//! use evertally::{Budget, PlanRequest, Rho, Unit};
//! let years = PlanRequest::count(3650, Budget::Zcdp(Rho::new(0.5)?));
//! let always = years.clone().with_unit(Unit::person(360).per_step(1)).plan()?;
//! let monthly = years.with_unit(Unit::person(30).per_step(1).per_period(31)).plan()?;
//! assert!(monthly.max_std_error() < 0.3 * always.max_std_error());
//! # Ok::<(), evertally::Error>(())
//! ```
//!
//! [`Neighbours::ReplaceOne`](crate::Neighbours) hides the presence of a unit and also its events and their times; it
//! needs up to twice the noise.
//!
//! # Budgets
//! | budget | noise | guarantee |
//! |---|---|---|
//! | [`Budget::Pure`](crate::Budget)(ε) | Laplace | every possible outcome is at most `e^ε` times as likely |
//! | [`Budget::Approximate`](crate::Budget)(ε, δ) | the better of both | the same, apart from a probability δ |
//! | [`Budget::Zcdp`](crate::Budget)(ρ) | the better of both | a curve of (ε, δ) pairs; adds up best |
//!
//! Budgets that give almost no protection (ε above 20, ρ above 10) are refused unless
//! [`new_even_if_weak`](crate::Epsilon::new_even_if_weak) asks for them.
//!
//! # Several streams
//! The budgets of streams over the same people add up, whatever their keys.
//! [`Odometer`](crate::privacy::composition::Odometer) tracks the budget spent;
//! [`Filter`](crate::privacy::composition::Filter) refuses a stream that would exceed a total.
//!
//! ```
//! use evertally::privacy::composition::Filter;
//! use evertally::{Budget, Rho};
//! let mut total = Filter::new(Budget::Zcdp(Rho::new(1.0)?));
//! total.spend(Budget::Zcdp(Rho::new(0.6)?).into())?;
//! assert!(total.spend(Budget::Zcdp(Rho::new(0.6)?).into()).is_err());
//! # Ok::<(), evertally::Error>(())
//! ```
