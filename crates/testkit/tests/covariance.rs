//! Releases compared with `node_variance · L Lᵀ`, and streams compared with one another. Levels: [`LEVEL`] = 10⁻⁹ for
//! each family of comparisons in a [`Verdict`] (Bonferroni inside a family), five families for each of 108 plans.

use evertally::mechanism::Workload;
use evertally::noise::{GuardedKey, KeyedNoise, Purpose, TestSeed};
use evertally::plan::{NoiseKind, Plan, PlanRequest};
use evertally::privacy::{Budget, Epsilon, Rho};
use evertally::stream::{GroupedSums, Groups, RunningSum};
use evertally_testkit::LEVEL;
use evertally_testkit::covariance::{StatedMoments, dense, releases};
use nalgebra::{DMatrix, RowDVector};

fn plan(mechanism: &str, horizon: u64, kind: NoiseKind, budget: f64) -> Plan {
    request(mechanism, horizon, kind, budget).plan().expect("a valid plan")
}

fn request(mechanism: &str, horizon: u64, kind: NoiseKind, budget: f64) -> PlanRequest {
    let budget = match kind {
        NoiseKind::Laplace => Budget::Pure(Epsilon::new(budget).expect("a valid epsilon")),
        NoiseKind::Gaussian => Budget::Zcdp(Rho::new(budget).expect("a valid rho")),
    };
    let mechanism = Some(mechanism.parse().expect("a known mechanism"));
    PlanRequest::count(horizon, budget).with_optional_mechanism(mechanism).with_noise(kind)
}

const KINDS: [NoiseKind; 2] = [NoiseKind::Laplace, NoiseKind::Gaussian];

/// Horizon, budget (ε or ρ) and paths: noise of about one event to noise of hundreds. The paths over 24 and 40 steps
/// suffice to detect 2 % of the variance of every mechanism.
const CASES: [(u64, f64, usize); 4] = [(1, 1.0, 40_000), (7, 1.0, 50_000), (24, 0.1, 45_000), (40, 3.0, 30_000)];

/// The laws a mechanism can be planned with. (The best path sums for Laplace noise are those of unit weights.)
fn kinds(mechanism: &str) -> &'static [NoiseKind] {
    let gaussian_only = ["sqrt", "blt", "dense", "optimal"].iter().any(|end| mechanism.ends_with(end));
    if gaussian_only || mechanism == "path-sum" { &[NoiseKind::Gaussian] } else { &KINDS }
}

fn has_its_covariance(mechanism: &str) {
    for (seed, (horizon, budget, paths)) in (1..).zip(CASES) {
        for &kind in kinds(mechanism) {
            let plan = plan(mechanism, horizon, kind, budget);
            let verdict = StatedMoments::from_plan(&plan).judge(&releases(&plan, seed, paths));
            assert!(verdict.passes(LEVEL), "{mechanism} over {horizon} steps, {kind}: {verdict:?}");
        }
    }
}

