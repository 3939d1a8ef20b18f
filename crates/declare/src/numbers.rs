//! How texts are read as numbers: the decimal mark, the separator of thousands, and signs around numbers, all declared.
//!
//! Nothing is guessed, because `1,783` may be two numbers: a separator that is not declared is refused, and the refusal
//! names the declarations under which the text is a number. Numbers of typed columns, and of JSON, have no marks and
//! are read as they are.

use crate::error::InputError;
use crate::event::{ColumnRole, Event};
use crate::field::Field;
use crate::parameter::Parameter;
use crate::problem::{Sentence, sentence};
use evertally::number::{self, DecimalError, Grid};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The mark between the whole part of a number and its fraction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DecimalMark {
    /// `12.5`
    #[default]
    #[serde(rename = ".")]
    Point,
    /// `12,5`
    #[serde(rename = ",")]
    Comma,
}

impl DecimalMark {
    const ALL: [Self; 2] = [Self::Point, Self::Comma];

    const fn word(self) -> &'static str {
        match self {
            Self::Point => ".",
            Self::Comma => ",",
        }
    }

    const fn character(self) -> char {
        match self {
            Self::Point => '.',
            Self::Comma => ',',
        }
    }
}

/// The separator between groups of three digits of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Thousands {
    /// `1,783`
    #[serde(rename = ",")]
    Comma,
    /// `1.783`
    #[serde(rename = ".")]
    Point,
    /// `1 783`, also with a no-break blank (U+00A0) or a narrow one (U+202F).
    #[serde(rename = "space", alias = " ")]
    Space,
    /// `1'783`, also with a curved apostrophe (U+2019).
    #[serde(rename = "apostrophe", alias = "'")]
    Apostrophe,
}

impl Thousands {
    const ALL: [Self; 4] = [Self::Comma, Self::Point, Self::Space, Self::Apostrophe];

    const fn word(self) -> &'static str {
        match self {
            Self::Comma => ",",
            Self::Point => ".",
            Self::Space => "space",
            Self::Apostrophe => "apostrophe",
        }
    }

    /// The characters that are this separator.
    const fn characters(self) -> &'static [char] {
        match self {
            Self::Comma => &[','],
            Self::Point => &['.'],
            Self::Space => &[' ', '\u{a0}', '\u{202f}'],
            Self::Apostrophe => &['\'', '\u{2019}'],
        }
    }
}

/// The most characters of a sign that a message suggests to ignore: a currency code and a point.
const MAX_SUGGESTED_AFFIX: usize = 4;

/// How texts are read as numbers.
///
/// ```
/// use evertally::number::Grid;
/// use evertally_declare::field::Field;
/// use evertally_declare::numbers::{DecimalMark, NumberFormat, Thousands};
/// let format = NumberFormat::new(DecimalMark::Comma, Some(Thousands::Point), vec!["€".into()]);
/// let cents: Grid = "0.01".parse().unwrap();
/// assert_eq!(format.multiple_of(Field::Text("-1.783,50 €"), cents), Ok(Some(-178_350)));
/// assert!(format.multiple_of(Field::Text("17.83,50"), cents).is_err());
/// assert_eq!(NumberFormat::default().multiple_of(Field::Text("true"), cents), Ok(Some(100)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumberFormat {
    mark: DecimalMark,
    thousands: Option<Thousands>,
    /// Signs that are ignored, the longest first.
    affixes: Vec<String>,
}

impl NumberFormat {
    /// The format with this decimal mark, this separator, and these signs before or after a number.
    pub fn new(mark: DecimalMark, thousands: Option<Thousands>, mut affixes: Vec<String>) -> Self {
        affixes.sort_by_key(|affix| std::cmp::Reverse(affix.len()));
        Self { mark, thousands, affixes }
    }

