//! The normal equations of the hats: elimination in the order in which hats end, solutions, and variances of all
//! prefixes.
//!
//! With `D` = diag(`1/W_j²`), the least-squares correction needs `M = I + H D Hᵀ` (see the mechanism's documentation).
//! Order the hats by their last step. A hat that ends later and shares a step with hat `c` covers the last step of `c`,
//! so the later neighbours of `c` overlap each other already: eliminating `c` causes no fill-in, and at any step only
//! the hats over it, two per level, are involved. Along a straight piece sums over steps are combinations of the
//! moments `Σ D_k`, `Σ k D_k` and `Σ k² D_k`.

use super::shape::{HatShape, LinearPiece, SLOTS};

pub(super) type NormalRow = [f64; SLOTS];
type Square = [NormalRow; SLOTS];

/// `M = K Δ Kᵀ` with unit lower triangular `K`, one column for every hat.
pub(super) struct Elimination<'a> {
    shape: &'a HatShape,
    /// In the order of elimination.
    columns: Vec<HatElimination>,
}

/// The result of eliminating one hat.
pub(super) struct HatElimination {
    slot: usize,
    pivot: f64,
    /// Entries of `K` in the slots of later hats.
    multipliers: NormalRow,
}

/// The remainder of `M` on the open hats after the eliminations; a slot without a hat has a row of the unit matrix.
#[derive(Clone)]
pub(super) struct Front(Square);

impl Front {
    /// Before the first piece.
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(unit))
    }

    /// Adds a piece and eliminates the hats that end with it, in the order of elimination.
    pub(super) fn pass<'a>(
        &'a mut self,
        shape: &'a HatShape,
        index: usize,
    ) -> impl Iterator<Item = HatElimination> + 'a {
        let piece = shape.piece(index);
        let (lines, [m0, m1, m2]) = (Lines::of(&piece), moments(&piece, piece.length));
        let (with_value, with_slope) = (lines.summed(m0, m1), lines.summed(m1, m2));
        for (slot, row) in self.0.iter_mut().enumerate() {
            add(row, lines.values[slot], &with_value);
            add(row, lines.slopes[slot], &with_slope);
        }
        shape.closing(index).map(|(level, hat)| eliminate(&mut self.0, 2 * level + hat % 2))
    }
}

/// One more hat in the forward pass: its part of the solution, before later hats are known. `carried` holds the
/// contributions of ended hats to the open ones.
pub(super) fn forward(column: &HatElimination, right: f64, carried: &mut NormalRow) -> f64 {
    let value = right + carried[column.slot];
    add(carried, -value, &column.multipliers);
    carried[column.slot] = 0.0;
    value / column.pivot
}

/// The same hat in the backward pass: its part of the solution joins that of the open ones.
pub(super) fn backward(column: &HatElimination, solution: f64, open: &mut NormalRow) -> f64 {
    let solution = solution - dot(&column.multipliers, open);
    open[column.slot] = solution;
    solution
}

/// The line `k ↦ (Hᵀ μ)_k` along a piece, as value and slope.
pub(super) fn line(piece: &LinearPiece, open: &NormalRow) -> (f64, f64) {
    let hats = Lines::of(piece);
    (dot(&hats.values, open), dot(&hats.slopes, open))
}

/// The straight line of every slot: value at the first step of a piece, and slope.
struct Lines {
    values: NormalRow,
    slopes: NormalRow,
}

impl Lines {
    /// Entries are below 2^32: exact.
    fn of(piece: &LinearPiece) -> Self {
        Self { values: piece.hats.map(|line| line.0 as f64), slopes: piece.hats.map(|line| line.1 as f64) }
    }

    /// Sums over steps with the moments `Σ c_k` and `Σ k c_k` of some weights.
    fn summed(&self, zeroth: f64, first: f64) -> NormalRow {
        std::array::from_fn(|slot| zeroth * self.values[slot] + first * self.slopes[slot])
    }
}

/// `D_k` of the `k`-th step of a piece.
fn variance(piece: &LinearPiece, k: u64) -> f64 {
    let weight = (piece.identity.0 + k as i64 * piece.identity.1) as f64;
    1.0 / (weight * weight)
}

