//! Passes on the rows of a piece, in any format.

use std::sync::atomic::AtomicBool;

use super::bad_rows::SetAside;
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
    pub(super) rows: u64,
    /// Where rows go that cannot be read; `None` if they are errors.
    pub(super) aside: Option<&'p SetAside>,
}

impl<E: From<PipelineError>> Pass<'_, E> {
    /// A row that cannot be read, while the rows around it can: an error, unless such rows are set aside.
    #[cold]
    pub(super) fn refuse(&self, error: InputError, row: impl FnOnce() -> String) -> Result<(), E> {
        match self.aside {
            Some(aside) => aside.push(error, row()),
            None => return Err(PipelineError::from(error).into()),
        }
        Ok(())
    }

    #[inline]
    pub(super) fn emit(&mut self, file: &str, place: Place, cells: &dyn Cells) -> Result<(), E> {
        if self.rows.is_multiple_of(ROWS_PER_CHECK) {
            refuse_if(self.cancelled).map_err(|error| E::from(PipelineError::from(error)))?;
        }
        self.rows += 1;
        (self.visit)(&Event::new(Position { file, place }, cells, self.layout))
    }
}

/// A text cell, or missing if it is empty or declared to mean missing.
#[inline]
pub(super) fn text_field<'a>(text: &'a str, missing: &[String]) -> Field<'a> {
    if text.is_empty() || missing.iter().any(|m| m == text) { Field::Missing } else { Field::Text(text) }
}
