//! How often intervals contain the counts, over hash functions and noise: for heavy, light and absent items, and for
//! items chosen by their estimates.
//!
//! Trials are independent (another key each), so the spread of their shares gives the standard error of their mean;
//! each comparison allows 4.5 standard errors beyond the claim: significance level 4·10^-6 per side.

use super::*;
use crate::privacy::Values;
use crate::sketch::Choice;

/// Zipf counts of items 0, 1, …
struct Data {
    items: u64,
    heaviest: f64,
    exponent: f64,
}

impl Data {
    fn count(&self, item: u64) -> i64 {
        (self.heaviest / (item as f64 + 1.0).powf(self.exponent)) as i64
    }
}

/// Shares of intervals that hold.
#[derive(Default)]
struct Shares {
    heavy: Vec<f64>,
    light: Vec<f64>,
    absent: Vec<f64>,
    chosen: Vec<f64>,
    /// Of the chosen items, with intervals that ignore the choice.
    as_others: Vec<f64>,
    of_noise: Vec<f64>,
}

/// Largest value of an event, so that a count needs few events.
const LARGEST: i64 = 4096;
const HEAVY: usize = 100;
const LISTED: usize = 20;

/// One table: the first step has a twentieth of the events.
fn trial(seed: u64, plan: &SketchPlan, data: &Data, shares: &mut [Shares; 2]) {
    let mut sketch = CountSketch::new(plan.clone(), &key(seed), named("coverage")).unwrap();
    let absent = data.items..2 * data.items;
    let roster = sketch.roster(0..2 * data.items).unwrap();
    let mut truth = vec![0i64; 2 * data.items as usize];
    for (share, shares) in [0.05, 0.95].into_iter().zip(shares) {
        for item in 0..data.items {
            let added = (data.count(item) as f64 * share).round() as i64;
            truth[item as usize] += added;
            for from in (0..added).step_by(LARGEST as usize) {
                sketch.add(item, LARGEST.min(added - from)).unwrap();
            }
        }
        sketch.tick().unwrap();
        let answers = sketch.answer(&roster).unwrap();
        let half = answers.errors.half_width(0.95).unwrap();
        let off: Vec<f64> = answers.values.iter().zip(&truth).map(|(value, truth)| value - *truth as f64).collect();
        let held =
            |off: &[f64], half: f64| off.iter().filter(|off| off.abs() <= half).count() as f64 / off.len() as f64;
        shares.heavy.push(held(&off[..HEAVY], half));
        shares.light.push(held(&off[HEAVY..data.items as usize], half));
        shares.absent.push(held(&off[absent.start as usize..], half));
        shares.of_noise.push(held(&off, 1.96 * answers.noise_std_error));
        // The heaviest items of all.
        let mut order: Vec<usize> = (0..off.len()).collect();
        order.sort_by(|a, b| answers.values[*b].total_cmp(&answers.values[*a]));
        let choice = Choice { least: answers.values[order[LISTED]], listed: LISTED, of: off.len() };
        let chosen = answers.errors.chosen(0.95, choice).unwrap();
        let listed = &order[..LISTED];
        let share =
            |holds: &dyn Fn(usize) -> bool| listed.iter().filter(|item| holds(**item)).count() as f64 / LISTED as f64;
        shares.as_others.push(share(&|item| off[item].abs() <= half));
        shares.chosen.push(share(&|item| {
            let (lower, upper) = chosen.of(answers.values[item]);
            assert!(lower <= answers.values[item] && answers.values[item] <= upper);
            (lower..=upper).contains(&(truth[item] as f64))
        }));
    }
}

fn run(shape: &str, budget: f64, pure: bool, data: &Data, trials: u64) -> [Shares; 2] {
    let budget = match pure {
        true => Budget::Pure(Epsilon::new_even_if_weak(budget).unwrap()),
        false => Budget::Zcdp(Rho::new_even_if_weak(budget).unwrap()),
    };
    let request = PlanRequest::count(16, budget).with_values(Values::Sum { lower: 0, upper: LARGEST });
    let plan = SketchPlan::new(request, shape.parse().unwrap(), LazySampling::Keyed).unwrap();
    let mut shares = [Shares::default(), Shares::default()];
    (0..trials).for_each(|seed| trial(seed, &plan, data, &mut shares));
    shares
}

/// Checks that the mean share is between two values, to 4.5 standard errors.
fn assert_share(shares: &[f64], low: f64, high: f64, what: &str) {
    let (mean, error) = mean(shares);
    assert!(error < 0.012, "{what}: {mean} ± {error} says too little");
    assert!(mean > low - 4.5 * error && mean < high + 4.5 * error, "{what}: {mean} ± {error}");
}

/// From noise alone to collisions alone, with normal and with Laplace noise, with one row and with five: at the first
/// step and at the second, 95 % of the intervals hold (94.5 to 95.5), whatever the item; and of the intervals of the
/// twenty heaviest at least as many, and at most 98 %.
#[test]
fn intervals_hold_as_often_as_they_say() {
    let data = |heaviest, exponent| Data { items: 6000, heaviest, exponent };
    let cases = [
        ("count-sketch(rows=5,width=4096)", 1e6, false, data(60_000.0, 1.0), 40),
        ("count-sketch(rows=5,width=1024)", 1e6, false, data(60_000.0, 1.2), 40),
        ("count-sketch(rows=3,width=4096)", 400.0, true, data(20_000.0, 0.8), 40),
        ("count-sketch(rows=1,width=16384)", 1e6, false, data(20_000.0, 0.6), 40),
        ("count-sketch(rows=5,width=16384)", 1e3, false, data(500.0, 1.0), 40),
    ];
    let mut noise_alone = vec![];
    for (shape, budget, pure, data, trials) in cases {
        for (when, shares) in ["first", "second"].into_iter().zip(run(shape, budget, pure, &data, trials)) {
            let what = |which: &str| format!("{shape} {budget}: {which} at the {when} step");
            let rest = [&shares.chosen, &shares.as_others, &shares.of_noise].map(|shares| mean(shares).0);
            println!("{} [chosen, as others, of noise] {rest:.3?}", what("shares"));
            for (which, shares) in [("heavy", &shares.heavy), ("light", &shares.light), ("absent", &shares.absent)] {
                assert_share(shares, 0.945, 0.955, &what(which));
            }
            assert_share(&shares.chosen, 0.95, 0.98, &what("chosen"));
            noise_alone.push((mean(&shares.of_noise).0, mean(&shares.as_others).0));
        }
    }
    // Ignoring the choice must make a difference in these cases.
    assert!(noise_alone.iter().any(|(of_noise, _)| *of_noise < 0.6), "{noise_alone:?}");
    assert!(noise_alone.iter().any(|(_, as_others)| *as_others < 0.5), "{noise_alone:?}");
}
