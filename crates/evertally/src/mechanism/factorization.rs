//! What a factorization `A = L R` offers: figures in closed form, and a sampler that never builds a matrix.

use super::accounting::participation::{Participation, rounded_up};
use super::accounting::{GaussianShift, LaplaceShift};
use super::column_norms::ColumnNorms;
use super::dense_twin::{DensePair, Matrix};
use super::lazy::Lazy;
use super::name::MechanismName;
use super::search_watch::SearchWatch;
use super::streaming::Streaming;
use super::workload::Workload;
use crate::noise::Node;
use crate::privacy::Spread;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A factorization `A = L R` of the prefix sums over a horizon of `T` steps, with closed forms for its norms and a
/// streaming sampler that never builds a matrix.
///
/// Steps are counted from 1.
#[doc(alias = "matrix mechanism")]
#[doc(alias = "factorization mechanism")]
#[doc(alias = "DP-FTRL")]
pub trait Mechanism: std::fmt::Debug + Send + Sync {
    /// The name that selects this mechanism, with every parameter, as in `subtract(k=13)`.
    fn name(&self) -> MechanismName;

    /// Number of steps `T`.
    fn horizon(&self) -> u64;

    /// The published query at every step: `L R` is this matrix, the prefix sums by default.
    fn workload(&self) -> Workload {
        Workload::Sum
    }

    /// Largest column norms of `R`. `O(log T)`.
    fn column_norms(&self) -> ColumnNorms;

    /// The noise lives on a grid `2^noise_bits` times finer than the data: 0 where `R` is 0/1.
    fn noise_bits(&self) -> u32 {
        0
    }

    /// How far the events of one unit can move the node sums of one running sum: the largest `‖R u‖²` over the counts
    /// `u` of a spread (`u_t ≤ per_step`, `Σ u_t ≤ total`, steps with events at least `separation` apart), never below
    /// the true value, in squared units of `2^-noise_bits`. For one event this is `s2²`, exactly. `u128::MAX` if it
    /// does not fit, or if the node sums are not integral.
    ///
    /// ```
    /// use evertally::mechanism::{Input, Mechanism};
    /// use evertally::privacy::Spread;
    /// // Seven events, at most three in a step: 3² + 3² + 1.
    /// assert_eq!(Input::new(100)?.spread_squared(Spread::new(7, 3)), 19);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    fn spread_squared(&self, spread: Spread) -> u128;

    /// Whether `R` has negative entries, so that [signs](crate::privacy::Signs) matter.
    fn has_negative_entries(&self) -> bool {
        false
    }

