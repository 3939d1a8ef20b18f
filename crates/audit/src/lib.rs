//! An empirical check of a mechanism as a black box: it draws releases, and compares them with the mechanism's promise.
//!
//! ```text
//!                 ┌ two neighbouring streams ┐
//!  Promise ◀──────┤   with no other events   ├──▶ BlackBox ──▶ releases ──▶ checks ──▶ AuditReport
//!  (L, law,       │   with many others       │                (N of each stream,
//!   guarantee)    └──────────────────────────┘                 independent noise)
//! ```
//!
//! * **privacy** (`privacy.rs`): lower confidence bounds on ε and on μ, from how well the two streams can be
//!   distinguished;
//! * **law** (`statistic.rs`, `nodes.rs`): linear statistics of releases, and recovered node variables, against their
//!   exact laws;
//! * **covariance** (`covariance.rs`): means, and covariances against `Var(z) · L Lᵀ`;
//! * **repeatability** (`repeat.rs`).
//!
//! **Significance.** A mechanism that keeps its promise is refuted with probability at most `1 - confidence`, divided
//! evenly over the statistical checks; inside a check the level is divided by its number of comparisons. Bounds and law
//! checks use exact binomial tails. Checks that rest on the central limit theorem (covariance, χ²) get a tenth of their
//! share, and are omitted if that margin would not suffice.
//!
//! **Limits.** An audit can refute, never prove. It tries one pair of neighbours (the worst according to the theory,
//! which is itself in doubt), in two surroundings, without adapting the stream to the releases; and it detects no
//! violation that is rarer than about one in the number of paths.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod black_box;
mod covariance;
mod dither;
mod law;
mod linear;
mod nodes;
mod observations;
mod pair;
mod privacy;
mod promise;
mod repeat;
mod report;
mod statistic;
mod tails;

pub use black_box::{AuditStream, BlackBox, PlanBox};
pub use pair::{Change, Pair, event_steps, worst_change};
pub use promise::{MAX_RELEASES, PrivacyLimit, Promise, audited_steps};
pub use report::{AuditReport, Check, Finding};

use evertally::{Error, Result};
use observations::{APPROXIMATE, Observations};

/// The size of an audit, and its confidence.
#[derive(Clone, Copy, Debug)]
pub struct AuditSettings {
    /// Releases of every stream.
    pub paths: u64,
    /// One minus the chance of refuting a mechanism that keeps its promise, between 0 and 1.
    pub confidence: f64,
}

impl Default for AuditSettings {
    fn default() -> Self {
        Self { paths: 20_000, confidence: 0.999_999 }
    }
}

/// Draws `paths` releases of each stream of each pair and checks them. `progress` is called for each release.
///
/// `O(paths · (T · nodes))` at worst, `O(paths · T)` for square sparse factorizations and up to 64 steps.
///
/// # Errors
/// If the settings are out of range, two streams do not differ, a stream has other steps than the promise, or the box
/// refuses a stream.
pub fn audit(
    subject: &mut dyn BlackBox,
    promise: &Promise,
    pairs: &[Pair],
    settings: AuditSettings,
    progress: &mut dyn FnMut(),
) -> Result<AuditReport> {
    if !(settings.confidence > 0.0 && settings.confidence < 1.0) || settings.paths == 0 {
        return Err(Error::invalid("an audit needs at least one path and a confidence strictly between 0 and 1"));
    }
    let mut seen = Observations::new(promise, pairs)?;
    seen.draw(subject, promise, pairs, settings.paths, progress)?;
    let repeats = match pairs.last() {
        Some(pair) => repeat::repeats(subject, promise, &pair.first)?,
        None => return Err(Error::invalid("an audit needs a pair of neighbouring streams")),
    };

    let level = (1.0 - settings.confidence) / seen.statistical_checks(promise) as f64;
    let mut checks = seen.privacy_checks(promise, pairs, level);
    checks.extend(seen.law_checks(promise, level));
    checks.extend(seen.covariance_checks(promise, level / APPROXIMATE));
    checks.push(Check::exact("same-key", "the same key gives the same releases".into(), repeats.same_again));
    checks.push(Check::p_value(
        "other-key",
        "different keys give different noise".into(),
        repeats.chance_of_equals,
        level,
    ));
    checks.extend(
        repeats
            .restored
            .map(|same| Check::exact("restored", "a saved and restored stream continues equally".into(), same)),
    );
    Ok(AuditReport::new(settings.paths * 2 * pairs.len() as u64, settings.confidence, level, checks))
}

#[cfg(test)]
mod tests;
