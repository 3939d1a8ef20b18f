//! What the cells of a column look like.

use evertally_declare::event::Field;
use serde::Serialize;
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashSet};
use std::hash::BuildHasher;

/// A column with at most this many distinct texts is a category, and its values are listed.
const MOST_VALUES: usize = 50;

/// Distinct cells are counted up to this number, in 2 MB per column.
const MOST_DISTINCT: usize = 100_000;

/// Longer texts on average are free text, not names of persons or things.
const LONGEST_ID: u64 = 64;

/// What a column probably holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ColumnKind {
    /// No cell has anything.
    Empty,
    /// Times of events.
    Time,
    /// Times of day without a date.
    TimeOfDay,
    Number,
    /// Names of many different things, such as persons.
    Id,
    /// One of a few texts.
    Category,
    Text,
}

impl ColumnKind {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Time => "time",
            Self::TimeOfDay => "time of day",
            Self::Number => "number",
            Self::Id => "id",
            Self::Category => "category",
            Self::Text => "text",
        }
    }
}

/// The cells of a column, counted.
#[derive(Clone, Default)]
pub(super) struct Profile {
    pub(super) cells: u64,
    pub(super) missing: u64,
    numbers: u64,
    whole: u64,
    /// Numbers such as `3,5`.
    comma_decimals: u64,
    times: u64,
    clocks: u64,
    /// Cells of more than one line.
    pub(super) with_line_breaks: u64,
    bytes: u64,
    least: Option<f64>,
    greatest: Option<f64>,
    hashes: HashSet<u64>,
    hasher: RandomState,
    /// The cells by their text, until there are too many different ones.
    values: Option<BTreeMap<String, u64>>,
    text: String,
}

impl Profile {
    pub(super) fn new() -> Self {
        Self { values: Some(BTreeMap::new()), ..Self::default() }
    }

    /// Counts a cell.
    pub(super) fn add(&mut self, cell: Field<'_>) {
        self.cells += 1;
        let mut scratch = std::mem::take(&mut self.text);
        match cell.text(&mut scratch) {
            None => self.missing += 1,
            Some(text) => self.add_text(cell, text),
        }
        self.text = scratch;
    }

    fn add_text(&mut self, cell: Field<'_>, text: &str) {
        self.bytes += text.len() as u64;
        self.with_line_breaks += u64::from(text.contains('\n'));
        if matches!(cell, Field::Instant(_) | Field::Civil(_) | Field::Date(_)) {
            self.times += 1;
        } else if let Some(number) = number(text) {
            self.numbers += 1;
            self.whole += u64::from(number.fract() == 0.0);
            self.least = Some(self.least.map_or(number, |least| least.min(number)));
            self.greatest = Some(self.greatest.map_or(number, |greatest| greatest.max(number)));
        } else {
            self.comma_decimals += u64::from(is_comma_decimal(text));
            self.clocks += u64::from(is_clock(text));
        }
        if self.hashes.len() <= MOST_DISTINCT {
            self.hashes.insert(self.hasher.hash_one(text));
        }
        let Some(values) = &mut self.values else { return };
        if let Some(count) = values.get_mut(text) {
            *count += 1;
        } else if values.len() < MOST_VALUES {
            values.insert(text.to_owned(), 1);
        } else {
            self.values = None;
        }
    }

    /// The cells that are not missing.
    pub(super) fn present(&self) -> u64 {
        self.cells - self.missing
    }

    /// The number of distinct cells; `None` if there are too many to count.
    pub(super) fn distinct(&self) -> Option<u64> {
        Some(self.hashes.len()).filter(|count| *count <= MOST_DISTINCT).map(|count| count as u64)
    }

    /// Whether every cell is a whole number.
    pub(super) fn is_whole(&self) -> bool {
        self.present() > 0 && self.whole == self.present()
    }

    /// The smallest and the largest number.
    pub(super) fn range(&self) -> Option<(f64, f64)> {
        self.least.zip(self.greatest)
    }

    /// The different cells, the most frequent first; `None` if there are many.
    pub(super) fn values(&self) -> Option<Vec<(String, u64)>> {
        let mut values: Vec<_> = self.values.as_ref()?.iter().map(|(text, count)| (text.clone(), *count)).collect();
        values.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        Some(values)
    }

