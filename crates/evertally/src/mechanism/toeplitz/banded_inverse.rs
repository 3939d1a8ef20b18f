//! `banded-inverse`: the inverse of the first diagonals of a fractional power of the differences.
//!
//! `R⁻¹` has the coefficients `r_0 … r_(b-1)` of `(1-z)^α`, `0 < α < 1`, and no more: `r_0 = 1`,
//! `r_j = r_(j-1) (j-1-α)/j`. So an increment of the noise is `Σ_j r_j z_(t-j)`, and if the last noises are drawn again
//! from their keys, nothing is stored between steps (BIFR; Kalinin, McKenna, Upadhyay, Lampert, arXiv 2605.18379, and
//! for `α = 1/2`, which is [`banded-inverse-sqrt`](super::banded_inverse_sqrt), arXiv 2505.12128). With two bands it is
//! `z_t - α z_(t-1)`, and `R` has the coefficients `α^j`: λ-CGD (arXiv 2601.22334) with `λ = α`.
//!
//! `L = A R⁻¹` has the sums of the `r_j` as coefficients: `l_j = Π_(i≤j) (i-α)/i` for `j < b`, those of `(1-z)^(α-1)`,
//! and `l_(b-1)` from there on.
//!
//! **Sensitivity.** No coefficient of `R` is negative, and none is larger than the one before: then the sensitivity to
//! a unit in several steps is exactly the sum of the columns `1, 1+b, 1+2b, …`
//! ([`participation`](crate::mechanism::accounting::participation)). For `1/R = 1 - Σ_(j≥1) |r_j| z^j`, so the
//! coefficients of `R` are sums of products of the `|r_j|`. And the ratios `l_j/l_(j-1) = 1 - α/j`, then 1, grow: `l`
//! is log-convex, so by Kaluza's theorem its reciprocal series `(1-z) R`, the differences of the coefficients, has no
//! positive coefficient after the first.
//!
//! Fewer bands need a larger exponent: for 1024 steps, 8 times and 128 apart, 0.97, 0.91 and 0.72 with 2, 4 and 16
//! bands, which have 0.31, 0.44 and 0.70 of the largest error of `α = 1/2`.

use super::square_root::MAX_BANDED;
use super::{SquareRoot, bands};
use crate::Result;
use crate::mechanism::Exponent;
use crate::mechanism::name::parameters::Parameters;
use crate::mechanism::{Criterion, MAX_CONSTANT_MEMORY, Mechanism, MechanismName, Participation, TrainingLoop};
use crate::number::descent::minimise_between;
use std::fmt;
use std::sync::Arc;

pub(in crate::mechanism) fn parse(parameters: &mut Parameters<'_>) -> Result<MechanismName> {
    let bands = bands::parse(parameters)?;
    Ok(MechanismName::BandedInverse(bands, parameters.take("exponent").map(str::parse).transpose()?))
}

pub(in crate::mechanism) fn write(f: &mut fmt::Formatter<'_>, bands: u64, exponent: Option<Exponent>) -> fmt::Result {
    match exponent {
        Some(exponent) => write!(f, "(bands={bands},exponent={exponent})"),
        None => bands::write(f, bands),
    }
}

pub(in crate::mechanism) fn build(
    horizon: u64,
    criterion: &Criterion,
    bands: u64,
    exponent: Option<Exponent>,
) -> Result<Arc<dyn Mechanism>> {
    let exponent = match exponent {
        Some(exponent) => exponent,
        None => best(horizon, bands, &|built| criterion.figure(built))?,
    };
    Ok(Arc::new(SquareRoot::banded_inverse_power(horizon, bands, exponent)?))
}

/// The mechanism of a name with an open exponent, optimised for a training loop.
pub(in crate::mechanism) fn for_loop(
    name: MechanismName,
    training: &TrainingLoop<'_>,
) -> Option<Result<Arc<dyn Mechanism>>> {
    let MechanismName::BandedInverse(bands, None) = name else { return None };
    let figure = |built: &SquareRoot| (training.squared_error)(built).unwrap_or(f64::INFINITY);
    let exponent = best(training.horizon(), bands, &figure);
    Some(exponent.and_then(|exponent| {
        Ok(Arc::new(SquareRoot::banded_inverse_power(training.horizon(), bands, exponent)?) as Arc<dyn Mechanism>)
    }))
}

/// The exponent with the least figure, searched along `ln α/(1-α)`: builds about thirty mechanisms.
fn best(horizon: u64, bands: u64, figure: &dyn Fn(&SquareRoot) -> f64) -> Result<Exponent> {
    let of = |x: f64| Exponent::near(1.0 / (1.0 + libm::exp(-x)));
    let mechanism = |exponent| SquareRoot::banded_inverse_power(horizon, bands, exponent);
    mechanism(Exponent::HALF)?; // checks that the numbers are in range
    let figure = |x: f64| mechanism(of(x)).map_or(f64::INFINITY, |built| figure(&built));
    Ok(of(minimise_between(-2.0, 8.0, 11, 0.02, figure)))
}