macro_rules! covariances {
    ($($test:ident: $mechanism:literal,)*) => {
        mod covariance_of {
            $(#[test] fn $test() { super::has_its_covariance($mechanism); })*
        }
        const MECHANISMS: &[&str] = &[$($mechanism),*];
    };
}

covariances! {
    input: "input",
    output: "output",
    binary: "binary",
    honaker_online: "honaker-online",
    kary_3: "kary(k=3)",
    subtract_4: "subtract(k=4)",
    subtract_5: "subtract(k=5)",
    smooth_best: "smooth",
    smooth_uneven: "smooth(h=9,zeros=6)",
    consistent_best: "consistent",
    consistent_uniform: "consistent(k=3,levels=uniform,root=false)",
    path_sum_best: "path-sum",
    path_sum_unit: "path-sum(levels=unit,root=false)",
    overlapping_hats: "hats",
    nested_hats: "nested-hats",
    searched_for_laplace: "dense-pure",
    buffers: "blt",
    normalized_buffers: "normalized-blt",
    optimum: "dense",
    near_optimum: "optimal",
    square_root: "sqrt",
    normalized_square_root: "normalized-sqrt",
}

/// Windows by every available method: noise on each step, bands, endless hats, differences of running sums.
#[test]
fn windows_have_their_covariance() {
    let ways = [
        ("input", NoiseKind::Laplace),
        ("rolling-hats(spacing=3/6,share=250/300)", NoiseKind::Laplace),
        ("consistent(k=3,levels=uniform)", NoiseKind::Laplace),
        ("banded", NoiseKind::Gaussian),
    ];
    for (seed, (mechanism, kind)) in (31..).zip(ways) {
        let request = request(mechanism, 40, kind, 0.5).with_workload(Workload::Window(10));
        let plan = request.plan().expect("a valid plan");
        let verdict = StatedMoments::from_plan(&plan).judge(&releases(&plan, seed, 30_000));
        assert!(verdict.passes(LEVEL), "{mechanism}: {verdict:?}");
    }
}

/// The draws of all nodes of the dense twin, one row per path and one column per node, under the names that
/// [`releases`] uses.
fn node_values(plan: &Plan, seed: u64, paths: usize, purpose: Purpose<'_>) -> DMatrix<f64> {
    let key = GuardedKey::insecure_from_test_seed(TestSeed(seed));
    let nodes = plan.mechanism().dense().nodes;
    let mut values = DMatrix::zeros(paths, nodes.len());
    for path in 0..paths {
        let name = format!("path {path}").parse().expect("a valid name");
        let noise = KeyedNoise::unrecorded(&key, &name, &plan.digest(), purpose);
        for (column, &node) in nodes.iter().enumerate() {
            values[(path, column)] = plan.law().sample(&mut noise.bits(node)) as f64 / plan.noise_divisor() as f64;
        }
    }
    values
}

/// Column `node` times column `weights`: the contribution of one node to every release.
fn contribution(values: &DMatrix<f64>, node: usize, weights: &[f64]) -> DMatrix<f64> {
    values.column(node) * RowDVector::from_row_slice(weights)
}

/// A test of these tests: 2 % more variance, half the noise, and a node omitted, doubled, or drawn again between two
/// steps are all rejected; the same computation without tampering gives the releases themselves.
#[test]
fn wrong_releases_are_rejected() {
    const PATHS: usize = 16_000;
    const T: u64 = 24;
    for mechanism in ["binary", "honaker-online", "kary(k=3)", "subtract(k=5)", "smooth(h=7,zeros=3)"] {
        for kind in KINDS {
            let plan = plan(mechanism, T, kind, 1.0);
            let promise = StatedMoments::from_plan(&plan);
            let drawn = releases(&plan, 11, 7 * PATHS / 2);
            let scaled = promise.judge(&(&drawn * 1.02f64.sqrt()));
            assert!(scaled.scale < LEVEL, "{mechanism}, {kind}, 2 % more: {scaled:?}");
            // Half the noise, as from half the sensitivity.
            let generous = if kind == NoiseKind::Laplace { 2.0 } else { 4.0 };
            let halved = promise.judge(&releases(&self::plan(mechanism, T, kind, generous), 11, PATHS / 10));
            assert!(halved.scale < LEVEL && halved.whole < LEVEL, "{mechanism}, {kind}, half the noise: {halved:?}");

            let l = dense(&plan.mechanism().dense().l);
            let values = node_values(&plan, 11, PATHS, Purpose::Total);
            let fair = &values * l.transpose();
            let rounding = (&fair - drawn.rows(0, PATHS)).amax();
            let unit =
                if plan.mechanism().fraction_bits() == 0 { 0.5 / f64::from(plan.fraction_bits()).exp2() } else { 0.0 };
            assert!(rounding < unit + 1e-4, "{mechanism}: {rounding}");

            // Among the nodes that appear in some release: the one with the fewest readers, and one with several.
            let readers = |node: usize| -> Vec<usize> { (0..T as usize).filter(|&t| l[(t, node)] != 0.0).collect() };
            let shown: Vec<usize> = (0..l.ncols()).filter(|&node| l.column(node).amax() > 0.5).collect();
            let rare = *shown.iter().min_by_key(|&&node| readers(node).len()).expect("nodes");
            let shared = *shown.iter().find(|&&node| readers(node).len() >= 2).expect("some node is reused");
            let part = contribution(&values, rare, l.column(rare).as_slice());
            let mut late = l.column(shared).into_owned();
            late[readers(shared)[0]] = 0.0;
            let anew = node_values(&plan, 11, PATHS, Purpose::Group(b"anew")) - &values;
            for (what, releases) in [
                ("left out", &fair - &part),
                ("doubled", &fair + &part),
                ("drawn anew", &fair + contribution(&anew, shared, late.as_slice())),
            ] {
                let verdict = promise.judge(&releases);
                assert!(verdict.nodes.min(verdict.entries) < LEVEL, "{mechanism}, {kind}, {what}: {verdict:?}");
                assert!(verdict.whole < LEVEL, "{mechanism}, {kind}, {what}: {verdict:?}");
            }
        }
    }
}

/// With more paths, 2 % more or less are also detected at the shorter horizons; over a single step every group is a
/// path.
#[test]
fn two_percent_are_seen_at_every_horizon() {
    let key = GuardedKey::insecure_from_test_seed(TestSeed(12));
    for kind in KINDS {
        let plan = plan("subtract(k=4)", 1, kind, 1.0);
        let groups = Groups::new((0..1_200_000u32).map(|group| group.to_le_bytes())).expect("distinct groups");
        let mut streams = GroupedSums::new(plan.clone(), &key, "groups".parse().expect("a valid name"), groups)
            .expect("every plan has streams");
        let values = streams.tick().expect("within the horizon").iter().map(|release| release.value());
        let values = DMatrix::from_iterator(1_200_000, 1, values);
        let promise = StatedMoments::from_plan(&plan);
        assert!(promise.judge(&values).passes(LEVEL), "{kind}: {:?}", promise.judge(&values));
        for factor in [0.98f64, 1.02] {
            assert!(promise.judge(&(&values * factor.sqrt())).scale < LEVEL, "one step, {kind}, {factor}");
        }
    }
    for (horizon, paths) in [(2, 500_000), (7, 140_000), (40, 30_000)] {
        for kind in KINDS {
            let plan = plan("subtract(k=4)", horizon, kind, 1.0);
            let promise = StatedMoments::from_plan(&plan);
            let drawn = releases(&plan, 12, paths);
            assert!(promise.judge(&drawn).passes(LEVEL), "{horizon} steps, {kind}: {:?}", promise.judge(&drawn));
            for factor in [0.98f64, 1.02] {
                let verdict = promise.judge(&(&drawn * factor.sqrt()));
                assert!(verdict.scale < LEVEL, "{horizon} steps, {kind}, {factor}: {verdict:?}");
            }
        }
    }
}

const PAIRS: usize = 20_000;

fn assert_independent(what: &str, plans: [&Plan; 2], ours: &DMatrix<f64>, theirs: &DMatrix<f64>) {
    let [one, other] = plans.map(StatedMoments::from_plan);
    let (products, squares) = one.independent(ours, &other, theirs);
    assert!(products > LEVEL && squares > LEVEL, "{what}: {products:e}, {squares:e}");
}

/// Every group's releases have the stated covariance, and groups are independent of one another and of the total of a
/// stream with the same name, key and plan.
#[test]
fn groups_are_independent_of_each_other_and_of_the_total() {
    let names = ["", "a", "b", "Total"];
    for (mechanism, kind) in [("subtract(k=4)", NoiseKind::Laplace), ("smooth", NoiseKind::Gaussian)] {
        let plan = plan(mechanism, 10, kind, 0.5);
        let key = GuardedKey::insecure_from_test_seed(TestSeed(21));
        let mut groups = vec![DMatrix::zeros(PAIRS, 10); names.len()];
        for path in 0..PAIRS {
            let name = format!("path {path}").parse().expect("a valid name");
            let declared = Groups::new(names).expect("distinct groups");
            let mut streams = GroupedSums::new(plan.clone(), &key, name, declared).expect("every plan has streams");
            for step in 0..10 {
                for (group, release) in groups.iter_mut().zip(streams.tick().expect("within the horizon")) {
                    group[(path, step)] = release.value();
                }
            }
        }
        let promise = StatedMoments::from_plan(&plan);
        for (group, name) in groups.iter().zip(names) {
            let verdict = promise.judge(group);
            assert!(verdict.passes(LEVEL), "group {name:?}: {verdict:?}");
        }
        groups.push(releases(&plan, 21, PAIRS));
        for (i, one) in groups.iter().enumerate() {
            for (j, other) in groups.iter().enumerate().skip(i + 1) {
                assert_independent(&format!("{mechanism}, groups {i} and {j}"), [&plan, &plan], one, other);
            }
        }
    }
}

#[test]
fn other_streams_plans_and_keys_are_independent() {
    for (mechanism, kind) in [("binary", NoiseKind::Laplace), ("honaker-online", NoiseKind::Gaussian)] {
        let plan = plan(mechanism, 12, kind, 0.5);
        let ours = releases(&plan, 31, PAIRS + 1);
        let (first, next) = (ours.rows(0, PAIRS).into_owned(), ours.rows(1, PAIRS).into_owned());
        assert_independent("next stream name", [&plan, &plan], &first, &next);
        assert_independent("other key", [&plan, &plan], &first, &releases(&plan, 32, PAIRS));

        let mut told_apart = request(mechanism, 12, kind, 0.5);
        told_apart = told_apart.with_meaning("what", "something else");
        let others = [
            ("other meaning", told_apart),
            ("other budget", request(mechanism, 12, kind, 0.25)),
            ("other horizon", request(mechanism, 11, kind, 0.5)),
            ("other mechanism", request("kary(k=4)", 12, kind, 0.5)),
        ];
        for (what, other) in others {
            let other = other.plan().expect("a valid plan");
            assert_independent(what, [&plan, &other], &first, &releases(&other, 31, PAIRS));
        }

        // Tests of these tests: equal noise, noise equal except for the sign, and one shared node are detected.
        let promise = StatedMoments::from_plan(&plan);
        let (products, squares) = promise.independent(&first, &promise, &first);
        assert!(products < LEVEL && squares < LEVEL);
        let signs = DMatrix::from_fn(PAIRS, 12, |path, _| if path % 2 == 0 { 1.0 } else { -1.0 });
        let (_, squares) = promise.independent(&first, &promise, &first.component_mul(&signs));
        assert!(squares < LEVEL);
        let l = dense(&plan.mechanism().dense().l);
        let [values, others] = [Purpose::Total, Purpose::Group(b"anew")].map(|p| node_values(&plan, 31, PAIRS, p));
        let common = &others * l.transpose() + contribution(&(values - others), 0, l.column(0).as_slice());
        let (products, _) = promise.independent(&first, &promise, &common);
        assert!(products < LEVEL);
    }
}

/// A stream that is saved and restored after every step releases the values of the uninterrupted one.
#[test]
fn restored_streams_release_the_same_values() {
    let key = GuardedKey::insecure_from_test_seed(TestSeed(41));
    for mechanism in MECHANISMS {
        for &kind in kinds(mechanism) {
            for (horizon, budget, _) in CASES {
                let plan = plan(mechanism, horizon, kind, budget);
                let drawn = releases(&plan, 41, 3);
                for path in 0..3 {
                    let name = || format!("path {path}").parse().expect("a valid name");
                    let mut stream = RunningSum::new(plan.clone(), &key, name()).expect("every plan has a stream");
                    for step in 0..horizon as usize {
                        let state = stream.save();
                        stream = RunningSum::restore(plan.clone(), &key, name(), &state).expect("its own state");
                        let value = stream.tick().expect("within the horizon").value();
                        assert_eq!(value, drawn[(path, step)], "{mechanism} over {horizon} steps, step {}", step + 1);
                    }
                }
            }
        }
    }
}
