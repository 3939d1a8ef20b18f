//! Who is protected: the privacy unit, the neighbouring relation, and the sensitivity that follows.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// The privacy unit: whose data may change between neighbouring data sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// One event.
    Event,
    /// One person, of whom at most `max_events` events are kept in all (over every step and group). Whoever feeds
    /// the stream must enforce that bound.
    Person {
        /// How many events of one person are kept, at least 1.
        max_events: u64,
    },
}

/// What one unit's change may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Neighbours {
    /// The unit's events are added or removed.
    AddRemove,
    /// The unit's events are replaced by as many others: an event may change its value inside its step, or move to
    /// another step or group, where it counts as removed here and added there.
    ReplaceOne,
}

/// What one event contributes to its step, in multiples of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Values {
    /// Every event counts 1.
    Count,
    /// A number between declared bounds.
    Sum {
        /// Least value, in multiples of the grid.
        lower: i64,
        /// Greatest value, in multiples of the grid.
        upper: i64,
    },
}

impl Values {
    /// The bounds, in multiples of the grid.
    pub fn bounds(self) -> (i64, i64) {
        match self {
            Self::Count => (1, 1),
            Self::Sum { lower, upper } => (lower, upper),
        }
    }

    fn validate(self) -> Result<()> {
        let (lower, upper) = self.bounds();
        if lower > upper {
            return Err(Error::invalid(format!("the lower bound ({lower}) is above the upper bound ({upper})")));
        }
        if lower == 0 && upper == 0 {
            return Err(Error::invalid(
                "the step sensitivity is 0: with both bounds 0 there is nothing to protect and nothing to release",
            ));
        }
        Ok(())
    }
}

/// How far one unit's change can move the step totals, in multiples of the grid: the norms of the largest
/// difference `x - x'`, all steps and groups together, before the factorization amplifies it.
///
/// For any matrix `R` without negative entries (all of ours) the node sums then differ by at most `l1 · s1` in L1 norm
/// and `√l2_squared · s2` in L2 norm:
///
/// * **add-remove**, `m` events of size at most `v`: `R(x-x')` is a sum of `m` columns with weights at most `v`, so
///   both norms are at most `m v` (reached when all fall into one step);
/// * **replace-one**: the difference is (mass added) - (mass removed). In L1 the norms add: `2 m v`. In L2, as `R ≥ 0`,
///   `‖R p - R n‖² ≤ ‖R p‖² + ‖R n‖²` for the positive part `p` and the negative part `n`; the masses are convex in
///   how many events have which sign, so only the corners count: `2 (m v)²` for values of one sign, and
///   `m² (upper - lower)²` where values of opposite sign can be swapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sensitivity {
    /// Bound of the L1 norm.
    pub l1: u128,
    /// Bound of the squared L2 norm.
    pub l2_squared: u128,
}

