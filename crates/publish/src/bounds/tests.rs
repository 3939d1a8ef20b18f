//! Estimates against counts by hand, and the look against its privacy promise.

use super::*;
use evertally::noise::{GuardedKey, SecretKey, TestSeed};
use evertally::plan::Objective;
use evertally::plan::Plan;
use evertally::privacy::{Epsilon, Rho};
use evertally::stream::GroupedSums;
use evertally_declare::declaration::{Declaration, Settings};
use evertally_declare::error::Place;
use evertally_declare::event::{Cells, ColumnLayout, Event, Field, Position};
use evertally_declare::steps::{Horizon, StepCalendar};
use evertally_ledger::ledger::Ledger;
use proptest::prelude::*;
use std::collections::BTreeMap;

const STEPS: u64 = 6;
const PERSONS: usize = 5;

/// An event: its step and its person.
type Row = (u64, usize);

fn settings() -> Settings {
    let declared = Declaration {
        start: Some("1970-01-01".into()),
        steps: Some(STEPS),
        every: Some("1h".parse().unwrap()),
        rho: Some(0.5),
        person: Some("who".into()),
        max_events: Some(1),
        ..Declaration::default()
    };
    declared.resolve().unwrap()
}

fn look(budget: Budget, per_step: &[u64], seed: u64, rows: &[Row]) -> (PersonEventCounts, SecretKey) {
    let (settings, key) = (settings(), SecretKey::insecure_from_test_seed(TestSeed(seed)));
    let candidates = Candidates::new(8, 8, per_step).unwrap();
    let plan = candidates.request(budget, false).plan().unwrap();
    let calendar = &settings.calendar;
    let end = Horizon::Steps(STEPS);
    let stretch = StepCalendar::new(calendar.start(), end, calendar.every(), calendar.zone().clone()).unwrap();
    let mut look =
        PersonEventCounts::new(&settings, stretch, candidates, ("look".parse().unwrap(), plan), &key).unwrap();
    struct Pair([Field<'static>; 2]);
    impl Cells for Pair {
        fn cell(&self, slot: usize) -> Field<'_> {
            self.0[slot]
        }
    }
    let layout = ColumnLayout::new(look.columns());
    for (number, (step, person)) in rows.iter().enumerate() {
        let micros = (*step as i64 - 1) * 3_600_000_000 + 1;
        let cells = Pair([Field::Instant(micros), Field::Integer(*person as i64)]);
        let position = Position { file: "rows", place: Place::Row(number as u64) };
        look.push(&Event::new(position, &cells, &layout)).unwrap();
    }
    (look, key)
}

fn weak() -> Budget {
    Budget::Pure(Epsilon::new_even_if_weak(1e6).unwrap())
}

/// For each person, the number of events that a bound per step drops; without a bound, the number of all events.
fn numbers_of_each(rows: &[Row], bound: Option<u64>) -> Vec<u64> {
    let mut pairs = BTreeMap::new();
    rows.iter().for_each(|row| *pairs.entry((row.1, row.0)).or_insert(0u64) += 1);
    let mut numbers = BTreeMap::new();
    for ((person, _), count) in pairs {
        *numbers.entry(person).or_insert(0) += bound.map_or(count, |bound| count.saturating_sub(bound));
    }
    numbers.into_values().collect()
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    // Steps after the last are outside of the stretch.
    proptest::collection::vec((1..=STEPS + 1, 0..PERSONS), 0..40).prop_map(|mut rows| {
        rows.sort_unstable();
        rows
    })
}

#[test]
fn edges_rise_by_at_most_a_half() {
    assert_eq!(edges(1), [1]);
    assert_eq!(edges(5), [1, 2, 3, 4, 6]);
    assert_eq!(edges(17), [1, 2, 3, 4, 6, 8, 12, 16, 24]);
    assert_eq!(*edges(1 << 62).last().unwrap(), 1 << 62);
    let tried = Candidates::new(4, 4, &[3, 1, 3]).unwrap();
    assert_eq!(tried.per_step(), [Some(1), Some(3), None]);
    assert_eq!([1, 2, 3, 4, 5, 900].map(|events| tried.cell(events)), [0, 1, 2, 3, 4, 4]);
    let far = Candidates::new(4, 20, &[]).unwrap();
    assert_eq!((far.edges(), far.most(), far.largest()), (&[1, 2, 3, 4, 6, 8, 12, 16, 24][..], 4, 20));
    assert_eq!([0, 4, 8, 9].map(|cell| far.range(cell)), [(1, 1), (5, 6), (17, 20), (25, 25)]);
    for (most, largest, per_step) in [(0, 9, &[][..]), (9, 9, &[0]), (9, 8, &[])] {
        assert!(Candidates::new(most, largest, per_step).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Each person counts once in each histogram, in the cell of the number of their events that the bound per step
    /// drops, if it drops any.
    #[test]
    fn histograms_count_persons(rows in rows()) {
        let inside: Vec<Row> = rows.iter().copied().filter(|row| row.0 <= STEPS).collect();
        let (look, _) = look(weak(), &[1, 2], 1, &rows);
        let counts = look.histograms();
        let cells = look.candidates().cells();
        for (place, bound) in look.candidates().per_step().to_vec().into_iter().enumerate() {
            let mut wanted = vec![0; cells];
            let counted = numbers_of_each(&inside, bound).into_iter().filter(|number| *number > 0);
            counted.for_each(|number| wanted[look.candidates().cell(number)] += 1);
            prop_assert_eq!(&counts[place * cells..][..cells], &wanted);
        }
    }

    /// The promise: if one person comes or goes, one count of each histogram changes by 1; if they do something else,
    /// two counts do.
    #[test]
    fn a_person_moves_no_more_than_is_planned(rows in rows(), others in rows(), person in 0..PERSONS) {
        let of = |rows: &[Row]| look(weak(), &[1, 2, 4], 1, rows).0.histograms();
        let with = of(&rows);
        let without: Vec<Row> = rows.iter().copied().filter(|row| row.1 != person).collect();
        let replaced = others.iter().copied().filter(|row| row.1 == person);
        let mut changed: Vec<Row> = replaced.chain(without.clone()).collect();
        changed.sort_unstable();
        let moves = |other: &[i64]| -> Vec<i64> {
            let apart: Vec<i64> = with.iter().zip(other).map(|(a, b)| (a - b).abs()).collect();
            assert!(apart.iter().all(|change| *change <= 1));
            apart.chunks(with.len() / 4).map(|histogram| histogram.iter().sum()).collect()
        };
        prop_assert!(moves(&of(&without)).iter().all(|moved| *moved <= 1));
        prop_assert!(moves(&of(&changed)).iter().all(|moved| *moved <= 2));
    }

    /// Without noise, and with one number of events per cell, the estimate is exact.
    #[test]
    fn without_noise_the_estimate_is_exact(rows in rows(), bound in 1..9u64) {
        let rows: Vec<Row> = rows.into_iter().filter(|row| row.0 <= STEPS).collect();
        let few = (0..PERSONS).all(|person| rows.iter().filter(|row| row.1 == person).count() <= 4);
        prop_assume!(few);
        let (look, key) = look(weak(), &[1, 2], 1, &rows);
        let bounds = look.candidates().per_step().to_vec();
        let estimate = look.release(&key, &Ledger::in_memory(&key)).unwrap().estimate;
        prop_assert_eq!(estimate.events().value, rows.len() as f64);
        prop_assert_eq!(estimate.persons().value, numbers_of_each(&rows, None).len() as f64);
        let all = numbers_of_each(&rows, None);
        for (place, per_step) in bounds.into_iter().enumerate() {
            let lost = numbers_of_each(&rows, Some(per_step.unwrap_or(u64::MAX)));
            // For the observed length, and for twice that length if everyone continues at the same rate.
            for looks in [1, 2] {
                let of = |(all, lost): (&u64, &u64)| (looks * all).saturating_sub(bound) + looks * lost;
                let most: u64 = all.iter().zip(&lost).map(of).sum();
                prop_assert_eq!(estimate.left_out(place, bound as f64, looks as f64).value, most as f64);
            }
            // The true number of dropped events is at most the estimate, and at least half of it.
            let truth: u64 = all.iter().zip(&lost).map(|(all, lost)| all.saturating_sub(bound).max(*lost)).sum();
            let most = estimate.left_out(place, bound as f64, 1.0).value;
            prop_assert!(truth as f64 <= most && most <= 2.0 * truth as f64);
        }
    }

    /// The search finds the same best pair as trying every pair.
    #[test]
    fn the_best_bound_is_the_best_of_all(rows in rows(), cost in 0.01..3.0f64, power in 0.0..1.0f64, mean: bool) {
        let rows: Vec<Row> = rows.into_iter().filter(|row| row.0 <= STEPS).collect();
        let (look, key) = look(weak(), &[1, 2], 1, &rows);
        let estimate = look.release(&key, &Ledger::in_memory(&key)).unwrap().estimate;
        let objective = if mean { Objective::Mean } else { Objective::Max };
        let stretch = Stretch { looks: 2.0, count: 3.0, groups: 2.0, objective };
        let noise = |m: u64, c: Option<u64>| cost * m as f64 * (c.unwrap_or(m).min(m) as f64 / m as f64).powf(power);
        let found = Choices::new(&estimate, stretch, &mut |m, c| Ok(noise(m, c))).unwrap();
        let mut least = f64::INFINITY;
        for bound in edges(18) {
            for step in 0..3 {
                let lacks = |looks: f64| estimate.left_out(step, bound as f64, looks).value;
                let per_step = estimate.candidates().per_step()[step];
                let missing = match objective {
                    Objective::Max => 3.0 * lacks(2.0),
                    Objective::Mean => {
                        let at = |time: u32| {
                            let stretches = 3.0 * f64::from(time) / 16.0;
                            stretches.floor() * lacks(2.0) + lacks(2.0 * stretches.fract())
                        };
                        ((1..=16).map(|time| at(time).powi(2)).sum::<f64>() / 16.0).sqrt()
                    }
                };
                least = least.min((missing / 2.0).hypot(noise(bound, per_step)));
            }
        }
        prop_assert!(found.best.total() <= least * (1.0 + 1e-12), "{} > {least}", found.best.total());
        prop_assert!(found.in_all.contains(&found.best) && found.per_step.contains(&found.best));
    }
}

/// The noise of a look is that of one person in each of the histograms.
#[test]
fn noise_is_that_of_one_person_in_each_histogram() {
    let variance = |per_step: &[u64], budget, may_move| {
        let plan = Candidates::new(100, 100, per_step).unwrap().request(budget, may_move).plan().unwrap();
        plan.std_error(1).powi(2)
    };
    let rho = Budget::Zcdp(Rho::new(0.01).unwrap());
    for (per_step, histograms) in [(&[][..], 1.0), (&[1, 2, 4], 4.0)] {
        assert!((variance(per_step, rho, false) / (histograms / 0.02) - 1.0).abs() < 1e-3);
        assert!((variance(per_step, rho, true) / (2.0 * histograms / 0.02) - 1.0).abs() < 1e-3);
        let pure = Budget::Pure(Epsilon::new(0.05).unwrap());
        let scale = histograms / 0.05;
        assert!((variance(per_step, pure, false) / (2.0 * scale * scale) - 1.0).abs() < 1e-3);
    }
}

/// Over 400 keys, the count of a cell is right on average and its error is as large as stated, within bounds that hold
/// with probability 1 - 10⁻⁶ each (the fourth moment of the Laplace law: the variance of a square is five times the
/// square of the variance). Empty cells after the last occupied one are taken for occupied no more often than declared.
#[test]
fn errors_of_estimates_are_as_they_say() {
    let rows: Vec<Row> = (1..=STEPS).flat_map(|step| (0..100).map(move |person| (step, person))).collect();
    let budget = Budget::Pure(Epsilon::new(1.0).unwrap());
    let runs = 400;
    let (mut sum, mut squares, mut alarms) = (0.0, 0.0, 0);
    for seed in 0..runs {
        let (look, key) = look(budget, &[], seed, &rows);
        let estimate = look.release(&key, &Ledger::in_memory(&key)).unwrap().estimate;
        // Six events fall into the fifth cell.
        let off = (estimate.counts()[0][4] - 100.0) / estimate.count_std_error();
        sum += off;
        squares += off * off;
        alarms += u64::from(estimate.counts()[0][5..].iter().any(|count| *count != 0.0));
    }
    let runs = runs as f64;
    assert!((sum / runs).abs() < 4.9 / runs.sqrt(), "{}", sum / runs);
    assert!((squares / runs - 1.0).abs() < 4.9 * (5.0 / runs).sqrt(), "{}", squares / runs);
    assert!((alarms as f64) < 0.05 * runs + 4.9 * (0.05 * 0.95 * runs).sqrt(), "{alarms}");
}

/// A person's number of events, and how many of them a bound per step drops.
type Contribution = (u64, u64);

/// Contributions of many people by a law of their numbers of events; a person has up to three events in each step.
fn contributions(persons: u64, random: &mut TestRandom, law: impl Fn(f64, f64) -> f64) -> Vec<Contribution> {
    let mut person = || {
        let events = law(random.unit(), random.unit()).clamp(1.0, 60_000.0) as u64;
        let per_step = 1 + (3.0 * random.unit()) as u64;
        (events, events - events.div_ceil(per_step))
    };
    (0..persons).map(|_| person()).collect()
}

/// Numbers from a fixed seed, for the data of tests.
struct TestRandom(u64);

impl TestRandom {
    /// Uniform in (0, 1).
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 12) as f64 + 0.5) / (1u64 << 52) as f64
    }
}

