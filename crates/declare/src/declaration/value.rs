//! The types of parameters: how each is read from the texts of a flag, and how a schema describes it.

use crate::filter::RowFilter;
use crate::format::{Format, InputFormat};
use crate::identity::Normalisation;
use crate::measures::Wanted;
use crate::numbers::{DecimalMark, Thousands};
use crate::policy::{BadRows, Coverage, DateOnly, Late, OutOfBounds, Outside, Refusable, SortLimit};
use crate::reading::Workloads;
use crate::steps::{Every, Period, TimeFormat, Zone};
use crate::view::View;
use crate::words::quoted;
use evertally::mechanism::MechanismName;
use evertally::number::Grid;
use evertally::plan::{GroupAim, NoiseKind, Objective};
use evertally::privacy::Neighbours;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fmt;
use std::num::{IntErrorKind, ParseIntError};
use std::path::PathBuf;
use std::str::FromStr;

/// The kind of a parameter's value.
#[doc(alias = "Kind")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// Any text.
    Text,
    /// A list of texts.
    Texts,
    /// A list of measures, each a text that may have commas.
    Measures,
    /// One workload, or a list of them.
    Workloads,
    /// One character.
    Character,
    /// A whole number, 0 or more.
    Whole,
    /// A whole number, or the word `all`.
    WholeOrAll,
    /// A double.
    Number,
    /// A decimal number, exact, as a text or a number.
    Decimal,
    /// Two decimal numbers.
    Decimals,
    /// A list of positive decimal numbers.
    Scales,
    /// True or false; a flag alone means true.
    Switch,
    /// One of the given words.
    Words(&'static [Word]),
    /// The width of a step.
    Width,
    /// A time span of the calendar, or a number of steps.
    Period,
    /// A time zone.
    Zone,
    /// The name of a mechanism.
    Mechanism,
    /// Names of groups, or tuples of them.
    Groups,
    /// The path of a file.
    Path,
    /// Paths of files.
    Paths,
}

/// One word of a small set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// The word.
    pub word: &'static str,
    /// A synonym that help does not show.
    pub alias: Option<&'static str>,
    /// Its meaning, in one sentence without the full stop; empty if the parameter's help explains it.
    pub help: &'static str,
}

impl Word {
    /// A word and its meaning.
    pub const fn new(word: &'static str, help: &'static str) -> Self {
        Self { word, alias: None, help }
    }

    const fn from_format(format: Format) -> Self {
        Self { word: format.word(), alias: format.alias(), help: format.help() }
    }
}

/// The number of formats in which files are read, or written.
const fn count_of_formats(is_read: bool) -> usize {
    let (mut count, mut place) = (0, 0);
    while place < Format::ALL.len() {
        count += is_for(Format::ALL[place], is_read) as usize;
        place += 1;
    }
    count
}

const fn is_for(format: Format, is_read: bool) -> bool {
    if is_read { format.is_readable() } else { format.is_writable() }
}

/// The words of these formats.
const fn words_of_formats<const COUNT: usize>(is_read: bool) -> [Word; COUNT] {
    let mut words = [Word::new("", ""); COUNT];
    let (mut count, mut place) = (0, 0);
    while place < Format::ALL.len() {
        if is_for(Format::ALL[place], is_read) {
            words[count] = Word::from_format(Format::ALL[place]);
            count += 1;
        }
        place += 1;
    }
    words
}

const INPUT_FORMATS: [Word; count_of_formats(true)] = words_of_formats(true);
const OUTPUT_FORMATS: [Word; count_of_formats(false)] = words_of_formats(false);

/// The type of a parameter's value.
pub trait Value: DeserializeOwned + Serialize {
    /// The kind of the value.
    const KIND: ValueKind;

    /// Reads the value from the texts of a flag; only lists accept more than one.
    ///
    /// # Errors
    /// A description of the problem with the text.
    fn read(texts: &[&OsStr]) -> Result<Self, String>;
}

/// The last text that was given.
fn last<'t>(texts: &[&'t OsStr]) -> Result<&'t str, String> {
    texts.last().and_then(|text| text.to_str()).ok_or_else(|| "is not UTF-8 text".to_owned())
}

/// Types whose values [`FromStr`] reads from one text.
macro_rules! from_one_text {
    ($($type:ty: $kind:expr),+ $(,)?) => { $(impl Value for $type {
        const KIND: ValueKind = $kind;

        fn read(texts: &[&OsStr]) -> Result<Self, String> {
            last(texts)?.parse().map_err(|problem: <$type as FromStr>::Err| problem.to_string())
        }
    })+ };
}

