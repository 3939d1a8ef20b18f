//! The guarantee for a person who is active in several periods, and the cost of protecting any window of steps.

use super::calibrate::moved_squared;
use super::{Correlation, Guarantee, NoiseKind, Plan};
use crate::number::power;
use crate::privacy::{Delta, Sensitivity};
use crate::{Error, Result};

impl Plan {
    /// The guarantee for all of a person's activity in `periods` periods, if the plan's unit is a person's activity in
    /// one period: an upper bound.
    ///
    /// The shifts of the periods add up. Together they are at most `periods` times that of one period (so that ρ grows
    /// with the square), and at most that of a unit with `periods` times the events and steps; because these steps are
    /// far apart, that is usually much less. A minimum distance between steps with events ends at the end of a period,
    /// so with one the odd and the even periods are counted separately. If the unit is a
    /// [window](crate::privacy::RollingWindow), a period is as many windows as cover it.
    ///
    /// # Errors
    /// If the plan's unit has no period, or for 0 periods.
    ///
    /// ```
    /// use evertally::plan::PlanRequest;
    /// use evertally::privacy::{Budget, Rho, Unit};
    /// let monthly = Unit::person(30).per_step(1).per_period(30);
    /// let plan = PlanRequest::count(360, Budget::Zcdp(Rho::new(0.1)?)).with_unit(monthly).plan()?;
    /// let year = plan.over_periods(12)?.rho.get();
    /// assert!(year > 0.1 && year < 144.0 * 0.1);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn over_periods(&self, periods: u64) -> Result<Guarantee> {
        let unit = self.request.unit;
        let Some(bounds) = unit.bounds().filter(|bounds| bounds.period.is_some() && periods > 0) else {
            return Err(Error::invalid("only a unit with a period is active in one or several periods"));
        };
        let windows = match (bounds.window, bounds.period) {
            (Some(window), Some(period)) => period.div_ceil(window.steps),
            _ => 1,
        };
        let units = periods as f64 * windows as f64;
        let of = |periods: u64| -> Result<f64> {
            let larger = unit.over_periods(periods);
            // Events of periods that are not neighbours have a whole period between them: a calendar period may be
            // shorter than the longest, but has more than half of its steps.
            let apart = |gap: u64| gap.min(bounds.period.map_or(gap, |longest| (longest / 2).max(1)));
            let larger = bounds.min_gap.map_or(larger, |gap| larger.apart(apart(gap)));
            let request = &self.request;
            let sensitivity = Sensitivity::new(larger, request.neighbours, request.values, request.horizon)?;
            let sensitivity = sensitivity.in_sums(request.sums_per_event)?;
            let moved = moved_squared(sensitivity, &*self.mechanism, self.noise_divisor, self.exact_accounting)?;
            // The common noise of correlated groups hides more, if anything.
            Ok(moved / self.correlation.map_or(1.0, Correlation::own_over_common))
        };
        let l2_squared = match self.guarantee.hidden_squared() {
            None => 0.0,
            Some(of_one) => {
                let times = of_one * units * units;
                let together = if bounds.min_gap.is_some_and(|gap| gap > 1) && periods > 1 {
                    // Periods that are not neighbours are at least as far apart as the minimum distance of steps within
                    // one.
                    of(periods.div_ceil(2)).and_then(|odd| Ok(power(odd.sqrt() + of(periods / 2)?.sqrt(), 2)))
                } else {
                    of(periods)
                };
                together.map_or(times, |together| together.min(times) * (1.0 + 1e-12))
            }
        };
        let larger = self.guarantee.enlarged(units, l2_squared);
        match self.selection_failure_of(unit.over_periods(periods))? {
            None => Ok(larger),
            // Events of several periods may be in one key that no other person has.
            Some(failure) => Ok(larger.with_selection(Delta::new(failure)?)),
        }
    }
}

impl Plan {
    /// How much larger the noise is than if only one period were protected, under the same mechanism and budget: a
    /// factor of its standard deviation. `None` if the protected unit is not a
    /// [window](crate::privacy::RollingWindow).
    ///
    /// # Errors
    /// If the sensitivity does not fit exact arithmetic.
    ///
    /// ```
    /// use evertally::plan::PlanRequest;
    /// use evertally::privacy::{Budget, Epsilon, RollingWindow, Unit};
    /// let unit = Unit::person(2).per_period(30).in_any(RollingWindow::new(30, 30));
    /// let plan = PlanRequest::count(360, Budget::Pure(Epsilon::new(1.0)?)).with_unit(unit).plan()?;
    /// // Two events in each of the two periods that a window touches, and two that are kept instead of the second two.
    /// assert_eq!(plan.noise_of_window()?, Some(3.0));
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn noise_of_window(&self) -> Result<Option<f64>> {
        let request = &self.request;
        if request.unit.bounds().and_then(|bounds| bounds.window).is_none() {
            return Ok(None);
        }
        let of_window = request.sensitivity()?;
        let of_period = request.clone().with_unit(request.unit.without_window()).sensitivity()?;
        if self.kind == NoiseKind::Laplace {
            return Ok(Some(of_window.l1 as f64 / of_period.l1 as f64));
        }
        let moved = |unit| moved_squared(unit, &*self.mechanism, self.noise_divisor, self.exact_accounting);
        Ok(Some((moved(of_window)? / moved(of_period)?).sqrt()))
    }
}

