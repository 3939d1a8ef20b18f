//! From a budget to the exact parameter of a noise law.
//!
//! Budgets and norms are read as the exact decimal numbers they print as; the parameter is computed as an exact
//! rational and, if that rational is long, rounded **up** to 25 significant bits: at most 6·10⁻⁸ more noise, never
//! less.
//!
//! **Two routes for Gaussian noise.** It protects the node sums `R x` of an integral `R` on the mechanism's own grid,
//! by the norms of its columns; a bound on the events in one step helps here. Or it protects the releases themselves,
//! by exact accounting of their covariance ([`GaussianShift`](crate::mechanism::GaussianShift)), which needs a finer
//! grid. The route with the smaller variance is used.
//!
//! **Variance.** Let the protected integers move by `d`. Under ρ-zCDP `σ² = ‖d‖²/(2ρ)`. Under (ε, δ) discrete noise is
//! at least as good as continuous noise of variance `σ² - s²` for a small `s²` ([`loss`]), so that `σ² = ‖d‖²/μ² + s²`
//! with `μ` from the analytic Gaussian curve. On a grid so fine that `s²` is negligible, discreteness costs nothing.
//!
//! **Laplace noise** of scale λ is `‖d‖₁/λ`-DP, and `‖d‖²/(2λ²)`-zCDP, because a node that moves by `d_n` is
//! `|d_n|/λ`-DP and zCDP adds up. Under (ε, δ) the certified privacy-loss distribution of all nodes together needs the
//! least noise. Both compose over the nodes, which an adversary who chooses the event while watching could evade if
//! noise is read before its node's data are complete: then only pure ε counts (`subtract(k=3)` over 13 steps has such
//! an adversary, with a divergence of 1.12 times the sum over the nodes).
//!
//! **Correlated noise of groups** ([`correlation`](super::correlation)) takes the same routes, with `W` instead of
//! `‖d‖²`; it is used if that lowers the requested error.

use super::correlation::{Correlation, GroupChoice, search, shift::Shift};
use super::{NoiseKind, PlanRequest};
use crate::mechanism::{LaplaceShift, Mechanism, SearchWatch, units};
use crate::noise::{DiscreteGaussian, DiscreteLaplace, DiscreteLaw};
use crate::number::exact::Exact;
use crate::number::{Ratio, power};
use crate::privacy::Sensitivity;
use crate::privacy::loss::{self, ShiftProfile};
use crate::privacy::{Budget, Epsilon, Values};
use crate::{Error, Result};

/// Rounding the common part of a shift costs at most this part of the variance.
const MAX_ROUNDING: f64 = 1.0 / 4_194_304.0;
/// Maximum scale of one noise variable, in units of the noise grid. A variable is larger than 2^20 scales with
/// probability below e^-1000000, so sums of them stay far inside 128 bits.
const MAX_SCALE: f64 = (1u64 << 60) as f64;

/// The noise of every node: its law in units of the noise grid, and the number of steps of that grid per step of the
/// data's grid.
pub(super) struct Calibration {
    /// With correlated noise, that of a group alone.
    pub(super) law: DiscreteLaw,
    /// The law of noise that is common to all groups, and how both are related.
    pub(super) common: Option<(Correlation, DiscreteLaw)>,
    pub(super) noise_divisor: u64,
    /// Whether the noise was calibrated by the covariance of the releases instead of the norms of columns.
    pub(super) exact_accounting: bool,
    /// How far one unit's change moves the protected values, in steps of the noise grid: the L1 norm (for Laplace noise
    /// only) and the squared L2 norm, never too small; infinite if it must not be used. With correlated noise, `W`.
    pub(super) l1: f64,
    pub(super) l2_squared: f64,
}

/// Noise of this kind that spends the budget of the request.
pub(super) fn calibrated(
    request: &PlanRequest,
    sensitivity: Sensitivity,
    kind: NoiseKind,
    mechanism: &dyn Mechanism,
    watch: SearchWatch<'_>,
) -> Result<Calibration> {
    match kind {
        NoiseKind::Laplace => laplace(&request.budget, sensitivity, mechanism, watch)?.capped(mechanism),
        NoiseKind::Gaussian => {
            let routes = routes(&request.budget, sensitivity, mechanism, watch)?;
            let independent = gaussian(&request.budget, routes, mechanism);
            match request.groups {
                None => independent,
                Some(groups) => correlated(request, sensitivity, mechanism, groups, independent),
            }
        }
    }
}