from_one_text! {
    String: ValueKind::Text,
    Delimiter: ValueKind::Character,
    Quote: ValueKind::Text,
    TimeFormat: ValueKind::Text,
    RowFilter: ValueKind::Text,
    SortLimit: ValueKind::WholeOrAll,
    bool: ValueKind::Switch,
    Decimal<Grid>: ValueKind::Decimal,
    Every: ValueKind::Width,
    Period: ValueKind::Period,
    Zone: ValueKind::Zone,
    MechanismName: ValueKind::Mechanism,
    Format: ValueKind::Words(&OUTPUT_FORMATS),
    InputFormat: ValueKind::Words(&INPUT_FORMATS),
}

/// Types of whole numbers.
macro_rules! from_whole_numbers {
    ($($type:ty),+) => { $(impl Value for $type {
        const KIND: ValueKind = ValueKind::Whole;

        fn read(texts: &[&OsStr]) -> Result<Self, String> {
            last(texts)?.parse().map_err(|problem: ParseIntError| match problem.kind() {
                IntErrorKind::PosOverflow => format!("it is more than {}", Self::MAX),
                _ => "it is not a whole number, 0 or more".to_owned(),
            })
        }
    })+ };
}

from_whole_numbers!(u32, u64, usize);

impl Value for f64 {
    const KIND: ValueKind = ValueKind::Number;

    fn read(texts: &[&OsStr]) -> Result<Self, String> {
        last(texts)?.parse().map_err(|_| "it is not a number".to_owned())
    }
}

/// Types whose values are words, read as in files.
macro_rules! from_words {
    (@alias $alias:literal) => { Some($alias) };
    (@alias) => { None };
    ($($type:ty: [$($word:literal $(or $alias:literal)? $help:literal),+ $(,)?]),+ $(,)?) => { $(impl Value for $type {
        const KIND: ValueKind = ValueKind::Words(&[
            $(Word { word: $word, alias: from_words!(@alias $($alias)?), help: $help }),+
        ]);

        fn read(texts: &[&OsStr]) -> Result<Self, String> {
            let word = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(last(texts)?);
            Self::deserialize(word).map_err(|problem| problem.to_string())
        }
    })+ };
}

from_words! {
    Refusable: [
        "refuse" "Stop with an error that names the event",
        "skip" "Skip the event",
    ],
    Outside: [
        "refuse" "Stop with an error that names the event",
        "skip" "Skip the event; stop if it is decades away, or if no event is inside",
        "skip-any" "Skip the event, however far away",
    ],
    BadRows: [
        "refuse" "Stop with an error that names the row",
        "side-file" "Write the row to a separate file",
    ],
    DecimalMark: ["." "Point", "," "Comma"],
    Thousands: [
        "," "Comma",
        "." "Point",
        "space" or " " "Blank, also a no-break or narrow no-break one",
        "apostrophe" or "'" "Apostrophe, also a curved one",
    ],
    DateOnly: [
        "refuse" "Stop with an error that names the event",
        "midnight" "Use the beginning of the day",
    ],
    Late: [
        "refuse" "Stop with an error that names the event",
        "next-step" "Count the event in the first open step",
        "side-file" "Write the event to a separate file",
    ],
    OutOfBounds: [
        "clamp" "Use the nearer bound",
        "refuse" "Stop with an error that names the event",
    ],
    Coverage: [
        "pointwise" "Each interval holds with the confidence level; among many, some miss",
        "simultaneous" "The intervals of all steps hold at once, for each group",
    ],
    Neighbours: ["add-remove" "", "replace-one" ""],
    NoiseKind: ["laplace" "", "gaussian" ""],
    Objective: ["max" "", "mean" ""],
    GroupAim: [
        "groups" "Less error of each group; totals over groups get worse",
        "both" "Less error of each group, weighed against that of the total over all groups",
        "total" "Least error of the total over all groups: independent noise",
    ],
}

impl Value for Vec<View> {
    const KIND: ValueKind = ValueKind::Texts;

    fn read(texts: &[&OsStr]) -> Result<Self, String> {
        let one = |text: &&OsStr| {
            let word = last(&[text])?;
            View::ALL.into_iter().find(|view| view.word() == word).ok_or_else(|| {
                let all = View::ALL.map(View::word).join(", ");
                format!("{} is not a view; there are {all}", quoted(word))
            })
        };
        texts.iter().map(one).collect()
    }
}

impl Value for Vec<Normalisation> {
    const KIND: ValueKind = ValueKind::Texts;

    fn read(texts: &[&OsStr]) -> Result<Self, String> {
        let one = |text: &&OsStr| {
            let word = last(&[text])?;
            Normalisation::ALL.into_iter().find(|one| one.word() == word).ok_or_else(|| {
                let all = Normalisation::ALL.map(Normalisation::word).join(", ");
                format!("{} is not a normalisation; there are {all}", quoted(word))
            })
        };
        texts.iter().map(one).collect()
    }
}

