//! A tree of counts over keys of up to 64 bits, with a count sketch for every level that is too large to keep node by
//! node.
//!
//! Levels share one vector and one budget. A level with no more nodes than a table has cells is kept node by node: that
//! needs no more cells, adds an event to one running sum and not to one per row, and has no collisions. The items of a
//! sketched level are its nodes: level and number, 9 bytes.

use super::cells::{SketchCells, clock_and_state};
use super::estimate::median;
use super::median::MedianNoise;
use super::queries::{Nodes, count, heavy_hitters};
use super::shape::Level;
use super::{Estimate, Hashing, HeavyHitter, KeyTree, Shape, SketchPlan, Table};
use crate::noise::{GuardedKey, Node, SecretKey, StreamName};
use crate::{Error, Result};
use std::ops::RangeBounds;

/// Heavy hitters and range counts of 64-bit keys, by descent through a tree of sketches.
///
/// ```
/// use evertally::privacy::{Budget, Rho};
/// use evertally::noise::{GuardedKey, SecretKey};
/// use evertally::plan::PlanRequest;
/// use evertally::sketch::{DyadicSketch, SketchPlan};
/// use evertally::stream::LazySampling;
///
/// let request = PlanRequest::count(1 << 16, Budget::Zcdp(Rho::new(2.0)?));
/// let shape = "dyadic-sketch(bits=64,branching=16,rows=3,width=10000)".parse()?;
/// let plan = SketchPlan::new(request, shape, LazySampling::Float)?;
/// let key = GuardedKey::published_nothing(SecretKey::generate()?);
/// let mut addresses = DyadicSketch::new(plan, &key, "addresses".parse()?)?;
///
/// for _ in 0..2000 {
///     addresses.add(0x20010db8_00000001, 1)?;
/// }
/// addresses.tick()?;
/// let heavy = addresses.heavy_hitters(1000.0)?;
/// assert_eq!(heavy[0].key, 0x20010db8_00000001);
/// # Ok::<(), evertally::Error>(())
/// ```
pub struct DyadicSketch {
    pub(super) cells: SketchCells,
    tree: KeyTree,
    hashing: Hashing,
    median: MedianNoise,
    /// How every level is kept, and its first cell.
    levels: Vec<(Level, u64)>,
}

clock_and_state!(DyadicSketch);

impl DyadicSketch {
    /// A sketch before its first step. Use each name for one sketch only: noise is a function of key, name and plan.
    ///
    /// # Errors
    /// If the plan is not that of a dyadic sketch, or does not support its sampling.
    pub fn new(plan: SketchPlan, key: &GuardedKey, name: StreamName) -> Result<Self> {
        let shape = shape_of(&plan)?;
        Ok(Self::of(SketchCells::new(plan, key, name)?, shape, key))
    }

    /// Restores a saved sketch.
    ///
    /// # Errors
    /// If the bytes are damaged, of an unknown version, or belong to another plan, sketch or key.
    pub fn restore(plan: SketchPlan, key: &GuardedKey, name: StreamName, state: &[u8]) -> Result<Self> {
        let shape = shape_of(&plan)?;
        Ok(Self::of(SketchCells::restore(plan, key, name, state)?, shape, key))
    }

    fn of(cells: SketchCells, (tree, table): (KeyTree, Table), key: &SecretKey) -> Self {
        let hashing = Hashing::new(key, cells.hash_name(), table);
        let mut first = 0;
        let mut place = |level: Level| {
            first += level.cells();
            (level, first - level.cells())
        };
        let levels = tree.levels().map(|level| place(Level::of(tree, table, level))).collect();
        Self { cells, tree, hashing, median: MedianNoise::new(table.rows()), levels }
    }

    /// The tree over the keys.
    pub fn tree(&self) -> KeyTree {
        self.tree
    }

    /// Rows and width of the sketched levels.
    pub fn table(&self) -> Table {
        self.hashing.table()
    }

    /// Adds an event of this key and value to the open step. The value is in multiples of the grid, and its absolute
    /// value within the plan's bounds.
    ///
    /// # Errors
    /// If the key has too many bits, the value is out of bounds, the horizon is used up, or a cell would leave the
    /// range of 64 bits. Nothing is added then.
    pub fn add(&mut self, key: u64, value: i64) -> Result<()> {
        self.cells.plan.check_size(value)?;
        self.tree.check_key(key)?;
        let (tree, hashing, levels) = (self.tree, &self.hashing, &self.levels);
        self.cells.add_event(|parts| {
            for (height, (level, first)) in (0..).zip(levels) {
                let node = tree.ancestor(key, height);
                match level {
                    Level::Nodes(_) => parts.push((first + node.index, value)),
                    // -2^63 has no negation, and exceeds the symmetric bounds with either sign.
                    Level::Table(table) => hashing.each_place(&item(node), |row, bucket, sign| {
                        parts.push((first + table.cell(row, bucket), value.wrapping_mul(sign)));
                    }),
                }
            }
        })
    }

    /// The sum of all values of keys in a range, at the last closed step. The standard error is that of the noise, as
    /// if no two nodes of the range shared a cell.
    ///
    /// # Errors
    /// If no step is closed yet.
    pub fn count(&mut self, range: impl RangeBounds<u64>) -> Result<Estimate> {
        let range = self.tree.ends(range);
        count(self, &range)
    }

    /// The keys whose estimated counts reach a threshold, the largest first, by descent through blocks that reach it.
    /// For values that are not below 0. As in [`DyadicCounts::heavy_hitters`](super::DyadicCounts::heavy_hitters), but
    /// with errors of collisions in addition to noise.
    ///
    /// # Errors
    /// If the threshold is not above 0 or so low that more than 2^16 blocks of a level reach it, or no step is closed
    /// yet.
    pub fn heavy_hitters(&mut self, threshold: f64) -> Result<Vec<HeavyHitter<u64>>> {
        heavy_hitters(self, threshold)
    }
}

/// The bytes of a node of a sketched level.
fn item(node: Node) -> [u8; 9] {
    let mut bytes = [node.level as u8; 9]; // at most 64
    bytes[1..].copy_from_slice(&node.index.to_le_bytes());
    bytes
}

impl Nodes for DyadicSketch {
    fn tree(&self) -> KeyTree {
        self.tree
    }

    fn closed(&self) -> u64 {
        self.step()
    }

    fn node(&mut self, node: Node) -> Result<Estimate> {
        let (level, first) = self.levels[node.level as usize];
        let (value, factor) = match level {
            Level::Nodes(_) => (self.cells.read(first + node.index)?, 1.0),
            Level::Table(_) => {
                let mut values = self.cells.read_rows(&self.hashing, first, &item(node), true)?;
                let step = self.step();
                (median(&mut values), self.median.factor(self.cells.plan.plan(), step))
            }
        };
        Ok(Estimate { step: self.step(), value, noise_std_error: (factor * self.cells.variance()).sqrt() })
    }
}

fn shape_of(plan: &SketchPlan) -> Result<(KeyTree, Table)> {
    match plan.shape() {
        Shape::DyadicSketch(tree, table) => Ok((tree, table)),
        other => Err(Error::invalid(format!("the plan is for a {other}, not for a dyadic sketch"))),
    }
}
