//! The rule by which cells are one person, group or item, for every format, column type and front end.
//!
//! A person with two names could contribute twice as many events as the noise covers. So an identity must not depend on
//! how a table stores it: a column of integers becomes a column of doubles once a cell is missing, R writes `1e+05` for
//! 100000, pandas `True` for `true`, and a date becomes a timestamp at midnight. [`Identities::of`] returns the
//! canonical form of each cell:
//!
//! - **Numbers** of every type, and texts that are decimal numbers: plain digits without needless zeros, sign or
//!   exponent ([`number`]). Integers are exact, however long. Leading zeros stay: `007` is a text that differs from
//!   `7`.
//! - **Booleans**: `true` and `false`, in any case.
//! - **Dates and times**: `2024-01-01` at midnight, else `2024-01-01T10:30:00`; times with an offset in UTC.
//! - **Not a number**: missing, as a double or as the text `NaN` or `nan`.
//! - **Other texts**: themselves, byte for byte, after the declared [normalisations](Normalisation).
//!
//! Numbers that were rounded before they were read are [refused](InexactId): they may belong to anyone. If it is
//! uncertain whether two cells mean the same, they are treated as the same: two persons who share a name lose accuracy,
//! one person with two names loses the guarantee.

mod inexact;
mod number;

pub use inexact::InexactId;

use crate::civil::Time;
use crate::field::Field;
use crate::problem::Sentence;
use crate::words::quoted;
pub(crate) use number::DecimalText;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt::{self, Write};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// Significant bits of a double.
const DOUBLE_BITS: u32 = f64::MANTISSA_DIGITS;

/// A normalisation of the texts of identities before they are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Normalisation {
    /// Compose characters as Unicode's normal form C does: `e` and a combining acute accent are `é`.
    Nfc,
    /// Remove blanks at both ends.
    Trim,
    /// Fold the case as Unicode does: `Ann` and `ANN` are `ann`, `Straße` is `strasse`.
    Casefold,
}

impl Normalisation {
    /// All normalisations.
    pub const ALL: [Self; 3] = [Self::Nfc, Self::Trim, Self::Casefold];

    /// Its name in flags and files.
    pub fn word(self) -> &'static str {
        match self {
            Self::Nfc => "nfc",
            Self::Trim => "trim",
            Self::Casefold => "casefold",
        }
    }
}

/// The rule that maps cells to identities, with the declared normalisations of texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identities {
    nfc: bool,
    trim: bool,
    casefold: bool,
}

impl FromIterator<Normalisation> for Identities {
    fn from_iter<I: IntoIterator<Item = Normalisation>>(declared: I) -> Self {
        let mut all = Self::default();
        for one in declared {
            match one {
                Normalisation::Nfc => all.nfc = true,
                Normalisation::Trim => all.trim = true,
                Normalisation::Casefold => all.casefold = true,
            }
        }
        all
    }
}

impl Identities {
    /// The canonical form of a cell; `None` when it is missing. It is borrowed from the cell or written to `scratch`.
    ///
    /// The canonical form of a text that is canonical is the text itself.
    ///
    /// ```
    /// use evertally_declare::event::Field;
    /// use evertally_declare::identity::Identities;
    /// let ids = Identities::default();
    /// for cell in [Field::Integer(100_000), Field::Float(1e5), Field::Text("1e+05"), Field::Text("100000.0")] {
    ///     assert_eq!(ids.of(cell, &mut String::new()), Ok(Some("100000")));
    /// }
    /// assert!(ids.of(Field::Float(1e16), &mut String::new()).is_err());
    /// ```
    ///
    /// # Errors
    /// If it is a number that may have been rounded.
    #[inline]
    pub fn of<'s>(self, cell: Field<'s>, scratch: &'s mut String) -> Result<Option<&'s str>, InexactId> {
        match cell {
            Field::Missing => Ok(None),
            Field::Number(text) => of_text(text, scratch),
            Field::Text(text) if self == Self::default() => of_text(text, scratch),
            Field::Text(text) => {
                let normalised = self.normalised(text);
                let mut canonical = String::new();
                let Some(name) = of_text(&normalised, &mut canonical)? else { return Ok(None) };
                scratch.clear();
                scratch.push_str(name);
                Ok(Some(scratch))
            }
            Field::Decimal(text) => Ok(Some(DecimalText::parse(text).map_or(text, |number| number.write(scratch)))),
            Field::Integer(value) => Ok(Some(written(scratch, value))),
            Field::Float(value) => of_float(value, DOUBLE_BITS, scratch),
            Field::Short { value, bits } => of_float(value, bits, scratch),
            Field::Instant(micros) | Field::Civil(micros) => Ok(Some(of_time(Time::from_micros(micros), scratch))),
            Field::Date(days) => Ok(Some(of_time(Time::from_days(days.into()), scratch))),
        }
    }