/// `Σ D_k`, `Σ k D_k`, `Σ k² D_k` over the first steps of a piece.
fn moments(piece: &LinearPiece, steps: u64) -> [f64; 3] {
    (0..steps).fold([0.0; 3], |[zeroth, first, second], k| {
        let (d, k) = (variance(piece, k), k as f64);
        [zeroth + d, first + k * d, second + k * k * d]
    })
}

fn dot(a: &NormalRow, b: &NormalRow) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Adds a multiple of a row.
fn add(to: &mut NormalRow, factor: f64, row: &NormalRow) {
    to.iter_mut().zip(row).for_each(|(to, entry)| *to += factor * entry);
}

/// The product of a symmetric matrix and a vector, row by row: several entries at once.
fn times(matrix: &Square, vector: &NormalRow) -> NormalRow {
    matrix.iter().zip(vector).fold([0.0; SLOTS], |mut sum, (row, factor)| {
        add(&mut sum, *factor, row);
        sum
    })
}

/// The state at the start of a piece in the forward pass: the variance of the prefix given everything that has ended,
/// and its covariance with the measurements of the hats over it.
#[derive(Clone, Copy)]
struct Prefix {
    variance: f64,
    open: NormalRow,
}

impl<'a> Elimination<'a> {
    /// `O(T + n l²)` for `n` hats on `l` levels.
    pub(super) fn new(shape: &'a HatShape) -> Self {
        let mut columns = Vec::with_capacity(shape.hat_count());
        let mut front = Front::new();
        (0..shape.pieces()).for_each(|index| columns.extend(front.pass(shape, index)));
        Self { shape, columns }
    }

    /// The columns that are eliminated after each piece, last piece first.
    fn backwards(&self) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> + '_ {
        let mut end = self.columns.len();
        (0..self.shape.pieces()).rev().map(move |piece| {
            let first = end - self.shape.closing(piece).count();
            (piece, first..std::mem::replace(&mut end, first))
        })
    }

    /// Solves `M μ = right` for a right side in the order of elimination. Returns `μ` and, for every piece, the line
    /// `k ↦ (Hᵀ μ)_k` as value and slope.
    pub(super) fn solve(&self, right: &[f64]) -> (Vec<f64>, Vec<(f64, f64)>) {
        let mut carried = [0.0; SLOTS];
        let mut solution: Vec<f64> = Vec::with_capacity(right.len());
        for (column, right) in self.columns.iter().zip(right) {
            solution.push(forward(column, *right, &mut carried));
        }
        let mut open = [0.0; SLOTS];
        let mut lines = vec![(0.0, 0.0); self.shape.pieces()];
        for (index, closing) in self.backwards() {
            for column in closing.rev() {
                solution[column] = backward(&self.columns[column], solution[column], &mut open);
            }
            lines[index] = line(&self.shape.piece(index), &open);
        }
        (solution, lines)
    }

    /// `H D a_t`: the part of every hat in the first `step` steps, in the order of elimination.
    pub(super) fn covered(&self, step: u64) -> Vec<f64> {
        let (mut open, mut covered) = ([0.0; SLOTS], Vec::with_capacity(self.columns.len()));
        for index in 0..self.shape.pieces() {
            let piece = self.shape.piece(index);
            let steps = (step + 1).saturating_sub(piece.first).min(piece.length);
            let (lines, [m0, m1, _]) = (Lines::of(&piece), moments(&piece, steps));
            add(&mut open, 1.0, &lines.summed(m0, m1));
            for (level, hat) in self.shape.closing(index) {
                covered.push(std::mem::take(&mut open[2 * level + hat % 2]));
            }
        }
        covered
    }

    /// The variance of the prefix from single steps alone: the sum of `D` over the first `step` steps.
    pub(super) fn alone(&self, step: u64) -> f64 {
        let pieces = (0..self.shape.pieces()).map(|index| self.shape.piece(index));
        pieces.map(|piece| moments(&piece, (step + 1).saturating_sub(piece.first).min(piece.length))[0]).sum()
    }

    /// `‖L_t‖²` of all steps, the variance of the prefix: that given all hats that have ended, minus the contribution
    /// of the others.
    ///
    /// With `f` the covariance of the prefix with the open hats, given those that have ended, the rest is `fᵀ Z f`,
    /// where `Z` is the block of `M⁻¹` on the open hats: the inverse of the remainder after eliminating all *other*
    /// hats. Along a piece `f` is a combination of three vectors, so the cost of a step is a quadratic form of three
    /// variables. `O(T + n l²)`.
    pub(super) fn prefix_variances(&self) -> Vec<f64> {
        let prefixes = self.prefixes();
        let mut inverse: Square = [[0.0; SLOTS]; SLOTS];
        let mut variances = vec![0.0; self.shape.horizon as usize];
        for (index, closing) in self.backwards() {
            for column in closing.rev() {
                self.columns[column].reopen(&mut inverse);
            }
            let piece = self.shape.piece(index);
            let (lines, prefix) = (Lines::of(&piece), &prefixes[index]);
            let vectors = [&prefix.open, &lines.values, &lines.slopes];
            let gram = vectors.map(|vector| {
                let image = times(&inverse, vector);
                vectors.map(|other| dot(&image, other))
            });
            let (mut m0, mut m1) = (0.0, 0.0);
            for k in 0..piece.length {
                let d = variance(&piece, k);
                m0 += d;
                m1 += k as f64 * d;
                let explained_part = gram[0][0]
                    + 2.0 * (m0 * gram[0][1] + m1 * gram[0][2])
                    + m0 * (m0 * gram[1][1] + 2.0 * m1 * gram[1][2])
                    + m1 * m1 * gram[2][2];
                variances[(piece.first + k) as usize - 1] = prefix.variance + m0 - explained_part;
            }
        }
        variances
    }

    /// The state at the start of every piece.
    fn prefixes(&self) -> Vec<Prefix> {
        let mut now = Prefix { variance: 0.0, open: [0.0; SLOTS] };
        let mut columns = self.columns.iter();
        let after = |index: usize| {
            let before = now;
            let piece = self.shape.piece(index);
            let (lines, [m0, m1, _]) = (Lines::of(&piece), moments(&piece, piece.length));
            add(&mut now.open, 1.0, &lines.summed(m0, m1));
            now.variance += m0;
            for column in columns.by_ref().take(self.shape.closing(index).count()) {
                let covariance = now.open[column.slot];
                now.variance -= covariance * covariance / column.pivot;
                add(&mut now.open, -covariance, &column.multipliers);
                now.open[column.slot] = 0.0;
            }
            before
        };
        (0..self.shape.pieces()).map(after).collect()
    }
}

