//! The share of the budget that a change of one unit spends, from released rows alone.
//!
//! Under one key the difference `d` of the rows of neighbouring data has no noise. With the covariance `C` of the rows,
//! Gaussian noise makes the two tables `dᵀ C⁺ d / 2` apart in ρ, and `d` outside the range of `C` distinguishes them
//! with certainty. (A discrete Gaussian hides by its parameter, which exceeds its variance if the variance is below 1.)
//! Laplace noise costs the L1 norm of the distance that the nodes move. Neither depends on how a sensitivity was
//! computed.

use super::case::Case;
use super::check::{Fault, changes, check_single_run, outcomes_differ, published};
use super::pipeline::{Outcome, Pipeline, TableRow};
use evertally::mechanism::Workload;
use evertally::noise::DiscreteLaw;
use evertally::plan::Plan;
use evertally::privacy::Neighbours;
use evertally_declare::measures::parts::Part;
use evertally_declare::stream::Stream;
use nalgebra::{DMatrix, DVector};
use std::collections::{BTreeMap, BTreeSet};

/// The result of a pair of neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// A run of either was refused.
    pub refused: bool,
    /// The largest share of a declared budget that was spent; 0 if nothing differs.
    pub share: f64,
    /// Releases that were judged.
    pub judged: usize,
}

/// Rounding of compared values, as a share of the budget: rows are known to eight decimal places.
const ROUNDING: f64 = 1e-5;

/// Eigenvalues below this share of the largest are 0.
const NO_NOISE: f64 = 1e-11;

/// Publishes both data sets of a wide case and compares the differences with the guarantee.
///
/// # Errors
/// The first fault.
pub fn spends(pipeline: &dyn Pipeline, case: &Case) -> Result<Spent, Fault> {
    let ours = pipeline.publish(&case.stream, &case.files);
    let theirs = pipeline.publish(&case.stream, &case.neighbours);
    let discovers = case.stream.declaration.discover_groups == Some(true);
    let is_refused = if discovers {
        let own = own_groups(case);
        outcomes_differ(&without(&ours, &own, case), &without(&theirs, &own, case), true)?
    } else {
        outcomes_differ(&ours, &theirs, true)?
    };
    if is_refused || ours.iter().chain(&theirs).any(|outcome| outcome.refusal.is_some()) {
        return Ok(Spent { refused: true, ..Spent::default() });
    }
    let (Some(a), Some(b)) = (published(&ours)?, published(&theirs)?) else { return Ok(Spent::default()) };
    let joins = case.stream.runs.iter().any(|run| run.groups.is_some());
    if !joins {
        check_single_run(pipeline, case, &a)?;
    }
    let settings = case.stream.declaration.resolve().expect("it was published");
    let (stream, _) = evertally_ledger::planner::plan(settings, &mut |_| ()).expect("it was published");
    judged(case, &stream, &differences(case, &stream, &a, &b))
}

/// The groups in which the unit has events, in either data set.
fn own_groups(case: &Case) -> BTreeSet<String> {
    let rows = case.files.iter().chain(&case.neighbours).flatten();
    rows.filter(|row| case.is_of_unit(row)).map(|row| case.group_of(row)).collect()
}

/// The part of outcomes that must not depend on a unit if groups are discovered: the tables, without its own groups.
fn without(outcomes: &[Outcome], own: &BTreeSet<String>, case: &Case) -> Vec<Outcome> {
    let of = |outcome: &Outcome| {
        let others = outcome.table.iter().filter(|row| !own.contains(&split(case, &row.group).0));
        Outcome { table: others.cloned().collect(), files: BTreeMap::new(), ..outcome.clone() }
    };
    outcomes.iter().map(of).collect()
}

/// The group and the figure of a row.
fn split(case: &Case, text: &str) -> (String, String) {
    let columns = case.stream.declaration.group_by.as_ref().map_or(0, Vec::len);
    let cells: Vec<&str> = text.split(',').collect();
    let columns = columns.min(cells.len());
    (cells[..columns].join(","), cells[columns..].join(","))
}

