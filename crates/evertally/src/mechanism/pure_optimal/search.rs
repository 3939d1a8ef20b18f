//! The schedule of the search: many starts, the best of them refined, then bumps taken out and split.
//!
//! The problem is not convex. Starts are hats of one to three spacings; a short descent ranks them. The best are descended
//! further, and the winner is improved by removing or splitting one bump after the other, keeping what is better after another
//! descent. For the largest variance all this is done on power means of moderate exponents, and the exponent is raised at the
//! end. All choices depend on the figures alone.

use super::candidate::{Aim, Candidate};

/// How many of the starts are refined.
const FINALISTS: usize = 6;
/// Steps of a descent that ranks, and of one that finishes.
const SHORT: usize = 150;
const LONG: usize = 500;
/// Steps by which a bump may grow beyond its support in one descent.
const MARGIN: usize = 8;

/// Hears of progress: the best figure and the share of the work done.
struct Report<'a> {
    mean: bool,
    best: f64,
    progress: &'a mut dyn FnMut(f64, f64),
}

impl Report<'_> {
    fn tell(&mut self, candidate: &Candidate, done: f64) {
        self.best = self.best.min(candidate.figure(self.mean));
        (self.progress)(self.best, done);
    }
}

/// The best factorization found over `horizon` steps.
pub(super) fn search(horizon: usize, mean: bool, progress: &mut dyn FnMut(f64, f64)) -> Candidate {
    let mut report = Report { mean, best: f64::INFINITY, progress };
    let aim = if mean { Aim::Mean } else { Aim::PowerMean { log_power: 6 } };
    let starts = starts(horizon);
    let count = starts.len() as f64;
    let mut ranked = Vec::new();
    for (index, levels) in starts.into_iter().enumerate() {
        let mut candidate = Candidate::hats(horizon, &levels);
        if !mean {
            candidate.descend(Aim::PowerMean { log_power: 2 }, SHORT);
        }
        candidate.tidy(MARGIN);
        let value = candidate.descend(aim, SHORT);
        report.tell(&candidate, 0.2 * (index + 1) as f64 / count);
        ranked.push((value, candidate));
    }
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
    ranked.truncate(FINALISTS);
    for (index, (value, candidate)) in ranked.iter_mut().enumerate() {
        for _ in 0..2 {
            candidate.tidy(MARGIN);
            *value = candidate.descend(aim, LONG);
        }
        report.tell(candidate, 0.2 + 0.2 * (index + 1) as f64 / FINALISTS as f64);
    }
    let (value, best) = ranked.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).expect("some start fits");
    let mut best = rearrange(best, value, aim, &mut report);
    best.tidy(MARGIN);
    best.descend(aim, LONG);
    if !mean {
        for log_power in [8, 10, 12, 14] {
            best.descend(Aim::PowerMean { log_power }, LONG);
            report.tell(&best, 0.9 + 0.1 * f64::from(log_power - 6) / 8.0);
        }
    }
    report.tell(&best, 1.0);
    best
}

/// Removes and splits bumps as long as a sweep over all of them gains something, three sweeps at most.
fn rearrange(mut best: Candidate, mut value: f64, aim: Aim, report: &mut Report) -> Candidate {
    const SWEEPS: usize = 3;
    for sweep in 0..SWEEPS {
        let before = value;
        let mut bump = 0;
        while bump < best.bumps() {
            for change in [Candidate::without, Candidate::split] {
                if bump >= best.bumps() {
                    break; // the last one has gone
                }
                let mut tried = change(&best, bump);
                tried.tidy(MARGIN);
                let reached = tried.descend(aim, SHORT);
                if reached < value * (1.0 - 1e-6) {
                    (best, value) = (tried, reached);
                }
            }
            bump += 1;
            let share = (sweep as f64 + bump as f64 / best.bumps().max(1) as f64) / SWEEPS as f64;
            report.tell(&best, 0.4 + 0.5 * share.min(1.0));
        }
        if value > before * (1.0 - 1e-4) {
            break;
        }
    }
    best
}

/// Spacings and budgets of the starts: fine hats alone, with coarse ones, and with a level between.
fn starts(horizon: usize) -> Vec<Vec<(f64, f64)>> {
    let steps = horizon as f64;
    let mut starts = vec![];
    for fine in [4.0, 7.0, 10.0, 12.0, 14.0, 17.0, 20.0, 24.0] {
        if fine >= steps {
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
