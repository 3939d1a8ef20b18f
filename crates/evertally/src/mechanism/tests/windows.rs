//! Any window of steps as the unit, compared with every data set of one person: what bounding by period keeps with and
//! without the events in the window.

use super::*;
use crate::mechanism::{Banded, Endless, Inside, Workload};
use crate::privacy::contribution::{ContributionBound, Details, Kept as Record, Offer};
use crate::privacy::{Neighbours, RollingWindow, Sensitivity, Unit, Values};
use std::collections::{BTreeMap, BTreeSet};

const STEPS: usize = 6;
const GROUPS: usize = 2;

/// A person's events in one step: group and value.
type Events = &'static [(usize, i64)];
/// The sums of kept values in every step of both groups.
type Sums = [[i64; STEPS]; GROUPS];

const COUNTS: [Events; 4] = [&[], &[(0, 1)], &[(1, 1)], &[(0, 1), (0, 1)]];
const VALUES: [Events; 4] = [&[], &[(0, 1)], &[(0, 3)], &[(1, 2)]];
const SIGNED: [Events; 4] = [&[], &[(0, 2)], &[(0, -1)], &[(0, -1), (0, 2)]];

/// The bounds of a period, the steps before the first whole period, the steps of a period and of the window.
struct Case {
    unit: Unit,
    before: u64,
    period: u64,
    window: usize,
    events: [Events; 4],
}

impl Case {
    fn new(unit: Unit, before: u64, period: u64, window: usize, events: [Events; 4]) -> Self {
        Self { unit, before, period, window, events }
    }

    fn values(&self) -> Values {
        let all = || self.events.into_iter().flatten().map(|(_, value)| *value);
        match (all().min().unwrap().min(0), all().max().unwrap()) {
            (0, 1) => Values::Count,
            (lower, upper) => Values::Sum { lower, upper },
        }
    }

    fn protected(&self) -> Unit {
        self.unit.per_period(self.period).in_any(RollingWindow::new(self.window as u64, self.period))
    }

    fn kept(&self, data: &[usize; STEPS]) -> Sums {
        let bound = ContributionBound::new(self.protected()).unwrap().with_values(self.values());
        let (mut record, mut details, mut sums) = (Record::default(), Details::default(), [[0; STEPS]; GROUPS]);
        for (place, events) in data.iter().enumerate() {
            let step = place as u64 + 1;
            let whole = (step - 1).checked_sub(self.before);
            let since = whole.map_or(1, |passed| step - passed % self.period);
            for (group, value) in self.events[*events] {
                let offer = Offer::in_step(step).with_period_start(since).in_group(*group as u64).with_value(*value);
                if let Some(kept) = bound.keep(&mut record, &mut details, offer) {
                    sums[*group][place] += kept;
                }
            }
        }
        sums
    }

    /// How kept sums differ between neighbouring data sets, up to the sign.
    fn differences(&self, neighbours: Neighbours) -> BTreeSet<Sums> {
        let data = |index: usize| std::array::from_fn(|place| index >> (2 * place) & 3);
        let all: Vec<([usize; STEPS], Sums)> =
            (0..1 << (2 * STEPS)).map(|index| (data(index), self.kept(&data(index)))).collect();
        let mut found = BTreeSet::new();
        for first in 0..=STEPS - self.window {
            let window = first..first + self.window;
            let mut alike: BTreeMap<[usize; STEPS], BTreeSet<Sums>> = BTreeMap::new();
            for (data, kept) in &all {
                let mut others = *data;
                others[window.clone()].fill(0);
                alike.entry(others).or_default().insert(*kept);
            }
            for (others, kept) in &alike {
                let without = self.kept(others);
                let subtracted = |a: &Sums, b: &Sums| -> Sums {
                    std::array::from_fn(|group| std::array::from_fn(|place| a[group][place] - b[group][place]))
                };
                for a in kept {
                    match neighbours {
                        Neighbours::AddRemove => drop(found.insert(subtracted(a, &without))),
                        Neighbours::ReplaceOne => {
                            found.extend(kept.iter().filter(|b| *b >= a).map(|b| subtracted(a, b)));
                        }
                    }
                }
            }
        }
        found
    }
}

fn cases() -> Vec<Case> {
    let person = Unit::person;
    vec![
        // The whole window, by steps: nothing else changes.
        Case::new(person(1), 0, 1, 3, COUNTS),
        Case::new(person(2).per_step(1), 0, 1, 2, COUNTS),
        // A window as long as a period, which begins anywhere.
        Case::new(person(1), 0, 2, 2, COUNTS),
        Case::new(person(2), 1, 3, 3, COUNTS),
        Case::new(person(2).per_step(1), 1, 3, 3, COUNTS),
        Case::new(person(3).per_step(2), 0, 3, 2, COUNTS),
        // Longer and shorter windows.
        Case::new(person(1), 1, 2, 4, COUNTS),
        Case::new(person(2).per_step(1), 2, 4, 1, COUNTS),
        // Bounds under which events may be refused because of the absence of others.
        Case::new(person(2).per_group(1), 0, 3, 3, COUNTS),
        Case::new(person(3).in_groups(1), 1, 3, 2, COUNTS),
        Case::new(person(3).per_group(2).in_groups(1), 0, 4, 2, COUNTS),
        Case::new(person(2).per_step(1).apart(2), 1, 4, 3, COUNTS),
        Case::new(person(3).with_max_total(4), 0, 3, 2, VALUES),
        Case::new(person(2).per_step(1), 1, 3, 3, VALUES),
        Case::new(person(2), 0, 3, 2, SIGNED),
        Case::new(person(2).per_step(1).with_max_total(3), 1, 3, 3, SIGNED),
    ]
}

