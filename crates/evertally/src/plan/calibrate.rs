//! From a budget to the exact parameter of a noise law.
//!
//! Budgets and norms are read as the exact decimal numbers they print as, the parameter is computed as an exact
//! rational and, where that rational is long, rounded **up** to 25 significant bits: at most 6·10⁻⁸ more noise, never
//! less.
//!
//! **Gaussian noise has two routes.** The node sums `R x` of an integral `R` are protected on the mechanism's own grid, by
//! the norms of its columns; a bound on the events in one step helps here. Or the releases themselves are
//! protected by exact accounting of their covariance ([`GaussianShift`](crate::mechanism::GaussianShift)), which needs a
//! finer grid. The route with the smaller variance is taken.

use super::neighbours::Sensitivity;
use super::{NoiseKind, PlanRequest};
use crate::mechanism::Mechanism;
use crate::noise::{DiscreteGaussian, DiscreteLaplace, DiscreteLaw, Ratio};
use crate::{Error, Result};
use num_bigint::BigUint;

/// The largest scale of one noise variable, in units of the noise grid. A variable is larger than 2^20 scales with
/// probability below e^-1000000, so sums of them stay far inside 128 bits.
const MAX_SCALE: f64 = (1u64 << 60) as f64;

/// The noise of every node: its law in units of the noise grid, and how many steps of that grid make one of the data's.
pub(super) struct Calibration {
    pub(super) law: DiscreteLaw,
    pub(super) noise_divisor: u64,
    /// Whether the covariance of the releases was counted instead of the norms of columns.
    pub(super) exact_accounting: bool,
}

/// Noise of this kind that spends the budget of the request.
pub(super) fn calibrated(
    request: &PlanRequest,
    sensitivity: Sensitivity,
    kind: NoiseKind,
    mechanism: &dyn Mechanism,
) -> Result<Calibration> {
    match kind {
        NoiseKind::Laplace => laplace(request, sensitivity, mechanism),
        NoiseKind::Gaussian => gaussian(request, sensitivity, mechanism),
    }
}

fn laplace(request: &PlanRequest, sensitivity: Sensitivity, mechanism: &dyn Mechanism) -> Result<Calibration> {
    if let Some(reason) = mechanism.laplace_refusal() {
        return Err(Error::invalid(format!("`{}` is for Gaussian noise only: {reason}", mechanism.name())));
    }
    let epsilon = request.budget.pure_epsilon().get();
    let scale = laplace_scale(sensitivity, mechanism.l1_column_sum(), epsilon)?;
    let noise_divisor = 1 << mechanism.noise_bits();
    Calibration { law: DiscreteLaplace::new(scale)?.into(), noise_divisor, exact_accounting: false }.capped(mechanism)
}

fn gaussian(request: &PlanRequest, sensitivity: Sensitivity, mechanism: &dyn Mechanism) -> Result<Calibration> {
    let Some(rho) = request.budget.rho() else {
        return Err(Error::invalid(
            "Gaussian noise cannot give pure ε-differential privacy; use Laplace noise, or add a delta or use rho",
        ));
    };
    let rho = rho.get();
    let of = |variance: Ratio, noise_divisor: u64, exact_accounting: bool| {
        Calibration { law: DiscreteGaussian::new(variance)?.into(), noise_divisor, exact_accounting }.capped(mechanism)
    };
    let by_columns = || {
        let capped = mechanism.capped_column_sum(sensitivity.spread);
        of(gaussian_variance(sensitivity, capped, rho)?, 1 << mechanism.noise_bits(), false)
    };
    let Some(shift) = mechanism.gaussian_shift() else { return by_columns() };
    let (divisor, squared) = shift.on_fine_grid(sensitivity.event_size());
    let exact =
        fine_gaussian_variance(sensitivity, squared, divisor, rho).and_then(|variance| of(variance, divisor, true));
    if mechanism.capped_column_sum(sensitivity.spread) == u128::MAX {
        return exact; // there are no integral node sums
    }
    match (by_columns(), exact) {
        (Ok(columns), Ok(exact)) => Ok(if exact.variance() < columns.variance() { exact } else { columns }),
        (columns, exact) => columns.or(exact),
    }
}

impl Calibration {
    /// In squared steps of the data's grid.
    fn variance(&self) -> f64 {
        let unit = 1.0 / self.noise_divisor as f64;
        self.law.variance() * unit * unit
    }

    fn capped(self, mechanism: &dyn Mechanism) -> Result<Self> {
        if self.law.scale() > MAX_SCALE {
            return Err(Error::invalid(format!(
                "{} would need noise of {:e} grid steps; raise the budget, coarsen the grid or take another mechanism",
                mechanism.name(),
                self.law.scale() / self.noise_divisor as f64
            )));
        }
        Ok(self)
    }
}

/// Numerators and denominators up to this size are kept as they are.
const SHORT: u64 = 1 << 32;
/// Significant bits of a rounded parameter.
const BITS: i64 = 25;

/// Scale of the Laplace noise on every node, in units of the noise grid: `Δ1 · s1 / ε`.
fn laplace_scale(sensitivity: Sensitivity, l1_column_sum: u128, epsilon: f64) -> Result<Ratio> {
    let amplified = Exact::from(sensitivity.l1).times(&Exact::from(l1_column_sum));
    amplified.over(&Exact::decimal(epsilon)).rounded_up()
}

