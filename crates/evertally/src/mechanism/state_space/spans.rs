//! Leaps over runs of whole segments: any run takes one or two entries of a table.
//!
//! Level `h` of the table cuts the segments into blocks of `2^(h+1)`. An entry is the leap from its segment to the
//! middle of its block, or from the middle to its segment, itself included. A run whose first and last place differ in
//! bit `h` and none above lies in one block of that level, on both sides of its middle: it is one entry of each kind.
//! `S log S` entries for `S` segments.

use super::leap::{Leap, LeapConstants};

/// The table.
#[derive(Clone)]
pub(in crate::mechanism) struct Spans {
    levels: Vec<Vec<Leap>>,
}

impl Spans {
    /// From leaps over single segments.
    pub(in crate::mechanism) fn new(shape: &LeapConstants, single: Vec<Leap>) -> Self {
        let mut levels = vec![single];
        while 1 << levels.len() < levels[0].len() {
            let half = 1 << levels.len();
            let level = levels[0].chunks(2 * half).flat_map(|block| spread(shape, block, half)).collect();
            levels.push(level);
        }
        Self { levels }
    }

    /// The pieces of the run of segments from `first` up to but excluding `end`, in order.
    pub(in crate::mechanism) fn pieces(&self, first: usize, end: usize) -> impl Iterator<Item = &Leap> {
        let last = end.saturating_sub(1).max(first);
        let level = &self.levels[(first ^ last).checked_ilog2().unwrap_or(0) as usize];
        let early = (first < last).then(|| &level[first]);
        let late = (first < end).then(|| &level[last]);
        early.into_iter().chain(late)
    }
}

/// Leaps from every segment of a block to its middle, and from there to every other.
fn spread(shape: &LeapConstants, block: &[Leap], half: usize) -> Vec<Leap> {
    let (before, after) = block.split_at(half.min(block.len()));
    let mut out = before.to_vec();
    for i in (1..before.len()).rev() {
        out[i - 1] = before[i - 1].clone().then(shape, &out[i]);
    }
    for (i, leap) in after.iter().enumerate() {
        let next = if i == 0 { leap.clone() } else { out[half + i - 1].clone().then(shape, leap) };
        out.push(next);
    }
    out
}
