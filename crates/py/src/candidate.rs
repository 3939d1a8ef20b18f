//! One row of the ranking of a plan.

use crate::html;
use evertally::plan::NoiseKind;
use evertally::plan::ranking::RankingRow;
use pyo3::prelude::*;

/// A mechanism that satisfies a plan's budget and horizon, and its exact error.
///
/// >>> import evertally as et
/// >>> best = et.plan(365, rho=0.5).ranking[0]
/// >>> best.noise, best.relative_error
/// ('gaussian', 1.0)
/// >>> 1.0 <= best.above_bound < 1.1
/// True
#[pyclass(frozen, get_all, name = "Candidate", module = "evertally")]
#[derive(Clone)]
pub(crate) struct PyCandidate {
    /// Short name of the mechanism.
    mechanism: String,
    /// Full name, as accepted by :func:`plan`.
    name: String,
    /// ``"laplace"`` or ``"gaussian"``.
    noise: &'static str,
    /// Largest standard error of a step, in units of the data.
    max_std_error: f64,
    /// Root of the mean variance over the steps, in units of the data.
    mean_std_error: f64,
    /// The error that the plan minimises, divided by that of the best candidate.
    relative_error: f64,
    /// ``max_std_error`` divided by the proven lower bound for Gaussian noise; ``None`` for Laplace noise.
    above_bound: Option<f64>,
    /// Whether noise can be drawn lazily, only for the sums that are read (:class:`LazyVector`).
    lazy: bool,
    /// Approximate number of noise variables or multiplications per step.
    work_per_step: f64,
    /// Memory of one running sum, in words.
    memory_words: u64,
}

#[pymethods]
impl PyCandidate {
    fn __repr__(&self) -> String {
        format!(
            "Candidate({:?}, noise={:?}, max_std_error={:.4}, relative_error={:.4})",
            self.mechanism, self.noise, self.max_std_error, self.relative_error
        )
    }
}

/// The column headings.
pub(crate) const HEADS: [&str; 6] = ["mechanism", "noise", "max error", "mean error", "× best", "× bound"];

impl PyCandidate {
    /// Made from a row of the ranking, its error, the error of the best row, and the bound.
    pub(crate) fn new(row: &RankingRow, error: f64, best: f64, bound: Option<f64>) -> Self {
        Self {
            mechanism: row.mechanism.brief().to_string(),
            name: row.mechanism.to_string(),
            noise: noise_word(row.noise.law),
            max_std_error: row.max_std,
            mean_std_error: row.mean_std,
            relative_error: error / best,
            above_bound: bound.filter(|_| row.noise.law == NoiseKind::Gaussian).map(|bound| row.max_std / bound),
            lazy: row.lazy,
            work_per_step: row.time_per_step,
            memory_words: row.memory_words,
        }
    }

    /// The table row, marked as chosen if it has this full name and noise.
    pub(crate) fn row(&self, name: &str, noise: &str) -> html::HtmlRow {
        let cells = [
            self.mechanism.clone(),
            self.noise.to_owned(),
            format!("{:.4}", self.max_std_error),
            format!("{:.4}", self.mean_std_error),
            format!("{:.3}", self.relative_error),
            self.above_bound.map_or(String::new(), |ratio| format!("{ratio:.3}")),
        ];
        html::HtmlRow { cells, chosen: (self.name.as_str(), self.noise) == (name, noise) }
    }
}

/// The name of a noise law, as functions accept it.
pub(crate) fn noise_word(kind: NoiseKind) -> &'static str {
    match kind {
        NoiseKind::Laplace => "laplace",
        NoiseKind::Gaussian => "gaussian",
    }
}
