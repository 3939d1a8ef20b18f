//! One epoch: the mechanism inside, the node of its total, and how both estimates of the total are mixed.

use super::grids::{GUARD, NOISE_BITS, WEIGHT_BITS};
use super::growing::Growing;
use crate::mechanism::rounding::FRACTION_BITS;
use crate::mechanism::{
    Blt, Buffers, ColumnNorms, ColumnScaling, DigitTree, HatLevels, Hats, MatrixDigest, Mechanism, SearchWatch,
};
use crate::noise::Node;
use crate::number::power;
use crate::privacy::Spread;
use crate::{Error, Result};

/// The mix is a multiple of `2^-20`.
const MIX_BITS: u32 = 20;
/// Levels of nodes of one epoch; the last one is that of its total.
const LEVELS: u32 = 64;

/// An epoch and the values computed for it.
#[derive(Clone, Debug)]
pub(super) struct Epoch {
    /// Steps before it.
    pub(super) before: u64,
    /// Its last step.
    pub(super) last: u64,
    pub(super) inner: Inner,
    /// The total counts this many times `2^-14` in its own node; 0 if there is no such node.
    own: u32,
    /// The weight of that node's estimate of the total, in units of `2^-20`.
    mix: u32,
    /// The variance of the estimates of all totals before, over that of a node.
    pub(super) base: f64,
    /// Likewise the sum of the fourth powers of the entries of `L` for these totals, if trees are inside.
    pub(super) base_fourth: f64,
}

/// The mechanism inside an epoch.
#[derive(Clone, Debug)]
pub(super) enum Inner {
    /// Protects columns with its own weights, and returns noise in units of the data.
    Filter(Blt),
    /// The same with buffers whose memory grows.
    Growing(Box<Growing>),
    /// Every node counts this many times `2^-14`.
    Tree(DigitTree, u32),
    /// Columns sum to `2^32`; the number is `‖L_t‖²` of the last step, for columns that sum to 1.
    Hats(Box<Hats>, f64),
}

/// A node of the mechanism inside the epoch of this number.
pub(super) fn inside(epoch: usize, node: Node) -> Node {
    Node { level: epoch as u32 * LEVELS + node.level, index: node.index }
}

/// The node of the epoch's total.
pub(super) fn own(epoch: usize) -> Node {
    Node { level: epoch as u32 * LEVELS + LEVELS - 1, index: 0 }
}

/// The epoch's number of a node, and the node inside; `None` for the node of the total.
pub(super) fn parts(node: Node) -> (usize, Option<Node>) {
    let (epoch, level) = ((node.level / LEVELS) as usize, node.level % LEVELS);
    (epoch, (level + 1 < LEVELS).then_some(Node { level, index: node.index }))
}

/// A BLT that leaves this share to the node of the total.
pub(super) fn part(steps: u64, columns: ColumnScaling, buffers: Buffers, own: u32) -> Result<Blt> {
    Blt::part(steps, columns, buffers, rest(own), NOISE_BITS)
}

/// `⌊√(2^28 - own²)⌋`: the remainder of a column of length `2^14`.
pub(super) fn rest(own: u32) -> u32 {
    ((1u64 << (2 * WEIGHT_BITS)) - u64::from(own).pow(2)).isqrt() as u32 // fits: at most 2^14
}

impl Inner {
    /// A tree of disjoint nodes, one per step in every level, with a weight that follows from the number of levels.
    pub(super) fn tree(steps: u64, arity: u64, weight: impl FnOnce(f64) -> f64) -> Result<Self> {
        let tree = DigitTree::subtractive(steps, arity)?;
        let levels = tree.column_norms().l1;
        Ok(Self::Tree(tree, (weight(levels) * (1.0 - 1e-9)) as u32))
    }

    /// Hats with the whole budget; `last` is `‖L_t‖²` of the last step.
    pub(super) fn hats(steps: u64, levels: &HatLevels, last: f64) -> Result<Self> {
        Ok(Self::Hats(Box::new(Hats::with_total(steps, levels, 1 << NOISE_BITS)?), last))
    }

