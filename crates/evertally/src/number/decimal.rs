//! Exact decimal numbers on a declared grid.
//!
//! Sums are counted in integers: a value such as `0.1` on a grid of `0.01` is ten multiples, computed from its decimal
//! text and never through binary floating point, which can represent neither number.

use crate::Error;
use std::fmt;
use std::str::FromStr;

/// Maximum number of digits after the point, and of digits of the coefficient, of a grid.
const GRID_DIGITS: usize = 18;

/// Maximum number of significant digits kept exactly; further ones only matter as "not zero" (see [`Digits::sticky`]).
const KEPT_DIGITS: u32 = 38;

/// The distance between neighbouring values: `coefficient × 10^-scale`, such as `1`, `0.01`, `5` or `0.25`.
///
/// ```
/// use evertally::number::{Grid, parse_scaled};
/// let cents: Grid = "0.01".parse().unwrap();
/// assert_eq!(parse_scaled("0.1", cents), Ok(10));
/// assert_eq!(cents.format(-1234), "-12.34");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    coefficient: u64,
    scale: u8,
}

impl Grid {
    /// The grid of whole numbers.
    pub const ONE: Grid = Grid { coefficient: 1, scale: 0 };

    /// The grid with `digits` more digits after the point, 10^digits times finer; `None` beyond 18 digits.
    pub fn finer(self, digits: u8) -> Option<Grid> {
        let scale = self.scale.checked_add(digits).filter(|&scale| usize::from(scale) <= GRID_DIGITS)?;
        Some(Grid { coefficient: self.coefficient, scale })
    }

    /// The product, a grid this many times as coarse; `None` if it has more digits than a grid may have.
    ///
    /// ```
    /// use evertally::number::Grid;
    /// let grid = |text: &str| text.parse::<Grid>().unwrap();
    /// assert_eq!(grid("0.25").times(grid("300")), Some(grid("75")));
    /// assert_eq!(grid("1e-10").times(grid("1e-10")), None);
    /// ```
    pub fn times(self, factor: Grid) -> Option<Grid> {
        // fits: below 10^36
        let mut coefficient = u128::from(self.coefficient) * u128::from(factor.coefficient);
        let mut scale = self.scale + factor.scale; // fits: at most 36
        while scale > 0 && coefficient.is_multiple_of(10) {
            (coefficient, scale) = (coefficient / 10, scale - 1);
        }
        let coefficient = u64::try_from(coefficient).ok()?;
        let fits = usize::from(scale) <= GRID_DIGITS && coefficient < 10u64.pow(GRID_DIGITS as u32);
        fits.then_some(Grid { coefficient, scale })
    }

    /// The integer in front of the power of ten; never zero.
    pub fn coefficient(self) -> u64 {
        self.coefficient
    }

    /// How many digits after the point a value on this grid has.
    pub fn scale(self) -> u8 {
        self.scale
    }

    /// Whether every value on this grid is a whole number.
    pub fn is_integral(self) -> bool {
        self.scale == 0
    }

    /// Exact decimal text of `multiple × grid`, always with [`scale`](Self::scale) digits after the point.
    pub fn format(self, multiple: i128) -> String {
        let mut text = String::new();
        self.write(multiple, &mut text);
        text
    }

    /// Appends the exact decimal text of `multiple × grid` to `out`.
    pub fn write(self, multiple: i128, out: &mut String) {
        use fmt::Write;
        const LIMB: u128 = 1_000_000_000_000_000_000;
        let (magnitude, coefficient) = (multiple.unsigned_abs(), u128::from(self.coefficient));
        // Two limbs of 18 digits each: the product of any i128 and a coefficient below 10^18 fits without overflow.
        let low = coefficient * (magnitude % LIMB);
        let high = coefficient * (magnitude / LIMB) + low / LIMB;
        let low = low % LIMB;
        if multiple < 0 {
            out.push('-');
        }
        let start = out.len();
        let width = usize::from(self.scale) + 1;
        let written = if high == 0 { write!(out, "{low:0width$}") } else { write!(out, "{high}{low:018}") };
        written.expect("a String accepts every write");
        // Only a two-limb number can still be shorter than scale + 1 digits, and it has at least 19.
        if self.scale > 0 {
            let point = out.len() - usize::from(self.scale);
            debug_assert!(point > start);
            out.insert(point, '.');
        }
    }

    /// The double nearest to `multiple × grid`.
    pub fn to_f64(self, multiple: i128) -> f64 {
        const EXACT: i128 = 1 << 53;
        let product = multiple.checked_mul(i128::from(self.coefficient));
        match product {
            // Both operands are exact doubles, so that one division rounds once.
            Some(p) if p.abs() <= EXACT => p as f64 / super::power(10.0, i32::from(self.scale)),
            Some(p) if self.scale == 0 => p as f64,
            _ => self.format(multiple).parse().expect("decimal text is a number"),
        }
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.format(1))
    }
}

