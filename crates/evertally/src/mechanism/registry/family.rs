//! The columns of the registry.

use super::MechanismName;
use crate::mechanism::{MAX_HORIZON, NoiseKind, Objective, Participation};

/// What searches, programs and figures know of a family of mechanisms: a row of the registry.
///
/// Every column is stated for every family. What depends on the parameters of a name is a function of the name.
///
/// ```
/// use evertally::mechanism::{MechanismName, NoiseKind};
/// let name: MechanismName = "kary(k=5)".parse()?;
/// assert_eq!(name.family().stem, "kary");
/// assert!(name.family().serves(NoiseKind::Laplace) && !name.family().is_heavy());
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Family {
    /// The name without parameters.
    pub stem: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// Names that a user may write, the shortest first.
    pub examples: &'static [&'static str],
    /// The name with all parameters left open; `None` where one must be given.
    pub open: Option<MechanismName>,
    /// The laws it serves, and how far a search goes under each.
    pub reach: Reach,
    /// The law it is mostly used with.
    pub usual_law: NoiseKind,
    /// Whether it competes where no mechanism is named and counts are released. (Not where a parameter must be given,
    /// or a search takes minutes.)
    pub competes: bool,
    /// Whether it competes where there is no end, and nowhere else.
    pub endless: bool,
    /// Whether it competes for vectors.
    pub vectors: Vectors,
    /// What a stream of its noise can do.
    pub abilities: Abilities,
    /// How the cost of a step grows.
    pub steps: Steps,
    /// Whether it is plain noise, whose error grows with the horizon itself and not with its logarithm.
    pub is_plain_noise: bool,
    /// Whether figures with the parameters that are best for its usual law are listed under the open name: the
    /// published setting, or the only one.
    pub listed_open: bool,
    /// The leading constants of its error that the literature states for a name.
    pub limits: fn(MechanismName) -> Limits,
    /// A shorter name for tables and pictures: without numbers that only a program can use.
    pub brief: fn(MechanismName) -> MechanismName,
    /// Whether a mechanism of the second name, built before, is what the first name asks for under an objective.
    pub answers: fn(MechanismName, MechanismName, Objective) -> bool,
    /// How pictures tell it apart.
    pub line: Line,
}

/// The longest horizons, in steps, at which a search considers a family: building or running it takes a few seconds
/// there. `None` under a law that it does not serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Reach {
    pub laplace: Option<u64>,
    pub gaussian: Option<u64>,
}

/// Whether the noise of vectors can be streamed with a family, and whether it competes where none is named.
#[derive(Clone, Copy, Debug)]
pub enum Vectors {
    /// It cannot be streamed step by step.
    No,
    /// Where it is named.
    Named,
    /// Everywhere, with its parameters left open.
    Compete,
    /// With these names, for a horizon and a participation: none beyond the family's longest horizon.
    CompeteAs(fn(u64, Participation) -> Vec<MechanismName>),
}

/// What a stream of noise can do beside going on to the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// The noise of any single step is reached in `O(log T)` draws.
    pub random_access: bool,
    /// Noise can be drawn where it is read, without all before it.
    pub lazy: bool,
    /// Gaussian noise can be calibrated by the covariance of the releases, where that reveals less than the column
    /// norms.
    pub exact_accounting: bool,
}

/// How time and memory of a step grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// With the logarithm of the horizon at most.
    Light,
    /// With the horizon.
    Heavy,
}

/// Leading constants of the error for long horizons, as the literature states them; `None` where it does not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Limit of 2ρ · largest variance / log₂²T under ρ-zCDP.
    pub zcdp: Option<f64>,
    /// Limit of ε² · mean variance / log₂³T under pure ε.
    pub pure: Option<f64>,
}

/// Colour, dashes and marker of a family's line where mechanisms are compared. Relatives share a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line(pub Hue, pub Dash, pub Mark);

/// Colours that relatives share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Hue {
    Grey,
    Black,
    Sky,
    Blue,
    Green,
    Vermilion,
    Purple,
    Orange,
}

/// Dashes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Dash {
    Solid,
    Dashed,
    Mixed,
}

/// Markers of the points of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Mark {
    Circle,
    Square,
    Diamond,
    Up,
    Down,
}

impl Family {
    /// Whether it is worth considering under a law.
    pub fn serves(&self, law: NoiseKind) -> bool {
        self.reach.of(law).is_some()
    }

    /// Whether time and memory grow with the horizon instead of its logarithm.
    pub fn is_heavy(&self) -> bool {
        self.steps == Steps::Heavy
    }
}

impl Reach {
    /// Any horizon under both laws.
    pub const ANY: Self = Self { laplace: Some(MAX_HORIZON), gaussian: Some(MAX_HORIZON) };

    /// Any horizon under Gaussian noise, the only law.
    pub const ANY_GAUSSIAN: Self = Self::gaussian(MAX_HORIZON);

    /// Up to a horizon under Gaussian noise, the only law.
    pub const fn gaussian(longest: u64) -> Self {
        Self { laplace: None, gaussian: Some(longest) }
    }

    /// Up to a horizon under Laplace noise, the only law.
    pub const fn laplace(longest: u64) -> Self {
        Self { laplace: Some(longest), gaussian: None }
    }

    /// The longest horizon under a law.
    pub fn of(self, law: NoiseKind) -> Option<u64> {
        match law {
            NoiseKind::Laplace => self.laplace,
            NoiseKind::Gaussian => self.gaussian,
        }
    }

    /// The longest horizon under any law.
    pub fn longest(self) -> u64 {
        self.laplace.max(self.gaussian).unwrap_or(0)
    }
}

impl Vectors {
    /// Whether the noise of vectors can be streamed.
    pub fn are_streamed(self) -> bool {
        !matches!(self, Self::No)
    }
}

impl Abilities {
    /// Any step, and lazily.
    pub const EVERY_STEP: Self = Self { random_access: true, lazy: true, exact_accounting: false };
    /// One step after the other.
    pub const IN_ORDER: Self = Self { random_access: false, lazy: false, exact_accounting: false };
}

impl Limits {
    /// The literature states none.
    pub const NONE: Self = Self { zcdp: None, pure: None };

    /// As [`NONE`](Self::NONE), for any name.
    pub(in crate::mechanism) fn none(_: MechanismName) -> Self {
        Self::NONE
    }
}

/// A name that is brief enough.
pub(super) fn unchanged(name: MechanismName) -> MechanismName {
    name
}

/// Only the very name answers.
pub(super) fn equal(asked: MechanismName, built: MechanismName, _: Objective) -> bool {
    asked == built
}
