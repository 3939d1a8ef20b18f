//! Recomputes the frozen shares, and their ratios.

use super::*;
use crate::mechanism::endless::grids::WEIGHT_BITS;
use crate::mechanism::{Buffers, Dense, Hats, MechanismName};
use shares::SHARES;
use std::collections::BTreeMap;
use std::f64::consts::PI;

/// Epochs that end by 2^40.
const SEARCHED: usize = 10;
/// The smallest share: that of the last epoch, which no other follows in the comparison.
const LEAST: f64 = 0.03;

/// The least largest variance known for a horizon, over that of a node for sensitivity 1.
struct Best(BTreeMap<u64, f64>);

impl Best {
    /// Of any mechanism under Gaussian noise: certified up to 2048 steps, and slightly underestimated beyond. The
    /// excess of its root over `ln t / π` falls, by less than 0.01 from there on.
    fn gaussian() -> Self {
        let root = |step: u64| Dense::lower_bound(step, Objective::Max).unwrap().sqrt();
        let steps = (0..=11).flat_map(|power| [1u64 << power, 3 << power]).filter(|step| *step <= 2048);
        let certified: BTreeMap<_, _> = steps.map(|step| (step, root(step))).collect();
        let beyond = certified[&2048] - 2048f64.ln() / PI - 0.01;
        let far = (12..=62).map(|power| 1u64 << power).map(|step| (step, (step as f64).ln() / PI + beyond));
        Self(certified.clone().into_iter().chain(far).collect())
    }

    /// Of the mechanisms with logarithmic memory under Laplace noise.
    fn laplace() -> Self {
        let criterion = Criterion::new(NoiseKind::Laplace, Objective::Max);
        let names = ["input", "smooth", "subtract", "kary"].map(|name| name.parse::<MechanismName>().unwrap());
        let least = |step: u64| {
            let figures = names.iter().map(|name| criterion.figure(&*name.build(step, &criterion).unwrap()));
            (figures.fold(f64::INFINITY, f64::min) / 2.0).cbrt()
        };
        let steps = (0..=40).flat_map(|power| [1u64 << power, 3 << power]).filter(|step| *step <= 1 << 40);
        Self(steps.map(|step| (step, least(step))).collect())
    }

    /// Of all families of the planner under Laplace noise, up to the end of hats; beyond, of the families without end.
    fn of_all_families() -> Self {
        let mut best = Self::laplace();
        for power in 0..=22 {
            let hats = Hats::best(1 << power, Objective::Max).unwrap();
            let figure = hats.column_norms().l1.powi(2) * hats.max_row_norm_squared();
            let root = best.0[&(1 << power)].min(figure.cbrt());
            best.0.insert(1 << power, root);
        }
        // Between powers of two by interpolation; after the last step of hats, without them.
        let end: u64 = 1 << 22;
        best.0.retain(|step, _| step.is_power_of_two() || *step > end);
        best.0.insert(end + 1, Self::laplace().at(end + 1, 1));
        best
    }

    /// Between them by interpolation of the root in the logarithm of the horizon.
    fn at(&self, step: u64, power: i32) -> f64 {
        let ((low, below), (high, above)) =
            (self.0.range(..=step).next_back().unwrap(), self.0.range(step..).next().unwrap());
        let log = |step: u64| (step as f64).ln();
        let part = if low == high { 0.0 } else { (log(step) - log(*low)) / (log(*high) - log(*low)) };
        (below + part * (above - below)).powi(power)
    }
}

/// How variances grow if a part of the budget is spent elsewhere: with the first or the second power.
struct Kind {
    inside: Inside,
    best: Best,
    /// Of the root of the best.
    power: i32,
}

impl Kind {
    fn all() -> [Self; 5] {
        ALL.map(|inside| match inside {
            Inside::Hats => Self { inside, best: Best::of_all_families(), power: 3 },
            Inside::Trees => Self { inside, best: Best::laplace(), power: 3 },
            _ => Self { inside, best: Best::gaussian(), power: 2 },
        })
    }

    /// The part of the budget with which a variance that needs all of it grows by this factor.
    fn part(&self, times: f64) -> f64 {
        if self.inside == Inside::Trees { times.recip().sqrt() } else { times.recip() }
    }

    fn variance(&self, part: f64) -> f64 {
        if self.inside == Inside::Trees { part.powi(-2) } else { part.recip() }
    }

