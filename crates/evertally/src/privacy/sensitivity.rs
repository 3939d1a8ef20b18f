//! How far one unit's change can move the data.

use super::{Neighbours, Signs, Spread, Unit, Values};
use crate::{Error, Result};

/// Maximum number of running sums of one event.
const MAX_SUMS: u64 = 4096;

/// How far one unit's change can move the data, in multiples of the grid, before the factorization amplifies it.
///
/// For any matrix `R` without negative entries (all of ours except those that depend on [signs](Spread::signs)) the
/// node sums of neighbouring data differ by at most `l1 · s1` in L1 norm, and in squared L2 norm by at most
/// `event_squared` times that of its counts (from
/// [`Mechanism::spread_squared`](crate::mechanism::Mechanism::spread_squared), over all groups); for a single event,
/// and if nothing limits the events in a step, that is `event_squared · total² · s2²`.
///
/// * **add-remove**, events of size at most `v`: the events `x - x'` lie between `-v u` and `v u` for counts `u` within
///   the spread, so `event_squared = v²`, and `l1 = total · v`;
/// * **replace-one**: the difference is (added) - (removed). In L1 the norms add: `l1 = 2 · total · v`. In L2, as
///   `R ≥ 0`, `‖R p - R n‖² ≤ ‖R p‖² + ‖R n‖²` for the positive part `p` and the negative part `n`: `2 v²` for values
///   of one sign. If values of opposite sign can be swapped, let `total = m`: the masses of `p` and `n` are convex in
///   the number of events of each sign, so only the corners count: `m² (upper - lower)²` or `2 (m v)²`; there the bound
///   on the events in a step is not used.
///
/// **Any window of `w` steps** ([`RollingWindow`](super::RollingWindow)), where the bounds restart in each period. Let
/// the events of one person in the window be removed. Whether an event is kept depends on earlier events of its period
/// alone. So kept events differ in the window, and in the rest of the last period that it touches: there, events that
/// had been refused are kept instead. The difference is `p - n` with `p` the events kept before and `n` those kept
/// afterwards, where
///
/// * `p` is at most what one person may have in the `k` periods that the window touches, and lies in these steps;
/// * `n`, the [substitutes](Spread::substitutes), is at most what one person may have in one period; there are none if
///   a period is one step, because the window then covers its periods completely;
/// * if only the number of events in total and per step is bounded, no event kept before is refused afterwards: an
///   event is refused for the total only if all later ones are. So `p` lies in the window. Nor has `n` more
///   events than `p`.
///
/// For values of one sign and `R ≥ 0`, `‖R (p - n)‖² ≤ ‖R p‖² + ‖R n‖²`; in L1 the norms add. For values of either sign
/// `|p - n| ≤ p + n`, which is at most what one person may have in `k + 1` periods. If the window's events are replaced
/// by others, `n` is bounded like `p`, and the rules for replaced events hold.
///
/// A rule that refuses an event because of the *kept* events in the `w` steps up to it, without periods, has no such
/// bound: with one event in any ten steps and events in steps 1, 5, 11, 15, 21, 25, …, those of 1, 11, 21, … are kept,
/// and without the first one those of 5, 15, 25, …, without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sensitivity {
    /// Bound of the L1 norm.
    pub l1: u128,
    /// The contribution of one event to the squared L2 norm.
    pub event_squared: u128,
    /// The possible spread of the unit's events.
    pub spread: Spread,
    /// The number of running sums that an event is added to; already counted in the norms.
    pub sums: u64,
}