    /// [`spread_squared`](Self::spread_squared) of parts of a unit with these numbers of events, in non-decreasing
    /// order. Faster than separate calls if computing the bound for many events includes computing it for few.
    ///
    /// ```
    /// use evertally::mechanism::{Input, Mechanism};
    /// use evertally::privacy::Spread;
    /// assert_eq!(Input::new(100)?.spreads_squared(Spread::new(7, 3), &[2, 7]), [4, 19]);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    fn spreads_squared(&self, spread: Spread, events: &[u64]) -> Vec<u128> {
        self.spreads_squared_watched(spread, events, SearchWatch::NONE).expect("nothing cancels it")
    }

    /// The same in a computation that a watch may cancel: before each number of events, and between the parts of one
    /// if it takes tenths of a second.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) if the watch cancels it.
    fn spreads_squared_watched(&self, spread: Spread, events: &[u64], watch: SearchWatch<'_>) -> Result<Vec<u128>> {
        let squared = |events: &u64| watch.check().map(|()| self.spread_squared(spread.in_one_sum(*events)));
        events.iter().map(squared).collect()
    }

    /// The exact squared sensitivity under Gaussian noise, `max_i a_iᵀ (L Lᵀ)⁻¹ a_i` with `a_i` = ones from step `i`
    /// on. This is what the covariance of the releases reveals: at most the column norm, and equal to it if `L` is
    /// square. `None` if there is no closed form and the horizon is too long (over 512) for the dense twin.
    fn exact_l2_squared(&self) -> Option<f64> {
        exact_by_dense_twin(self)
    }

    /// The squared sensitivity under continuous Gaussian noise to a unit that takes part in several steps, with a
    /// vector of norm at most 1 in each. Never below the true value. Patterns, vectors and data may depend on earlier
    /// releases; proofs are in the header of `mechanism/accounting/participation.rs`.
    ///
    /// ```
    /// use evertally::mechanism::{Input, Mechanism, Participation};
    /// assert_eq!(Input::new(100)?.participation_squared(Participation::new(7, 10)?), 7.0);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    fn participation_squared(&self, participation: Participation) -> f64 {
        let column = rounded_up(self.column_norms().l2_squared, 8);
        participation.of_any(self.horizon(), column)
    }

    /// The same in a computation that a watch may cancel: between its parts if it takes tenths of a second, else before
    /// it.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) if the watch cancels it.
    fn participation_squared_watched(&self, participation: Participation, watch: SearchWatch<'_>) -> Result<f64> {
        watch.check()?;
        Ok(self.participation_squared(participation))
    }

    /// The bands of `R`, if columns at least this many steps apart have no row in common: what accounting for sampled
    /// batches needs. `None` if there are no such bands, or if the horizon is too long to find them (above 2^20).
    ///
    /// ```
    /// use evertally::mechanism::{Input, Mechanism, SquareRoot};
    /// assert_eq!(Input::new(3)?.bands().unwrap().squares, [1.0; 3]);
    /// assert_eq!(SquareRoot::banded(9, 2)?.bands().unwrap().count, 2);
    /// assert!(SquareRoot::new(9)?.bands().is_none());
    /// # Ok::<(), evertally::Error>(())
    /// ```
    fn bands(&self) -> Option<Bands> {
        None
    }

    /// Whether every node is read only after all of its steps have closed. Then per-node privacy composes even if the
    /// data adapt to releases and the adversary chooses the event adaptively.
    fn is_causal(&self) -> bool {
        false
    }

    /// Whether the noise of any step can be computed from its own nodes by [seeking](Cursor::seek), at a cost that
    /// grows at most logarithmically with the step. Defaults to the ability of the family.
    fn has_random_access(&self) -> bool {
        false
    }

    /// `‖L_t‖²` of one step, `1 ≤ step ≤ T`. `O(log T)`.
    fn row_norm_squared(&self, step: u64) -> f64;

    /// The largest `‖L_t‖²` over all steps. `O(log T)`.
    fn max_row_norm_squared(&self) -> f64;

    /// The mean of `‖L_t‖²` over all steps. `O(log T)`.
    fn mean_row_norm_squared(&self) -> f64;

    /// The largest factor by which `‖L_t‖²` of a released step exceeds [`row_norm_squared`](Self::row_norm_squared),
    /// where the protected matrix is `R` rounded to integers; 1 where nothing is rounded. Errors that a plan states
    /// include it.
    fn row_growth(&self) -> f64 {
        self.row_growth_watched(SearchWatch::NONE).expect("nothing cancels it")
    }

    /// The same in a computation that a watch may cancel.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) if the watch cancels it.
    fn row_growth_watched(&self, watch: SearchWatch<'_>) -> Result<f64> {
        watch.check()?;
        Ok(1.0)
    }

    /// `⟨L_s, L_t⟩` of two steps, `1 ≤ earlier ≤ later ≤ T`: the covariance of their releases over the variance of a
    /// node. `O(log T)` for trees, `O(d² + log T)` for a BLT with `d` buffers, `O(1)` for noise on inputs or outputs;
    /// otherwise the cost of the two rows, which is linear in the steps, or nearly so.
    ///
    /// ```
    /// use evertally::mechanism::{DigitTree, Mechanism};
    /// let tree = DigitTree::binary(100)?;
    /// assert_eq!(tree.row_product(6, 6), tree.row_norm_squared(6));
    /// // 6 = 4 + 2 and 7 = 4 + 2 + 1: they share two blocks.
    /// assert_eq!(tree.row_product(6, 7), 2.0);
    /// assert_eq!(tree.row_product(3, 4), 0.0);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    ///
    /// # Panics
    /// May panic if the steps are not in order or beyond the horizon.
    fn row_product(&self, earlier: u64, later: u64) -> f64 {
        product_of_rows(self, earlier, later)
    }

    /// Visits the entries of row `step` of `L`: the nodes the release of that step uses, with their weights, each
    /// node once.
    fn visit_row(&self, step: u64, visit: &mut dyn FnMut(Node, f64));

    /// `(L z)_t` of all steps, in floating point, for simulations of the public noise distribution. `draw` returns the
    /// value of a node; it is called once per node, or returns the same value every time. No release is made from it.
    /// Off by less than 10⁻³ of the standard deviation for values of variance 1, and far less where a family has its
    /// own implementation. `O(T)` steps of a cursor, or of floating-point operations; `O(T log T)` for square roots.
    ///
    /// ```
    /// use evertally::mechanism::{DigitTree, Mechanism};
    /// // Every block is off by 1: the release of step 7 = 4 + 2 + 1 by 3.
    /// assert_eq!(DigitTree::binary(7)?.noise_path(&mut |_| 1.0)[6], 3.0);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    fn noise_path(&self, draw: &mut dyn FnMut(Node) -> f64) -> Vec<f64> {
        path_of_cursor(self, draw)
    }

    /// The steps whose data a node sums (a row of `R` is 1 on them), first and last; the last may lie beyond `T`.
    fn node_span(&self, node: Node) -> (u64, u64);

    /// The value of a node's row of `R` on the steps it sums.
    fn node_weight(&self, _node: Node) -> f64 {
        1.0
    }

    /// Noise values come in units of `2^-fraction_bits` of the noise grid: 0 where `L` is integral.
    fn fraction_bits(&self) -> u32 {
        0
    }

    /// The law of the noise of row `step` of `L`, for intervals.
    fn row_law(&self, step: u64) -> RowLaw {
        RowLaw::Sum(vec![(1.0, self.row_norm_squared(step) as u64)])
    }

    /// A sampler positioned before the first step.
    fn cursor(&self) -> Box<dyn Cursor>;

    /// The cost of a step, in numbers for comparisons.
    fn cost(&self) -> Cost;

    /// How far a change of one unit in one step moves the nodes, measured for Laplace noise.
    ///
    /// # Errors
    /// If this mechanism does not support Laplace noise: the reason, phrased to follow its name.
    fn laplace(&self) -> std::result::Result<LaplaceShift, &'static str>;

    /// The least L1 norm of a shift of the node noise that changes the running sums by these differences, one per step:
    /// `min { ‖v‖₁ : L v = differences }`. `None` where Laplace noise is scaled to the norms of `R` instead, as the
    /// noise of a node protects its sum. See [`LaplaceDistance`](crate::mechanism::LaplaceDistance).
    ///
    /// # Panics
    /// May panic if there are more differences than steps.
    fn least_shift(&self, _differences: &[f64]) -> Option<f64> {
        None
    }

    /// How exact accounting carries over to discrete Gaussian noise on a fine grid, for an integral `L`; `None` if that
    /// is not known, or if it is not better than the column norm.
    fn gaussian_shift(&self) -> Option<GaussianShift> {
        None
    }

    /// How the noise of single readings is sampled, without drawing all noise before them; `None` if no method is
    /// known. (For a mechanism with [random access](super::Abilities::random_access), any step can also be computed
    /// from its own nodes.)
    fn lazy(&self) -> Option<Lazy> {
        None
    }

    /// How the noise of many coordinates is drawn step by step; `None` if no fast method is known.
    fn streaming(&self) -> Option<Streaming> {
        match self.lazy() {
            Some(Lazy::Paths(walk)) => Some(Streaming::Paths(walk)),
            _ => None,
        }
    }

    /// The factorization of the first `steps` steps alone (1 ..= `T`), for accounting: the same rows of `L`, and the
    /// nodes that they use, on the same noise grid. Its norms are what those steps reveal. `None` if it is not known;
    /// the norms of all steps are then a bound.
    ///
    /// ```
    /// use evertally::mechanism::{DigitTree, Mechanism};
    /// let first = DigitTree::binary(1000)?.through(7).unwrap();
    /// assert_eq!((first.horizon(), first.column_norms().l2_squared), (7, 3.0));
    /// # Ok::<(), evertally::Error>(())
    /// ```
    ///
    /// # Panics
    /// May panic if the steps are not within the horizon.
    fn through(&self, _steps: u64) -> Option<Arc<dyn Mechanism>> {
        None
    }

    /// The dense twin: `L` and `R` with exactly the nodes that some step `≤ T` uses. For tests and small `T`.
    ///
    /// # Panics
    /// If `T` exceeds 4096: the matrices would not fit a test's memory.
    fn dense(&self) -> DensePair {
        dense_pair(self)
    }
}

