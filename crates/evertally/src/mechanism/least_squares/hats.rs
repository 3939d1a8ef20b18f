//! Overlapping hats: every step is measured alone, and at every scale sums with overlapping triangular weights.
//!
//! Level `l` has a hat on every knot, knots are `w_l` apart, and a hat falls to 0 at the neighbouring knots. The last
//! knot, where no hat stands, is `T + 1`; before its knot the first hat is constant. (A hat at the end would add little
//! to the single steps; searches over all factorizations drop it, too.) Entries are whole numbers, `slope · distance`,
//! so the single step's weight `W_j` can be the remainder of the column sum `s1` after all hats: every column of `R`
//! has L1 norm `s1` exactly.
//!
//! The share of the budget that a level takes changes along the steps ([`HatLevels`]): early steps are in all later
//! prefixes, so coarse sums are worth more there. Compared with levels that are cut at the ends and have constant
//! shares, both together lower the mean variance by a tenth and the largest by a sixth.
//!
//! `L = A R⁺` is weighted least squares. For Laplace noise this has less error than blocks (`consistent`): hats of one
//! level capture trends, not jumps, and the part cut off by the end of a prefix is small.
//!
//! **Estimate.** Let `H` be the hats, `D` = diag(`1/W_j²`), `y_0 = W x + z_0` and `y = H x + z`. A step alone is
//! estimated by `y_0j / W_j`, with variance `D_jj`. The discrepancy `r_b = y_b - Σ_j H_bj y_0j / W_j` has covariance
//! `M = I + H D Hᵀ` and covariance `-D Hᵀ` with the estimates' errors, so the best linear unbiased estimate is
//! `y_0 / W + D Hᵀ M⁻¹ r`, and the prefix has `L_t: (a_t - Hᵀ m) / W` on single steps and `m = M⁻¹ H D a_t` on hats.
//! `normal.rs` solves with `M`.
//!
//! **Exact release.** Let `e_j` be `2^20 z_0j / W_j` rounded. As `x_j` is a whole number, `2^20 x_j + e_j` is
//! `2^20 y_0j / W_j` rounded, a function of the protected sum `y_0j`. So are the whole numbers
//!
//! ```text
//! d_b = 2^20 z_b - Σ_j H_bj e_j = 2^20 y_b - Σ_j H_bj (2^20 x_j + e_j),
//! ```
//!
//! in which `x` cancels. The release is `A x` plus `Σ_{j≤t} e_j` plus `G_t(d)`, rounded one by one to `2^-8` of the
//! grid: a function of the protected sums for *any* `G`. Here `G` is the correction above in floating point. Its
//! rounding costs accuracy (far below `2^-8` of the noise) and no privacy; with the four basic operations only, it is
//! the same on every machine.

mod blocks;
mod cursor;
mod normal;
mod search;
mod shape;
mod stretches;

use super::at_once::AtOnce;
use crate::Result;
use crate::mechanism::accounting::row_norms::RowNorms;
use crate::mechanism::name::parameters::Parameters;
use crate::mechanism::rounding::FRACTION_BITS;
use crate::mechanism::{
    ColumnNorms, Cost, Criterion, Cursor, DensePair, LaplaceShift, Matrix, Mechanism, MechanismName, RowLaw,
    check_horizon,
};
use crate::mechanism::{HatChoice, HatLevels};
use crate::noise::Node;
use crate::privacy::Spread;
use blocks::ShapeSummary;
use cursor::{hat_node, step_node};
use normal::Elimination;
use shape::HatShape;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Single steps and levels of overlapping hats.
#[doc(alias = "hierarchical")]
#[doc(alias = "wavelet")]
#[derive(Clone, Debug)]
pub struct Hats {
    shape: Arc<HatShape>,
    /// Computed on first use.
    row_norms: Arc<OnceLock<RowNorms>>,
    blocks: Arc<OnceLock<ShapeSummary>>,
}

/// Longest horizon: the first release draws the noise of all steps.
const MAX_HORIZON: u64 = 1 << 22;
/// Longest horizon for which a cursor keeps all releases; beyond it, the cursor draws again.
const MAX_CACHED_HORIZON: u64 = 1 << 14;

