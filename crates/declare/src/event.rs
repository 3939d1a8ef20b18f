//! One event as readers deliver it: borrowed from the reader's buffer, valid until the next one.

use std::fmt;

use crate::error::{InputError, Place};
pub use crate::field::Field;
use crate::identity::Identities;
use crate::problem::Sentence;
use crate::words::quoted;
use evertally::number::{self, Grid};

/// The columns of the input that are used, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// The time of the event, or its date.
    pub time: String,
    /// The time of day of the event, if it is not in the same column as the date.
    pub time_of_day: Option<String>,
    /// The columns whose cells together label the event: with its group, or with its item in a sketch.
    pub labels: Vec<String>,
    /// The person to whom the event belongs.
    pub person: Option<String>,
    /// The value to sum.
    pub value: Option<String>,
    /// The columns that decide whether a row is [counted](crate::filter::RowFilter).
    pub filter: Vec<String>,
}

impl Columns {
    /// The names of the columns of an event in the order of a row: time, time of day, labels, person and value.
    pub fn in_order(&self) -> impl Iterator<Item = &String> {
        let times = std::iter::once(&self.time).chain(&self.time_of_day);
        times.chain(&self.labels).chain(&self.person).chain(&self.value)
    }
}

/// The use of a column.
#[doc(alias = "Role")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnRole {
    /// The time of the event, or its date.
    Time,
    /// The time of day of the event, if it has a separate column.
    TimeOfDay,
    /// One of the label columns, by its place in [`Columns::labels`].
    Label(usize),
    /// The person to whom the event belongs.
    Person,
    /// The value to sum.
    Value,
    /// One of the columns of the filter, by its place in [`Columns::filter`].
    Filter(usize),
}

/// The distinct columns to read, and their roles.
#[doc(alias = "Layout")]
#[derive(Clone, Debug)]
pub struct ColumnLayout {
    names: Vec<String>,
    time: usize,
    time_of_day: Option<usize>,
    labels: Vec<usize>,
    person: Option<usize>,
    value: Option<usize>,
    filter: Vec<usize>,
}

impl ColumnLayout {
    /// Lists each used column once, however many roles it has.
    pub fn new(columns: &Columns) -> Self {
        let mut names: Vec<String> = Vec::new();
        let mut slot = |name: &String| match names.iter().position(|n| n == name) {
            Some(i) => i,
            None => {
                names.push(name.clone());
                names.len() - 1
            }
        };
        let time = slot(&columns.time);
        let time_of_day = columns.time_of_day.as_ref().map(&mut slot);
        let labels = columns.labels.iter().map(&mut slot).collect();
        let person = columns.person.as_ref().map(&mut slot);
        let value = columns.value.as_ref().map(&mut slot);
        let filter = columns.filter.iter().map(&mut slot).collect();
        ColumnLayout { names, time, time_of_day, labels, person, value, filter }
    }

    /// This layout with further columns, which have no role; names that it has already are not repeated.
    #[must_use]
    pub fn with_others(mut self, names: impl IntoIterator<Item = String>) -> Self {
        for name in names {
            if !self.names.contains(&name) {
                self.names.push(name);
            }
        }
        self
    }

    /// The names of the columns, by slot.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    fn slot(&self, role: ColumnRole) -> Option<usize> {
        match role {
            ColumnRole::Time => Some(self.time),
            ColumnRole::TimeOfDay => self.time_of_day,
            ColumnRole::Label(i) => self.labels.get(i).copied(),
            ColumnRole::Person => self.person,
            ColumnRole::Value => self.value,
            ColumnRole::Filter(i) => self.filter.get(i).copied(),
        }
    }
}

/// The position of an event: the file and the line or row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position<'a> {
    /// The file, as messages name it.
    pub file: &'a str,
    /// The line or row in it.
    pub place: Place,
}

impl fmt::Display for Position<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.file, self.place)
    }
}

