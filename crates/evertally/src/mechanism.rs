//! Factorizations of the prefix-sum matrix, one a file.
//!
//! Let `A` be the lower triangular matrix of ones. A mechanism is a pair `A = L R`: every row of `R` is a **node**,
//! a sum of steps that is protected by one noise variable; row `t` of `L` says how the nodes (and their noise) are
//! combined into the release of step `t`. The release is `A x + L z` with independent `z`, so
//!
//! * privacy depends on the columns of `R` only ([`ColumnNorms`]),
//! * the variance at step `t` is `Var(z) · ‖L_t‖²` ([`Mechanism::row_norm_squared`]).
//!
//! Mechanisms know nothing of noise laws: a [`Cursor`] asks its caller for the value of a node.

mod accounting;
pub(crate) mod banded;
mod criterion;
mod dense_twin;
mod differences;
mod endless;
mod least_squares;
mod mix;
mod optimum;
mod registry;
mod rounding;
mod streaming;
mod toeplitz;
mod tree;
mod trivial;
mod walk;
mod workload;

pub use accounting::{GaussianShift, LaplaceShift, Participation};
pub use banded::Banded;
pub use criterion::{Criterion, NoiseKind, Objective};
pub use dense_twin::{DensePair, Matrix};
pub use endless::{Endless, EndlessChoice, Inside};
pub use least_squares::{Consistent, DensePure, HatChoice, HatLevels, Hats, RollingHats, RollingLevels};
pub use mix::Mix;
pub use optimum::{Certificate, Dense, MatrixDigest, Optimal, Optimum};
pub use registry::{
    Abilities, Dash, Family, Hue, Limits, Line, Mark, MechanismName, Reach, Steps, Vectors, names_that_stream,
};
pub use streaming::{BandSteps, BufferSteps, Convolution, LIGHT, Streaming};
pub use toeplitz::{Blt, BufferChoice, Buffers, Columns, EpochBands, Exponent, LazyBlt, Sharpness, SquareRoot};
pub use toeplitz::{MAX_BUFFERS, epoch_bands};
pub use tree::{DigitTree, HonakerOnline, LevelChoice, Levels, PathSum, Smooth};
pub use trivial::{Input, Output};
pub use walk::{Lazy, Walk};
pub use workload::Workload;

use crate::noise::Node;
use crate::privacy::Spread;
use crate::{Error, Result};
use accounting::participation;
pub(crate) use accounting::units;

/// The longest horizon any mechanism accepts, `2^62` steps.
pub const MAX_HORIZON: u64 = 1 << 62;

/// The largest column norms of `R` over the columns (steps) `1 ..= T`: how far one unit of change in one step can
/// move the vector of node sums.
///
/// Only nodes that some step `≤ T` uses are counted: a node that nothing reads costs no privacy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColumnNorms {
    /// `s1`, the largest L1 norm of a column. Exact for 0/1 matrices below 2^53, never below the true value.
    pub l1: f64,
    /// `s2²`, the square of the largest L2 norm of a column. Exact for 0/1 matrices below 2^53, never below the
    /// true value.
    pub l2_squared: f64,
}

/// Why the square roots and what follows them take no Laplace noise.
const GROWING_L1: &str = "its L1 sensitivity grows with the square root of the horizon";

