//! What the releases of a plan say together: covariances of two steps, the error of what happened between them, of sums
//! over groups, and of ratios.
//!
//! A [`Combination`] is a weighted sum of released values of any series and steps: groups have independent noise, steps
//! of one series the covariance of the plan. Its interval is that of [`Plan::intervals`] with the row of `L` in whose
//! place the sum of the rows stands.
//!
//! **Ratios** ([`Plan::ratio`]). With released values `X` and `Y` of two combinations, the true ratio is `r` only if
//! `X - r Y` is noise alone. The set of all `r` for which it is within its own interval,
//! `(X - rY)² ≤ q² Var(X - rY)`, is the confidence set of Fieller (1954, doi 10.1111/j.2517-6161.1954.tb00159.x): exact
//! for Gaussian noise, whatever the ratio is, where a standard error of `X/Y` would be wrong for small `Y`. It is given by
//! a quadratic inequality. If `Y` differs from 0 by its own interval, the set is an interval; if not, it is what lies
//! outside of one, or all numbers: then the data say little about the ratio, and no method can say more. For Laplace noise
//! `q` is the largest of all `X - rY`.

use super::Plan;
use super::interval::IntervalTable;
use crate::Result;
use crate::mechanism::RowLaw;
use crate::noise::Node;
use crate::plan::NoiseKind;
use serde::Serialize;
use std::collections::BTreeMap;
use std::f64::consts::PI;

impl Plan {
    /// Covariance of the released values of two steps (0 ..= T, in any order), in squared units of the data. Nothing is
    /// released at step 0, and nothing is wrong about it. Costs what
    /// [`row_product`](crate::mechanism::Mechanism::row_product) does: `O(log T)` for trees, `O(d² + log T)` for a BLT.
    ///
    /// ```
    /// use evertally::plan::PlanRequest;
    /// use evertally::privacy::{Budget, Rho};
    /// let plan = PlanRequest::count(1000, Budget::Zcdp(Rho::new(0.1)?)).plan()?;
    /// assert!((plan.covariance(500, 500) / plan.variance(500) - 1.0).abs() < 1e-9);
    /// assert_eq!(plan.covariance(3, 8), plan.covariance(8, 3));
    /// # Ok::<(), evertally::Error>(())
    /// ```
    ///
    /// # Panics
    /// If a step is beyond the horizon, here and in the one below.
    pub fn covariance(&self, first: u64, second: u64) -> f64 {
        let (earlier, later) = (first.min(second), first.max(second));
        assert!(later <= self.horizon(), "step {later} is outside the horizon of {}", self.horizon());
        if earlier == 0 { 0.0 } else { self.node_variance() * self.mechanism().row_product(earlier, later) }
    }

    /// Variance of the difference of two released values (steps 0 ..= T, in any order), which is the estimate of what
    /// happened after the earlier step and up to the later one; in squared units of the data. From the start, that is
    /// the [variance](Plan::variance) of the later one.
    ///
    /// ```
    /// use evertally::plan::PlanRequest;
    /// use evertally::privacy::{Budget, Rho};
    /// let plan = PlanRequest::count(1000, Budget::Zcdp(Rho::new(0.1)?)).plan()?;
    /// // Neighbouring releases share most of their noise: a week is known better than two releases are.
    /// assert!(plan.variance_between(493, 500) < plan.variance(493) + plan.variance(500));
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn variance_between(&self, first: u64, second: u64) -> f64 {
        if first == second {
            return 0.0;
        }
        let of = |step| if step == 0 { 0.0 } else { self.variance(step) };
        // Not below 0 where two rows agree to the last digits.
        (of(first) + of(second) - 2.0 * self.covariance(first, second)).max(0.0)
    }
}

/// A weighted sum of released values: of several series under one plan, each with noise of its own.
///
/// ```
/// use evertally::plan::{Combination, PlanRequest};
/// use evertally::privacy::{Budget, Rho};
/// let plan = PlanRequest::count(1000, Budget::Zcdp(Rho::new(0.1)?)).plan()?;
/// // What happened in the steps 494 to 500, in two groups together.
/// let week = Combination::default().with_stretch(0, 493, 500, 1.0).with_stretch(1, 493, 500, 1.0);
/// let variance = plan.variance_of(&week);
/// assert!((variance / (2.0 * plan.variance_between(493, 500)) - 1.0).abs() < 1e-9);
/// assert!(plan.half_width_of(&week, 0.95)? > 1.95 * variance.sqrt());
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Combination {
    /// By series and step.
    weights: BTreeMap<(u64, u64), f64>,
}

/// The terms of one series: steps in order, and their weights.
type Terms = Vec<(u64, f64)>;

impl Combination {
    /// The same with the released value of a step (0 is nothing) of a series, so many times more.
    #[must_use]
    pub fn with(mut self, series: u64, step: u64, weight: f64) -> Self {
        if step > 0 {
            *self.weights.entry((series, step)).or_default() += weight;
            self.weights.retain(|_, weight| *weight != 0.0);
        }
        self
    }

