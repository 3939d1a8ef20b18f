//! The smooth binary mechanism: only the leaves whose number has a fixed count of zeros hold data.
//!
//! In a complete binary tree of height `h`, step `i` is stored at the leaf whose number `m(i)` is the `i`-th smallest
//! `h`-bit number with `zeros` zeros. The prefix of `t` steps is everything to the left of `m(t+1)`: one left child per
//! one bit, so every release is a sum of exactly `h - zeros` noise variables and all steps have the same error law. (If
//! the lowest ones of `m(t+1)` are contiguous down to bit 0, their left children hold no data. The published mechanism
//! reads their noise all the same, which makes the noise distribution the same at every step.) (Andersson, Pagh 2023,
//! "A smooth binary mechanism for efficient private continual observation", arXiv 2306.09666; any shape instead of the
//! balanced one.)
//!
//! **Sensitivity.** Step `i` lies in one left child per zero of `m(i)`: at most `zeros`. When the tree is larger than
//! the horizon needs, the topmost zeros are shared by all steps and their nodes are never read: the left child at
//! the `j`-th top position is read first at step `C(h-j, zeros-j)`. Since all steps below that have a zero there, the
//! exact sensitivity is `s1 = s2² = zeros - #{j ≥ 1 : C(h-j, zeros-j) > T}`, reached by step 1.

mod combinations;
mod cursor;
mod leaves;
mod walk;

use crate::mechanism::accounting::chain;
use crate::mechanism::accounting::participation::rounded_up;
use crate::mechanism::accounting::trie::Subtree;
use crate::mechanism::accounting::trie_pairs::StepPairs;
use crate::mechanism::limits::Limits;
use crate::mechanism::name::parameters::Parameters;
use crate::mechanism::walk::Walk;
use crate::mechanism::{
    ColumnNorms, Cost, Criterion, Cursor, GaussianShift, LaplaceShift, Lazy, MAX_HORIZON, Mechanism, MechanismName,
    NoiseKind, Participation, ShapeChoice, check_horizon,
};
use crate::noise::Node;
use crate::privacy::Spread;
use crate::{Error, Result};
use combinations::Binomials;
use cursor::SmoothCursor;
use std::collections::HashMap;
use std::fmt::{self, Display};
use std::sync::Arc;

/// The smooth binary mechanism of shape (`height`, `zeros`).
#[doc(alias = "smooth binary mechanism")]
#[derive(Clone, Debug)]
pub struct Smooth {
    horizon: u64,
    height: u32,
    zeros: u32,
    binomials: Binomials,
}

/// Leaf numbers are stored in u128.
const MAX_HEIGHT: u32 = 127;
/// The best shape by exact accounting is searched among those whose value by column norm is at most this many times the
/// best one's. The others have one zero and very many ones, are good for up to a hundred steps, and draw as many nodes
/// per step.
const MAX_EXACT_CANDIDATE_RATIO: f64 = 2.0;