impl FromStr for Grid {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refuse = || {
            Error::invalid(format!(
                "`{}` is not a grid: give a positive decimal number such as 1, 0.01 or 0.25, with at most \
                 {GRID_DIGITS} digits",
                shorten(text)
            ))
        };
        let digits = Digits::parse(text.trim()).map_err(|_| refuse())?;
        if digits.negative || digits.kept == 0 || digits.sticky {
            return Err(refuse());
        }
        let (mut coefficient, mut exponent) = (digits.kept, digits.exponent);
        while coefficient % 10 == 0 && exponent < 0 {
            coefficient /= 10;
            exponent += 1;
        }
        let limit = 10u128.pow(GRID_DIGITS as u32);
        if exponent < -(GRID_DIGITS as i64) || exponent > GRID_DIGITS as i64 || coefficient >= limit {
            return Err(refuse());
        }
        let scale = (-exponent).max(0) as u8;
        let coefficient = coefficient * 10u128.pow(exponent.max(0) as u32);
        if coefficient >= limit {
            return Err(refuse());
        }
        Ok(Grid { coefficient: coefficient as u64, scale })
    }
}

impl serde::Serialize for Grid {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Grid {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Why a text is not a value on a grid: small enough for the hot path of a reader, and phrased to follow the text
/// itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecimalError {
    /// Not a decimal number.
    NotANumber,
    /// NaN or an infinity.
    NotFinite,
    /// More multiples of the grid than a 64-bit integer holds.
    Overflow,
}

impl fmt::Display for DecimalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DecimalError::NotANumber => {
                "is not a number; write it as digits with an optional point, such as -12.5, or declare the text as \
                 missing"
            }
            DecimalError::NotFinite => {
                "is not a finite number; remove the row, or declare the text as missing if it stands for no value"
            }
            DecimalError::Overflow => {
                "is too large to count in steps of the grid; use a coarser grid, or check the unit"
            }
        })
    }
}

impl std::error::Error for DecimalError {}

impl From<DecimalError> for Error {
    fn from(problem: DecimalError) -> Self {
        Error::invalid(format!("the number {problem}"))
    }
}

/// The rounding of a value that is finer than the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// The nearest; the even one of two equally near.
    HalfEven,
    /// The one below.
    Floor,
}

/// The exact number of multiples of `grid` in `text`, rounding half to even if `text` is finer than the grid.
pub fn parse_scaled(text: &str, grid: Grid) -> Result<i64, DecimalError> {
    parse_rounded(text, grid, Rounding::HalfEven)
}

/// Whether `text` is an exact multiple of `grid`, with nothing to round.
pub fn is_multiple(text: &str, grid: Grid) -> bool {
    let Ok(mut digits) = Digits::parse(text.trim_ascii()) else { return false };
    let below = digits.multiples_of(grid, Rounding::Floor).ok().and_then(i64::checked_neg);
    digits.negative = !digits.negative;
    let negated = digits.multiples_of(grid, Rounding::Floor);
    below.is_some_and(|below| negated == Ok(below))
}

/// As [`parse_scaled`], with the given rounding.
pub fn parse_rounded(text: &str, grid: Grid, rounding: Rounding) -> Result<i64, DecimalError> {
    let digits = Digits::parse(text.trim_ascii())?;
    digits.multiples_of(grid, rounding)
}

/// The exact number of multiples of `grid` in an integer.
pub fn scale_integer(value: i64, grid: Grid) -> Result<i64, DecimalError> {
    if grid == Grid::ONE {
        return Ok(value);
    }
    let kept = u128::from(value.unsigned_abs());
    Digits { negative: value < 0, kept, exponent: 0, sticky: false }.multiples_of(grid, Rounding::HalfEven)
}

/// The number of multiples of `grid` in a double, read as the shortest decimal text that identifies it.
pub fn scale_float(value: f64, grid: Grid, rounding: Rounding) -> Result<i64, DecimalError> {
    if !value.is_finite() {
        return Err(DecimalError::NotFinite);
    }
    let mut text = ShortText { bytes: [0; 32], len: 0 };
    fmt::Write::write_fmt(&mut text, format_args!("{value:e}")).expect("a double has at most 24 characters");
    parse_rounded(text.as_str(), grid, rounding)
}

/// A number on the stack: floats are read back from their text without an allocation per row.
struct ShortText {
    bytes: [u8; 32],
    len: usize,
}

impl ShortText {
    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len]).expect("only whole strings are appended")
    }
}

