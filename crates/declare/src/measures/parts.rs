//! The parts of measures, and the amount that each event adds to each part.
//!
//! # Squares at no additional cost
//! The sum adds `e` with `|e| ≤ h`, the squares add `q = ⌊κ (h² − e²)/h⌋`. Both are released under **one** plan for
//! sums of values between `−h` and `h`, with independent noise of the same law.
//!
//! * **Gaussian noise, κ = 1**: `e² + q² ≤ e² + (h − e²/h)² = h² − e² + e⁴/h² ≤ h²`, since `e² ≤ h²`. So every event
//!   adds a vector `v` of L2 norm at most `h`. If a unit's events are at steps `t`, both sums together change the
//!   protected sums by `Σ_t R_t ⊗ v_t`, whose norm is at most that of `Σ_t R_t h`: if no entry of `R` is negative,
//!   because `⟨R_s, R_t⟩ ≥ 0` and `|⟨v_s, v_t⟩| ≤ h²`, and under exact accounting by the triangle inequality, which the
//!   plan also uses. That is the bound for a scalar sum of values between `−h` and `h`, for either neighbouring
//!   relation: if events are replaced, the plan counts `2h` for each pair.
//! * **Laplace noise, κ = ½**: `|e| + q ≤ |e| + (h − e²/h)/2 ≤ h`, as `(h − |e|)² ≥ 0`. L1 norms of columns add up, and
//!   every event's is at most `h`; the L2 norm is then at most `h` too.
//!
//! This is the joint moment estimation of Kalinin et al. (2025, arXiv 2502.06597) for one coordinate, with events added
//! or removed: an event adds most to the second moment if it adds least to the first. With `n` events,
//! `Σ e² = n h² − h Σq/κ` up to `n` roundings of less than one grid step of `q`; the grid is so fine that these are
//! below 2⁻¹⁷ of `h`.

use super::ranks::RankTree;
use crate::error::Result;
use evertally::mechanism::Workload;
use evertally::number::Grid;
use evertally::plan::NoiseKind;

/// One noisy stream of a bundle.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Counts events.
    Count,
    /// Sums their values, less the middle of the bounds.
    Sum,
    /// Sums their squares in the form `q`, under the plan of the sum.
    Squares,
    /// Counts people once each.
    People,
    /// Counts people who had an event within this many steps, as a running sum of who becomes active and inactive.
    Active(u64),
    /// Counts the same people, but afresh in each step.
    Present(u64),
    /// Counts events by the bin of their value; bins are cut at these increasing multiples of the grid.
    Bins(Vec<i64>),
    /// Counts events in blocks of their value, level by level.
    Ranks(RankTree),
    /// Counts events or sums values, as this workload reads them.
    Reading(Workload),
}

impl Part {
    /// The name that distinguishes it from the other parts of a bundle, and that its plan contains.
    pub fn name(&self) -> String {
        match self {
            Self::Count => "count".into(),
            Self::Sum => "sum".into(),
            Self::Squares => "squares".into(),
            Self::People => "people".into(),
            Self::Active(window) => format!("active({window})"),
            Self::Present(window) => format!("present({window})"),
            Self::Bins(cuts) => {
                let cuts: Vec<String> = cuts.iter().map(i64::to_string).collect();
                format!("bins({})", cuts.join(","))
            }
            Self::Ranks(tree) => tree.to_string(),
            Self::Reading(workload) => workload.to_string(),
        }
    }

    /// The number of its running sums in each group.
    pub fn cells(&self) -> usize {
        match self {
            Self::Bins(cuts) => cuts.len() + 1,
            Self::Ranks(tree) => tree.nodes(),
            _ => 1,
        }
    }
}

impl Part {
    /// Calls `add` with each running sum of the group that an event of this value changes, and the amount. Parts that
    /// remember people get nothing here.
    #[inline]
    pub fn of_event(
        &self,
        centre: Option<&Centre>,
        noise: NoiseKind,
        value: i64,
        mut add: impl FnMut(usize, i64) -> Result<()>,
    ) -> Result<()> {
        let deviation = |centre: Option<&Centre>| centre.expect("values have bounds").deviation(value);
        match self {
            Self::Count => add(0, 1),
            Self::Reading(_) => add(0, value),
            Self::Sum => add(0, deviation(centre)),
            Self::Squares => add(0, centre.expect("values have bounds").square(deviation(centre), noise)),
            Self::Bins(cuts) => add(cuts.partition_point(|cut| *cut <= value), 1),
            Self::Ranks(tree) => tree.nodes_of(value).try_for_each(|node| add(node, 1)),
            Self::People | Self::Active(_) | Self::Present(_) => Ok(()),
        }
    }
}

