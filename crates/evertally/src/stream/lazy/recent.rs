//! The data of windows: for every sum with events in the last steps, the totals of these steps.

use crate::{Error, Result};
use hashbrown::HashMap;
use std::collections::VecDeque;

/// A step and its total, oldest first.
type Totals = VecDeque<(u64, i64)>;

/// The totals of the last `width` steps, of those sums that have any. Older ones are removed gradually: memory is that
/// of the events of two windows.
pub(super) struct Recent {
    width: u64,
    totals: HashMap<u64, Totals>,
    /// The step at which all of them were last scanned.
    swept: u64,
}

/// Sums by coordinate, as they are saved.
pub(super) type SavedRecent = Vec<(u64, Vec<(u64, i64)>)>;

impl Recent {
    pub(super) fn new(width: u64) -> Self {
        Self { width, totals: HashMap::new(), swept: 0 }
    }

    /// Whether a step is still read after another.
    fn is_read(&self, at: u64, step: u64) -> bool {
        step - at < self.width
    }

    /// The exact sum at a step.
    pub(super) fn sum(&self, coordinate: u64, step: u64) -> i64 {
        let totals = self.totals.get(&coordinate).into_iter().flatten();
        totals.filter(|(at, _)| self.is_read(*at, step)).map(|(_, total)| total).sum() // fits: see `size`
    }

    /// The sum of the absolute values of the held totals, which no window's sum exceeds. The caller that adds keeps it
    /// within 64 bits.
    pub(super) fn size(&self, coordinate: u64) -> u64 {
        let totals = self.totals.get(&coordinate).into_iter().flatten();
        totals.fold(0, |size: u64, (_, total)| size.saturating_add(total.unsigned_abs()))
    }

    /// Closes a step of a sum.
    pub(super) fn close(&mut self, coordinate: u64, step: u64, total: i64) {
        let width = self.width;
        let totals = self.totals.entry(coordinate).or_default();
        while totals.front().is_some_and(|(at, _)| step - at >= width) {
            totals.pop_front();
        }
        if total != 0 {
            totals.push_back((step, total));
        }
    }

    /// Removes totals that no window reads any more, once per window.
    pub(super) fn sweep(&mut self, step: u64) {
        if step - self.swept < self.width {
            return;
        }
        self.swept = step;
        let width = self.width;
        self.totals.retain(|_, totals| totals.back().is_some_and(|(at, _)| step - at < width));
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let steps: usize = self.totals.values().map(Totals::capacity).sum();
        self.totals.allocation_size() + steps * size_of::<(u64, i64)>()
    }

    /// The totals that are read at a step, in the order of coordinates: equal data have equal bytes, whatever was
    /// removed when.
    pub(super) fn save(&self, step: u64) -> SavedRecent {
        let read = |totals: &Totals| totals.iter().filter(|(at, _)| self.is_read(*at, step)).copied().collect();
        let all = self.totals.iter().map(|(coordinate, totals)| (*coordinate, read(totals)));
        let mut saved: SavedRecent = all.filter(|(_, totals): &(u64, Vec<_>)| !totals.is_empty()).collect();
        saved.sort_unstable_by_key(|(coordinate, _)| *coordinate);
        saved
    }

    /// Restores the output of [`save`](Self::save).
    ///
    /// # Errors
    /// If it cannot belong to a vector of this many coordinates at this step.
    pub(super) fn restore(&mut self, saved: SavedRecent, step: u64, coordinates: u64) -> Result<()> {
        let rising = saved.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let is_sound = |(coordinate, totals): &(u64, Vec<(u64, i64)>)| {
            let in_order = totals.windows(2).all(|pair| pair[0].0 < pair[1].0);
            let within =
                totals.iter().all(|(at, total)| (1..=step).contains(at) && self.is_read(*at, step) && *total != 0);
            let size = totals.iter().try_fold(0u64, |size, (_, total)| size.checked_add(total.unsigned_abs()));
            *coordinate < coordinates && in_order && within && size.is_some_and(|size| i64::try_from(size).is_ok())
        };
        if !rising || !saved.iter().all(is_sound) {
            return Err(Error::state("the saved state is damaged; restore an undamaged copy"));
        }
        self.totals = saved.into_iter().map(|(coordinate, totals)| (coordinate, totals.into())).collect();
        self.swept = step;
        Ok(())
    }
}
