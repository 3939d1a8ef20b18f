//! Patterns of times, with the conversions of `strptime`.

use super::Zone;
use super::zone_text::{ZoneText, ZoneTexts, zone_of_abbreviation};
use crate::civil::TimeError;
use crate::words::quoted;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::TimeZone;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// Stands in patterns and texts for a zone, which is read separately.
const ZONE_MARK: &str = "|";

/// The years that `%y` means without a declaration: 1969 to 2068.
const DEFAULT_CENTURY: i16 = 1969;

/// A pattern of times with the conversions of `strptime`, as the calendar library
/// [defines them](jiff::fmt::strtime#conversion-specifications). `%z`, `%Z` and `%Q` read any zone, and a zone that the
/// pattern contains as text is used.
#[derive(Clone, Debug)]
pub struct TimePattern {
    text: Arc<str>,
    form: Arc<PatternForm>,
}

/// A pattern in a form to read with.
#[derive(Debug)]
struct PatternForm {
    /// The pattern with marks instead of zones.
    whole: String,
    /// The part before each zone conversion.
    before_zones: Vec<String>,
    /// Whether it ends with a zone conversion.
    ends_with_zone: bool,
    /// Zones in its text.
    literal_zones: ZoneTexts,
    precision: Precision,
    has_short_year: bool,
    has_full_year: bool,
    /// The lengths of the runs of digits before the first that may have any length or be absent.
    runs: Vec<Option<usize>>,
}

/// The smallest unit that a time states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// A time of day.
    Time,
    /// A day.
    Day,
    /// A month.
    Month,
    /// A year.
    Year,
}

impl PartialEq for TimePattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for TimePattern {}

/// The result of reading with a pattern.
pub(super) enum PatternTime {
    Instant(Timestamp),
    /// A time on the wall clock of these zones, or of the declared one.
    Civil(DateTime, ZoneTexts),
}

impl TimePattern {
    /// A pattern that determines at least a year, or the seconds since 1970.
    ///
    /// # Errors
    /// A description of the problem with it.
    pub(super) fn new(text: &str) -> Result<Self, String> {
        let refuse = |problem: &dyn fmt::Display| {
            let shape = "it needs a year, a month and a day, such as %d/%m/%Y, %Y%m%d or %m/%d/%y %I:%M %p";
            Err(format!("{} is not a time pattern ({problem}); {shape}", quoted(text)))
        };
        let pieces = pieces(text)?;
        let has =
            |conversions: &str| pieces.iter().any(|piece| piece.conversion().is_some_and(|c| conversions.contains(c)));
        if has("Il") && !has("pP") {
            return refuse(&"%I is an hour from 1 to 12, which needs %p for AM or PM");
        }
        let mut form = PatternForm {
            whole: String::new(),
            before_zones: Vec::new(),
            ends_with_zone: matches!(pieces.last(), Some(PatternPiece::Zone)),
            literal_zones: literal_zones(&pieces, text)?,
            precision: Precision::Time,
            has_short_year: has("yDg"),
            has_full_year: has("YFG"),
            runs: runs(&pieces),
        };
        for piece in &pieces {
            match piece {
                PatternPiece::Zone => {
                    form.before_zones.push(form.whole.clone());
                    form.whole.push_str(ZONE_MARK);
                }
                // With AM or PM, an hour is one from 1 to 12.
                PatternPiece::Conversion(_, 'H' | 'k') if has("pP") => form.whole.push_str("%I"),
                PatternPiece::Conversion(text, _) | PatternPiece::Literal(text) => form.whole.push_str(text),
            }
        }
        // It must read its own output, and recover the day.
        let time = Timestamp::from_second(1_714_566_645).expect("in 2024").to_zoned(TimeZone::UTC);
        let written = match BrokenDownTime::from(&time).to_string(&form.whole) {
            Ok(written) => written,
            Err(problem) => return refuse(&problem),
        };
        let broken = match BrokenDownTime::parse(&form.whole, &written) {
            Ok(broken) => broken,
            Err(problem) => return refuse(&problem),
        };
        if broken.timestamp().is_some() {
            return Ok(Self { text: text.into(), form: Arc::new(form) });
        }
        let is_exact = broken.hour().is_some();
        if !is_exact && (broken.minute().is_some() || broken.second().is_some()) {
            return refuse(&"it has no hour");
        }
        form.precision = match (broken.to_date(), broken.month(), broken.year()) {
            (Ok(date), ..) if date == time.date() && is_exact => Precision::Time,
            (Ok(date), ..) if date == time.date() => Precision::Day,
            (Ok(_), ..) => return refuse(&"it does not determine the day"),
            (Err(_), Some(_), Some(_)) if !is_exact && broken.weekday().is_none() => Precision::Month,
            (Err(_), None, Some(_)) if !is_exact && broken.day().is_none() && !has("jUWVwuaA") => Precision::Year,
            (Err(problem), ..) => return refuse(&problem),
        };
        Ok(Self { text: text.into(), form: Arc::new(form) })
    }

    /// The pattern as declared.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The smallest unit of the times that it reads.
    pub(super) fn precision(&self) -> Precision {
        self.form.precision
    }

