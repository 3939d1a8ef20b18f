//! Shapes: the kind and size of a sketch.

use super::KeyTree;
use crate::plan::PlanRequest;
use crate::privacy::{Unit, Values};
use crate::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// A table of hashed cells: an odd number of rows up to 31, and 1 to 2^32 cells in each.
///
/// The number is odd so that the median of the rows is one of them, and its law under noise is that of one order
/// statistic.
///
/// ```
/// use evertally::sketch::Table;
/// assert_eq!(Table::new(5, 1000)?.cells(), 5000);
/// assert!(Table::new(4, 1000).is_err());
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Table {
    rows: u32,
    width: u64,
}

impl Table {
    /// The largest number of rows of a table.
    pub const MAX_ROWS: u32 = 31;
    /// The largest number of cells of a row.
    pub const MAX_WIDTH: u64 = 1 << 32;

    /// A table with this number of rows, and of cells per row.
    ///
    /// # Errors
    /// If a number is out of range.
    pub fn new(rows: u32, width: u64) -> Result<Self> {
        if rows.is_multiple_of(2) || rows > Self::MAX_ROWS {
            let most = Self::MAX_ROWS;
            return Err(Error::invalid(format!("a sketch needs an odd number of rows from 1 to {most}, got {rows}")));
        }
        if width == 0 || width > Self::MAX_WIDTH {
            return Err(Error::invalid(format!("a sketch's rows have 1 to {} cells, got {width}", Self::MAX_WIDTH)));
        }
        Ok(Self { rows, width })
    }

    /// Number of rows.
    pub fn rows(self) -> u32 {
        self.rows
    }

    /// Cells of a row.
    pub fn width(self) -> u64 {
        self.width
    }

    /// Cells of all rows, below 2^37.
    pub fn cells(self) -> u64 {
        u64::from(self.rows) * self.width
    }

    /// The number of a cell: row after row.
    pub(super) fn cell(self, row: u32, bucket: u64) -> u64 {
        u64::from(row) * self.width + bucket
    }
}

/// A kind of sketch and its size, with a text form such as `count-sketch(rows=5,width=1000)`.
///
/// ```
/// use evertally::sketch::Shape;
/// for text in [
///     "count-sketch(rows=5,width=1000)",
///     "count-min(rows=3,width=70000)",
///     "dyadic(bits=32,branching=8)",
///     "dyadic-sketch(bits=64,branching=16,rows=5,width=1000)",
/// ] {
///     assert_eq!(text.parse::<Shape>()?.to_string(), text);
/// }
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Shape {
    /// A [`CountSketch`](super::CountSketch).
    CountSketch(Table),
    /// A [`CountMin`](super::CountMin), of width at least 2.
    CountMin(Table),
    /// [`DyadicCounts`](super::DyadicCounts) of keys of at most 39 bits.
    DyadicCounts(KeyTree),
    /// A [`DyadicSketch`](super::DyadicSketch).
    DyadicSketch(KeyTree, Table),
}

impl Shape {
    /// The largest number of bits of a key of [`DyadicCounts`](super::DyadicCounts): all nodes must be running sums
    /// of one vector.
    pub const MAX_EXACT_BITS: u32 = 39;

    pub(super) fn validate(self) -> Result<Self> {
        match self {
            Self::CountMin(table) if table.width < 2 => {
                Err(Error::invalid("a count-min sketch needs rows of at least 2 cells, got 1"))
            }
            Self::DyadicCounts(tree) if tree.bits() > Self::MAX_EXACT_BITS => Err(Error::invalid(format!(
                "dyadic counts are for keys of at most {} bits, got {}; use a dyadic sketch",
                Self::MAX_EXACT_BITS,
                tree.bits()
            ))),
            shape => Ok(shape),
        }
    }

    /// Number of cells, 1 ..= 2^40.
    pub fn coordinates(self) -> u64 {
        match self {
            Self::CountSketch(table) => table.cells(),
            Self::CountMin(table) => table.cells() + 1,
            Self::DyadicCounts(tree) => tree.first_node(tree.height()) + 1,
            Self::DyadicSketch(tree, table) => tree.levels().map(|level| Level::new(tree, table, level).cells()).sum(),
        }
    }

    /// The number of cells that an event is added to.
    pub fn sums_per_event(self) -> u64 {
        match self {
            Self::CountSketch(table) => table.rows.into(),
            Self::CountMin(table) => u64::from(table.rows) + 1,
            Self::DyadicCounts(tree) => u64::from(tree.height()) + 1,
            Self::DyadicSketch(tree, table) => tree.levels().map(|level| Level::new(tree, table, level).sums()).sum(),
        }
    }

    /// Whether an event may be added with its sign flipped.
    pub fn is_signed(self) -> bool {
        matches!(self, Self::CountSketch(_) | Self::DyadicSketch(..))
    }

