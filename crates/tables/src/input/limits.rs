//! How much of an input may be in memory at once. Every reader checks what it is about to expand against these limits
//! before it makes room for it.

use evertally_declare::error::{InputError, Place};
use evertally_declare::event::{Cells, Field, Layout};

/// Bytes of one cell at most: of a name, a time or a number.
pub const LONGEST_CELL: usize = 64 << 10;

/// Columns of an input at most.
pub(super) const MOST_COLUMNS: usize = 100_000;

/// Bytes that a reader may use where nothing else is declared: 256 MiB.
pub const DEFAULT_MEMORY: u64 = 256 << 20;

/// Longest record of a text. A stray quote makes the rest of a file one field: better an early error than all of it in
/// memory.
const LONGEST_RECORD: usize = 16 << 20;

/// The longest record of a text that is read with some memory: a record is in memory a few times.
pub(super) fn longest_record(memory: u64) -> usize {
    LONGEST_RECORD.min(usize::try_from(memory / 16).unwrap_or(LONGEST_RECORD))
}

/// Refuses a row with a text that is longer than a cell may be.
pub(super) fn refuse_long_cells(
    file: &str,
    place: Place,
    layout: &Layout,
    cells: &dyn Cells,
) -> Result<(), InputError> {
    for (slot, name) in layout.names().iter().enumerate() {
        if let Field::Text(text) = cells.cell(slot)
            && text.len() > LONGEST_CELL
        {
            let problem = format!(
                "this cell has {} bytes, and a cell has at most {LONGEST_CELL}; shorten it, for example to a hash of it",
                text.len()
            );
            return Err(InputError::of_file(file, problem).at(place).in_column(name.clone()));
        }
    }
    Ok(())
}

/// A number of bytes, as messages have it.
pub(super) fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}
