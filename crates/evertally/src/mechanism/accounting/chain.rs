//! The worst pattern of a unit's events for columns that differ: a bound by chains.
//!
//! A unit has at most `c` events in a step, steps with events are at least `b` apart, and there are `n c + r` events
//! in all, `r < c`. For a matrix `R` without negative entries let `G_st` be the inner product of its columns `s` and
//! `t`, and let no `G_st`, at a fixed `t`, grow as `s < t` moves away from `t`.
//!
//! **Corners.** `‖R u‖² = Σ u_s u_t G_st` is convex along every exchange of events between two steps, as
//! `G_ss + G_tt ≥ 2 G_st`. So the maximum is reached where all steps with events have `c` of them, except one with `r`.
//!
//! (There may be fewer steps with events than `n` if no more fit `b` apart.)
//!
//! **Chains.** Sum over the later step of each pair: the `j`-th step with events, `t_j`, adds
//! `u² G_tt + 2 u Σ_i u_i G_{t_i t}`. The steps before it are at least `b, 2b, …` away, so with `c` events in each it
//! adds at most
//!
//! ```text
//! φ(t, j) = c² (G_tt + 2 Σ_{0<i<j} G_{t-ib, t}),
//! ```
//!
//! and if the step of `r` events is among those before, or is `t` itself, it counts as the farthest of them (exchanging
//! its events with those of a step that is nearer to `t` does not lower the sum). So `‖R u‖² ≤ max Σ_j φ(t_j, j)` over
//! `t_j + b ≤ t_{j+1}`: a maximum over chains, found step by step in `O(T n)`.
//! Events in a row (`b` apart) reach every `φ`; so the bound is exact wherever the best chain is such a row.
//!
//! **Blocks.** If `T n` is too large, `q` steps are merged into one block, with at most `e = ⌈q/b⌉` of them holding
//! events: inner products of two blocks are replaced by the largest one between them, those inside a block by `G` at
//! the least distance, except for the squares, which add at most `c · (events of the block) · G_tt`.
//!
//! **Vectors.** A unit that adds a vector of norm at most 1 to at most `k` steps, `b` apart, is the case `c = 1`,
//! `n = k`, by the header of [`participation`](super::participation): [`of_steps`]. `G` may be that of exact
//! accounting, too. For columns that are wide apart, blocks may be shorter than `b`: then each holds one step at most.

use crate::mechanism::Matrix;
use crate::mechanism::accounting::participation::rounded_up;
use crate::mechanism::{Participation, SearchWatch};
use crate::privacy::Spread;

/// How events may be placed: `full` steps of `c` events, and one of `rest` (less than `c`, or none), `separation`
/// apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::mechanism) struct Pattern {
    pub(in crate::mechanism) full: u64,
    pub(in crate::mechanism) each: f64,
    pub(in crate::mechanism) rest: f64,
    pub(in crate::mechanism) separation: u64,
}

impl Pattern {
    /// The part of a unit that falls into one running sum.
    pub(in crate::mechanism) fn new(spread: Spread) -> Self {
        let (full, rest) = (spread.total / spread.per_step, spread.total % spread.per_step);
        Self { full, each: spread.per_step as f64, rest: rest as f64, separation: spread.separation }
    }
}

/// Inner products of columns, as a function of their distance.
pub(in crate::mechanism) trait ColumnProducts {
    /// Number of columns `T`.
    fn steps(&self) -> usize;

    /// Upper bounds of `G_{t-d,t}` for the steps `t > d` (from 1), for a distance `d` from 0; the bound for `t` is
    /// written to index `t - 1`.
    fn inner_products(&self, distance: usize, into: &mut [f64]);

    /// An upper bound of the inner products of any column of the steps up to `last_a` with any of `first_b ..= last_b`,
    /// which come later, at least `distance ≥ 1` apart; and of the squared norms for `distance` 0.
    fn between(&self, distance: usize, earlier: (usize, usize), later: (usize, usize)) -> f64;
}

