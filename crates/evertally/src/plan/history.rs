//! Joint errors of the releases of a plan: covariances of two steps, and the errors of the change between them, of sums
//! over groups, and of pairs of these.
//!
//! A [`Combination`] is a weighted sum of released values of any series and steps: steps of one series have the
//! covariance of the plan; groups have independent noise, or the part of that covariance by which the plan
//! [correlates](Plan::correlation) them. Its interval follows from its variance and its fourth cumulant, like that
//! of a ratio; see [`RatioIntervals`].

use super::{NoiseKind, NoiseMoments, NoisyPair, Plan, RatioIntervals};
use crate::Result;
use crate::noise::Node;
use crate::number::power;
use std::collections::{BTreeMap, BTreeSet};

impl Plan {
    /// Covariance of the released values of two steps (0 ..= T, in any order), in squared units of the data. Nothing is
    /// released at step 0, and it has no error. It costs as much as
    /// [`row_product`](crate::mechanism::Mechanism::row_product): `O(log T)` for trees, `O(d² + log T)` for a BLT.
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

    /// Variance of the difference of two released values (steps 0 ..= T, in any order), which estimates the change
    /// after the earlier step, up to the later one; in squared units of the data. From step 0, that is the
    /// [variance](Plan::variance) of the later one.
    ///
    /// ```
    /// use evertally::plan::PlanRequest;
    /// use evertally::privacy::{Budget, Rho};
    /// let plan = PlanRequest::count(1000, Budget::Zcdp(Rho::new(0.1)?)).plan()?;
    /// // Neighbouring releases share most of their noise: a week's sum is more accurate than two releases.
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

/// A weighted sum of released values: of several series under one plan, as of the groups of a stream.
///
/// ```
/// use evertally::plan::{Combination, PlanRequest};
/// use evertally::privacy::{Budget, Rho};
/// let plan = PlanRequest::count(1000, Budget::Zcdp(Rho::new(0.1)?)).plan()?;
/// // The events of the steps 494 to 500, in two groups together.
/// let week = Combination::default().with_stretch(0, 493, 500, 1.0).with_stretch(1, 493, 500, 1.0);
/// let variance = plan.variance_of(&week);
/// assert!((variance / (2.0 * plan.variance_between(493, 500)) - 1.0).abs() < 1e-9);
/// assert!(plan.half_width_of(&week, 0.95)? > 1.95 * variance.sqrt());
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Combination {
    /// By stream and series, and by step.
    weights: BTreeMap<(SeriesKey, u64), f64>,
}

/// A stream and one of its series. Different streams have independent noise.
type SeriesKey = (u64, u64);
/// The terms of one series: steps in order, and their weights.
type SeriesTerms = Vec<(u64, f64)>;

impl Combination {
    /// Adds the released value of a step (0 adds nothing) of a series, times `weight`.
    #[must_use]
    pub fn with(self, series: u64, step: u64, weight: f64) -> Self {
        self.with_of_stream(0, series, step, weight)
    }

    /// The same for a series of one of several streams under this plan, whose noise is independent.
    #[must_use]
    pub fn with_of_stream(mut self, stream: u64, series: u64, step: u64, weight: f64) -> Self {
        if step > 0 {
            *self.weights.entry(((stream, series), step)).or_default() += weight;
            self.weights.retain(|_, weight| *weight != 0.0);
        }
        self
    }

    /// Adds the change after one step and through another, times `weight`.
    #[must_use]
    pub fn with_stretch(self, series: u64, after: u64, through: u64, weight: f64) -> Self {
        self.with(series, through, weight).with(series, after, -weight)
    }

    /// Adds another combination, multiplied by `times`.
    #[must_use]
    pub fn plus(self, times: f64, other: &Combination) -> Self {
        other.weights.iter().fold(self, |sum, (((stream, series), step), weight)| {
            sum.with_of_stream(*stream, *series, *step, times * weight)
        })
    }

    fn by_series(&self) -> BTreeMap<SeriesKey, SeriesTerms> {
        self.by(|series| series)
    }

    /// The terms of all series of a stream together.
    fn by_stream(&self) -> BTreeMap<u64, SeriesTerms> {
        self.by(|(stream, _)| stream)
    }

    fn by<K: Ord>(&self, key: impl Fn(SeriesKey) -> K) -> BTreeMap<K, SeriesTerms> {
        let mut all: BTreeMap<K, SeriesTerms> = BTreeMap::new();
        self.weights.iter().for_each(|((series, step), weight)| {
            all.entry(key(*series)).or_default().push((*step, *weight));
        });
        all
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
        let own = self.covariance_of_terms(first.by_series(), &second.by_series());
        let Some(correlation) = self.correlation() else { return own };
        // Each group has separate noise, and all groups of a stream have the common noise.
        let common = self.covariance_of_terms(first.by_stream(), &second.by_stream());
        let part = correlation.coefficient();
        (1.0 - part) * own + part * common
    }