    /// The same with what happened after one step and through another, so many times more.
    #[must_use]
    pub fn with_stretch(self, series: u64, after: u64, through: u64, weight: f64) -> Self {
        self.with(series, through, weight).with(series, after, -weight)
    }

    /// The same with another one, so many times.
    #[must_use]
    pub fn plus(self, times: f64, other: &Combination) -> Self {
        other.weights.iter().fold(self, |sum, ((series, step), weight)| sum.with(*series, *step, times * weight))
    }

    fn by_series(&self) -> BTreeMap<u64, Terms> {
        let mut all: BTreeMap<u64, Terms> = BTreeMap::new();
        self.weights.iter().for_each(|((series, step), weight)| all.entry(*series).or_default().push((*step, *weight)));
        all
    }
}

/// All ratios that go with two released values; see [`Plan::ratio`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RatioSet {
    /// From one number to another.
    Between(f64, f64),
    /// Up to the first number, and from the second on: the denominator may be 0, and the ratio large on either side.
    Outside(f64, f64),
    /// Every number: the values say nothing of the ratio.
    Everything,
}

impl RatioSet {
    /// Whether a ratio is in it.
    pub fn contains(self, ratio: f64) -> bool {
        match self {
            Self::Between(low, high) => low <= ratio && ratio <= high,
            Self::Outside(low, high) => ratio <= low || high <= ratio,
            Self::Everything => true,
        }
    }
}

impl Plan {
    /// Variance of a combination, in squared units of the data. The cost of a [covariance](Self::covariance) for every
    /// pair of its steps in one series.
    ///
    /// # Panics
    /// If a step is beyond the horizon, here and below.
    pub fn variance_of(&self, combination: &Combination) -> f64 {
        self.covariance_of(combination, combination).max(0.0)
    }

    /// Covariance of two combinations.
    pub fn covariance_of(&self, first: &Combination, second: &Combination) -> f64 {
        let others = second.by_series();
        let of_pair = |(series, terms): (u64, Terms)| -> f64 {
            let Some(theirs) = others.get(&series) else { return 0.0 };
            let pairs = terms.iter().flat_map(|(s, v)| theirs.iter().map(move |(t, w)| (*s, *t, v * w)));
            pairs.map(|(s, t, weight)| weight * self.covariance(s, t)).sum()
        };
        first.by_series().into_iter().map(of_pair).sum()
    }

    /// Half of the width of the interval of a combination at a confidence, in units of the data: a multiple of the grid
    /// where all weights are of one size.
    ///
    /// # Errors
    /// If the confidence is not strictly between 0 and 1.
    pub fn half_width_of(&self, combination: &Combination, confidence: f64) -> Result<f64> {
        let fine = 1 << 10;
        let scale = self.law().scale() / self.noise_divisor() as f64;
        let mut table = IntervalTable::new(self.noise_kind(), scale * f64::from(fine), confidence)?;
        let half_width = table.half_width(&self.law_of(combination)) as f64 / f64::from(fine);
        let sizes = || combination.weights.values().map(|weight| weight.abs());
        let largest = sizes().fold(0.0, f64::max);
        let grid = self.request().grid().to_f64(1);
        // As for single releases, the discrete law is covered by rounding up: to the grid on which the sum is, or by half
        // a step of the coarsest; and what rounding releases to their own fine grid adds is added.
        let whole = self.fraction_bits() == 0 && sizes().all(|size| size == largest) && largest > 0.0;
        let rounding = match self.fraction_bits() {
            0 => 0.5 * largest,
            bits => libm::exp2(-f64::from(bits + 1)) * sizes().sum::<f64>(),
        };
        Ok(grid * if whole { (half_width / largest - 1e-9).ceil() * largest } else { half_width + rounding })
    }

    /// All ratios of two true values that go with these released ones, at a confidence: the set of Fieller. It holds the
    /// true ratio with the confidence, whatever that is. `numerator` and `denominator` are released values with their
    /// combinations, which may have steps and series in common (a share of a total).
    ///
    /// # Errors
    /// If the confidence is not strictly between 0 and 1.
    ///
    /// ```
    /// use evertally::plan::{Combination, PlanRequest, RatioSet};
    /// use evertally::privacy::{Budget, Rho};
    /// let plan = PlanRequest::count(100, Budget::Zcdp(Rho::new(0.1)?)).plan()?;
    /// let [last, this] = [(86, 93), (93, 100)].map(|(a, b)| Combination::default().with_stretch(0, a, b, 1.0));
    /// // 1200 events in this week and 1000 in the last one.
    /// let RatioSet::Between(low, high) = plan.ratio((1200.0, &this), (1000.0, &last), 0.95)? else { panic!() };
    /// assert!(low > 1.1 && low < 1.2 && high > 1.2 && high < 1.3);
    /// // Of 3 events, a ratio says nothing.
    /// assert!(!matches!(plan.ratio((4.0, &this), (3.0, &last), 0.95)?, RatioSet::Between(..)));
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn ratio(
        &self,
        numerator: (f64, &Combination),
        denominator: (f64, &Combination),
        confidence: f64,
    ) -> Result<RatioSet> {
        let ((x, of_x), (y, of_y)) = (numerator, denominator);
        let q = self.largest_quantile(of_x, of_y, confidence)?;
        let [xx, xy, yy] = [
            x * x - q * q * self.variance_of(of_x),
            x * y - q * q * self.covariance_of(of_x, of_y),
            y * y - q * q * self.variance_of(of_y),
        ];
        Ok(fieller(xx, xy, yy))
    }

