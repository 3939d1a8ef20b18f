//! The noise of the smooth binary mechanism step by step.
//!
//! The next leaf number follows from the lowest run of ones of the last one, `0 1^k 0^j`, which becomes `1 0^(j+1)
//! 1^(k-1)`: the nodes of its `k` ones are left, and as many are read for the first time. Over all leaves the mean of
//! `k` is about `(h+1) / (zeros+1)`; the first leaves have more.

use super::combinations::{Binomials, lowest_run, next_combination};
use crate::mechanism::Cursor;
use crate::noise::Node;

pub(super) struct SmoothCursor {
    step: u64,
    /// `m(step + 1)`.
    leaf: u128,
    height: u32,
    binomials: Binomials,
    /// 0, and the noise of the nodes of the first one bits of `leaf`, from the highest: all unknown before step 1.
    sums: Vec<i128>,
}

impl SmoothCursor {
    pub(super) fn new(height: u32, ones: u32, binomials: Binomials) -> Self {
        Self { step: 0, leaf: (1 << ones) - 1, height, binomials, sums: vec![0; ones as usize + 1] }
    }
}

/// The levels of the nodes that are new after a leaf whose lowest run of ones has this position and length, highest
/// first.
fn new_levels(position: u32, length: u32) -> impl Iterator<Item = u32> {
    std::iter::once(position + length).chain((0..length - 1).rev())
}

impl Cursor for SmoothCursor {
    fn step(&self) -> u64 {
        self.step
    }

    /// A node that is new is read for the first time now: every lower one is at its lowest possible position. Before
    /// the first step all ones are one run.
    fn advance(&mut self, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        let (position, length) = lowest_run(self.leaf);
        self.leaf = next_combination(self.leaf);
        self.step += 1;
        let kept = self.sums.len() - 1 - length as usize;
        let mut sum = self.sums[kept];
        for (place, level) in self.sums[kept + 1..].iter_mut().zip(new_levels(position, length)) {
            sum += draw(Node { level, index: self.step });
            *place = sum;
        }
        sum
    }

    fn foretell(&self, nodes: &mut [Node]) -> usize {
        let (mut leaf, mut step, mut count) = (self.leaf, self.step, 0);
        loop {
            let (position, length) = lowest_run(leaf);
            // Nothing can be predicted after the last leaf.
            let fits = position + length < self.height;
            let Some(new) = nodes.get_mut(count..count + length as usize).filter(|_| fits) else { return count };
            (leaf, step, count) = (next_combination(leaf), step + 1, count + new.len());
            for (place, level) in new.iter_mut().zip(new_levels(position, length)) {
                *place = Node { level, index: step };
            }
        }
    }

    /// `O(h)` draws.
    fn seek(&mut self, step: u64, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        let Self { leaf, sums, binomials, height, .. } = self;
        let (mut sum, mut place) = (0, 0);
        *leaf = 0;
        self.step = step;
        binomials.unrank(step, *height, sums.len() as u32 - 1, |level, _, index| {
            *leaf |= 1 << level;
            // Step 0 reads nothing; every node of a later step is first read at step 1 or after.
            if index > 0 {
                sum += draw(Node { level, index });
            }
            place += 1;
            sums[place] = sum;
        });
        sum
    }
}

#[cfg(test)]
mod tests {
    use crate::mechanism::{Mechanism, Smooth};
    use crate::noise::Node;
    use std::collections::HashMap;

    /// Steps one by one read what rows state, predicted in order and by whole steps; a cursor that seeks continues
    /// alike.
    #[test]
    fn steps_read_the_nodes_that_are_foretold() {
        for (horizon, height, zeros) in [(1, 2, 1), (5, 4, 2), (7, 9, 3), (83, 9, 3), (200, 12, 6), (3000, 30, 4)] {
            let smooth = Smooth::new(horizon, height, zeros).unwrap();
            let value = |node: Node| i128::from(node.index * 131 + u64::from(node.level)) * 7919 % 10_007;
            let (mut cursor, mut other) = (smooth.cursor(), smooth.cursor());
            let mut foretold = vec![Node { level: 0, index: 0 }; height as usize];
            let (mut used, mut count) = (0, 0);
            let mut read = HashMap::new();
            for step in 1..=horizon {
                if used == count {
                    (used, count) = (0, cursor.foretell(&mut foretold));
                    assert!(count > 0, "{height} {zeros}: nothing is foretold before step {step}");
                }
                let noise = cursor.advance(&mut |node| {
                    assert_eq!((node, node.index), (foretold[used], step));
                    used += 1;
                    assert!(read.insert(node, step).is_none(), "{node:?} was read before");
                    value(node)
                });
                let mut row = 0;
                smooth.visit_row(step, &mut |node, _| row += value(node));
                assert_eq!(noise, row, "{height} {zeros}: step {step}");
                if step % 3 == 1 {
                    assert_eq!(other.seek(step, &mut |node| value(node)), row);
                    assert_eq!(other.step(), step);
                } else {
                    assert_eq!(other.advance(&mut |node| value(node)), row);
                }
            }
            assert_eq!((cursor.seek(0, &mut |_| 1), cursor.step()), (0, 0));
            assert_eq!(cursor.advance(&mut |node| value(node)), smooth.cursor().advance(&mut |node| value(node)));
        }
    }

    /// After the last leaf there is nothing to foretell, and a step that does not fit is left out.
    #[test]
    fn predictions_end_with_the_leaves() {
        let smooth = Smooth::new(83, 9, 3).unwrap();
        let nothing = Node { level: 0, index: 0 };
        let mut all = vec![nothing; 1000];
        let count = smooth.cursor().foretell(&mut all);
        all.truncate(count);
        assert_eq!((count, all[count - 1].index), (203, 83)); // C(10, 4) - 1, less the 6 of the leaf of rank 0
        for room in 0..=count {
            let mut some = vec![nothing; room];
            let count = smooth.cursor().foretell(&mut some);
            assert_eq!(some[..count], all[..count]);
            // All nodes of a step or none, and the next step does not fit.
            let Some(next) = all.get(count).map(|node| node.index) else { continue };
            assert!(some[..count].iter().all(|node| node.index < next));
            assert!(room < count + all[count..].iter().filter(|node| node.index == next).count());
        }
    }
}