/// Competes if units return: with two bands, which need no memory, a few, or as many as the steps until their return.
pub(in crate::mechanism) fn competitors(horizon: u64, unit: Participation) -> Vec<MechanismName> {
    let separation = unit.separation();
    let constant_memory = [2, 4, 16, MAX_CONSTANT_MEMORY].into_iter().filter(|bands| *bands < separation);
    let all =
        constant_memory.chain([separation]).filter(|bands| horizon <= MAX_BANDED && (2..=horizon).contains(bands));
    all.map(|bands| MechanismName::BandedInverse(bands, None)).collect()
}

pub(in crate::mechanism) fn brief(name: MechanismName) -> MechanismName {
    match name {
        MechanismName::BandedInverse(bands, _) => MechanismName::BandedInverse(bands, None),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::{NoiseKind, Objective};

    #[test]
    fn names_hold_their_exponent() {
        for (text, exponent) in [("0.5", Exponent::HALF), ("0.9375", Exponent(9375)), ("0.0001", Exponent(1))] {
            assert_eq!(text.parse::<Exponent>().unwrap(), exponent);
            assert_eq!(exponent.to_string(), text);
        }
        for refused in ["0", "1", "-0.5", "0.12345", "nan", "inf", "half"] {
            let text = format!("banded-inverse(bands=2,exponent={refused})");
            assert!(text.parse::<MechanismName>().unwrap_err().to_string().contains("between 0 and 1"), "{refused}");
        }
    }

    /// `R` has the coefficients `λ^j`, and the increments are `z_t - λ z_(t-1)`.
    #[test]
    fn two_bands_have_a_geometric_series() {
        let lambda = 0.75f64;
        let mechanism = SquareRoot::banded_inverse_power(40, 2, Exponent::near(lambda)).unwrap();
        let dense = mechanism.dense();
        for t in 0..40 {
            assert!((dense.r.row(t)[0] - lambda.powi(t as i32)).abs() < 1e-12);
            assert!((dense.l.row(t)[0] - if t == 0 { 1.0 } else { 1.0 - lambda }).abs() < 1e-12);
        }
        let Some(crate::mechanism::Streaming::Innovations(weights)) = mechanism.streaming() else {
            panic!("innovations")
        };
        assert_eq!(&*weights, [1.0, -lambda]);
    }

    /// One half is the square root, by its own name.
    #[test]
    fn half_is_the_square_root() {
        let (power, root) = (
            SquareRoot::banded_inverse_power(50, 7, Exponent::HALF).unwrap(),
            SquareRoot::banded_inverse(50, 7).unwrap(),
        );
        for step in [1, 3, 20, 50] {
            assert!((power.row_norm_squared(step) / root.row_norm_squared(step) - 1.0).abs() < 1e-12);
        }
        assert_ne!(power.name(), root.name());
    }

    /// Largest and root mean square error at `μ = 1`, computed by another program from the definition.
    #[test]
    fn errors_of_examples_that_come_back() {
        let epochs = Participation::new(8, 128).unwrap();
        for (bands, exponent, max, mean) in [
            (2, "0.95", 17.106066, 13.690712),
            (4, "0.9", 15.906796, 13.307596),
            (16, "0.7", 13.880472, 11.267065),
            (64, "0.55", 12.705938, 10.584632),
        ] {
            let mechanism = SquareRoot::banded_inverse_power(1024, bands, exponent.parse().unwrap()).unwrap();
            for (objective, want) in [(Objective::Max, max), (Objective::Mean, mean)] {
                let ours = Criterion::from_vectors(objective, epochs).figure(&mechanism).sqrt();
                assert!((ours / want - 1.0f64).abs() < 1e-6, "{bands} bands, {objective}: {ours}, {want}");
            }
        }
    }

    /// No other exponent of a fine grid is better, and one half is far worse if bands are few.
    #[test]
    fn the_best_exponent_is_found() {
        let participation = Participation::new(8, 32).unwrap();
        for objective in Objective::BOTH {
            let criterion = Criterion::from_vectors(objective, participation);
            for bands in [2, 8, 32] {
                let found = MechanismName::BandedInverse(bands, None).build(256, &criterion).unwrap();
                let least = criterion.figure(&*found);
                let of = |exponent| criterion.figure(&SquareRoot::banded_inverse_power(256, bands, exponent).unwrap());
                let grid = (1..200).map(|i| of(Exponent::near(f64::from(i) / 200.0))).fold(f64::INFINITY, f64::min);
                assert!(least <= grid * (1.0 + 1e-4), "{objective} {bands}: {least} {grid}");
                assert!(bands == 32 || least < 0.8 * of(Exponent::HALF), "{objective} {bands}: {least}");
                assert_eq!(found.name().brief(), MechanismName::BandedInverse(bands, None));
            }
        }
        let events = Criterion::new(NoiseKind::Gaussian, Objective::Max);
        assert!(MechanismName::BandedInverse(4, None).build(100, &events).is_ok());
        assert!(MechanismName::BandedInverse(0, None).build(100, &events).is_err());
    }
}