/// Values seen from the middle of their bounds, on a grid that is fine enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Centre {
    /// The number of steps of the fine grid in one step of the declared grid.
    factor: i64,
    /// The middle, in steps of the fine grid.
    middle: i64,
    /// Half the distance between the bounds, in steps of the fine grid; positive.
    half: i64,
    grid: Grid,
}

/// Least number of steps, on the grid of the squares, in half the distance between the bounds.
const MIN_HALF_STEPS: i64 = 1 << 17;

impl Centre {
    /// The centre of values between two bounds, in multiples of a grid, fine enough for squares if they are wanted.
    /// `None` if the bounds are equal or no grid is fine enough.
    pub fn of(lower: i64, upper: i64, grid: Grid, with_squares: bool) -> Option<Self> {
        let least = if with_squares { MIN_HALF_STEPS } else { 1 };
        (0..=18u8).find_map(|digits| {
            let factor = 10i64.checked_pow(digits.into())?;
            let (low, high) = (lower.checked_mul(factor)?, upper.checked_mul(factor)?);
            // fits: both are 64-bit numbers
            let (sum, span) = (i128::from(low) + i128::from(high), i128::from(high) - i128::from(low));
            let (middle, half) = (i64::try_from(sum / 2).ok()?, i64::try_from(span / 2).ok()?);
            let is_whole = sum % 2 == 0 && span % 2 == 0;
            let grid = grid.finer(digits)?;
            (is_whole && half >= least).then_some(Self { factor, middle, half, grid })
        })
    }

    /// The fine grid.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// Half the distance between the bounds, in steps of the fine grid.
    pub fn half(&self) -> i64 {
        self.half
    }

    /// The middle, in units of the data.
    pub fn middle_value(&self) -> f64 {
        self.grid.to_f64(self.middle.into())
    }

    /// Half the distance between the bounds, in units of the data.
    pub fn half_value(&self) -> f64 {
        self.grid.to_f64(self.half.into())
    }

    /// The deviation of a value within the bounds from the middle.
    #[inline]
    pub fn deviation(&self, value: i64) -> i64 {
        value * self.factor - self.middle // fits: between -half and half
    }

    /// The amount that a deviation adds to the squares.
    #[inline]
    pub fn square(&self, deviation: i64, noise: NoiseKind) -> i64 {
        let (half, deviation) = (i128::from(self.half), i128::from(deviation));
        // fits: squares of 64-bit numbers, and a quotient of at most half
        ((half * half - deviation * deviation) / (half * i128::from(times(noise)))) as i64
    }

    /// The amount by which the squared deviations, in squared units of `half`, are below the number of events, from the
    /// released squares in units of the data.
    pub fn squares_below(&self, released: f64, noise: NoiseKind) -> f64 {
        released * times(noise) as f64 / self.half_value()
    }
}

/// 1/κ.
fn times(noise: NoiseKind) -> i64 {
    match noise {
        NoiseKind::Gaussian => 1,
        NoiseKind::Laplace => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For every value: both norms, and the squares recovered from the released form.
    #[test]
    fn no_event_adds_more_to_sum_and_squares_than_the_sum_alone_may() {
        for (lower, upper) in [(-5, 5), (0, 1), (-20, 181), (7, 9), (-1, 0)] {
            let centre = Centre::of(lower, upper, Grid::ONE, true).unwrap();
            let half = i128::from(centre.half());
            let values = lower..=upper;
            for value in values {
                let e = centre.deviation(value);
                for noise in [NoiseKind::Gaussian, NoiseKind::Laplace] {
                    let q = i128::from(centre.square(e, noise));
                    let e = i128::from(e);
                    assert!(q >= 0 && e.abs() <= half);
                    match noise {
                        NoiseKind::Gaussian => assert!(e * e + q * q <= half * half, "{value}"),
                        NoiseKind::Laplace => assert!(e.abs() + q <= half, "{value}"),
                    }
                    let share = (e as f64 / half as f64).powi(2);
                    let recovered = 1.0 - centre.squares_below(centre.grid().to_f64(q), noise);
                    assert!((recovered - share).abs() < 3e-5, "{value}: {recovered} and {share}");
                }
                let data = centre.middle_value() + centre.grid().to_f64(e.into());
                assert!((data - value as f64).abs() < 1e-9);
            }
        }
        assert_eq!(Centre::of(3, 3, Grid::ONE, false), None);
        assert_eq!(Centre::of(0, 10, Grid::ONE, false).unwrap().grid(), Grid::ONE);
        assert_eq!(Centre::of(0, 1, Grid::ONE, false).unwrap().half(), 5);
        assert_eq!(Centre::of(i64::MIN, i64::MAX, Grid::ONE, true), None);
    }
}
