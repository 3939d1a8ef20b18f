//! Dates and times of day: reading them, and their canonical texts.

mod declared;
mod error;
mod parse;
mod time;
mod wide;

pub use error::TimeError;
pub(crate) use parse::{LastDate, MICROS_PER_DAY, MICROS_PER_SECOND, date_of, days_since_1970};
pub(crate) use parse::{parse, parse_after, parse_offset, parse_usual};
pub(crate) use time::Time;
pub(crate) use wide::{TimeOfDay, parse_clock, parse_wide};
