//! Releases of a counter.

use pyo3::prelude::*;

/// The released running sum of one step, with its error. All fields may be published.
///
/// >>> import evertally as et
/// >>> key = et.SecretKey.insecure_from_test_seed(et.TestSeed(1))
/// >>> counter = et.Counter(et.plan(365, epsilon=1.0), key, "visits")
/// >>> counter.add(1000)
/// >>> release = counter.tick()
/// >>> release.step, release.lower <= release.value <= release.upper
/// (1, True)
/// >>> float(release.text) == release.value
/// True
#[pyclass(frozen, get_all, eq, name = "Release", module = "evertally")]
#[derive(Clone, PartialEq)]
pub(crate) struct PyRelease {
    /// The step, from 1.
    pub(crate) step: u64,
    /// The released running sum, in units of the data: the exact sum plus noise.
    pub(crate) value: f64,
    /// Standard error of the value, in units of the data. It follows from the plan alone.
    pub(crate) std_error: f64,
    /// Lower end of the interval for the exact sum, at the counter's confidence.
    pub(crate) lower: f64,
    /// Upper end of that interval.
    pub(crate) upper: f64,
    /// The value as exact decimal text.
    pub(crate) text: String,
}

#[pymethods]
impl PyRelease {
    fn __float__(&self) -> f64 {
        self.value
    }

    fn __repr__(&self) -> String {
        format!(
            "Release(step={}, value={}, std_error={:.4}, lower={}, upper={})",
            self.step, self.text, self.std_error, self.lower, self.upper
        )
    }

    fn __str__(&self) -> String {
        format!("{} ± {:.1}", self.text, self.std_error)
    }
}
