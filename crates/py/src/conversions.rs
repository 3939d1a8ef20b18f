//! Conversions between budgets, as functions (`evertally.budget`).

use crate::budget::{delta as delta_of, epsilon as epsilon_of, rho as rho_of};
use crate::error::{OrRaise, invalid};
use crate::whole::Whole;
use evertally::privacy::{conversions, gaussian};
use evertally_training::poisson_subsampling::{SampledGaussian, SampledGaussians};
use pyo3::prelude::*;

/// The ρ of zCDP that ε-differential privacy implies: ε²/2.
///
/// >>> from evertally import budget
/// >>> budget.zcdp_of_pure(1.0)
/// 0.5
#[pyfunction]
pub(crate) fn zcdp_of_pure(epsilon: f64) -> PyResult<f64> {
    Ok(conversions::zcdp_of_pure(epsilon_of(epsilon)?))
}

/// The smallest ε for which every ρ-zCDP mechanism is (ε, δ)-differentially private, rounded up.
///
/// >>> from evertally import budget
/// >>> round(budget.epsilon_of_zcdp(0.5, 1e-6), 3)
/// 5.222
#[pyfunction]
pub(crate) fn epsilon_of_zcdp(rho: f64, delta: f64) -> PyResult<f64> {
    Ok(conversions::epsilon_of_zcdp(rho_of(rho)?, delta_of(delta)?))
}

/// The smallest δ for which every ρ-zCDP mechanism is (ε, δ)-differentially private, rounded up.
///
/// >>> from evertally import budget
/// >>> budget.delta_of_zcdp(0.5, 6.0) < 1e-6
/// True
#[pyfunction]
pub(crate) fn delta_of_zcdp(rho: f64, epsilon: f64) -> PyResult<f64> {
    Ok(conversions::delta_of_zcdp(rho_of(rho)?, epsilon_of(epsilon)?))
}

/// The largest ρ for which ρ-zCDP implies (ε, δ)-differential privacy, rounded down.
///
/// >>> from evertally import budget
/// >>> budget.epsilon_of_zcdp(budget.rho_for(1.0, 1e-6), 1e-6) <= 1.0
/// True
#[pyfunction]
pub(crate) fn rho_for(epsilon: f64, delta: f64) -> PyResult<f64> {
    Ok(conversions::rho_for(epsilon_of(epsilon)?, delta_of(delta)?).get())
}

/// The δ at this ε of continuous Gaussian noise whose standard deviation is the L2 sensitivity divided by ``mu`` (above
/// 0). At ε = 0 it is the largest difference of two probabilities.
///
/// >>> from evertally import budget
/// >>> round(budget.delta_of_gaussian(1.0, 1.0), 6)
/// 0.126937
/// >>> round(budget.delta_of_gaussian(1.0, 0.0), 6)
/// 0.382925
#[pyfunction]
pub(crate) fn delta_of_gaussian(mu: f64, epsilon: f64) -> PyResult<f64> {
    let mu = positive(mu)?;
    if epsilon == 0.0 {
        return Ok(gaussian::delta(mu, 0.0));
    }
    Ok(conversions::delta_of_gaussian(mu, epsilon_of(epsilon)?))
}

/// The smallest ε at this δ of the same noise, rounded up.
///
/// >>> from evertally import budget
/// >>> round(budget.epsilon_of_gaussian(1.0, 1e-6), 2)
/// 4.89
#[pyfunction]
pub(crate) fn epsilon_of_gaussian(mu: f64, delta: f64) -> PyResult<f64> {
    Ok(conversions::epsilon_of_gaussian(positive(mu)?, delta_of(delta)?))
}

/// The largest ``mu`` for which the same noise is (ε, δ)-differentially private, rounded down.
///
/// >>> from evertally import budget
/// >>> budget.delta_of_gaussian(budget.mu_for(1.0, 1e-6), 1.0) <= 1e-6
/// True
#[pyfunction]
pub(crate) fn mu_for(epsilon: f64, delta: f64) -> PyResult<f64> {
    Ok(conversions::mu_for(epsilon_of(epsilon)?, delta_of(delta)?))
}

/// The smallest ε at this δ of DP-SGD: ``steps`` steps of Gaussian noise whose standard deviation is ``noise`` times
/// the clipping norm, on examples that take part with probability ``rate`` (Poisson sampling), under addition or
/// removal. Never too small, and within 0.01 % in terms of the noise if 1/``rate`` is at most a few thousand.
///
/// >>> from evertally import budget
/// >>> round(budget.epsilon_of_sampled(1.0, rate=0.01, steps=1000, delta=1e-5), 2)
/// 1.83
#[pyfunction]
#[pyo3(signature = (noise, *, rate, steps, delta))]
pub(crate) fn epsilon_of_sampled(py: Python<'_>, noise: f64, rate: f64, steps: Whole, delta: f64) -> PyResult<f64> {
    let (step, delta) = (SampledGaussian::new(rate, noise, steps.0).or_raise()?, delta_of(delta)?);
    py.detach(|| SampledGaussians::new(&[step]).map(|all| all.epsilon(delta))).or_raise()
}

/// The smallest noise, divided by the clipping norm, with which DP-SGD is (ε, δ)-differentially private. It is rounded
/// up until the inverse, :func:`epsilon_of_sampled`, is at most ε.
///
/// >>> from evertally import budget
/// >>> noise = budget.noise_of_sampled(2.0, 1e-5, rate=0.01, steps=1000)
/// >>> round(noise, 3), budget.epsilon_of_sampled(noise, rate=0.01, steps=1000, delta=1e-5) <= 2
/// (0.959, True)
#[pyfunction]
#[pyo3(signature = (epsilon, delta, *, rate, steps))]
pub(crate) fn noise_of_sampled(py: Python<'_>, epsilon: f64, delta: f64, rate: f64, steps: Whole) -> PyResult<f64> {
    let (epsilon, delta) = (epsilon_of(epsilon)?, delta_of(delta)?);
    let step = SampledGaussian::new(rate, 1.0, steps.0).or_raise()?;
    py.detach(|| SampledGaussians::new(&[step])?.noise_factor_for(epsilon, delta)).or_raise()
}

fn positive(mu: f64) -> PyResult<f64> {
    if (1e-12..=1e6).contains(&mu) {
        Ok(mu)
    } else {
        Err(invalid(format!("mu must lie between 1e-12 and 1e6, got {mu}")))
    }
}
