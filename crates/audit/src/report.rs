//! The findings of an audit.

use serde::Serialize;

/// The findings of an audit. They never prove that a mechanism is right: a check that did not refute has found nothing.
#[derive(Clone, Debug, Serialize)]
pub struct AuditReport {
    /// The total number of releases drawn.
    pub paths: u64,
    /// A mechanism that keeps its promise is refuted with probability at most one minus this.
    pub confidence: f64,
    /// The significance level of each statistical check: an equal share for every one.
    pub level: f64,
    /// The checks, in the order of the table.
    pub checks: Vec<Check>,
    /// Whether any check failed.
    pub refuted: bool,
    /// Whether more is revealed than promised: a bound on privacy failed, not only the law of the noise.
    pub privacy_refuted: bool,
}

/// One check.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// A short stable name.
    pub test: &'static str,
    /// The compared quantities.
    pub about: String,
    /// The result.
    #[serde(flatten)]
    pub finding: Finding,
    /// Whether the promise is refuted by it.
    pub refuted: bool,
}

/// The result of a check.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Finding {
    /// A lower confidence bound, and the promise it must not exceed.
    LowerBound {
        /// The quantity: `epsilon` or `mu`.
        quantity: &'static str,
        /// The bound.
        bound: f64,
        /// The promised limit.
        promise: f64,
    },
    /// A p-value, and the level below which it refutes.
    PValue {
        /// Multiplied by the number of comparisons.
        p: f64,
        /// The level.
        level: f64,
    },
    /// A statement that needs no statistics.
    Exact {
        /// Whether it holds.
        holds: bool,
    },
    /// Not tested.
    NotTested {
        /// Why.
        reason: String,
    },
}

impl Check {
    /// A bound that refutes if it exceeds the promise.
    pub(crate) fn bound(test: &'static str, about: String, quantity: &'static str, bound: f64, promise: f64) -> Self {
        Self { test, about, finding: Finding::LowerBound { quantity, bound, promise }, refuted: bound > promise }
    }

    pub(crate) fn p_value(test: &'static str, about: String, p: f64, level: f64) -> Self {
        Self { test, about, finding: Finding::PValue { p, level }, refuted: p < level }
    }

    pub(crate) fn exact(test: &'static str, about: String, holds: bool) -> Self {
        Self { test, about, finding: Finding::Exact { holds }, refuted: !holds }
    }

    pub(crate) fn skipped(test: &'static str, about: String, reason: String) -> Self {
        Self { test, about, finding: Finding::NotTested { reason }, refuted: false }
    }
}

impl AuditReport {
    pub(crate) fn new(paths: u64, confidence: f64, level: f64, checks: Vec<Check>) -> Self {
        let refuted = checks.iter().any(|check| check.refuted);
        let of_privacy = |check: &Check| matches!(check.finding, Finding::LowerBound { .. }) || check.test == "budget";
        let privacy_refuted = checks.iter().any(|check| check.refuted && of_privacy(check));
        Self { paths, confidence, level, checks, refuted, privacy_refuted }
    }

    /// The largest lower bound on a quantity, `epsilon` or `mu`; `None` if it was not bounded.
    pub fn bound(&self, of: &str) -> Option<f64> {
        let bounds = self.checks.iter().filter_map(|check| match check.finding {
            Finding::LowerBound { quantity, bound, .. } if quantity == of => Some(bound),
            _ => None,
        });
        bounds.reduce(f64::max)
    }
}
