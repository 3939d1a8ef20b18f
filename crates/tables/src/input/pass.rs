//! Passes on the rows of a piece, in any format.

use std::sync::atomic::AtomicBool;

use evertally_declare::error::{InputError, PipelineError, Place, Result, refuse_if};
use evertally_declare::event::{Cells, ColumnLayout, Event, Field, Position};

/// Rows passed on at once.
pub(super) const BATCH_ROWS: usize = 16 * 1024;

/// Rows between two checks of the cancellation flag.
pub(super) const ROWS_PER_CHECK: u64 = 4096;

/// State shared by all readers while they pass on the rows of a piece.
pub(super) struct Pass<'p, E> {
    pub(super) layout: &'p ColumnLayout,
    pub(super) missing: &'p [String],
    pub(super) cancelled: &'p AtomicBool,
    pub(super) visit: &'p mut dyn FnMut(&Event<'_>) -> Result<(), E>,
    /// Takes the error of a row, and ends the reading or lets it continue with the next row.
    pub(super) refused: &'p mut dyn FnMut(InputError) -> Result<(), E>,
    pub(super) rows: u64,
}

impl<E: From<PipelineError>> Pass<'_, E> {
    #[inline]
    pub(super) fn emit(&mut self, file: &str, place: Place, cells: &dyn Cells) -> Result<(), E> {
        if self.rows.is_multiple_of(ROWS_PER_CHECK) {
            refuse_if(self.cancelled).map_err(|error| E::from(PipelineError::from(error)))?;
        }
        self.rows += 1;
        (self.visit)(&Event::new(Position { file, place }, cells, self.layout))
    }

    /// Passes on the error of a row.
    #[cold]
    pub(super) fn refuse(&mut self, error: InputError) -> Result<(), E> {
        (self.refused)(error)
    }
}

/// Ends the reading with the error of a row.
pub(super) fn end_reading<E: From<PipelineError>>(error: InputError) -> Result<(), E> {
    Err(PipelineError::from(error).into())
}

/// A text cell, or missing if it is empty or declared to mean missing.
#[inline]
pub(super) fn text_field<'a>(text: &'a str, missing: &[String]) -> Field<'a> {
    if text.is_empty() || missing.iter().any(|m| m == text) { Field::Missing } else { Field::Text(text) }
}