/// A factorization `A = L R` of the prefix sums over a horizon of `T` steps, with closed forms for its figures and
/// a streaming sampler that never builds a matrix.
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

    /// What is published at every step: `L R` is this, and the prefix sums where nothing else is said.
    fn workload(&self) -> Workload {
        Workload::Sum
    }

    /// Largest column norms of `R`. `O(log T)`.
    fn column_norms(&self) -> ColumnNorms;

    /// The noise lives on a grid `2^noise_bits` times finer than the data: 0 where `R` is 0/1.
    fn noise_bits(&self) -> u32 {
        0
    }

    /// How far a unit's events in one running sum move its node sums: the largest `‖R u‖²` over the counts `u` of a
    /// spread (`u_t ≤ per_step`, `Σ u_t ≤ total`, steps with events at least `separation` apart), never below the true
    /// value, in squared units of `2^-noise_bits`. For one event this is `s2²`, exactly. `u128::MAX` where it does not
    /// fit, or where there are no integral node sums.
    ///
    /// ```
    /// use evertally::mechanism::{Input, Mechanism};
    /// use evertally::privacy::Spread;
    /// // Seven events, at most three in a step: 3² + 3² + 1.
    /// assert_eq!(Input::new(100)?.spread_squared(Spread::new(7, 3)), 19);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    fn spread_squared(&self, spread: Spread) -> u128;

    /// [`spread_squared`](Self::spread_squared) of the parts of a unit that have these numbers of events, which do not
    /// fall. Faster than one call for each where the figures of many events contain those of few.
    ///
    /// ```
    /// use evertally::mechanism::{Input, Mechanism};
    /// use evertally::privacy::Spread;
    /// assert_eq!(Input::new(100)?.spreads_squared(Spread::new(7, 3), &[2, 7]), [4, 19]);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    fn spreads_squared(&self, spread: Spread, events: &[u64]) -> Vec<u128> {
        events.iter().map(|events| self.spread_squared(spread.in_one_sum(*events))).collect()
    }

    /// The exact squared sensitivity under Gaussian noise, `max_i a_iᵀ (L Lᵀ)⁻¹ a_i` with `a_i` = ones from step `i`
    /// on: what the covariance of the releases reveals, never more than the column norm, and equal to it where `L`
    /// is square. `None` where there is no closed form and the horizon is too long (over 512) for the dense twin.
    fn exact_l2_squared(&self) -> Option<f64> {
        exact_by_dense_twin(self)
    }

    /// The squared sensitivity under continuous Gaussian noise to a unit that takes part in several steps, with a
    /// vector of norm at most 1 in each: never below the true value. Patterns, vectors and data may depend on earlier
    /// releases; proofs are in the header of `mechanism/accounting/participation.rs`.
    ///
    /// ```
    /// use evertally::mechanism::{Input, Mechanism, Participation};
    /// assert_eq!(Input::new(100)?.participation_squared(Participation::new(7, 10)?), 7.0);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    fn participation_squared(&self, participation: Participation) -> f64 {
        participation::of_any_mechanism(self, participation)
    }

    /// The bands of `R`, where columns so many steps apart have no row in common: what sampling needs to know. `None`
    /// where that is not so, or the horizon is too long to say (above 2^20).
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

    /// Whether every node is read only once all of its steps are over. Then node after node is protected whatever the
    /// data do in answer to releases, and what is known of single nodes adds up also against one who chooses the event
    /// while watching.
    fn is_causal(&self) -> bool {
        false
    }

    /// Whether the noise of any step is had from its own nodes, by [seeking](Cursor::seek), at a cost that does not grow
    /// with the step but for a logarithm: what the family is able to, or this member of it.
    fn has_random_access(&self) -> bool {
        self.name().family().abilities.random_access
    }

    /// `‖L_t‖²` of one step, `1 ≤ step ≤ T`. `O(log T)`.
    fn row_norm_squared(&self, step: u64) -> f64;

    /// The largest `‖L_t‖²` over all steps. `O(log T)`.
    fn max_row_norm_squared(&self) -> f64;

    /// The mean of `‖L_t‖²` over all steps. `O(log T)`.
    fn mean_row_norm_squared(&self) -> f64;

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

    /// `(L z)_t` of all steps for the values of nodes that `draw` gives, asked for once each (or always alike), in
    /// floating point: what a simulation of the public law needs. No release is made from it. Off by less than 10⁻³ of
    /// the standard deviation for values of variance 1, and far less where a family has a path of its own. `O(T)` steps
    /// of a cursor, or of floating-point operations; `O(T log T)` for square roots.
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

    /// A sampler standing before the first step.
    fn cursor(&self) -> Box<dyn Cursor>;

    /// What a step costs, in figures for comparisons.
    fn cost(&self) -> Cost;

    /// How far a unit of change in one step moves the nodes, as Laplace noise counts it.
    ///
    /// # Errors
    /// Where Laplace noise does not go with this mechanism: why, in words that follow its name.
    fn laplace(&self) -> std::result::Result<LaplaceShift, &'static str>;

    /// How exact accounting carries over to discrete Gaussian noise on a fine grid, for an integral `L`; `None` where
    /// that is not known, or where it is no better than the column norm.
    fn gaussian_shift(&self) -> Option<GaussianShift> {
        None
    }

    /// How its noise is sampled where it is read, without all before it; `None` where no way is known. (Any step of a
    /// mechanism with [random access](Abilities::random_access) can also be had from its own nodes.)
    fn lazy(&self) -> Option<Lazy> {
        None
    }

    /// How the noise of many coordinates is drawn step by step; `None` where no way is known that is fast.
    fn streaming(&self) -> Option<Streaming> {
        match self.lazy() {
            Some(Lazy::Paths(walk)) => Some(Streaming::Paths(walk)),
            _ => None,
        }
    }

    /// The dense twin: `L` and `R` with exactly the nodes that some step `≤ T` uses. For tests and small `T`.
    ///
    /// # Panics
    /// If `T` exceeds 4096: the matrices would not fit a test's memory.
    fn dense(&self) -> DensePair {
        DensePair::of(self)
    }
}

