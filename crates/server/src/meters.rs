//! Durations and counts of the running service, for its operator.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The upper bounds of the buckets, in seconds.
pub(crate) const BOUNDS: [f64; 14] =
    [0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// A histogram of durations.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    /// The number of durations of each bucket, not counting those of smaller ones; the last has no bound.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    micros: AtomicU64,
}

impl Histogram {
    pub(crate) fn add(&self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let place = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        self.buckets[place].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(duration.as_micros().try_into().unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// The number of durations within each bound, and last the number of all; and their sum in seconds.
    pub(crate) fn totals(&self) -> (Vec<u64>, f64) {
        let mut total = 0;
        let totals = self.buckets.iter().map(|bucket| {
            total += bucket.load(Ordering::Relaxed);
            total
        });
        (totals.collect(), self.micros.load(Ordering::Relaxed) as f64 / 1e6)
    }
}

/// The requests of one method to one route.
#[derive(Debug, Default)]
pub(crate) struct RouteMeter {
    /// Until the first byte of the answer.
    pub(crate) durations: Histogram,
    /// By status.
    pub(crate) statuses: BTreeMap<u16, u64>,
    /// Refused requests, by kind of problem.
    pub(crate) problems: BTreeMap<String, u64>,
}

/// The requests of all routes. Its keys are routes and methods of the service, not what clients send.
#[derive(Debug, Default)]
pub(crate) struct RequestMeters(Mutex<BTreeMap<(&'static str, String), RouteMeter>>);

/// A method by name; `other` if the service has none of it.
fn method_word(method: &str) -> &'static str {
    ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"].into_iter().find(|known| *known == method).unwrap_or("other")
}

impl RequestMeters {
    /// Counts a request. `route` is the pattern of its path.
    pub(crate) fn add(&self, method: &str, route: &str, status: u16, problem: Option<&str>, duration: Duration) {
        let mut all = self.all();
        let meter = all.entry((method_word(method), route.to_owned())).or_default();
        meter.durations.add(duration);
        *meter.statuses.entry(status).or_default() += 1;
        if let Some(problem) = problem {
            *meter.problems.entry(problem.to_owned()).or_default() += 1;
        }
    }

    /// Visits all routes, each with its method.
    pub(crate) fn visit(&self, mut visit: impl FnMut(&str, &str, &RouteMeter)) {
        self.all().iter().for_each(|((method, route), meter)| visit(method, route, meter));
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<(&'static str, String), RouteMeter>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_within_their_bounds() {
        let histogram = Histogram::default();
        for millis in [0, 1, 2, 40, 11_000] {
            histogram.add(Duration::from_millis(millis));
        }
        let (totals, sum) = histogram.totals();
        let within = |bound: f64| totals[BOUNDS.iter().position(|own| *own == bound).unwrap()];
        assert_eq!([0.000_5, 0.001, 0.002_5, 0.025, 0.05, 10.0].map(within), [1, 2, 3, 3, 4, 4]);
        assert_eq!((totals.last(), sum), (Some(&5), 11.043));
    }

    #[test]
    fn clients_do_not_choose_the_keys() {
        let meters = RequestMeters::default();
        for method in ["GET", "BREW", "get"] {
            meters.add(method, "/x", 200, None, Duration::ZERO);
        }
        let mut seen = Vec::new();
        meters.visit(|method, route, meter| seen.push((method.to_owned(), route.to_owned(), meter.statuses[&200])));
        assert_eq!(seen, [("GET".to_owned(), "/x".to_owned(), 1), ("other".to_owned(), "/x".to_owned(), 2)]);
    }
}