#[cfg(test)]
mod tests {
    use crate::number::timed::timed;
    use crate::plan::PlanRequest;
    use crate::privacy::{Budget, Delta, Epsilon, Neighbours, Rho, RollingWindow, Unit};

    /// The squared shift over that of one period, by enumeration of every placement of two and three periods.
    #[test]
    fn periods_by_enumeration() {
        let horizon = 8u64;
        for (unit, period, of_one) in [
            (Unit::person(1), 2usize, vec![vec![1u64, 0], vec![0, 1]]),
            (
                Unit::person(2).per_step(1),
                4,
                vec![vec![1, 1, 0, 0], vec![0, 0, 1, 1], vec![0, 1, 1, 0], vec![1, 0, 0, 1]],
            ),
            (Unit::person(2).per_step(1).apart(2), 4, vec![vec![1, 0, 1, 0], vec![0, 1, 0, 1], vec![1, 0, 0, 1]]),
        ] {
            for name in ["sqrt", "binary", "input", "normalized-blt(buffers=2)"] {
                let plan = PlanRequest::count(horizon, Budget::Zcdp(Rho::new(0.5).unwrap()))
                    .with_unit(unit.per_period(period as u64))
                    .with_mechanism(name.parse().unwrap())
                    .plan()
                    .unwrap();
                let r = plan.mechanism().dense().r;
                let node_std = plan.node_variance().sqrt();
                let moved = |u: &[u64]| -> f64 {
                    let sum = |n: usize| r.row(n).iter().zip(u).map(|(r, u)| r * *u as f64).sum::<f64>();
                    (0..r.shape().0).map(|n| sum(n).powi(2)).sum::<f64>() / node_std.powi(2) / 2.0
                };
                let count = horizon as usize / period;
                for active in 1..=count.min(3) {
                    // Every choice of periods and placements.
                    let mut worst = 0.0f64;
                    let mut open = vec![(0, active, vec![])];
                    while let Some((place, left, u)) = open.pop() {
                        if place == count {
                            if left == 0 {
                                worst = worst.max(moved(&u));
                            }
                            continue;
                        }
                        let with = |block: &[u64]| [u.clone(), block.to_vec()].concat();
                        open.push((place + 1, left, with(&vec![0; period])));
                        if left > 0 {
                            open.extend(of_one.iter().map(|block| (place + 1, left - 1, with(block))));
                        }
                    }
                    let promised = plan.over_periods(active as u64).unwrap().rho.get();
                    let bound = promised * (1.0 + 1e-3);
                    assert!(worst <= bound, "{name}, {unit:?} in {active} periods: {worst} above {promised}");
                    assert!(promised <= 0.5 * (active * active) as f64 * (1.0 + 1e-9));
                }
            }
        }
    }

    /// The guarantee for several periods of an endless stream is computed within milliseconds in a release build, not
    /// minutes, and it is valid: at least that of independent periods, at most that of group privacy.
    #[test]
    fn many_periods_without_an_end() {
        let delta = Delta::new(1e-6).unwrap();
        for budget in [Budget::Zcdp(Rho::new(0.1).unwrap()), Budget::Approximate(Epsilon::new(1.0).unwrap(), delta)] {
            for unit in [
                Unit::person(5),
                Unit::person(5).per_step(1),
                Unit::person(40).per_step(2),
                Unit::person(12).per_step(1).apart(2),
                Unit::person(6).per_group(2),
            ] {
                let request = PlanRequest::unbounded(budget).with_unit(unit.per_period(24));
                let plan = request.plan().unwrap();
                let of_one = plan.guarantee().rho.get();
                for periods in [1, 7, 30, 365, 100_000] {
                    let (took, rho) = timed(|| plan.over_periods(periods).unwrap().rho.get());
                    assert!(took.as_secs() < 3, "{unit:?} in {periods} periods: {took:?}");
                    let (apart, together) = (of_one * periods as f64, of_one * (periods as f64).powi(2));
                    let is_between = rho >= apart * (1.0 - 1e-3) && rho <= together * (1.0 + 1e-9);
                    assert!(is_between, "{unit:?} in {periods} periods: {apart} {rho} {together}");
                }
            }
        }
    }

