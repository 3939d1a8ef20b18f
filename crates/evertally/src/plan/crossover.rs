//! The δ at which Laplace and Gaussian noise are equally good.

use super::choose::recalibrated;
use super::{Candidate, NoiseKind, Objective, PlanRequest};
use crate::mechanism::SearchWatch;
use crate::privacy::{Budget, Delta, crossover_delta};

/// The smallest δ considered.
const MIN_DELTA: f64 = 1e-290;
/// The largest.
const MAX_DELTA: f64 = 0.1;

impl PlanRequest {
    /// Under (ε, δ): the δ at which the best Laplace and the best Gaussian candidate have the same error, by tight
    /// accounting of both. Below it Laplace noise is better, above it Gaussian. `None` under another budget, if one law
    /// is missing from the candidates, or if one is better at every δ from 10⁻²⁹⁰ to 0.1.
    ///
    /// ```
    /// use evertally::privacy::{Budget, Delta, Epsilon};
    /// use evertally::plan::{NoiseKind, PlanRequest};
    /// let budget = Budget::Approximate(Epsilon::new(1.0)?, Delta::new(1e-6)?);
    /// let request = PlanRequest::count(64, budget);
    /// let candidates = request.candidates()?;
    /// let crossover = request.crossover(&candidates).expect("both laws serve");
    /// assert_eq!(crossover.get() < 1e-6, candidates[0].kind == NoiseKind::Gaussian);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn crossover(&self, candidates: &[Candidate]) -> Option<Delta> {
        self.crossover_watched(candidates, SearchWatch::NONE)
    }

    /// The same in a search that a watch may cancel; then the result means nothing.
    pub(super) fn crossover_watched(&self, candidates: &[Candidate], watch: SearchWatch<'_>) -> Option<Delta> {
        let Budget::Approximate(epsilon, _) = self.budget else { return None };
        let best = |kind| candidates.iter().find(|candidate| candidate.kind == kind);
        let (laplace, gaussian) = (best(NoiseKind::Laplace)?, best(NoiseKind::Gaussian)?);
        let error = |candidate: &Candidate, delta: Delta| {
            let request = self.clone().with_budget(Budget::Approximate(epsilon, delta));
            recalibrated(&request, candidate, watch).map_or(f64::INFINITY, |found| match self.objective {
                Objective::Max => found.max_std_error,
                Objective::Mean => found.mean_std_error,
            })
        };
        let ends = [MIN_DELTA, MAX_DELTA].map(|delta| Delta::new(delta).expect("between 0 and 1"));
        crossover_delta(ends[0], ends[1], |delta| error(laplace, delta), |delta| error(gaussian, delta))
    }
}