fn mechanisms() -> Vec<Arc<dyn Mechanism>> {
    let mut mechanisms: Vec<Arc<dyn Mechanism>> = all(STEPS as u64);
    for inside in [Inside::Plain, Inside::Normalized, Inside::Trees, Inside::Hats] {
        mechanisms.push(Arc::new(Endless::new(STEPS as u64, inside).unwrap()));
    }
    for workload in [Workload::Window(2), Workload::Window(3), Workload::Decay(2)] {
        for most in [1, 3] {
            let runs = Participation::new(most, 1).unwrap();
            mechanisms.push(Arc::new(Banded::new(STEPS as u64, workload, runs).unwrap()));
        }
    }
    mechanisms
}

/// No difference between neighbouring data sets moves the node sums of any mechanism by more than the bounds, in either
/// norm, over both groups.
#[test]
fn no_window_moves_more_than_the_bounds() {
    let mechanisms = mechanisms();
    let twins: Vec<Matrix> = mechanisms.iter().map(|mechanism| mechanism.dense().r).collect();
    let mut largest = 0.0f64;
    for case in cases() {
        for neighbours in [Neighbours::AddRemove, Neighbours::ReplaceOne] {
            let differences = case.differences(neighbours);
            let bound = Sensitivity::new(case.protected(), neighbours, case.values(), STEPS as u64).unwrap();
            for (mechanism, r) in mechanisms.iter().zip(&twins) {
                let unit = libm::exp2(f64::from(2 * mechanism.noise_bits()));
                let squared_bound = bound.squared(&**mechanism) / unit;
                let l1_bound = bound.l1 as f64 * mechanism.column_norms().l1;
                let (mut l1, mut squared) = (0.0f64, 0.0f64);
                for difference in &differences {
                    let (mut sum_l1, mut sum_squared) = (0.0, 0.0);
                    for steps in difference {
                        for node in 0..r.shape().0 {
                            let moved: f64 = r.row(node).iter().zip(steps).map(|(r, x)| r * *x as f64).sum();
                            (sum_l1, sum_squared) = (sum_l1 + moved.abs(), sum_squared + moved * moved);
                        }
                    }
                    (l1, squared) = (l1.max(sum_l1), squared.max(sum_squared));
                }
                let name = mechanism.name();
                let place = format!(
                    "{name}, {:?}, period {}, window {}, {neighbours:?}: {l1} of {l1_bound}, {squared} of \
                     {squared_bound}",
                    case.unit, case.period, case.window
                );
                assert!(l1 <= l1_bound * (1.0 + 1e-9) && squared <= squared_bound * (1.0 + 1e-4), "{place}");
                largest = largest.max(squared / squared_bound);
            }
        }
    }
    assert!(largest > 0.999, "{largest}");
}

/// Mechanisms of every family.
fn of_all_families(horizon: u64) -> Vec<Arc<dyn Mechanism>> {
    let more = [
        "consistent",
        "hats",
        "dense-pure",
        "sqrt",
        "normalized-sqrt",
        "blt",
        "blt(buffers=2)",
        "normalized-blt",
        "normalized-blt(run=3,gap=2)",
        "banded-sqrt(bands=3)",
        "banded-inverse(bands=3)",
        "dense",
        "dense(run=2,gap=2)",
        "optimal",
    ];
    let criterion = Criterion::new(NoiseKind::Gaussian, Objective::Max);
    // Bands and runs need some steps.
    let named = more.into_iter().filter(|name| horizon >= 3 || !name.contains('='));
    let named = named.map(|name| match name {
        "consistent" | "hats" | "dense-pure" => (name, Criterion::new(NoiseKind::Laplace, Objective::Max)),
        _ => (name, criterion),
    });
    let built = named.map(|(name, criterion)| {
        name.parse::<MechanismName>().unwrap().build(horizon, &criterion).unwrap_or_else(|why| panic!("{name}: {why}"))
    });
    all_cursors(horizon).into_iter().chain(built).collect()
}

/// Bounds for changes of both signs, and for shifts that are rounded node by node, rely on these.
#[test]
fn signs_and_numbers_of_nodes_are_as_declared() {
    for horizon in [1, 2, 3, 6, 13, 40] {
        for mechanism in of_all_families(horizon).into_iter().chain(mechanisms().into_iter().filter(|_| horizon == 6)) {
            let (r, name) = (mechanism.dense().r, mechanism.name());
            let is_rounded = mechanism.fraction_bits() > 0 && name.usual_law() == NoiseKind::Gaussian;
            assert!(!is_rounded || r.shape().0 <= 4 * r.shape().1, "{name} at {horizon}: {} nodes", r.shape().0);
            let least = (0..r.shape().0).flat_map(|n| r.row(n)).fold(0.0f64, |least, entry| least.min(*entry));
            if least > -1e-12 || mechanism.has_negative_entries() {
                continue;
            }
            // Accounted for by the covariance of the releases alone, for which inner products of columns count.
            assert_eq!(mechanism.spread_squared(crate::privacy::Spread::ONE), u128::MAX, "{name} at {horizon}");
            let columns = r.transpose();
            for (s, t) in (0..horizon as usize).flat_map(|s| (0..s).map(move |t| (s, t))) {
                let product: f64 = columns.row(s).iter().zip(columns.row(t)).map(|(s, t)| s * t).sum();
                assert!(product > -1e-12, "{name} at {horizon}: {s}, {t}: {product}");
            }
        }
    }
}