    fn covariance_of_terms<K: Ord>(&self, first: BTreeMap<K, SeriesTerms>, second: &BTreeMap<K, SeriesTerms>) -> f64 {
        let of_pair = |(series, terms): (K, SeriesTerms)| -> f64 {
            let Some(theirs) = second.get(&series) else { return 0.0 };
            let pairs = terms.iter().flat_map(|(s, v)| theirs.iter().map(move |(t, w)| (*s, *t, v * w)));
            pairs.map(|(s, t, weight)| weight * self.covariance(s, t)).sum()
        };
        first.into_iter().map(of_pair).sum()
    }

    /// Variance and fourth cumulant of the noise of a combination. Under Laplace noise that takes the nodes of all
    /// rows.
    pub fn moments_of(&self, combination: &Combination) -> NoiseMoments {
        let variance = self.variance_of(combination);
        match self.noise_kind() {
            NoiseKind::Gaussian => NoiseMoments::gaussian(variance),
            NoiseKind::Laplace => {
                let fourths = self.nodes_of(combination).into_values().map(|weight| power(weight, 4));
                NoiseMoments { variance, fourth: self.fourth_cumulant() * fourths.sum::<f64>() }
            }
        }
    }

    /// Two combinations with their released values, for the interval of their ratio: they may share steps and series,
    /// like a group and the total.
    ///
    /// ```
    /// use evertally::plan::{Combination, PlanRequest, RatioIntervals, RatioSet};
    /// use evertally::privacy::{Budget, Rho};
    /// let plan = PlanRequest::count(100, Budget::Zcdp(Rho::new(0.1)?)).plan()?;
    /// let [last, this] = [(86, 93), (93, 100)].map(|(a, b)| Combination::default().with_stretch(0, a, b, 1.0));
    /// // 1200 events in this week and 1000 in the last one.
    /// let pair = plan.pair((1200.0, &this), (1000.0, &last));
    /// let RatioSet::Between(low, high) = RatioIntervals::new(0.95)?.of(&pair) else { panic!() };
    /// assert!(low > 1.1 && low < 1.2 && high > 1.2 && high < 1.3);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn pair(&self, numerator: (f64, &Combination), denominator: (f64, &Combination)) -> NoisyPair {
        let ((x, of_x), (y, of_y)) = (numerator, denominator);
        let variances = [self.variance_of(of_x), self.variance_of(of_y)];
        let pair = NoisyPair::gaussian([x, y], variances, self.covariance_of(of_x, of_y));
        if self.noise_kind() == NoiseKind::Gaussian {
            return pair;
        }
        let (own, theirs) = (self.nodes_of(of_x), self.nodes_of(of_y));
        let nodes: BTreeSet<_> = own.keys().chain(theirs.keys()).collect();
        let weight = |nodes: &BTreeMap<(SeriesKey, Node), f64>, node| nodes.get(node).copied().unwrap_or(0.0);
        let mut fourth = [0.0; 5];
        for node in nodes {
            let (a, b) = (weight(&own, node), weight(&theirs, node));
            fourth.iter_mut().zip(0..).for_each(|(sum, k)| *sum += power(a, 4 - k) * power(b, k));
        }
        NoisyPair { fourth: fourth.map(|sum| self.fourth_cumulant() * sum), ..pair }
    }

    /// Half of the width of the interval of a combination at a confidence, in units of the data: a multiple of the grid
    /// if all weights have the same absolute value.
    ///
    /// # Errors
    /// If the confidence is not strictly between 0 and 1.
    pub fn half_width_of(&self, combination: &Combination, confidence: f64) -> Result<f64> {
        let grid = self.request().grid().to_f64(1);
        let half_width = RatioIntervals::new(confidence)?.half_width(self.moments_of(combination)) / grid;
        let sizes = || combination.weights.values().map(|weight| weight.abs());
        let largest = sizes().fold(0.0, f64::max);
        // As for single releases, the discrete law is covered by rounding up: to the grid on which the sum is, or by
        // half a step of the coarsest; and the error of rounding releases to their own fine grid is added.
        let whole = self.fraction_bits() == 0 && sizes().all(|size| size == largest) && largest > 0.0;
        let rounding = match self.fraction_bits() {
            0 => 0.5 * largest,
            bits => libm::exp2(-f64::from(bits + 1)) * sizes().sum::<f64>(),
        };
        Ok(grid * if whole { (half_width / largest - 1e-9).ceil() * largest } else { half_width + rounding })
    }

    /// The fourth cumulant of a node under Laplace noise.
    fn fourth_cumulant(&self) -> f64 {
        3.0 * power(self.node_variance(), 2)
    }

    /// The weights of all nodes.
    fn nodes_of(&self, combination: &Combination) -> BTreeMap<(SeriesKey, Node), f64> {
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

#[cfg(test)]
mod tests;