/// The columns of any matrix without negative entries, for patterns of one separation `b`: the inner product with the
/// `n`-th step before is replaced by the `n`-th largest with a step at least `b` before. Nothing needs to fall with the
/// distance.
pub(in crate::mechanism) struct RankedColumns {
    separation: usize,
    squares: Vec<f64>,
    /// For every step, the inner products with the steps far enough before it, in falling order.
    before: Vec<Vec<f64>>,
}

impl RankedColumns {
    /// From a matrix with `T` columns. `O(T² log T)`, and the squares of the numbers of entries in its rows.
    pub(in crate::mechanism) fn new(matrix: &Matrix, separation: u64) -> Self {
        let (rows, steps) = matrix.shape();
        let separation = usize::try_from(separation).unwrap_or(usize::MAX).min(steps);
        // Of each column with itself and the columns before it. Most entries of a tree's rows are 0.
        let mut products: Vec<Vec<f64>> = (1..=steps).map(|columns| vec![0.0; columns]).collect();
        for row in (0..rows).map(|n| matrix.row(n)) {
            let entries: Vec<(usize, f64)> =
                row.iter().copied().enumerate().filter(|(_, entry)| *entry != 0.0).collect();
            for (later, (t, entry)) in entries.iter().enumerate() {
                entries[..=later].iter().for_each(|(s, other)| products[*t][*s] += other * entry);
            }
        }
        let squares = products.iter().enumerate().map(|(t, products)| products[t]).collect();
        for (t, products) in products.iter_mut().enumerate() {
            products.truncate((t + 1).saturating_sub(separation));
            products.sort_by(|a, b| b.total_cmp(a));
        }
        Self { separation, squares, before: products }
    }
}

impl ColumnProducts for RankedColumns {
    fn steps(&self) -> usize {
        self.squares.len()
    }

    fn inner_products(&self, distance: usize, into: &mut [f64]) {
        let number = distance / self.separation;
        for (t, into) in into.iter_mut().enumerate().skip(distance) {
            *into = if number == 0 { self.squares[t] } else { self.before[t][number - 1] };
        }
    }

    /// The largest inner product.
    fn between(&self, distance: usize, _earlier: (usize, usize), later: (usize, usize)) -> f64 {
        let steps = later.0 - 1..later.1;
        let largest =
            |t: usize| if distance == 0 { self.squares[t] } else { self.before[t].first().copied().unwrap_or(0.0) };
        steps.map(largest).fold(0.0, f64::max)
    }
}

/// Maximum number of additions for one bound.
pub(in crate::mechanism) const MAX_ADDITIONS: u64 = 1 << 25;

/// An upper bound of the largest `‖R u‖²`, up to rounding: sums of positive numbers, `4 full + T` of them.
pub(in crate::mechanism) fn largest(columns: &dyn ColumnProducts, pattern: Pattern) -> f64 {
    largest_watched(columns, pattern, SearchWatch::NONE)
}

/// The same in a computation that a watch may cancel: infinite if it does.
pub(in crate::mechanism) fn largest_watched(
    columns: &dyn ColumnProducts,
    pattern: Pattern,
    watch: SearchWatch<'_>,
) -> f64 {
    let (steps, separation) = (columns.steps() as u64, pattern.separation);
    let room = steps.div_ceil(separation);
    let pattern = if pattern.full >= room { Pattern { full: room, rest: 0.0, ..pattern } } else { pattern };
    if pattern.full.saturating_mul(steps) <= MAX_ADDITIONS {
        return by_steps(columns, pattern, watch);
    }
    // q steps to a block: (T/q) blocks, and (full / ⌈q/b⌉) of them with events.
    let work = |q: u64| steps.div_ceil(q) * (pattern.full / q.div_ceil(separation) + 2);
    // Multiples of b, so that blocks that hold as many events as possible leave no gaps.
    let first = if separation == 1 { 2 } else { separation };
    let q = (0..).map(|power| first << power).find(|q| *q >= steps || work(*q) <= MAX_ADDITIONS).expect("powers grow");
    by_blocks(columns, pattern, q, watch)
}

