//! Releases of running sums that the caller holds: at any step, in any order, from only key, name and plan.

use super::Release;
use super::series::{SumSeries, check_past_step, check_sum};
use super::sum_noise::SumNoise;
use crate::mechanism::{Cursor, Workload};
use crate::noise::{GroupNoise, GuardedKey, KeyedNoise, Purpose, SecretKey, StreamName};
use crate::plan::Plan;
use crate::{Error, Result};

/// Releases of running sums for callers who hold the exact sums themselves, as cluster engines do: any group, at any
/// step, in any order, on any number of workers, in `O(log T)` draws and without a state. The releases are those of a
/// [`RunningSum`](super::RunningSum) or of [`GroupedSums`](super::GroupedSums) of the same plan, key and name.
///
/// It supports mechanisms with [random access](crate::mechanism::Mechanism::has_random_access); for the others, a
/// [`StepPass`] per group releases step after step.
///
/// It keeps no data between calls, so the caller must keep three rules: **one sum at one step has one value** (two
/// releases of one group and step with different sums have the same noise, and their difference is exact), a unit
/// adds to the sums no more than the plan allows, and if the plan [correlates](Plan::correlation) the noise of groups,
/// no more groups are released than it is for.
///
/// ```
/// use evertally::{privacy::{Budget, Rho}, noise::GuardedKey, plan::PlanRequest, SecretKey};
/// use evertally::stream::{GroupedSums, Groups, StatelessSums};
/// let request = PlanRequest::count(1000, Budget::Zcdp(Rho::new(0.5)?)).with_mechanism("path-sum".parse()?);
/// // Two ways to the same release, in one program: nothing else may issue the same noise twice.
/// let (plan, key) = (request.plan()?, GuardedKey::allow_noise_reuse(SecretKey::generate()?));
/// let sums = StatelessSums::new(plan.clone(), &key, "flights".parse()?)?;
/// let (late, early) = (sums.of_group(b"JFK").release(700, 41_000)?, sums.of_group(b"JFK").release(1, 55)?);
///
/// let mut flights = GroupedSums::new(plan, &key, "flights".parse()?, Groups::new(["EWR", "JFK"])?)?;
/// flights.add_sum(1, 55)?;
/// assert_eq!(flights.tick()?[1], early);
/// assert_eq!(late.step(), 700);
/// # Ok::<(), evertally::Error>(())
/// ```
pub struct StatelessSums {
    plan: Plan,
    total: SumNoise,
    groups: GroupNoise,
}

/// The running sum of one group of [`StatelessSums`], or that of all events.
pub struct StatelessSum<'s> {
    plan: &'s Plan,
    noise: SumNoise,
    cursor: Box<dyn Cursor>,
}

impl StatelessSums {
    /// The noise of the named stream.
    ///
    /// # Errors
    /// If the mechanism of the plan has no random access, or as [`RunningSum::new`](super::RunningSum::new).
    pub fn new(plan: Plan, key: &GuardedKey, name: StreamName) -> Result<Self> {
        let mechanism = plan.mechanism();
        if !mechanism.has_random_access() || matches!(mechanism.workload(), Workload::Decay(_)) {
            return Err(Error::invalid(format!(
                "the noise of `{}` depends on all earlier steps: go through the steps of each group in order, or \
                 plan a mechanism with random access, such as `binary` or `path-sum`",
                mechanism.name()
            )));
        }
        let digest = plan.digest();
        key.begin(&name, &digest, Purpose::Group(b""))?;
        let key = key.begin(&name, &digest, Purpose::Total)?;
        let total = KeyedNoise::unrecorded(key, &name, &digest, Purpose::Total);
        let total = SumNoise::new(&plan, total, key, &name);
        let groups = GroupNoise::new(key, &name, &digest);
        Ok(Self { plan, total, groups })
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The one sum of a stream without groups: that of a [`RunningSum`](super::RunningSum).
    ///
    /// # Errors
    /// If the plan correlates the noise of groups.
    pub fn total(&self) -> Result<StatelessSum<'_>> {
        self.plan.check_independent()?;
        Ok(StatelessSum::new(&self.plan, self.total.clone()))
    }

    /// The sum of a group, by its name among [`Groups`](super::Groups). Costs a hash.
    pub fn of_group(&self, name: &[u8]) -> StatelessSum<'_> {
        StatelessSum::new(&self.plan, self.total.with_own(self.groups.of(name)))
    }
}

impl<'s> StatelessSum<'s> {
    fn new(plan: &'s Plan, noise: SumNoise) -> Self {
        Self { plan, noise, cursor: plan.mechanism().cursor() }
    }