/// Row `i` of the unit matrix.
fn unit(i: usize) -> NormalRow {
    let mut row = [0.0; SLOTS];
    row[i] = 1.0;
    row
}

/// Eliminates a slot and leaves it empty.
fn eliminate(front: &mut Square, slot: usize) -> HatElimination {
    let row = std::mem::replace(&mut front[slot], unit(slot));
    let pivot = row[slot];
    let mut multipliers = row.map(|entry| entry / pivot);
    multipliers[slot] = 0.0;
    for (other, multiplier) in front.iter_mut().zip(&multipliers).filter(|(_, m)| **m != 0.0) {
        add(other, -multiplier, &row);
        other[slot] = 0.0;
    }
    HatElimination { slot, pivot, multipliers }
}

impl HatElimination {
    /// One step of Takahashi's recursion: adds the row and column of this hat to the inverse on the open hats, from
    /// those of the later hats it has multipliers for. `Kᵀ M⁻¹ = Δ⁻¹ K⁻¹` is lower triangular, hence
    /// `Z_cb = -Σ_m K_mc Z_mb` and `Z_cc = 1/Δ_c - Σ_m K_mc Z_mc`.
    fn reopen(&self, inverse: &mut Square) {
        let mut row: NormalRow = [0.0; SLOTS];
        for (later, multiplier) in inverse.iter().zip(&self.multipliers).filter(|(_, m)| **m != 0.0) {
            add(&mut row, -multiplier, later);
        }
        row[self.slot] = 0.0;
        row[self.slot] = 1.0 / self.pivot - dot(&self.multipliers, &row);
        for (other, entry) in inverse.iter_mut().zip(&row) {
            other[self.slot] = *entry;
        }
        inverse[self.slot] = row;
    }
}