    /// The request for the plan of this sketch, from that for one running sum. It sets the number of sums per event,
    /// makes the bounds on values symmetric if signs flip, and adds the shape as text (`sketch` in the plan's
    /// meaning), so that sketches of other shapes have other noise.
    ///
    /// # Errors
    /// If the request already is one of a sketch, its unit is bounded by group, or the bounds cannot be negated.
    pub fn request(self, mut request: PlanRequest) -> Result<PlanRequest> {
        self.validate()?;
        if request.sums_per_event() != 1 || request.meaning().contains_key(MEANING) {
            return Err(Error::invalid(
                "request the plan of a sketch as for one running sum: the sketch decides how many sums an event is in",
            ));
        }
        if is_bounded_by_group(request.unit()) {
            return Err(Error::invalid(
                "the items of a sketch share its cells, so a bound on a person's events per group bounds no cell: omit \
                 bounds per group",
            ));
        }
        if self.is_signed() {
            let (lower, upper) = request.values().bounds();
            let largest = i64::try_from(lower.unsigned_abs().max(upper.unsigned_abs())).map_err(|_| {
                Error::overflow("an event of -2^63 has no negation; use tighter bounds or a coarser grid")
            })?;
            request = request.with_values(Values::Sum { lower: -largest, upper: largest });
        }
        Ok(request.with_sums_per_event(self.sums_per_event()).with_meaning(MEANING, self.to_string()))
    }
}

/// The keys under which a plan's meaning holds the shape and the hash name.
pub(super) const MEANING: &str = "sketch";
pub(super) const HASHES: &str = "hashes";

/// How a level of a [`DyadicSketch`](super::DyadicSketch) is kept: node by node if that needs no more cells than a
/// table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Nodes(u64),
    Table(Table),
}

impl Level {
    pub(super) fn new(tree: KeyTree, table: Table, level: u32) -> Self {
        match u64::try_from(tree.nodes(level)) {
            Ok(nodes) if nodes <= table.cells() => Self::Nodes(nodes),
            _ => Self::Table(table),
        }
    }

    pub(super) fn cells(self) -> u64 {
        match self {
            Self::Nodes(nodes) => nodes,
            Self::Table(table) => table.cells(),
        }
    }

    fn sums(self) -> u64 {
        match self {
            Self::Nodes(_) => 1,
            Self::Table(table) => table.rows.into(),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CountSketch(table) => write!(f, "count-sketch(rows={},width={})", table.rows, table.width),
            Self::CountMin(table) => write!(f, "count-min(rows={},width={})", table.rows, table.width),
            Self::DyadicCounts(tree) => write!(f, "dyadic(bits={},branching={})", tree.bits(), tree.branching()),
            Self::DyadicSketch(tree, table) => {
                let (bits, branching) = (tree.bits(), tree.branching());
                write!(f, "dyadic-sketch(bits={bits},branching={branching},rows={},width={})", table.rows, table.width)
            }
        }
    }
}

impl FromStr for Shape {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refusal = || {
            Error::invalid(format!(
                "{text:?} is not a shape of a sketch; write one such as count-sketch(rows=5,width=1000), \
                 count-min(rows=5,width=1000), dyadic(bits=32,branching=8) or \
                 dyadic-sketch(bits=64,branching=8,rows=5,width=1000)"
            ))
        };
        let (kind, rest) = text.split_once('(').ok_or_else(refusal)?;
        let mut fields = rest.strip_suffix(')').ok_or_else(refusal)?.split(',');
        let mut number = |name: &str| {
            let value = fields.next().and_then(|field| field.trim().strip_prefix(name)?.strip_prefix('='));
            value.and_then(|value| value.parse::<u64>().ok()).ok_or_else(refusal)
        };
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let mut tree = || KeyTree::new(small(number("bits")?), number("branching")?);
        let shape = match kind {
            "count-sketch" | "count-min" => {
                let table = Table::new(small(number("rows")?), number("width")?)?;
                if kind == "count-min" { Self::CountMin(table) } else { Self::CountSketch(table) }
            }
            "dyadic" => Self::DyadicCounts(tree()?),
            "dyadic-sketch" => {
                let tree = tree()?;
                Self::DyadicSketch(tree, Table::new(small(number("rows")?), number("width")?)?)
            }
            _ => return Err(refusal()),
        };
        if fields.next().is_some() {
            return Err(refusal());
        }
        shape.validate()
    }
}

/// Whether a person's events are bounded by group: because items share cells, such a bound does not bound a cell.
pub(super) fn is_bounded_by_group(unit: Unit) -> bool {
    unit.bounds().is_some_and(|bounds| bounds.max_events_per_group.or(bounds.max_groups).is_some())
}