    /// Whether it has years of two digits.
    pub fn has_short_year(&self) -> bool {
        self.form.has_short_year
    }

    /// The number of digits at its end if it ends with hours, minutes and perhaps seconds without separators.
    pub(super) fn packed_clock(&self) -> Option<usize> {
        if self.text.ends_with("%H%M%S") { Some(6) } else { self.text.ends_with("%H%M").then_some(4) }
    }

    /// Reads a text. Years of two digits are those from `century` on.
    ///
    /// # Errors
    /// If the text does not match, its zones contradict each other, or its year is abbreviated.
    pub(super) fn read(&self, text: &str, century: Option<i16>) -> Result<PatternTime, TimeError> {
        let form = &*self.form;
        if !form.has_lengths_of(text) {
            return Err(TimeError::NotAsDeclared);
        }
        if form.before_zones.is_empty() {
            let time = BrokenDownTime::parse(&form.whole, text).map_err(|_| TimeError::NotAsDeclared)?;
            return self.finish(time, form.literal_zones.clone(), century);
        }
        let (mut text, mut zones) = (Cow::Borrowed(text), form.literal_zones.clone());
        for (number, before) in form.before_zones.iter().enumerate() {
            let read = BrokenDownTime::parse_prefix(before, &*text);
            let (time, at) = read.map_err(|_| TimeError::NotAsDeclared)?;
            let rest = text.get(at..).ok_or(TimeError::NotAsDeclared)?.trim_ascii_start();
            let (zone, len) = ZoneText::read(rest).map_err(|error| match error {
                TimeError::Unrecognised => TimeError::NotAsDeclared,
                other => other,
            })?;
            zones.add(zone)?;
            if form.ends_with_zone && number + 1 == form.before_zones.len() && len == rest.len() {
                return self.finish(time, zones, century);
            }
            text = Cow::Owned(format!("{}{ZONE_MARK}{}", &text[..at], &rest[len..]));
        }
        let time = BrokenDownTime::parse(&form.whole, &*text).map_err(|_| TimeError::NotAsDeclared)?;
        self.finish(time, zones, century)
    }

    fn finish(
        &self,
        mut time: BrokenDownTime,
        zones: ZoneTexts,
        century: Option<i16>,
    ) -> Result<PatternTime, TimeError> {
        if let Some(instant) = time.timestamp() {
            return Ok(PatternTime::Instant(instant));
        }
        let mismatch = |_| TimeError::NotAsDeclared;
        match (time.year(), self.form.precision) {
            (Some(0..=99), _) if self.form.has_full_year => return Err(TimeError::ShortYear),
            (Some(year), _) if self.form.has_short_year && !self.form.has_full_year => {
                let first = century.unwrap_or(DEFAULT_CENTURY);
                time.set_year(Some(first + (year - first).rem_euclid(100))).map_err(mismatch)?;
            }
            _ => {}
        }
        if self.form.precision == Precision::Year {
            time.set_month(Some(1)).map_err(mismatch)?;
        }
        if matches!(self.form.precision, Precision::Year | Precision::Month) {
            time.set_day(Some(1)).map_err(mismatch)?;
        }
        Ok(PatternTime::Civil(time.to_datetime().map_err(mismatch)?, zones))
    }
}

impl PatternForm {
    /// Whether the runs of digits of a text have the lengths of the pattern: without separators, a missing digit would
    /// shift all that follow.
    fn has_lengths_of(&self, text: &str) -> bool {
        if self.runs.is_empty() {
            return true;
        }
        let mut found = text.split(|c: char| !c.is_ascii_digit()).filter(|run| !run.is_empty());
        self.runs.iter().all(|wanted| found.next().is_some_and(|run| wanted.is_none_or(|len| run.len() == len)))
    }
}

/// A piece of a pattern.
#[derive(Debug)]
enum PatternPiece<'p> {
    Literal(&'p str),
    /// A conversion, and its letter.
    Conversion(&'p str, char),
    /// A conversion of a zone.
    Zone,
}

impl PatternPiece<'_> {
    fn conversion(&self) -> Option<char> {
        if let Self::Conversion(_, letter) = self { Some(*letter) } else { None }
    }
}

fn pieces(text: &str) -> Result<Vec<PatternPiece<'_>>, String> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let literal = rest.find('%').unwrap_or(rest.len());
        if literal > 0 {
            pieces.push(PatternPiece::Literal(&rest[..literal]));
            rest = &rest[literal..];
            continue;
        }
        let flags = |c: char| "-_0^#.:123456789".contains(c);
        let letter = rest[1..].find(|c| !flags(c)).map(|at| at + 1);
        let Some(at) = letter else {
            return Err(format!("{} is not a time pattern: it ends with an incomplete conversion", quoted(text)));
        };
        let letter = rest[at..].chars().next().expect("found");
        let end = at + letter.len_utf8();
        pieces.push(match letter {
            'z' | 'Z' | 'Q' => PatternPiece::Zone,
            _ => PatternPiece::Conversion(&rest[..end], letter),
        });
        rest = &rest[end..];
    }
    Ok(pieces)
}