/// Maximum number of additions for a vector bound, where an inner product costs a few dozen operations.
pub(in crate::mechanism) const MAX_VECTOR_ADDITIONS: u64 = 1 << 17;

/// An upper bound of the squared sensitivity to a unit that takes part in several steps, from at most `work` inner
/// products, each of which took at most `operations` roundings of positive numbers.
pub(in crate::mechanism) fn of_steps(
    columns: &dyn ColumnProducts,
    participation: Participation,
    work: u64,
    operations: u64,
) -> f64 {
    of_steps_watched(columns, participation, (work, operations), SearchWatch::NONE)
}

/// The same in a computation that a watch may cancel: infinite if it does.
pub(in crate::mechanism) fn of_steps_watched(
    columns: &dyn ColumnProducts,
    participation: Participation,
    (work, operations): (u64, u64),
    watch: SearchWatch<'_>,
) -> f64 {
    let (steps, separation) = (columns.steps() as u64, participation.separation());
    let full = participation.within(steps);
    let pattern = Pattern { full, each: 1.0, rest: 0.0, separation };
    let squared = if full.saturating_mul(steps) <= work {
        by_steps(columns, pattern, watch)
    } else {
        // A part of b, or b times a power of 2.
        let cost = |q: u64| steps.div_ceil(q).saturating_mul(full / q.div_ceil(separation) + 2);
        let parts = (1..63).rev().map(|power| separation >> power).filter(|q| *q > 1);
        let whole = (0..).map(|power| separation.max(2).saturating_mul(1 << power));
        let q = parts.chain(whole).find(|q| *q >= steps || cost(*q) <= work).expect("powers grow");
        by_blocks(columns, pattern, q.min(steps), watch)
    };
    // Sums of positive numbers: one of a step's pairs, one of steps.
    rounded_up(squared, operations + 8 * full.min(work) + 256)
}

fn by_steps(columns: &dyn ColumnProducts, pattern: Pattern, watch: SearchWatch<'_>) -> f64 {
    let mut watch = watch.paced();
    let Pattern { full, each, rest, separation } = pattern;
    let mut chains = Chains::new(columns.steps(), separation as usize);
    let mut products = vec![0.0; columns.steps()];
    let steps = full as usize + usize::from(rest > 0.0);
    for number in 0..steps {
        if watch.is_cancelled_before(columns.steps() as u64) {
            return f64::INFINITY;
        }
        let distance = number * separation as usize;
        products.fill(0.0);
        columns.inner_products(distance, &mut products);
        let times = if number == 0 { 1.0 } else { 2.0 };
        chains.extend(&products, Addition { times, each, rest, first: distance, may_be_whole: number < full as usize });
    }
    chains.best
}

/// One more step of all chains.
struct Addition {
    /// How often an inner product counts: once for a square, twice for others.
    times: f64,
    each: f64,
    rest: f64,
    /// The first step, from 0, that a chain of this length can end at.
    first: usize,
    /// Whether there are events for this many full steps.
    may_be_whole: bool,
}

/// Chains of this many steps that end by a step, without and with the step of the rest.
struct Chains {
    separation: usize,
    /// `G_tt`.
    squares: Vec<f64>,
    /// `G_tt + 2 Σ G` with the nearest steps before.
    sums: Vec<f64>,
    whole: Vec<f64>,
    with_rest: Vec<f64>,
    /// The largest of all.
    best: f64,
}

impl Chains {
    fn new(steps: usize, separation: usize) -> Self {
        let no = vec![f64::NEG_INFINITY; steps];
        Self {
            separation,
            squares: vec![0.0; steps],
            sums: vec![0.0; steps],
            whole: vec![0.0; steps],
            with_rest: no,
            best: 0.0,
        }
    }