    pub(super) fn mechanism(&self) -> &dyn Mechanism {
        match self {
            Self::Filter(blt) => blt,
            Self::Growing(filter) => &**filter,
            Self::Tree(tree, _) => tree,
            Self::Hats(hats, _) => &**hats,
        }
    }

    /// The factor by which the noise of a node of the mechanism counts in its releases.
    fn scale(&self) -> f64 {
        match self {
            Self::Filter(_) | Self::Growing(_) => 1.0,
            Self::Tree(_, weight) => one() / f64::from(*weight),
            Self::Hats(..) => libm::exp2(f64::from(NOISE_BITS)),
        }
    }

    pub(super) fn is_causal(&self) -> bool {
        self.mechanism().is_causal()
    }

    pub(super) fn cost(&self) -> crate::mechanism::Cost {
        self.mechanism().cost()
    }

    pub(super) fn node_span(&self, node: Node) -> (u64, u64) {
        self.mechanism().node_span(node)
    }
}

/// The weight 1.
fn one() -> f64 {
    libm::exp2(f64::from(WEIGHT_BITS))
}

impl Epoch {
    /// The next epoch, up to the step `last`.
    pub(super) fn after(earlier: Option<&Self>, last: u64, inner: Inner, own: u32) -> Result<Self> {
        if own >= 1 << WEIGHT_BITS {
            return Err(Error::invalid("the total of an epoch must have a share between 0 and 1"));
        }
        let (before, base) = earlier.map_or((0, 0.0), |earlier| (earlier.last, earlier.base + earlier.total()));
        let base_fourth = earlier.map_or(0.0, |earlier| earlier.base_fourth + earlier.total_fourth());
        let mut epoch = Self { before, last, inner, own, mix: 0, base, base_fourth };
        let (variance, share) = (epoch.last_norm(), epoch.own_entry() * epoch.own_entry());
        epoch.mix = libm::round(variance * share / (1.0 + variance * share) * libm::exp2(f64::from(MIX_BITS))) as u32;
        Ok(epoch)
    }

    /// The weight of the estimate by the total's own node.
    pub(super) fn mix(&self) -> f64 {
        f64::from(self.mix) / libm::exp2(f64::from(MIX_BITS))
    }

    pub(super) fn is_tree(&self) -> bool {
        matches!(self.inner, Inner::Tree(..))
    }

    /// Whether its total has a separate node.
    pub(super) fn has_own(&self) -> bool {
        self.own > 0
    }

    /// `U`, the entry in `R` of the separate node of the total.
    pub(super) fn own_entry(&self) -> f64 {
        f64::from(self.own) / one()
    }

    /// The entry of `L` for that node once the epoch is over.
    pub(super) fn own_weight(&self) -> f64 {
        if self.has_own() { self.mix() * (one() / f64::from(self.own)) } else { 0.0 }
    }

    /// `‖L_s‖²` inside at the last step.
    fn last_norm(&self) -> f64 {
        match &self.inner {
            Inner::Hats(_, last) => *last,
            _ => self.inner_norm(self.last - self.before),
        }
    }

    /// The variance of the estimate of this epoch's total.
    fn total(&self) -> f64 {
        let (inner, own) = ((1.0 - self.mix()), self.own_weight());
        inner * inner * self.last_norm() + own * own
    }

    /// The sum of the fourth powers of the entries of `L` for the estimate of this epoch's total.
    fn total_fourth(&self) -> f64 {
        let (inner, own) = (power(1.0 - self.mix(), 4), power(self.own_weight(), 4));
        inner * self.fourth_of(self.last_norm()) + own
    }

    /// The same for a step of a tree or of hats inside.
    pub(super) fn inner_fourth(&self, step: u64) -> f64 {
        match &self.inner {
            Inner::Filter(_) | Inner::Growing(_) => 0.0,
            _ => self.fourth_of(self.inner_norm(step)),
        }
    }

    /// From `‖L_s‖²` inside: the nodes of a tree are equally weighted, those of hats at most like this many equal ones.
    fn fourth_of(&self, norm: f64) -> f64 {
        let square = self.inner.scale() * self.inner.scale();
        match &self.inner {
            Inner::Filter(_) | Inner::Growing(_) => 0.0,
            Inner::Tree(..) => norm * square,
            Inner::Hats(hats, _) => norm * norm / hats.terms(norm / square),
        }
    }