    /// The largest quantile of `|X - rY|` in standard errors, over all `r`.
    fn largest_quantile(&self, of_x: &Combination, of_y: &Combination, confidence: f64) -> Result<f64> {
        let mut table = IntervalTable::new(self.noise_kind(), 1e6, confidence)?;
        let mut of = |law| table.half_width(&law) as f64 / 1e6 / self.noise_kind().unit_variance().sqrt();
        if self.noise_kind() == NoiseKind::Gaussian {
            return Ok(of(RowLaw::Like { norm_squared: 1.0, terms: 1 }));
        }
        // Where weights are most unequal, a sum is most like a single variable, which has the heaviest tails.
        let [x, y] = [of_x, of_y].map(|combination| self.nodes_of(combination));
        let nodes: Vec<[f64; 2]> = {
            let keys: std::collections::BTreeSet<_> = x.keys().chain(y.keys()).collect();
            let at = |nodes: &BTreeMap<(u64, Node), f64>, key| nodes.get(key).copied().unwrap_or(0.0);
            keys.into_iter().map(|key| [at(&x, key), at(&y, key)]).collect()
        };
        let terms = |angle: f64| {
            let (sine, cosine) = (libm::sin(angle), libm::cos(angle));
            let (squares, fourths) = nodes.iter().fold((0.0, 0.0), |(squares, fourths), [a, b]| {
                let square = (a * cosine - b * sine).powi(2);
                (squares + square, fourths + square * square)
            });
            if fourths > 0.0 { squares * squares / fourths } else { f64::INFINITY }
        };
        let fewest =
            (0..DIRECTIONS).map(|i| terms(PI * f64::from(i) / f64::from(DIRECTIONS))).fold(f64::INFINITY, f64::min);
        // Between two directions it may be a little less. Float-to-int casts saturate.
        Ok(of(RowLaw::Like { norm_squared: 1.0, terms: ((0.98 * fewest).floor() as u64).max(1) }))
    }

    /// The law of a combination, in units of the noise of a node.
    fn law_of(&self, combination: &Combination) -> RowLaw {
        let norm_squared = self.variance_of(combination) / self.node_variance();
        if self.noise_kind() == NoiseKind::Gaussian {
            return RowLaw::Like { norm_squared, terms: 1 };
        }
        let mut weights: Vec<f64> =
            self.nodes_of(combination).into_values().map(f64::abs).filter(|weight| *weight > 0.0).collect();
        weights.sort_by(f64::total_cmp);
        let alike = weights.chunk_by(|a, b| b - a <= 1e-12 * b).map(|same| (same[0], same.len() as u64));
        let equal: Vec<(f64, u64)> = alike.take(FEW_WEIGHTS + 1).collect();
        if equal.len() == 1 || (equal.len() <= FEW_WEIGHTS && weights.len() > 2) {
            return RowLaw::Sum(equal);
        }
        // As many equal terms as have the same fourth cumulant, or fewer: no lighter tails.
        let squares: f64 = weights.iter().map(|w| w * w).sum();
        let fourths: f64 = weights.iter().map(|w| w.powi(4)).sum();
        let terms = (squares * squares / fourths.max(f64::MIN_POSITIVE)).floor().max(1.0) as u64;
        RowLaw::Like { norm_squared: squares, terms }
    }

    /// The weights of all nodes.
    fn nodes_of(&self, combination: &Combination) -> BTreeMap<(u64, Node), f64> {
        let mut nodes = BTreeMap::new();
        for ((series, step), weight) in &combination.weights {
            let horizon = self.horizon();
            assert!((1..=horizon).contains(step), "step {step} is outside the horizon of {horizon}");
            self.mechanism().visit_row(*step, &mut |node, entry| {
                *nodes.entry((*series, node)).or_default() += weight * entry;
            });
        }
        nodes
    }
}

/// Directions in which the weights of a ratio are looked at.
const DIRECTIONS: u32 = 256;
/// Sums of so many different weights have their exact law.
const FEW_WEIGHTS: usize = 32;

/// All `r` with `r² yy - 2 r xy + xx ≤ 0`.
fn fieller(xx: f64, xy: f64, yy: f64) -> RatioSet {
    let discriminant = xy * xy - xx * yy;
    if yy > 0.0 {
        // The released ratio is in the set: there are roots, but for rounding.
        let root = discriminant.max(0.0).sqrt();
        return RatioSet::Between((xy - root) / yy, (xy + root) / yy);
    }
    if discriminant <= 0.0 || yy == 0.0 {
        return RatioSet::Everything; // a half-line where yy is 0 to the last digit
    }
    let root = discriminant.sqrt();
    RatioSet::Outside((xy + root) / yy, (xy - root) / yy)
}

#[cfg(test)]
mod tests;
