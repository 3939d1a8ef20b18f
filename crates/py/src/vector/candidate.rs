//! One row of the ranking of a vector plan.

use crate::html::HtmlRow;
use evertally_training::VectorCandidate as Inner;
use pyo3::prelude::*;

/// A mechanism that satisfies a request for a vector plan, the noise it needs, and its exact error.
///
/// Errors are those of one coordinate of the running sums, or of the parameters that an optimizer makes of the vectors.
///
/// >>> import evertally as et
/// >>> ranking = et.training.plan_vector(1000, rho=0.5).ranking
/// >>> ranking[0].relative_error, ranking[0].above_bound < 1.1
/// (1.0, True)
#[pyclass(frozen, get_all, name = "VectorCandidate", module = "evertally.training")]
#[derive(Clone)]
pub(crate) struct PyVectorCandidate {
    /// Short name of the mechanism.
    mechanism: String,
    /// Full name, as accepted by :func:`plan_vector`.
    name: String,
    /// The maximum distance by which one example moves the releases, in standard deviations per ``norm``.
    sensitivity: f64,
    /// Standard deviation of one noise variable.
    sigma: f64,
    /// σ over the clipping norm, as :attr:`VectorPlan.noise_multiplier`.
    noise_multiplier: f64,
    /// Largest standard error of a running sum, or of the parameters.
    max_std_error: f64,
    /// Root of the mean variance over the steps.
    mean_std_error: f64,
    /// The error that the plan minimises, divided by that of the best candidate.
    relative_error: f64,
    /// ``max_std_error`` divided by the proven lower bound; infinite with sampling, where no bound is known.
    above_bound: f64,
    /// Whether a step needs at most 64 copies of the gradient as memory or fresh noise, for any horizon. Only such
    /// mechanisms are chosen if none is named and ``max_memory`` is left as it is.
    constant_memory: bool,
    /// Memory or fresh noise of a step, in copies of the gradient; 0 if it grows at most logarithmically in the
    /// horizon.
    memory: u64,
}

#[pymethods]
impl PyVectorCandidate {
    fn __repr__(&self) -> String {
        format!(
            "VectorCandidate({:?}, sigma={:.4}, max_std_error={:.4}, relative_error={:.4}, constant_memory={})",
            self.mechanism,
            self.sigma,
            self.max_std_error,
            self.relative_error,
            if self.constant_memory { "True" } else { "False" }
        )
    }
}

/// A cell with the memory of a step, in copies of the gradient.
pub(super) fn memory_cell(copies: u64) -> String {
    if copies == 0 { "constant".to_owned() } else { copies.to_string() }
}

/// The column headings.
pub(crate) const HEADS: [&str; 6] = ["mechanism", "memory", "max error", "mean error", "× best", "× bound"];

impl PyVectorCandidate {
    /// Made from the library's candidate, the clipping norm, its relative error, and the lower bound.
    pub(crate) fn new(inner: &Inner, norm: f64, relative_error: f64, bound: f64) -> Self {
        Self {
            mechanism: inner.name.brief().to_string(),
            name: inner.name.to_string(),
            sensitivity: inner.sensitivity,
            sigma: inner.sigma,
            noise_multiplier: inner.sigma / norm,
            max_std_error: inner.max_std_error,
            mean_std_error: inner.mean_std_error,
            relative_error,
            above_bound: inner.max_std_error / bound,
            constant_memory: inner.constant_memory,
            memory: inner.memory,
        }
    }

    /// The table row, in bold if the mechanism has this name.
    pub(crate) fn row(&self, chosen: &str) -> HtmlRow {
        let cells = [
            self.mechanism.clone(),
            memory_cell(self.memory),
            format!("{:.4}", self.max_std_error),
            format!("{:.4}", self.mean_std_error),
            format!("{:.3}", self.relative_error),
            if self.above_bound.is_finite() { format!("{:.3}", self.above_bound) } else { String::new() },
        ];
        HtmlRow { cells, chosen: self.name == chosen }
    }
}