    /// The L1 norm of a column, in noise steps, of a tree inside.
    pub(super) fn column_steps(&self) -> u64 {
        let inner = match &self.inner {
            Inner::Filter(_) | Inner::Growing(_) => 0,
            Inner::Tree(tree, weight) => u64::from(*weight) * tree.column_norms().l1 as u64,
            Inner::Hats(..) => 1 << WEIGHT_BITS,
        };
        // fits: the weights of a column sum to 2^14 at most
        (inner + u64::from(self.own)) << (NOISE_BITS - WEIGHT_BITS)
    }

    /// From both estimates of the total, in units of `2^-24`: their mean.
    pub(super) fn mixed(&self, by_inner: i128, by_own: i128) -> i128 {
        by_inner + (((by_own - by_inner) * i128::from(self.mix)) >> MIX_BITS)
    }

    /// The number of noise steps that one unit of the total counts in its own node.
    pub(super) fn own_steps(&self) -> i128 {
        i128::from(self.own) << (NOISE_BITS - WEIGHT_BITS)
    }

    /// The noise inside, in units of `2^-24`: of a tree, from noise steps (a fixed number of which are one unit of the
    /// data); of hats, from units of the data. `None` if it depends on the data, as for filters.
    pub(super) fn inner_noise(&self, value: i128) -> Option<i128> {
        match &self.inner {
            Inner::Filter(_) | Inner::Growing(_) => None,
            Inner::Tree(_, weight) => {
                let steps = i128::from(*weight) << (NOISE_BITS - WEIGHT_BITS);
                Some((value << (FRACTION_BITS + GUARD)).div_euclid(steps))
            }
            Inner::Hats(..) => Some(value << GUARD),
        }
    }

    /// `‖L_s‖²` inside.
    pub(super) fn inner_norm(&self, step: u64) -> f64 {
        self.inner.scale() * self.inner.scale() * self.inner.mechanism().row_norm_squared(step)
    }

    pub(super) fn inner_product(&self, earlier: u64, later: u64) -> f64 {
        self.inner.scale() * self.inner.scale() * self.inner.mechanism().row_product(earlier, later)
    }

    /// The largest and the mean `‖L_s‖²` inside over the first `steps` steps (of a tree, of hats: over all).
    pub(super) fn inner_norms(&self, steps: u64) -> (f64, f64) {
        let (max, mean) = match &self.inner {
            Inner::Filter(blt) => blt.norms_through(steps),
            Inner::Growing(filter) => filter.norms_through(steps),
            other => (other.mechanism().max_row_norm_squared(), other.mechanism().mean_row_norm_squared()),
        };
        (self.inner.scale() * self.inner.scale() * max, self.inner.scale() * self.inner.scale() * mean)
    }

    pub(super) fn visit_inner(&self, step: u64, visit: &mut dyn FnMut(Node, f64)) {
        self.inner.mechanism().visit_row(step, &mut |node, entry| visit(node, entry * self.inner.scale()));
    }

    /// The entry of a node's row of `R` at a step of the epoch, both of the inner mechanism.
    pub(super) fn inner_entry(&self, node: Node, step: u64) -> f64 {
        match &self.inner {
            Inner::Filter(blt) if step <= node.index + 1 => blt.entry(node.index + 1, step),
            Inner::Growing(filter) if step <= node.index + 1 => filter.entry(node.index + 1, step),
            Inner::Filter(_) | Inner::Growing(_) => 0.0,
            Inner::Tree(tree, _) => {
                let (first, last) = tree.node_span(node);
                if (first..=last).contains(&step) { 1.0 / self.inner.scale() } else { 0.0 }
            }
            Inner::Hats(hats, _) => hats.entry(node, step) as f64 / self.inner.scale(),
        }
    }

