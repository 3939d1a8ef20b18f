//! The first rows of an input, kept to try options on them.

use evertally_declare::event::{Cells, Event, Field};

/// The number of rows that are kept.
pub(super) const MOST_ROWS: usize = 10_000;

/// A cell that outlives its row.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SampleCell {
    Text(String),
    Number(String),
    Decimal(String),
    /// Any other field.
    Plain(Field<'static>),
}

impl SampleCell {
    pub(super) fn new(field: Field<'_>) -> Self {
        match field {
            Field::Text(text) => Self::Text(text.to_owned()),
            Field::Number(text) => Self::Number(text.to_owned()),
            Field::Decimal(text) => Self::Decimal(text.to_owned()),
            Field::Missing => Self::Plain(Field::Missing),
            Field::Integer(value) => Self::Plain(Field::Integer(value)),
            Field::Float(value) => Self::Plain(Field::Float(value)),
            Field::Short { value, bits } => Self::Plain(Field::Short { value, bits }),
            Field::Instant(micros) => Self::Plain(Field::Instant(micros)),
            Field::Civil(micros) => Self::Plain(Field::Civil(micros)),
            Field::Date(days) => Self::Plain(Field::Date(days)),
        }
    }

    pub(super) fn field(&self) -> Field<'_> {
        match self {
            Self::Text(text) => Field::Text(text),
            Self::Number(text) => Field::Number(text),
            Self::Decimal(text) => Field::Decimal(text),
            Self::Plain(field) => *field,
        }
    }
}

/// One row of a sample.
#[derive(Clone, Debug, Default)]
pub(super) struct SampleRow(pub(super) Vec<SampleCell>);

impl SampleRow {
    /// The first `columns` cells of an event.
    pub(super) fn new(event: &Event<'_>, columns: usize) -> Self {
        Self((0..columns).map(|slot| SampleCell::new(event.cell(slot))).collect())
    }
}

impl Cells for SampleRow {
    fn cell(&self, slot: usize) -> Field<'_> {
        self.0[slot].field()
    }
}