impl Hats {
    /// Hats over `horizon` steps (1 ..= 2^22) with these spacings and shares. `O(n)` for `n` hats; the first request
    /// for a variance takes `O(T)`.
    ///
    /// # Errors
    /// If a spacing exceeds the horizon, or the shares leave a single step less than 1/256 of its budget.
    ///
    /// ```
    /// use evertally::mechanism::{Hats, Mechanism};
    /// let hats = Hats::new(512, &"spacing=12/150,first=480/417,last=516/257".parse()?)?;
    /// let s1 = hats.column_norms().l1;
    /// assert!(2.0 * s1 * s1 * hats.mean_row_norm_squared() < 72.1);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn new(horizon: u64, levels: &HatLevels) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "hats")?;
        Ok(Self::from_shape(HatShape::new(horizon, *levels)?))
    }

    /// The same with columns of this sum, a power of two, at least `2^9` of the widest spacing and at most `2^32`.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(in crate::mechanism) fn with_total(horizon: u64, levels: &HatLevels, total: u64) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "hats")?;
        Ok(Self::from_shape(HatShape::with_total(horizon, *levels, total)?))
    }

    fn from_shape(shape: HatShape) -> Self {
        Self { shape: Arc::new(shape), row_norms: Arc::default(), blocks: Arc::default() }
    }

    fn row_norms(&self) -> &RowNorms {
        self.row_norms.get_or_init(|| RowNorms::new(Elimination::new(&self.shape).prefix_variances()))
    }

    /// An entry of `R`.
    pub(in crate::mechanism) fn entry(&self, node: Node, step: u64) -> u64 {
        match (node.level as usize).checked_sub(1) {
            None => self.shape.identity(step) * u64::from(node.index + 1 == step),
            Some(level) => {
                let mut over = self.shape.over(step);
                let own = over.find(|(other, hat, _)| (*other, *hat as u64) == (level, node.index));
                own.map_or(0, |(_, _, entry)| entry)
            }
        }
    }

    /// The same as [`spread_squared`](Mechanism::spread_squared), or over long horizons a bound of it that is fast
    /// after the first call.
    pub(in crate::mechanism) fn spread_squared_by_blocks(&self, spread: Spread) -> u128 {
        if self.shape.horizon <= MAX_CACHED_HORIZON {
            return self.spread_squared(spread);
        }
        let blocks = self.blocks.get_or_init(|| ShapeSummary::new(&self.shape));
        blocks.capped_column(spread).saturating_mul(spread.total.into())
    }

    /// This many equal terms have a fourth moment no smaller than a row of this squared norm: see
    /// [`row_law`](Mechanism::row_law).
    pub(in crate::mechanism) fn terms(&self, norm_squared: f64) -> f64 {
        let least = self.shape.least_height as f64;
        (norm_squared * least * least).floor().max(1.0)
    }
}

impl Mechanism for Hats {
    fn name(&self) -> MechanismName {
        MechanismName::Hats(HatChoice::Given(self.shape.levels))
    }

    fn horizon(&self) -> u64 {
        self.shape.horizon
    }

    /// `O(n l)` for `n` hats on `l` levels.
    fn column_norms(&self) -> ColumnNorms {
        let squares = self.shape.column_squares();
        let nearest = squares as f64;
        let l2_squared = if (nearest as u128) < squares { nearest.next_up() } else { nearest };
        ColumnNorms { l1: self.shape.total as f64, l2_squared }
    }

    /// A node's sum is at most `c_n`, the lesser of `total` times its largest entry and `per_step` times the sum of its
    /// entries, so `‖R u‖² ≤ Σ_n c_n Σ_i u_i R_ni ≤ total · max_i Σ_n R_ni c_n`. It is also at most `total² · s2²`.
    fn spread_squared(&self, spread: Spread) -> u128 {
        let capped = self.shape.capped_column(spread).min(u128::from(spread.total) * self.shape.column_squares());
        capped.saturating_mul(spread.total.into())
    }

    /// `L = A R⁺`, so that `C⁻¹ = A⁻ᵀ RᵀR A⁻¹` and `a_iᵀ C⁻¹ a_i` is the column norm: exact accounting gains nothing.
    fn exact_l2_squared(&self) -> Option<f64> {
        Some(self.column_norms().l2_squared)
    }

    fn row_norm_squared(&self, step: u64) -> f64 {
        self.row_norms().at(step)
    }

    fn max_row_norm_squared(&self) -> f64 {
        self.row_norms().max()
    }

    fn mean_row_norm_squared(&self) -> f64 {
        self.row_norms().mean()
    }

    fn fraction_bits(&self) -> u32 {
        FRACTION_BITS
    }

    fn cursor(&self) -> Box<dyn Cursor> {
        if self.horizon() <= MAX_CACHED_HORIZON {
            return Box::new(AtOnce::new(self.shape.clone()));
        }
        Box::new(stretches::CheckpointedCursor::new(self.shape.clone()))
    }

    /// One term is always enough, as no fourth moment exceeds the square of the second. Larger numbers assume that no
    /// weight of the row exceeds 1 over its node's largest entry. Some weights exceed it by a tenth, but most are far
    /// smaller, and the tests check the fourth moments of all rows of many shapes against this.
    fn row_law(&self, step: u64) -> RowLaw {
        let norm_squared = self.row_norm_squared(step);
        RowLaw::Like { norm_squared, terms: self.terms(norm_squared) as u64 }
    }

