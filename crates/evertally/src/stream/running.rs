//! One running sum.

use super::Release;
use super::series::{SumSeries, check_step, check_sum, check_value};
use crate::noise::{ALL, GuardedKey, NoiseClaim, Purpose, SecretKey, StepData, StepGuard, StreamName};
use crate::plan::Plan;
use crate::state::{Layout, SavedSums, StateId};
use crate::{Error, Result};

/// A private running count or sum.
///
/// ```
/// use evertally::{privacy::{Budget, Epsilon}, noise::{GuardedKey, SecretKey}, plan::PlanRequest, stream::RunningSum};
/// let plan = PlanRequest::count(365, Budget::Pure(Epsilon::new(1.0)?)).plan()?;
/// let key = GuardedKey::published_nothing(SecretKey::generate()?);
/// let mut visits = RunningSum::new(plan, &key, "visits".parse()?)?;
/// for day in 0..3 {
///     (0..100 + day).try_for_each(|_| visits.add(1))?;
///     let release = visits.tick()?;
///     println!("day {}: {release} ± {:.1}", release.step(), visits.plan().std_error(release.step()));
/// }
/// # Ok::<(), evertally::Error>(())
/// ```
pub struct RunningSum {
    plan: Plan,
    id: StateId,
    series: SumSeries,
    step: u64,
    /// Claims each step with its sum, if the record of the key knows steps.
    guard: StepGuard,
}

/// The claim of a running sum on its noise.
fn claim<'a>(name: &'a StreamName, plan_digest: &'a [u8; 32], is_resumed: bool) -> NoiseClaim<'a> {
    NoiseClaim { name, plan_digest, purpose: Purpose::Total, part: ALL, is_resumed }
}

impl RunningSum {
    /// A stream before its first step. Costs two hashes; nothing is drawn yet.
    ///
    /// # Errors
    /// If the record of the key shows that this noise was already issued.
    pub fn new(plan: Plan, key: &GuardedKey, name: StreamName) -> Result<Self> {
        plan.check_independent()?;
        let (key, guard) = key.claim_by_steps(claim(&name, &plan.digest(), false))?;
        Ok(Self::with_key(plan, key, name, guard))
    }

    fn with_key(plan: Plan, key: &SecretKey, name: StreamName, guard: StepGuard) -> Self {
        let series = SumSeries::new(&plan, key, &name, Purpose::Total).with_foresight(&plan);
        let id = StateId::new(&plan, key, name, Layout::Total);
        Self { plan, id, series, step: 0, guard }
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The last closed step, 0 before the first.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The **exact** sums of the closed steps and of the open one. For callers that compare data; never publish them.
    ///
    /// ```
    /// # use evertally::noise::{GuardedKey, SecretKey};
    /// # use evertally::{plan::PlanRequest, privacy::{Budget, Epsilon}, stream::RunningSum};
    /// # let plan = PlanRequest::count(10, Budget::Pure(Epsilon::new(1.0)?)).plan()?;
    /// let key = GuardedKey::published_nothing(SecretKey::generate()?);
    /// let mut visits = RunningSum::new(plan, &key, "visits".parse()?)?;
    /// visits.add_sum(3)?;
    /// visits.tick()?;
    /// visits.add_sum(2)?;
    /// assert_eq!(visits.exact_sums(), (3, 2));
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn exact_sums(&self) -> (i64, i64) {
        self.series.sums()
    }

    /// Adds one event to the open step: 1 for a count, else its value in multiples of the grid. `O(1)`.
    ///
    /// # Errors
    /// If the value is outside the plan's bounds, the sum would leave 64 bits, or the last step is closed. The stream
    /// then stays unchanged.
    pub fn add(&mut self, value: i64) -> Result<()> {
        check_step(&self.plan, self.step)?;
        check_value(&self.plan, value)?;
        self.series.add(value)
    }

    /// Adds the sum of any number of events at once to the open step: their number for a count, else the sum of their
    /// values in multiples of the grid. `O(1)`. The caller must make sure that each event is within the plan's bounds,
    /// and, with [`Unit::Person`](crate::privacy::Unit::Person), that each person's events are.
    ///
    /// # Errors
    /// If no events within the bounds have this sum (because its sign is that of no allowed event), the running sum
    /// would leave 64 bits, or the last step is closed. The stream then stays unchanged.
    ///
    /// ```
    /// # use evertally::{privacy::{Budget, Rho}, noise::{GuardedKey, TestSeed}, plan::PlanRequest, stream::RunningSum};
    /// # let plan = PlanRequest::count(100, Budget::Zcdp(Rho::new(0.5)?)).plan()?;
    /// # let key = GuardedKey::insecure_from_test_seed(TestSeed(1));
    /// let mut visits = RunningSum::new(plan, &key, "visits".parse()?)?;
    /// visits.add_sum(1_000_000)?;
    /// assert!(visits.add_sum(-1).is_err());
    /// assert!((visits.tick()?.value() - 1e6).abs() < 100.0);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn add_sum(&mut self, sum: i64) -> Result<()> {
        check_step(&self.plan, self.step)?;
        check_sum(&self.plan, sum)?;
        self.series.add(sum)
    }

