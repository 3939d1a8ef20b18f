//! Releases of a vector at any step, in any order, from only key, name and plan.

use super::cells::KeyedCells;
use super::{LazyPlan, LazySampling, Release, check_coordinate};
use crate::noise::{GuardedKey, KeyedNoise, Purpose, StreamName};
use crate::stream::series::check_past_step;
use crate::{Error, Result};

/// The noise of a vector with [`LazySampling::Keyed`], for callers who hold the exact sums themselves: any running sum,
/// at any step, in any order, on any number of workers, in `O(log T)` draws and without a state. The releases are those
/// of a [`LazyVector`](super::LazyVector) of the same plan, key and name.
///
/// It keeps no data between calls, so the caller must keep one rule: **one sum at one step has one value**. Two
/// releases of the same coordinate and step with different sums have the same noise, and their difference is exact.
///
/// ```
/// use evertally::privacy::{Budget, Rho};
/// use evertally::noise::{GuardedKey, SecretKey};
/// use evertally::plan::PlanRequest;
/// use evertally::stream::{LazyPlan, LazyVector, LazySampling, StatelessVector};
///
/// let request = PlanRequest::count(1 << 40, Budget::Zcdp(Rho::new(0.5)?));
/// let plan = request.with_mechanism("path-sum".parse()?).plan()?;
/// let plan = LazyPlan::new(plan, 1_000_000_000_000, LazySampling::Keyed)?;
/// // Two ways to the same release, in one program: nothing else may issue the same noise twice.
/// let key = GuardedKey::allow_noise_reuse(SecretKey::generate()?);
/// let visits = StatelessVector::new(plan.clone(), &key, "visits".parse()?)?;
/// let late = visits.release(987_654_321_000, 1 << 39, 17)?;
/// let early = visits.release(987_654_321_000, 3, 1)?;
/// assert_eq!(visits.release(987_654_321_000, 1 << 39, 17)?, late);
///
/// let mut running = LazyVector::new(plan, &key, "visits".parse()?)?;
/// running.add(987_654_321_000, 1)?;
/// running.tick_through(3)?;
/// assert_eq!(running.read(987_654_321_000)?, early);
/// # Ok::<(), evertally::Error>(())
/// ```
pub struct StatelessVector {
    plan: LazyPlan,
    cells: KeyedCells,
}

impl StatelessVector {
    /// The noise of the named vector.
    ///
    /// # Errors
    /// If the plan's sampling is not [`LazySampling::Keyed`].
    pub fn new(plan: LazyPlan, key: &GuardedKey, name: StreamName) -> Result<Self> {
        if plan.sampling() != LazySampling::Keyed {
            return Err(Error::invalid(format!(
                "only `keyed` sampling draws noise without a state, but the plan has `{}`",
                plan.sampling()
            )));
        }
        let digest = plan.plan().digest();
        let key = key.begin(&name, &digest, Purpose::Sums)?;
        let keyed = KeyedNoise::unrecorded(key, &name, &digest, Purpose::Sums);
        let cells = KeyedCells::new(plan.plan().clone(), keyed);
        Ok(Self { plan, cells })
    }

    /// The plan.
    pub fn plan(&self) -> &LazyPlan {
        &self.plan
    }

    /// The release of a running sum (or of the plan's workload) with this exact value, in multiples of the grid, at
    /// this step.
    ///
    /// # Errors
    /// If the coordinate is beyond the vector, or the step is 0 or beyond the horizon.
    pub fn release(&self, coordinate: u64, step: u64, sum: i64) -> Result<Release> {
        check_coordinate(&self.plan, coordinate)?;
        check_past_step(self.plan.plan(), step)?;
        Ok(self.plan.release(step, sum, self.cells.at(coordinate, step)))
    }
}

impl std::fmt::Debug for StatelessVector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatelessVector").field("plan", &self.plan).finish_non_exhaustive()
    }
}
