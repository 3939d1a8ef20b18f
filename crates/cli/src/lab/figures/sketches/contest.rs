//! One sketch over one stream, with one of the noise variants.

use evertally::Result;
use evertally::noise::{GuardedKey, TestSeed};
use evertally::plan::PlanRequest;
use evertally::privacy::{Budget, Rho};
use evertally::sketch::baselines::{BufferedSketch, EagerSketch};
use evertally::sketch::{CountSketch, Shape, SketchPlan, Table};
use evertally::stream::LazySampling;
use std::time::{Duration, Instant};

/// Number of different items.
const ITEMS: u64 = 100_000;
/// Queries whose error is measured, spread over the second half of the horizon.
const QUERIES: u64 = 2000;
/// Steps over which time is measured.
const TIMED_STEPS: u64 = 1 << 14;
/// Steps of a round.
const STEPS_PER_ROUND: u64 = 64;
/// The time limit of the all-cells baseline (it runs at least one step), and its largest table.
const MAX_EAGER_TIME: Duration = Duration::from_millis(300);
const MAX_EAGER_CELLS: u64 = 1 << 20;

/// How a sketch gets its noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoiseVariant {
    /// Lazily, by bridges in floating point.
    Lazy,
    /// Lazily, from keyed variables.
    Keyed,
    /// Noise in every cell at every step.
    Eager,
    /// Noise for batches of events.
    Buffered,
}

impl NoiseVariant {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Lazy => "lazy, float",
            Self::Keyed => "lazy, keyed",
            Self::Eager => "eager",
            Self::Buffered => "buffered",
        }
    }
}

/// Width of the table, and number of steps with one event each.
#[derive(Clone, Copy, Debug)]
pub(super) struct SketchBenchmark {
    pub(super) width: u64,
    pub(super) horizon: u64,
}

/// The measurements.
pub(super) struct Outcome {
    /// Time of an event, its step and a query.
    pub(super) nanoseconds: f64,
    /// Root mean square error of the queries.
    pub(super) error: f64,
    pub(super) queries: u64,
}

/// Zipf's law with exponent 1, by inverting the continuous distribution; the same stream every time.
struct ZipfStream {
    state: u64,
}

impl ZipfStream {
    fn item(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let uniform = (self.state >> 11) as f64 / 2f64.powi(53);
        (ITEMS as f64).powf(uniform) as u64
    }
}

/// The parts that all variants share.
trait Sketch {
    fn event(&mut self, item: u64) -> Result<()>;
    fn step(&mut self) -> Result<()>;
    fn query(&mut self, item: u64) -> Result<f64>;
}

impl Sketch for CountSketch {
    fn event(&mut self, item: u64) -> Result<()> {
        self.add(item, 1)
    }
    fn step(&mut self) -> Result<()> {
        self.tick().map(|_| ())
    }
    fn query(&mut self, item: u64) -> Result<f64> {
        self.estimate(item).map(|estimate| estimate.value)
    }
}

impl Sketch for EagerSketch {
    fn event(&mut self, item: u64) -> Result<()> {
        self.add(item, 1)
    }
    fn step(&mut self) -> Result<()> {
        self.tick().map(|_| ())
    }
    fn query(&mut self, item: u64) -> Result<f64> {
        self.estimate(item)
    }
}

impl Sketch for BufferedSketch {
    fn event(&mut self, item: u64) -> Result<()> {
        self.add(item, 1)
    }
    fn step(&mut self) -> Result<()> {
        self.tick().map(|_| ())
    }
    fn query(&mut self, item: u64) -> Result<f64> {
        Ok(self.estimate(item))
    }
}