/// The cells of one row, by slot of the [`ColumnLayout`].
pub trait Cells {
    /// The cell in a slot of the layout.
    fn cell(&self, slot: usize) -> Field<'_>;

    /// The whole row; without cells where the format of the input has no other columns.
    fn whole(&self) -> WholeRow {
        WholeRow::default()
    }
}

/// A row as its file has it, with the columns that a release does not use. **Not private.**
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WholeRow {
    /// The names and texts of its columns, in the order of the file; of Parquet and Arrow, first those in use. Missing
    /// cells are empty.
    pub cells: Vec<(String, String)>,
    /// The row in one text: a CSV record, or a JSON object.
    pub text: String,
}

/// One row of the input.
#[derive(Clone, Copy)]
pub struct Event<'a> {
    /// Its position in the input.
    pub position: Position<'a>,
    cells: &'a dyn Cells,
    layout: &'a ColumnLayout,
}

impl<'a> Event<'a> {
    /// A row at `position` with these cells, one for each name of the layout.
    #[inline]
    pub fn new(position: Position<'a>, cells: &'a dyn Cells, layout: &'a ColumnLayout) -> Self {
        Event { position, cells, layout }
    }

    /// The cell in a slot of the [`ColumnLayout`].
    ///
    /// # Panics
    /// When there is no such slot.
    pub fn cell(&self, slot: usize) -> Field<'a> {
        self.cells.cell(slot)
    }

    /// Its time, or its date if the time of day is in another column.
    pub fn time(&self) -> Field<'a> {
        self.cells.cell(self.layout.time)
    }

    /// Its time of day, if that is in a separate column.
    #[inline]
    pub fn time_of_day(&self) -> Option<Field<'a>> {
        self.layout.time_of_day.map(|slot| self.cells.cell(slot))
    }

    /// The number of label columns.
    pub fn label_count(&self) -> usize {
        self.layout.labels.len()
    }

    /// The cell of one label column.
    ///
    /// # Panics
    /// When there is no such label column.
    pub fn label(&self, index: usize) -> Field<'a> {
        self.cells.cell(self.layout.labels[index])
    }

    /// The cells of all label columns, in the order they were declared.
    pub fn labels(&self) -> impl Iterator<Item = Field<'a>> + use<'a> {
        let cells = self.cells;
        self.layout.labels.iter().map(move |&slot| cells.cell(slot))
    }

    /// The person to whom it belongs; missing if no person column was declared.
    pub fn person(&self) -> Field<'a> {
        self.layout.person.map_or(Field::Missing, |slot| self.cells.cell(slot))
    }

    /// The [identity](Identities::of) of the person, or of one part of the group or item; `None` when it is missing.
    ///
    /// # Errors
    /// If the cell is a number that may have been rounded. The error names row and column.
    #[inline]
    pub fn identity<'s>(
        &self,
        role: ColumnRole,
        ids: Identities,
        scratch: &'s mut String,
    ) -> Result<Option<&'s str>, InputError>
    where
        'a: 's,
    {
        let cell = self.layout.slot(role).map_or(Field::Missing, |slot| self.cells.cell(slot));
        ids.of(cell, scratch).map_err(|inexact| self.bad_cell(role, inexact.sentence()).remedy(inexact.remedy()))
    }

    /// The value to sum; missing if no value column was declared.
    pub fn value(&self) -> Field<'a> {
        self.layout.value.map_or(Field::Missing, |slot| self.cells.cell(slot))
    }

    /// The cell of one column of the filter.
    ///
    /// # Panics
    /// When there is no such column.
    pub fn filter_cell(&self, index: usize) -> Field<'a> {
        self.cells.cell(self.layout.filter[index])
    }

    /// The cells of all columns of the filter.
    pub fn filter_cells(&self) -> impl Iterator<Item = Field<'a>> + use<'a> {
        let cells = self.cells;
        self.layout.filter.iter().map(move |&slot| cells.cell(slot))
    }

    /// The whole row, with columns that are not used. **Not private.**
    pub fn whole(&self) -> WholeRow {
        self.cells.whole()
    }

    /// Whether a person column was declared.
    pub fn has_person(&self) -> bool {
        self.layout.person.is_some()
    }

    /// Whether a value column was declared.
    pub fn has_value(&self) -> bool {
        self.layout.value.is_some()
    }

    /// An error that names this row and the column of `role`, followed by `problem`.
    pub fn error(&self, role: ColumnRole, problem: impl Into<Sentence>) -> InputError {
        let error = InputError::in_file(self.position.file, problem).at(self.position.place);
        match self.layout.slot(role) {
            Some(slot) => error.in_column(self.layout.names[slot].clone()),
            None => error,
        }
    }

    /// As [`error`](Self::error), with the cell's text in front of the problem: "`abc` is not a number".
    pub fn bad_cell(&self, role: ColumnRole, problem: impl Into<Sentence>) -> InputError {
        let cell = self.layout.slot(role).map_or(Field::Missing, |slot| self.cells.cell(slot)).to_string();
        self.error(role, Sentence::from(format!("{} ", quoted(&cell))).then(problem)).with_cell(cell)
    }

    /// The time column as a step number, if it contains one; also as text, or as a double without a fraction.
    pub fn step_number(&self) -> Option<u64> {
        match self.time() {
            Field::Integer(step) => u64::try_from(step).ok(),
            Field::Float(step) if step.fract() == 0.0 && (0.0..1e15).contains(&step) => Some(step as u64),
            Field::Text(step) | Field::Number(step) | Field::Decimal(step) => {
                let mut scratch = String::new();
                Identities::default().of(Field::Text(step.trim()), &mut scratch).ok()??.parse().ok()
            }
            _ => None,
        }
    }

    /// The value as the sum of values on `grid`: as [`multiple_of`](Self::multiple_of), but a number between two
    /// multiples is refused. (Rounding half to even could map two sums that are one multiple apart to multiples that
    /// are two apart.) Sums of doubles may miss their multiple by a millionth of the grid.
    pub fn sum_on(&self, grid: Grid) -> Result<Option<i64>, InputError> {
        let Some(multiple) = self.multiple_of(grid)? else { return Ok(None) };
        // Beyond 2^50 multiples doubles are too far apart to decide.
        let is_near = |value: f64| {
            multiple.unsigned_abs() <= 1 << 50 && (value - grid.to_f64(multiple.into())).abs() <= 1e-6 * grid.to_f64(1)
        };
        let is_one = match self.value() {
            Field::Float(value) | Field::Short { value, .. } => is_near(value),
            Field::Text(text) | Field::Number(text) | Field::Decimal(text) => {
                number::is_multiple(text, grid) || text.trim().parse().is_ok_and(is_near)
            }
            Field::Integer(value) => number::is_multiple(&value.to_string(), grid),
            _ => false,
        };
        if is_one {
            return Ok(Some(multiple));
        }
        let problem =
            format!("lies between two multiples of the grid ({}), so it is not a sum of values on it", grid.format(1));
        Err(self.bad_cell(ColumnRole::Value, problem))
    }

    /// The value as a multiple of `grid`; `Ok(None)` when missing, an error that names row and column when unreadable.
    pub fn multiple_of(&self, grid: Grid) -> Result<Option<i64>, InputError> {
        self.value().multiple_of(grid).map_err(|problem| self.bad_cell(ColumnRole::Value, problem.to_string()))
    }
}

impl fmt::Debug for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("position", &self.position)
            .field("time", &self.time())
            .field("time_of_day", &self.time_of_day())
            .field("labels", &self.labels().collect::<Vec<_>>())
            .field("person", &self.person())
            .field("value", &self.value())
            .finish()
    }
}
