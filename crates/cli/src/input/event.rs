//! One event as the readers hand it on: borrowed from the reader's buffer, good until the next one.

use std::fmt;

use super::decimal::{self, DecimalError, Grid, Rounding};
use super::error::{InputError, Place, quoted};

/// The columns of the input that matter, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// When the event happened.
    pub time: String,
    /// The columns that together name the event's group.
    pub groups: Vec<String>,
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
    /// One of the group columns, by its place in [`Columns::groups`].
    Group(usize),
    /// Who the event belongs to.
    Person,
    /// What is summed.
    Value,
}

/// The distinct columns to read, and which of them plays which role.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) names: Vec<String>,
    pub(super) time: usize,
    pub(super) groups: Vec<usize>,
    pub(super) person: Option<usize>,
    pub(super) value: Option<usize>,
}

impl Layout {
    pub(super) fn new(columns: &Columns) -> Self {
        let mut names: Vec<String> = Vec::new();
        let mut slot = |name: &String| match names.iter().position(|n| n == name) {
            Some(i) => i,
            None => {
                names.push(name.clone());
                names.len() - 1
            }
        };
        let time = slot(&columns.time);
        let groups = columns.groups.iter().map(&mut slot).collect();
        let person = columns.person.as_ref().map(&mut slot);
        let value = columns.value.as_ref().map(&mut slot);
        Layout { names, time, groups, person, value }
    }

    fn slot(&self, role: Role) -> Option<usize> {
        match role {
            Role::Time => Some(self.time),
            Role::Group(i) => self.groups.get(i).copied(),
            Role::Person => self.person,
            Role::Value => self.value,
        }
    }
}

/// One cell of the input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Field<'a> {
    /// Empty, null, absent, or one of the declared missing texts.
    Missing,
    /// Text; also a number that the file holds as text, so that its digits stay exact.
    Text(&'a str),
    /// A whole number of a typed column.
    Integer(i64),
    /// A double of a typed column.
    Float(f64),
    /// An instant of a typed column, in microseconds since 1970 UTC.
    Instant(i64),
    /// A date and time of day of a typed column without a zone, as microseconds since 1970-01-01T00:00.
    Civil(i64),
    /// A date of a typed column, as days since 1970-01-01.
    Date(i32),
}

impl<'a> Field<'a> {
    /// Whether the cell holds nothing.
    pub fn is_missing(&self) -> bool {
        matches!(self, Field::Missing)
    }

    /// The cell as text, for group and person names; `None` when missing. Text is borrowed, the rest is written to
    /// `scratch`.
    pub fn text<'s>(&self, scratch: &'s mut String) -> Option<&'s str>
    where
        'a: 's,
    {
        match self {
            Field::Missing => None,
            Field::Text(text) => Some(text),
            other => {
                use fmt::Write;
                scratch.clear();
                write!(scratch, "{other}").expect("a String accepts every write");
                Some(scratch)
            }
        }
    }

    /// The cell as a multiple of `grid`; `Ok(None)` when missing.
    pub fn multiple_of(&self, grid: Grid) -> Result<Option<i64>, DecimalError> {
        match self {
            Field::Missing => Ok(None),
            Field::Text(text) => decimal::parse_scaled(text, grid).map(Some),
            Field::Integer(value) => decimal::scale_integer(*value, grid).map(Some),
            Field::Float(value) => decimal::scale_float(*value, grid, Rounding::HalfEven).map(Some),
            Field::Instant(_) | Field::Civil(_) | Field::Date(_) => Err(DecimalError::NotANumber),
        }
    }
}

impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Field::Missing => Ok(()),
            Field::Text(text) => f.write_str(text),
            Field::Integer(value) => write!(f, "{value}"),
            Field::Float(value) => write!(f, "{value}"),
            Field::Instant(micros) => match jiff::Timestamp::from_microsecond(*micros) {
                Ok(time) => write!(f, "{time}"),
                Err(_) => write!(f, "{micros} µs"),
            },
            Field::Civil(micros) => match jiff::Timestamp::from_microsecond(*micros) {
                Ok(time) => write!(f, "{}", jiff::tz::TimeZone::UTC.to_datetime(time)),
                Err(_) => write!(f, "{micros} µs"),
            },
            Field::Date(days) => match jiff::Timestamp::from_second(i64::from(*days) * 86_400) {
                Ok(time) => write!(f, "{}", jiff::tz::TimeZone::UTC.to_datetime(time).date()),
                Err(_) => write!(f, "day {days}"),
            },
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
pub(super) trait Cells {
    fn cell(&self, slot: usize) -> Field<'_>;
}

/// One row of the input.
#[derive(Clone, Copy)]
pub struct Event<'a> {
    /// Where it stands.
    pub position: Position<'a>,
    pub(super) cells: &'a dyn Cells,
    pub(super) layout: &'a Layout,
}

impl<'a> Event<'a> {
    /// When it happened.
    pub fn time(&self) -> Field<'a> {
        self.cells.cell(self.layout.time)
    }

    /// How many group columns there are.
    pub fn group_count(&self) -> usize {
        self.layout.groups.len()
    }

    /// The cell of one group column.
    ///
    /// # Panics
    /// When there is no such group column.
    pub fn group(&self, index: usize) -> Field<'a> {
        self.cells.cell(self.layout.groups[index])
    }

    /// The cells of all group columns, in the order they were declared.
    pub fn groups(&self) -> impl Iterator<Item = Field<'a>> + use<'a> {
        let cells = self.cells;
        self.layout.groups.iter().map(move |&slot| cells.cell(slot))
    }

    /// Who it belongs to: missing where no person column was declared.
    pub fn person(&self) -> Field<'a> {
        self.layout.person.map_or(Field::Missing, |slot| self.cells.cell(slot))
    }

    /// What is summed: missing where no value column was declared.
    pub fn value(&self) -> Field<'a> {
        self.layout.value.map_or(Field::Missing, |slot| self.cells.cell(slot))
    }

    /// An error that names this row and the column of `role`, and then says `problem`.
    pub fn error(&self, role: Role, problem: impl fmt::Display) -> InputError {
        let error = InputError::of_file(self.position.file, problem).at(self.position.place);
        match self.layout.slot(role) {
            Some(slot) => error.in_column(self.layout.names[slot].clone()),
            None => error,
        }
    }

    /// As [`error`](Self::error), with the cell's text in front of the problem: "`abc` is not a number".
    pub fn bad_cell(&self, role: Role, problem: impl fmt::Display) -> InputError {
        let cell = self.layout.slot(role).map_or(Field::Missing, |slot| self.cells.cell(slot));
        self.error(role, format_args!("{} {problem}", quoted(&cell.to_string())))
    }

    /// The value as a multiple of `grid`; `Ok(None)` when missing, an error that names row and column when unreadable.
    pub fn multiple_of(&self, grid: Grid) -> Result<Option<i64>, InputError> {
        self.value().multiple_of(grid).map_err(|problem| self.bad_cell(Role::Value, problem))
    }
}

impl fmt::Debug for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("position", &self.position)
            .field("time", &self.time())
            .field("groups", &self.groups().collect::<Vec<_>>())
            .field("person", &self.person())
            .field("value", &self.value())
            .finish()
    }
}