fn laplace(
    budget: &Budget,
    sensitivity: Sensitivity,
    mechanism: &dyn Mechanism,
    watch: SearchWatch<'_>,
) -> Result<Calibration> {
    let shift = mechanism.laplace().map_err(|reason| {
        Error::invalid(format!(
            "`{}` is for Gaussian noise only: {reason}; give ρ or a δ, or use another mechanism",
            mechanism.name()
        ))
    })?;
    let l1 = Exact::from(sensitivity.l1).times(&Exact::from(shift.column_sum));
    let mut scale = pure_scale(&l1, budget.pure_epsilon())?;
    let mut by_nodes = f64::INFINITY;
    if mechanism.is_causal() {
        let l2_squared = columns(sensitivity, units::squared_watched(mechanism, sensitivity.spread, watch)?)?;
        by_nodes = l2_squared.rounded_up()?.to_f64();
        if let Some(rho) = budget.rho() {
            scale = lesser(scale, concentrated_scale(&l2_squared, rho.get())?);
        }
        if let Budget::Approximate(epsilon, delta) = *budget
            && let Some(profile) = profile(sensitivity, &shift)
        {
            scale = lesser(scale, loss::laplace_scale_for(epsilon, delta, &profile)?);
        }
    }
    Ok(Calibration {
        law: DiscreteLaplace::new(scale)?.into(),
        common: None,
        noise_divisor: 1 << mechanism.noise_bits(),
        exact_accounting: false,
        l1: l1.rounded_up()?.to_f64(),
        l2_squared: by_nodes,
    })
}

fn lesser(a: Ratio, b: Ratio) -> Ratio {
    if b.to_f64() < a.to_f64() { b } else { a }
}

/// Scale of the Laplace noise on every node under pure ε, in units of the noise grid: `Δ1 s1 / ε`.
fn pure_scale(l1: &Exact, epsilon: Epsilon) -> Result<Ratio> {
    l1.over(&Exact::decimal(epsilon.get())).rounded_up()
}

/// The same under ρ-zCDP: `√(‖d‖²/(2ρ))`.
fn concentrated_scale(l2_squared: &Exact, rho: f64) -> Result<Ratio> {
    let squared = l2_squared.over(&Exact::decimal(rho).times(&Exact::from(2))).rounded_up()?;
    Exact::decimal(squared.to_f64().sqrt() * (1.0 + 1e-14)).rounded_up()
}

/// The nodes that one unit's change moves: in each running sum and class, all events of the unit together move one node
/// by at most the whole amount, or several nodes by that amount in total, which is no worse. `None` if that is too
/// large to count.
fn profile(sensitivity: Sensitivity, moved: &LaplaceShift) -> Option<ShiftProfile> {
    // An event is added to each sum once, so every sum has its share of the norm.
    let size = u64::try_from(sensitivity.l1 / u128::from(sensitivity.sums)).ok()?;
    let shift = |(weight, count): (u64, u64)| Some((weight.checked_mul(size)?, count.checked_mul(sensitivity.sums)?));
    let shifts: Option<Vec<_>> = moved.classes.iter().copied().map(shift).collect();
    ShiftProfile::new(&shifts?).ok()
}

/// The values that Gaussian noise protects: integers that one unit's change moves by at most this squared norm, in
/// steps of a grid that is `divisor` times finer than the data's.
struct Protected {
    squared: Exact,
    divisor: u64,
    exact_accounting: bool,
    /// How the noise of groups is correlated: then `squared` is `W`.
    correlation: Option<Correlation>,
}

/// The least noise of some routes.
fn gaussian(budget: &Budget, routes: Vec<Result<Protected>>, mechanism: &dyn Mechanism) -> Result<Calibration> {
    if budget.rho().is_none() {
        return Err(Error::invalid(
            "Gaussian noise cannot give pure ε-differential privacy; use Laplace noise, or add a delta or use rho",
        ));
    }
    let (mut best, mut refusal): (Option<Calibration>, _) = (None, None);
    for protected in routes {
        match protected.and_then(|protected| protected.calibrated(budget)?.capped(mechanism)) {
            Ok(found) if best.as_ref().is_none_or(|best| found.variance() < best.variance()) => best = Some(found),
            Ok(_) => {}
            Err(error) => refusal = Some(error),
        }
    }
    best.ok_or_else(|| refusal.unwrap_or_else(|| Error::invalid("no accounting is known for this noise and unit")))
}

