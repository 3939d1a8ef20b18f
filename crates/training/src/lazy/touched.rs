//! The kept vectors of the used rows.

use crate::Real;
use std::collections::HashMap;

/// By row: the step up to which it has its noise, and the mechanism's kept vectors.
pub(super) struct Touched<F> {
    /// Number of kept values per row.
    each: usize,
    /// All unlisted rows have their noise up to this step and no kept vectors.
    floor: u64,
    /// Places of rows.
    places: HashMap<u64, usize>,
    /// By place: the step up to which the row has its noise.
    lasts: Vec<u64>,
    /// By place: the kept values.
    kept: Vec<F>,
}

/// The result of looking up a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) row: u64,
    /// The step up to which it has its noise.
    pub(super) last: u64,
    place: Option<usize>,
}

impl<F: Real> Touched<F> {
    pub(super) fn new(each: usize) -> Self {
        Self { each, floor: 0, places: HashMap::new(), lasts: vec![], kept: vec![] }
    }

    pub(super) fn find(&self, row: u64) -> Found {
        let place = self.places.get(&row).copied();
        Found { row, last: place.map_or(self.floor, |place| self.lasts[place]), place }
    }

    /// The kept values of a row; empty stands for zeros.
    pub(super) fn kept(&self, found: Found) -> &[F] {
        found.place.map_or(&[], |place| &self.kept[place * self.each..(place + 1) * self.each])
    }

    /// Records that a row just looked up has its noise up to a step.
    pub(super) fn put(&mut self, found: Found, last: u64, kept: &[F]) {
        if let Some(place) = found.place {
            self.lasts[place] = last;
            self.kept[place * self.each..(place + 1) * self.each].copy_from_slice(kept);
        } else {
            self.places.insert(found.row, self.lasts.len());
            self.lasts.push(last);
            self.kept.extend_from_slice(kept);
        }
    }

    /// Records that all rows have their noise up to a step. Drops their kept values if no step follows, or if they
    /// are empty.
    pub(super) fn settle(&mut self, step: u64, is_last: bool) {
        if is_last || self.each == 0 {
            *self = Self { floor: step, ..Self::new(self.each) };
        }
    }

    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    pub(super) fn len(&self) -> usize {
        self.lasts.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let listed = self.places.capacity() * size_of::<(u64, usize)>();
        size_of_val(&self.kept[..]) + size_of_val(&self.lasts[..]) + listed
    }

    /// All listed rows, ascending.
    pub(super) fn rows(&self) -> Vec<Found> {
        let found = |(row, place): (&u64, &usize)| Found { row: *row, last: self.lasts[*place], place: Some(*place) };
        let mut rows: Vec<Found> = self.places.iter().map(found).collect();
        rows.sort_unstable_by_key(|found| found.row);
        rows
    }
}
