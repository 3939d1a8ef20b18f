//! How the rows of a table are visited.

use evertally_declare::error::Result;
use evertally_declare::event::{Columns, Event};

/// Visits all rows of a table with the cells of some columns.
pub(super) type HistoryVisitor<'r> = dyn Fn(&Columns, &mut dyn FnMut(&Event<'_>) -> Result<()>) -> Result<()> + 'r;
