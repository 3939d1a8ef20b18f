//! Decimal numbers as identities: exact, and one text for each.

use super::inexact::InexactId;
use std::cmp::Ordering;

/// Doubles hold all integers below this one, 2^53, as digits.
const MAX_EXACT_INTEGER: &[u8; 16] = b"9007199254740992";
/// At most this many zeros are written out beyond the significant digits: no short text has a long identity.
const MAX_ZEROS: i64 = 40;
/// The maximum number of digits of an exponent; a longer one makes the cell a text.
const MAX_EXPONENT_DIGITS: usize = 18;
/// The number of digits that programs write of long numbers, and the length from which they do so: spreadsheets show
/// six digits of numbers from 10^11 on, and R writes 15.
const SHORTENED_DIGITS: [(i64, i64); 2] = [(6, 12), (15, 16)];
/// Digits after the point in the scientific format of spreadsheets.
const SCIENTIFIC_DECIMALS: usize = 2;

/// A text that is a decimal number: `±`, digits, a point and digits, an exponent. Everything except one digit is
/// optional.
pub(crate) struct DecimalText<'t> {
    is_negative: bool,
    /// Leading zeros that the number does not need.
    leading_zeros: usize,
    whole: &'t str,
    fraction: &'t str,
    /// The places of the first and the last significant digit among those of whole and fraction; `None` for zero.
    significant: Option<(usize, usize)>,
    /// The power of ten of the last significant digit.
    power: i64,
    has_point: bool,
    has_plus: bool,
    /// As spreadsheets (and `%.2e`) write numbers in scientific format: `1.23E+05`, whatever the digits of the number.
    is_scientific: bool,
}

/// Whether a text is a number in canonical form at first sight: digits without a leading zero, and not very many.
#[inline]
pub(super) fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    (bytes[0] != b'0' || bytes.len() == 1)
        && bytes.len() <= MAX_ZEROS as usize
        && bytes.iter().all(|byte| byte.is_ascii_digit())
}

impl<'t> DecimalText<'t> {
    /// Reads a whole text; `None` for anything else.
    pub(crate) fn parse(text: &'t str) -> Option<Self> {
        let (is_negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, rest) = digits(rest);
        let (has_point, rest) = rest.strip_prefix('.').map_or((false, rest), |rest| (true, rest));
        let (fraction, rest) = if has_point { digits(rest) } else { ("", rest) };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let (exponent, has_plus) = match rest.strip_prefix(['e', 'E']) {
            Some(rest) => {
                let is_zero = whole.bytes().chain(fraction.bytes()).all(|byte| byte == b'0');
                (exponent(rest, is_zero)?, rest.starts_with('+'))
            }
            None if rest.is_empty() => (0, false),
            None => return None,
        };
        let is_digit = |byte: u8| byte != b'0';
        let all = || whole.bytes().chain(fraction.bytes());
        let first = all().position(is_digit);
        let last = fraction.bytes().rposition(is_digit).map(|place| whole.len() + place);
        let last = last.or_else(|| whole.bytes().rposition(is_digit));
        let zeros = whole.bytes().position(is_digit).unwrap_or(whole.len().saturating_sub(1));
        // fits: texts are shorter than 2^62, and exponents below 10^18.
        let power = last.map_or(0, |last| exponent + whole.len() as i64 - 1 - last as i64);
        Some(Self {
            is_negative,
            leading_zeros: zeros,
            whole,
            fraction,
            significant: first.zip(last),
            power,
            has_point,
            has_plus,
            is_scientific: has_plus && whole.len() == 1 && fraction.len() == SCIENTIFIC_DECIMALS,
        })
    }

    /// The number of significant digits.
    fn count(&self) -> i64 {
        self.significant.map_or(0, |(first, last)| (last - first + 1) as i64)
    }