/// The routes to protect the releases of a mechanism.
///
/// # Errors
/// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) if the watch cancels the computation.
fn routes(
    budget: &Budget,
    sensitivity: Sensitivity,
    mechanism: &dyn Mechanism,
    watch: SearchWatch<'_>,
) -> Result<Vec<Result<Protected>>> {
    let mut routes = Vec::new();
    // Expensive if the events of a step are limited, so it is computed once.
    let squared = units::squared_watched(mechanism, sensitivity.spread, watch)?;
    // Without integral node sums only the releases can be protected.
    if squared < u128::MAX || mechanism.gaussian_shift().is_none() {
        let integral = mechanism.fraction_bits() == 0;
        let protected = |own: Exact| {
            let refinement = if integral { refinement_of(budget, &own) } else { 1 };
            let squared = own.times(&Exact::from(u128::from(refinement).pow(2)));
            let divisor = refinement << mechanism.noise_bits();
            Protected { squared, divisor, exact_accounting: false, correlation: None }
        };
        routes.push(columns(sensitivity, squared).map(protected));
    }
    if let Some(shift) = mechanism.gaussian_shift() {
        let (divisor, squared) = shift.on_fine_grid(sensitivity.event_size());
        routes.push(Ok(Protected {
            squared: releases(sensitivity, squared, divisor),
            divisor,
            exact_accounting: true,
            correlation: None,
        }));
    }
    Ok(routes)
}

/// The noise of groups, correlated if that has less error than independent noise.
fn correlated(
    request: &PlanRequest,
    sensitivity: Sensitivity,
    mechanism: &dyn Mechanism,
    wanted: GroupChoice,
    independent: Result<Calibration>,
) -> Result<Calibration> {
    let groups = match wanted {
        GroupChoice::Best(groups, _) => groups,
        GroupChoice::Fixed(correlation) => correlation.groups(),
    };
    let Some(shift) = Shift::new(request.unit, sensitivity, mechanism, groups) else {
        return match wanted {
            GroupChoice::Best(..) => independent,
            GroupChoice::Fixed(_) => Err(Error::invalid("correlated noise of groups does not suit this unit")),
        };
    };
    let with = |correlation| {
        gaussian(&request.budget, correlated_routes(request, sensitivity, mechanism, &shift, correlation), mechanism)
    };
    match wanted {
        GroupChoice::Fixed(correlation) => with(correlation),
        GroupChoice::Best(_, aim) => {
            let Some(best) = search::best(&shift, groups, aim) else { return independent };
            match (with(best), independent) {
                // Rounding to the noise grid may cost more than the gain.
                (Ok(correlated), Ok(independent))
                    if correlated.common_variance() * best.figure(aim) < independent.variance() =>
                {
                    Ok(correlated)
                }
                (Ok(correlated), Err(_)) => Ok(correlated),
                (_, independent) => independent,
            }
        }
    }
}