/// A lower triangular `R` with few diagonals.
#[derive(Clone, Debug, PartialEq)]
pub struct Bands {
    /// How many diagonals there are.
    pub count: u64,
    /// The squared norms of the columns, one for each step, never too small.
    pub squares: Vec<f64>,
}

/// What a step of a stream costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Expected noise draws: amortized number of nodes touched.
    pub draws_per_step: f64,
    /// The same, or multiplications where there are far more of them.
    pub work_per_step: f64,
    /// Words of memory a [`Cursor`] holds at most.
    pub memory_words: u64,
}

impl Cost {
    /// Where a step's work is its draws.
    pub(crate) fn of_draws(draws_per_step: f64, memory_words: u64) -> Self {
        Self { draws_per_step, work_per_step: draws_per_step, memory_words }
    }
}

/// What an interval needs to know of one row of `L`.
#[derive(Clone, Debug, PartialEq)]
pub enum RowLaw {
    /// The noise is a sum of independent variables: (|weight|, how many of it).
    Sum(Vec<(f64, u64)>),
    /// Very many unequal terms: this `‖L_t‖²`, and tails no heavier than those of so many equal terms of that variance.
    Like {
        /// `‖L_t‖²`.
        norm_squared: f64,
        /// Number of equal terms whose fourth moment is not smaller.
        terms: u64,
    },
}

/// Streams `L z` step by step in `O(1)` amortized draws per step and logarithmic space.
pub trait Cursor: Send {
    /// The step last produced, 0 before the first.
    fn step(&self) -> u64;

    /// Moves to the next step and returns its noise `(L z)_t`, in units of `2^-fraction_bits`. `draw` gives the
    /// value of a node and must give the same value every time it is asked for the same node.
    ///
    /// The caller keeps the step within the horizon.
    fn advance(&mut self, draw: &mut dyn FnMut(Node) -> i128) -> i128;

    /// Writes the nodes that the next steps will ask for, in that order, as far as it knows them and they fit; returns
    /// how many. Whoever draws can then compute their bits side by side.
    fn foretell(&self, _nodes: &mut [Node]) -> usize {
        0
    }

