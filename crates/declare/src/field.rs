//! One cell of the input.

use crate::civil::Time;
use evertally::number::{self, DecimalError, Grid, Rounding};
use std::fmt;

/// One cell of the input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Field<'a> {
    /// Empty, null, absent, or one of the declared missing texts.
    Missing,
    /// Text; also a number that the file stores as text.
    Text(&'a str),
    /// A number of a format whose numbers are texts with a point as the decimal mark, such as JSON: its digits stay
    /// exact, and no declared [number format](crate::numbers::NumberFormat) applies to it.
    Number(&'a str),
    /// A whole number of a typed column.
    Integer(i64),
    /// A double of a typed column.
    Float(f64),
    /// A shorter floating-point number of a typed column, as the double with the same shortest decimal text.
    Short {
        /// The double.
        value: f64,
        /// Significant bits of the column's type.
        bits: u32,
    },
    /// A decimal number of a typed column, exact.
    Decimal(&'a str),
    /// An instant of a typed column, in microseconds since 1970 UTC.
    Instant(i64),
    /// A date and time of day of a typed column without a zone, as microseconds since 1970-01-01T00:00.
    Civil(i64),
    /// A date of a typed column, as days since 1970-01-01.
    Date(i32),
}

impl<'a> Field<'a> {
    /// Whether the cell is empty.
    pub fn is_missing(&self) -> bool {
        matches!(self, Field::Missing)
    }

    /// The cell as text; `None` when missing. Text is borrowed, the rest is written to `scratch`. Persons, groups and
    /// items are compared by their [identity](crate::identity::Identities::of) instead.
    pub fn text<'s>(&self, scratch: &'s mut String) -> Option<&'s str>
    where
        'a: 's,
    {
        match self {
            Field::Missing => None,
            Field::Text(text) | Field::Number(text) | Field::Decimal(text) => Some(text),
            other => {
                use fmt::Write;
                scratch.clear();
                write!(scratch, "{other}").expect("a String accepts every write");
                Some(scratch)
            }
        }
    }

    /// The cell as a multiple of `grid`; `Ok(None)` when missing. Texts have a point as the decimal mark.
    pub fn multiple_of(&self, grid: Grid) -> Result<Option<i64>, DecimalError> {
        match self {
            Field::Missing => Ok(None),
            Field::Text(text) | Field::Number(text) | Field::Decimal(text) => {
                number::parse_scaled(text, grid).map(Some)
            }
            Field::Integer(value) => number::scale_integer(*value, grid).map(Some),
            Field::Float(value) | Field::Short { value, .. } => {
                number::scale_float(*value, grid, Rounding::HalfEven).map(Some)
            }
            Field::Instant(_) | Field::Civil(_) | Field::Date(_) => Err(DecimalError::NotANumber),
        }
    }
}

impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Field::Missing => Ok(()),
            Field::Text(text) | Field::Number(text) | Field::Decimal(text) => f.write_str(text),
            Field::Integer(value) => write!(f, "{value}"),
            Field::Float(value) | Field::Short { value, .. } => write!(f, "{value}"),
            Field::Instant(micros) | Field::Civil(micros) => {
                let time = Time::from_micros(*micros);
                if !time.has_four_digit_year() {
                    return write!(f, "{micros} µs");
                }
                time.put(f)?;
                f.write_str(if matches!(self, Field::Instant(_)) { "Z" } else { "" })
            }
            Field::Date(days) => {
                let time = Time::from_days(i64::from(*days));
                if time.has_four_digit_year() { time.write_date(f) } else { write!(f, "day {days}") }
            }
        }
    }
}
