//! Counts of every block of keys, without hashing.
//!
//! Every node of a [`KeyTree`] is a running sum, and an event of a key adds its value to the key's node on every level.
//! All nodes together are one vector of at most 2^40 sums, of which only those with data or reads use memory. The root
//! is one of them, for one more level of the budget: quantiles and shares are relative to the total, and the root
//! closes the top level of every prefix.
//!
//! A range is the sum of the fewest nodes with signs ([`KeyTree`]), and its variance is their number times that of a
//! node.

use super::cells::{SketchCells, clock_and_state};
use super::quantile::{CellTail, quantile};
use super::queries::{Nodes, count, heavy_hitters, weighted};
use super::{ErrorLaw, Estimate, HeavyHitter, KeyTree, Quantile, Shape, SketchPlan};
use crate::noise::{GuardedKey, Node, StreamName};
use crate::{Error, Result};
use std::ops::RangeBounds;

/// Range counts, distribution, quantiles and heavy hitters of keys below 2^39, at any step, by lazy noise.
///
/// ```
/// use evertally::privacy::{Budget, Rho};
/// use evertally::noise::{GuardedKey, SecretKey};
/// use evertally::plan::{NoiseKind, PlanRequest};
/// use evertally::sketch::{DyadicCounts, KeyTree, Shape, SketchPlan};
/// use evertally::stream::LazySampling;
///
/// let request = PlanRequest::count(1 << 16, Budget::Zcdp(Rho::new(0.5)?));
/// let tree = KeyTree::least_error(32, NoiseKind::Gaussian)?;
/// let plan = SketchPlan::new(request, Shape::DyadicCounts(tree), LazySampling::Float)?;
/// let key = GuardedKey::published_nothing(SecretKey::generate()?);
/// let mut latencies = DyadicCounts::new(plan, &key, "latencies".parse()?)?;
///
/// for microseconds in 0..2000 {
///     latencies.add(microseconds * 1000, 1)?;
/// }
/// latencies.tick()?;
/// let slow = latencies.count(1_000_000..)?;
/// assert!((slow.value - 1000.0).abs() < 10.0 * slow.noise_std_error);
/// let median = latencies.quantile(0.5, 0.95)?;
/// println!("between {} and {} µs at 95%, about {}", median.lower, median.upper, median.key);
/// # Ok::<(), evertally::Error>(())
/// ```
pub struct DyadicCounts {
    pub(super) cells: SketchCells,
    tree: KeyTree,
    /// The first running sum of every level.
    first: Vec<u64>,
}

clock_and_state!(DyadicCounts);

impl DyadicCounts {
    /// Counts before the first step. Use each name for one set of counts only: noise is a function of key, name and
    /// plan.
    ///
    /// # Errors
    /// If the plan is not that of dyadic counts, or does not support its sampling.
    pub fn new(plan: SketchPlan, key: &GuardedKey, name: StreamName) -> Result<Self> {
        let tree = tree_of(&plan)?;
        Ok(Self::of(SketchCells::new(plan, key, name)?, tree))
    }

    /// Restores saved counts.
    ///
    /// # Errors
    /// If the bytes are damaged, of an unknown version, or belong to another plan, name or key.
    pub fn restore(plan: SketchPlan, key: &GuardedKey, name: StreamName, state: &[u8]) -> Result<Self> {
        let tree = tree_of(&plan)?;
        Ok(Self::of(SketchCells::restore(plan, key, name, state)?, tree))
    }

    fn of(cells: SketchCells, tree: KeyTree) -> Self {
        Self { cells, tree, first: tree.levels().map(|level| tree.first_node(level)).collect() }
    }

    /// The tree over the keys.
    pub fn tree(&self) -> KeyTree {
        self.tree
    }

    /// Adds an event of this key and value to the open step. The value is in multiples of the grid, within the plan's
    /// bounds.
    ///
    /// # Errors
    /// If the key has too many bits, the value is out of bounds, the horizon is used up, or a cell would leave the
    /// range of 64 bits. Nothing is added then.
    pub fn add(&mut self, key: u64, value: i64) -> Result<()> {
        self.tree.check_key(key)?;
        let (tree, first) = (self.tree, &self.first);
        self.cells.add_event(|parts| {
            let nodes = tree.levels().map(|level| tree.ancestor(key, level));
            parts.extend(nodes.map(|node| (first[node.level as usize] + node.index, value)));
        })
    }

    /// The sum of all values of keys in a range, at the last closed step. Keys beyond the tree do not count.
    ///
    /// # Errors
    /// If no step is closed yet.
    pub fn count(&mut self, range: impl RangeBounds<u64>) -> Result<Estimate> {
        let range = self.tree.ends(range);
        count(self, &range)
    }

