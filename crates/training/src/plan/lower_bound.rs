//! A lower bound on the noise of every factorization, if units take part in several steps.
//!
//! Let `A = L R`, `s²` the squared sensitivity for a norm of 1, and `V = ‖L‖_F²/T` the mean of `‖L_t‖²`, so that noise
//! of standard deviation `s` has the mean variance `s² V`.
//!
//! * **Spread.** Steps that are `c = max(b, ⌈T/k⌉)` apart are at most `k`, so all steps of one remainder modulo `c` are
//!   a pattern. With random signs for its vectors, `‖R Δ‖²` is `Σ ‖R_t‖²` over it on average, so `s²` is at least that.
//!   The mean over the remainders is `‖R‖_F²/c`, and as `‖L‖_F ‖R‖_F ≥ ‖A‖_* = γ T`, `s² V ≥ γ² T/c`. For `k = 1` this
//!   is the bound of single steps.
//! * **Patterns.** Over at most 1024 steps [`vector_lower_bound`] has the best of many patterns and signs.
//! * **Together.** For the pattern `u = 1, 1+b, …` and equal vectors, `s ≥ ‖R u‖` and `‖L‖_F ‖R u‖ ≥ ‖A u‖`:
//!   `s² V ≥ ‖A u‖²/T`, where `‖A u‖²` is the squared sensitivity of output noise.

use evertally::mechanism::{Objective, Participation};
use evertally::plan::{gaussian_lower_bound, vector_lower_bound};

/// The largest of the bounds of `√(s² V)`, rounded down; with `V` the largest `‖L_t‖²` if that is the objective.
/// `O(min(T, 2^20))`, or up to a second for several steps of up to 1024.
pub(super) fn error(horizon: u64, participation: Participation, objective: Objective) -> f64 {
    let steps = horizon as f64;
    let separation = participation.separation().max(horizon.div_ceil(participation.most())).min(horizon);
    let spread = gaussian_lower_bound(horizon) * (steps / separation as f64).sqrt();
    let together = (participation.of_running_sums(horizon) / steps).sqrt();
    let returns = participation.within(horizon) > 1;
    let patterns = returns.then(|| vector_lower_bound(horizon, participation, objective)).flatten();
    (spread.max(together) * (1.0 - 1e-12)).max(patterns.unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use evertally::mechanism::{Criterion, MechanismName, NoiseKind};

    /// No mechanism beats the bounds, and for each of them some mechanism comes close.
    #[test]
    fn nothing_beats_them() {
        let mut nearest = [f64::INFINITY; 3];
        for horizon in [1u64, 2, 7, 30, 100, 700] {
            for (most, separation) in [(1, 1), (2, 1), (3, 7), (10, 10), (4, 25), (700, 1), (100, 7)] {
                let participation = Participation::new(most, separation).unwrap();
                let bound = error(horizon, participation, Objective::Mean);
                for name in MechanismName::FAMILIES {
                    let Ok(mechanism) = name.build(horizon, &Criterion::new(NoiseKind::Gaussian, Objective::Mean))
                    else {
                        continue;
                    };
                    let squared = mechanism.participation_squared(participation) * mechanism.mean_row_norm_squared();
                    let ratio = squared.sqrt() / bound;
                    assert!(ratio >= 1.0 - 1e-9, "{name} at {horizon}, {most} steps {separation} apart: {ratio}");
                    let kind = if most == 1 { 0 } else { 1 + usize::from(separation == 1) };
                    nearest[kind] = nearest[kind].min(if horizon == 700 { ratio } else { f64::INFINITY });
                }
            }
        }
        assert!(nearest[0] < 1.1 && nearest[1] < 1.6 && nearest[2] < 1.5, "{nearest:?}");
    }
}