impl Sensitivity {
    /// The sensitivity of a unit's change over a horizon.
    ///
    /// # Errors
    /// If the bounds are out of order or both 0, a bound on events is 0, or the numbers do not fit 128 bits.
    ///
    /// ```
    /// use evertally::privacy::{Neighbours, Sensitivity, Unit, Values};
    /// let one = Sensitivity::new(Unit::Event, Neighbours::AddRemove, Values::Count, 100)?;
    /// assert_eq!((one.l1, one.event_squared, one.spread.total), (1, 1, 1));
    /// let moved = Sensitivity::new(Unit::person(3), Neighbours::ReplaceOne, Values::Count, 100)?;
    /// assert_eq!((moved.l1, moved.event_squared, moved.spread.total), (6, 2, 3));
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn new(unit: Unit, neighbours: Neighbours, values: Values, horizon: u64) -> Result<Self> {
        values.validate()?;
        let (lower, upper) = values.bounds();
        let largest = u128::from(lower.unsigned_abs().max(upper.unsigned_abs()));
        let span = u128::from(upper.abs_diff(lower));
        let too_large =
            || Error::overflow("the sensitivity does not fit exact arithmetic; use a coarser grid or tighter bounds");
        let either_sign = lower < 0 && upper > 0;
        let spread = unit.spread()?;
        let window = unit.bounds().and_then(|bounds| bounds.window);
        let (spread, periods) = match (neighbours, window, spread.substitutes) {
            (_, None, _) => (spread, 1),
            (Neighbours::ReplaceOne, Some(window), _) => (unit.spread_of_replaced()?, window.periods),
            (Neighbours::AddRemove, Some(window), Some(_)) if either_sign => {
                (unit.spread_with_substitutes()?, window.periods.saturating_add(1))
            }
            (Neighbours::AddRemove, Some(window), _) => (spread, window.periods),
        };
        let declared = spread.over(horizon);
        let cap_of_period = unit.bounds().and_then(|bounds| bounds.max_total);
        let capped = cap_of_period.map(|cap| cap.saturating_mul(periods));
        // A cap on the total counts in multiples of the grid, as if every event were many of size 1: the maxima of a
        // step, a group and all steps are the same, and norms are largest if these are used up.
        let (spread, largest, span) = match capped.filter(|cap| u128::from(*cap) < largest * u128::from(declared.total))
        {
            None => (declared, largest, span),
            Some(cap) => (declared.in_grid_steps(largest, cap, cap_of_period.unwrap_or(cap)), 1, 2),
        };
        // fits: total < 2^64 and values at most 2^63 in size, twice that with substitutes; the square of a span of
        // 2^64 - 1 is below 2^128.
        let mass = (u128::from(spread.total) + spread.substitutes.map_or(0, |others| others.total.into())) * largest;
        let square = largest * largest;
        let signs = match neighbours {
            Neighbours::ReplaceOne => Signs::Exchanged,
            Neighbours::AddRemove if either_sign => Signs::Either,
            Neighbours::AddRemove if spread.substitutes.is_some() => Signs::Exchanged,
            Neighbours::AddRemove => Signs::One,
        };
        let spread = Spread { signs, ..spread };
        Ok(match neighbours {
            Neighbours::AddRemove => Self { l1: mass, event_squared: square, spread, sums: 1 },
            Neighbours::ReplaceOne => {
                let apart = square.checked_mul(2).ok_or_else(too_large)?;
                let l1 = mass.checked_mul(2).ok_or_else(too_large)?;
                if either_sign {
                    Self {
                        l1,
                        event_squared: apart.max(span * span),
                        spread: Spread { signs, ..Spread::new(spread.total, spread.total) },
                        sums: 1,
                    }
                } else {
                    Self { l1, event_squared: apart, spread, sums: 1 }
                }
            }
        })
    }
}

impl Sensitivity {
    /// The same if every event is added to up to `sums` different running sums, each with independent noise.
    ///
    /// Let `u_c` be the part of the counts `u` that falls into sum `c`: `Σ_c u_c ≤ sums · u`. No node sum of `u_c`
    /// exceeds the bound that holds for `u`, so that `Σ_c ‖R u_c‖² ≤ Σ_c Σ_i u_c(i) · capped ≤ sums · total · capped`:
    /// all norms are multiplied by `sums`, whether or not the events of a unit share sums. If values of opposite sign
    /// are swapped, a pair of events moves `sums` places by at most the span each, or twice as many by `v`, and the
    /// norms of pairs add up.
    ///
    /// # Errors
    /// If `sums` is 0 or above 4096, or the numbers do not fit 128 bits.
    pub fn in_sums(self, sums: u64) -> Result<Self> {
        if sums == 0 || sums > MAX_SUMS {
            return Err(Error::invalid(format!(
                "an event must be added to at least 1 running sum and at most {MAX_SUMS}, got {sums}"
            )));
        }
        let times = |x: u128| x.checked_mul(sums.into());
        match (times(self.l1), times(self.event_squared)) {
            (Some(l1), Some(event_squared)) => Ok(Self { l1, event_squared, sums, ..self }),
            _ => {
                Err(Error::overflow("the sensitivity does not fit exact arithmetic; use a coarser grid or fewer sums"))
            }
        }
    }

    /// The size of one event in one sum, if events are added or removed.
    pub(crate) fn largest_event(&self) -> u64 {
        (self.l1 / u128::from(self.sums) / self.events()) as u64 // fits: the size of a value
    }

