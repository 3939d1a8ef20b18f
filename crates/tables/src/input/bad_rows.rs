//! Rows that cannot be read, set aside.

use std::cell::RefCell;

use evertally_declare::error::{InputError, PipelineError, Place, Result};
use evertally_declare::event::Event;
use evertally_declare::problem::Wording;

/// A row that cannot be read, while the rows around it can. It is **not private**.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRow {
    /// The file, as messages name it.
    pub file: String,
    /// Its line or row.
    pub place: Option<Place>,
    /// The column at fault, if it is a single one.
    pub column: Option<String>,
    /// Why it cannot be read.
    pub problem: String,
    /// The row as the file has it: a CSV record, or a JSON object.
    pub row: String,
}

impl BadRow {
    pub(super) fn new(error: &InputError, row: String) -> Self {
        BadRow {
            file: error.file().to_owned(),
            place: error.place(),
            column: error.column().map(str::to_owned),
            problem: error.problem().worded(Wording::Flags),
            row,
        }
    }
}

/// The rows of a piece that were set aside, in their order: why, and as the file has them.
#[derive(Debug, Default)]
pub(super) struct SetAside(RefCell<Vec<(InputError, String)>>);

impl SetAside {
    /// Sets a row aside.
    pub(super) fn push(&self, error: InputError, row: String) {
        self.0.borrow_mut().push((error, row));
    }

    /// Sets an event aside if it was refused because it cannot be read.
    ///
    /// # Errors
    /// The same error, if it was refused for another reason.
    pub(super) fn push_event(&self, event: &Event<'_>, error: PipelineError) -> Result<()> {
        if !error.is_bad_row() {
            return Err(error);
        }
        self.push(error.into_input()?, event.whole().text);
        Ok(())
    }

    /// Takes all of them.
    pub(super) fn take(&self) -> Vec<BadRow> {
        self.0.take().into_iter().map(|(error, row)| BadRow::new(&error, row)).collect()
    }

    /// Their errors.
    pub(super) fn into_errors(self) -> impl Iterator<Item = InputError> {
        self.0.into_inner().into_iter().map(|(error, _)| error)
    }
}