    /// The release of the running sum (or of the plan's workload) with this exact value at this step, in multiples of
    /// the grid. `O(log T)` draws.
    ///
    /// # Errors
    /// If the step is 0 or beyond the horizon, or no events within the bounds have this sum.
    pub fn release(&mut self, step: u64, sum: i64) -> Result<Release> {
        check_past_step(self.plan, step)?;
        check_sum(self.plan, sum)?;
        let noise = &self.noise;
        let drawn = self.cursor.seek(step, &mut |node| noise.draw(node));
        Ok(Release::new(self.plan, step, sum, drawn))
    }
}

impl std::fmt::Debug for StatelessSums {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatelessSums").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for StatelessSum<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatelessSum").field("plan", self.plan).finish_non_exhaustive()
    }
}

/// One pass over the steps of one group whose sums the caller holds, for every mechanism: feed in each step's addition
/// in order, and get the release of any step. The rules are those of [`StatelessSums`].
///
/// ```
/// use evertally::{privacy::{Budget, Rho}, noise::GuardedKey, plan::PlanRequest, SecretKey};
/// use evertally::stream::{RunningSum, StepPass};
/// let plan = PlanRequest::count(365, Budget::Zcdp(Rho::new(0.5)?)).plan()?;
/// // Two ways to the same release, in one program: nothing else may issue the same noise twice.
/// let key = GuardedKey::allow_noise_reuse(SecretKey::generate()?);
/// let mut pass = StepPass::total(plan.clone(), &key, "visits".parse()?)?;
/// assert_eq!(pass.release(100, 7)?.step(), 100); // 7 in step 100, nothing before
/// let mut visits = RunningSum::new(plan, &key, "visits".parse()?)?;
/// visits.tick_through(99)?;
/// visits.add_sum(7)?;
/// assert_eq!(visits.tick()?, pass.release(100, 0)?); // the last one once more
/// # Ok::<(), evertally::Error>(())
/// ```
pub struct StepPass {
    plan: Plan,
    series: SumSeries,
    step: u64,
}

impl StepPass {
    /// The one sum of a stream without groups, before the first step.
    ///
    /// # Errors
    /// As [`RunningSum::new`](super::RunningSum::new).
    pub fn total(plan: Plan, key: &GuardedKey, name: StreamName) -> Result<Self> {
        plan.check_independent()?;
        let key = key.begin(&name, &plan.digest(), Purpose::Total)?;
        Ok(Self::new(plan, key, &name, Purpose::Total))
    }

    /// The sum of a group, by its name among [`Groups`](super::Groups).
    ///
    /// # Errors
    /// As [`RunningSum::new`](super::RunningSum::new).
    pub fn for_group(plan: Plan, key: &GuardedKey, name: StreamName, group: &[u8]) -> Result<Self> {
        let key = key.begin_group(&name, &plan.digest(), group)?;
        Ok(Self::new(plan, key, &name, Purpose::Group(group)))
    }

    fn new(plan: Plan, key: &SecretKey, name: &StreamName, purpose: Purpose<'_>) -> Self {
        let series = SumSeries::new(&plan, key, name, purpose);
        Self { plan, series, step: 0 }
    }

    /// Closes the steps through this one and releases it; this step adds `added`, skipped ones add nothing. The last
    /// step can be released again, with nothing added.
    ///
    /// # Errors
    /// If the step is before the last one or beyond the horizon, something is added to a step that is closed, no events
    /// within the bounds have this sum, or the running sum leaves 64 bits. The pass then stays unchanged.
    pub fn release(&mut self, step: u64, added: i64) -> Result<Release> {
        check_past_step(&self.plan, step)?;
        check_sum(&self.plan, added)?;
        if step < self.step || (step == self.step && added != 0) {
            let last = self.step;
            return Err(Error::invalid(format!("step {step} comes after step {last}: pass steps in order, each once")));
        }
        if step > self.step {
            self.series.check_room(added)?;
            if step > self.step + 1 {
                self.series.close_through(&self.plan, step - 1);
            }
            self.series.add(added)?;
            self.series.close_through(&self.plan, step);
            self.step = step;
        }
        Ok(self.series.release(&self.plan))
    }
}