/// The differences: by group and figure, the row and the difference in units of the data of a group with scale 1.
type Differences = BTreeMap<String, BTreeMap<String, Vec<(u64, f64)>>>;

fn differences(case: &Case, stream: &Stream, ours: &[TableRow], theirs: &[TableRow]) -> Differences {
    let by_place = |rows: &[TableRow]| -> BTreeMap<(String, u64), i128> {
        rows.iter().map(|row| ((row.group.clone(), row.step), row.value)).collect()
    };
    let (ours, theirs) = (by_place(ours), by_place(theirs));
    let mut found = Differences::new();
    for ((text, row), value) in &ours {
        // Selection accounts for a group that only one of them has found.
        let Some(other) = theirs.get(&(text.clone(), *row)) else { continue };
        let (group, figure) = split(case, text);
        let difference = (value - other) as f64 / 1e8 / scale_of(case, stream, &group);
        found.entry(group).or_default().entry(figure).or_default().push((*row, difference));
    }
    found
}

/// The factor of a group's bounds.
fn scale_of(case: &Case, stream: &Stream, group: &str) -> f64 {
    if !stream.scales.are_declared() {
        return 1.0;
    }
    let settings = case.stream.declaration.resolve().expect("it was published");
    let table = settings.groups().expect("only declared groups have scales");
    let place = table.tuples().iter().position(|tuple| tuple.join(",") == group);
    table.scales()[place.unwrap_or(table.tuples().len())].to_f64(1)
}

/// Figures read from one release.
struct Release {
    /// Their plans and names.
    figures: Vec<(Plan, String)>,
    /// The values are sums minus this amount per event, of which the count gives the number.
    middle: f64,
}

fn releases(stream: &Stream) -> Vec<Release> {
    let one = |plan: &Plan, name: String| Release { figures: vec![(plan.clone(), name)], middle: 0.0 };
    let Some(bundle) = &stream.measures else { return vec![one(&stream.plan, String::new())] };
    let labels = bundle.labels();
    if bundle.contains_workloads() {
        let parts = bundle.parts().iter().zip(labels);
        if bundle.parts().iter().any(|planned| planned.share.is_none()) {
            let figures = parts.map(|(planned, label)| (planned.plan.clone(), label)).collect();
            return vec![Release { figures, middle: 0.0 }];
        }
        return parts.map(|(planned, label)| one(&planned.plan, label)).collect();
    }
    let mut found = Vec::new();
    for planned in bundle.parts() {
        let plan = &planned.plan;
        match &planned.part {
            Part::Count => found.push(one(plan, "count".into())),
            Part::People => found.push(one(plan, "distinct".into())),
            Part::Active(steps) | Part::Present(steps) => found.push(one(plan, format!("distinct({steps})"))),
            Part::Bins(_) => {
                let bins =
                    labels.iter().filter(|label| [" to ", "below ", "from "].iter().any(|in_it| label.contains(in_it)));
                found.extend(bins.map(|label| one(plan, label.clone())));
            }
            Part::Sum => {
                let middle = bundle.centre().map_or(0.0, |centre| centre.middle_value());
                found.push(Release { middle, ..one(plan, "sum".into()) });
            }
            Part::Squares | Part::Ranks(_) | Part::Reading(_) => {}
        }
    }
    found
}

