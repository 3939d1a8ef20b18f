//! Numbers in cells, which are doubles.

use std::borrow::Cow;

/// Digits up to which every decimal number is the shortest one of its double.
const MAX_EXACT_DIGITS: usize = 15;

/// Doubles from here on have been rounded to whole numbers.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// A number.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CellNumber<'t> {
    /// Its shortest decimal text.
    Text(Cow<'t, str>),
    /// A double of 2^53 or more, which may have been rounded, even if the file has all its digits.
    Rounded(f64),
}

/// The number of a cell; `None` if it is not one.
///
/// Excel writes 17 digits of a double: 1.1 is in the file as `1.1000000000000001`. Whole numbers with an exponent stay
/// as they are: it shows that an id may have been rounded.
pub(super) fn read(text: &str) -> Option<CellNumber<'_>> {
    let text = text.trim_ascii();
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let has_digits = whole.len() + fraction.len() > 0 && exponent.is_none_or(|exponent| !exponent.is_empty());
    if !has_digits || ![whole, fraction, exponent.unwrap_or_default()].into_iter().all(all_digits) {
        return None;
    }
    if exponent.is_none() && whole.trim_start_matches('0').len() + fraction.len() <= MAX_EXACT_DIGITS {
        return Some(CellNumber::Text(text.into()));
    }
    let value: f64 = text.parse().ok().filter(|value: &f64| value.is_finite())?;
    Some(if value.abs() >= MAX_EXACT {
        CellNumber::Rounded(value)
    } else if exponent.is_some() && value.trunc() == value || fraction.is_empty() && exponent.is_none() {
        CellNumber::Text(text.into())
    } else {
        CellNumber::Text(value.to_string().into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_shortest_text() {
        for (text, expected) in [
            ("17", "17"),
            (" 17 ", "17"),
            ("-4", "-4"),
            ("2.50", "2.50"),
            ("1.1000000000000001", "1.1"),
            ("4.3499999999999996", "4.35"),
            ("0.30000000000000004", "0.30000000000000004"),
            ("1E-3", "0.001"),
            ("1.2345000000000001E+2", "123.45000000000002"),
            ("1.2345E+2", "123.45"),
            ("1.23457E+11", "1.23457E+11"),
            ("17.0000000000000000", "17"),
            ("9007199254740991", "9007199254740991"),
            (".5", ".5"),
            ("0", "0"),
            ("00000000000000000017", "00000000000000000017"),
        ] {
            assert_eq!(read(text), Some(CellNumber::Text(expected.into())), "{text}");
        }
        for text in ["9007199254740992", "-9007199254740993", "9007199254740992.0", "1E+21", "1.2345678901234568E+18"] {
            assert_eq!(read(text), Some(CellNumber::Rounded(text.parse().unwrap())), "{text}");
        }
        for text in ["", "-", ".", "e5", "1e", "1e999", "NaN", "inf", "0x10", "1,5", "1 2", "--1", "1e+-2"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
