//! Which format reads a column of times.
//!
//! Nothing is decided that a cell could contradict: a date whose day and month can be exchanged is read in either order
//! by two patterns, and both are named unless some cell has a number above 12.

use super::columns::most;
use super::sample::SampleCell;
use evertally_declare::event::Field;
use evertally_declare::steps::{EpochUnit, Instant, Precision, TimeFormat, TimeParser, Zone};
use serde::Serialize;
use std::collections::BTreeSet;

/// Cells in other years are not times: they are numbers that look like one.
const YEARS: std::ops::Range<i64> = 1900..2200;

/// Dates with separators are recognised in these years.
const SEPARATED_YEARS: std::ops::Range<i64> = 1500..2200;

/// Numbers of units since 1970 are recognised in these years.
const EPOCH_YEARS: std::ops::Range<i64> = 1990..2050;

/// The number of cells whose shapes choose the patterns to try.
const SHAPES: usize = 20;

/// How the cells of a column are read as times.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "reads")]
pub(super) enum TimeGuess {
    /// In this format.
    Format {
        format: String,
        /// Whether all are dates without a time of day.
        dates: bool,
    },
    /// In several formats, with different results.
    Ambiguous { formats: Vec<String> },
}

impl TimeGuess {
    /// A single format is not ambiguous. All those that compete for the cells state the same parts of a time.
    pub(super) fn settled(self) -> Self {
        match self {
            Self::Ambiguous { formats } if formats.len() == 1 => {
                let dates = !formats[0].contains("%H") && !formats[0].contains("%I");
                Self::Format { format: formats[0].clone(), dates }
            }
            other => other,
        }
    }
}

/// The cells that a format reads.
struct Tried {
    format: String,
    count: u64,
    dates: bool,
    instants: Vec<Option<Instant>>,
}

/// How most cells are read as times; `None` if they are not times.
pub(super) fn guess<'c>(cells: impl Iterator<Item = &'c SampleCell>, zone: &Zone) -> Option<TimeGuess> {
    let cells: Vec<Field<'_>> = cells.map(SampleCell::field).filter(|cell| !cell.is_missing()).collect();
    let shapes: BTreeSet<String> = cells.iter().take(SHAPES).map(|cell| shape(cell.to_string().trim())).collect();
    let tried: Vec<Tried> = candidates(&shapes)
        .into_iter()
        .filter_map(|format| tried(format, &cells, zone))
        .filter(|tried| tried.count >= most(cells.len() as u64))
        .collect();
    let best = tried.iter().map(|tried| tried.count).max()?;
    let mut different: Vec<&Tried> = Vec::new();
    for tried in tried.iter().filter(|tried| tried.count == best) {
        // `auto` comes first: its reading of a text is the documented one.
        let is_same = |other: &Tried| other.instants == tried.instants && order(&other.format) == order(&tried.format);
        if different.iter().all(|other| other.format != "auto" && !is_same(other)) {
            different.push(tried);
        }
    }
    Some(match different[..] {
        [one] => TimeGuess::Format { format: one.format.clone(), dates: one.dates },
        _ => TimeGuess::Ambiguous { formats: different.iter().map(|tried| tried.format.clone()).collect() },
    })
}

/// A reader of times in a found format.
pub(super) fn parser(format: &str, zone: &Zone) -> Option<TimeParser> {
    Some(TimeParser::new(format.parse::<TimeFormat>().ok()?, zone.clone()))
}

/// The parts of a date in the order of a pattern: 01/01/2024 is the same day in either order, and the next one is not.
fn order(format: &str) -> Vec<char> {
    let parts = format.split('%').skip(1).filter_map(|part| part.chars().next());
    let part = |c: char| match c {
        'B' => 'b',
        'y' => 'Y',
        other => other,
    };
    parts.map(part).filter(|c| "dmbY".contains(*c)).collect()
}

