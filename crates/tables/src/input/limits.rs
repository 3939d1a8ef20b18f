//! Limits on the memory used by an input. Every reader checks the size of data against these limits before it expands
//! them.

use evertally_declare::error::{InputError, Place};
use evertally_declare::event::{Cells, ColumnLayout, Field};

/// The maximum size of one cell in bytes: of a name, a time or a number.
pub const MAX_CELL_BYTES: usize = 64 << 10;

/// The maximum number of columns of an input.
pub(super) const MOST_COLUMNS: usize = 100_000;

/// Bytes per read from a pipe.
pub(super) const PIPE_CHUNK: usize = 256 * 1024;

/// Bytes that a reader may use by default: 256 MiB.
pub const DEFAULT_MEMORY: u64 = 256 << 20;

/// The maximum length of a text record. A stray quote turns the rest of a file into one field: an early error is better
/// than reading all of it into memory.
const MAX_RECORD_BYTES: usize = 16 << 20;

/// The maximum length of a text record within this much memory: a record is in memory a few times.
pub(super) fn max_record_bytes(memory: u64) -> usize {
    MAX_RECORD_BYTES.min(usize::try_from(memory / 16).unwrap_or(MAX_RECORD_BYTES))
}

/// Refuses a row with a text that is longer than the limit of a cell.
pub(super) fn refuse_long_cells(
    file: &str,
    place: Place,
    layout: &ColumnLayout,
    cells: &dyn Cells,
) -> Result<(), InputError> {
    for (slot, name) in layout.names().iter().enumerate() {
        if let Field::Text(text) | Field::Number(text) = cells.cell(slot)
            && text.len() > MAX_CELL_BYTES
        {
            let problem = format!(
                "this cell has {} bytes, but at most {MAX_CELL_BYTES} are allowed; shorten it, for example to a hash \
                 of \
                 it",
                text.len()
            );
            return Err(InputError::in_file(file, problem).at(place).in_column(name.clone()));
        }
    }
    Ok(())
}

/// A number of bytes, for messages.
pub(super) fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}