    /// The canonical form of a declared name.
    ///
    /// # Errors
    /// A description of the problem with it: no cell can have this identity.
    pub fn canonical_name(self, name: &str) -> Result<String, Sentence> {
        match self.of(Field::Text(name), &mut String::new()) {
            Ok(Some(canonical)) => Ok(canonical.to_owned()),
            Ok(None) => Err(format!("{} marks a missing cell", quoted(name)).into()),
            Err(inexact) => Err(Sentence::from(format!("{} ", quoted(name))).then(inexact.sentence())),
        }
    }

    /// The declared normalisations, as files write them; `None` if there are none.
    pub fn meaning(self) -> Option<String> {
        let has = |one: &Normalisation| match one {
            Normalisation::Nfc => self.nfc,
            Normalisation::Trim => self.trim,
            Normalisation::Casefold => self.casefold,
        };
        let words: Vec<&str> = Normalisation::ALL.iter().filter(|one| has(one)).map(|one| one.word()).collect();
        (!words.is_empty()).then(|| words.join(","))
    }

    /// The rule of a plan with this [meaning](Self::meaning).
    pub fn from_meaning(words: Option<&str>) -> Self {
        let words: Vec<&str> = words.unwrap_or_default().split(',').collect();
        Normalisation::ALL.into_iter().filter(|one| words.contains(&one.word())).collect()
    }

    fn normalised(self, text: &str) -> Cow<'_, str> {
        let mut text = Cow::Borrowed(if self.trim { text.trim() } else { text });
        if self.casefold {
            // Canonical caseless matching (Unicode, D145) if characters are composed too.
            text = Cow::Owned(match (text.is_ascii(), self.nfc) {
                (true, _) => text.to_ascii_lowercase(),
                (false, true) => caseless::default_case_fold_str(&text.nfd().collect::<String>()),
                (false, false) => caseless::default_case_fold_str(&text),
            });
        }
        if self.nfc && is_nfc_quick(text.chars()) != IsNormalized::Yes {
            text = Cow::Owned(text.nfc().collect());
        }
        text
    }
}

/// The canonical form of a text.
#[inline]
fn of_text<'s>(text: &'s str, scratch: &'s mut String) -> Result<Option<&'s str>, InexactId> {
    match text.as_bytes().first() {
        None => Ok(None),
        // Nearly all names end here.
        Some(b'0'..=b'9') if number::is_plain(text) => Ok(Some(text)),
        Some(b'0'..=b'9' | b'+' | b'-' | b'.') => of_digits(text, scratch),
        Some(b't' | b'T' | b'f' | b'F' | b'n' | b'N' | b'i' | b'I') => Ok(of_word(text)),
        Some(_) => Ok(Some(text)),
    }
}

/// The canonical form of a text that begins as numbers and dates do.
fn of_digits<'s>(text: &'s str, scratch: &'s mut String) -> Result<Option<&'s str>, InexactId> {
    if let Some(number) = DecimalText::parse(text) {
        number.check()?;
        return Ok(Some(number.write(scratch)));
    }
    if let Some(time) = Time::parse(text) {
        return Ok(Some(of_time(time, scratch)));
    }
    Ok(match text.strip_prefix(['-', '+']).map(of_word) {
        // Zero and NaN have no sign here.
        Some(None) => None,
        Some(Some("inf")) => Some(if text.starts_with('-') { "-inf" } else { "inf" }),
        _ => Some(text),
    })
}

/// The canonical form of a text that begins as booleans, infinity and "not a number" do.
fn of_word(text: &str) -> Option<&str> {
    match text.len() {
        3 if matches!(text, "NaN" | "nan") => None,
        3 if text.eq_ignore_ascii_case("inf") => Some("inf"),
        4 if text.eq_ignore_ascii_case("true") => Some("true"),
        5 if text.eq_ignore_ascii_case("false") => Some("false"),
        8 if text.eq_ignore_ascii_case("infinity") => Some("inf"),
        _ => Some(text),
    }
}

/// The canonical form of a floating-point number with this many significant bits.
fn of_float(value: f64, bits: u32, scratch: &mut String) -> Result<Option<&str>, InexactId> {
    if value.is_nan() {
        return Ok(None);
    }
    if value.abs() >= libm::exp2(f64::from(bits)) {
        return Err(InexactId::Float { bits });
    }
    if value.fract() == 0.0 {
        // fits: doubles below 2^53 are integers of 64 bits. Zero has no sign there.
        return Ok(Some(written(scratch, value as i64)));
    }
    let text = value.to_string();
    Ok(Some(DecimalText::parse(&text).expect("a finite double is a number").write(scratch)))
}

fn written(scratch: &mut String, value: impl fmt::Display) -> &str {
    scratch.clear();
    write!(scratch, "{value}").expect("a String accepts every write");
    scratch
}

/// The canonical form of a time: the date alone at midnight.
fn of_time(time: Time, scratch: &mut String) -> &str {
    scratch.clear();
    let written = if time.is_midnight() { time.write_date(scratch) } else { time.put(scratch) };
    written.expect("a String accepts every write");
    scratch
}

#[cfg(test)]
mod tests;
