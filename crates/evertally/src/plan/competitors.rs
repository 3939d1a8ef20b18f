//! The names that compete for a unit and a workload: the same for counts, vectors, and programs that list mechanisms.

use super::ComparedMechanisms;
use crate::Result;
use crate::mechanism::{Criterion, MAX_HORIZON, MechanismName, Mix, NoiseKind, Publishes, SearchWatch, Workload};

/// A name with a [stand-in](MechanismName::stand_in) competes if the stand-in has at most this part of the least
/// variance found so far. Its parameters are searched; they lower the variance of the stand-in by 10 to 40 %.
const NEAR: f64 = 1.75;

/// Attempts with these names: the best of the names with stand-ins only, and each of them only if the stand-in's error
/// is near the least. `figure` is the squared error of a successful attempt. Every name is one of the mechanisms
/// `compared`.
///
/// # Errors
/// If the search is cancelled.
///
/// ```
/// use evertally::mechanism::{Criterion, Mechanism, MechanismName, Objective, Participation, SearchWatch};
/// use evertally::plan::{ComparedMechanisms, SearchObserver, attempts_with, competitors};
/// let unit = Participation::new(7, 54)?;
/// let criterion = Criterion::from_vectors(Objective::Max, unit);
/// let names = competitors(500, criterion.law(), &criterion);
/// let observer = SearchObserver::default();
/// let mut compared = ComparedMechanisms::new(&observer, Some(names.len()));
/// let build = |name: MechanismName, watch: SearchWatch| name.build(500, &criterion.with_watch(watch));
/// let found = attempts_with(names, &mut compared, build, |built| criterion.figure(&**built))?;
/// let best = found.into_iter().flatten().map(|built| criterion.figure(&*built)).fold(f64::INFINITY, f64::min);
/// assert!(best < 115.0);
/// # Ok::<(), evertally::Error>(())
/// ```
pub fn attempts_with<C>(
    names: impl IntoIterator<Item = MechanismName>,
    compared: &mut ComparedMechanisms<'_>,
    mut attempt: impl FnMut(MechanismName, SearchWatch<'_>) -> Result<C>,
    figure: impl Fn(&C) -> f64,
) -> Result<Vec<Result<C>>> {
    let (quick, long): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| name.stand_in().is_none());
    let mut found: Vec<Result<C>> = Vec::new();
    for name in quick {
        found.push(compared.compare(|watch| attempt(name, watch))?);
    }
    let mut least = found.iter().flatten().map(&figure).fold(f64::INFINITY, f64::min);
    for name in long {
        let built = compared.compare(|watch| {
            let stand_in = attempt(name.stand_in()?, watch).ok()?;
            (figure(&stand_in) <= NEAR * least).then(|| attempt(name, watch))
        })?;
        least = built.iter().flatten().map(&figure).fold(least, f64::min);
        found.extend(built);
    }
    Ok(found)
}

/// Longest horizon at which windows are also read from running sums: of any family, and long windows from families with
/// light steps.
const SUMS_COMPETE: u64 = 1 << 11;
const LIGHT_SUMS_COMPETE: u64 = 1 << 14;
/// The same for short windows alone from families with heavy steps under Gaussian noise: the best of them have 1.7
/// times the variance of bands, and more.
const SHORT_WINDOWS_COMPETE: u64 = 1 << 9;

/// The families that compete over a horizon for the workload of a criterion, with their parameters left open: for
/// running sums, also the names for the steps of a unit; for windows and decays, noise on each step, bands for single
/// events and for the unit, and differences of running sums if these can win.
///
/// ```
/// use evertally::mechanism::{Criterion, NoiseKind, Objective, Workload};
/// use evertally::plan::competitors;
/// let sums = Criterion::new(NoiseKind::Gaussian, Objective::Max);
/// assert!(competitors(1 << 40, NoiseKind::Gaussian, &sums).len() > 5);
/// let weeks = sums.with_workload(Workload::Window(7));
/// assert_eq!(competitors(1 << 40, NoiseKind::Gaussian, &weeks).len(), 2);
/// ```
pub fn competitors(horizon: u64, kind: NoiseKind, criterion: &Criterion) -> Vec<MechanismName> {
    let reached = |name: &MechanismName| name.reaches(horizon, kind);
    let families = MechanismName::FAMILIES.into_iter().filter(reached);
    let workload = criterion.workload().over(horizon);
    if workload.is_sum() && horizon == MAX_HORIZON && criterion.participation().is_none() {
        return MechanismName::endless(kind).filter(reached).collect();
    }
    if workload.is_sum() {
        return families.chain(of_units(horizon, kind, criterion)).collect();
    }
    let criterion = criterion.with_workload(workload);
    let competes = |name: &MechanismName| {
        let may_win = !name.is_heavy() || horizon <= SHORT_WINDOWS_COMPETE || is_long(horizon, kind, workload);
        may_win && reads_sums(*name, horizon, kind, workload)
    };
    let sums = families.filter(competes);
    of_readings(kind, &criterion).chain(sums).collect()
}

/// The names for the steps of a unit; their families limit their horizons themselves.
fn of_units(horizon: u64, kind: NoiseKind, criterion: &Criterion) -> impl Iterator<Item = MechanismName> {
    MechanismName::of_units(horizon, criterion.unit()).filter(move |name| name.serves(kind))
}

/// The names of families that publish windows and decays themselves.
fn of_readings(kind: NoiseKind, criterion: &Criterion) -> impl Iterator<Item = MechanismName> + use<> {
    MechanismName::readings(criterion).filter(move |name| name.serves(kind))
}

/// Whether a window is read from a family's running sums over a horizon.
fn reads_sums(name: MechanismName, horizon: u64, kind: NoiseKind, workload: Workload) -> bool {
    let light = is_long(horizon, kind, workload) && !name.is_heavy();
    let longest = if light { LIGHT_SUMS_COMPETE } else { SUMS_COMPETE };
    horizon <= longest && matches!(workload, Workload::Window(_)) && name.family().publishes == Publishes::Sums
}

fn is_long(horizon: u64, kind: NoiseKind, workload: Workload) -> bool {
    workload.reach(horizon) >= horizon / 16 || kind == NoiseKind::Laplace
}

/// The families that compete if several workloads are read from one release: those that all workloads can read.
pub(super) fn competitors_of_mix(
    horizon: u64,
    kind: NoiseKind,
    criterion: &Criterion,
    mix: &Mix,
) -> Vec<MechanismName> {
    let reached = |name: &MechanismName| name.reaches(horizon, kind);
    let reads_all = |name: &MechanismName| {
        mix.workloads().all(|workload| workload.is_sum() || reads_sums(*name, horizon, kind, workload))
    };
    let families = MechanismName::FAMILIES.into_iter().filter(reached).filter(reads_all);
    of_readings(kind, criterion).chain(families).collect()
}
