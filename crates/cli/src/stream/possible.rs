//! Flags that take one of a few words, and what each word means.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use evertally_publish::steps::TimeFormat;
use evertally_publish::stream::{OutOfBounds, Refusable};
use evertally_tables::input::InputFormat;
use evertally_tables::output::OutputFormat;

/// A word, other spellings of it, what it stands for, and what it means.
pub(crate) struct Word<T: 'static> {
    pub(crate) name: &'static str,
    aliases: &'static [&'static str],
    value: T,
    help: &'static str,
}

/// A type with few values, each of which has a word.
pub(crate) trait Possible: Copy + Send + Sync + 'static {
    /// All of them, in the order in which help lists them.
    const VALUES: &'static [Word<Self>];

    /// The value of a word, in whatever case.
    fn of_text(text: &str) -> Option<Self> {
        let is = |name: &str| name.eq_ignore_ascii_case(text);
        Self::VALUES
            .iter()
            .find(|word| is(word.name) || word.aliases.iter().any(|name| is(name)))
            .map(|word| word.value)
    }
}

/// The parser of such a flag: it lists the words in help and errors.
pub(crate) fn possible<T: Possible>() -> impl TypedValueParser<Value = T> {
    let shown = |word: &Word<T>| PossibleValue::new(word.name).aliases(word.aliases.iter().copied()).help(word.help);
    let words: Vec<PossibleValue> = T::VALUES.iter().map(shown).collect();
    PossibleValuesParser::new(words).map(|text| T::of_text(&text).expect("one of the words"))
}

const fn word<T>(name: &'static str, value: T, help: &'static str) -> Word<T> {
    Word { name, aliases: &[], value, help }
}

impl Possible for TimeFormat {
    const VALUES: &'static [Word<Self>] = &[
        word(
            "auto",
            Self::Auto,
            "Dates, dates with a time of day, with or without an offset. Bare numbers are refused: they do not say their unit",
        ),
        word("rfc3339", Self::Rfc3339, "Only times with an offset, such as 2024-05-01T12:30:00Z"),
        word("date", Self::Date, "Only dates, such as 2024-05-01"),
        word("epoch-seconds", Self::EpochSeconds, "Seconds since 1970 UTC, with or without a fraction"),
        word("epoch-millis", Self::EpochMillis, "Milliseconds since 1970 UTC"),
    ];
}

impl Possible for Refusable {
    const VALUES: &'static [Word<Self>] = &[
        word("refuse", Self::Refuse, "Stop with an error that names the event"),
        word("skip", Self::Skip, "Leave the event out"),
    ];
}

impl Possible for OutOfBounds {
    const VALUES: &'static [Word<Self>] = &[
        word("clamp", Self::Clamp, "Take the nearer bound"),
        word("refuse", Self::Refuse, "Stop with an error that names the event"),
    ];
}

const CSV: &str = "Comma separated values with a header line";
const JSON_LINES: &str = "One JSON object a line";
const PARQUET: &str = "Apache Parquet";

impl Possible for InputFormat {
    const VALUES: &'static [Word<Self>] = &[
        word("csv", Self::Csv, CSV),
        Word { aliases: &["ndjson"], ..word("jsonl", Self::JsonLines, JSON_LINES) },
        word("parquet", Self::Parquet, PARQUET),
    ];
}

impl Possible for OutputFormat {
    const VALUES: &'static [Word<Self>] = &[
        word("csv", Self::Csv, CSV),
        Word { aliases: &["ndjson"], ..word("jsonl", Self::JsonLines, JSON_LINES) },
        word("parquet", Self::Parquet, PARQUET),
    ];
}