    /// `(variance inside for all of the budget, best variance)` of the steps of an epoch.
    fn looks(&self, epoch: &Epoch) -> Vec<(f64, f64)> {
        let steps = epoch.last - epoch.before;
        let norm: Box<dyn Fn(u64) -> f64> = match &epoch.inner {
            Inner::Filter(blt) => {
                let columns =
                    if self.inside == Inside::Plain { ColumnScaling::Plain } else { ColumnScaling::Normalized };
                let buffers: Buffers = blt.buffers();
                let whole = epoch::part(steps, columns, buffers, 0).unwrap();
                Box::new(move |step| whole.row_norm_squared(step))
            }
            Inner::Tree(tree, _) => {
                let levels = tree.column_norms().l1;
                Box::new(move |step| levels * levels * tree.row_norm_squared(step))
            }
            Inner::Hats(..) | Inner::Growing(_) => unreachable!("they have no shares"),
        };
        looked_at(steps).into_iter().map(|step| (norm(step), self.best.at(epoch.before + step, self.power))).collect()
    }

    /// The shares `U` of the budget for a given largest ratio, if there are any.
    fn greedy(&self, looks: &[Vec<(f64, f64)>], ratio: f64) -> Option<Vec<f64>> {
        let (mut base, mut shares) = (0.0, vec![]);
        for looks in looks {
            let inside = |(norm, best): &(f64, f64)| {
                let room = ratio * best - base;
                if room > 0.0 { self.part(room / norm) } else { f64::INFINITY }
            };
            let needed = looks.iter().map(inside).fold(0.0, f64::max);
            let least = if shares.len() + 1 < SEARCHED { 0.005 } else { LEAST };
            let share = 1.0 - needed;
            if share < least {
                return None;
            }
            let end = looks[looks.len() - 1].0;
            base += 1.0 / (self.variance(share).recip() + (end * self.variance(needed)).recip());
            shares.push(share);
        }
        Some(shares)
    }

    /// `2^14 U` of a share of the budget.
    fn frozen(&self, share: f64) -> u32 {
        let part = if self.inside == Inside::Trees { share } else { share.sqrt() };
        (part * f64::from(1 << WEIGHT_BITS)) as u32
    }
}

/// Steps of an epoch, each about 1 % longer after its beginning than the one before, and those with many nodes.
fn looked_at(steps: u64) -> Vec<u64> {
    let mut all = vec![1];
    while all[all.len() - 1] < steps {
        let last = all[all.len() - 1];
        all.push((last + (last / 100).max(1)).min(steps));
    }
    all
}

#[test]
fn the_shares_are_those_of_the_least_ratio() {
    let mut wrong = vec![];
    for kind in Kind::all().into_iter().filter(|kind| !matches!(kind.inside, Inside::Hats | Inside::Growing)) {
        let endless = Endless::new(MAX_HORIZON, kind.inside).unwrap();
        let looks: Vec<_> = endless.epochs[..SEARCHED].iter().map(|epoch| kind.looks(epoch)).collect();
        let (mut low, mut high) = (1.0, 8.0);
        for _ in 0..40 {
            let middle = 0.5 * (low + high);
            if kind.greedy(&looks, middle).is_some() { high = middle } else { low = middle }
        }
        let found: Vec<u32> = kind.greedy(&looks, high).unwrap().into_iter().map(|share| kind.frozen(share)).collect();
        let frozen = &SHARES[kind.inside as usize];
        let is_near = |(a, b): (&u32, &u32)| a.abs_diff(*b) <= 4;
        if !found.iter().zip(frozen).all(is_near) {
            wrong.push(format!("{:?}, ratio {high}: {found:?}", kind.inside));
        }
        assert!(frozen[SEARCHED..].iter().all(|share| *share == frozen[SEARCHED - 1]));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// At 20 thousand steps from the first to 2^40; from 16 on if hats are inside.
#[test]
fn no_step_is_far_above_the_best_that_it_could_be() {
    for kind in Kind::all() {
        let endless = Endless::new(1 << 40, kind.inside).unwrap();
        let norms = endless.column_norms();
        let first = if kind.inside == Inside::Hats { 16 } else { 1 };
        let squared = if kind.inside.is_laplace() { norms.l1.powi(2) } else { norms.l2_squared };
        let mut worst = (0.0, 0);
        for epoch in endless.begun() {
            let steps = looked_at(epoch.last.min(1 << 40) - epoch.before).into_iter().map(|step| epoch.before + step);
            for step in steps.filter(|step| *step >= first) {
                let ratio = squared * endless.row_norm_squared(step) / kind.best.at(step, kind.power);
                worst = if ratio > worst.0 { (ratio, step) } else { worst };
            }
        }
        println!("{:?}: {worst:?}", kind.inside);
        assert!(worst.0 < 2.5, "{:?}: {worst:?}", kind.inside);
    }
}

/// The frozen values of the last steps of hats are the computed ones.
#[test]
fn totals_of_hats_are_those_of_their_last_steps() {
    let mut wrong = vec![];
    for epoch in Endless::new(MAX_HORIZON, Inside::Hats).unwrap().epochs.iter() {
        let found = epoch.inner_norm(epoch.last - epoch.before);
        if let Inner::Hats(_, frozen) = epoch.inner
            && !close(frozen, found)
        {
            wrong.push(format!("epoch that ends at {}: {found:?}, not {frozen}", epoch.last));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