/// A lower triangular `R` with few diagonals.
#[derive(Clone, Debug, PartialEq)]
pub struct Bands {
    /// How many diagonals there are.
    pub count: u64,
    /// The squared norms of the columns, one per step, never too small.
    pub squares: Vec<f64>,
}

/// The cost of one step of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Expected noise draws: amortized number of nodes touched.
    pub draws_per_step: f64,
    /// The same, or the number of multiplications if there are far more of them.
    pub work_per_step: f64,
    /// Maximum memory of a [`Cursor`], in words.
    pub memory_words: u64,
}

impl Cost {
    /// The cost if the draws dominate the work of a step.
    pub(crate) fn from_draws(draws_per_step: f64, memory_words: u64) -> Self {
        Self { draws_per_step, work_per_step: draws_per_step, memory_words }
    }
}

/// What a confidence interval needs to know about one row of `L`.
#[derive(Clone, Debug, PartialEq)]
pub enum RowLaw {
    /// The noise is a sum of independent variables: (|weight|, number of variables with it).
    Sum(Vec<(f64, u64)>),
    /// Very many unequal terms: their `‖L_t‖²`, with tails no heavier than those of `terms` equal terms of that
    /// variance.
    Like {
        /// `‖L_t‖²`.
        norm_squared: f64,
        /// Number of equal terms whose fourth moment is at least as large.
        terms: u64,
    },
}