impl Smooth {
    /// A tree of `height` (2 ..= 127) whose used leaves have `zeros` zeros; it must have more than `horizon` of them.
    pub fn new(horizon: u64, height: u32, zeros: u32) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "smooth")?;
        if !(2..=MAX_HEIGHT).contains(&height) || zeros == 0 || zeros >= height {
            return Err(Error::invalid(format!(
                "`smooth` needs a height h of 2 to {MAX_HEIGHT} and 1 to h-1 zeros, got h={height}, zeros={zeros}"
            )));
        }
        let binomials = Binomials::new(height);
        let leaves = binomials.choose(height, zeros);
        if leaves <= u128::from(horizon) {
            return Err(Error::invalid(format!(
                "`smooth(h={height},zeros={zeros})` serves at most {} steps, fewer than the horizon of {horizon}; \
                 use a larger height or plain `smooth` for the best shape",
                leaves - 1
            )));
        }
        Ok(Self { horizon, height, zeros, binomials })
    }

    /// The published shape: the least even height with enough balanced leaves.
    pub fn published(horizon: u64) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "smooth")?;
        let height = (2..=MAX_HEIGHT)
            .step_by(2)
            .find(|&h| Binomials::new(h).choose(h, h / 2) > u128::from(horizon))
            .expect("C(126, 63) > 2^62");
        Self::new(horizon, height, height / 2)
    }

    /// The shape with the least value among all shapes of height up to 127; of several equal ones, the one with the
    /// smallest height, then the fewest zeros.
    ///
    /// For each number of ones the fewest zeros that give enough leaves are tried: more would leave the topmost zeros
    /// unread, which is the same mechanism. `O(127³)`; by exact accounting a few hundredths of a second up to 2^30
    /// steps, a second for the longest horizon.
    pub fn best(horizon: u64, criterion: &Criterion) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "smooth")?;
        if let Some(participation) = criterion.participation() {
            return Self::best_for(horizon, criterion, participation);
        }
        let binomials = Binomials::new(MAX_HEIGHT);
        let enough = |zeros: &u32, ones: u32| binomials.choose(zeros + ones, ones) > u128::from(horizon);
        let mut shapes: Vec<(f64, Self)> = (1..MAX_HEIGHT)
            .filter_map(|ones| Some((ones, (1..=MAX_HEIGHT - ones).find(|zeros| enough(zeros, ones))?)))
            .map(|(ones, zeros)| Self::new(horizon, ones + zeros, zeros).expect("the shape has enough leaves"))
            .map(|smooth| (criterion.by_column_norm(&smooth), smooth))
            .collect();
        if let Some(events) = criterion.exactly_counted() {
            let most =
                MAX_EXACT_CANDIDATE_RATIO * shapes.iter().map(|(figure, _)| *figure).fold(f64::INFINITY, f64::min);
            shapes.retain(|(figure, _)| *figure <= most);
            let mut tries = Tries { binomials: &binomials, complete: HashMap::new() };
            for (figure, smooth) in shapes.iter_mut().filter(|(figure, _)| figure.is_finite()) {
                *figure = figure.min(events * smooth.exactly(&mut tries) * f64::from(smooth.ones()));
            }
        }
        let best = shapes
            .into_iter()
            .min_by(|(x, a), (y, b)| x.total_cmp(y).then((a.height, a.zeros).cmp(&(b.height, b.zeros))));
        Ok(best.expect("C(126, 63) > 2^62").1)
    }

    /// The same for units that take part in several steps: the better one of the shapes that are the best for one
    /// event, by exact accounting, and for as many events as there are steps of a unit.
    fn best_for(horizon: u64, criterion: &Criterion, participation: Participation) -> Result<Self> {
        let total = participation.within(horizon);
        let counting = Criterion::new(NoiseKind::Gaussian, criterion.objective()).with_watch(criterion.watch());
        let once = Self::best(horizon, &counting.exact())?;
        if total == 1 {
            return Ok(once);
        }
        let several = Self::best(horizon, &counting.with_spread(Spread::new(total, 1)))?;
        Ok(if criterion.figure(&several) < criterion.figure(&once) { several } else { once })
    }

    /// The exact squared sensitivity under Gaussian noise, never too small.
    fn exactly(&self, tries: &mut Tries<'_>) -> f64 {
        // Step t reads the leaf of rank t: no step has rank 0, and ranks above T are not reached.
        let steps = tries.between(self.height, self.ones(), 1, u128::from(self.horizon));
        steps.sensitivity_squared().min(self.column_norms().l2_squared)
    }

    /// Height `h` of the tree and number of zeros of a used leaf.
    pub fn shape(&self) -> (u32, u32) {
        (self.height, self.zeros)
    }

    /// How many of the topmost zeros are shared by all steps, so that their nodes are never read.
    fn unread(&self) -> u32 {
        let first_read = |j: &u32| self.binomials.choose(self.height - j, self.zeros - j);
        (1..=self.zeros).filter(|j| first_read(j) > u128::from(self.horizon)).count() as u32
    }

    fn ones(&self) -> u32 {
        self.height - self.zeros
    }

    /// The number of nodes that the steps read: the 1-edges of the trie of the leaves of rank 1 ..= T.
    fn nodes(&self) -> f64 {
        let ones = self.ones() as usize;
        // Those of all leaves, by their bits and ones. Numbers with a 1 in front share that edge.
        let mut full = vec![vec![0.0; ones + 1]];
        for width in 1..=self.height as usize {
            let shorter = &full[width - 1];
            let of = |count: usize| shorter[count] + shorter[count - 1] + 1.0;
            full.push((0..=ones).map(|count| if count == 0 || count > width { 0.0 } else { of(count) }).collect());
        }
        let (mut nodes, mut ones, mut last) = (0.0, ones, u128::from(self.horizon));
        for width in (0..self.height).rev() {
            // Numbers with a 0 in front come first.
            let first = if ones as u32 > width { 0 } else { self.binomials.choose(width, ones as u32) };
            if ones > 0 && last >= first {
                nodes += full[width as usize][ones] + 1.0;
                (ones, last) = (ones - 1, last - first);
            }
        }
        // No step reads the leaf of rank 0, whose edges no other leaf shares.
        nodes - f64::from(self.ones())
    }

    /// The largest sum over the nodes of a step of a non-decreasing function of the number of steps in a node.
    ///
    /// The left child at a zero of bit `p`, with `o` ones below it, sums `C(p, o)` steps. The largest sum over the
    /// zeros of a leaf number follows bit by bit from the lowest; the topmost zeros that nothing reads are omitted.
    fn largest_column(&self, of_width: impl Fn(u128) -> u128) -> u128 {
        let width = self.height - self.unread();
        // best[o] = largest sum over numbers of the bits so far with o ones.
        let mut best: Vec<Option<u128>> = vec![None; self.ones() as usize + 1];
        best[0] = Some(0);
        for bit in 0..width {
            for ones in (0..best.len()).rev() {
                let node = self.binomials.choose(bit, ones as u32).min(self.horizon.into());
                let zero = best[ones].map(|sum| sum + of_width(node));
                let one = if ones > 0 { best[ones - 1] } else { None };
                best[ones] = zero.max(one);
            }
        }
        best[self.ones() as usize].expect("the width holds all ones")
    }
}

