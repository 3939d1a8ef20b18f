//! Random allocation with independent noise to more bins than a table has room for: the law of the likelihood ratio
//! needs only their norms, see the header of `disjoint.rs`.

use super::disjoint::{self, Coarseness, DisjointBins};
use super::{MAX_ROUNDS, ROUNDING};
use evertally::privacy::{Delta, Epsilon, conversions};
use evertally::{Error, Result};

/// Maximum number of bins: rounding errors grow with it.
const MAX_DISJOINT_BINS: u64 = 1 << 20;

/// Examples that are allocated to bins whose vectors share no row, in one or several rounds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DisjointAllocation {
    bins: DisjointBins,
    /// The distance that the releases move for an observer who knows the bins, for noise of standard deviation 1.
    moved_if_known: f64,
}

impl DisjointAllocation {
    /// Numbers of bins with the squared norm of each of their vectors, the largest norm first, in this many rounds.
    ///
    /// # Errors
    /// If there are too many bins or rounds.
    pub(crate) fn new(kinds: &[(f64, u64)], rounds: u64) -> Result<Self> {
        let count: u64 = kinds.iter().map(|(_, count)| count).sum();
        if !(1..=MAX_DISJOINT_BINS).contains(&count) || !(1..=MAX_ROUNDS).contains(&rounds) {
            return Err(Error::invalid(format!(
                "random allocation with independent noise is accounted for with 1 to {MAX_DISJOINT_BINS} steps per \
                 epoch and 1 to {MAX_ROUNDS} epochs, got {count} and {rounds}"
            )));
        }
        let kinds: Vec<(f64, u64)> = kinds.iter().map(|(square, count)| (square * (1.0 + ROUNDING), *count)).collect();
        let moved_if_known = (rounds as f64 * kinds[0].0).sqrt();
        Ok(Self { bins: DisjointBins::of_kinds(&kinds, rounds), moved_if_known })
    }

    /// The noise that (ε, δ) needs, rounded up.
    ///
    /// # Errors
    /// If it is out of range.
    pub(crate) fn noise_for(&self, epsilon: Epsilon, delta: Delta, coarseness: Coarseness) -> Result<f64> {
        let enough = self.moved_if_known / conversions::mu_for(epsilon, delta) * (1.0 + ROUNDING);
        if !(1e-6..=1e6).contains(&enough) {
            return Err(Error::invalid("no noise multiplier in range meets this epsilon and delta"));
        }
        Ok(disjoint::noise(&self.bins, (epsilon.get(), delta.get()), enough, coarseness))
    }

    /// An ε with which this δ holds under this noise, rounded up.
    pub(crate) fn epsilon(&self, noise: f64, delta: Delta) -> f64 {
        let enough = conversions::epsilon_of_gaussian(self.moved_if_known / noise, delta);
        if !(1e-9..=1e4).contains(&enough) {
            return enough;
        }
        disjoint::epsilon(&self.bins, noise, delta.get(), enough).unwrap_or(enough)
    }
}

#[cfg(test)]
mod tests {
    use super::super::RandomAllocation;
    use super::*;

    /// The same bounds as from a table, and less noise with more bins.
    #[test]
    fn bins_without_a_table_have_the_same_noise() {
        let (epsilon, delta) = (Epsilon::new(1.0).unwrap(), Delta::new(1e-6).unwrap());
        let noise = |kinds: &[(f64, u64)], rounds| {
            DisjointAllocation::new(kinds, rounds).unwrap().noise_for(epsilon, delta, Coarseness::FINE).unwrap()
        };
        let gram = |at: usize| if at.is_multiple_of(31) { if at < 10 * 30 { 2.0 } else { 1.0 } } else { 0.0 };
        for rounds in [1, 3] {
            let table = RandomAllocation::new(30, (0..900).map(gram).collect()).unwrap().in_rounds(rounds).unwrap();
            let own = noise(&[(2.0, 10), (1.0, 20)], rounds);
            assert_eq!(table.certified_noise_for(epsilon, delta).unwrap(), own);
            let allocation = DisjointAllocation::new(&[(2.0, 10), (1.0, 20)], rounds).unwrap();
            assert_eq!(allocation.epsilon(own, delta), table.epsilon(own, delta).unwrap());
            assert!((allocation.epsilon(own, delta) - 1.0).abs() < 1e-3);
        }
        let (few, many) = (noise(&[(1.0, 2048)], 1), noise(&[(1.0, 50_000)], 1));
        assert!(many < few, "{few} {many}");
        assert!(DisjointAllocation::new(&[(1.0, MAX_DISJOINT_BINS + 1)], 1).is_err());
    }
}