/// Streams `L z` step by step in `O(1)` amortized draws per step and logarithmic space.
pub trait Cursor: Send {
    /// The last step produced, 0 before the first.
    fn step(&self) -> u64;

    /// Moves to the next step and returns its noise `(L z)_t`, in units of `2^-fraction_bits`. `draw` gives the
    /// value of a node and must give the same value every time it is asked for the same node.
    ///
    /// The caller keeps the step within the horizon.
    fn advance(&mut self, draw: &mut dyn FnMut(Node) -> i128) -> i128;

    /// Writes the nodes that the next steps will read, in order, as far as they are known and whole steps fit; returns
    /// their number. The caller can then draw them together.
    fn foretell(&self, _nodes: &mut [Node]) -> usize {
        0
    }

    /// Moves to the next step, whose data sum to `total` grid units and whose exact running sum is `closed`. Returns
    /// the release minus that sum, in units of `2^-fraction_bits`.
    ///
    /// For most mechanisms that is `(L z)_t`, independent of the data. A mechanism that rounds the sums it protects has
    /// to see them: its release is computed from the protected sums alone, and the result contains the rounding.
    fn advance_with(&mut self, _total: i64, _closed: i64, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        self.advance(draw)
    }

    /// What a cursor must [recall](Self::recall) to continue from here, or `None` if [`seek`](Self::seek) is enough
    /// because no noise depends on the data. The memory contains data: protect it like the data.
    fn memory(&self) -> Option<Vec<u8>> {
        None
    }

    /// Moves to `step` (0 ≤ `step` ≤ `T`) with the [memory](Self::memory) of a cursor at that step, and returns the
    /// last value that cursor returned (0 for step 0).
    ///
    /// # Errors
    /// If this is not the memory of a cursor of the same mechanism.
    fn recall(&mut self, _step: u64, _memory: &[u8]) -> Result<i128> {
        Err(Error::state("the saved state has a mechanism memory, but its mechanism keeps none"))
    }

