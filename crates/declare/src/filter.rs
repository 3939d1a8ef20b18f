//! Which rows are counted: a small expression over the cells of one row.
//!
//! ```text
//! status == "ok" and (amount > 0 or `paid at` is not missing)
//! ```
//!
//! A row that the expression leaves out is treated as if it were not in the file, before its time, its person or any
//! other cell is read. The expression depends on one row alone. So neighbouring data stay neighbouring data, and a
//! person's bounds hold for the rows that remain.
//!
//! - A **number** is compared exactly, as a decimal; a cell that is not a number is an error.
//! - A **text** is compared by [identity](crate::identity): `1` and `1.0` are the same value.
//! - A comparison with a **missing** cell is neither true nor false, as in SQL, and nor is its negation. A row is
//!   counted only if the whole expression is true.
//! - `and` and `or` read from the left, and no further than needed: in `kind == "sale" and amount > 0` the amounts of
//!   other kinds are not read.

mod parse;

use crate::as_text::serde_as_text;
use crate::error::InputError;
use crate::event::{ColumnRole, Event, Field};
use crate::identity::{DecimalText, Identities};
use crate::numbers::{NumberFormat, truth_of};
use crate::problem::Sentence;
use evertally::number::DecimalError;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// An expression over the cells of a row, which decides whether the row is counted.
///
/// ```
/// use evertally_declare::filter::RowFilter;
/// let filter: RowFilter = "status=='ok' AND not (`unit price` <= 0.50)".parse()?;
/// assert_eq!(filter.to_string(), "status == \"ok\" and not `unit price` <= 0.5");
/// assert_eq!(filter.columns(), ["status", "unit price"]);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RowFilter {
    columns: Vec<String>,
    root: Expression,
}

#[derive(Clone, Debug, PartialEq)]
enum Expression {
    And(Vec<Expression>),
    Or(Vec<Expression>),
    Not(Box<Expression>),
    /// A test of one column, by its place among the columns.
    Test(usize, RowTest),
}

#[derive(Clone, Debug, PartialEq)]
enum RowTest {
    IsMissing,
    /// The cell is one of these texts.
    Texts(Vec<String>),
    /// The cell is one of these numbers.
    Numbers(Vec<String>),
    /// The cell has this order to a number.
    Compares(CellComparison, String),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum CellComparison {
    Below,
    AtMost,
    Above,
    AtLeast,
}

impl CellComparison {
    const fn sign(self) -> &'static str {
        match self {
            Self::Below => "<",
            Self::AtMost => "<=",
            Self::Above => ">",
            Self::AtLeast => ">=",
        }
    }

    fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Below => order.is_lt(),
            Self::AtMost => order.is_le(),
            Self::Above => order.is_gt(),
            Self::AtLeast => order.is_ge(),
        }
    }
}

/// How cells are read.
#[derive(Clone, Copy)]
struct CellReading<'r> {
    event: Event<'r>,
    ids: Identities,
    numbers: &'r NumberFormat,
}

impl RowFilter {
    /// The columns that it reads, each once.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// This filter with the identities of its texts.
    ///
    /// # Errors
    /// If no cell has such an identity.
    pub(crate) fn canonical(mut self, ids: Identities) -> Result<Self, Sentence> {
        self.root.canonical(ids)?;
        Ok(self)
    }

    /// Whether a row is counted.
    ///
    /// # Errors
    /// If a cell cannot be read. The error names row and column.
    pub fn keeps(&self, event: &Event<'_>, ids: Identities, numbers: &NumberFormat) -> Result<bool, InputError> {
        Ok(self.root.holds(CellReading { event: *event, ids, numbers })? == Some(true))
    }
}

impl Expression {
    fn canonical(&mut self, ids: Identities) -> Result<(), Sentence> {
        match self {
            Self::And(parts) | Self::Or(parts) => parts.iter_mut().try_for_each(|part| part.canonical(ids)),
            Self::Not(part) => part.canonical(ids),
            Self::Test(_, RowTest::Texts(texts)) => texts.iter_mut().try_for_each(|text| {
                *text = ids.canonical_name(text).map_err(|why| why.then("; write `is missing` for missing cells"))?;
                Ok(())
            }),
            Self::Test(..) => Ok(()),
        }
    }

    /// Whether it is true; `None` if a missing cell leaves that open.
    fn holds(&self, row: CellReading<'_>) -> Result<Option<bool>, InputError> {
        match self {
            Self::And(parts) => decide(parts, row, false),
            Self::Or(parts) => decide(parts, row, true),
            Self::Not(part) => Ok(part.holds(row)?.map(|holds| !holds)),
            Self::Test(column, test) => row.test(*column, test),
        }
    }
}

/// Whether all parts are true, if the first false one decides; or any part, if the first true one decides.
fn decide(parts: &[Expression], row: CellReading<'_>, decisive: bool) -> Result<Option<bool>, InputError> {
    let mut all = Some(!decisive);
    for part in parts {
        match part.holds(row)? {
            Some(holds) if holds == decisive => return Ok(Some(decisive)),
            Some(_) => {}
            None => all = None,
        }
    }
    Ok(all)
}