    /// Moves to the next step, whose data sum to `total` grid units and bring the exact running sum to `closed`, and
    /// returns the release less that sum, in units of `2^-fraction_bits`.
    ///
    /// For most mechanisms that is `(L z)_t` whatever the data. One that rounds the sums it protects has to see them:
    /// its release is computed from the protected sums alone, and the rounding shows here.
    fn advance_with(&mut self, _total: i64, _closed: i64, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        self.advance(draw)
    }

    /// What a cursor must [recall](Self::recall) to stand where this one does, or `None` where [`seek`](Self::seek) is
    /// enough: where no noise depends on the data. It holds data: keep it as safe as them.
    fn memory(&self) -> Option<Vec<u8>> {
        None
    }

    /// Moves to `step` (0 ≤ `step` ≤ `T`) with the [memory](Self::memory) of a cursor that stood there, and returns
    /// what that one returned last (0 for step 0).
    ///
    /// # Errors
    /// If this is not the memory of a cursor of the same mechanism.
    fn recall(&mut self, _step: u64, _memory: &[u8]) -> Result<i128> {
        Err(Error::state("the saved state holds a memory that its mechanism does not have"))
    }

    /// Whether [`seek`](Self::seek) reaches this later step with fewer draws than going there, and gives the same noise:
    /// it never does where noise depends on the data.
    fn leaps_to(&self, _step: u64) -> bool {
        false
    }

    /// Moves to any step (0 ≤ `step` ≤ `T`), forwards or backwards, and returns its noise (0 for step 0): that of a
    /// stream of zeros where it depends on the data.
    fn seek(&mut self, step: u64, draw: &mut dyn FnMut(Node) -> i128) -> i128;
}

/// Moves a cursor to a step one after the other, from the start if that is behind it.
fn replay<C: Cursor>(cursor: &mut C, step: u64, fresh: impl FnOnce(&C) -> C, draw: &mut dyn FnMut(Node) -> i128) {
    if step < cursor.step() {
        *cursor = fresh(cursor);
    }
    while cursor.step() < step {
        cursor.advance(draw);
    }
}

/// The exact Gaussian sensitivity from the dense twin, where that is small.
fn exact_by_dense_twin<M: Mechanism + ?Sized>(mechanism: &M) -> Option<f64> {
    if mechanism.horizon() > 512 { None } else { mechanism.dense().exact_l2_squared() }
}

/// The path of a cursor whose nodes have values on a grid of `2^-24`, or of `2^-6` of a mechanism's own fine one: what
/// filters take.
fn path_of_cursor<M: Mechanism + ?Sized>(mechanism: &M, draw: &mut dyn FnMut(Node) -> f64) -> Vec<f64> {
    let bits = match mechanism.noise_bits() {
        0 => 24,
        fine => fine + 6,
    };
    let unit = libm::exp2(f64::from(bits));
    // Noise steps are `2^-noise_bits` of the data's, and so many of them finer still.
    let output = libm::exp2(-f64::from(bits - mechanism.noise_bits() + mechanism.fraction_bits()));
    let mut cursor = mechanism.cursor();
    // Float-to-int casts saturate; values are some deviations of 1.
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

/// Refuses numbers of steps that no mechanism has, before any search computes with them.
pub fn check_steps(horizon: u64) -> Result<()> {
    if horizon > MAX_HORIZON {
        return Err(Error::invalid(format!("the horizon must be at most 2^62 steps, got {horizon}")));
    }
    check_horizon(horizon, MAX_HORIZON, "plan").map(drop)
}

fn check_horizon(horizon: u64, max: u64, mechanism: &str) -> Result<u64> {
    if horizon == 0 {
        return Err(Error::invalid("the horizon must be at least 1 step, got 0"));
    }
    if horizon > max {
        return Err(Error::invalid(format!("the horizon of `{mechanism}` must be at most {max} steps, got {horizon}")));
    }
    Ok(horizon)
}

#[cfg(test)]
mod tests;
