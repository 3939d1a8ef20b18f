//! The columns of the registry.

use crate::Result;
use crate::mechanism::limits::Limits;
use crate::mechanism::reach::{Reach, Steps};
use crate::mechanism::{
    BandedFamily, Criterion, LongSearch, Mechanism, MechanismName, NoiseKind, Objective, Participation, TrainingLoop,
};
use std::sync::Arc;

/// Properties of a family of mechanisms, for searches, programs and figures: a row of the registry.
///
/// Every column is given for every family. Properties that may depend on the parameters of a name are functions of the
/// name; [`MechanismName`] has methods for them.
///
/// ```
/// use evertally::mechanism::{MechanismName, NoiseKind};
/// let name: MechanismName = "kary(k=5)".parse()?;
/// assert_eq!(name.family().stem, "kary");
/// assert!(name.serves(NoiseKind::Laplace) && !name.is_heavy());
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Family {
    /// The name without parameters.
    pub stem: &'static str,
    /// Another name that is read but never written.
    pub other_name: Option<&'static str>,
    /// A short description.
    pub about: &'static str,
    /// Names that a user may write, the shortest first.
    pub examples: &'static [&'static str],
    /// The name with all parameters left open; `None` if one must be given.
    pub open: Option<MechanismName>,
    /// The noise distributions it supports, and how far a search goes under each.
    pub reach: fn(MechanismName) -> Reach,
    /// The noise distribution it is mostly used with.
    pub usual_law: fn(MechanismName) -> NoiseKind,
    /// When it competes for running sums if no mechanism is named.
    pub competes: Competes,
    /// The workloads that it publishes itself; all others are differences of its running sums.
    pub publishes: Publishes,
    /// Its names that compete if a criterion's workload is a window or a decay, besides those that read running sums.
    pub readings: fn(&Criterion) -> Vec<MechanismName>,
    /// Whether the noise of vectors can be streamed with it.
    pub vectors: Vectors,
    /// A mechanism that is built quickly and whose error is similar: if it is given, the name competes only where the
    /// stand-in is near the best, because the search for its parameters takes long.
    pub stand_in: fn(MechanismName) -> Option<MechanismName>,
    /// How it competes for vectors if the examples of a step are sampled.
    pub sampled: SampledUse,
    /// Builds the mechanism of a name for a training loop; `None` if the loop makes no difference to it.
    pub for_loop: LoopBuilder,
    /// The abilities of a stream of its noise.
    pub abilities: Abilities,
    /// How the cost of a step grows.
    pub steps: fn(MechanismName) -> Steps,
    /// Its search, if it takes minutes.
    pub long_search: Option<LongSearch>,
    /// Whether it is plain noise, whose error grows with the horizon itself and not with its logarithm.
    pub is_plain_noise: bool,
    /// Whether the noise of a step is independent of that of all others, as in DP-SGD.
    pub is_independent: bool,
    /// Whether results with the parameters that are best for its usual distribution are listed under the open name: the
    /// published setting, or the only one.
    pub listed_open: bool,
    /// The leading constants of its error that the literature states for a name.
    pub limits: fn(MechanismName) -> Limits,
    /// A shorter name for tables and pictures: without numbers that only a program can use.
    pub brief: fn(MechanismName) -> MechanismName,
    /// Whether a mechanism of the second name, already built, satisfies the first name under an objective.
    pub answers: fn(MechanismName, MechanismName, Objective) -> bool,
}

/// When a family competes for running sums if no mechanism is named.
#[derive(Clone, Copy, Debug)]
pub enum Competes {
    /// Over every horizon within its reach, with its parameters left open.
    ForSums,
    /// Over every horizon within its reach, for units that return: with these names, for a horizon and the steps of a
    /// unit.
    ForUnits(fn(u64, Participation) -> Vec<MechanismName>),
    /// On endless streams, and only there: with these names under a noise distribution.
    WithoutEnd(fn(NoiseKind) -> &'static [MechanismName]),
    /// Never: a parameter must be given, a search takes minutes, or it serves other workloads.
    Never,
}

/// The workloads that a family publishes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publishes {
    /// Running sums.
    Sums,
    /// The workload of the criterion.
    Workloads,
}

