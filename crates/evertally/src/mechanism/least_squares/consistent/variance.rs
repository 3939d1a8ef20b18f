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

    /// Over all steps. `O(T log_k T)` and no memory.
    pub(super) fn largest_and_mean(&self) -> (f64, f64) {
        let all = (1..=self.shape.horizon).map(|step| self.at(step));
        let (max, sum) = all.fold((0.0f64, 0.0), |(max, sum), variance| (max.max(variance), sum + variance));
        (max, sum / self.shape.horizon as f64)
    }
}
