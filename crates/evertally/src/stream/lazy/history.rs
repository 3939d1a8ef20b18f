//! The sums of all closed steps, for reads of earlier steps.

use crate::Result;
use crate::state::damaged;
use hashbrown::HashMap;

/// A step with events and the sum after it, oldest first.
type Course = Vec<(u64, i64)>;

/// Courses by coordinate, as they are saved.
pub(super) type SavedHistory = Vec<(u64, Course)>;

/// The sum of every coordinate after each step with events in it.
#[derive(Default)]
pub(super) struct History {
    courses: HashMap<u64, Course>,
}

impl History {
    /// Closes a step of a sum.
    pub(super) fn close(&mut self, coordinate: u64, step: u64, sum: i64) {
        self.courses.entry(coordinate).or_default().push((step, sum));
    }

    /// The sum after a closed step. `O(log n)` for `n` steps with events.
    pub(super) fn sum(&self, coordinate: u64, step: u64) -> i64 {
        let course = self.courses.get(&coordinate).map_or(&[][..], Vec::as_slice);
        let until = course.partition_point(|(at, _)| *at <= step);
        until.checked_sub(1).map_or(0, |last| course[last].1)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let courses: usize = self.courses.values().map(|course| course.capacity() * size_of::<(u64, i64)>()).sum();
        self.courses.allocation_size() + courses
    }

    pub(super) fn save(&self) -> SavedHistory {
        let mut saved: SavedHistory = self.courses.iter().map(|(at, course)| (*at, course.clone())).collect();
        saved.sort_unstable_by_key(|(coordinate, _)| *coordinate);
        saved
    }

    /// That of a state saved after a step, if its last sums are those of the state.
    pub(super) fn restored(saved: SavedHistory, step: u64, sums: &HashMap<u64, i64>) -> Result<Self> {
        let is_sound = |(coordinate, course): &(u64, Course)| {
            course.is_sorted_by(|(before, _), (after, _)| before < after)
                && course.last().is_some_and(|(at, sum)| *at <= step && sums.get(coordinate) == Some(sum))
        };
        if saved.len() != sums.len() || !saved.iter().all(is_sound) {
            return Err(damaged());
        }
        Ok(Self { courses: saved.into_iter().collect() })
    }
}
