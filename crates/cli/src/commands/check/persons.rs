//! The number of rows of each person, and what bounds on them would drop.

use serde::Serialize;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// Persons are counted up to this number, in about 50 MB.
const MOST_PERSONS: usize = 1_000_000;

/// The bounds whose effect is shown.
const BOUNDS: [u64; 9] = [1, 2, 5, 10, 20, 50, 100, 200, 500];

/// The rows of each person, or of each person in each period.
#[derive(Default)]
pub(super) struct PersonCounts {
    /// By a hash of the name and the period.
    rows: HashMap<u64, u64>,
    hasher: RandomState,
    is_full: bool,
}

/// How many rows persons have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct RowsPerPerson {
    /// The persons; or each person once for each period with a row.
    pub(super) count: u64,
    pub(super) median: u64,
    pub(super) quantile_90: u64,
    pub(super) quantile_99: u64,
    pub(super) max: u64,
    pub(super) bounds: Vec<BoundEffect>,
}

/// The share of the rows that a bound would drop.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct BoundEffect {
    pub(super) max_events: u64,
    pub(super) dropped_share: f64,
}

impl PersonCounts {
    /// Counts a row of a person in a period.
    pub(super) fn add(&mut self, name: &str, period: u64) {
        if self.is_full {
            return;
        }
        *self.rows.entry(self.hasher.hash_one((name, period))).or_default() += 1;
        if self.rows.len() > MOST_PERSONS {
            (self.is_full, self.rows) = (true, HashMap::new());
        }
    }

    /// The most that is counted, if there was more.
    pub(super) fn exceeded(&self) -> Option<usize> {
        self.is_full.then_some(MOST_PERSONS)
    }

    /// The result, with the effect of usual bounds and of a declared one; `None` without rows, or if there were too
    /// many persons.
    pub(super) fn rows(&self, declared: Option<u64>) -> Option<RowsPerPerson> {
        let mut counts: Vec<u64> = self.rows.values().copied().collect();
        counts.sort_unstable();
        let (&max, total) = (counts.last()?, counts.iter().sum::<u64>());
        let quantile = |share: f64| counts[((counts.len() as f64 * share).ceil() as usize).clamp(1, counts.len()) - 1];
        let mut bounds: Vec<u64> =
            BOUNDS.into_iter().filter(|bound| *bound < max).chain([max]).chain(declared).collect();
        bounds.sort_unstable();
        bounds.dedup();
        let effect = |max_events: u64| {
            let dropped: u64 = counts.iter().map(|count| count.saturating_sub(max_events)).sum();
            BoundEffect { max_events, dropped_share: dropped as f64 / total as f64 }
        };
        Some(RowsPerPerson {
            count: counts.len() as u64,
            median: quantile(0.5),
            quantile_90: quantile(0.9),
            quantile_99: quantile(0.99),
            max,
            bounds: bounds.into_iter().map(effect).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_bounds() {
        let mut counts = PersonCounts::default();
        assert_eq!(counts.rows(None), None);
        (0..9).for_each(|person| counts.add(&format!("p{person}"), 0));
        (0..11).for_each(|_| counts.add("robot", 0));
        let rows = counts.rows(Some(3)).unwrap();
        assert_eq!((rows.count, rows.median, rows.quantile_90, rows.quantile_99, rows.max), (10, 1, 1, 11, 11));
        let shares: Vec<(u64, f64)> =
            rows.bounds.iter().map(|effect| (effect.max_events, effect.dropped_share)).collect();
        assert_eq!(shares, [(1, 0.5), (2, 0.45), (3, 0.4), (5, 0.3), (10, 0.05), (11, 0.0)]);
        counts.add("robot", 1);
        assert_eq!(counts.rows(None).unwrap().count, 11);
    }

    #[test]
    fn too_many_persons_are_not_counted() {
        let mut counts = PersonCounts::default();
        (0..=MOST_PERSONS as u64).for_each(|person| counts.add("", person));
        assert!(counts.rows(None).is_none() && counts.exceeded() == Some(MOST_PERSONS) && counts.rows.is_empty());
    }
}
