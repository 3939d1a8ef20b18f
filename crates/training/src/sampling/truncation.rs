//! Poisson sampling with a maximum batch: what a device of fixed memory needs.
//!
//! A batch above the maximum `m` loses examples at random until `m` are left. Let `N` be the number of examples of a
//! group, `q` the rate of its rounds, and `τ = r P[Binomial(N, q) > m]` for `r` rounds. With the same draws, a run
//! without a maximum differs from the one with it only if one of the batches of the example's group is larger than
//! `m`: with probability at most `τ`, on either of two neighbouring data sets. (Batches of other groups lose the same
//! examples on both, as do those that a run draws for the same group without the example.) For every event
//!
//! ```text
//! P(E) ≤ P'(E) + τ ≤ e^ε Q'(E) + δ'(ε) + τ ≤ e^ε (Q(E) + τ) + δ'(ε) + τ,
//! ```
//!
//! with `P'`, `Q'` and `δ'` those of Poisson sampling: `δ(ε) ≤ δ'(ε) + (1 + e^ε) τ`. (Chua, Ghazi, Kamath, Kumar,
//! Manurangsi, Sinha and Zhang 2024, arXiv 2411.04205, proposition 3.2. Ganesh 2025, arXiv 2508.15089, has a tighter
//! bound; it saves nothing once τ is negligible.) This holds for every mechanism, with examples added or removed.
//!
//! **The tail.** For `k > N q` the probabilities of a binomial variable fall from `k` on at least by the factor
//! `s = (N-k) q/((k+1)(1-q))`, and `C(N, k) ≤ √(N/(2πk(N-k))) (N/k)^k (N/(N-k))^(N-k)` (Stirling), so
//!
//! ```text
//! P[Binomial(N, q) ≥ k] ≤ √(N/(2πk(N-k))) e^(-N KL(k/N ‖ q))/(1-s),   k < N.
//! ```

use evertally::privacy::{Delta, Epsilon};

/// The share of δ that the planned maximum may cost.
const SHARE: f64 = 1e-3;

/// `P[Binomial(count, rate) > most]`, rounded up.
pub(super) fn overflow(count: u64, rate: f64, most: u64) -> f64 {
    let (n, k) = (count as f64, most as f64 + 1.0);
    if most >= count {
        return 0.0;
    }
    let rest = 1.0 - rate;
    if k <= n * rate * (1.0 + 1e-12) || rest <= 0.0 {
        return 1.0;
    }
    if k >= n {
        return libm::exp(n * libm::log(rate) * (1.0 - 1e-14)).min(1.0);
    }
    let (own, other) = (libm::log(k / (n * rate)), libm::log((n - k) / (n * rest)));
    // Arguments of the logarithms are right to 2^-51.
    let exponent = -(k * own + (n - k) * other) + 1e-15 * (n + k * own.abs() + (n - k) * other.abs());
    let fall = (n - k) * rate / ((k + 1.0) * rest);
    let root = (n / (2.0 * std::f64::consts::PI * k * (n - k))).sqrt();
    (root * libm::exp(exponent) / (1.0 - fall) * (1.0 + 1e-12)).min(1.0)
}

/// The rounds of a group of examples.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupRounds {
    /// The examples of the largest group.
    pub(super) examples: u64,
    pub(super) rate: f64,
    pub(super) rounds: u64,
}

impl GroupRounds {
    /// `τ` for a maximum batch, rounded up.
    pub(super) fn overflow(&self, most: u64) -> f64 {
        (self.rounds as f64 * overflow(self.examples, self.rate, most) * (1.0 + 1e-15)).min(1.0)
    }

    /// The smallest maximum batch that costs a negligible share of δ.
    pub(super) fn max_batch(&self, epsilon: Epsilon, delta: Delta) -> u64 {
        let is_enough = |most: u64| cost(self.overflow(most), epsilon.get()) <= SHARE * delta.get();
        let (mut low, mut high) = (0, self.examples);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if is_enough(middle) { high = middle } else { low = middle }
        }
        high
    }
}

/// `(1 + e^ε) τ`, rounded up.
pub(super) fn cost(overflow: f64, epsilon: f64) -> f64 {
    // No batch is too large: also where e^ε overflows.
    if overflow == 0.0 { 0.0 } else { overflow * (1.0 + libm::exp(epsilon)) * (1.0 + 1e-14) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums of the probabilities, one after another.
    #[test]
    fn the_tail_is_that_of_the_binomial_law() {
        for (count, rate) in [(40u64, 0.1), (300, 0.02), (1000, 0.5), (7, 0.9)] {
            let mut mass = f64::exp(count as f64 * f64::ln_1p(-rate));
            let mut masses = vec![mass];
            for k in 0..count {
                mass *= (count - k) as f64 / (k + 1) as f64 * rate / (1.0 - rate);
                masses.push(mass);
            }
            for most in 0..=count {
                let truth: f64 = masses[most as usize + 1..].iter().rev().sum();
                let found = overflow(count, rate, most);
                assert!(found >= truth * (1.0 - 1e-9), "{count} {rate} {most}: {found:e} {truth:e}");
                if (most as f64) > count as f64 * rate + 3.0 * (count as f64 * rate).sqrt() {
                    assert!(found <= truth * 1.4, "{count} {rate} {most}: {found:e} {truth:e}");
                }
            }
        }
    }

    #[test]
    fn the_planned_maximum_is_the_smallest() {
        let rounds = GroupRounds { examples: 60_000, rate: 256.0 / 60_000.0, rounds: 4000 };
        let (epsilon, delta) = (Epsilon::new(2.0).unwrap(), Delta::new(1e-5).unwrap());
        let most = rounds.max_batch(epsilon, delta);
        let at = |most: u64| cost(rounds.overflow(most), 2.0) / 1e-5;
        assert!(at(most) <= SHARE && at(most - 1) > SHARE, "{most}");
        assert!((360..400).contains(&most), "{most}");
        // As many as there are examples are never too many.
        assert_eq!(GroupRounds { examples: 20, rate: 0.9, rounds: 10 }.max_batch(epsilon, delta), 20);
    }
}
