//! One released value.

use crate::number::Grid;
use crate::plan::Plan;
use std::fmt;

/// The released running sum of one step: an exact multiple of the grid, or of a binary fraction of it.
///
/// Displayed as exact decimal text if the mechanism is integral, else with four more digits than the grid.
///
/// ```
/// use evertally::{privacy::{Budget, Rho}, noise::{GuardedKey, TestSeed}, plan::PlanRequest, stream::RunningSum};
/// let plan = PlanRequest::count(100, Budget::Zcdp(Rho::new(0.5)?)).plan()?;
/// let key = GuardedKey::insecure_from_test_seed(TestSeed(1));
/// let mut visits = RunningSum::new(plan, &key, "visits".parse()?)?;
/// visits.add(1)?;
/// let release = visits.tick()?;
/// assert_eq!(release.step(), 1);
/// assert_eq!(release.to_string().parse::<f64>().unwrap(), release.value());
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    pub(super) step: u64,
    /// In units of `grid · 2^-fraction_bits`.
    pub(super) multiple: i128,
    pub(super) fraction_bits: u32,
    pub(super) grid: Grid,
}

/// Decimal digits shown for a fraction of the grid.
const EXTRA_DIGITS: u8 = 4;

impl Release {
    /// From an exact value at a step and the noise drawn for it.
    pub(super) fn new(plan: &Plan, step: u64, exact: i64, drawn: i128) -> Self {
        let fraction_bits = plan.fraction_bits();
        // fits: |exact| ≤ 2^63 with at most 16 fraction bits, and noise that is a sum of fewer than 2^40 values below
        // 2^80.
        let multiple = (i128::from(exact) << fraction_bits) + plan.rounded_noise(drawn);
        Self { step, multiple, fraction_bits, grid: plan.request().grid() }
    }

    /// The step, from 1.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The released value in multiples of the grid, rounded to the nearest (halves up) if it is finer.
    pub fn multiple(&self) -> i128 {
        shift_rounding(self.multiple, self.fraction_bits)
    }

    /// The released value in units of the data, correctly rounded if it is a multiple of the grid.
    pub fn value(&self) -> f64 {
        let (grid, multiple) = self.decimal();
        grid.to_f64(multiple)
    }

    /// The value moved by a whole number of grid steps: an end of an interval.
    pub fn shifted(&self, grid_steps: i128) -> Release {
        Release { multiple: self.multiple.saturating_add(grid_steps << self.fraction_bits), ..*self }
    }

    /// The value, exactly, in units of the grid divided by a power of two that depends on the plan alone.
    pub fn exact(&self) -> i128 {
        self.multiple
    }

    /// The value plus the [`exact`](Self::exact) value of another release of the same plan: a running sum continues
    /// from the end of another.
    ///
    /// ```
    /// # use evertally::{privacy::{Budget, Rho}, noise::{GuardedKey, TestSeed}, plan::PlanRequest, stream::RunningSum};
    /// # let plan = PlanRequest::count(100, Budget::Zcdp(Rho::new(0.5)?)).plan()?;
    /// # let key = GuardedKey::insecure_from_test_seed(TestSeed(1));
    /// let last = RunningSum::new(plan.clone(), &key, "2024".parse()?)?.tick()?;
    /// let first = RunningSum::new(plan, &key, "2025".parse()?)?.tick()?;
    /// assert!((first.behind(last.exact()).value() - (last.value() + first.value())).abs() < 1e-3);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn behind(&self, exact: i128) -> Release {
        Release { multiple: self.multiple.saturating_add(exact), ..*self }
    }

    /// The same number of steps of another grid: the release of a group that counts its values on a separate grid.
    ///
    /// A plan counts in steps of a grid, whatever a step is worth. If one group's values are up to 3 and another's up
    /// to 300, both may be counted in steps of a thousandth of that bound: one plan serves both, and the noise is in
    /// proportion.
    ///
    /// ```
    /// # use evertally::{privacy::{Budget, Rho}, noise::{GuardedKey, TestSeed}, plan::PlanRequest, stream::RunningSum};
    /// # let plan = PlanRequest::count(100, Budget::Zcdp(Rho::new(0.5)?)).plan()?;
    /// # let key = GuardedKey::insecure_from_test_seed(TestSeed(1));
    /// let release = RunningSum::new(plan, &key, "2024".parse()?)?.tick()?;
    /// let hundreds = release.on_grid("100".parse()?);
    /// assert_eq!(hundreds.multiple(), release.multiple());
    /// assert!((hundreds.value() - 100.0 * release.value()).abs() < 1e-9);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    #[must_use]
    pub fn on_grid(&self, grid: Grid) -> Release {
        Release { grid, ..*self }
    }

    /// The grid of [`Display`](fmt::Display), and the value in its multiples.
    pub fn decimal(&self) -> (Grid, i128) {
        match self.grid.finer(EXTRA_DIGITS) {
            Some(finer) if self.fraction_bits > 0 => {
                // fits: noise of one node stays below 2^80, an estimate of 41 blocks below 2^86, with 16 fraction bits
                // 2^102.
                (finer, shift_rounding(self.multiple * 10i128.pow(EXTRA_DIGITS.into()), self.fraction_bits))
            }
            _ => (self.grid, self.multiple()),
        }
    }
}

fn shift_rounding(x: i128, bits: u32) -> i128 {
    if bits == 0 { x } else { (x + (1 << (bits - 1))) >> bits }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (grid, multiple) = self.decimal();
        f.write_str(&grid.format(multiple))
    }
}