/// Variance parameter of the Gaussian noise on every node, in squared units of the noise grid: the squared L2 sensitivity
/// of the node sums, `event² · total · capped column sum` (see [`Sensitivity`]), over `2ρ`.
fn gaussian_variance(sensitivity: Sensitivity, capped_column_sum: u128, rho: f64) -> Result<Ratio> {
    let total = Exact::from(u128::from(sensitivity.spread.total));
    let amplified = Exact::from(sensitivity.event_squared).times(&total).times(&Exact::from(capped_column_sum));
    amplified.over(&Exact::decimal(rho).times(&Exact::from(2))).rounded_up()
}

/// The same by exact accounting, in squared steps of a grid that is `divisor` times finer than the data's: `event² · total² ·
/// squared · divisor²` over `2ρ`, `squared` for one event of size 1.
fn fine_gaussian_variance(sensitivity: Sensitivity, squared: f64, divisor: u64, rho: f64) -> Result<Ratio> {
    // fits: the total is below 2^64, the divisor below 2^60.
    let (total, divisor) = (u128::from(sensitivity.spread.total), u128::from(divisor));
    let events = Exact::from(sensitivity.event_squared).times(&Exact::from(total * total));
    let amplified = events.times(&Exact::decimal(squared)).times(&Exact::from(divisor * divisor));
    amplified.over(&Exact::decimal(rho).times(&Exact::from(2))).rounded_up()
}

/// A positive rational of any length, not reduced.
struct Exact {
    numerator: BigUint,
    denominator: BigUint,
}

impl From<u128> for Exact {
    fn from(value: u128) -> Self {
        Self { numerator: value.into(), denominator: 1u32.into() }
    }
}

impl Exact {
    /// The shortest decimal number that names a positive double: what a person who typed it meant.
    fn decimal(value: f64) -> Self {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').expect("{:e} writes an exponent");
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let mantissa: BigUint = format!("{whole}{fraction}").parse().expect("decimal digits of a positive number");
        let exponent = exponent.parse::<i32>().expect("a small integer") - fraction.len() as i32;
        let power = BigUint::from(10u32).pow(exponent.unsigned_abs());
        let one = BigUint::from(1u32);
        let (numerator, denominator) = if exponent >= 0 { (mantissa * power, one) } else { (mantissa, power) };
        Self { numerator, denominator }
    }

    fn times(&self, other: &Exact) -> Exact {
        Exact { numerator: &self.numerator * &other.numerator, denominator: &self.denominator * &other.denominator }
    }

    fn over(&self, other: &Exact) -> Exact {
        Exact { numerator: &self.numerator * &other.denominator, denominator: &self.denominator * &other.numerator }
    }

    fn rounded_up(&self) -> Result<Ratio> {
        let divisor = gcd(self.numerator.clone(), self.denominator.clone());
        let (n, d) = (&self.numerator / &divisor, &self.denominator / &divisor);
        if let (Ok(n), Ok(d)) = (u64::try_from(&n), u64::try_from(&d))
            && n.max(d) < SHORT
        {
            return Ratio::new(n.into(), d.into());
        }
        // n/d lies in (2^(e-1), 2^(e+1)); shift so that the rounded numerator has BITS or BITS+1 bits, or is whole.
        let e = n.bits() as i64 - d.bits() as i64;
        let shift = (BITS - e).max(0);
        let numerator: BigUint = ((&n << shift) + &d - 1u32) / &d;
        let too_large =
            |_| Error::invalid("the noise this needs is too large to draw; raise the budget or coarsen the grid");
        let numerator = u128::try_from(numerator).map_err(too_large)?;
        if shift > 120 {
            return Err(Error::invalid("the noise this needs is too small for the grid; use a finer grid"));
        }
        Ratio::new(numerator, 1 << shift)
    }
}

fn gcd(mut a: BigUint, mut b: BigUint) -> BigUint {
    while b != BigUint::ZERO {
        (a, b) = (b.clone(), a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::Spread;

    fn ratio(numerator: u128, denominator: u128) -> Ratio {
        Ratio::new(numerator, denominator).unwrap()
    }

    fn one_event_of(size: u128) -> Sensitivity {
        Sensitivity { l1: size, event_squared: size * size, spread: Spread::ONE }
    }

    #[test]
    fn simple_numbers_stay_exact() {
        assert_eq!(laplace_scale(one_event_of(1), 3, 0.1).unwrap(), ratio(30, 1));
        assert_eq!(gaussian_variance(one_event_of(1), 3, 0.3).unwrap(), ratio(5, 1));
        assert_eq!(gaussian_variance(one_event_of(200), 3, 0.5).unwrap(), ratio(120_000, 1));
        let person = Sensitivity { spread: Spread { total: 10, per_step: 2 }, ..one_event_of(2) };
        assert_eq!(gaussian_variance(person, 25, 0.5).unwrap(), ratio(4 * 10 * 25, 1));
    }

    /// Long rationals are rounded up, never down, and by less than one part in 2^24.
    #[test]
    fn rounding_only_adds_noise() {
        for exponent in -20..20 {
            let rho = 0.123_456_789_123_456_78 * 10f64.powi(exponent);
            let exact = Exact::from(7).over(&Exact::decimal(rho).times(&Exact::from(2)));
            let rounded = gaussian_variance(one_event_of(1), 7, rho).unwrap();
            let (n, d) = (BigUint::from(rounded.numerator()), BigUint::from(rounded.denominator()));
            assert!(&n * &exact.denominator >= &exact.numerator * &d, "rho {rho}: too little noise");
            assert!((rounded.to_f64() * 2.0 * rho / 7.0 - 1.0).abs() < 1.0 / f64::from(1 << 24), "rho {rho}");
        }
    }
}
