//! The picture of an audit of a training run.

use evertally_plot::Evidence;
use pyo3::prelude::*;

/// The evidence against a plan after each step, given by its natural logarithm, and the level of an alarm.
#[pyfunction]
#[pyo3(name = "_evidence_svg")]
pub(crate) fn evidence_svg(
    title: String,
    evidence: Vec<f64>,
    watched: u64,
    significance: f64,
    is_refuted: bool,
) -> String {
    Evidence { title, logarithms: evidence, watched, significance, is_refuted }.svg()
}
