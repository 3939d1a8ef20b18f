//! Passes on the rows of a piece, in any format.

use std::sync::atomic::AtomicBool;

use super::bad_rows::SetAside;
use evertally_declare::error::{Cancelled, InputError, PipelineError, Place, Result, refuse_if};
use evertally_declare::event::{Cells, ColumnLayout, Event, Field, Position};

/// Rows passed on at once.
pub(super) const BATCH_ROWS: usize = 16 * 1024;

/// Rows between two checks of the cancellation flag.
pub(super) const ROWS_PER_CHECK: u64 = 4096;

/// State shared by all readers while they pass on the rows of a piece.
pub(super) struct Pass<'p> {
    pub(super) layout: &'p ColumnLayout,
    pub(super) missing: &'p [String],
    pub(super) cancelled: &'p AtomicBool,
    pub(super) visit: &'p mut dyn FnMut(&Event<'_>) -> Result<()>,
    pub(super) rows: u64,
    /// Where rows go that cannot be read; `None` if they are errors.
    pub(super) aside: Option<&'p SetAside>,
}

impl Pass<'_> {
    /// A row that cannot be read, while the rows around it can: an error, unless such rows are set aside.
    #[cold]
    pub(super) fn refuse(&self, error: InputError, row: impl FnOnce() -> String) -> Result<()> {
        match self.aside {
            Some(aside) => aside.push(error, row()),
            None => return Err(error.into()),
        }
        Ok(())
    }

    #[inline]
    pub(super) fn emit(&mut self, file: &str, place: Place, cells: &dyn Cells) -> Result<()> {
        if self.rows.is_multiple_of(ROWS_PER_CHECK) {
            refuse_if(self.cancelled)?;
        }
        self.rows += 1;
        (self.visit)(&Event::new(Position { file, place }, cells, self.layout))
    }
}

/// The error of a callback, kept while an error of the pipeline ends the reading in its place. So the loops over rows
/// are compiled for one type of errors, and not again for each front end.
pub(super) struct CallbackError<E>(Option<E>);

impl<E: From<PipelineError>> CallbackError<E> {
    pub(super) const NONE: Self = Self(None);

    /// Keeps an error. The returned one ends the reading, and nobody sees it.
    pub(super) fn keep(&mut self, error: E) -> PipelineError {
        self.0 = Some(error);
        Cancelled.into()
    }

    /// The result of the reading, or the kept error.
    pub(super) fn or<T>(self, result: Result<T>) -> Result<T, E> {
        self.0.map_or(result.map_err(E::from), Err)
    }
}

/// A text cell, or missing if it is empty or declared to mean missing.
#[inline]
pub(super) fn text_field<'a>(text: &'a str, missing: &[String]) -> Field<'a> {
    if text.is_empty() || missing.iter().any(|m| m == text) { Field::Missing } else { Field::Text(text) }
}