    /// Whether most numbers have a comma where evertally reads a point.
    pub(super) fn has_comma_decimals(&self) -> bool {
        self.comma_decimals > 0 && self.comma_decimals + self.numbers >= most(self.present())
    }

    /// What the column probably holds. Whether it holds times has been tried before.
    pub(super) fn kind(&self, is_time: bool) -> ColumnKind {
        let (present, distinct) = (self.present(), self.distinct().unwrap_or(u64::MAX));
        let is_repeated = distinct <= present / 2;
        let is_number = self.numbers >= most(present) || self.has_comma_decimals();
        let guesses = [
            (ColumnKind::Empty, present == 0),
            (ColumnKind::Time, is_time || self.times == present),
            (ColumnKind::TimeOfDay, self.clocks >= most(present)),
            (ColumnKind::Number, is_number),
            (ColumnKind::Category, self.values.is_some() && is_repeated),
            (ColumnKind::Id, self.bytes <= present.saturating_mul(LONGEST_ID)),
        ];
        guesses.into_iter().find(|(_, fits)| *fits).map_or(ColumnKind::Text, |(kind, _)| kind)
    }
}

/// A column is of a kind if nine of ten cells are: the others are refused when the events are read.
pub(super) fn most(cells: u64) -> u64 {
    (cells - cells / 10).max(1)
}

fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    // Not the words for infinity.
    let is_numeric = text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    text.parse().ok().filter(|_| is_numeric)
}

fn is_comma_decimal(text: &str) -> bool {
    let Some((whole, fraction)) = text.trim().split_once(',') else { return false };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits(whole.trim_start_matches(['-', '+']).replace('.', "").as_str()) && digits(fraction)
}

/// Whether a text is a time of day such as 9:05, 09:05:30.5 or 9:05 PM.
fn is_clock(text: &str) -> bool {
    let text = text.trim().to_ascii_lowercase();
    let text = text.trim_end_matches("am").trim_end_matches("pm").trim_end();
    let mut parts = text.split(':');
    let is_short = |part: Option<&str>, most: u8| {
        part.is_some_and(|part| matches!(part.len(), 1 | 2) && part.parse::<u8>().is_ok_and(|n| n < most))
    };
    let seconds = |part: &str| part.parse::<f64>().is_ok_and(|seconds| (0.0..61.0).contains(&seconds));
    is_short(parts.next(), 25)
        && is_short(parts.next(), 60)
        && parts.next().is_none_or(seconds)
        && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(cells: impl IntoIterator<Item = String>) -> ColumnKind {
        let mut profile = Profile::new();
        cells
            .into_iter()
            .for_each(|cell| profile.add(if cell.is_empty() { Field::Missing } else { Field::Text(&cell) }));
        profile.kind(false)
    }

    #[test]
    fn kinds_are_those_of_most_cells() {
        let numbered = |name: fn(usize) -> String| kind((0..200).map(name));
        assert_eq!(numbered(|i| (i * 3).to_string()), ColumnKind::Number);
        assert_eq!(numbered(|i| if i % 50 == 0 { "n/a".into() } else { format!("{i}.5") }), ColumnKind::Number);
        assert_eq!(numbered(|i| format!("{i},5")), ColumnKind::Number);
        assert_eq!(numbered(|i| format!("p{}", i % 90)), ColumnKind::Id);
        assert_eq!(numbered(|i| format!("gate {}", i % 9)), ColumnKind::Category);
        assert_eq!(numbered(|i| format!("{}:{:02}", i % 24, i % 60)), ColumnKind::TimeOfDay);
        assert_eq!(numbered(|i| format!("{i} {}", "long ".repeat(20))), ColumnKind::Text);
        assert_eq!(numbered(|_| String::new()), ColumnKind::Empty);
        assert_eq!(numbered(|i| if i % 2 == 0 { "inf".into() } else { format!("x{i}") }), ColumnKind::Id);
    }

    #[test]
    fn counts_are_bounded() {
        let mut profile = Profile::new();
        (0..MOST_DISTINCT as i64 + 10).for_each(|i| profile.add(Field::Integer(i)));
        assert_eq!((profile.distinct(), profile.values()), (None, None));
        assert_eq!(profile.range(), Some((0.0, MOST_DISTINCT as f64 + 9.0)));
        assert!(profile.is_whole() && profile.hashes.len() == MOST_DISTINCT + 1);
    }
}