    /// The largest size of one event in one sum, or half of it.
    pub(crate) fn event_size(&self) -> f64 {
        // `l1` is the total times that size, in every sum, or twice as much.
        self.l1 as f64 / (2.0 * self.sums as f64 * self.events() as f64)
    }

    /// The number of events that change, with those that are kept instead of others.
    fn events(&self) -> u128 {
        u128::from(self.spread.total) + self.spread.substitutes.map_or(0, |others| others.total.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::{Criterion, MechanismName, NoiseKind, Objective};

    #[test]
    fn senseless_declarations_are_refused() {
        let of = |unit, values| Sensitivity::new(unit, Neighbours::AddRemove, values, 9);
        assert!(of(Unit::person(0), Values::Count).is_err());
        assert!(
            of(Unit::Event, Values::Sum { lower: 0, upper: 0 }).unwrap_err().to_string().contains("sensitivity is 0")
        );
        assert!(of(Unit::Event, Values::Sum { lower: 2, upper: 1 }).is_err());
    }

    /// More events than fit into the horizon do not make the unit larger.
    #[test]
    fn events_are_limited_by_the_steps() {
        let of = |max_events| {
            let unit = Unit::person(max_events).per_step(2);
            Sensitivity::new(unit, Neighbours::AddRemove, Values::Count, 10).unwrap()
        };
        assert_eq!(of(20), of(1_000_000));
        assert_ne!(of(20), of(19));
        // Steps 1 and 8 of 10.
        let gapped = Unit::person(9).per_step(2).apart(7);
        assert_eq!(Sensitivity::new(gapped, Neighbours::AddRemove, Values::Count, 10).unwrap().spread.total, 4);
    }

    /// A cap binds if it is below the largest possible sum of all events, and then counts for the total, a step and a
    /// group.
    #[test]
    fn caps_count_in_steps_of_the_grid() {
        let values = Values::Sum { lower: 0, upper: 100 };
        let of = |cap| {
            let unit = Unit::person(100).per_step(10).per_group(20).with_max_total(cap);
            Sensitivity::new(unit, Neighbours::AddRemove, values, 999).unwrap()
        };
        let capped = of(5000);
        assert_eq!((capped.l1, capped.event_squared), (5000, 1));
        assert_eq!((capped.spread.total, capped.spread.per_step, capped.spread.per_group), (5000, 1000, 2000));
        assert_eq!((of(150).l1, of(150).spread.per_step), (150, 150));
        assert_eq!((of(1 << 40).l1, of(1 << 40).spread.total), (10_000, 100));
    }

    #[test]
    fn signs_follow_values_and_neighbours() {
        let of = |neighbours, lower, upper| {
            let unit = Unit::person(2).per_step(1);
            Sensitivity::new(unit, neighbours, Values::Sum { lower, upper }, 9).unwrap().spread
        };
        for (lower, upper, signs) in
            [(-1, 2, Signs::Either), (0, 2, Signs::One), (1, 2, Signs::One), (-2, 0, Signs::One), (-2, -1, Signs::One)]
        {
            assert_eq!(of(Neighbours::AddRemove, lower, upper).signs, signs, "{lower} {upper}");
            let exchanged = of(Neighbours::ReplaceOne, lower, upper);
            assert_eq!(exchanged.signs, Signs::Exchanged);
            assert_eq!(exchanged.per_step, if signs == Signs::One { 1 } else { 2 }, "{lower} {upper}");
        }
    }

    #[test]
    fn events_of_several_sums_have_one_size() {
        let values = Values::Sum { lower: 0, upper: 10 };
        let of = |neighbours| Sensitivity::new(Unit::person(3), neighbours, values, 9).unwrap();
        let once = of(Neighbours::AddRemove);
        let twice = once.in_sums(2).unwrap();
        assert_eq!((twice.l1, twice.event_squared, twice.largest_event(), twice.event_size()), (60, 200, 10, 5.0));
        assert_eq!(of(Neighbours::ReplaceOne).in_sums(3).unwrap().event_size(), 10.0);
        assert_eq!(twice.squared(&crate::mechanism::Input::new(9).unwrap()), 1800.0);
        assert!(once.in_sums(0).is_err() && once.in_sums(4097).is_err() && once.in_sums(4096).is_ok());
    }

    /// The fewest nodes that hold all events, all full except one.
    #[test]
    fn squares_are_of_full_nodes_and_a_rest() {
        assert_eq!(Spread::new(7, 4).squares(1, 2), 16 + 9);
        assert_eq!(Spread::new(7, 3).squares(1, 2), 9 + 9);
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
                let shape = Criterion::new(NoiseKind::Gaussian, Objective::Max);
                let mechanism = name.parse::<MechanismName>().unwrap().build(STEPS as u64, &shape).unwrap();
                let (norms, r) = (mechanism.column_norms(), mechanism.dense().r);
                for unit in [Unit::Event, Unit::person(2), Unit::person(2).per_step(1)] {
                    let size = if unit == Unit::Event { 1 } else { 2 };
                    let mut data = multisets(&events, size);
                    data.retain(|set| fits(set, unit.spread().unwrap()));
                    for neighbours in [Neighbours::AddRemove, Neighbours::ReplaceOne] {
                        let bound =
                            Sensitivity::new(unit, neighbours, Values::Sum { lower, upper }, STEPS as u64).unwrap();
                        let (l1, l2) = largest_change(&r, &data, neighbours);
                        let l1_bound = bound.l1 as f64 * norms.l1;
                        let capped = mechanism.spread_squared(bound.spread);
                        let l2_bound = (bound.event_squared * capped) as f64;
                        let place = format!("{name} {unit:?} {neighbours:?} [{lower}, {upper}]");
                        assert!(l1 <= l1_bound && l2 <= l2_bound, "{place}: {l1} > {l1_bound} or {l2} > {l2_bound}");
                        // This enumeration would refute half the sensitivity. (Replacing within a short horizon leaves
                        // most sums of a tree unchanged; there only `input` reaches its bound.)
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

    /// The same for persons whose values are cut when their absolute values add up to a cap: over every pair of data
    /// sets of up to two events whose absolute values do not exceed it in total.
    #[test]
    fn caps_on_the_total_hold_and_are_reached_by_enumeration() {
        const STEPS: usize = 4;
        for (lower, upper) in [(0, 3), (-3, 0), (-2, 3), (1, 2)] {
            let steps_and_values = |value| (0..STEPS).map(move |step| (step, value));
            let events: Vec<(usize, i64)> = (lower..=upper).flat_map(steps_and_values).collect();
            let all: Vec<Data> = (1..=2).flat_map(|size| multisets(&events, size)).collect();
            for name in ["input", "output", "binary", "sqrt"] {
                let shape = Criterion::new(NoiseKind::Gaussian, Objective::Max);
                let mechanism = name.parse::<MechanismName>().unwrap().build(STEPS as u64, &shape).unwrap();
                let (norms, r) = (mechanism.column_norms(), mechanism.dense().r);
                for (unit, cap) in [1, 2, 3, 5, 6].into_iter().flat_map(|cap| {
                    let person = Unit::person(2).with_max_total(cap);
                    [(person, cap), (person.per_step(1), cap)]
                }) {
                    let per_step = unit.max_events_per_step().unwrap_or(2);
                    let mut data = all.clone();
                    data.retain(|set| set.iter().map(|(_, value)| value.unsigned_abs()).sum::<u64>() <= cap);
                    data.retain(|set| fits(set, Spread::new(2, per_step)));
                    for neighbours in [Neighbours::AddRemove, Neighbours::ReplaceOne] {
                        let values = Values::Sum { lower, upper };
                        let bound = Sensitivity::new(unit, neighbours, values, STEPS as u64).unwrap();
                        let (l1, l2) = largest_change(&r, &data, neighbours);
                        let l1_bound = bound.l1 as f64 * norms.l1;
                        let capped = mechanism.spread_squared(bound.spread);
                        let l2_bound = (bound.event_squared * capped) as f64;
                        let place = format!("{name} {unit:?} {neighbours:?} [{lower}, {upper}]");
                        let slack = 1.0 + 1e-9; // `sqrt` has no whole entries
                        assert!(l1 <= l1_bound * slack, "{place}: {l1} > {l1_bound}");
                        assert!(l2 <= l2_bound * slack, "{place}: {l2} > {l2_bound}");
                        // For `input` and `output`, whose columns are alike, a person who uses up the cap reaches the
                        // bound.
                        let uses_up = cap.is_multiple_of(3) && upper.max(-lower) == 3 && per_step == 2;
                        if uses_up && neighbours == Neighbours::AddRemove && ["input", "output"].contains(&name) {
                            assert_eq!((l1, l2), (l1_bound, l2_bound), "{place}");
                        }
                    }
                }
            }
        }
    }

    type Data = Vec<(usize, i64)>;

    /// No step holds more events than the unit may have there.
    fn fits(set: &Data, spread: Spread) -> bool {
        set.iter().all(|(step, _)| set.iter().filter(|(other, _)| other == step).count() as u64 <= spread.per_step)
    }

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
