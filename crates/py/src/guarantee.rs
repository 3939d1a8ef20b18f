//! The guarantee of a plan.

use crate::budget::delta as delta_of;
use evertally::plan::Guarantee as Inner;
use evertally::privacy::{Delta, Epsilon};
use pyo3::prelude::*;

/// The privacy guarantee of a plan, for the whole history of releases together.
///
/// >>> import evertally as et
/// >>> guarantee = et.plan(365, epsilon=1.0).guarantee
/// >>> guarantee.pure_epsilon, guarantee.rho <= 0.5
/// (1.0, True)
#[pyclass(frozen, name = "Guarantee", module = "evertally")]
pub(crate) struct PyGuarantee(pub(crate) Inner);

#[pymethods]
impl PyGuarantee {
    /// ε of pure differential privacy, or ``None`` under Gaussian noise.
    #[getter]
    fn pure_epsilon(&self) -> Option<f64> {
        self.0.pure_epsilon.map(Epsilon::get)
    }

    /// ρ of zero-concentrated differential privacy.
    #[getter]
    fn rho(&self) -> f64 {
        self.0.rho.get()
    }

    /// The amount that the selection of undeclared groups adds to every δ, or ``None`` if groups are declared.
    #[getter]
    fn selection_delta(&self) -> Option<f64> {
        self.0.selection.map(Delta::get)
    }

    /// The smallest known ε of (ε, δ)-differential privacy at this δ (strictly between 0 and 1).
    ///
    /// >>> import evertally as et
    /// >>> plan = et.plan(100, epsilon=1.0, delta=1e-6)
    /// >>> round(plan.guarantee.epsilon_at(1e-6), 6)
    /// 1.0
    fn epsilon_at(&self, py: Python<'_>, delta: f64) -> PyResult<f64> {
        let delta = delta_of(delta)?;
        Ok(py.detach(|| self.0.epsilon_at(delta)))
    }

    fn __repr__(&self) -> String {
        format!("Guarantee({})", self.words())
    }

    fn __str__(&self) -> String {
        self.words()
    }
}

impl PyGuarantee {
    /// The guarantee in a few words.
    pub(crate) fn words(&self) -> String {
        match self.0.epsilon_delta() {
            Some((epsilon, None)) => format!("ε = {}", epsilon.get()),
            Some((epsilon, Some(delta))) => format!("ε = {}, δ = {:e}", epsilon.get(), Delta::get(delta)),
            None => {
                let selection = self.selection_delta().map_or(String::new(), |delta| format!(", δ = {delta:e}"));
                format!("ρ = {} (zCDP){selection}", self.rho())
            }
        }
    }
}