    /// The share of the keys up to this one (a number from 0 to 1 apart from noise), at the last closed step. The
    /// standard error is that of a ratio with an accurately known total; if the estimate of the total is not above 0,
    /// it is infinite.
    ///
    /// # Errors
    /// If no step is closed yet.
    pub fn cdf(&mut self, key: u64) -> Result<Estimate> {
        let (root, range) = (self.tree.root(), self.tree.ends(..=key));
        let (total, below) = (self.node(root)?, count(self, &range)?);
        if total.value <= 0.0 {
            return Ok(Estimate { step: total.step, value: 0.0, noise_std_error: f64::INFINITY });
        }
        let share = below.value / total.value;
        let cover = self.tree.cover(&range);
        let all = cover.iter().any(|(node, _)| *node == root);
        let terms = cover.into_iter().map(|(node, weight)| (node, f64::from(weight)));
        // The error of a ratio B/N is about that of B - share·N, over N; if the root is in B, the two weights add up.
        let terms = terms.filter(|(node, _)| *node != root).chain([(root, f64::from(u8::from(all)) - share)]);
        let error = weighted(self, terms)?.noise_std_error;
        Ok(Estimate { step: total.step, value: share, noise_std_error: error / total.value })
    }

    /// The `q`-quantile (0 ≤ q ≤ 1) of the keys at the last closed step: the smallest key such that at least the share
    /// `q` of the total lies at or below it. With probability at least `confidence` it lies between the two returned
    /// ends, if `q` and the step were not chosen from answers of that step. For values that are not below 0.
    ///
    /// # Errors
    /// If a number is out of range, the plan allows negative values, or no step is closed yet.
    pub fn quantile(&mut self, q: f64, confidence: f64) -> Result<Quantile> {
        if !(0.0..=1.0).contains(&q) {
            return Err(Error::invalid(format!("the share of a quantile must be from 0 to 1, got {q}")));
        }
        if !(confidence > 0.0 && confidence < 1.0) {
            return Err(Error::invalid(format!("the confidence must be strictly between 0 and 1, got {confidence}")));
        }
        let plan = self.plan().plan();
        if plan.request().values().bounds().0 < 0 {
            return Err(Error::invalid("there are no quantiles if values may be negative"));
        }
        if self.step() == 0 {
            return Err(Error::invalid("nothing can be read before the first step is closed"));
        }
        let surprise = f64::from(self.tree.bits() + 1) * std::f64::consts::LN_2 - libm::log(1.0 - confidence);
        let tail = CellTail::new(self.plan().lazy(), self.step(), surprise);
        quantile(self, q, tail)
    }

    /// The law of the errors of single keys' counts at the last closed step: the law of the noise.
    ///
    /// # Errors
    /// If no step is closed yet.
    pub fn errors(&self) -> Result<ErrorLaw> {
        match self.step() {
            0 => Err(Error::invalid("nothing can be read before the first step is closed")),
            step => Ok(ErrorLaw::of_noise(self.plan().lazy(), step)),
        }
    }

    /// The keys whose estimated counts reach a threshold, the largest first. Descends the tree from the root through
    /// blocks that reach it, and reads nothing else.
    ///
    /// For values that are not below 0. A key of count `f` is missed if noise pulls one of its blocks below the
    /// threshold: with probability at most `levels · P(noise ≥ f - threshold)`. Each standard error is that of a single
    /// key; among very many keys, some reach a threshold by noise alone.
    ///
    /// # Errors
    /// If the threshold is not above 0 or so low that more than 2^16 blocks of a level reach it, or no step is closed
    /// yet.
    pub fn heavy_hitters(&mut self, threshold: f64) -> Result<Vec<HeavyHitter<u64>>> {
        heavy_hitters(self, threshold)
    }
}

impl Nodes for DyadicCounts {
    fn tree(&self) -> KeyTree {
        self.tree
    }

    fn closed(&self) -> u64 {
        self.step()
    }

    fn node(&mut self, node: Node) -> Result<Estimate> {
        let value = self.cells.read(self.first[node.level as usize] + node.index)?;
        Ok(Estimate { step: self.step(), value, noise_std_error: self.cells.variance().sqrt() })
    }
}

fn tree_of(plan: &SketchPlan) -> Result<KeyTree> {
    match plan.shape() {
        Shape::DyadicCounts(tree) => Ok(tree),
        other => Err(Error::invalid(format!("the plan is for a {other}, not for dyadic counts"))),
    }
}
