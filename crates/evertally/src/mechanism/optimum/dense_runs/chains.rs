//! All chains of a unit at once: a smooth maximum of their weights.
//!
//! A chain is a number of steps at least `b` apart, its ends, and for the `j`-th of them `j - 1` steps that are at
//! least `b` before it and `b` apart. Over a symmetric matrix `a` it weighs `Σ a_tt + 2 Σ a_st`, so the heaviest chain
//! bounds `uᵀau` for every pattern `u` of the unit. `Σ exp(weight)` over all chains is found step by step, as the
//! heaviest chain is, and its logarithm's slopes by the same steps backwards: how often an entry is in a chain that is
//! drawn in proportion to `exp(weight)`. `O(T² k)`.

use super::triangle::row;
use crate::mechanism::toeplitz::filter::packed;

/// The chains of a unit.
#[derive(Clone, Copy)]
pub(super) struct AllChains {
    pub(super) steps: usize,
    pub(super) separation: usize,
    /// At most as many ends as fit the horizon.
    pub(super) most: usize,
}

/// Sums over the sets of steps before one end.
struct Sets {
    separation: usize,
    /// `exp(2 a_st)` for every step `s` far enough before the end, over the largest.
    shares: Vec<f64>,
    /// For each number of steps, and then each last step: the sum over sets that end by it.
    sums: Vec<f64>,
    /// The logarithms for each number of steps; never finite if they do not fit.
    logs: Vec<f64>,
}

impl Sets {
    /// Of up to `most` of these steps.
    fn new(entries: &[f64], separation: usize, most: usize) -> Self {
        let (length, most) = (entries.len(), most.min(entries.len().div_ceil(separation)));
        let top = entries.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let shares: Vec<f64> = entries.iter().map(|entry| libm::exp(2.0 * (entry - top))).collect();
        let (mut sums, mut logs) = (vec![1.0; length], vec![0.0]);
        for count in 1..=most {
            let mut sum = 0.0;
            let mut own = vec![0.0; length];
            for s in (count - 1) * separation..length {
                sum += shares[s] * if count == 1 { 1.0 } else { sums[(count - 1) * length + s - separation] };
                own[s] = sum;
            }
            sums.extend(own);
            logs.push(libm::log(sum) + 2.0 * top * count as f64);
        }
        Self { separation, shares, sums, logs }
    }

    fn log(&self, count: usize) -> f64 {
        self.logs.get(count).copied().unwrap_or(f64::NEG_INFINITY)
    }

    /// How often each step is in a set, twice, if sets of each size are drawn with these probabilities.
    fn add_slopes(&self, probability: impl Fn(usize) -> f64, slopes: &mut [f64]) {
        let (length, separation) = (self.shares.len(), self.separation);
        // By each partial sum, for one number of steps after the other.
        let mut by_sums = vec![0.0; length];
        for count in (1..self.logs.len()).rev() {
            let all = self.sums[count * length + length - 1];
            if all > 0.0 {
                by_sums[length - 1] += probability(count) / all;
            }
            let mut by_fewer = vec![0.0; length];
            let mut by_sum = 0.0;
            for s in ((count - 1) * separation..length).rev() {
                by_sum += by_sums[s];
                let before = if count == 1 { 1.0 } else { self.sums[(count - 1) * length + s - separation] };
                slopes[s] += 2.0 * by_sum * before * self.shares[s];
                if count > 1 {
                    by_fewer[s - separation] = by_sum * self.shares[s];
                }
            }
            by_sums = by_fewer;
        }
    }
}

/// `log(eˣ + eʸ)`.
fn log_add(x: f64, y: f64) -> f64 {
    let (low, high) = if x < y { (x, y) } else { (y, x) };
    if low == f64::NEG_INFINITY { high } else { high + libm::log1p(libm::exp(low - high)) }
}

impl AllChains {
    /// The sets before each end. `a` is packed by its lower triangle.
    fn sets(&self, a: &[f64]) -> Vec<Sets> {
        let before = |t: usize| &row(a, t)[..(t + 1).saturating_sub(self.separation)];
        (0..self.steps).map(|t| Sets::new(before(t), self.separation, self.most - 1)).collect()
    }