/// The same routes for correlated noise: see [`correlation`](super::correlation) for `W`.
fn correlated_routes(
    request: &PlanRequest,
    sensitivity: Sensitivity,
    mechanism: &dyn Mechanism,
    shift: &Shift,
    correlation: Correlation,
) -> Vec<Result<Protected>> {
    let weighted = |squared: f64, independent: f64, refinement: u64| {
        let rounding = correlation.rounding() * independent;
        let finer = power(refinement as f64, 2);
        (finer * squared + rounding) / correlation.own_over_common() * (1.0 + 1e-9)
    };
    let finer = |squared: f64, independent: f64| {
        (0..40)
            .map(|bits| 1u64 << bits)
            .find(|r| correlation.rounding() * independent <= power(*r as f64, 2) * squared * MAX_ROUNDING)
    };
    let mut routes = Vec::new();
    let (squared, independent) = (shift.squared(correlation), shift.independent());
    let integral = mechanism.fraction_bits() == 0;
    if squared.is_finite() && (integral || mechanism.name().usual_law() == NoiseKind::Gaussian) {
        let (squared, divisor) = if integral {
            let refinement = finer(squared, independent).unwrap_or(1);
            let on_grid = finite(weighted(squared, independent, refinement));
            let refinement = refinement * on_grid.map_or(1, |on_grid| refinement_of(&request.budget, &on_grid));
            (weighted(squared, independent, refinement), refinement << mechanism.noise_bits())
        } else {
            // The sum of |S_n| over all nodes, of which Gaussian families have at most four a step.
            let counts = match units::squared(mechanism, sensitivity.spread.in_one_sum(sensitivity.spread.total)) {
                u128::MAX => f64::INFINITY,
                counts => counts as f64,
            };
            let together = sensitivity.event_squared as f64 * counts;
            let sum = (4.0 * request.horizon as f64 * together).sqrt();
            ((squared + sum / 2.0) / correlation.own_over_common() * (1.0 + 1e-9), 1 << mechanism.noise_bits())
        };
        let correlation = Some(correlation);
        routes.extend(
            finite(squared).map(|squared| Ok(Protected { squared, divisor, exact_accounting: false, correlation })),
        );
    }
    // Events of different sizes are rounded differently: their shifts are not multiples of each other.
    let is_alike = request.values == Values::Count && shift.is_one_step();
    if let Some(exact) = mechanism.gaussian_shift().filter(|_| is_alike) {
        let (divisor, of_one) = exact.on_fine_grid(sensitivity.event_size());
        let on_grid = of_one * power(divisor as f64, 2);
        let squared = shift.form_of(correlation) * on_grid;
        let independent = shift.form(0.0) * on_grid;
        let refinement = finer(squared, independent).unwrap_or(1);
        routes.extend(finite(weighted(squared, independent, refinement)).map(|squared| {
            let divisor = divisor.saturating_mul(refinement);
            Ok(Protected { squared, divisor, exact_accounting: true, correlation: Some(correlation) })
        }));
    }
    routes
}

/// A squared norm, unless it is beyond all doubles: then a route is closed.
fn finite(squared: f64) -> Option<Exact> {
    squared.is_finite().then(|| Exact::decimal(squared))
}

/// The power of two by which the grid of an integral mechanism must be refined so that the discreteness of the noise
/// costs less than a thousandth of the variance under (ε, δ), from the squared norm on its own grid; 1 under other
/// budgets, where discreteness costs nothing.
fn refinement_of(budget: &Budget, squared: &Exact) -> u64 {
    let (Budget::Approximate(epsilon, delta), Ok(squared)) = (*budget, squared.rounded_up()) else { return 1 };
    let mu = crate::privacy::conversions::mu_for(epsilon, delta);
    let variance = squared.to_f64() / (mu * mu);
    (0..20).map(|bits| 1u64 << bits).find(|r| variance * power(*r as f64, 2) >= 4096.0).unwrap_or(1 << 20)
}

/// How far a change of this sensitivity moves the values protected by the plan's noise, by the plan's route: the
/// squared L2 norm in squared steps of a noise grid that is `divisor` times finer than the data's.
pub(super) fn moved_squared(
    sensitivity: Sensitivity,
    mechanism: &dyn Mechanism,
    noise_divisor: u64,
    exact_accounting: bool,
) -> Result<f64> {
    let squared = match mechanism.gaussian_shift().filter(|_| exact_accounting) {
        Some(shift) => {
            // The bound needs a grid that is at least so fine, and holds on finer ones, as correlated noise may have. A
            // smaller unit may need a finer one than the plan has.
            let (divisor, of_one) = shift.on_fine_grid(sensitivity.event_size());
            if divisor > noise_divisor {
                return Err(Error::overflow("the noise grid of the plan is too coarse for this unit alone"));
            }
            releases(sensitivity, of_one, noise_divisor)
        }
        None => {
            let finer = u128::from(noise_divisor >> mechanism.noise_bits());
            columns(sensitivity, units::squared(mechanism, sensitivity.spread))?.times(&Exact::from(finer * finer))
        }
    };
    Ok(squared.to_f64_up())
}

/// The squared L2 sensitivity of the node sums in squared steps of the mechanism's noise grid: `event²` times that of
/// the counts (see [`Sensitivity`]).
fn columns(sensitivity: Sensitivity, of_counts: u128) -> Result<Exact> {
    if of_counts == u128::MAX {
        return Err(Error::overflow(
            "the sensitivity does not fit exact arithmetic; use a coarser grid or tighter bounds",
        ));
    }
    Ok(Exact::from(sensitivity.event_squared).times(&Exact::from(of_counts)))
}

