//! The guarantee of a vector plan.

use crate::budget::delta as delta_of;
use evertally_training::VectorGuarantee as Inner;
use pyo3::prelude::*;

/// The privacy guarantee of a vector plan, for the whole history of releases together.
///
/// >>> import evertally as et
/// >>> guarantee = et.training.plan_vector(1000, rho=0.5, mechanism="smooth").guarantee
/// >>> round(guarantee.mu, 9), guarantee.rho
/// (1.0, 0.5)
#[pyclass(frozen, name = "VectorGuarantee", module = "evertally.training")]
pub(crate) struct PyVectorGuarantee(pub(crate) Inner);

#[pymethods]
impl PyVectorGuarantee {
    /// μ of Gaussian differential privacy: neighbouring data sets are at most as distinguishable as a normal variable
    /// of variance 1 with mean 0 from one with mean μ. This is the strongest statement if the plan does no random
    /// sampling. With ``sampled``, ``bins`` or ``fresh_bins`` it is the guarantee against anyone who knows the batches,
    /// and :meth:`epsilon_at` gives a stronger one.
    #[getter]
    fn mu(&self) -> f64 {
        self.0.mu()
    }

    /// ρ of zero-concentrated differential privacy.
    #[getter]
    fn rho(&self) -> f64 {
        self.0.rho().get()
    }

    /// The smallest ε of (ε, δ)-differential privacy at this δ (strictly between 0 and 1), rounded up: by the exact
    /// curve of Gaussian noise, or with sampling by an upper bound.
    ///
    /// >>> import evertally as et
    /// >>> plan = et.training.plan_vector(1000, epsilon=2.0, delta=1e-6, mechanism="smooth")
    /// >>> plan.guarantee.epsilon_at(1e-6), plan.guarantee.epsilon_at(1e-9) > 2.0
    /// (2.0, True)
    fn epsilon_at(&self, py: Python<'_>, delta: f64) -> PyResult<f64> {
        let delta = delta_of(delta)?;
        Ok(py.detach(|| self.0.epsilon_at(delta)))
    }

    fn __repr__(&self) -> String {
        format!("VectorGuarantee({})", self.words())
    }

    fn __str__(&self) -> String {
        self.words()
    }
}

impl PyVectorGuarantee {
    /// The guarantee in a few words.
    pub(crate) fn words(&self) -> String {
        match self.0.epsilon_delta() {
            Some((epsilon, delta)) => format!("ε = {}, δ = {:e}", epsilon.get(), delta.get()),
            None => format!("ρ = {} (zCDP)", self.rho()),
        }
    }
}