    /// For each number of ends, and then each step: the logarithm of the sum over chains that end there, and over
    /// those that end by there.
    fn ends(&self, a: &[f64], sets: &[Sets]) -> (Vec<f64>, Vec<f64>) {
        let (steps, separation) = (self.steps, self.separation);
        let mut here = vec![f64::NEG_INFINITY; steps * self.most];
        let mut by = here.clone();
        for number in 0..self.most {
            let mut sum = f64::NEG_INFINITY;
            for t in number * separation..steps {
                let earlier = if number == 0 { 0.0 } else { by[(number - 1) * steps + t - separation] };
                let own = earlier + a[packed(t) + t] + sets[t].log(number);
                sum = log_add(sum, own);
                (here[number * steps + t], by[number * steps + t]) = (own, sum);
            }
        }
        (here, by)
    }

    /// `log Σ exp(weight)` over all chains of any number of ends.
    pub(super) fn log_sum(&self, a: &[f64]) -> f64 {
        let (_, by) = self.ends(a, &self.sets(a));
        self.over_numbers(&by)
    }

    fn over_numbers(&self, by: &[f64]) -> f64 {
        by.chunks_exact(self.steps).map(|by| by[self.steps - 1]).fold(f64::NEG_INFINITY, log_add)
    }

    /// The same with its slopes by the entries of `a`, each of which stands for both of a symmetric pair.
    pub(super) fn with_slopes(&self, a: &[f64]) -> (f64, Vec<f64>) {
        let (steps, sets) = (self.steps, self.sets(a));
        let (here, by) = self.ends(a, &sets);
        let total = self.over_numbers(&by);
        // How often each step is an end with each number of ends before it.
        let mut probabilities = vec![0.0; here.len()];
        let mut passed = vec![0.0; here.len()];
        for number in (0..self.most).rev() {
            let last = number * steps + steps - 1;
            let mut left = libm::exp(by[last] - total);
            for t in (number * self.separation..steps).rev() {
                let place = number * steps + t;
                left += passed[place];
                let ends =
                    if left > 0.0 && by[place].is_finite() { left * libm::exp(here[place] - by[place]) } else { 0.0 };
                left -= ends;
                probabilities[place] = ends;
                if number > 0 {
                    passed[place - steps - self.separation] += ends;
                }
            }
        }
        let mut slopes = vec![0.0; a.len()];
        for (t, sets) in sets.iter().enumerate() {
            let own = &mut slopes[packed(t)..packed(t + 1)];
            own[t] = (0..self.most).map(|number| probabilities[number * steps + t]).sum();
            sets.add_slopes(|number| probabilities[number * steps + t], own);
        }
        (total, slopes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All sets of `count` steps up to `last` that are `separation` apart.
    fn sets(count: usize, last: isize, separation: isize) -> Vec<Vec<usize>> {
        if count == 0 {
            return vec![vec![]];
        }
        let with = |t: isize| {
            sets(count - 1, t - separation, separation).into_iter().map(move |mut set| {
                set.push(t as usize);
                set
            })
        };
        (0..=last).flat_map(with).collect()
    }

    /// Against all chains, one by one, and slopes against differences.
    #[test]
    fn sums_are_those_over_all_chains() {
        for (steps, separation, most) in [(1, 1, 1), (7, 2, 3), (8, 1, 3), (9, 4, 2), (9, 3, 3)] {
            let chains = AllChains { steps, separation, most };
            let a: Vec<f64> = (0..packed(steps)).map(|i| 0.1 * ((5 * i + i * i / 3) % 13) as f64).collect();
            let mut sum = 0.0;
            for number in 1..=most {
                for ends in sets(number, steps as isize - 1, separation as isize) {
                    let factor = |(earlier, t): (usize, &usize)| {
                        let before = sets(earlier, *t as isize - separation as isize, separation as isize);
                        let weight = |set: &Vec<usize>| set.iter().map(|s| 2.0 * a[packed(*t) + s]).sum::<f64>();
                        a[packed(*t) + t].exp() * before.iter().map(|set| weight(set).exp()).sum::<f64>()
                    };
                    sum += ends.iter().enumerate().map(factor).product::<f64>();
                }
            }
            let (value, slopes) = chains.with_slopes(&a);
            assert!((value - sum.ln()).abs() < 1e-12 && (chains.log_sum(&a) - value).abs() < 1e-12, "{value} {sum}");
            for place in 0..a.len() {
                let moved = |by: f64| {
                    let mut a = a.clone();
                    a[place] += by;
                    chains.log_sum(&a)
                };
                let want = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                assert!((slopes[place] - want).abs() < 1e-8, "{steps} {place}: {} {want}", slopes[place]);
            }
        }
    }
}
