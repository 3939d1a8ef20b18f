//! Time: reading instants, and cutting a horizon into steps.
//!
//! ```
//! use evertally_declare::steps::{Horizon, StepCalendar, TimeFormat, TimeParser, Zone};
//! let zone: Zone = "America/New_York".parse().unwrap();
//! let mut parser = TimeParser::new(TimeFormat::Auto, zone.clone());
//! let start = parser.parse_text("2024-03-01").unwrap();
//! let end = parser.parse_text("2024-04-01").unwrap();
//! let calendar = StepCalendar::new(start, Horizon::Until(end), "1d".parse().unwrap(), zone).unwrap();
//! assert_eq!(calendar.steps(), 31);
//! assert_eq!(calendar.step_of(parser.parse_text("2024-03-10T23:30").unwrap()), Some(10));
//! ```

mod boundaries;
mod calendar;
mod every;
mod format;
mod horizon;
mod instant;
mod parser;
mod pattern;
mod period;
mod zone;
mod zone_text;

pub use crate::civil::TimeError;
pub use calendar::{CalendarSpec, StepCalendar};
pub use every::{Every, EveryError, StepUnit};
pub use format::{EpochUnit, TimeFormat};
pub use horizon::{CalendarError, Horizon, MAX_STEPS};
pub use instant::Instant;
pub use parser::{ReadTime, TimeParser, no_time};
pub use pattern::{Precision, TimePattern};
pub use period::{Period, PeriodError, Periods};
pub use zone::{Zone, ZoneError};

#[cfg(test)]
mod tests;