/// An estimate from the histograms of these contributions, with its noise.
fn estimated(candidates: &Candidates, plan: &Plan, seed: u64, persons: &[Contribution]) -> ContributionEstimate {
    let (cells, key) = (candidates.cells(), SecretKey::insecure_from_test_seed(TestSeed(seed)));
    let groups = candidates.groups().unwrap();
    let key = GuardedKey::published_nothing(key);
    let mut sums = GroupedSums::new(plan.clone(), &key, "estimate".parse().unwrap(), groups).unwrap();
    for (events, lost) in persons {
        if *lost > 0 {
            sums.add(candidates.cell(*lost), 1).unwrap();
        }
        sums.add(cells + candidates.cell(*events), 1).unwrap();
    }
    let noisy: Vec<f64> = sums.tick().unwrap().iter().map(|release| release.value()).collect();
    ContributionEstimate::new(candidates.clone(), &noisy, plan).unwrap()
}

/// The share of events that both bounds keep.
fn kept_share(persons: &[Contribution], in_all: u64, per_step: bool) -> f64 {
    let dropped = |person: &Contribution| person.0.saturating_sub(in_all).max(if per_step { person.1 } else { 0 });
    let (dropped, all): (u64, u64) = (persons.iter().map(dropped).sum(), persons.iter().map(|person| person.0).sum());
    1.0 - dropped as f64 / all as f64
}