    /// One period has the plan's guarantee, also if the noise is on a finer grid than the data.
    #[test]
    fn one_period_is_the_promise_itself() {
        let budget = Budget::Approximate(Epsilon::new(1.0).unwrap(), Delta::new(1e-6).unwrap());
        let mut finer = 0;
        for name in ["input", "binary", "kary(k=3)", "smooth", "sqrt"] {
            let request = PlanRequest::count(30, budget).with_noise(crate::plan::NoiseKind::Gaussian);
            let unit = Unit::person(2).per_step(1).per_period(10);
            let plan = request.with_unit(unit).with_mechanism(name.parse().unwrap()).plan().unwrap();
            let (one, own) = (plan.over_periods(1).unwrap().rho.get(), plan.guarantee().rho.get());
            assert!((one / own - 1.0).abs() < 1e-6, "{name}: {one} {own}");
            finer += u32::from(plan.noise_divisor() > 2 && !plan.exact_accounting() && name != "sqrt");
        }
        assert!(finer > 0);
    }

    /// By exact accounting of the covariance too, no change of a window is more than promised, by enumeration; and a
    /// period is promised as many windows as cover it, at most.
    #[test]
    fn windows_by_enumeration() {
        let (horizon, period) = (8u64, 4usize);
        for name in ["smooth", "path-sum", "input", "sqrt", "binary"] {
            let unit = Unit::person(2).per_step(1).per_period(period as u64);
            let unit = unit.in_any(RollingWindow::new(3, period as u64));
            let request = PlanRequest::count(horizon, Budget::Zcdp(Rho::new(0.5).unwrap())).with_unit(unit);
            let request = request.with_noise(crate::plan::NoiseKind::Gaussian);
            let plan = request.with_mechanism(name.parse().unwrap()).plan().unwrap();
            let l = plan.mechanism().dense().l;
            let (rows, columns) = l.shape();
            let l = nalgebra::DMatrix::from_fn(rows, columns, |i, j| l.row(i)[j]);
            let inverse = (&l * l.transpose()).cholesky().expect("positive").inverse();
            let kept = |active: u32| -> Vec<f64> {
                let mut left = 2;
                let step = |step: usize| {
                    left = if step.is_multiple_of(period) { 2 } else { left };
                    let is_kept = active >> step & 1 == 1 && left > 0;
                    left -= i32::from(is_kept);
                    f64::from(u8::from(is_kept))
                };
                (0..rows).map(step).collect()
            };
            let mut worst = 0.0f64;
            for (active, first) in (0..1u32 << rows).flat_map(|active| (0..=rows - 3).map(move |first| (active, first)))
            {
                let (with, without) = (kept(active), kept(active & !(7 << first)));
                let mut sum = 0.0;
                let sums = with.iter().zip(&without).map(|(a, b)| {
                    sum += a - b;
                    sum
                });
                let moved = nalgebra::DVector::from_iterator(rows, sums);
                worst = worst.max((moved.transpose() * &inverse * &moved)[0] / plan.node_variance() / 2.0);
            }
            assert!(worst <= 0.5 * (1.0 + 1e-6) && worst > 0.15, "{name}: {worst}");
            let factor = plan.noise_of_window().unwrap().unwrap();
            assert!(factor > 1.2 && factor <= 5f64.sqrt() * (1.0 + 1e-9), "{name}: {factor}");
            let one = plan.over_periods(1).unwrap().rho.get();
            assert!(one > 0.1 && one <= 2.0 * (1.0 + 1e-9), "{name}: {one}");
        }
    }

    #[test]
    fn pure_promises_add_up() {
        let budget = Budget::Pure(Epsilon::new(0.5).unwrap());
        let request = PlanRequest::count(30, budget).with_unit(Unit::person(2).per_period(10));
        let plan = request.clone().with_neighbours(Neighbours::ReplaceOne).plan().unwrap();
        assert!((plan.over_periods(3).unwrap().pure_epsilon.unwrap().get() - 1.5).abs() < 1e-9);
        let (one, three) = (plan.guarantee().rho.get(), plan.over_periods(3).unwrap().rho.get());
        assert!(three >= 9.0 * one && three <= 9.0 * one * (1.0 + 1e-11), "{one} {three}");
        assert!(plan.over_periods(0).is_err());
        let whole = request.with_unit(Unit::person(2)).plan().unwrap();
        assert!(whole.over_periods(2).unwrap_err().to_string().contains("period"));
    }
}
