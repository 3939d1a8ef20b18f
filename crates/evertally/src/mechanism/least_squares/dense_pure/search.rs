//! The schedule of the search: many starts; the best are refined, then bumps are removed and split.
//!
//! The problem is not convex. Starts are hats of one to three spacings; a short descent ranks them. The best are
//! refined by further descent. The winner is improved by removing or splitting one bump after the other; a change is
//! kept if another descent from it is better. For the largest variance all this is done on power means of moderate
//! exponents, and the exponent is raised at the end. All choices depend on the variances alone.

use super::candidate::{Aim, BumpCandidate};
use crate::mechanism::Objective;
use std::ops::ControlFlow;

/// How many of the starts are refined, and how many of those have their bumps rearranged.
const REFINED: usize = 6;
const REARRANGED: usize = 2;
/// Maximum number of sweeps over the bumps of one candidate.
const SWEEPS: usize = 4;
/// Number of steps of a descent that ranks, and of one that finishes.
const SHORT: usize = 150;
const LONG: usize = 500;
/// Steps by which a bump may grow beyond its support in one descent.
const MARGIN: usize = 8;

/// Receives progress: the best value and the completed share of the work. It may cancel the search.
struct SearchReport<'a> {
    objective: Objective,
    best: f64,
    progress: &'a mut dyn FnMut(f64, f64) -> ControlFlow<()>,
}

impl SearchReport<'_> {
    fn report(&mut self, candidate: &BumpCandidate, done: f64) -> ControlFlow<()> {
        self.best = self.best.min(candidate.figure(self.objective));
        (self.progress)(self.best, done)
    }
}

/// A candidate with the value of the aim it has reached.
type RankedCandidate = (f64, BumpCandidate);

/// The best factorization found over `horizon` steps, unless the search is cancelled.
pub(super) fn search(
    horizon: usize,
    objective: Objective,
    progress: &mut dyn FnMut(f64, f64) -> ControlFlow<()>,
) -> ControlFlow<(), BumpCandidate> {
    let mut report = SearchReport { objective, best: f64::INFINITY, progress };
    let aim = if objective == Objective::Mean { Aim::Mean } else { Aim::PowerMean { log_power: 6 } };
    let mut ranked = rank_starts(horizon, aim, &mut report)?;
    ranked.truncate(REFINED);
    let count = ranked.len() as f64;
    for (index, (value, candidate)) in ranked.iter_mut().enumerate() {
        for _ in 0..2 {
            candidate.tidy(MARGIN);
            *value = candidate.descend(aim, LONG);
        }
        report.report(candidate, 0.1 + 0.1 * (index + 1) as f64 / count)?;
    }
    sort(&mut ranked);
    ranked.truncate(REARRANGED);
    let count = ranked.len() as f64;
    let mut last: Vec<RankedCandidate> = Vec::new();
    for (index, start) in ranked.into_iter().enumerate() {
        let mut notify = |best: &BumpCandidate, share| report.report(best, 0.2 + 0.7 * (index as f64 + share) / count);
        last.push(rearrange(start, aim, &mut notify)?);
    }
    sort(&mut last);
    let (_, mut best) = last.swap_remove(0);
    best.tidy(MARGIN);
    best.descend(aim, LONG);
    if objective == Objective::Max {
        for log_power in [8, 10, 12, 14] {
            best.descend(Aim::PowerMean { log_power }, LONG);
        }
    }
    report.report(&best, 1.0)?;
    ControlFlow::Continue(best)
}

/// By value; equal ones stay in order.
fn sort(ranked: &mut [RankedCandidate]) {
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
}

/// All starts after a short descent, best first.
fn rank_starts(horizon: usize, aim: Aim, report: &mut SearchReport) -> ControlFlow<(), Vec<RankedCandidate>> {
    let starts = starts(horizon);
    let count = starts.len() as f64;
    let mut ranked = Vec::new();
    for (index, levels) in starts.into_iter().enumerate() {
        let mut candidate = BumpCandidate::hats(horizon, &levels);
        if aim != Aim::Mean {
            candidate.descend(Aim::PowerMean { log_power: 2 }, SHORT);
            candidate.tidy(MARGIN);
        }
        ranked.push((candidate.descend(aim, SHORT), candidate));
        report.report(&ranked[index].1, 0.1 * (index + 1) as f64 / count)?;
    }
    sort(&mut ranked);
    ControlFlow::Continue(ranked)
}

/// Removes and splits bumps as long as a sweep over all of them gains something. `notify` receives the completed
/// share of the sweeps.
fn rearrange(
    (mut value, mut best): RankedCandidate,
    aim: Aim,
    notify: &mut dyn FnMut(&BumpCandidate, f64) -> ControlFlow<()>,
) -> ControlFlow<(), RankedCandidate> {
    for sweep in 0..SWEEPS {
        let before = value;
        let mut bump = 0;
        while bump < best.bumps() {
            for change in [BumpCandidate::without, BumpCandidate::split] {
                if bump >= best.bumps() {
                    break; // the last one was removed
                }
                let mut tried = change(&best, bump);
                tried.tidy(MARGIN);
                let reached = tried.descend(aim, SHORT);
                if reached < value * (1.0 - 1e-6) {
                    (value, best) = (reached, tried);
                }
            }
            bump += 1;
            let share = (sweep as f64 + bump as f64 / best.bumps().max(bump) as f64) / SWEEPS as f64;
            notify(&best, share)?;
        }
        if value > before * (1.0 - 1e-4) {
            break;
        }
    }
    ControlFlow::Continue((value, best))
}

/// Spacings and budgets of the starts: fine hats alone, with coarse ones, and with a level between.
fn starts(horizon: usize) -> Vec<Vec<(f64, f64)>> {
    let steps = horizon as f64;
    let mut starts = vec![];
    for fine in [4.0, 7.0, 10.0, 12.0, 14.0, 17.0, 20.0, 24.0] {
        if fine >= steps || fine * 60.0 < steps {
            continue;
        }
        if fine * 16.0 > steps {
            starts.push(vec![(fine, 0.6)]);
        }
        for coarse in [steps / 3.0, steps / 2.0, steps] {
            if coarse > 3.0 * fine {
                starts.push(vec![(fine, 0.3), (coarse, 0.36)]);
            }
        }
        for between in [60.0, 90.0, 120.0] {
            if between > 3.0 * fine && steps > 3.0 * between {
                starts.push(vec![(fine, 0.2), (between, 0.2), (steps / 2.0, 0.3)]);
            }
        }
    }
    if starts.is_empty() {
        starts.push(vec![(steps, 0.5)]);
    }
    starts
}