impl CellReading<'_> {
    fn test(self, column: usize, test: &RowTest) -> Result<Option<bool>, InputError> {
        match test {
            RowTest::IsMissing => {
                let is_missing = matches!(self.ids.of(self.event.filter_cell(column), &mut String::new()), Ok(None));
                Ok(Some(is_missing))
            }
            RowTest::Texts(texts) => {
                let mut scratch = String::new();
                let name = self.event.identity(ColumnRole::Filter(column), self.ids, &mut scratch)?;
                Ok(name.map(|name| texts.iter().any(|text| text == name)))
            }
            RowTest::Numbers(numbers) => self
                .compare(column, |cell| numbers.iter().any(|number| cell.compare(&literal(number)) == Ordering::Equal)),
            RowTest::Compares(order, number) => {
                self.compare(column, |cell| order.holds(cell.compare(&literal(number))))
            }
        }
    }

    /// Compares a cell as an exact number; `None` if it is missing.
    fn compare(self, column: usize, holds: impl Fn(DecimalText<'_>) -> bool) -> Result<Option<bool>, InputError> {
        let cell = self.event.filter_cell(column);
        let digits = match self.digits(cell) {
            Ok(Some(digits)) => digits,
            Ok(None) => return Ok(None),
            Err(problem) => return Err(self.refusal(column, cell, problem)),
        };
        match DecimalText::parse(&digits) {
            Some(number) => Ok(Some(holds(number))),
            None => Err(self.refusal(column, cell, DecimalError::NotANumber)),
        }
    }

    /// The digits of a number; `None` if it is missing, or is not a number as missing cells of some formats are.
    fn digits<'c>(&self, cell: Field<'c>) -> Result<Option<Cow<'c, str>>, DecimalError> {
        Ok(Some(match cell {
            Field::Missing => return Ok(None),
            Field::Text("NaN" | "nan") => return Ok(None),
            Field::Text(text) => match truth_of(text) {
                Some(truth) => Cow::Owned(truth.to_string()),
                None => self.numbers.plain(text).ok_or(DecimalError::NotANumber)?,
            },
            Field::Number(text) | Field::Decimal(text) => Cow::Borrowed(text.trim_ascii()),
            Field::Integer(value) => Cow::Owned(value.to_string()),
            Field::Float(value) | Field::Short { value, .. } if value.is_nan() => return Ok(None),
            Field::Float(value) | Field::Short { value, .. } if value.is_finite() => Cow::Owned(value.to_string()),
            Field::Float(_) | Field::Short { .. } => return Err(DecimalError::NotFinite),
            Field::Instant(_) | Field::Civil(_) | Field::Date(_) => return Err(DecimalError::NotANumber),
        }))
    }

    fn refusal(&self, column: usize, cell: Field<'_>, problem: DecimalError) -> InputError {
        self.numbers.refusal(&self.event, ColumnRole::Filter(column), cell, problem)
    }
}

fn literal(number: &str) -> DecimalText<'_> {
    DecimalText::parse(number).expect("checked when the expression was read")
}

/// Writes it as [`FromStr`] reads it, always in the same form.
impl fmt::Display for RowFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(&self.root, f)
    }
}

impl RowFilter {
    fn write(&self, expression: &Expression, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match expression {
            Expression::And(parts) => self.write_all(parts, " and ", f),
            Expression::Or(parts) => self.write_all(parts, " or ", f),
            Expression::Test(column, test) => self.write_test(*column, test, false, f),
            Expression::Not(part) => match &**part {
                Expression::Test(column, test) if !matches!(test, RowTest::Compares(..)) => {
                    self.write_test(*column, test, true, f)
                }
                part => {
                    f.write_str("not ")?;
                    self.write_part(part, f)
                }
            },
        }
    }

    fn write_all(&self, parts: &[Expression], between: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, part) in parts.iter().enumerate() {
            f.write_str(if place == 0 { "" } else { between })?;
            self.write_part(part, f)?;
        }
        Ok(())
    }

    fn write_part(&self, part: &Expression, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(part, Expression::And(_) | Expression::Or(_)) {
            f.write_str("(")?;
            self.write(part, f)?;
            return f.write_str(")");
        }
        self.write(part, f)
    }

    fn write_test(&self, column: usize, test: &RowTest, negated: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.columns[column];
        if parse::is_plain(name) {
            f.write_str(name)?;
        } else {
            write!(f, "`{}`", name.replace('`', "``"))?;
        }
        let shown = |texts: &[String]| -> Vec<String> {
            texts.iter().map(|text| format!("\"{}\"", text.replace('"', "\"\""))).collect()
        };
        let values = match test {
            RowTest::IsMissing => return f.write_str(if negated { " is not missing" } else { " is missing" }),
            RowTest::Compares(order, number) => return write!(f, " {} {number}", order.sign()),
            RowTest::Texts(texts) => shown(texts),
            RowTest::Numbers(numbers) => numbers.clone(),
        };
        match (values.as_slice(), negated) {
            ([one], false) => write!(f, " == {one}"),
            ([one], true) => write!(f, " != {one}"),
            (several, false) => write!(f, " in ({})", several.join(", ")),
            (several, true) => write!(f, " not in ({})", several.join(", ")),
        }
    }
}

impl FromStr for RowFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse::parse(text)
    }
}

serde_as_text!(RowFilter);

#[cfg(test)]
mod tests;
