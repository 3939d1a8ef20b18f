//! Readings of vectors and sketches.

use pyo3::prelude::*;

/// A reading of one running sum or item: an estimate and the standard error of its noise.
///
/// ``std_error`` is that of the noise alone; it excludes the error that collisions add to a sketch's estimate.
///
/// >>> import evertally as et
/// >>> plan = et.plan_lazy(1000, rho=0.5)
/// >>> key = et.SecretKey.insecure_from_test_seed(et.TestSeed(1))
/// >>> visits = et.LazyVector(plan, key, "visits", sums=10**9)
/// >>> visits.tick()
/// 1
/// >>> reading = visits.read(123)
/// >>> reading.step, abs(reading.value) < 10 * reading.std_error
/// (1, True)
#[pyclass(frozen, get_all, eq, name = "Reading", module = "evertally")]
#[derive(Clone, PartialEq)]
pub(crate) struct PyReading {
    /// The closed step of the reading, from 1.
    pub(crate) step: u64,
    /// The estimate, in units of the data.
    pub(crate) value: f64,
    /// Standard error that the noise causes, in units of the data.
    pub(crate) std_error: f64,
}

#[pymethods]
impl PyReading {
    fn __float__(&self) -> f64 {
        self.value
    }

    fn __repr__(&self) -> String {
        format!("Reading(step={}, value={}, std_error={:.4})", self.step, self.value, self.std_error)
    }

    fn __str__(&self) -> String {
        format!("{} ± {:.1}", self.value, self.std_error)
    }
}