/// Whether the noise of vectors can be streamed with a family. Families that can be streamed compete for vectors where
/// they compete for sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vectors {
    /// It cannot be streamed step by step.
    No,
    /// It can.
    Streamed,
    /// It can if it is optimised for a unit with events in several steps, and it competes for such units over at most
    /// this many steps.
    ForUnits(u64),
}

/// Builds the mechanism of a name for a training loop.
pub type LoopBuilder = fn(MechanismName, &TrainingLoop<'_>) -> Option<Result<Arc<dyn Mechanism>>>;

/// How a family competes for vectors if the examples of a step are sampled and no mechanism is named.
#[derive(Clone, Copy, Debug)]
pub enum SampledUse {
    /// Not at all.
    Never,
    /// With its parameters left open.
    Always,
    /// Likewise, but only if every example is allocated to a step of the epoch once for the whole run.
    AllocatedOnce,
    /// With the best number of bands.
    Banded(BandedFamily),
}

/// The abilities of a noise stream, in addition to advancing to the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// The noise of any single step is reached in `O(log T)` draws.
    pub random_access: bool,
    /// The noise of any single window is reached by drawing that of its steps.
    pub random_windows: bool,
    /// Noise can be drawn at single readings, without drawing everything before.
    pub lazy: bool,
    /// Gaussian noise can be calibrated by the covariance of the releases, if that reveals less than the column norms.
    pub exact_accounting: bool,
}

impl Family {
    /// What most rows have. A row states its stem, description and examples, and the columns in which it differs.
    pub(super) const DEFAULT: Self = Self {
        stem: "",
        other_name: None,
        about: "",
        examples: &[],
        open: None,
        reach: |_| Reach::ANY,
        usual_law: |_| NoiseKind::Gaussian,
        competes: Competes::Never,
        publishes: Publishes::Sums,
        readings: no_readings,
        vectors: Vectors::No,
        stand_in: |_| None,
        sampled: SampledUse::Never,
        for_loop: no_loop,
        abilities: Abilities::IN_ORDER,
        steps: |_| Steps::Logarithmic,
        long_search: None,
        is_plain_noise: false,
        is_independent: false,
        listed_open: false,
        limits: Limits::none,
        brief: unchanged,
        answers: equal,
    };

    /// Its names by their number of bands, if it competes by them.
    pub fn banded(&self) -> Option<BandedFamily> {
        match self.sampled {
            SampledUse::Banded(banded) => Some(banded),
            SampledUse::Never | SampledUse::Always | SampledUse::AllocatedOnce => None,
        }
    }
}

impl Vectors {
    /// Whether the noise of vectors can be streamed, with one of its names at least.
    pub fn are_streamed(self) -> bool {
        self != Self::No
    }

    /// Whether it competes for vectors of a unit over a horizon.
    pub fn compete(self, horizon: u64, unit: Participation) -> bool {
        match self {
            Self::No => false,
            Self::Streamed => true,
            Self::ForUnits(longest) => horizon <= longest && unit.within(horizon) > 1,
        }
    }
}

impl Abilities {
    /// Any step, and lazily.
    pub const EVERY_STEP: Self = Self { random_access: true, lazy: true, ..Self::IN_ORDER };
    /// One step after the other.
    pub const IN_ORDER: Self =
        Self { random_access: false, random_windows: false, lazy: false, exact_accounting: false };
}

/// No names.
fn no_readings(_: &Criterion) -> Vec<MechanismName> {
    Vec::new()
}

/// A training loop makes no difference.
fn no_loop(_: MechanismName, _: &TrainingLoop<'_>) -> Option<Result<Arc<dyn Mechanism>>> {
    None
}

/// For families whose names are short enough.
fn unchanged(name: MechanismName) -> MechanismName {
    name
}

/// Only the exact name matches.
fn equal(asked: MechanismName, built: MechanismName, _: Objective) -> bool {
    asked == built
}