    /// `Σ_{j≤s} D_jj - q_sᵀ M⁻¹ q_t` with `q = H D a`. `O(T + n l²)`.
    fn row_product(&self, earlier: u64, later: u64) -> f64 {
        let elimination = Elimination::new(&self.shape);
        let solved = elimination.solve(&elimination.covered(later)).0;
        let explained: f64 = elimination.covered(earlier).iter().zip(solved).map(|(q, m)| q * m).sum();
        elimination.alone(earlier) - explained
    }

    /// `O(T + n l²)`: the estimate of one prefix reads every node.
    fn visit_row(&self, step: u64, visit: &mut dyn FnMut(Node, f64)) {
        let elimination = Elimination::new(&self.shape);
        let (weights, lines) = elimination.solve(&elimination.covered(step));
        let mut weights = weights.into_iter();
        for (index, (value, slope)) in lines.into_iter().enumerate() {
            let piece = self.shape.piece(index);
            for k in 0..piece.length {
                let own = if piece.first + k <= step { 1.0 } else { 0.0 };
                let weight = (piece.identity.0 + k as i64 * piece.identity.1) as f64;
                visit(step_node(piece.first + k), (own - (value + k as f64 * slope)) / weight);
            }
            for ((level, hat), weight) in self.shape.closing(index).zip(weights.by_ref()) {
                visit(hat_node(level, hat), weight);
            }
        }
    }

    fn noise_path(&self, draw: &mut dyn FnMut(Node) -> f64) -> Vec<f64> {
        cursor::path(&self.shape, draw)
    }

    fn node_span(&self, node: Node) -> (u64, u64) {
        match (node.level as usize).checked_sub(1) {
            None => (node.index + 1, node.index + 1),
            Some(level) => self.shape.support(level, node.index as usize),
        }
    }

    /// The largest entry: a hat's row of `R` is not constant.
    fn node_weight(&self, node: Node) -> f64 {
        match (node.level as usize).checked_sub(1) {
            None => self.shape.identity(node.index + 1) as f64,
            Some(level) => self.shape.height(level, node.index as usize) as f64,
        }
    }

    /// While it solves; for short horizons, two words per step remain.
    fn cost(&self) -> Cost {
        let nodes = 1.0 + self.shape.hat_count() as f64 / self.horizon() as f64;
        if self.horizon() <= MAX_CACHED_HORIZON {
            return Cost::from_draws(nodes, 4 * self.horizon() + 20 * self.shape.hat_count() as u64);
        }
        let (times, words) = stretches::cost(self.shape.pieces() as u64);
        Cost::from_draws(times * nodes, words)
    }

    fn laplace(&self) -> std::result::Result<LaplaceShift, &'static str> {
        Ok(LaplaceShift::together(self.shape.total))
    }

    fn dense(&self) -> DensePair {
        let mut pair = crate::mechanism::factorization::dense_pair(self);
        pair.r = Matrix::zeros(pair.nodes.len(), self.horizon() as usize);
        for step in 1..=self.horizon() {
            let column = step as usize - 1;
            let place = |node: Node| pair.nodes.binary_search(&node).expect("every row of L has all nodes");
            pair.r.set(place(step_node(step)), column, self.shape.identity(step) as f64);
            for (level, hat, entry) in self.shape.over(step) {
                pair.r.set(place(hat_node(level, hat)), column, entry as f64);
            }
        }
        pair
    }
}

pub(in crate::mechanism) fn parse(parameters: &mut Parameters<'_>) -> Result<MechanismName> {
    Ok(MechanismName::Hats(HatChoice::parse(parameters)?))
}

pub(in crate::mechanism) fn write(f: &mut fmt::Formatter<'_>, choice: HatChoice) -> fmt::Result {
    write!(f, "{choice}")
}

pub(in crate::mechanism) fn build(
    horizon: u64,
    criterion: &Criterion,
    choice: HatChoice,
) -> Result<Arc<dyn Mechanism>> {
    let aim = (criterion.objective(), criterion.watch());
    Ok(Arc::new(match choice {
        HatChoice::Best => Hats::searched(horizon, aim)?,
        HatChoice::Spaced(spacings) => {
            let count = spacings.iter().position(|w| *w == 0).unwrap_or(spacings.len());
            Hats::spaced(horizon, &spacings[..count], aim)?
        }
        HatChoice::Given(levels) => Hats::new(horizon, &levels)?,
    }))
}

pub(in crate::mechanism) fn brief(name: MechanismName) -> MechanismName {
    match name {
        MechanismName::Hats(choice) => MechanismName::Hats(choice.brief()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