/// Conversions that read a time of day.
const CLOCK: &str = "HIklMSTRfNpP";

/// The zones among the texts between the conversions.
///
/// # Errors
/// If there is an abbreviation, which is not an offset.
fn literal_zones(pieces: &[PatternPiece<'_>], pattern: &str) -> Result<ZoneTexts, String> {
    let has_offset = pieces.iter().any(|piece| matches!(piece, PatternPiece::Zone | PatternPiece::Conversion(_, 's')));
    let (mut zones, mut after_clock) = (ZoneTexts::default(), false);
    let contradiction = |_| format!("{} is not a time pattern: its zones contradict each other", quoted(pattern));
    for (place, piece) in pieces.iter().enumerate() {
        let PatternPiece::Literal(text) = piece else {
            after_clock |= piece.conversion().is_some_and(|letter| CLOCK.contains(letter));
            continue;
        };
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '_' | '/' | ':');
        for word in text.split(|c| !is_part(c)) {
            // GMT%z is one zone, which the conversion reads.
            if text.ends_with(word) && matches!(pieces.get(place + 1), Some(PatternPiece::Zone)) {
                continue;
            }
            match zone_at_end(word, after_clock) {
                Some(ZoneText::Abbreviation(_)) if has_offset => {}
                Some(ZoneText::Abbreviation(short)) => {
                    if let Some(zone) = zone_of_abbreviation(&short).map(Cow::Borrowed).or_else(|| searched(&short)) {
                        return Err(format!(
                            "{}: the abbreviation {short} is not an offset; write %Z in its place, and declare the \
                             time zone, such as {zone}",
                            quoted(pattern)
                        ));
                    }
                }
                Some(zone) => zones.add(zone).map_err(contradiction)?,
                None => {}
            }
        }
    }
    Ok(zones)
}

/// The zone with which a word ends: a signed offset after a time of day, `Z`, UTC, a name with a slash, or an
/// abbreviation in capitals.
fn zone_at_end(word: &str, after_clock: bool) -> Option<ZoneText> {
    let bytes = word.as_bytes();
    let begins = |at: &usize| {
        let is_first = *at == 0 || !bytes[at - 1].is_ascii_alphabetic();
        let is_sign = matches!(bytes[*at], b'+' | b'-') && after_clock;
        (bytes[*at].is_ascii_alphabetic() && is_first) || is_sign
    };
    (0..word.len()).filter(begins).find_map(|at| match ZoneText::read(&word[at..]) {
        Ok((zone, len)) if at + len == word.len() => match &zone {
            ZoneText::Offset(_) => Some(zone),
            ZoneText::Named(_) => Some(zone).filter(|_| word[at..].contains('/')),
            ZoneText::Abbreviation(short) => Some(zone.clone()).filter(|_| word[at..] == **short),
        },
        _ => None,
    })
}

/// A zone of the database that uses an abbreviation today.
fn searched(abbreviation: &str) -> Option<Cow<'static, str>> {
    let seconds = [1_705_276_800, 1_721_001_600]; // January and July of 2024
    let days = seconds.map(|second| Timestamp::from_second(second).expect("in 2024"));
    let uses =
        |zone: &Zone| days.iter().any(|day| zone.time_zone().to_offset_info(*day).abbreviation() == abbreviation);
    Zone::all().find(uses).map(|zone| Cow::Owned(zone.name().to_owned()))
}

/// The lengths of the runs of digits that a pattern reads, up to the first whose length is open; `None` for a number
/// alone, which may lack leading zeros. Empty if all are such.
fn runs(pieces: &[PatternPiece<'_>]) -> Vec<Option<usize>> {
    let (mut runs, mut run): (Vec<Option<usize>>, Vec<usize>) = (Vec::new(), Vec::new());
    let mut is_last_open = false;
    for piece in pieces {
        let digits = match piece {
            PatternPiece::Literal(text) if text.bytes().all(|b| b.is_ascii_digit()) => Some(text.len()),
            PatternPiece::Literal(text) if !text.bytes().any(|b| b.is_ascii_digit()) => None,
            PatternPiece::Conversion(text, letter) if text.len() == 2 => match letter {
                'Y' => Some(4),
                'j' => Some(3),
                'm' | 'd' | 'e' | 'H' | 'I' | 'k' | 'l' | 'M' | 'S' | 'y' => Some(2),
                'a' | 'A' | 'b' | 'B' | 'h' | 'p' | 'P' => None,
                _ => {
                    is_last_open = true;
                    break;
                }
            },
            PatternPiece::Zone | PatternPiece::Conversion("%.f", _) => break,
            _ => {
                is_last_open = true;
                break;
            }
        };
        match digits {
            Some(digits) => run.push(digits),
            None => runs.extend(run_length(&std::mem::take(&mut run))),
        }
    }
    if !is_last_open {
        runs.extend(run_length(&run));
    }
    if runs.iter().all(Option::is_none) { Vec::new() } else { runs }
}

/// The length of a run of several numbers; `None` for no run.
fn run_length(numbers: &[usize]) -> Option<Option<usize>> {
    (!numbers.is_empty()).then(|| (numbers.len() > 1).then(|| numbers.iter().sum()))
}
