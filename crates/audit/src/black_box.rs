//! The subject of an audit: anything that turns a stream of events into releases.

use evertally::Result;
use evertally::noise::{GuardedKey, StreamName, TestSeed};
use evertally::plan::Plan;
use evertally::stream::{LazyPlan, LazySampling, LazyVector, RunningSum};

use crate::promise::Promise;

/// The events of every audited step, each a multiple of the grid. They include those of the steps since the preceding
/// audited one, which have the same effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditStream {
    steps: Vec<Vec<i64>>,
}

impl AuditStream {
    /// A stream of `steps` steps without events.
    pub fn empty(steps: usize) -> Self {
        Self { steps: vec![Vec::new(); steps] }
    }

    /// Adds events of one value to a step; audited steps are numbered from 1.
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
    /// The releases of all audited steps, in units of the data; if an event is added to several running sums, those of
    /// one sum after the other. `path` selects the noise: two calls with one path use the same noise, different paths
    /// use independent noise.
    ///
    /// # Errors
    /// If the mechanism refuses the stream.
    fn releases(&mut self, stream: &AuditStream, path: u64) -> Result<Vec<f64>>;

    /// The same, with the state saved and restored after step `after`; `None` if the box has no states.
    fn interrupted(&mut self, _stream: &AuditStream, _path: u64, _after: usize) -> Option<Result<Vec<f64>>> {
        None
    }
}

/// The library's own [`RunningSum`] under a plan, including sampler, keys and rounding. If a plan adds events to
/// several sums, as a sketch does, the library's own [`LazyVector`] of just these sums.
///
/// Every path has a separate key, and every audit a separate stream name, so that audits with different seeds share no
/// noise.
#[derive(Debug)]
pub struct PlanBox {
    plan: Plan,
    /// Set if an event is added to several sums.
    vector: Option<LazyPlan>,
    steps: Vec<u64>,
    name: StreamName,
}

impl PlanBox {
    /// A plan for one running sum, in all of its steps. The test seed determines the noise of the whole audit.
    pub fn new(plan: Plan, seed: TestSeed) -> Self {
        let steps = (1..=plan.horizon()).collect();
        Self { plan, vector: None, steps, name: Self::name(seed) }
    }

    /// Any plan, in the steps and with the sums of its promise.
    ///
    /// # Errors
    /// If the plan is for several sums, and its noise has no random access.
    pub fn of(plan: Plan, promise: &Promise, seed: TestSeed) -> Result<Self> {
        let several =
            (promise.sums() > 1).then(|| LazyPlan::new(plan.clone(), promise.sums() as u64, LazySampling::Keyed));
        let vector = several.transpose()?;
        Ok(Self { plan, vector, steps: promise.steps().to_vec(), name: Self::name(seed) })
    }

    fn name(seed: TestSeed) -> StreamName {
        format!("audit {}", seed.0).parse().expect("a stream may have this name")
    }

    fn key(path: u64) -> GuardedKey {
        GuardedKey::insecure_from_test_seed(TestSeed(path))
    }

    fn begin(&self, path: u64) -> Result<Subject> {
        let (key, name) = (Self::key(path), self.name.clone());
        Ok(match &self.vector {
            None => Subject::Sum(Box::new(RunningSum::new(self.plan.clone(), &key, name)?)),
            Some(plan) => Subject::Vector(Box::new(LazyVector::new(plan.clone(), &key, name)?)),
        })
    }

    fn resume(&self, path: u64, state: &[u8]) -> Result<Subject> {
        let (key, name) = (Self::key(path), self.name.clone());
        Ok(match &self.vector {
            None => Subject::Sum(Box::new(RunningSum::restore(self.plan.clone(), &key, name, state)?)),
            Some(plan) => Subject::Vector(Box::new(LazyVector::restore(plan.clone(), &key, name, state)?)),
        })
    }
}

/// The audited stream during a run.
enum Subject {
    Sum(Box<RunningSum>),
    Vector(Box<LazyVector>),
}

impl Subject {
    /// Adds the events since the last audited step, moves to the next one, and returns the release of every sum.
    fn step(&mut self, step: u64, events: &[i64]) -> Result<Vec<f64>> {
        match self {
            Self::Sum(sum) => {
                events.iter().try_for_each(|&value| sum.add(value))?;
                let next = sum.step() + 1 == step;
                Ok(vec![if next { sum.tick()? } else { sum.tick_through(step)? }.value()])
            }
            Self::Vector(vector) => {
                let sums = vector.plan().coordinates();
                for &value in events {
                    vector.add_event(&(0..sums).map(|sum| (sum, value)).collect::<Vec<_>>())?;
                }
                vector.tick_through(step)?;
                (0..sums).map(|sum| Ok(vector.read(sum)?.value())).collect()
            }
        }
    }

    fn save(&self) -> Vec<u8> {
        match self {
            Self::Sum(sum) => sum.save(),
            Self::Vector(vector) => vector.save(),
        }
    }
}

/// Reorders releases by step into releases by sum.
fn by_sum(releases: &[Vec<f64>]) -> Vec<f64> {
    let sums = releases.first().map_or(0, Vec::len);
    (0..sums).flat_map(|sum| releases.iter().map(move |of_step| of_step[sum])).collect()
}

impl BlackBox for PlanBox {
    fn releases(&mut self, stream: &AuditStream, path: u64) -> Result<Vec<f64>> {
        let mut subject = self.begin(path)?;
        let steps = self.steps.iter().zip(stream.steps());
        Ok(by_sum(&steps.map(|(&step, events)| subject.step(step, events)).collect::<Result<Vec<_>>>()?))
    }

    fn interrupted(&mut self, stream: &AuditStream, path: u64, after: usize) -> Option<Result<Vec<f64>>> {
        let run = || {
            let mut subject = self.begin(path)?;
            let mut out = Vec::new();
            for (place, (&step, events)) in self.steps.iter().zip(stream.steps()).enumerate() {
                if place == after {
                    subject = self.resume(path, &subject.save())?;
                }
                out.push(subject.step(step, events)?);
            }
            Ok(by_sum(&out))
        };
        Some(run())
    }
}
