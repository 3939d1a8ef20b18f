//! Repeatability: a path determines the noise, other paths give other noise, and a saved state continues where it
//! stopped.

use crate::black_box::{AuditStream, BlackBox};
use crate::promise::Promise;
use evertally::Result;

/// Paths that are drawn again.
const PATHS: u64 = 16;

/// The result of the repetitions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repeats {
    /// Every path gave the same releases twice.
    pub(crate) same_again: bool,
    /// The probability that two of the equal paths would be equal with independent noise; 1 if all differ.
    pub(crate) chance_of_equals: f64,
    /// Whether every saved and restored stream continued equally; `None` if the box has no states.
    pub(crate) restored: Option<bool>,
}

/// Draws a few paths twice, compares them with one another, and interrupts them in the first, a middle and the last
/// step.
pub(crate) fn repeats(subject: &mut dyn BlackBox, promise: &Promise, stream: &AuditStream) -> Result<Repeats> {
    let mut drawn: Vec<Vec<f64>> = Vec::new();
    let mut same_again = true;
    let mut restored = None;
    let (steps, releases_each) = (promise.steps.len(), promise.releases());
    for path in 0..PATHS {
        let releases = subject.releases(stream, path)?;
        same_again &= releases == subject.releases(stream, path)?;
        for after in [1, steps / 2, steps - 1] {
            if let Some(continued) = subject.interrupted(stream, path, after) {
                restored = Some(restored.unwrap_or(true) && continued? == releases);
            }
        }
        drawn.push(releases);
    }
    let pairs = (0..drawn.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
    let count = pairs.clone().count() as f64;
    let equal = pairs.into_iter().any(|(i, j)| drawn[i] == drawn[j]);
    // L has rank T: given all but T independent nodes, equal releases fix each of these nodes, whose most probable
    // value is 0.
    let of_one_node = promise.law.cells(&[0, 1])[1];
    let of_equals = (count * libm::pow(of_one_node, releases_each as f64)).min(1.0);
    Ok(Repeats { same_again, chance_of_equals: if equal { of_equals } else { 1.0 }, restored })
}
