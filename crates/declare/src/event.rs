//! One event as the readers hand it on: borrowed from the reader's buffer, good until the next one.

use std::fmt;

use crate::error::{InputError, Place};
pub use crate::field::Field;
use crate::identity::Identities;
use crate::problem::Sentence;
use crate::words::quoted;
use evertally::number::{self, Grid};

/// The columns of the input that matter, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// When the event happened.
    pub time: String,
    /// The columns whose cells together label the event: with its group, or with its item in a sketch.
    pub labels: Vec<String>,
    /// Who the event belongs to.
    pub person: Option<String>,
    /// What is summed.
    pub value: Option<String>,
}

/// What a column is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// When the event happened.
    Time,
    /// One of the label columns, by its place in [`Columns::labels`].
    Label(usize),
    /// Who the event belongs to.
    Person,
    /// What is summed.
    Value,
}

/// The distinct columns to read, and which of them plays which role.
#[derive(Clone, Debug)]
pub struct Layout {
    names: Vec<String>,
    time: usize,
    labels: Vec<usize>,
    person: Option<usize>,
    value: Option<usize>,
}

impl Layout {
    /// Each wanted column once, however many roles it has.
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
        let labels = columns.labels.iter().map(&mut slot).collect();
        let person = columns.person.as_ref().map(&mut slot);
        let value = columns.value.as_ref().map(&mut slot);
        Layout { names, time, labels, person, value }
    }

    /// The names of the columns, by slot.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    fn slot(&self, role: Role) -> Option<usize> {
        match role {
            Role::Time => Some(self.time),
            Role::Label(i) => self.labels.get(i).copied(),
            Role::Person => self.person,
            Role::Value => self.value,
        }
    }
}

/// Where an event stands: the file and the line or row.
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

/// The cells of one row, by slot of the [`Layout`].
pub trait Cells {
    /// The cell in a slot of the layout.
    fn cell(&self, slot: usize) -> Field<'_>;
}

/// One row of the input.
#[derive(Clone, Copy)]
pub struct Event<'a> {
    /// Where it stands.
    pub position: Position<'a>,
    cells: &'a dyn Cells,
    layout: &'a Layout,
}

impl<'a> Event<'a> {
    /// A row that stands at `position` and has these cells, one for each name of the layout.
    #[inline]
    pub fn new(position: Position<'a>, cells: &'a dyn Cells, layout: &'a Layout) -> Self {
        Event { position, cells, layout }
    }

    /// When it happened.
    pub fn time(&self) -> Field<'a> {
        self.cells.cell(self.layout.time)
    }

    /// How many label columns there are.
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

    /// Who it belongs to: missing where no person column was declared.
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
        role: Role,
        ids: Identities,
        scratch: &'s mut String,
    ) -> Result<Option<&'s str>, InputError>
    where
        'a: 's,
    {
        let cell = self.layout.slot(role).map_or(Field::Missing, |slot| self.cells.cell(slot));
        ids.of(cell, scratch).map_err(|inexact| self.bad_cell(role, inexact.sentence()).remedy(inexact.remedy()))
    }

    /// What is summed: missing where no value column was declared.
    pub fn value(&self) -> Field<'a> {
        self.layout.value.map_or(Field::Missing, |slot| self.cells.cell(slot))
    }

    /// Whether a person column was declared.
    pub fn has_person(&self) -> bool {
        self.layout.person.is_some()
    }

    /// Whether a value column was declared.
    pub fn has_value(&self) -> bool {
        self.layout.value.is_some()
    }

    /// An error that names this row and the column of `role`, and then says `problem`.
    pub fn error(&self, role: Role, problem: impl Into<Sentence>) -> InputError {
        let error = InputError::of_file(self.position.file, problem).at(self.position.place);
        match self.layout.slot(role) {
            Some(slot) => error.in_column(self.layout.names[slot].clone()),
            None => error,
        }
    }

    /// As [`error`](Self::error), with the cell's text in front of the problem: "`abc` is not a number".
    pub fn bad_cell(&self, role: Role, problem: impl Into<Sentence>) -> InputError {
        let cell = self.layout.slot(role).map_or(Field::Missing, |slot| self.cells.cell(slot)).to_string();
        self.error(role, Sentence::from(format!("{} ", quoted(&cell))).then(problem)).with_cell(cell)
    }

    /// The time column as the number of a step, where that is what stands there; also as a text, or a double without a
    /// fraction.
    pub fn step_number(&self) -> Option<u64> {
        match self.time() {
            Field::Integer(step) => u64::try_from(step).ok(),
            Field::Float(step) if step.fract() == 0.0 && (0.0..1e15).contains(&step) => Some(step as u64),
            Field::Text(step) | Field::Decimal(step) => {
                let mut scratch = String::new();
                Identities::default().of(Field::Text(step.trim()), &mut scratch).ok()??.parse().ok()
            }
            _ => None,
        }
    }

    /// The value as the sum of values on `grid`: as [`multiple_of`](Self::multiple_of), but what lies between two multiples
    /// is none. (Rounding half to even would take two sums that are one multiple apart to others that are two apart.) What
    /// doubles add up to may miss its multiple by a millionth of the grid.
    pub fn sum_on(&self, grid: Grid) -> Result<Option<i64>, InputError> {
        let Some(multiple) = self.multiple_of(grid)? else { return Ok(None) };
        // Beyond 2^50 multiples doubles are too far apart to tell.
        let is_near = |value: f64| {
            multiple.unsigned_abs() <= 1 << 50 && (value - grid.to_f64(multiple.into())).abs() <= 1e-6 * grid.to_f64(1)
        };
        let is_one = match self.value() {
            Field::Float(value) | Field::Short { value, .. } => is_near(value),
            Field::Text(text) | Field::Decimal(text) => {
                number::is_multiple(text, grid) || text.trim().parse().is_ok_and(is_near)
            }
            Field::Integer(value) => number::is_multiple(&value.to_string(), grid),
            _ => false,
        };
        if is_one {
            return Ok(Some(multiple));
        }
        let problem =
            format!("lies between two multiples of the grid ({}), and is no sum of values on it", grid.format(1));
        Err(self.bad_cell(Role::Value, problem))
    }

    /// The value as a multiple of `grid`; `Ok(None)` when missing, an error that names row and column when unreadable.
    pub fn multiple_of(&self, grid: Grid) -> Result<Option<i64>, InputError> {
        self.value().multiple_of(grid).map_err(|problem| self.bad_cell(Role::Value, problem.to_string()))
    }
}

impl fmt::Debug for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("position", &self.position)
            .field("time", &self.time())
            .field("labels", &self.labels().collect::<Vec<_>>())
            .field("person", &self.person())
            .field("value", &self.value())
            .finish()
    }
}