    pub(super) fn column_norms(&self) -> ColumnNorms {
        let inner = self.inner.mechanism().column_norms();
        let (scale, own) = (self.inner.scale(), self.own_entry());
        ColumnNorms {
            l1: inner.l1 / scale + own,
            l2_squared: (inner.l2_squared / (scale * scale) + own * own) * (1.0 + 1e-12),
        }
    }

    /// `E √T` of the rounding inside.
    pub(super) fn slack(&self) -> f64 {
        match &self.inner {
            Inner::Filter(blt) => blt.slack(),
            Inner::Growing(filter) => filter.slack(),
            Inner::Tree(..) | Inner::Hats(..) => 0.0,
        }
    }

    /// A bound of [`largest_squares`](Self::largest_squares) divided by the number of events, over all numbers up to
    /// each of these, which are more than one step may have; `None` if the mechanism inside has none. The ratio for
    /// hats never falls: it is `max_i Σ_n R_ni c_n`, where no `c_n` falls.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) if the watch cancels the computation, here and below.
    pub(super) fn largest_ratios(
        &self,
        spread: Spread,
        events: &[u64],
        watch: SearchWatch<'_>,
    ) -> Result<Option<Vec<f64>>> {
        Ok(match &self.inner {
            _ if self.has_own() => None,
            Inner::Hats(..) => {
                let squares = self.largest_squares(spread, events, watch)?;
                Some(squares.into_iter().zip(events).map(|(squared, events)| squared / *events as f64).collect())
            }
            Inner::Growing(filter) => Some(filter.largest_ratios(spread, events)),
            Inner::Filter(_) | Inner::Tree(..) => None,
        })
    }

    /// The largest `‖R u‖²` over the counts of a unit in this epoch alone, never below the true value, for several
    /// numbers of events in non-decreasing order.
    pub(super) fn largest_squares(&self, spread: Spread, events: &[u64], watch: SearchWatch<'_>) -> Result<Vec<f64>> {
        let square = self.inner.scale() * self.inner.scale();
        let inner = match &self.inner {
            Inner::Filter(blt) => blt.largest_squares(spread, events, watch)?,
            Inner::Growing(filter) => filter.largest_squares(spread, events),
            Inner::Hats(hats, _) => {
                let of = |events: &u64| {
                    watch.check()?;
                    Ok(hats.spread_squared_by_blocks(spread.in_one_sum(*events)) as f64 / square)
                };
                events.iter().map(of).collect::<Result<Vec<f64>>>()?
            }
            Inner::Tree(tree, _) => {
                let squares = tree.spreads_squared_watched(spread, events, watch)?;
                squares.into_iter().map(|n| n as f64 / square).collect()
            }
        };
        let with_own = |(events, inner): (&u64, f64)| {
            let total = spread.in_one_sum(*events).within(u128::from(self.last - self.before)) as f64;
            let own = total * self.own_entry();
            (inner + own * own) * (1.0 + 1e-12)
        };
        Ok(events.iter().zip(inner).map(with_own).collect())
    }
}

/// A hash of everything that a release depends on.
pub(super) fn digest(epochs: &[Epoch]) -> MatrixDigest {
    let mut hasher = blake3::Hasher::new_derive_key("evertally 1 endless epochs");
    for epoch in epochs {
        hasher.update(&epoch.last.to_le_bytes());
        hasher.update(&epoch.own.to_le_bytes());
        hasher.update(&epoch.mix.to_le_bytes());
        let name = epoch.inner.mechanism().name().to_string();
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name.as_bytes());
        let weights = match &epoch.inner {
            Inner::Filter(blt) => blt.column_weights(),
            Inner::Growing(filter) => {
                filter.frozen_numbers().iter().for_each(|number| {
                    hasher.update(&number.to_le_bytes());
                });
                vec![]
            }
            Inner::Tree(_, weight) => vec![(epoch.last - epoch.before, *weight)],
            Inner::Hats(..) => vec![(epoch.last - epoch.before, 1 << WEIGHT_BITS)],
        };
        hasher.update(&(weights.len() as u64).to_le_bytes());
        for (last, weight) in weights {
            hasher.update(&last.to_le_bytes());
            hasher.update(&weight.to_le_bytes());
        }
    }
    MatrixDigest::new(&hasher.finalize())
}