fn tried(format: String, cells: &[Field<'_>], zone: &Zone) -> Option<Tried> {
    let mut parser = parser(&format, zone)?;
    let years = match parser.epoch_unit() {
        Some(_) => EPOCH_YEARS,
        None if ["%Y%m%d", "%d%m%Y", "%m%d%Y"].iter().any(|packed| format.starts_with(packed)) => YEARS,
        None => SEPARATED_YEARS,
    };
    let (mut count, mut dates) = (0, true);
    let instants = cells.iter().enumerate().map(|(place, cell)| {
        // The first cells decide about most formats.
        if place >= SHAPES && count == 0 {
            return None;
        }
        let time = parser.read(*cell).ok().filter(|time| years.contains(&year(time.instant)))?;
        count += 1;
        dates &= time.precision != Precision::Time;
        Some(time.instant)
    });
    let instants: Vec<Option<Instant>> = instants.collect();
    Some(Tried { format, count, dates, instants })
}

/// The year of an instant, give or take a day.
fn year(instant: Instant) -> i64 {
    const YEAR_MICROS: i64 = 31_556_952 * 1_000_000;
    1970 + instant.micros().div_euclid(YEAR_MICROS)
}

/// The formats to try for cells of these shapes.
fn candidates(shapes: &BTreeSet<String>) -> Vec<String> {
    let mut formats = vec!["auto".to_owned()];
    if shapes.iter().any(|shape| matches!(&shape[..], "9" | "9.9")) {
        formats.extend(EpochUnit::ALL.map(|unit| unit.format_word().to_owned()));
    }
    let zones = ["", "%z", " %z"];
    let is_possible = |pattern: &str| {
        let before_zone = shape(pattern.split("%z").next().unwrap_or(pattern));
        shapes.iter().any(|shape| match shape.strip_prefix(&before_zone) {
            Some(zone) if pattern.contains("%z") => !zone.is_empty() && !zone.starts_with(' '),
            rest => rest == Some(""),
        })
    };
    for date in dates() {
        if is_possible(&date) {
            formats.push(date.clone());
        }
        for clock in clocks(&date) {
            let patterns = zones.map(|zone| format!("{date}{clock}{zone}"));
            formats.extend(patterns.into_iter().filter(|pattern| is_possible(pattern)));
        }
    }
    let whole = [
        "%a, %d %b %Y %H:%M:%S %z",
        "%a %b %d %H:%M:%S %Y",
        "%a %b %d %H:%M:%S %z %Y",
        "%a %b %d %H:%M:%S %Y %z",
        "%Y-%b",
        "%b-%Y",
    ];
    formats.extend(whole.into_iter().filter(|pattern| is_possible(pattern)).map(str::to_owned));
    formats
}

/// Patterns of dates.
fn dates() -> Vec<String> {
    let separated = |separator: &str| {
        ["%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d/%m/%y", "%m/%d/%y", "%y/%m/%d", "%d/%b/%Y", "%d/%b/%y", "%d/%B/%Y"]
            .map(|pattern| pattern.replace('/', separator))
    };
    let others = [
        "%b %d, %Y",
        "%B %d, %Y",
        "%b %d %Y",
        "%B %d %Y",
        "%a %d %b %Y",
        "%a, %d %b %Y",
        "%Y%m%d",
        "%d%m%Y",
        "%m%d%Y",
        "%d%b%Y",
    ];
    ["/", ".", "-", " "].into_iter().flat_map(separated).chain(others.map(str::to_owned)).collect()
}

/// Patterns of times of day, with the text between them and a date. Only a date without separators has none before its
/// time of day: 03/07/2022 is not the hour 22.
fn clocks(date: &str) -> Vec<String> {
    let clocks = ["%H:%M", "%H:%M:%S", "%H:%M:%S%.f", "%I:%M %p", "%I:%M:%S %p", "%I:%M%p", "%I:%M:%S%p", "%H.%M"];
    let packed = ["%H%M%S", "%H%M", "%H"];
    let joined = [" ", "T", ", ", ":", "-"].into_iter();
    let joined =
        joined.flat_map(|between| clocks.into_iter().chain(packed).map(move |clock| format!("{between}{clock}")));
    let is_packed = date.chars().all(|c| c == '%' || c.is_ascii_alphabetic());
    joined.chain(packed.into_iter().filter(|_| is_packed).map(str::to_owned)).collect()
}

/// A text or a pattern with `9` for digits and `a` for letters.
fn shape(text: &str) -> String {
    let mut shape = String::new();
    let mut put = |c: char| {
        if !(matches!(c, '9' | 'a') && shape.ends_with(c)) {
            shape.push(c);
        }
    };
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '%' => match chars.next() {
                Some('b' | 'B' | 'a' | 'p') => put('a'),
                // A fraction, with its point.
                Some('.') => {
                    chars.next();
                    put('.');
                    put('9');
                }
                _ => put('9'),
            },
            c if c.is_ascii_digit() => put('9'),
            c if c.is_alphabetic() => put('a'),
            c => put(c),
        }
    }
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guessed(cells: &[&str]) -> Option<TimeGuess> {
        let cells: Vec<SampleCell> = cells.iter().map(|text| SampleCell::Text((*text).to_owned())).collect();
        guess(cells.iter(), &Zone::utc())
    }

    fn format(cells: &[&str]) -> String {
        match guessed(cells) {
            Some(TimeGuess::Format { format, dates }) => format!("{format}{}", if dates { " (dates)" } else { "" }),
            Some(TimeGuess::Ambiguous { formats }) => formats.join(" or "),
            None => "none".to_owned(),
        }
    }

    #[test]
    fn formats_that_read_every_cell() {
        for (cells, wanted) in [
            (&["2024-01-03 09:00", "2024-01-03T09:00:00Z"][..], "auto"),
            (&["2024-01-03"], "auto (dates)"),
            (&["13/01/2024 09:00", "02/01/2024 09:00"], "%d/%m/%Y %H:%M"),
            (&["01/13/2024", "02/01/2024"], "%m/%d/%Y (dates)"),
            (&["01/02/2024 9:00 PM", "02/02/2024 9:05 AM"], "%d/%m/%Y %I:%M %p or %m/%d/%Y %I:%M %p"),
            (&["13.01.24 09:00:05"], "%d.%m.%y %H:%M:%S or %y.%m.%d %H:%M:%S"),
            (&["13.01.98 09:00:05"], "%d.%m.%y %H:%M:%S"),
            (&["20240103"], "%Y%m%d (dates)"),
            (&["20240103093000"], "%Y%m%d%H%M%S"),
            (&["18120103"], "none"),
            (&["1704067200", "1704067201.5"], "epoch-seconds"),
            (&["1704067200000"], "epoch-millis"),
            (&["1704067200000000"], "epoch-micros"),
            (&["1704067200000000000"], "epoch-nanos"),
            (&["03/Jan/2024 09:30:00 +0100"], "%d/%b/%Y %H:%M:%S %z"),
            (&["Wed, 03 Jan 2024 09:30:00 +0000"], "%a, %d %b %Y %H:%M:%S %z"),
            (&["3 January 2024"], "%d %B %Y (dates)"),
            (&["03/07/2022", "12/31/2019", "01/01/2020"], "%m/%d/%Y (dates)"),
            (&["1812-01-01", "1887-05-12 00:00:00"], "auto"),
            (&["Jun 12 1998"], "%b %d %Y (dates)"),
            (&["1977-Jan", "1977-Feb"], "%Y-%b (dates)"),
            (&["Fri Nov 27 02:10:08 2026 +0000"], "%a %b %d %H:%M:%S %Y %z"),
            (&["4102444800"], "none"),
            (&["17", "18"], "none"),
            (&["north", "south"], "none"),
            (&[], "none"),
        ] {
            assert_eq!(format(cells), wanted, "{cells:?}");
        }
    }

    #[test]
    fn a_few_broken_cells_do_not_matter() {
        let mut cells = vec!["13/01/2024"; 30];
        cells[0] = "unknown";
        assert_eq!(format(&cells), "%d/%m/%Y (dates)");
        cells.splice(0..8, ["unknown"; 8]);
        assert_eq!(format(&cells), "none");
    }
}