    /// The significant digits.
    fn digits(&self) -> impl Iterator<Item = u8> + use<'_, 't> {
        let (first, count) = self.significant.map_or((0, 0), |(first, last)| (first, last - first + 1));
        self.whole.bytes().chain(self.fraction.bytes()).skip(first).take(count)
    }

    /// Refuses a number that looks as if it had been rounded when it was written.
    ///
    /// Digits alone are exact, and so is a bare exponent: ids such as `12e4567` are text that happens to be a number.
    /// Programs write doubles with a point, an exponent with a plus, or an exponent that leaves digits after the point.
    pub(super) fn check(&self) -> Result<(), InexactId> {
        let whole_digits = self.count() + self.power;
        if (self.has_point || self.has_plus || self.power < 0) && self.significant.is_some() {
            let is_large = match whole_digits {
                ..16 => false,
                16 => {
                    self.digits().chain(std::iter::repeat(b'0')).take(16).cmp(MAX_EXACT_INTEGER.iter().copied()).is_ge()
                }
                17.. => true,
            };
            if is_large {
                return Err(InexactId::Written);
            }
        }
        let shown = SCIENTIFIC_DECIMALS as i64 + 1;
        if self.is_scientific && whole_digits > shown {
            return Err(InexactId::Shortened { digits: shown as u8 });
        }
        let shortened = SHORTENED_DIGITS.iter().find(|(shown, from)| self.count() == *shown && whole_digits >= *from);
        match shortened.filter(|_| self.has_plus) {
            Some((shown, _)) => Err(InexactId::Shortened { digits: *shown as u8 }),
            None => Ok(()),
        }
    }

    /// The exact order of two numbers.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let (own, others) = (self.sign(), other.sign());
        if own != others || own == 0 {
            return own.cmp(&others);
        }
        // The place of the first significant digit decides, then the digits after it.
        let most = self.count().max(other.count()) as usize; // fits: lengths of texts
        let first = (self.count() + self.power).cmp(&(other.count() + other.power));
        let order = first.then_with(|| self.padded(most).cmp(other.padded(most)));
        if own < 0 { order.reverse() } else { order }
    }

    /// The first significant digits; zeros follow the last.
    fn padded(&self, most: usize) -> impl Iterator<Item = u8> {
        self.digits().chain(std::iter::repeat(b'0')).take(most)
    }

    fn sign(&self) -> i8 {
        match (self.significant, self.is_negative) {
            (None, _) => 0,
            (Some(_), true) => -1,
            (Some(_), false) => 1,
        }
    }

    /// Writes the canonical form.
    pub(crate) fn write<'s>(&self, scratch: &'s mut String) -> &'s str {
        scratch.clear();
        if self.is_negative && self.significant.is_some() {
            scratch.push('-');
        }
        scratch.extend(std::iter::repeat_n('0', self.leading_zeros));
        let (count, power) = (self.count(), self.power);
        let zeros = if power >= 0 { power } else { -power - count };
        let mut digits = self.digits().map(char::from);
        if count == 0 {
            scratch.push('0');
        } else if zeros > MAX_ZEROS {
            scratch.extend(digits);
            scratch.push_str(&format!("e{power}"));
        } else if power >= 0 {
            scratch.extend(digits.chain(std::iter::repeat_n('0', zeros as usize)));
        } else if zeros >= 0 {
            scratch.push_str("0.");
            scratch.extend(std::iter::repeat_n('0', zeros as usize).chain(digits));
        } else {
            scratch.extend(digits.by_ref().take(-zeros as usize));
            scratch.push('.');
            scratch.extend(digits);
        }
        scratch
    }
}

/// The leading digits of a text, and the rest of it.
fn digits(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// An exponent: an optional sign, and digits to the end of the text. The exponent of zero may have any length.
fn exponent(text: &str, is_zero: bool) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let significant = digits.trim_start_matches('0');
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    match significant.len() > MAX_EXPONENT_DIGITS {
        true => is_zero.then_some(0),
        false => text.parse().ok(),
    }
}
