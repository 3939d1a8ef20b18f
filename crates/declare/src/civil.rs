//! Dates and times of day: reading them, and their canonical texts.

mod error;
mod parse;
mod time;

pub use error::TimeError;
pub(crate) use parse::{MICROS_PER_DAY, MICROS_PER_SECOND, parse, parse_offset};
pub(crate) use time::Time;

#[cfg(test)]
pub(crate) use parse::date_of;