/// The same for the releases, by exact accounting: `event² · Σ n_g² · squared · divisor²` for `n_g` events in a group,
/// at most `total · per_group`, and `squared` for one event of size 1.
pub(super) fn releases(sensitivity: Sensitivity, squared: f64, divisor: u64) -> Exact {
    // fits: the total is below 2^64, the divisor below 2^60.
    let (total, per_group) = (u128::from(sensitivity.spread.total), u128::from(sensitivity.spread.per_group));
    let divisor = u128::from(divisor);
    let of_counts = Exact::from(total * per_group);
    // Columns of the covariance's inverse root never point in opposite directions: as for replaced events, the squares
    // add up.
    let others =
        sensitivity.spread.substitutes.map_or(0, |others| u128::from(others.total) * u128::from(others.per_group));
    let events = Exact::from(sensitivity.event_squared).times(&of_counts.plus(&Exact::from(others)));
    events.times(&Exact::decimal(squared)).times(&Exact::from(divisor * divisor))
}

impl Protected {
    fn calibrated(self, budget: &Budget) -> Result<Calibration> {
        let l2_squared = self.squared.rounded_up()?.to_f64();
        let mut variance = concentrated_variance(&self.squared, budget.rho().expect("not pure ε").get())?;
        if let Budget::Approximate(epsilon, delta) = *budget {
            let variables = l2_squared * self.correlation.map_or(1.0, Correlation::own_over_common);
            for (mu, rounding) in loss::continuous_comparisons(epsilon, delta, variables) {
                let squared_mu = Exact::decimal(mu).times(&Exact::decimal(mu));
                let compared = self.squared.over(&squared_mu).plus(&Exact::decimal(rounding)).rounded_up()?;
                variance = lesser(variance, compared);
            }
        }
        let base = DiscreteGaussian::new(variance)?;
        let (law, common) = match self.correlation {
            None => (base.into(), None),
            Some(correlation) => (correlation.own_law(&base)?, Some((correlation, base.into()))),
        };
        let Self { divisor, exact_accounting, .. } = self;
        Ok(Calibration { law, common, noise_divisor: divisor, exact_accounting, l1: f64::INFINITY, l2_squared })
    }
}

/// Variance parameter of the Gaussian noise on every node under ρ-zCDP: `‖d‖²/(2ρ)`.
fn concentrated_variance(l2_squared: &Exact, rho: f64) -> Result<Ratio> {
    l2_squared.over(&Exact::decimal(rho).times(&Exact::from(2))).rounded_up()
}

impl Calibration {
    /// In squared steps of the data's grid.
    fn variance(&self) -> f64 {
        let unit = 1.0 / self.noise_divisor as f64;
        let common = self.common.map_or(0.0, |(_, common)| common.variance());
        (self.law.variance() + common) * unit * unit
    }

    /// The same for the common noise alone.
    fn common_variance(&self) -> f64 {
        self.common.map_or(0.0, |(_, common)| common.variance()) / power(self.noise_divisor as f64, 2)
    }

    fn capped(self, mechanism: &dyn Mechanism) -> Result<Self> {
        let common = self.common.map_or(0.0, |(_, common)| common.scale());
        if self.law.scale() + common > MAX_SCALE {
            return Err(Error::invalid(format!(
                "{} would need noise of {:e} grid steps; raise the budget, coarsen the grid or use another mechanism",
                mechanism.name(),
                self.law.scale() / self.noise_divisor as f64
            )));
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(numerator: u128, denominator: u128) -> Ratio {
        Ratio::new(numerator, denominator).unwrap()
    }

    #[test]
    fn simple_numbers_stay_exact() {
        assert_eq!(pure_scale(&Exact::from(3), Epsilon::new(0.1).unwrap()).unwrap(), ratio(30, 1));
        assert_eq!(concentrated_variance(&Exact::from(3), 0.3).unwrap(), ratio(5, 1));
        assert_eq!(concentrated_variance(&Exact::from(4 * 10 * 25), 0.5).unwrap(), ratio(4 * 10 * 25, 1));
    }

    /// The square of the scale is at least the one that zCDP requires.
    #[test]
    fn concentrated_scales_are_rounded_up() {
        for squared in [1u128, 3, 10, 12345, 1 << 90] {
            for rho in [1e-6, 0.3, 7.0] {
                let (scale, want) =
                    (concentrated_scale(&Exact::from(squared), rho).unwrap().to_f64(), squared as f64 / (2.0 * rho));
                assert!(scale * scale >= want && scale * scale < want * (1.0 + 1e-6), "{squared} {rho}");
            }
        }
    }
}
