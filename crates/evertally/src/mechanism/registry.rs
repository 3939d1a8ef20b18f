//! The registry: what searches, programs and figures know of the families of mechanisms.
//!
//! The rows are in `name/rows.rs`, one for each family, pointing into its file or folder; nothing else lists families.
//! `docs/adding-a-mechanism.md` says how to add one.

mod family;
#[cfg(test)]
mod tests;

pub use family::{Abilities, Competes, Family, LoopBuilder, Publishes, SampledUse, Vectors};

use super::differences::Differences;
use super::limits::Limits;
use super::name::parameters::Parameters;
use super::name::rows::mechanism_rows;
use super::reach::{Reach, Steps};
use super::{
    BufferChoice, Criterion, EndlessChoice, HatChoice, LevelChoice, MAX_HORIZON, Mechanism, MechanismName, NoiseKind,
    Objective, Optimum, Participation, SearchWatch, ShapeChoice, Sharpness, TrainingLoop, Workload,
};
use super::{banded, endless, least_squares, optimum, toeplitz, tree, trivial};
use crate::{Error, Result};
use NoiseKind::Laplace;
use Steps::Linear;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// From rows `Variant(parameters) in folder = Family { … };`, generates the table of families and the dispatch of names
/// to their folders.
///
/// A folder has `build(horizon, criterion, parameters…)`, and `parse(text)` and `write(f, parameters…)` if there are
/// parameters. A missing function does not compile; a column that a row omits has the value of `Family::DEFAULT`.
macro_rules! registry {
    ($(
        $(#[$doc:meta])*
        $variant:ident $( ( $($field:ident : $type:ty),+ ) )? in $($folder:ident)::+ = $row:expr;
    )+) => {
        /// The rows, one constant for each name.
        #[allow(non_upper_case_globals)]
        mod rows {
            use super::*;
            $( pub(super) const $variant: &Family = &$row; )+
        }

        /// All rows, in the order of the table.
        const ROWS: &[&Family] = &[$( rows::$variant ),+];

        impl MechanismName {
            /// The family of this name.
            pub const fn family(self) -> &'static Family {
                match self { $( Self::$variant { .. } => rows::$variant, )+ }
            }

            /// The mechanism for a horizon; omitted parameters are searched for the least value of the criterion.
            ///
            /// # Errors
            /// If the horizon or a parameter is out of the mechanism's range;
            /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) if the criterion's watch cancels the search.
            pub fn build(self, horizon: u64, criterion: &Criterion) -> Result<Arc<dyn Mechanism>> {
                build(self, horizon, criterion)
            }

            /// The build function of the family.
            fn build_own(
                self,
                horizon: u64,
                criterion: &Criterion,
            ) -> Result<Arc<dyn Mechanism>> {
                match self {
                    $( Self::$variant $( ( $($field),+ ) )? =>
                        $($folder)::+::build(horizon, criterion $( $(, $field)+ )?), )+
                }
            }

            /// Writes the parameters, in brackets if there are any.
            fn write_parameters(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $( Self::$variant $( ( $($field),+ ) )? =>
                        registry!(@write f, [$($folder)::+] $( [$($field),+] )?), )+
                }
            }

            /// The name of a family, by the parameters that follow its stem; `None` if there is no such family.
            fn parse_parameters(parameters: &mut Parameters<'_>) -> Option<Result<Self>> {
                $( if parameters.stem == rows::$variant.stem || Some(parameters.stem) == rows::$variant.other_name {
                    return Some(registry!(@parse parameters, $variant, [$($folder)::+] $( [$($field),+] )?));
                } )+
                None
            }
        }
    };
    (@write $f:ident, [$folder:path]) => { Ok(()) };
    (@write $f:ident, [$($folder:ident)::+] [$($field:ident),+]) => { $($folder)::+::write($f $(, $field)+) };
    (@parse $parameters:ident, $variant:ident, [$folder:path]) => { Ok(Self::$variant) };
    (@parse $parameters:ident, $variant:ident, [$($folder:ident)::+] [$($field:ident),+]) => {
        $($folder)::+::parse($parameters)
    };
}
mechanism_rows!(registry);

/// The mechanism of a name that publishes the workload of a criterion: directly, or as differences of its running sums.
fn build(name: MechanismName, horizon: u64, criterion: &Criterion) -> Result<Arc<dyn Mechanism>> {
    let workload = criterion.workload().over(horizon);
    let is_own = workload.is_sum() || name.family().publishes == Publishes::Workloads;
    let published = if is_own { workload } else { Workload::Sum };
    let built = name.build_own(horizon, &criterion.with_workload(published));
    // A cancelled search finds something else, or nothing.
    criterion.watch().check()?;
    if is_own { built } else { Ok(Arc::new(Differences::new(built?, workload)?)) }
}

impl MechanismName {
    /// Every family that competes if no mechanism is named, with parameters left open.
    pub const FAMILIES: [MechanismName; COMPETING] = competing();