/// Compares every release with its calibration, and all together with the guarantee.
fn judged(case: &Case, stream: &Stream, found: &Differences) -> Result<Spent, Fault> {
    let mut spent = Spent::default();
    let (mut rho, mut epsilon, mut is_exact) = (0.0, 0.0, false);
    let (mut of_parts, mut shares) = (BTreeMap::<[u8; 32], f64>::new(), BTreeMap::<[u8; 32], (f64, String)>::new());
    for release in releases(stream) {
        let plan = &release.figures[0].0;
        // A change under replace-one already is a replacement.
        let is_replacing = plan.request().neighbours() == Neighbours::ReplaceOne;
        let times = if is_replacing { 1.0 } else { f64::from(changes(case)) };
        let mut costs = 0.0;
        for figures in found.values() {
            let Some(moved) = rows_of(stream, &release, figures) else { continue };
            costs += match plan.law() {
                DiscreteLaw::Gaussian(_) => gaussian(&release, &moved)?,
                DiscreteLaw::Laplace(_) => laplace(&release, &moved)?,
            };
            spent.judged += 1;
        }
        let promised = match plan.law() {
            DiscreteLaw::Gaussian(law) => {
                let sensitivity = plan.request().sensitivity().expect("planned").squared(&**plan.mechanism());
                let unit = plan.noise_divisor() as f64;
                (rho, is_exact) = (rho + costs, is_exact || plan.exact_accounting());
                sensitivity * unit * unit / (2.0 * law.parameter().to_f64()) * times * times
            }
            DiscreteLaw::Laplace(law) => {
                let sensitivity = plan.request().sensitivity().expect("planned").l1 as f64;
                // The ρ of Laplace noise is checked by the accountant's own tests.
                (epsilon, is_exact) = (epsilon + costs, true);
                let norm = sensitivity * plan.mechanism().column_norms().l1;
                norm * plan.noise_divisor() as f64 / law.scale().to_f64() * times
            }
        };
        // The bins of a histogram are one release, of which each unit moves only a few.
        let total = of_parts.entry(plan.digest()).or_default();
        *total += costs;
        shares.insert(plan.digest(), (*total / promised, release.figures[0].1.clone()));
    }
    for (share, figure) in shares.into_values() {
        if share > 1.0 + ROUNDING {
            return Err(Fault::Moves(format!("the pair spends {share} of the calibrated budget of `{figure}`")));
        }
        spent.share = spent.share.max(share);
    }
    let guarantee = stream.guarantee();
    let is_replacing = stream.plan.request().neighbours() == Neighbours::ReplaceOne;
    let times = if is_replacing { 1.0 } else { f64::from(changes(case)) };
    let whole = match guarantee.pure_epsilon {
        Some(promised) => epsilon / (promised.get() * times),
        None if is_exact => 0.0,
        None => rho / (guarantee.rho.get() * times * times),
    };
    if whole > 1.0 + ROUNDING {
        return Err(Fault::Moves(format!("the pair spends {whole} of the whole budget")));
    }
    Ok(spent)
}

/// A row that moved: the figure of its release, its slot and the distance.
type Moved = Vec<(usize, u64, f64)>;

fn rows_of(stream: &Stream, release: &Release, figures: &BTreeMap<String, Vec<(u64, f64)>>) -> Option<Moved> {
    let mut moved = Moved::new();
    for (place, (_, name)) in release.figures.iter().enumerate() {
        for (row, difference) in figures.get(name)? {
            let counted = match release.middle {
                0.0 => 0.0,
                middle => middle * figures.get("count")?.iter().find(|(other, _)| other == row)?.1,
            };
            moved.push((place, stream.slot_of_row(*row), difference - counted));
        }
    }
    Some(moved)
}

