//! Time zones by name, from the tables compiled into the program.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};

use crate::words::shorten;

/// A named time zone.
///
/// The rules are compiled into the program instead of read from the machine, so a plan means the same steps everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    name: String,
    zone: TimeZone,
}

impl Zone {
    /// Coordinated universal time.
    pub fn utc() -> Self {
        Zone { name: "UTC".into(), zone: TimeZone::UTC }
    }

    /// The name, such as `UTC`, `Europe/Berlin` or `+02:00`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The calendar library's own type.
    pub fn time_zone(&self) -> &TimeZone {
        &self.zone
    }

    /// All zones of the database.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        database().available().filter_map(|name| name.as_str().parse().ok())
    }

    /// The offset from UTC in seconds, if there is only one.
    pub fn fixed_offset(&self) -> Option<i64> {
        self.zone.to_fixed_offset().ok().map(|offset| i64::from(offset.seconds()))
    }
}

/// The tables compiled into the program.
fn database() -> &'static TimeZoneDatabase {
    static DATABASE: OnceLock<TimeZoneDatabase> = OnceLock::new();
    DATABASE.get_or_init(TimeZoneDatabase::bundled)
}

impl Default for Zone {
    fn default() -> Self {
        Zone::utc()
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}

impl FromStr for Zone {
    type Err = ZoneError;

    fn from_str(text: &str) -> Result<Self, ZoneError> {
        if ["utc", "z", "etc/utc"].iter().any(|name| text.eq_ignore_ascii_case(name)) {
            return Ok(Zone::utc());
        }
        if let Some(seconds) = crate::civil::parse_offset(text.as_bytes()) {
            let offset = Offset::from_seconds(seconds).map_err(|_| ZoneError { text: shorten(text) })?;
            return Ok(Zone { name: text.to_owned(), zone: TimeZone::fixed(offset) });
        }
        let zone = database().get(text).map_err(|_| ZoneError { text: shorten(text) })?;
        Ok(Zone { name: zone.iana_name().unwrap_or(text).to_owned(), zone })
    }
}

impl serde::Serialize for Zone {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name)
    }
}

impl<'de> serde::Deserialize<'de> for Zone {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A text that does not name a time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneError {
    text: String,
}

impl fmt::Display for ZoneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a time zone: give a name such as UTC, Europe/Berlin or America/New_York, or an offset such as \
             +02:00",
            self.text
        )
    }
}

impl std::error::Error for ZoneError {}