    /// Closes the open step and releases the running sum. `O(1)` draws amortized.
    ///
    /// # Errors
    /// After the last step of the horizon, or if the record of the key shows that this step was issued for another sum.
    /// Nothing is closed then.
    pub fn tick(&mut self) -> Result<Release> {
        check_step(&self.plan, self.step)?;
        self.claim_through(self.step + 1)?;
        self.step += 1;
        Ok(self.series.close_through(&self.plan, self.step))
    }

    /// Closes the open step and the empty ones after it through `step`, and releases only the last of them, with the
    /// same value as the last of that many [`tick`](Self::tick)s. `O(log T)` draws for mechanisms with [random
    /// access](crate::mechanism::Abilities::random_access), at most `O(w)` for windows of `w` steps by `rolling-hats`,
    /// else one tick after another.
    ///
    /// # Errors
    /// If `step` is not after the last closed one or is beyond the horizon, and as [`tick`](Self::tick).
    ///
    /// ```
    /// # use evertally::{privacy::{Budget, Rho}, noise::{GuardedKey, TestSeed}, plan::PlanRequest, stream::RunningSum};
    /// let request = PlanRequest::count(1 << 40, Budget::Zcdp(Rho::new(0.5)?));
    /// let request = request.with_mechanism("path-sum".parse()?); // it has random access
    /// let key = GuardedKey::insecure_from_test_seed(TestSeed(1));
    /// let mut visits = RunningSum::new(request.plan()?, &key, "visits".parse()?)?;
    /// visits.add(1)?;
    /// assert_eq!(visits.tick_through(1 << 39)?.step(), 1 << 39);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn tick_through(&mut self, step: u64) -> Result<Release> {
        check_step(&self.plan, step.saturating_sub(1))?;
        if step <= self.step {
            return Err(Error::invalid(format!(
                "step {step} is closed already; the last closed step is {}",
                self.step
            )));
        }
        self.claim_through(step)?;
        self.step = step;
        Ok(self.series.close_through(&self.plan, step))
    }

    /// Claims the steps that closing through `step` issues: all of them have the sum of the open step.
    fn claim_through(&self, step: u64) -> Result<()> {
        let (closed, open) = self.series.sums();
        self.guard.claim(self.step + 1..=step, StepData::Sum(closed + open)) // fits: checked by every `add`
    }

    /// The release of the last closed step again, or `None` before the first.
    pub fn release(&self) -> Option<Release> {
        (self.step > 0).then(|| self.series.release(&self.plan))
    }

    /// The stream's [state](crate::state). It holds exact sums: keep it as safe as the data.
    pub fn save(&self) -> Vec<u8> {
        self.id.seal(&SavedSums {
            step: self.step,
            sums: vec![self.series.sums()],
            memories: self.series.memory().into_iter().collect(),
        })
    }

    /// Continues a saved stream. `O(log T)` draws (`O(step)` for `input`, `honaker-online` and the square roots, which
    /// take `O(step²)` time); none if the state holds a memory of the mechanism.
    ///
    /// # Errors
    /// If the bytes are damaged, of an unknown version, or belong to another plan, stream or key.
    pub fn restore(plan: Plan, key: &GuardedKey, name: StreamName, state: &[u8]) -> Result<Self> {
        plan.check_independent()?;
        let (key, guard) = key.claim_by_steps(claim(&name, &plan.digest(), true))?;
        let mut stream = Self::with_key(plan, key, name, StepGuard::default());
        let saved = stream.id.open_sums(state, stream.plan.horizon(), 1)?;
        stream.series.restore(saved.step, saved.sums[0], saved.memory(0))?;
        stream.step = saved.step;
        stream.guard = guard.resumed_from(saved.step);
        Ok(stream)
    }
}

impl std::fmt::Debug for RunningSum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Neither sums nor noise: a log line must not leak what the releases protect.
        f.debug_struct("RunningSum").field("plan", &self.plan).field("step", &self.step).finish_non_exhaustive()
    }
}
