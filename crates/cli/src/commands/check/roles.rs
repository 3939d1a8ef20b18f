//! Which columns of an input are probably the time, the person and the groups of its events.

use super::columns::{ColumnKind, Profile};
use super::sample::SampleRow;
use super::times::{TimeGuess, guess};
use evertally_declare::declaration::Declaration;
use evertally_declare::steps::Zone;

/// Words in the names of columns of times, the likeliest first.
const TIME_WORDS: [&str; 9] = ["time", "timestamp", "datetime", "date", "when", "day", "start", "created", "ts"];

/// Words in the names of columns of persons.
const PERSON_WORDS: [&str; 26] = [
    "person",
    "user",
    "member",
    "visitor",
    "customer",
    "client",
    "patient",
    "subscriber",
    "student",
    "pupil",
    "employee",
    "rider",
    "guest",
    "passenger",
    "driver",
    "owner",
    "resident",
    "player",
    "email",
    "phone",
    "account",
    "device",
    "card",
    "who",
    "uid",
    "household",
];

/// A column of the sample.
pub(super) struct SampledColumn {
    pub(super) name: String,
    pub(super) profile: Profile,
    pub(super) time: Option<TimeGuess>,
    /// The first cell that is not missing.
    pub(super) example: Option<String>,
}

impl SampledColumn {
    /// The columns of some rows, in the order of their cells.
    pub(super) fn of_rows(names: &[String], rows: &[SampleRow], zone: &Zone) -> Vec<Self> {
        let column = |(slot, name): (usize, &String)| {
            let mut profile = Profile::new();
            rows.iter().for_each(|row| profile.add(row.0[slot].field()));
            let time = guess(rows.iter().map(|row| &row.0[slot]), zone);
            let mut cells = rows.iter().map(|row| row.0[slot].field());
            let example = cells.find(|cell| !cell.is_missing()).map(|cell| cell.to_string());
            Self { name: name.clone(), profile, time, example }
        };
        names.iter().enumerate().map(column).collect()
    }

    pub(super) fn kind(&self) -> ColumnKind {
        self.profile.kind(self.time.is_some())
    }

    fn is_of_dates(&self) -> bool {
        matches!(self.time, Some(TimeGuess::Format { dates: true, .. }))
    }
}

/// The columns that a declaration uses.
pub(super) fn declared(declared: &Declaration) -> Vec<&str> {
    let roles = [&declared.time, &declared.date, &declared.time_of_day, &declared.person, &declared.value];
    roles.into_iter().flatten().chain(declared.group_by.iter().flatten()).map(String::as_str).collect()
}

/// The column that is declared as the time, or as its date.
pub(super) fn named_time(declared: &Declaration) -> Option<String> {
    declared.date.clone().or_else(|| declared.time.clone())
}

/// The declared column of the time, or the default, whatever it holds: a release would read it.
pub(super) fn known_time(declared: &Declaration, columns: &[SampledColumn]) -> Option<String> {
    let default = || columns.iter().find(|column| column.name == "time").map(|column| column.name.clone());
    named_time(declared).or_else(default)
}

/// The columns of times, the likeliest first.
pub(super) fn times(columns: &[SampledColumn]) -> Vec<&SampledColumn> {
    let mut found: Vec<&SampledColumn> = columns.iter().filter(|column| column.time.is_some()).collect();
    found.sort_by_key(|column| likeness(&column.name, &TIME_WORDS).unwrap_or(usize::MAX));
    found
}

/// The column of times of day that belongs to a column of dates, if there is exactly one.
pub(super) fn time_of_day<'c>(date: &SampledColumn, columns: &'c [SampledColumn]) -> Option<&'c SampledColumn> {
    let mut clocks = columns.iter().filter(|column| column.kind() == ColumnKind::TimeOfDay);
    let first = clocks.next().filter(|_| date.is_of_dates())?;
    clocks.next().is_none().then_some(first)
}

/// The columns that may name persons, by their names, the likeliest first.
pub(super) fn persons<'c>(columns: &'c [SampledColumn], taken: &[&str]) -> Vec<&'c SampledColumn> {
    let is_name = |column: &SampledColumn| match column.kind() {
        ColumnKind::Id | ColumnKind::Text | ColumnKind::Category => true,
        ColumnKind::Number => column.profile.is_whole(),
        _ => false,
    };
    let likeness = |column: &SampledColumn| likeness(&column.name, &PERSON_WORDS);
    let is_free = |column: &SampledColumn| !taken.contains(&&*column.name);
    let mut found: Vec<&SampledColumn> =
        columns.iter().filter(|column| is_name(column) && is_free(column) && likeness(column).is_some()).collect();
    found.sort_by_key(|column| likeness(column));
    found
}

/// How early a word of the list is a name, after those a part of it, then a piece of it; `None` if no word is.
fn likeness(name: &str, words: &[&str]) -> Option<usize> {
    let name = name.to_lowercase();
    let parts: Vec<&str> = name.split(|c: char| !c.is_alphanumeric()).collect();
    let place = |is_like: &dyn Fn(&str) -> bool| words.iter().position(|word| is_like(word));
    place(&|word| name == word)
        .or_else(|| place(&|word| parts.contains(&word)).map(|place| place + words.len()))
        .or_else(|| place(&|word| word.len() > 3 && name.contains(word)).map(|place| place + 2 * words.len()))
}

#[cfg(test)]
mod tests {
    use super::super::sample::SampleCell;
    use super::*;

    fn columns(names: &[&str], rows: &[&[&str]]) -> Vec<SampledColumn> {
        let row = |row: &&[&str]| SampleRow(row.iter().map(|cell| SampleCell::Text((*cell).to_owned())).collect());
        let rows: Vec<SampleRow> = (0..10).flat_map(|_| rows.iter().map(row)).collect();
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        SampledColumn::of_rows(&names, &rows, &Zone::utc())
    }

    fn names(columns: &[&SampledColumn]) -> Vec<String> {
        columns.iter().map(|column| column.name.clone()).collect()
    }

    #[test]
    fn names_decide_among_columns_of_a_kind() {
        let rows: [&[&str]; 2] =
            [&["2024-01-01", "2023-01-01", "n", "17", "3"], &["2024-01-02", "2023-01-01", "s", "18", "4"]];
        let columns = columns(&["paid on", "departure_time", "gate", "MemberId", "customer"], &rows);
        assert_eq!(names(&times(&columns)), ["departure_time", "paid on"]);
        assert_eq!(names(&persons(&columns, &[])), ["customer", "MemberId"]);
        assert_eq!(names(&persons(&columns, &["customer"])), ["MemberId"]);
    }

    #[test]
    fn a_date_and_a_time_of_day_belong_together() {
        let columns = columns(&["day", "clock", "n"], &[&["2024-01-01", "9:05", "1"], &["2024-01-02", "10:30", "2"]]);
        let day = times(&columns)[0];
        assert_eq!(time_of_day(day, &columns).map(|column| &*column.name), Some("clock"));
        assert!(time_of_day(&columns[2], &columns).is_none());
    }
}
