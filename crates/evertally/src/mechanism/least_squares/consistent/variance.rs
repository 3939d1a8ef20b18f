//! The variance of every prefix, from the leaf up along the blocks that hold its end.
//!
//! All complete blocks of a level are alike, so a few numbers per level serve all prefixes. The operations and their
//! order are frozen: searches compare these values, and must always find the same weights.

use super::ConsistentShape;

/// The quantities that a prefix uses on its way up.
pub(super) struct Prefixes<'a> {
    shape: &'a ConsistentShape,
    levels: Vec<BlockLevel>,
}

/// The blocks of one level.
struct BlockLevel {
    /// `before[j]`: variance of the first `j` complete blocks.
    before: Vec<f64>,
    /// Variance of the inside estimate of the last block, which may be cut.
    cut: f64,
}

impl BlockLevel {
    fn new(arity: u64, complete: f64, cut: f64) -> Self {
        let before = std::iter::successors(Some(0.0), |sum| Some(sum + complete));
        Self { before: before.take(arity as usize + 1).collect(), cut }
    }

    /// For children that are this many blocks of this level, with or without the last block of the level.
    fn total(&self, children: u64, with_last: bool) -> f64 {
        if with_last { self.before[children as usize - 1] + self.cut } else { self.before[children as usize] }
    }
}

impl<'a> Prefixes<'a> {
    /// `O(k log_k T)`.
    pub(super) fn new(shape: &'a ConsistentShape) -> Self {
        let leaf = 1.0 / f64::from(shape.weight_squared(0));
        let arity = shape.arity.min(shape.horizon);
        let mut levels = vec![BlockLevel::new(arity, leaf, leaf)];
        for level in 1..shape.levels() {
            let below = &levels[level - 1];
            let of = |total: f64| total / (1.0 + total * f64::from(shape.weight_squared(level)));
            let last = shape.children(level, shape.blocks[level] - 1);
            let (complete, cut) = (of(below.total(arity, false)), of(below.total(last.end - last.start, true)));
            levels.push(BlockLevel::new(arity, complete, cut));
        }
        Self { shape, levels }
    }

    /// `‖L_t‖²` of one step. `O(log_k T)`.
    pub(super) fn at(&self, step: u64) -> f64 {
        let (mut c, mut beta, mut place) = (0.0, 1.0, step - 1);
        for (below, pair) in self.levels.windows(2).enumerate() {
            let (here, last) = (&pair[0], self.shape.blocks[below] - 1);
            let children = self.shape.children(below + 1, place / self.shape.arity);
            let total = here.total(children.end - children.start, children.contains(&last));
            let own = if place == last { here.cut } else { here.before[1] };
            let before = here.before[(place % self.shape.arity) as usize];
            let with_total = before + beta * own;
            let alone = before + c + beta * beta * own;
            (c, beta) = (alone - with_total * with_total / total, with_total / total);
            place /= self.shape.arity;
        }
        c + beta * beta * self.levels[self.levels.len() - 1].cut
    }

    /// Over all steps. `O(T log_k T)` and no memory. The same operations as [`at`](Self::at) on the same numbers, but
    /// the places of a step in the levels are counted instead of divided.
    pub(super) fn largest_and_mean(&self) -> (f64, f64) {
        let top = self.levels[self.levels.len() - 1].cut;
        let mut path: Vec<PathLevel> = (1..self.levels.len()).map(|level| PathLevel::new(self, level)).collect();
        let (mut max, mut sum) = (0.0f64, 0.0);
        for _ in 0..self.shape.horizon {
            let (mut c, mut beta) = (0.0, 1.0);
            for level in &path {
                let (before, own, total) = level.numbers();
                let with_total = before + beta * own;
                let alone = before + c + beta * beta * own;
                (c, beta) = (alone - with_total * with_total / total, with_total / total);
            }
            let variance = c + beta * beta * top;
            (max, sum) = (max.max(variance), sum + variance);
            for level in &mut path {
                if !level.advance(self.shape.arity) {
                    break;
                }
            }
        }
        (max, sum / self.shape.horizon as f64)
    }
}

/// One level of the path from a step to the root.
struct PathLevel<'a> {
    here: &'a BlockLevel,
    /// The place in its parent, and the blocks left after it.
    digit: u64,
    left: u64,
    /// Parents left after its own.
    parents_left: u64,
    /// The variances of all children of a parent, and of the last parent.
    total: f64,
    last_total: f64,
}

impl<'a> PathLevel<'a> {
    /// Of the first step, below this level.
    fn new(prefixes: &'a Prefixes<'_>, level: usize) -> Self {
        let (shape, here) = (prefixes.shape, &prefixes.levels[level - 1]);
        let (left, parents_left) = (shape.blocks[level - 1] - 1, shape.blocks[level] - 1);
        let total = |parent: u64| {
            let children = shape.children(level, parent);
            here.total(children.end - children.start, children.contains(&left))
        };
        Self { here, digit: 0, left, parents_left, total: total(0), last_total: total(parents_left) }
    }

    /// The variances of the blocks before it in its parent, of itself, and of all blocks there.
    fn numbers(&self) -> (f64, f64, f64) {
        let own = if self.left == 0 { self.here.cut } else { self.here.before[1] };
        let total = if self.parents_left == 0 { self.last_total } else { self.total };
        (self.here.before[self.digit as usize], own, total)
    }

    /// Moves to the next block; whether it is in the next parent.
    fn advance(&mut self, arity: u64) -> bool {
        self.left = self.left.saturating_sub(1);
        self.digit += 1;
        let is_next = self.digit == arity;
        if is_next {
            self.digit = 0;
            self.parents_left = self.parents_left.saturating_sub(1);
        }
        is_next
    }
}