    /// `products` are the inner products at the distance of one more step.
    fn extend(&mut self, products: &[f64], by: Addition) {
        let Addition { times, each, rest, first, may_be_whole } = by;
        let steps = products.len();
        let is_first = times == 1.0;
        let (mut whole, mut with_rest) = (vec![f64::NEG_INFINITY; steps], vec![f64::NEG_INFINITY; steps]);
        let (mut best_whole, mut best_rest) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
        for t in first..steps {
            let before = |chain: &[f64]| {
                if is_first { 0.0 } else { t.checked_sub(self.separation).map_or(f64::NEG_INFINITY, |s| chain[s]) }
            };
            let farthest = times * products[t];
            // A full step, all steps before it full.
            best_whole = best_whole.max(before(&self.whole) + each * each * (self.sums[t] + farthest));
            // A full step, the farthest before it having the rest; and the step of the rest, all steps before it full.
            if !is_first {
                let full = before(&self.with_rest) + each * (each * self.sums[t] + rest * farthest);
                best_rest = best_rest.max(full);
            }
            let square = if is_first { products[t] } else { self.squares[t] };
            let own = before(&self.whole) + rest * (rest * square + each * (self.sums[t] + farthest - square));
            best_rest = best_rest.max(own);
            (whole[t], with_rest[t]) = (best_whole, best_rest);
        }
        if is_first {
            self.squares = products.to_vec();
        }
        for (sum, product) in self.sums.iter_mut().zip(products) {
            *sum += times * product;
        }
        (self.whole, self.with_rest) = (whole, with_rest);
        self.best = self.best.max(best_rest).max(if may_be_whole { best_whole } else { 0.0 });
    }
}

/// An inner product of blocks counts as this many operations.
const BLOCK_OPERATIONS: u64 = 32;

pub(in crate::mechanism) fn by_blocks(
    columns: &dyn ColumnProducts,
    pattern: Pattern,
    q: u64,
    watch: SearchWatch<'_>,
) -> f64 {
    let mut watch = watch.paced();
    let Pattern { full, each, rest, separation } = pattern;
    let (steps, q) = (columns.steps(), q as usize);
    let blocks = steps.div_ceil(q);
    let span = |block: usize| (block * q + 1, ((block + 1) * q).min(steps));
    let inside = (q as u64).div_ceil(separation);
    let mass = each * inside as f64;
    // Rounded up to whole blocks.
    let number = ((full + u64::from(rest > 0.0)).div_ceil(inside) as usize).min(blocks);
    let diagonal = |block: usize| {
        let here = span(block);
        let square = columns.between(0, here, here);
        let near = if inside > 1 { columns.between(separation as usize, here, here) } else { 0.0 };
        mass * (each * square + mass * near)
    };
    // Blocks back to the previous block with events; and the least distance, in steps, of the one `done` such blocks
    // back.
    let stride = (separation as usize / q).max(1);
    let apart = |done: usize| {
        if inside > 1 { ((done - 1) * q + 1).max(separation as usize) } else { done * separation as usize }
    };
    let mut sums = Vec::with_capacity(blocks);
    for block in 0..blocks {
        if watch.is_cancelled_before(BLOCK_OPERATIONS) {
            return f64::INFINITY;
        }
        sums.push(diagonal(block));
    }
    let mut chain: Vec<f64> = vec![0.0; blocks];
    let mut largest = 0.0f64;
    for done in 0..number {
        if done > 0 {
            for (block, sum) in sums.iter_mut().enumerate().skip(done * stride) {
                if watch.is_cancelled_before(BLOCK_OPERATIONS) {
                    return f64::INFINITY;
                }
                *sum += 2.0 * mass * mass * columns.between(apart(done), span(block - done * stride), span(block));
            }
        }
        let mut best = f64::NEG_INFINITY;
        let next = (0..blocks).map(|block| {
            let before =
                if done == 0 { 0.0 } else { block.checked_sub(stride).map_or(f64::NEG_INFINITY, |b| chain[b]) };
            best = best.max(before + sums[block]);
            best
        });
        let next: Vec<f64> = next.collect();
        // If this many blocks do not fit, no more blocks fit.
        if next.last().is_none_or(|best| !best.is_finite()) {
            break;
        }
        largest = largest.max(next[blocks - 1]);
        chain = next;
    }
    largest
}