impl Mechanism for Smooth {
    fn name(&self) -> MechanismName {
        MechanismName::Smooth(ShapeChoice::Given { height: self.height, zeros: self.zeros })
    }

    fn horizon(&self) -> u64 {
        self.horizon
    }

    fn has_random_access(&self) -> bool {
        true
    }

    /// The leaf of a step does not depend on the horizon.
    fn through(&self, steps: u64) -> Option<Arc<dyn Mechanism>> {
        Some(Arc::new(Self { horizon: steps, ..self.clone() }))
    }

    fn column_norms(&self) -> ColumnNorms {
        let used = f64::from(self.zeros - self.unread());
        ColumnNorms { l1: used, l2_squared: used }
    }

    fn is_causal(&self) -> bool {
        true
    }

    /// As no node sum exceeds `c_n`, the events that fit into its steps,
    /// `‖R u‖² ≤ Σ_i u_i Σ_{n ∋ i} c_n ≤ total · max_i Σ_{n ∋ i} c_n`.
    fn spread_squared(&self, spread: Spread) -> u128 {
        self.largest_column(|width| spread.within(width)).saturating_mul(spread.total.into())
    }

    /// The exact value for a single step. For several steps, by chains of pairs, and by nodes:
    /// `‖R u‖² ≤ Σ_i u_i Σ_{n ∋ i} min(k, ⌈width_n/b⌉)`.
    fn participation_squared(&self, participation: Participation) -> f64 {
        let largest = self.exact_l2_squared().unwrap_or(f64::INFINITY);
        let mut once = participation.of_any(self.horizon, largest);
        if participation.within(self.horizon) > 1 {
            let leaves = leaves::Leaves::new(self.horizon, self.height, self.ones(), &self.binomials);
            let pairs = StepPairs { trie: &leaves, horizon: self.horizon, largest };
            once = once.min(chain::of_steps(&pairs, participation, chain::MAX_VECTOR_ADDITIONS / 2, 64));
        }
        let column = self.largest_column(|width| participation.within(width as u64).into()); // at most T
        let (times, column) = (participation.within(self.horizon) as f64, column as f64);
        once.min(if times * column < 9e15 { times * column } else { rounded_up(times * column, 4) })
    }

    /// By the trie of leaf numbers: variance 1 on the edge of every one bit. `O(h²)` shapes, each with its frontier.
    fn exact_l2_squared(&self) -> Option<f64> {
        Some(self.exactly(&mut Tries { binomials: &self.binomials, complete: HashMap::new() }))
    }

    /// Every one bit of a leaf number is a node of weight 1 in the trie of leaf numbers, and the last one is the step's
    /// own.
    fn gaussian_shift(&self) -> Option<GaussianShift> {
        let ones = self.ones();
        Some(GaussianShift::from_trie(self.exact_l2_squared()?, 1, 1, ones, f64::from(ones)))
    }

    fn lazy(&self) -> Option<Lazy> {
        let binomials = self.binomials.clone();
        Some(Lazy::Paths(Box::new(walk::LeafWalk { height: self.height, ones: self.ones(), binomials })))
    }

    fn row_norm_squared(&self, _step: u64) -> f64 {
        f64::from(self.ones())
    }

    fn max_row_norm_squared(&self) -> f64 {
        f64::from(self.ones())
    }

    fn mean_row_norm_squared(&self) -> f64 {
        f64::from(self.ones())
    }

    /// The one bits of two leaf numbers above the highest in which they differ. `O(h)`.
    fn row_product(&self, earlier: u64, later: u64) -> f64 {
        if earlier == later {
            return f64::from(self.ones());
        }
        let walk = walk::LeafWalk { height: self.height, ones: self.ones(), binomials: self.binomials.clone() };
        f64::from(walk.shared(earlier, later))
    }

