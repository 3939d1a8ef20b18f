//! Noise that is a sum along the paths of a trie, drawn only when read.
//!
//! A running sum remembers the step of its last read and the noise at some places of that step's path. At the next
//! read, the places beyond the point where the two paths part are no longer needed. If the value at that point is
//! unknown, a bridge between the nearest known places draws it, and it becomes known. The rest of the new path is one
//! fresh increment. That is one split and one extension, whatever the gap, the horizon and the size of the vector.
//! (Pagh, Sejer 2026, algorithm 1, with the step it lacks: the place where paths part must be marked as known.)
//!
//! **Why the joint law is right.** By induction over the reads, the known places of the last path have the law they
//! would have if everything had been drawn, and, given the values read so far, the unknown values on this path form a
//! bridge between them; anything off the path that a later step may read is independent of all drawn values. Forgotten
//! values belong to stretches that no later step walks ([`crate::mechanism::Walk`]), so that later draws do not depend
//! on them, given the place where the paths part. Choosing the time of a read from earlier releases changes nothing:
//! the law is that of one fixed vector of noise, of which some entries are read.

use super::cells::Sampler;
use crate::mechanism::Walk;
use crate::noise::RandomBits;
use crate::noise::bridge::Bridge;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// Samples along the paths of a mechanism by a bridge.
#[derive(Debug)]
pub(super) struct PathSampler<B> {
    pub(super) walk: Box<dyn Walk>,
    pub(super) bridge: B,
}

/// The known noise of one running sum.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Path<V> {
    /// The step of the last read, 0 before the first.
    last: u64,
    /// Bit `d - 1`: the value after the first `d` stretches of that step's path is known. The highest is the end of the
    /// path.
    known: u128,
    /// The known values, from the root down.
    values: SmallVec<[V; 2]>,
}

impl<V> Default for Path<V> {
    fn default() -> Self {
        Self { last: 0, known: 0, values: SmallVec::new() }
    }
}

/// The bits of the places within the first `depth` stretches.
fn within(depth: u32) -> u128 {
    if depth == 0 { 0 } else { u128::MAX >> (128 - depth) }
}

impl<B: Bridge> PathSampler<B> {
    /// Cuts the path back to its first `shared` stretches, drawing the value there if it is not known, and returns it.
    fn part(&self, path: &mut Path<B::Value>, shared: u32, bits: &mut impl RandomBits) -> B::Value {
        let above = path.known & within(shared);
        let kept = above.count_ones() as usize;
        let depth = u128::BITS - above.leading_zeros(); // of the nearest known place, 0 for the root
        let from = if kept == 0 { B::ORIGIN } else { path.values[kept - 1] };
        let value = if depth == shared {
            from
        } else {
            // The cut path extends beyond: its end is known.
            let next = (path.known & !within(shared)).trailing_zeros() + 1;
            let (start, here, end) = (self.walk.length(depth), self.walk.length(shared), self.walk.length(next));
            self.bridge.split(from, path.values[kept], here - start, end - here, bits)
        };
        path.values.truncate(kept);
        path.known = above;
        if depth < shared {
            path.values.push(value);
            path.known |= 1 << (shared - 1);
        }
        value
    }
}

impl<B: Bridge> Sampler for PathSampler<B>
where
    B::Value: Serialize + for<'de> Deserialize<'de>,
{
    const EXACT: bool = B::EXACT;

    type State = Path<B::Value>;

    fn noise<R: RandomBits>(&self, path: &mut Self::State, step: u64, bits: impl FnOnce() -> R) -> i128 {
        if path.last != step {
            let mut bits = bits();
            let shared = if path.last == 0 { 0 } else { self.walk.shared(path.last, step) };
            let value = self.part(path, shared, &mut bits);
            let depth = self.walk.depth(step);
            if depth > shared {
                let length = self.walk.length(depth) - self.walk.length(shared);
                path.values.push(self.bridge.extend(value, length, &mut bits));
                path.known |= 1 << (depth - 1);
            }
            path.last = step;
        }
        self.bridge.noise(path.values[path.values.len() - 1]) // a path has at least one stretch
    }

    fn spilled_bytes(path: &Self::State) -> usize {
        if path.values.spilled() { path.values.capacity() * size_of::<B::Value>() } else { 0 }
    }

    fn is_sound(&self, path: &Self::State, horizon: u64) -> bool {
        let read = path.last > 0 && path.last <= horizon;
        read && path.values.len() == path.known.count_ones() as usize
            && u128::BITS - path.known.leading_zeros() == self.walk.depth(path.last)
    }
}
