//! What is kept of the rows that were used.

use crate::vector::Real;
use std::collections::HashMap;

/// By row: up to which step it has its noise, and what the mechanism keeps of it.
pub(super) struct Touched<F> {
    /// Numbers that are kept of a row.
    each: usize,
    /// All rows that are not listed have their noise up to this step, and nothing is kept of them.
    floor: u64,
    rows: HashMap<u64, Row>,
    kept: Vec<F>,
}

#[derive(Clone, Copy)]
struct Row {
    last: u64,
    /// Its place among what is kept.
    place: usize,
}

impl<F: Real> Touched<F> {
    pub(super) fn new(each: usize) -> Self {
        Self { each, floor: 0, rows: HashMap::new(), kept: vec![] }
    }

    /// The step up to which a row has its noise.
    pub(super) fn last(&self, row: u64) -> u64 {
        self.rows.get(&row).map_or(self.floor, |row| row.last)
    }

    /// What is kept of a row; empty for nothing, which stands for zeros.
    pub(super) fn kept(&self, row: u64) -> &[F] {
        let start = self.rows.get(&row).map(|row| row.place * self.each);
        start.map_or(&[], |start| &self.kept[start..start + self.each])
    }

    /// A row has its noise up to a step.
    pub(super) fn put(&mut self, row: u64, last: u64, kept: &[F]) {
        let place = self.rows.len();
        let row = self.rows.entry(row).or_insert(Row { last, place });
        row.last = last;
        let start = row.place * self.each;
        if start == self.kept.len() {
            self.kept.extend_from_slice(kept);
        } else {
            self.kept[start..start + self.each].copy_from_slice(kept);
        }
    }

    /// All rows have their noise up to a step. What is kept of them is forgotten where no step follows, or there is
    /// nothing.
    pub(super) fn settle(&mut self, step: u64, is_last: bool) {
        if is_last || self.each == 0 {
            self.floor = step;
            self.rows = HashMap::new();
            self.kept = vec![];
        }
    }

    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&self.kept[..]) + self.rows.capacity() * (size_of::<u64>() + size_of::<Row>())
    }

    /// Rows with their last steps, rising.
    pub(super) fn rows(&self) -> Vec<(u64, u64)> {
        let mut rows: Vec<(u64, u64)> = self.rows.iter().map(|(number, row)| (*number, row.last)).collect();
        rows.sort_unstable();
        rows
    }
}