impl Sensitivity {
    /// The sensitivity of a unit's change.
    ///
    /// # Errors
    /// If the bounds are out of order or both 0, `max_events` is 0, or the numbers do not fit 128 bits.
    ///
    /// ```
    /// use evertally::plan::{Neighbours, Sensitivity, Unit, Values};
    /// let one = Sensitivity::of(Unit::Event, Neighbours::AddRemove, Values::Count)?;
    /// assert_eq!((one.l1, one.l2_squared), (1, 1));
    /// let moved = Sensitivity::of(Unit::Person { max_events: 3 }, Neighbours::ReplaceOne, Values::Count)?;
    /// assert_eq!((moved.l1, moved.l2_squared), (6, 18));
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn of(unit: Unit, neighbours: Neighbours, values: Values) -> Result<Self> {
        values.validate()?;
        let events = match unit {
            Unit::Event => 1,
            Unit::Person { max_events: 0 } => {
                return Err(Error::invalid("max_events must be at least 1: with 0 nothing is kept"));
            }
            Unit::Person { max_events } => u128::from(max_events),
        };
        let (lower, upper) = values.bounds();
        let largest = u128::from(lower.unsigned_abs().max(upper.unsigned_abs()));
        let span = upper.abs_diff(lower);
        let too_large = || {
            Error::overflow(
                "the sensitivity does not fit exact arithmetic; use a coarser grid or fewer events per person",
            )
        };
        let square = |x: u128| x.checked_mul(x).ok_or_else(too_large);
        let mass = events.checked_mul(largest).ok_or_else(too_large)?;
        Ok(match neighbours {
            Neighbours::AddRemove => Self { l1: mass, l2_squared: square(mass)? },
            Neighbours::ReplaceOne => {
                let apart = square(mass)?.checked_mul(2).ok_or_else(too_large)?;
                let swap = events.checked_mul(u128::from(span)).ok_or_else(too_large)?;
                let swapped = if lower < 0 && upper > 0 { square(swap)? } else { 0 };
                Self { l1: mass.checked_mul(2).ok_or_else(too_large)?, l2_squared: apart.max(swapped) }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::{MechanismName, NamedShape};

    #[test]
    fn senseless_declarations_are_refused() {
        let of = |unit, values| Sensitivity::of(unit, Neighbours::AddRemove, values);
        assert!(of(Unit::Person { max_events: 0 }, Values::Count).is_err());
        assert!(
            of(Unit::Event, Values::Sum { lower: 0, upper: 0 }).unwrap_err().to_string().contains("sensitivity is 0")
        );
        assert!(of(Unit::Event, Values::Sum { lower: 2, upper: 1 }).is_err());
        let huge = Values::Sum { lower: i64::MIN, upper: i64::MAX };
        assert!(of(Unit::Person { max_events: u64::MAX }, huge).unwrap_err().is_overflow());
    }

    /// Brute force over every pair of neighbouring data sets of up to two events on a short horizon: the node sums
    /// never differ by more than the bounds, and some pair reaches them.
    #[test]
    fn bounds_hold_and_are_reached_by_enumeration() {
        const STEPS: usize = 5;
        for (lower, upper) in [(1, 1), (0, 3), (-2, 0), (-1, 2), (-3, 1), (2, 3)] {
            let mut events = vec![];
            for step in 0..STEPS {
                events.extend((lower..=upper).map(|value| (step, value)));
            }
            for name in ["input", "output", "binary", "subtract(k=3)", "smooth"] {
                let shape = NamedShape::gaussian_max();
                let mechanism = name.parse::<MechanismName>().unwrap().build(STEPS as u64, &shape).unwrap();
                let (norms, r) = (mechanism.column_norms(), mechanism.dense().r);
                for unit in [Unit::Event, Unit::Person { max_events: 2 }] {
                    let size = if unit == Unit::Event { 1 } else { 2 };
                    let data = multisets(&events, size);
                    for neighbours in [Neighbours::AddRemove, Neighbours::ReplaceOne] {
                        let bound = Sensitivity::of(unit, neighbours, Values::Sum { lower, upper }).unwrap();
                        let (l1, l2) = largest_change(&r, &data, neighbours);
                        let (l1_bound, l2_bound) =
                            (bound.l1 as f64 * norms.l1, bound.l2_squared as f64 * norms.l2_squared);
                        let place = format!("{name} {unit:?} {neighbours:?} [{lower}, {upper}]");
                        assert!(l1 <= l1_bound && l2 <= l2_bound, "{place}: {l1} > {l1_bound} or {l2} > {l2_bound}");
                        // Half the sensitivity would be refuted by this very enumeration. (Replacing within a short
                        // horizon leaves most sums of a tree as they were; there only `input` reaches its bound.)
                        let reached = l1 > l1_bound / 2.0 && l2 > l2_bound / 4.0;
                        assert!(
                            reached || (neighbours == Neighbours::ReplaceOne && name != "input"),
                            "{place}: {l1} of {l1_bound}, {l2} of {l2_bound}"
                        );
                    }
                }
            }
        }
    }

    type Data = Vec<(usize, i64)>;

    fn multisets(events: &[(usize, i64)], size: usize) -> Vec<Data> {
        let mut all: Vec<Data> = vec![vec![]];
        for _ in 0..size {
            let mut longer = vec![];
            for set in &all {
                longer.extend(events.iter().map(|event| set.iter().copied().chain([*event]).collect::<Data>()));
            }
            all.extend(longer);
            all.sort();
            all.dedup();
        }
        all
    }

    fn largest_change(r: &crate::mechanism::Matrix, data: &[Data], neighbours: Neighbours) -> (f64, f64) {
        let (nodes, steps) = r.shape();
        let others: &[Data] = if neighbours == Neighbours::AddRemove { &[vec![]] } else { data };
        let (mut l1, mut l2) = (0.0f64, 0.0f64);
        for a in data {
            for b in others {
                let mut x = vec![0.0; steps];
                a.iter().for_each(|&(step, value)| x[step] += value as f64);
                b.iter().for_each(|&(step, value)| x[step] -= value as f64);
                let sums: Vec<f64> = (0..nodes).map(|i| r.row(i).iter().zip(&x).map(|(r, x)| r * x).sum()).collect();
                l1 = l1.max(sums.iter().map(|s: &f64| s.abs()).sum());
                l2 = l2.max(sums.iter().map(|s| s * s).sum());
            }
        }
        (l1, l2)
    }
}