/// `dᵀ C⁺ d / 2`, or a fault if `d` has no noise.
fn gaussian(release: &Release, moved: &Moved) -> Result<f64, Fault> {
    let size = moved.len();
    let d = DVector::from_fn(size, |row, _| moved[row].2);
    if d.iter().all(|moved| *moved == 0.0) {
        return Ok(0.0);
    }
    let plan = &release.figures[0].0;
    if plan.is_unbounded() && release.figures.len() > 1 {
        // The covariance of rows of several figures is known only from a dense twin: each figure separately costs no
        // more.
        let alone = |(place, figure): (usize, &(Plan, String))| {
            let own = moved.iter().filter(|(other, ..)| *other == place);
            let own: Moved = own.map(|(_, slot, difference)| (0, *slot, *difference)).collect();
            gaussian(&Release { figures: vec![figure.clone()], middle: 0.0 }, &own)
        };
        return release.figures.iter().enumerate().map(alone).try_fold(0.0, |most: f64, cost| Ok(most.max(cost?)));
    }
    let rows: Option<Vec<Vec<f64>>> = (release.figures.len() > 1).then(|| {
        let dense: Vec<_> = release.figures.iter().map(|(plan, _)| plan.mechanism().dense().l).collect();
        moved.iter().map(|(place, slot, _)| dense[*place].row(*slot as usize - 1).to_vec()).collect()
    });
    let covariance = DMatrix::from_fn(size, size, |i, j| match &rows {
        // Several figures share the same nodes.
        Some(rows) => plan.node_variance() * rows[i].iter().zip(&rows[j]).map(|(a, b)| a * b).sum::<f64>(),
        None => plan.covariance(moved[i].1, moved[j].1),
    });
    let eigen = covariance.symmetric_eigen();
    let largest = eigen.eigenvalues.max();
    let rounding = rounding(release) * (size as f64).sqrt();
    let (mut cost, mut bare, mut least) = (0.0, 0.0, f64::INFINITY);
    for (value, vector) in eigen.eigenvalues.iter().zip(eigen.eigenvectors.column_iter()) {
        let along = vector.dot(&d);
        if *value > NO_NOISE * largest {
            (cost, least) = (cost + along * along / value, least.min(*value));
        } else {
            bare += along * along;
        }
    }
    if bare.sqrt() > (1e-5 * d.norm()).max(rounding) {
        return Err(Fault::Moves(format!("{} of {} has no noise", bare.sqrt(), d.norm())));
    }
    let root = (cost.sqrt() - rounding / least.sqrt()).max(0.0);
    Ok(root * root / 2.0 * hidden_by(plan))
}

/// The variance of a node over the parameter of its discrete Gaussian.
fn hidden_by(plan: &Plan) -> f64 {
    let DiscreteLaw::Gaussian(law) = plan.law() else { return 1.0 };
    let step = plan.request().grid().to_f64(1) / plan.noise_divisor() as f64;
    plan.node_variance() / (law.parameter().to_f64() * step * step)
}

/// How far a difference can be off: decayed rows are rounded separately to this many binary digits after noise is
/// added.
fn rounding(release: &Release) -> f64 {
    let decays = |(plan, _): &&(Plan, String)| matches!(plan.request().workload(), Workload::Decay(_));
    let digits = release.figures.iter().filter(decays).map(|(plan, _)| plan.fraction_bits()).min();
    digits.map_or(0.0, |bits| (-f64::from(bits)).exp2())
}

/// The L1 norm of the distance that the nodes move, in units of the noise; 0 if rows do not determine it.
fn laplace(release: &Release, moved: &Moved) -> Result<f64, Fault> {
    let plan = &release.figures[0].0;
    let slots: Vec<u64> = moved.iter().map(|(.., slot, _)| *slot).collect();
    let in_turn = slots.iter().zip(1..).all(|(slot, place)| *slot == place);
    if plan.is_unbounded() || !in_turn || release.figures.len() > 1 {
        return Ok(0.0);
    }
    let pair = plan.mechanism().dense();
    let size = moved.len();
    let dot = |row: &[f64], column: usize| -> f64 {
        row.iter().enumerate().map(|(node, weight)| weight * pair.r.row(node)[column]).sum()
    };
    let reads = DMatrix::from_fn(size, size, |row, column| dot(pair.l.row(row), column));
    let d = DVector::from_fn(size, |row, _| moved[row].2 / plan.request().grid().to_f64(1));
    let steps_of_rows = reads.try_inverse().ok_or_else(|| Fault::Moves("rows do not determine the steps".into()))?;
    let nodes = DMatrix::from_fn(pair.r.shape().0, size, |node, step| pair.r.row(node)[step]) * steps_of_rows;
    let rounding = rounding(release) * nodes.iter().map(|weight| weight.abs()).sum::<f64>();
    let l1 = ((nodes * d).lp_norm(1) - rounding).max(0.0);
    Ok(l1 * plan.noise_divisor() as f64 / plan.law().scale())
}