    /// A text as digits with an optional sign, point and exponent; `None` if it is not written in this format. The
    /// digits themselves are not checked.
    pub(crate) fn plain<'t>(&self, text: &'t str) -> Option<Cow<'t, str>> {
        if self.mark == DecimalMark::Point && self.thousands.is_none() && self.affixes.is_empty() {
            return Some(Cow::Borrowed(text.trim_ascii()));
        }
        let (mut sign, mut rest) = split_sign(text.trim());
        if let Some(after) = self.affixes.iter().find_map(|affix| rest.strip_prefix(affix.as_str())) {
            rest = after.trim_start();
            if sign.is_empty() {
                (sign, rest) = split_sign(rest);
            }
        }
        if let Some(before) = self.affixes.iter().find_map(|affix| rest.strip_suffix(affix.as_str())) {
            rest = before.trim_end();
        }
        let separators = self.thousands.map_or(&[][..], Thousands::characters);
        let end = rest.find(|c: char| !c.is_ascii_digit() && !separators.contains(&c)).unwrap_or(rest.len());
        let (whole, tail) = rest.split_at(end);
        let mut groups = whole.split(separators);
        let first = groups.next().unwrap_or_default();
        let others: Vec<&str> = groups.collect();
        if !others.is_empty() && (!(1..=3).contains(&first.len()) || others.iter().any(|group| group.len() != 3)) {
            return None;
        }
        let fraction = tail.strip_prefix(self.mark.character());
        let tail = match fraction {
            Some(fraction) => format!(".{fraction}"),
            None if tail.starts_with(['e', 'E']) || tail.is_empty() => tail.to_owned(),
            None => return None,
        };
        Some(Cow::Owned(format!("{sign}{first}{}{tail}", others.concat())))
    }

    /// A cell as a multiple of `grid`; `Ok(None)` when missing. The texts `true` and `false`, in any case, are 1 and 0.
    ///
    /// # Errors
    /// If it is not a number in this format, or is too large.
    #[inline]
    pub fn multiple_of(&self, cell: Field<'_>, grid: Grid) -> Result<Option<i64>, DecimalError> {
        let Field::Text(text) = cell else { return cell.multiple_of(grid) };
        let read = match self.plain(text) {
            Some(plain) => number::parse_scaled(&plain, grid),
            None => Err(DecimalError::NotANumber),
        };
        match (read, truth_of(text)) {
            (Err(DecimalError::NotANumber), Some(truth)) => number::scale_integer(truth.into(), grid).map(Some),
            (read, _) => read.map(Some),
        }
    }

    /// Whether a cell is a negative number.
    pub fn is_negative(&self, cell: Field<'_>) -> bool {
        match cell {
            Field::Text(text) => self.plain(text).is_some_and(|plain| plain.starts_with('-')),
            other => other.to_string().trim_start().starts_with('-'),
        }
    }

    /// The error of a row with a cell that is not a number. It names the declarations under which the cell is one.
    #[cold]
    pub fn refusal(&self, event: &Event<'_>, role: ColumnRole, cell: Field<'_>, problem: DecimalError) -> InputError {
        let suggestion = match cell {
            Field::Text(text) if problem == DecimalError::NotANumber => self.suggestion(text),
            _ => None,
        };
        let error = match suggestion {
            Some(remedy) => event.bad_cell(role, "is not a number as declared").remedy(remedy),
            None => event.bad_cell(role, problem.to_string()),
        };
        if problem == DecimalError::Overflow { error } else { error.as_bad_row() }
    }

    /// The declarations under which a text is a number; `None` if there are none.
    fn suggestion(&self, text: &str) -> Option<Sentence> {
        let affixes = unknown_affixes(text);
        let formats = DecimalMark::ALL.iter().flat_map(|mark| {
            let separators = [None].into_iter().chain(Thousands::ALL.map(Some));
            separators.map(|thousands| Self::new(*mark, thousands, [self.affixes.clone(), affixes.clone()].concat()))
        });
        let reads = |format: &Self| {
            let is_ambiguous = format.thousands.is_some_and(|of| of.characters().contains(&format.mark.character()));
            !is_ambiguous && format.plain(text).is_some_and(|plain| number::parse_scaled(&plain, Grid::ONE).is_ok())
        };
        let formats: Vec<Self> = formats.filter(reads).collect();
        let least = formats.iter().map(|format| self.changes(format)).min()?;
        let fewest = formats.iter().filter(|format| self.changes(format) == least);
        let declared: Vec<Sentence> = fewest.map(|format| self.declarations(format, text)).collect();
        let is_open = declared.len() > 1;
        let joined = declared.into_iter().reduce(|one, other| one.then(" or ").then(other))?;
        let which = if is_open { ", whichever the file means" } else { "" };
        Some(sentence!["declare "].then(joined).then(which))
    }

    /// The number of declarations in which another format differs.
    fn changes(&self, other: &Self) -> usize {
        usize::from(self.mark != other.mark) + usize::from(self.thousands != other.thousands)
    }

    /// The declarations that lead from this format to another one, for this text.
    fn declarations(&self, other: &Self, text: &str) -> Sentence {
        let mark = (self.mark != other.mark).then(|| sentence![(Parameter::DecimalMark, other.mark.word())]);
        let thousands = other.thousands.filter(|_| self.thousands != other.thousands);
        let thousands = thousands.map(|of| sentence![(Parameter::Thousands, of.word())]);
        let affixes = unknown_affixes(text).into_iter().filter(|affix| !self.affixes.contains(affix));
        let affixes = affixes.collect::<Vec<_>>().join(",");
        let affixes = (!affixes.is_empty()).then(|| sentence![(Parameter::NumberAffixes, affixes)]);
        let all = mark.into_iter().chain(thousands).chain(affixes);
        all.reduce(|one, other| one.then(" ").then(other)).unwrap_or_default()
    }
}

/// The sign of a number, and the rest.
fn split_sign(text: &str) -> (&str, &str) {
    let signed = usize::from(text.starts_with(['-', '+']));
    let (sign, rest) = text.split_at(signed);
    (sign, if signed == 1 { rest.trim_start() } else { rest })
}

/// 1 for `true` and 0 for `false`, in any case.
#[inline]
pub(crate) fn truth_of(text: &str) -> Option<u8> {
    match text.len() {
        4.. if text.trim_ascii().eq_ignore_ascii_case("true") => Some(1),
        5.. if text.trim_ascii().eq_ignore_ascii_case("false") => Some(0),
        _ => None,
    }
}

/// The short texts before the first digit and after the last.
fn unknown_affixes(text: &str) -> Vec<String> {
    let is_digit = |c: char| c.is_ascii_digit();
    let (Some(first), Some(last)) = (text.find(is_digit), text.rfind(is_digit)) else { return Vec::new() };
    let before = text[..first].trim().trim_start_matches(['-', '+']).trim();
    // `$-5` is a number with a sign in front, and `A-5` an id.
    let unsigned = before.trim_end_matches(['-', '+']).trim();
    let before = if unsigned.contains(char::is_alphabetic) { before } else { unsigned };
    let after = text[last + 1..].trim();
    let is_short = |affix: &&str| !affix.is_empty() && affix.chars().count() <= MAX_SUGGESTED_AFFIX;
    let is_sign = |affix: &&str| !affix.contains(|c: char| "+-()\u{2212},.'\"".contains(c));
    [before, after].into_iter().filter(is_short).filter(is_sign).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