impl std::fmt::Debug for StepPass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StepPass").field("plan", &self.plan).field("step", &self.step).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::TestSeed;
    use crate::plan::PlanRequest;
    use crate::privacy::{Budget, Rho};
    use crate::stream::{GroupedSums, Groups, RunningSum};

    const HORIZON: u64 = 40;

    fn plan(mechanism: &str, workload: &str) -> Plan {
        let request = PlanRequest::count(HORIZON, Budget::Zcdp(Rho::new(0.5).unwrap()));
        let request = request.with_workload(workload.parse().unwrap());
        request.with_mechanism(mechanism.parse().unwrap()).plan().unwrap()
    }

    /// The addition of each step of a group.
    fn added(group: u64, step: u64) -> i64 {
        if (step * 7 + group).is_multiple_of(3) { ((step * 31 + group * 17) % 11) as i64 } else { 0 }
    }

    /// Every mechanism: the pass gives the releases of all groups, however many steps it goes over; those with random
    /// access give them in any order.
    #[test]
    fn releases_are_those_of_running_sums() {
        let key = GuardedKey::insecure_from_test_seed(TestSeed(5));
        let name: StreamName = "twin".parse().unwrap();
        let mut at_random = 0;
        for (mechanism, workload) in [
            ("binary", "sum"),
            ("smooth", "sum"),
            ("kary(k=5)", "sum"),
            ("subtract(k=19)", "sum"),
            ("path-sum", "sum"),
            ("honaker-online", "sum"),
            ("consistent(k=4)", "sum"),
            ("sqrt", "sum"),
            ("blt(buffers=3)", "sum"),
            ("dense", "sum"),
            ("input", "sum"),
            ("output", "sum"),
            ("output", "window(7)"),
            ("output", "increments"),
        ] {
            let plan = plan(mechanism, workload);
            let names = ["a", "b"];
            let mut sums = GroupedSums::new(plan.clone(), &key, name.clone(), Groups::new(names).unwrap()).unwrap();
            let mut total = RunningSum::new(plan.clone(), &key, name.clone()).unwrap();
            let mut passes: Vec<StepPass> = names
                .iter()
                .map(|group| StepPass::for_group(plan.clone(), &key, name.clone(), group.as_bytes()).unwrap())
                .collect();
            let mut whole = StepPass::total(plan.clone(), &key, name.clone()).unwrap();
            let mut expected = Vec::new();
            for step in 1..=HORIZON {
                for group in 0..2 {
                    sums.add_sum(group as usize, added(group, step)).unwrap();
                }
                total.add_sum(added(0, step)).unwrap();
                let releases = sums.tick().unwrap().to_vec();
                for (group, pass) in (0..).zip(&mut passes) {
                    // Group 1 is released only at steps with data.
                    if group == 0 || added(group, step) != 0 {
                        let release = pass.release(step, added(group, step)).unwrap();
                        assert_eq!(release, releases[group as usize], "{mechanism}, step {step}");
                        assert_eq!(pass.release(step, 0).unwrap(), release);
                    }
                }
                assert_eq!(whole.release(step, added(0, step)).unwrap(), total.tick().unwrap());
                expected.push(releases);
            }
            let Ok(stateless) = StatelessSums::new(plan.clone(), &key, name.clone()) else { continue };
            at_random += 1;
            let read = |group: u64, step: u64| -> i64 {
                let reach = plan.mechanism().workload().reach(step);
                (1..=step).filter(|at| at + reach > step).map(|at| added(group, at)).sum()
            };
            let mut handles = names.map(|group| stateless.of_group(group.as_bytes()));
            for turn in 0..HORIZON {
                let step = turn * 23 % HORIZON + 1; // all steps, forth and back
                for (group, handle) in (0..).zip(&mut handles) {
                    let release = handle.release(step, read(group, step)).unwrap();
                    assert_eq!(release, expected[step as usize - 1][group as usize], "{mechanism}, step {step}");
                }
                let mut total = stateless.total().unwrap();
                assert_eq!(total.release(step, 3).unwrap().step(), step);
            }
        }
        assert!(at_random >= 6, "{at_random}");
    }

    #[test]
    fn what_is_no_step_or_sum_is_refused() {
        let key = GuardedKey::insecure_from_test_seed(TestSeed(5));
        let name: StreamName = "twin".parse().unwrap();
        let sums = StatelessSums::new(plan("binary", "sum"), &key, name.clone()).unwrap();
        let mut total = sums.total().unwrap();
        assert!(total.release(0, 1).is_err());
        assert!(total.release(HORIZON + 1, 1).is_err());
        assert!(total.release(1, -1).is_err(), "counts are never negative");
        let error = StatelessSums::new(plan("sqrt", "sum"), &key, name.clone()).unwrap_err().to_string();
        assert!(error.contains("`sqrt`") && error.contains("steps of each group in order"), "{error}");
        let mut pass = StepPass::total(plan("sqrt", "sum"), &key, name).unwrap();
        let first = pass.release(3, i64::MAX).unwrap();
        assert!(pass.release(2, 0).is_err() && pass.release(3, 1).is_err() && pass.release(HORIZON + 1, 0).is_err());
        assert!(pass.release(9, 1).is_err(), "beyond 64 bits");
        assert_eq!(pass.release(3, 0).unwrap(), first, "as it was");
    }
}