    /// Likewise the names that compete on endless streams under a noise distribution.
    pub fn endless(law: NoiseKind) -> impl Iterator<Item = Self> {
        Self::all_families()
            .flat_map(move |family| match family.competes {
                Competes::WithoutEnd(names) => names(law),
                Competes::ForSums | Competes::ForUnits(_) | Competes::Never => &[],
            })
            .copied()
    }

    /// Likewise the names that compete for the running sums of a unit that returns.
    pub fn of_units(horizon: u64, unit: Participation) -> impl Iterator<Item = Self> {
        Self::all_families().flat_map(move |family| match family.competes {
            Competes::ForUnits(names) if unit.within(horizon) > 1 => names(horizon, unit),
            _ => vec![],
        })
    }

    /// A mechanism that is built quickly and whose error is similar, if the search for this name takes long.
    pub fn stand_in(self) -> Option<Self> {
        (self.family().stand_in)(self)
    }

    /// The names that publish the windows or decays of a criterion themselves, under its noise distribution.
    pub fn readings(criterion: &Criterion) -> impl Iterator<Item = Self> + use<> {
        let (criterion, law) = (criterion.with_watch(SearchWatch::NONE), criterion.law());
        Self::all_families().flat_map(move |family| (family.readings)(&criterion)).filter(move |name| name.serves(law))
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

    /// The mechanism of this name for a training loop: optimised for it if the family can be.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_for_loop(self, training: &TrainingLoop<'_>) -> Result<Arc<dyn Mechanism>> {
        let watch = training.criterion.watch();
        let squared_error =
            |mechanism: &dyn Mechanism| (!watch.is_cancelled()).then(|| (training.squared_error)(mechanism))?;
        let built = (self.family().for_loop)(self, &TrainingLoop { squared_error: &squared_error, ..*training });
        watch.check()?;
        built.unwrap_or_else(|| self.build(training.horizon(), training.criterion))
    }

    /// The number of bands, for the names of banded families: columns of `R` at least that many steps apart share no
    /// row.
    ///
    /// ```
    /// # use evertally::mechanism::MechanismName;
    /// assert_eq!("banded-sqrt(bands=8)".parse::<MechanismName>()?.bands(), Some(8));
    /// assert_eq!("banded-inverse(bands=8)".parse::<MechanismName>()?.bands(), None);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn bands(self) -> Option<u64> {
        self.family().banded().and_then(|banded| (banded.bands)(self))
    }

    /// This name with a sharpness of sampling; `None` if the family has none, or one is given.
    pub fn with_sharpness(self, sharpness: Sharpness) -> Option<Self> {
        self.family().banded().and_then(|banded| (banded.with_sharpness)(self, sharpness))
    }

    /// Whether time and memory grow with the horizon instead of its logarithm.
    pub fn is_heavy(self) -> bool {
        (self.family().steps)(self) == Linear
    }

    /// The noise distribution that it is mostly used with.
    pub fn usual_law(self) -> NoiseKind {
        (self.family().usual_law)(self)
    }

    /// The noise distributions that it supports, and how far a search goes under each.
    pub fn reach(self) -> Reach {
        (self.family().reach)(self)
    }

    /// Whether it is worth considering under a noise distribution.
    pub fn serves(self, law: NoiseKind) -> bool {
        self.reach().of(law).is_some()
    }

    /// Whether a search considers it over a horizon, under a noise distribution.
    pub fn reaches(self, horizon: u64, law: NoiseKind) -> bool {
        self.reach().of(law).is_some_and(|longest| self.reach().above < horizon && horizon <= longest)
    }

    /// Whether a search considers it over a horizon, under some noise distribution.
    pub fn is_searched_at(self, horizon: u64) -> bool {
        let reach = self.reach();
        reach.above < horizon && horizon <= reach.longest()
    }

    /// Longest horizon for which a search considers it: building or running it takes a few seconds there.
    pub fn longest_searched(self) -> u64 {
        self.reach().longest()
    }

    /// The leading constants of its error that the literature states.
    pub fn limits(self) -> Limits {
        (self.family().limits)(self)
    }

    /// Whether a mechanism of that name, already built, satisfies this name under an objective.
    pub fn matches_request(self, built: Self, objective: Objective) -> bool {
        (self.family().answers)(self, built, objective)
    }
}

/// The names of all families that stream the noise of vectors, formatted for a sentence.
pub fn streaming_names() -> String {
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
        count += matches!(ROWS[row].competes, Competes::ForSums) as usize;
        row += 1;
    }
    count
};

/// The open names of the competing rows; a competing row without an open name does not compile.
const fn competing() -> [MechanismName; COMPETING] {
    let mut names = [MechanismName::Input; COMPETING];
    let (mut row, mut count) = (0, 0);
    while row < ROWS.len() {
        if matches!(ROWS[row].competes, Competes::ForSums) {
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
