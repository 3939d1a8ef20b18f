//! What is audited: anything that turns a stream of events into releases.

use evertally::Result;
use evertally::noise::{SecretKey, StreamName, TestSeed};
use evertally::plan::Plan;
use evertally::stream::RunningSum;

/// The events of every step, each a multiple of the grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    steps: Vec<Vec<i64>>,
}

impl Stream {
    /// No events in so many steps.
    pub fn empty(horizon: usize) -> Self {
        Self { steps: vec![Vec::new(); horizon] }
    }

    /// Adds events of one value to a step, counted from 1.
    ///
    /// # Panics
    /// If there is no such step.
    pub fn add(&mut self, step: usize, value: i64, times: u64) {
        self.steps[step - 1].extend((0..times).map(|_| value));
    }

    /// The events of each step.
    pub fn steps(&self) -> &[Vec<i64>] {
        &self.steps
    }

    /// The running sums, in multiples of the grid.
    pub fn running_sums(&self) -> Vec<f64> {
        let add = |sum: &mut i128, events: &Vec<i64>| {
            *sum += events.iter().map(|&v| i128::from(v)).sum::<i128>();
            Some(*sum as f64)
        };
        self.steps.iter().scan(0, add).collect()
    }
}

/// A mechanism as the audit sees it: streams in, releases out.
pub trait BlackBox {
    /// The releases of all steps, in units of the data. `path` names the noise: two calls with one path use the same
    /// noise, different paths use independent noise.
    ///
    /// # Errors
    /// If the mechanism refuses the stream.
    fn releases(&mut self, stream: &Stream, path: u64) -> Result<Vec<f64>>;

    /// The same, with the state saved and restored after step `after`; `None` where the box has no states.
    fn interrupted(&mut self, _stream: &Stream, _path: u64, _after: usize) -> Option<Result<Vec<f64>>> {
        None
    }
}

/// The library's own [`RunningSum`] under a plan: sampler, keys, rounding and all.
///
/// Every path has a key of its own, and every audit a stream name of its own, so that audits with different seeds share
/// no noise.
#[derive(Debug)]
pub struct PlanBox {
    plan: Plan,
    name: StreamName,
}

impl PlanBox {
    /// The test seed names the noise of the whole audit.
    pub fn new(plan: Plan, seed: TestSeed) -> Self {
        let name = format!("audit {}", seed.0).parse().expect("a stream may have this name");
        Self { plan, name }
    }

    fn key(path: u64) -> SecretKey {
        SecretKey::insecure_from_test_seed(TestSeed(path))
    }
}

impl BlackBox for PlanBox {
    fn releases(&mut self, stream: &Stream, path: u64) -> Result<Vec<f64>> {
        let mut sum = RunningSum::new(self.plan.clone(), &Self::key(path), self.name.clone())?;
        stream.steps().iter().map(|events| step(&mut sum, events)).collect()
    }

    fn interrupted(&mut self, stream: &Stream, path: u64, after: usize) -> Option<Result<Vec<f64>>> {
        let run = || {
            let mut sum = RunningSum::new(self.plan.clone(), &Self::key(path), self.name.clone())?;
            let (before, rest) = stream.steps().split_at(after);
            let mut out = before.iter().map(|events| step(&mut sum, events)).collect::<Result<Vec<_>>>()?;
            let mut sum = RunningSum::restore(self.plan.clone(), &Self::key(path), self.name.clone(), &sum.save())?;
            for events in rest {
                out.push(step(&mut sum, events)?);
            }
            Ok(out)
        };
        Some(run())
    }
}

fn step(sum: &mut RunningSum, events: &[i64]) -> Result<f64> {
    events.iter().try_for_each(|&value| sum.add(value))?;
    Ok(sum.tick()?.value())
}