/// Where most events belong to a few people, the interval contains the true share in at least 95 % of draws (a coverage
/// of 95 % passes with probability 1 - 10⁻⁶), for both kinds of noise, with and without a bound per step.
#[test]
fn intervals_of_shares_contain_them_on_heavy_tails() {
    let normal = |a: f64, b: f64| (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos();
    let log_normal = move |a: f64, b: f64| (1.0 + 1.8 * normal(a, b)).exp();
    let pareto = |a: f64, _: f64| a.powf(-1.0 / 1.1);
    let laws: [&dyn Fn(f64, f64) -> f64; 2] = [&log_normal, &pareto];
    for budget in [Budget::Zcdp(Rho::new(0.05).unwrap()), Budget::Pure(Epsilon::new(0.5).unwrap())] {
        let candidates = Candidates::new(64, 1 << 16, &[2]).unwrap();
        let plan = candidates.request(budget, true).plan().unwrap();
        for law in laws {
            let runs = 150;
            let mut missed = [0u32; 4];
            for seed in 0..runs {
                let persons = contributions(800, &mut TestRandom(seed), law);
                let estimate = estimated(&candidates, &plan, seed, &persons);
                for (case, missed) in missed.iter_mut().enumerate() {
                    let (in_all, per_step) = ([6, 64][case % 2], case < 2);
                    let interval = estimate.share_interval(usize::from(!per_step), in_all as f64, 1.0);
                    let truth = kept_share(&persons, in_all, per_step);
                    *missed += u32::from(truth < interval.lower || truth > interval.upper);
                }
            }
            let runs = runs as f64;
            let most = 0.05 * runs + 4.9 * (0.05 * 0.95 * runs).sqrt();
            assert!(missed.iter().all(|missed| f64::from(*missed) <= most), "{budget}: {missed:?} of {runs}");
        }
    }
}

/// Intervals are narrow where the data suffice, and open where people have more events than declared.
#[test]
fn intervals_of_shares_are_as_wide_as_the_noise() {
    let budget = Budget::Zcdp(Rho::new(0.1).unwrap());
    let candidates = Candidates::new(64, 256, &[2]).unwrap();
    let plan = candidates.request(budget, false).plan().unwrap();
    let persons: Vec<Contribution> = (0..20_000u64).map(|person| (1 + person % 12, 0)).collect();
    let estimate = estimated(&candidates, &plan, 1, &persons);
    let interval = estimate.share_interval(1, 6.0, 1.0);
    let truth = kept_share(&persons, 6, false);
    assert!(interval.lower <= truth && truth <= interval.upper, "{interval:?}: {truth}");
    assert!(interval.upper - interval.lower < 0.2, "{interval:?}: {truth}");
    let (persons_interval, events) = (estimate.persons_interval(), estimate.events_interval());
    assert!(persons_interval.lower <= 20_000.0 && 20_000.0 <= persons_interval.upper, "{persons_interval:?}");
    assert!(events.lower <= 129_990.0 && 129_990.0 <= events.upper, "{events:?}");
    let beyond: Vec<Contribution> = persons.iter().copied().chain([(300, 0); 200]).collect();
    let estimate = estimated(&candidates, &plan, 1, &beyond);
    assert!(estimate.is_largest_exceeded());
    assert_eq!(estimate.share_interval(1, 6.0, 1.0).lower, 0.0);
    assert_eq!(estimate.events_interval().upper, f64::INFINITY);
}

/// The same look gives the same answer. Other data or another plan under its name are refused.
#[test]
fn a_look_is_recorded() {
    let rows = [(1, 0), (1, 1), (2, 0)];
    let budget = Budget::Pure(Epsilon::new(1.0).unwrap());
    let key = look(budget, &[1], 7, &rows).1;
    let mut ledger = Ledger::in_memory(&key);
    let mut first = look(budget, &[1], 7, &rows).0.release(&key, &ledger).unwrap();
    first.record(&mut ledger).unwrap();
    assert_eq!(ledger.spent().unwrap(), [("look".to_owned(), budget, 1)]);
    let again = look(budget, &[1], 7, &rows).0.release(&key, &ledger).unwrap();
    assert_eq!(again.estimate.counts(), first.estimate.counts());
    let other = look(budget, &[1], 7, &rows[1..]).0.release(&key, &ledger).err().unwrap().to_string();
    assert!(other.contains("differ"), "{other}");
    let plan = look(budget, &[2], 7, &rows).0.release(&key, &ledger).err().unwrap().to_string();
    assert!(plan.contains("another plan"), "{plan}");
}
