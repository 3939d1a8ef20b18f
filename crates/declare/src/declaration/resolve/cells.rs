//! Which rows are counted, and how their cells are read as numbers.

use super::super::table::Declaration;
use super::Result;
use crate::filter::RowFilter;
use crate::numbers::{DecimalMark, NumberFormat, Thousands};
use crate::parameter::Parameter::{self, NumberAffixes, Where};
use crate::problem::{Problem, sentence};
use crate::words::quoted;

impl Declaration {
    /// The declared filter, with its texts as identities.
    ///
    /// # Errors
    /// If no cell can be equal to one of its texts.
    pub(super) fn filter(&self) -> Result<Option<RowFilter>> {
        let Some(filter) = &self.r#where else { return Ok(None) };
        let canonical = filter.clone().canonical(self.identities());
        canonical.map(Some).map_err(|why| Problem::for_parameter(Where, sentence![Where, ": "].then(why)))
    }

    /// The declared format of numbers in texts.
    ///
    /// # Errors
    /// If one sign would have two meanings.
    pub(super) fn numbers(&self) -> Result<NumberFormat> {
        let mark = self.decimal_mark.unwrap_or_default();
        let other = match (mark, self.thousands) {
            (DecimalMark::Point, Some(Thousands::Point)) => Some(","),
            (DecimalMark::Comma, Some(Thousands::Comma)) => Some("."),
            _ => None,
        };
        if let Some(other) = other {
            let what = sentence![Parameter::Thousands, " is also the decimal mark"];
            let remedy = sentence!["declare ", (Parameter::DecimalMark, other)];
            return Err(Problem::for_parameter(Parameter::Thousands, what).remedy(remedy));
        }
        let affixes = self.number_affixes.clone().unwrap_or_default();
        // A sign or a digit that is ignored would make another number.
        let is_part_of_numbers = |c: char| c.is_ascii_digit() || "+-\u{2212}()".contains(c);
        let is_bad = |affix: &&String| affix.trim().is_empty() || affix.contains(is_part_of_numbers);
        if let Some(affix) = affixes.iter().find(is_bad) {
            let problem = format!(" {} is empty, or has a digit, a plus, a minus or a parenthesis", quoted(affix));
            return Err(Problem::for_parameter(NumberAffixes, sentence![NumberAffixes, problem])
                .remedy("name signs that stand before or after numbers, such as $ or EUR"));
        }
        Ok(NumberFormat::new(mark, self.thousands, affixes))
    }
}