    /// Whether [`seek`](Self::seek) reaches this later step with fewer draws than advancing step by step, and returns
    /// the same noise. Always false if the noise depends on the data.
    fn can_seek_forward(&self, _step: u64) -> bool {
        false
    }

    /// Moves to any step (0 ≤ `step` ≤ `T`), forwards or backwards, and returns its noise (0 for step 0). If the noise
    /// depends on the data, this is the noise of a stream of zeros.
    fn seek(&mut self, step: u64, draw: &mut dyn FnMut(Node) -> i128) -> i128;
}

/// Moves a cursor forwards step by step; starts over if the step is before its position.
pub(super) fn replay<C: Cursor>(
    cursor: &mut C,
    step: u64,
    fresh: impl FnOnce(&C) -> C,
    draw: &mut dyn FnMut(Node) -> i128,
) {
    if step < cursor.step() {
        *cursor = fresh(cursor);
    }
    while cursor.step() < step {
        cursor.advance(draw);
    }
}

/// The exact Gaussian sensitivity from the dense twin, for short horizons.
pub(super) fn exact_by_dense_twin<M: Mechanism + ?Sized>(mechanism: &M) -> Option<f64> {
    if mechanism.horizon() > 512 { None } else { mechanism.dense().exact_l2_squared() }
}

/// The noise path of a cursor, with node values on a grid of `2^-24`, or of `2^-6` of a mechanism's own finer grid, as
/// filters require.
fn path_of_cursor<M: Mechanism + ?Sized>(mechanism: &M, draw: &mut dyn FnMut(Node) -> f64) -> Vec<f64> {
    let bits = match mechanism.noise_bits() {
        0 => 24,
        fine => fine + 6,
    };
    let unit = libm::exp2(f64::from(bits));
    // Noise steps are `2^-noise_bits` of the data's; the remaining `bits - noise_bits` bits are finer still.
    let output = libm::exp2(-f64::from(bits - mechanism.noise_bits() + mechanism.fraction_bits()));
    let mut cursor = mechanism.cursor();
    // Float-to-int casts saturate; values are a few deviations of 1.
    let mut step = || cursor.advance(&mut |node| (draw(node) * unit).round() as i128) as f64 * output;
    (0..mechanism.horizon()).map(|_| step()).collect()
}

/// The inner product of two rows of `L`, entry by entry.
fn product_of_rows<M: Mechanism + ?Sized>(mechanism: &M, earlier: u64, later: u64) -> f64 {
    let mut row = std::collections::BTreeMap::new();
    mechanism.visit_row(earlier, &mut |node, weight| {
        row.insert(node, weight);
    });
    let mut product = 0.0;
    mechanism.visit_row(later, &mut |node, weight| product += row.get(&node).map_or(0.0, |other| other * weight));
    product
}

/// Collects the rows of `L`, then computes the row of `R` of every node that occurs.
pub(super) fn dense_pair<M: Mechanism + ?Sized>(mechanism: &M) -> DensePair {
    let horizon = mechanism.horizon();
    assert!(horizon <= 4096, "a dense twin of {horizon} steps is too large");
    let mut column_of = BTreeMap::new();
    for step in 1..=horizon {
        mechanism.visit_row(step, &mut |node, _| {
            column_of.insert(node, 0);
        });
    }
    let nodes: Vec<Node> = column_of.keys().copied().collect();
    column_of.values_mut().enumerate().for_each(|(column, slot)| *slot = column);

    let mut l = Matrix::zeros(horizon as usize, nodes.len());
    for step in 1..=horizon {
        let row = l.row_mut(step as usize - 1);
        mechanism.visit_row(step, &mut |node, weight| row[column_of[&node]] += weight);
    }
    let mut r = Matrix::zeros(nodes.len(), horizon as usize);
    for (i, node) in nodes.iter().enumerate() {
        let (first, last) = mechanism.node_span(*node);
        let last = last.min(horizon) as usize;
        r.row_mut(i)[(first as usize - 1).min(last)..last].fill(mechanism.node_weight(*node));
    }
    DensePair { l, r, nodes }
}
