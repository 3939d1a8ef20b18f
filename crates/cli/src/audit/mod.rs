//! An empirical check of a mechanism as a black box: releases are drawn, and held against what is promised of them.
//!
//! ```text
//!                 ┌ two neighbouring streams ┐
//!  Promise ◀──────┤   with no other events   ├──▶ BlackBox ──▶ releases ──▶ checks ──▶ Report
//!  (L, law,       │   with many others       │                (N of each stream,
//!   guarantee)    └──────────────────────────┘                 independent noise)
//! ```
//!
//! * **privacy** (`privacy.rs`): lower confidence bounds on ε and on μ, from how well the two streams can be told apart;
//! * **law** (`statistic.rs`, `nodes.rs`): linear statistics of releases, and recovered node variables, against their exact
//!   laws;
//! * **covariance** (`covariance.rs`): means, and covariances against `Var(z) · L Lᵀ`;
//! * **repeatability** (`repeat.rs`).
//!
//! **Significance.** A mechanism that keeps its promise is refuted with chance at most `1 - confidence`, divided evenly over the
//! statistical checks; inside a check the level is divided by its number of comparisons. Bounds and law checks use exact
//! binomial tails. Checks that rest on the central limit theorem (covariance, χ²) get a tenth of their share, and are left
//! out where that margin would not do.
//!
//! **What it cannot show.** An audit can refute, never prove: it tries one pair of neighbours (the worst by the theory, which is
//! what is in doubt), in two surroundings, without adapting the stream to the releases, and it sees no violation that is
//! rarer than about one in the number of paths.

mod black_box;
mod covariance;
mod law;
mod linear;
mod nodes;
mod pair;
mod privacy;
mod promise;
mod repeat;
mod report;
mod special;
mod statistic;
#[cfg(test)]
mod tests;

pub use black_box::{BlackBox, PlanBox, Stream};
pub use pair::{Change, Pair, worst_change};
pub use promise::{MAX_HORIZON, Promise, Revealed};
pub use report::{Check, Finding, Report};

use covariance::{Moments, enough_paths, smallest};
use evertally::{Error, Result};
use linear::column;
use nodes::NodeTable;
use privacy::Contest;
use statistic::{LawTest, LinearStatistic};

/// How much is drawn, and how sure a refutation must be.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Releases of every stream.
    pub paths: u64,
    /// One minus the chance of refuting a mechanism that keeps its promise, between 0 and 1.
    pub confidence: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { paths: 20_000, confidence: 0.999_999 }
    }
}

/// Draws `paths` releases of each stream of each pair and checks them. `progress` is told of every one.
///
/// `O(paths · (T · nodes))` at worst, `O(paths · T)` for square sparse factorizations and up to 64 steps.
///
/// # Errors
/// If the settings are out of range, two streams do not differ, a stream has another horizon than the promise, or the box
/// refuses a stream.
pub fn audit(
    subject: &mut dyn BlackBox,
    promise: &Promise,
    pairs: &[Pair],
    settings: Settings,
    progress: &mut dyn FnMut(),
) -> Result<Report> {
    if !(settings.confidence > 0.0 && settings.confidence < 1.0) || settings.paths == 0 {
        return Err(Error::invalid("an audit needs at least one path and a confidence strictly between 0 and 1"));
    }
    let mut seen = Observations::new(promise, pairs)?;
    seen.draw(subject, promise, pairs, settings.paths, progress)?;
    let repeats = match pairs.last() {
        Some(pair) => repeat::repeats(subject, promise, &pair.first)?,
        None => return Err(Error::invalid("an audit needs a pair of neighbouring streams")),
    };

    let level = (1.0 - settings.confidence) / seen.statistical_checks(promise) as f64;
    let mut checks = seen.privacy_checks(promise, pairs, level);
    checks.extend(seen.law_checks(promise, level));
    checks.extend(seen.covariance_checks(promise, level / APPROXIMATE));
    checks.push(Check::exact("same-key", "the same key gives the same releases".into(), repeats.same_again));
    checks.push(Check::p_value(
        "other-key",
        "different keys give different noise".into(),
        repeats.chance_of_equals,
        level,
    ));
    checks.extend(
        repeats
            .restored
            .map(|same| Check::exact("restored", "a saved and restored stream continues equally".into(), same)),
    );
    Ok(Report::new(settings.paths * 2 * pairs.len() as u64, settings.confidence, level, checks))
}

/// By how much the level of a check is lowered that uses a normal or χ² approximation.
const APPROXIMATE: f64 = 10.0;

/// Farther than this from a multiple of the noise grid is off it; sums of doubles stay far closer.
const OFF_GRID: f64 = 1e-3;

/// Nodes and steps whose own law is checked.
const SAMPLED: usize = 8;

/// What is kept of the releases.
struct Observations {
    contests: Vec<Contest>,
    laws: Vec<LawTest>,
    nodes: Option<NodeTable>,
    moments: Moments,
    /// Releases off the noise grid, where all must lie on it: the mark of noise drawn in floating point, whose low digits give
    /// the data away.
    off_grid: Option<u64>,
    paths: f64,
}

impl Observations {
    fn new(promise: &Promise, pairs: &[Pair]) -> Result<Self> {
        let horizon = promise.horizon();
        for pair in pairs {
            let lengths = [&pair.first, &pair.second].map(|stream| stream.steps().len());
            if lengths != [horizon; 2] || pair.difference().iter().all(|d| *d == 0.0) {
                return Err(Error::invalid(format!(
                    "the two streams must differ and have {horizon} steps each, as the promise has"
                )));
            }
        }
        let contests = pairs.iter().map(|pair| Contest::new(promise, pair)).collect();
        let nodes = NodeTable::new(promise);
        let off_grid = promise.is_whole().then_some(0);
        let (laws, moments) = (law_tests(promise, pairs), Moments::new(horizon));
        Ok(Self { contests, laws, nodes, moments, off_grid, paths: 0.0 })
    }