impl SketchBenchmark {
    /// Runs all variants except those that would take too long.
    pub(super) fn run(self) -> Result<Vec<(NoiseVariant, Outcome)>> {
        let cells = Table::new(5, self.width)?.cells();
        let mut outcomes = vec![];
        for way in [NoiseVariant::Lazy, NoiseVariant::Keyed, NoiseVariant::Buffered] {
            let mut nanoseconds = self.timed(&mut *self.sketch(way, Some(u64::MAX))?, Duration::MAX)?;
            if way == NoiseVariant::Buffered {
                // A step with a batch, divided by the steps of a batch.
                nanoseconds += self.timed(&mut *self.sketch(way, Some(1))?, Duration::ZERO)? / cells as f64;
            }
            let (error, queries) = self.error(way)?;
            outcomes.push((way, Outcome { nanoseconds, error, queries }));
            if way == NoiseVariant::Keyed && cells <= MAX_EAGER_CELLS {
                // The same noise.
                let nanoseconds = self.timed(&mut *self.sketch(NoiseVariant::Eager, None)?, MAX_EAGER_TIME)?;
                outcomes.push((NoiseVariant::Eager, Outcome { nanoseconds, error, queries }));
            }
        }
        Ok(outcomes)
    }

    /// Builds the sketch. A buffered sketch takes `batch` steps per batch, by default as many as there are cells.
    fn sketch(self, way: NoiseVariant, batch: Option<u64>) -> Result<Box<dyn Sketch>> {
        let horizon = self.horizon;
        let request = PlanRequest::count(horizon, Budget::Zcdp(Rho::new(0.5)?));
        let request = request.with_mechanism("path-sum".parse()?);
        let sampling = if way == NoiseVariant::Keyed || way == NoiseVariant::Eager {
            LazySampling::Keyed
        } else {
            LazySampling::Float
        };
        let plan = SketchPlan::new(request, Shape::CountSketch(Table::new(5, self.width)?), sampling)?;
        let (key, name) = (GuardedKey::insecure_from_test_seed(TestSeed(1)), "contest".parse()?);
        Ok(match way {
            NoiseVariant::Lazy | NoiseVariant::Keyed => Box::new(CountSketch::new(plan, &key, name)?),
            NoiseVariant::Eager => Box::new(EagerSketch::new(plan, &key, name)?),
            NoiseVariant::Buffered => Box::new(BufferedSketch::new(plan, &key, name, batch)?),
        })
    }

    /// Nanoseconds per step: the median over short rounds of some thousands of steps, or up to `limit`. Other programs
    /// only add time, and only to a few rounds.
    fn timed(self, sketch: &mut dyn Sketch, limit: Duration) -> Result<f64> {
        let mut stream = ZipfStream { state: 1 };
        let (start, mut rounds, mut done) = (Instant::now(), vec![], 0);
        while done < TIMED_STEPS.min(self.horizon) && (done == 0 || start.elapsed() < limit) {
            let steps = if limit == Duration::MAX { STEPS_PER_ROUND.min(self.horizon - done) } else { 1 };
            let round = Instant::now();
            for _ in 0..steps {
                let item = stream.item();
                sketch.event(item)?;
                sketch.step()?;
                std::hint::black_box(sketch.query(item)?);
            }
            rounds.push(round.elapsed().as_nanos() as f64 / steps as f64);
            done += steps;
        }
        rounds.sort_by(f64::total_cmp);
        Ok(rounds[rounds.len() / 2])
    }

    /// Root mean square error of queries for items of the stream, against their true counts at that step.
    fn error(self, way: NoiseVariant) -> Result<(f64, u64)> {
        let mut sketch = self.sketch(way, None)?;
        let mut counts = vec![0u64; ITEMS as usize + 1];
        let mut stream = ZipfStream { state: 2 };
        let every = (self.horizon / 2 / QUERIES).max(1);
        let (mut squares, mut queries) = (0.0, 0);
        for step in 1..=self.horizon {
            let item = stream.item();
            counts[item as usize] += 1;
            sketch.event(item)?;
            sketch.step()?;
            if step > self.horizon / 2 && step % every == 0 {
                let asked = stream.item();
                squares += (sketch.query(asked)? - counts[asked as usize] as f64).powi(2);
                queries += 1;
            }
        }
        Ok(((squares / queries as f64).sqrt(), queries))
    }
}
