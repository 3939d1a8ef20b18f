//! The statistics collected from releases, and the checks of them.

use crate::black_box::BlackBox;
use crate::covariance::{Moments, enough_paths, smallest};
use crate::dither::Dither;
use crate::linear::column;
use crate::nodes::NodeTable;
use crate::pair::Pair;
use crate::privacy::NeighbourTest;
use crate::promise::Promise;
use crate::report::Check;
use crate::statistic::{LawTest, LinearStatistic};
use evertally::{Error, Result};

/// The factor by which the level of a check is lowered if it uses a normal or χ² approximation.
pub(crate) const APPROXIMATE: f64 = 10.0;

/// A value farther than this from a multiple of the noise grid is off the grid; sums of doubles stay far closer.
const OFF_GRID: f64 = 1e-3;

/// Calibration rounds to the safe side; values computed here from its results may be off by this much.
const ROUNDED: f64 = 1e-6;

/// Nodes and steps whose individual law is checked.
const SAMPLED: usize = 8;

/// The statistics collected from releases.
pub(crate) struct Observations {
    neighbour_tests: Vec<NeighbourTest>,
    laws: Vec<LawTest>,
    nodes: Option<NodeTable>,
    moments: Moments,
    /// The number of releases off the noise grid, if all must lie on it: such releases indicate noise drawn in floating
    /// point, whose low digits reveal the data.
    off_grid: Option<u64>,
    paths: f64,
}

impl Observations {
    pub(crate) fn new(promise: &Promise, pairs: &[Pair]) -> Result<Self> {
        let steps = promise.steps.len();
        for pair in pairs {
            let lengths = [&pair.first, &pair.second].map(|stream| stream.steps().len());
            if lengths != [steps; 2] || pair.difference().iter().all(|d| *d == 0.0) {
                return Err(Error::invalid(format!(
                    "the two streams must differ and have {steps} steps each, as in the promise"
                )));
            }
        }
        let neighbour_tests = pairs.iter().map(|pair| NeighbourTest::new(promise, pair)).collect();
        let nodes = NodeTable::new(promise);
        let off_grid = promise.is_whole().then_some(0);
        let (laws, moments) = (law_tests(promise, pairs), Moments::new(promise.releases()));
        Ok(Self { neighbour_tests, laws, nodes, moments, off_grid, paths: 0.0 })
    }

    pub(crate) fn draw(
        &mut self,
        subject: &mut dyn BlackBox,
        promise: &Promise,
        pairs: &[Pair],
        paths: u64,
        progress: &mut dyn FnMut(),
    ) -> Result<()> {
        let mut dither = Dither(0);
        let mut path = 0;
        for (pair, test) in pairs.iter().zip(&mut self.neighbour_tests) {
            for (side, stream) in [&pair.first, &pair.second].into_iter().enumerate() {
                let truth = promise.of_all_sums(&stream.running_sums());
                for _ in 0..paths {
                    let mut residual = subject.releases(stream, path)?;
                    residual.iter_mut().zip(&truth).for_each(|(r, truth)| *r -= truth);
                    let normal = dither.next();
                    test.observe(side, &residual, normal);
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

    /// The number of checks that share the significance.
    pub(crate) fn statistical_checks(&self, promise: &Promise) -> usize {
        let bounds = 1 + usize::from(promise.guarantee.epsilon_delta.is_some());
        bounds * self.neighbour_tests.len() + 1 + usize::from(self.nodes.is_some()) + 5 + 1
    }

    pub(crate) fn privacy_checks(&self, promise: &Promise, pairs: &[Pair], level: f64) -> Vec<Check> {
        let mut checks = Vec::new();
        for (test, pair) in self.neighbour_tests.iter().zip(pairs) {
            if let Some((epsilon, delta)) = promise.guarantee.epsilon_delta {
                let bound = test.epsilon(delta, level);
                checks.push(Check::bound("epsilon", format!("neighbours, {}", pair.name), "epsilon", bound, epsilon));
            }
            let anywhere = promise.guarantee.rho.map(|rho| (2.0 * rho).sqrt());
            let mu = test.mu(anywhere, level);
            checks.push(Check::bound("mu", format!("neighbours, {}", pair.name), "mu", mu.bound, mu.promise));
        }
        // The common part of the streams does not matter: one pair represents all.
        let spent = self.neighbour_tests.first().and_then(NeighbourTest::spent);
        checks.extend(spent.map(|spent| {
            let about = format!("the noise is as wide as the budget requires: {:.4} % of that shows", 100.0 * spent);
            Check::exact("budget", about, spent <= 1.0 + ROUNDED)
        }));
        checks
    }

    pub(crate) fn law_checks(&self, promise: &Promise, level: f64) -> Vec<Check> {
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

    pub(crate) fn covariance_checks(&self, promise: &Promise, level: f64) -> Vec<Check> {
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

/// The statistics whose law is checked: the best test of every pair, some releases, and some node estimates.
fn law_tests(promise: &Promise, pairs: &[Pair]) -> Vec<LawTest> {
    let (releases, nodes) = promise.l.shape();
    let mut directions: Vec<Vec<f64>> = Vec::new();
    directions.extend(pairs.iter().map(|pair| promise.factor.solve(&promise.of_all_sums(&pair.difference()))));
    directions.extend(spread(releases).map(|step| {
        let mut v = vec![0.0; releases];
        v[step] = 1.0;
        v
    }));
    directions.extend(spread(nodes).map(|node| promise.factor.solve(&column(&promise.l, node))));
    directions.dedup();
    // A node that no step reads affects no release.
    directions.retain(|v| v.iter().any(|v| *v != 0.0));
    directions.iter().map(|v| LawTest::new(LinearStatistic::new(promise, v))).collect()
}

/// Up to [`SAMPLED`] indices, including the first and the last.
fn spread(count: usize) -> impl Iterator<Item = usize> {
    let chosen = count.min(SAMPLED);
    (0..chosen).map(move |i| if chosen == 1 { 0 } else { i * (count - 1) / (chosen - 1) })
}