    fn draw(
        &mut self,
        subject: &mut dyn BlackBox,
        promise: &Promise,
        pairs: &[Pair],
        paths: u64,
        progress: &mut dyn FnMut(),
    ) -> Result<()> {
        let mut dither = Dither(0);
        let mut path = 0;
        for (pair, contest) in pairs.iter().zip(&mut self.contests) {
            for (side, stream) in [&pair.first, &pair.second].into_iter().enumerate() {
                let truth: Vec<f64> = stream.running_sums().iter().map(|sum| sum * promise.grid).collect();
                for _ in 0..paths {
                    let mut residual = subject.releases(stream, path)?;
                    residual.iter_mut().zip(&truth).for_each(|(r, truth)| *r -= truth);
                    let normal = dither.next();
                    contest.observe(side, &residual, normal);
                    self.laws.iter_mut().for_each(|law| law.observe(&residual, normal));
                    self.nodes.iter_mut().for_each(|nodes| nodes.observe(&residual));
                    self.moments.observe(&residual);
                    let off_grid = residual.iter().any(|r| {
                        let multiple = r / promise.unit;
                        (multiple - multiple.round()).abs() > OFF_GRID
                    });
                    self.off_grid.iter_mut().for_each(|count| *count += u64::from(off_grid));
                    path += 1;
                    progress();
                }
            }
        }
        self.paths = path as f64;
        Ok(())
    }

    /// How many checks share the significance.
    fn statistical_checks(&self, promise: &Promise) -> usize {
        let bounds = 1 + usize::from(promise.guarantee.epsilon_delta.is_some());
        bounds * self.contests.len() + 1 + usize::from(self.nodes.is_some()) + 5 + 1
    }

    fn privacy_checks(&self, promise: &Promise, pairs: &[Pair], level: f64) -> Vec<Check> {
        let mut checks = Vec::new();
        for (contest, pair) in self.contests.iter().zip(pairs) {
            if let Some((epsilon, delta)) = promise.guarantee.epsilon_delta {
                let bound = contest.epsilon(delta, level);
                checks.push(Check::bound("epsilon", format!("neighbours, {}", pair.name), "epsilon", bound, epsilon));
            }
            let anywhere = promise.guarantee.rho.map(|rho| (2.0 * rho).sqrt());
            let mu = contest.mu(anywhere, level);
            checks.push(Check::bound("mu", format!("neighbours, {}", pair.name), "mu", mu.bound, mu.promise));
        }
        checks
    }

    fn law_checks(&self, promise: &Promise, level: f64) -> Vec<Check> {
        let p = smallest(self.laws.iter().flat_map(LawTest::p_values));
        let about = format!("distribution of {} linear statistics", self.laws.len());
        let mut checks = vec![Check::p_value("statistics", about, p, level)];
        if let Some(nodes) = &self.nodes {
            let (p, cells) = nodes.p_value();
            let about = format!("histogram of all {} nodes, {cells} cells", promise.l.shape().1);
            checks.push(Check::p_value("histogram", about, p, level / APPROXIMATE));
        }
        let on_grid = |count| Check::exact("grid", "all noise lies on its grid".into(), count == 0);
        checks.extend(self.off_grid.map(on_grid));
        checks
    }

    fn covariance_checks(&self, promise: &Promise, level: f64) -> Vec<Check> {
        let names = [
            ("means", "mean of every step"),
            ("entries", "every covariance of two steps"),
            ("nodes", "variance of every node"),
            ("scale", "one factor of the whole covariance"),
            ("whole", "the whole covariance at once"),
        ];
        if !enough_paths(&promise.law, self.paths) {
            let reason = "noise this sparse or heavy-tailed needs more paths";
            return names.map(|(test, about)| Check::skipped(test, about.into(), reason.into())).into();
        }
        let found = self.moments.judge(promise);
        let values = [found.means, found.entries, found.nodes, found.scale, found.whole];
        let checks = names.iter().zip(values);
        checks.map(|((test, about), p)| Check::p_value(test, (*about).into(), p, level)).collect()
    }
}

/// The statistics whose law is checked: the best test of every pair, some releases, some node estimates.
fn law_tests(promise: &Promise, pairs: &[Pair]) -> Vec<LawTest> {
    let (horizon, nodes) = promise.l.shape();
    let mut directions: Vec<Vec<f64>> = Vec::new();
    directions.extend(pairs.iter().map(|pair| promise.factor.solve(&pair.difference())));
    directions.extend(spread(horizon).map(|step| {
        let mut v = vec![0.0; horizon];
        v[step] = 1.0;
        v
    }));
    directions.extend(spread(nodes).map(|node| promise.factor.solve(&column(&promise.l, node))));
    directions.dedup();
    directions.iter().map(|v| LawTest::new(LinearStatistic::new(promise, v))).collect()
}

/// Up to [`SAMPLED`] places, first and last among them.
fn spread(count: usize) -> impl Iterator<Item = usize> {
    let chosen = count.min(SAMPLED);
    (0..chosen).map(move |i| if chosen == 1 { 0 } else { i * (count - 1) / (chosen - 1) })
}

/// Standard normal numbers of the audit's own (SplitMix64 and the polar transform): they need be independent of the releases,
/// not secret.
struct Dither(u64);

impl Dither {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) >> 11) as f64 * libm::exp2(-53.0)
    }

    fn next(&mut self) -> f64 {
        let radius = (-2.0 * libm::log(1.0 - self.uniform())).sqrt();
        radius * libm::cos(2.0 * std::f64::consts::PI * self.uniform())
    }
}
