//! Checks every hidden key against the threshold after a step.

use super::keys::Keys;
use crate::mechanism::{Cursor, Workload};
use crate::noise::GroupNoise;
use crate::plan::Plan;
use crate::stream::series::SumSeries;
use std::ops::Range;

/// Keys from which a thread is worth its start.
const MIN_KEYS_PER_THREAD: usize = 1 << 14;

/// The data that several threads share for the selection.
#[derive(Clone, Copy)]
pub(super) struct KeySelection<'s> {
    pub(super) plan: &'s Plan,
    pub(super) noise: &'s GroupNoise,
    pub(super) keys: &'s Keys,
    pub(super) step: u64,
    pub(super) threshold: i64,
}

impl KeySelection<'_> {
    /// The hidden keys that reach the threshold, in no order. Checks every key, with as many threads as help.
    pub(super) fn found(self) -> Vec<u32> {
        let count = self.keys.len();
        let threads =
            std::thread::available_parallelism().map_or(1, usize::from).min(count / MIN_KEYS_PER_THREAD).max(1);
        let part = count.div_ceil(threads);
        let places = |number: usize| (number * part).min(count) as u32; // fits: at most the number of keys
        let work = |number: usize| self.among(places(number)..places(number + 1));
        std::thread::scope(|scope| {
            let spawned = |number| std::thread::Builder::new().spawn_scoped(scope, move || work(number));
            let others: Vec<_> = (1..threads).map(|number| (number, spawned(number))).collect();
            let mut found = work(0);
            for (number, other) in others {
                // If the system grants no thread, this one does the work.
                found.extend(match other {
                    Ok(thread) => thread.join().expect("a look does not panic"),
                    Err(_) => work(number),
                });
            }
            found
        })
    }

    /// The running sum of a hidden key through the step.
    pub(super) fn replayed(&self, key: u32) -> SumSeries {
        let mut series = SumSeries::of_noise(self.plan, self.noise.of(self.keys.name(key)));
        for (step, sum) in self.keys.get(key).past().events() {
            series.catch_up(self.plan, step - 1);
            series.add(sum).expect("it was added before");
        }
        series.catch_up(self.plan, self.step);
        series
    }

    fn among(&self, places: Range<u32>) -> Vec<u32> {
        let plan = self.plan;
        let threshold = i128::from(self.threshold) << plan.fraction_bits(); // fits: below 2^60
        let mut cursor = plan.mechanism().cursor();
        let has_random_access = plan.mechanism().has_random_access();
        let is_found = |place: &u32| {
            let release = match self.keys.get(*place).shown() {
                Some(_) => return false,
                None if has_random_access => self.at_once(&mut *cursor, *place),
                None => self.replayed(*place).release(plan).exact(),
            };
            release >= threshold
        };
        places.filter(is_found).collect()
    }

    /// The release of a hidden key, from the nodes of the step alone.
    fn at_once(&self, cursor: &mut dyn Cursor, place: u32) -> i128 {
        let (plan, noise) = (self.plan, self.noise.of(self.keys.name(place)));
        let drawn = cursor.seek(self.step, &mut |node| plan.law().sample(&mut noise.bits(node)));
        (i128::from(self.sum(place)) << plan.fraction_bits()) + plan.rounded_noise(drawn)
    }

    /// The exact value that the release of a hidden key reads.
    fn sum(&self, place: u32) -> i64 {
        let key = self.keys.get(place);
        let steps = match self.plan.mechanism().workload() {
            Workload::Sum => return key.sum(),
            workload => workload.reach(self.step),
        };
        let read = key.past().events().filter(|(step, _)| step + steps > self.step);
        // Adds up like the series of a shown key.
        read.fold(0, |all: i64, (_, sum)| all.wrapping_add(sum))
    }
}