    fn visit_row(&self, step: u64, visit: &mut dyn FnMut(Node, f64)) {
        self.binomials.unrank(step, self.height, self.ones(), |level, _, index| visit(Node { level, index }, 1.0));
    }

    /// A node is named by its level (bit position) and the first step that reads it; it sums the `C(level, ones from
    /// there down)` steps up to that one.
    fn node_span(&self, node: Node) -> (u64, u64) {
        let mut size = 0;
        self.binomials.unrank(node.index, self.height, self.ones(), |position, count, _| {
            if position == node.level {
                size = self.binomials.choose(position, count) as u64;
            }
        });
        (node.index + 1 - size, node.index)
    }

    fn cost(&self) -> Cost {
        Cost::from_draws(self.nodes() / self.horizon as f64, 4 * u64::from(self.ones()) + 4)
    }

    /// A step is in at most one of the nodes at the j-th zero from the top.
    fn laplace(&self) -> std::result::Result<LaplaceShift, &'static str> {
        Ok(LaplaceShift::from_single_nodes((self.zeros - self.unread()).into()))
    }

    fn cursor(&self) -> Box<dyn Cursor> {
        Box::new(SmoothCursor::new(self.height, self.ones(), self.binomials.clone()))
    }
}

/// Tries of leaf numbers; complete ones are cached by their shape.
struct Tries<'a> {
    binomials: &'a Binomials,
    complete: HashMap<(u32, u32), Subtree>,
}

impl Tries<'_> {
    /// The leaves of rank `first ..= last` among the numbers of `width` bits with `ones` ones.
    fn between(&mut self, width: u32, ones: u32, first: u128, last: u128) -> Subtree {
        let leaves = if ones > width { 0 } else { self.binomials.choose(width, ones) };
        if first > last || first >= leaves {
            return Subtree::Empty;
        }
        if width == 0 {
            return Subtree::Bare;
        }
        let complete = first == 0 && last >= leaves - 1;
        if complete && let Some(known) = self.complete.get(&(width, ones)) {
            return known.clone();
        }
        // Numbers with a 0 in front come first.
        let zero_first = if ones > width - 1 { 0 } else { self.binomials.choose(width - 1, ones) };
        let left = if zero_first > 0 {
            self.between(width - 1, ones, first, last.min(zero_first - 1))
        } else {
            Subtree::Empty
        };
        let right = if ones > 0 && last >= zero_first {
            self.between(width - 1, ones - 1, first.saturating_sub(zero_first), last - zero_first).under(1.0)
        } else {
            Subtree::Empty
        };
        let both = left.next_to(&right);
        if complete {
            self.complete.insert((width, ones), both.clone());
        }
        both
    }
}

pub(in crate::mechanism) fn parse(parameters: &mut Parameters<'_>) -> Result<MechanismName> {
    ShapeChoice::parse(parameters).map(MechanismName::Smooth)
}

pub(in crate::mechanism) fn write(f: &mut fmt::Formatter<'_>, shape: ShapeChoice) -> fmt::Result {
    shape.fmt(f)
}

pub(in crate::mechanism) fn build(
    horizon: u64,
    criterion: &Criterion,
    shape: ShapeChoice,
) -> Result<Arc<dyn Mechanism>> {
    Ok(Arc::new(match shape {
        ShapeChoice::Best => Smooth::best(horizon, criterion)?,
        ShapeChoice::Balanced => Smooth::published(horizon)?,
        ShapeChoice::Given { height, zeros } => Smooth::new(horizon, height, zeros)?,
    }))
}

/// For the balanced shape, the limit of the best shape for the largest variance (Andersson, Pagh 2023, arXiv
/// 2306.09666, table 1).
pub(in crate::mechanism) fn limits(name: MechanismName) -> Limits {
    let is_unbalanced = matches!(
        name,
        MechanismName::Smooth(ShapeChoice::Given { height, zeros }) if 2 * zeros != height
    );
    Limits { zcdp: (!is_unbalanced).then_some(0.25), pure: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stated draws are those of the steps, not those of the full tree.
    #[test]
    fn draws_are_counted_over_the_steps() {
        for (horizon, height, zeros) in [(1, 2, 1), (5, 4, 2), (7, 9, 3), (83, 9, 3), (200, 12, 6), (1000, 30, 4)] {
            let smooth = Smooth::new(horizon, height, zeros).unwrap();
            let (mut cursor, mut draws) = (smooth.cursor(), 0u64);
            for _ in 0..horizon {
                cursor.advance(&mut |_| {
                    draws += 1;
                    0
                });
            }
            let stated = smooth.cost().draws_per_step * horizon as f64;
            assert!((stated - draws as f64).abs() < 1e-6, "{horizon} {height} {zeros}: {stated} {draws}");
        }
    }
}