impl Value for Vec<String> {
    const KIND: ValueKind = ValueKind::Texts;

    fn read(texts: &[&OsStr]) -> Result<Self, String> {
        texts.iter().map(|text| last(&[text]).map(str::to_owned)).collect()
    }
}

impl Value for Vec<Decimal<String>> {
    const KIND: ValueKind = ValueKind::Decimals;

    fn read(texts: &[&OsStr]) -> Result<Self, String> {
        texts.iter().map(|text| last(&[text])?.parse()).collect()
    }
}

impl Value for Vec<Decimal<Grid>> {
    const KIND: ValueKind = ValueKind::Scales;

    fn read(texts: &[&OsStr]) -> Result<Self, String> {
        let scale = |text: &str| {
            let problem =
                |_| format!("{} is not a scale: give a positive decimal number of at most 18 digits", quoted(text));
            text.parse().map(Decimal).map_err(problem)
        };
        texts.iter().map(|text| scale(last(&[text])?)).collect()
    }
}

impl Value for PathBuf {
    const KIND: ValueKind = ValueKind::Path;

    fn read(texts: &[&OsStr]) -> Result<Self, String> {
        texts.last().map(PathBuf::from).ok_or_else(|| "names no file".to_owned())
    }
}

/// The separator of the cells of a line: one character, or `tab`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delimiter(pub char);

impl FromStr for Delimiter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut characters = text.chars();
        match (text, characters.next(), characters.next()) {
            ("tab" | "\\t", ..) => Ok(Self('\t')),
            (_, Some(one), None) => Ok(Self(one)),
            _ => Err(format!("{} is neither one character nor tab", quoted(text))),
        }
    }
}

impl Serialize for Delimiter {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_char(self.0)
    }
}

impl<'de> Deserialize<'de> for Delimiter {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The character around cells that contain delimiters or line ends; `none` makes quotes ordinary characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote(pub Option<char>);

impl FromStr for Quote {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self(None)),
            "\"" => Ok(Self(Some('"'))),
            "'" => Ok(Self(Some('\''))),
            _ => Err(format!("{} is not a quote: use '\"', \"'\" or none", quoted(text))),
        }
    }
}

impl Serialize for Quote {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(quote) => serializer.serialize_char(quote),
            None => serializer.serialize_str("none"),
        }
    }
}

impl<'de> Deserialize<'de> for Quote {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A decimal number as written, quoted or not; unquoted numbers are read from their shortest text.
#[derive(Clone, Debug, PartialEq)]
pub struct Decimal<T>(pub T);

impl<T: FromStr<Err: fmt::Display>> FromStr for Decimal<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|problem| problem.to_string())
    }
}

impl<T: fmt::Display> Serialize for Decimal<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Decimal<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(String),
            Integer(i64),
            Float(f64),
        }
        let text = match Written::deserialize(deserializer)? {
            Written::Text(text) => text,
            Written::Integer(value) => value.to_string(),
            Written::Float(value) => value.to_string(),
        };
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The declared groups: names for one group column, or tuples with a text for each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a list of names is needed, such as [\"JFK\", \"LGA\"]")]
#[doc(alias = "Groups")]
pub enum DeclaredGroups {
    /// For one group column.
    Names(Vec<String>),
    /// For any number of group columns.
    Tuples(Vec<Vec<String>>),
}

impl Value for DeclaredGroups {
    const KIND: ValueKind = ValueKind::Groups;

    fn read(texts: &[&OsStr]) -> Result<Self, String> {
        Value::read(texts).map(Self::Names)
    }
}

impl Value for Vec<Wanted> {
    const KIND: ValueKind = ValueKind::Measures;

    fn read(texts: &[&OsStr]) -> Result<Self, String> {
        let one = |text: &&OsStr| text.to_str().ok_or_else(|| "is not UTF-8 text".to_owned())?.parse();
        texts.iter().map(one).collect()
    }
}

impl Value for Workloads {
    const KIND: ValueKind = ValueKind::Workloads;

    fn read(texts: &[&OsStr]) -> Result<Self, String> {
        texts.iter().map(|text| last(&[text])?.parse()).collect::<Result<_, _>>().map(Self)
    }
}

/// Paths of files: one path, or a list.
#[doc(alias = "Paths")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct PathList(pub Vec<PathBuf>);

impl Value for PathList {
    const KIND: ValueKind = ValueKind::Paths;

    fn read(texts: &[&OsStr]) -> Result<Self, String> {
        Ok(Self(texts.iter().map(PathBuf::from).collect()))
    }
}

impl<'de> Deserialize<'de> for PathList {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            One(PathBuf),
            Many(Vec<PathBuf>),
        }
        Ok(Self(match Written::deserialize(deserializer)? {
            Written::One(path) => vec![path],
            Written::Many(paths) => paths,
        }))
    }
}
