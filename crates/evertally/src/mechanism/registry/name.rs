//! Names as text, both ways, and the properties of their families.

use super::{MechanismName, Parameters, ROWS};
use crate::mechanism::Objective;
use crate::{Error, Result};
use std::fmt;
use std::str::FromStr;

use super::family::{Family, Limits};

impl MechanismName {
    /// Every family that competes if no mechanism is named, with parameters left open.
    pub const FAMILIES: [MechanismName; COMPETING] = competing();

    /// Likewise the families that compete on endless streams.
    pub fn endless() -> impl Iterator<Item = Self> {
        Self::all_families().filter(|family| family.endless).filter_map(|family| family.open)
    }

    /// Every family.
    pub fn all_families() -> impl Iterator<Item = &'static Family> + Clone {
        ROWS.iter().copied()
    }

    /// A shorter name for tables and pictures: without numbers that only a program can use.
    ///
    /// ```
    /// # use evertally::mechanism::MechanismName;
    /// let name: MechanismName = "hats(spacing=12/150,first=480/417,last=516/257)".parse()?;
    /// assert_eq!(name.brief().to_string(), "hats(spacing=12/150)");
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn brief(self) -> Self {
        (self.family().brief)(self)
    }

    /// Whether time and memory grow with the horizon instead of its logarithm.
    pub fn is_heavy(self) -> bool {
        self.family().is_heavy()
    }

    /// Longest horizon for which a search considers this family: building or running it takes a few seconds there.
    pub fn longest_searched(self) -> u64 {
        self.family().reach.longest()
    }

    /// The leading constants of its error that the literature states.
    pub fn limits(self) -> Limits {
        (self.family().limits)(self)
    }

    /// Whether a mechanism of that name, already built, satisfies this name under an objective.
    pub fn is_answered_by(self, built: Self, objective: Objective) -> bool {
        (self.family().answers)(self, built, objective)
    }
}

/// The names of all families that stream the noise of vectors, formatted for a sentence.
pub fn names_that_stream() -> String {
    let streamed = MechanismName::all_families().filter(|family| family.vectors.are_streamed());
    let mut names: Vec<_> =
        streamed.map(|family| if family.open.is_some() { family.stem } else { family.examples[0] }).collect();
    let last = names.pop().unwrap_or_default();
    format!("{} or {last}", names.join(", "))
}

/// Number of competing rows.
const COMPETING: usize = {
    let (mut row, mut count) = (0, 0);
    while row < ROWS.len() {
        count += ROWS[row].competes as usize;
        row += 1;
    }
    count
};

/// The open names of the competing rows; a competing row without an open name does not compile.
const fn competing() -> [MechanismName; COMPETING] {
    let mut names = [MechanismName::Input; COMPETING];
    let (mut row, mut count) = (0, 0);
    while row < ROWS.len() {
        if ROWS[row].competes {
            names[count] = ROWS[row].open.expect("a competing family has a name without parameters");
            count += 1;
        }
        row += 1;
    }
    names
}

impl fmt::Display for MechanismName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.family().stem)?;
        self.write_parameters(f)
    }
}

impl FromStr for MechanismName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut parameters = Parameters::split(text)?;
        let known = || Self::all_families().flat_map(|family| family.examples).copied().collect::<Vec<_>>().join(", ");
        let unknown = || Error::invalid(format!("unknown mechanism `{text}`; known: {}", known()));
        let name = Self::parse_parameters(&mut parameters).ok_or_else(unknown)??;
        parameters.none_left()?;
        Ok(name)
    }
}

impl TryFrom<String> for MechanismName {
    type Error = Error;
    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<MechanismName> for String {
    fn from(name: MechanismName) -> Self {
        name.to_string()
    }
}