impl fmt::Write for ShortText {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let end = self.len + s.len();
        self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?.copy_from_slice(s.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// `±(kept + fraction) × 10^exponent`, where the fraction is zero unless `sticky`, and below one always.
struct Digits {
    negative: bool,
    kept: u128,
    exponent: i64,
    sticky: bool,
}

impl Digits {
    fn parse(text: &str) -> Result<Digits, DecimalError> {
        let bytes = text.as_bytes();
        let (negative, mut rest) = match bytes.first() {
            Some(b'-') => (true, &bytes[1..]),
            Some(b'+') => (false, &bytes[1..]),
            _ => (false, bytes),
        };
        let mut digits = Digits { negative, kept: 0, exponent: 0, sticky: false };
        let mut significant = 0;
        let (mut seen, mut after_point) = (false, false);
        while let Some((&byte, tail)) = rest.split_first() {
            match byte {
                b'0'..=b'9' => {
                    seen = true;
                    digits.push(byte - b'0', after_point, &mut significant);
                }
                b'.' if !after_point => after_point = true,
                b'e' | b'E' if seen => {
                    digits.exponent = digits.exponent.saturating_add(parse_exponent(tail)?);
                    return Ok(digits);
                }
                _ => return Err(not_a_number(text)),
            }
            rest = tail;
        }
        if seen { Ok(digits) } else { Err(not_a_number(text)) }
    }

    #[inline]
    fn push(&mut self, digit: u8, after_point: bool, significant: &mut u32) {
        if *significant < KEPT_DIGITS {
            self.kept = self.kept * 10 + u128::from(digit);
            *significant += u32::from(*significant > 0 || digit > 0);
            self.exponent -= i64::from(after_point);
        } else {
            self.sticky |= digit > 0;
            self.exponent += i64::from(!after_point);
        }
    }

    fn multiples_of(&self, grid: Grid, rounding: Rounding) -> Result<i64, DecimalError> {
        if self.kept == 0 {
            return Ok(0);
        }
        let power = self.exponent.saturating_add(i64::from(grid.scale));
        let coefficient = u128::from(grid.coefficient);
        let (numerator, denominator) = if power >= 0 {
            // Beyond u128 the quotient is above 10^20. Dropped digits mean 38 kept ones, hence a quotient above 10^19.
            let factor = u32::try_from(power).ok().and_then(|p| 10u128.checked_pow(p)).ok_or(DecimalError::Overflow)?;
            (self.kept.checked_mul(factor).ok_or(DecimalError::Overflow)?, coefficient)
        } else {
            let factor = u32::try_from(power.unsigned_abs()).ok().and_then(|p| 10u128.checked_pow(p));
            match factor.and_then(|f| f.checked_mul(coefficient)) {
                Some(denominator) => (self.kept, denominator),
                // The grid step is more than three times any number of 38 digits: well below half a step.
                None => return Ok(if rounding == Rounding::Floor && self.negative { -1 } else { 0 }),
            }
        };
        let rounded = divide(numerator, denominator, self.sticky, self.negative, rounding);
        let signed =
            if self.negative { 0i128.checked_sub_unsigned(rounded) } else { 0i128.checked_add_unsigned(rounded) };
        signed.and_then(|v| i64::try_from(v).ok()).ok_or(DecimalError::Overflow)
    }
}

/// `(numerator + sticky fraction) / denominator` for a magnitude, rounded for its eventual sign.
///
/// A sticky fraction comes with an even denominator (or a quotient that overflows), so that it can only break a tie.
fn divide(numerator: u128, denominator: u128, sticky: bool, negative: bool, rounding: Rounding) -> u128 {
    let (quotient, remainder) = match (u64::try_from(numerator), u64::try_from(denominator)) {
        (Ok(n), Ok(d)) => (u128::from(n / d), u128::from(n % d)),
        _ => (numerator / denominator, numerator % denominator),
    };
    let up = match rounding {
        Rounding::Floor => negative && (remainder > 0 || sticky),
        Rounding::HalfEven => match remainder.cmp(&(denominator - remainder)) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => sticky || quotient % 2 == 1,
            std::cmp::Ordering::Greater => true,
        },
    };
    quotient + u128::from(up)
}

fn parse_exponent(bytes: &[u8]) -> Result<i64, DecimalError> {
    let (negative, digits) = match bytes.first() {
        Some(b'-') => (true, &bytes[1..]),
        Some(b'+') => (false, &bytes[1..]),
        _ => (false, bytes),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(DecimalError::NotANumber);
    }
    let magnitude = digits.iter().fold(0i64, |n, d| n.saturating_mul(10).saturating_add(i64::from(d - b'0')));
    Ok(if negative { -magnitude } else { magnitude })
}

fn not_a_number(text: &str) -> DecimalError {
    let bare = text.trim_start_matches(['+', '-']);
    let special = ["nan", "inf", "infinity"];
    if special.iter().any(|s| bare.eq_ignore_ascii_case(s)) {
        DecimalError::NotFinite
    } else {
        DecimalError::NotANumber
    }
}

/// At most 40 characters of a text, for an error message.
fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(40).flat_map(char::escape_debug).collect();
    if text.chars().count() > 40 {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests;
