//! What a plan is asked for.

use super::{Candidate, NoiseKind, Objective, Plan, Search, choose, workload_lower_bound};
use crate::mechanism::{MAX_HORIZON, MechanismName, Mix, Workload};
use crate::number::Grid;
use crate::privacy::selection::Selection;
use crate::privacy::{Budget, Neighbours, Sensitivity, Unit, Values};
use crate::{Error, Result};
use std::collections::BTreeMap;

/// The longest horizon at which running sums and windows are read from one release.
const LONGEST_WITH_SUM: u64 = 1 << 16;

/// What a plan is asked for. Start from [`PlanRequest::count`] and say what differs.
///
/// ```
/// use evertally::plan::PlanRequest;
/// use evertally::privacy::{Budget, Epsilon, Unit};
/// let budget = Budget::Pure(Epsilon::new(1.0)?);
/// let plan = PlanRequest::count(365, budget).with_unit(Unit::person(4)).plan()?;
/// assert!(plan.std_error(1) > 0.0);
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PlanRequest {
    pub(super) horizon: u64,
    pub(super) workload: Workload,
    pub(super) mix: Option<Mix>,
    pub(super) budget: Budget,
    pub(super) unit: Unit,
    pub(super) neighbours: Neighbours,
    pub(super) values: Values,
    pub(super) sums_per_event: u64,
    pub(super) grid: Grid,
    pub(super) mechanism: Option<MechanismName>,
    pub(super) noise: Option<NoiseKind>,
    pub(super) objective: Objective,
    pub(super) search: Search,
    pub(super) selection: Option<Selection>,
    pub(super) meaning: BTreeMap<String, String>,
}

impl PlanRequest {
    /// Counts of events over `horizon` steps (1 ..= 2^62), one event protected, add-remove neighbours, least maximal
    /// error.
    pub fn count(horizon: u64, budget: Budget) -> Self {
        Self {
            horizon,
            workload: Workload::Sum,
            mix: None,
            budget,
            unit: Unit::Event,
            neighbours: Neighbours::AddRemove,
            values: Values::Count,
            sums_per_event: 1,
            grid: Grid::ONE,
            mechanism: None,
            noise: None,
            objective: Objective::Max,
            search: Search::default(),
            selection: None,
            meaning: BTreeMap::new(),
        }
    }

    /// Counts of events without an end: their horizon is [`MAX_HORIZON`], and of all mechanisms only those compete that
    /// are good at every step. Largest and mean errors mean nothing there.
    ///
    /// ```
    /// use evertally::plan::PlanRequest;
    /// use evertally::privacy::{Budget, Rho};
    /// let plan = PlanRequest::unbounded(Budget::Zcdp(Rho::new(0.5)?)).plan()?;
    /// assert!(plan.is_unbounded());
    /// assert!(plan.std_error(24) < 3.0 && plan.std_error(1 << 20) < 8.0);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn unbounded(budget: Budget) -> Self {
        Self::count(MAX_HORIZON, budget)
    }

    /// How far one unit's change can move the data.
    ///
    /// # Errors
    /// If a parameter is out of range, or the numbers do not fit 128 bits.
    pub fn sensitivity(&self) -> Result<Sensitivity> {
        Sensitivity::of(self.unit, self.neighbours, self.values, self.horizon)?.in_sums(self.sums_per_event)
    }

    /// Calibrates the noise, choosing mechanism and law where they are left open.
    ///
    /// # Errors
    /// If a parameter is out of range, the step sensitivity is 0, or the budget cannot be met with the requested noise.
    pub fn plan(self) -> Result<Plan> {
        let best = self.candidates()?.into_iter().next().expect("some candidate fits every budget");
        Plan::build(self, best)
    }

    /// The plan and everything it was chosen from, least error first, by one search.
    ///
    /// # Errors
    /// As [`PlanRequest::plan`].
    pub fn plan_with_candidates(self) -> Result<(Plan, Vec<Candidate>)> {
        let candidates = self.candidates()?;
        let best = candidates.first().expect("some candidate fits every budget").clone();
        Ok((Plan::build(self, best)?, candidates))
    }

    /// Everything that fits the request, least error first.
    ///
    /// # Errors
    /// As [`PlanRequest::plan`].
    pub fn candidates(&self) -> Result<Vec<Candidate>> {
        choose::candidates(self)
    }
}

/// What is asked for, one thing after the other. Nothing is checked before the plan is made.
impl PlanRequest {
    /// Another number of steps `T`, 1 ..= 2^62.
    pub fn with_horizon(self, horizon: u64) -> Self {
        Self { horizon, ..self }
    }

    /// What is published at every step: the running sum, unless this says otherwise. A window as long as the horizon is
    /// the running sum.
    ///
    /// ```
    /// use evertally::mechanism::Workload;
    /// use evertally::plan::PlanRequest;
    /// use evertally::privacy::{Budget, Rho};
    /// let year = PlanRequest::count(365, Budget::Zcdp(Rho::new(0.5)?));
    /// let weeks = year.with_workload(Workload::Window(7)).plan()?;
    /// // The square of the Lebesgue constant of seven steps is 3.16.
    /// assert!((weeks.variance(365) - 3.16).abs() < 0.05);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn with_workload(self, workload: Workload) -> Self {
        Self { workload, mix: None, ..self }
    }

    /// Several workloads that are read from one release, with what their variances weigh, each in units of the least that
    /// is [known](super::workload_lower_bound) to be possible. [`Plan::readings`] has a plan for each.
    ///
    /// ```
    /// use evertally::mechanism::{Mix, Workload};
    /// use evertally::plan::PlanRequest;
    /// use evertally::privacy::{Budget, Rho};
    /// let year = PlanRequest::count(365, Budget::Zcdp(Rho::new(0.5)?));
    /// let mix = Mix::new(&[(Workload::Sum, 1.0), (Workload::Window(7), 1.0)])?;
    /// let readings = year.with_mix(mix).plan()?.readings();
    /// // Half of the budget each would give variances of 14.0 and 6.4.
    /// assert!(readings[0].variance(365) < 10.4 && readings[1].variance(365) < 4.5);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn with_mix(self, mix: Mix) -> Self {
        Self { workload: mix.readings()[0].0, mix: Some(mix), ..self }
    }

    /// Another budget for the whole history.
    pub fn with_budget(self, budget: Budget) -> Self {
        Self { budget, ..self }
    }

    /// Whose data are protected; one event, unless this says otherwise.
    pub fn with_unit(self, unit: Unit) -> Self {
        Self { unit, ..self }
    }

    /// What one unit's change may be; its events are added or removed, unless this says otherwise.
    pub fn with_neighbours(self, neighbours: Neighbours) -> Self {
        Self { neighbours, ..self }
    }

    /// What one event contributes; 1, unless this says otherwise.
    pub fn with_values(self, values: Values) -> Self {
        Self { values, ..self }
    }

    /// How many running sums one event is added to, at most, with a value between the bounds in each; 1 for counts and
    /// groups, the number of rows for a sketch. Every sum has noise of its own, and the budget covers all of them.
    pub fn with_sums_per_event(self, sums_per_event: u64) -> Self {
        Self { sums_per_event, ..self }
    }

    /// The distance between neighbouring values; noise lives on the same grid. 1, unless this says otherwise.
    pub fn with_grid(self, grid: Grid) -> Self {
        Self { grid, ..self }
    }

    /// This factorization; the one with the least error where none is named.
    pub fn with_mechanism(self, mechanism: MechanismName) -> Self {
        self.with_optional_mechanism(Some(mechanism))
    }

    /// This factorization, or for `None` the one with the least error.
    pub fn with_optional_mechanism(self, mechanism: Option<MechanismName>) -> Self {
        Self { mechanism, ..self }
    }

    /// This noise law; the one with the least error that the budget allows where none is named.
    pub fn with_noise(self, noise: NoiseKind) -> Self {
        self.with_optional_noise(Some(noise))
    }

    /// This noise law, or for `None` the one with the least error that the budget allows.
    pub fn with_optional_noise(self, noise: Option<NoiseKind>) -> Self {
        Self { noise, ..self }
    }

    /// Which error to minimise; the largest, unless this says otherwise.
    pub fn with_objective(self, objective: Objective) -> Self {
        Self { objective, ..self }
    }

    /// How to search; this is no part of the plan.
    pub fn with_search(self, search: Search) -> Self {
        Self { search, ..self }
    }

    /// Shows keys that nobody declared, [selected](crate::privacy::selection) in this way: its δ is added to what the
    /// budget promises.
    pub fn with_selection(self, selection: Selection) -> Self {
        Self { selection: Some(selection), ..self }
    }

    /// What steps, groups or values mean, in words of the caller's: one more entry. Public, and part of the plan's
    /// digest: plans that differ here have independent noise.
    pub fn with_meaning(mut self, of: impl Into<String>, meaning: impl Into<String>) -> Self {
        self.meaning.insert(of.into(), meaning.into());
        self
    }

    /// All of these entries in the place of those so far.
    pub fn with_meanings(self, meaning: BTreeMap<String, String>) -> Self {
        Self { meaning, ..self }
    }
}

/// What was asked for.
impl PlanRequest {
    /// Number of steps `T`.
    pub fn horizon(&self) -> u64 {
        self.horizon
    }

    /// Whether there is no end: see [`unbounded`](Self::unbounded).
    pub fn is_unbounded(&self) -> bool {
        self.horizon == MAX_HORIZON
    }

    /// Whether running sums without an end are published, whose errors grow for ever.
    pub(super) fn grows_without_end(&self) -> bool {
        self.is_unbounded() && self.workload.is_sum()
    }

    /// What is published at every step.
    pub fn workload(&self) -> Workload {
        self.workload
    }

    /// The workloads that are read from one release, if there are several.
    pub fn mix(&self) -> Option<Mix> {
        self.mix
    }

    /// The same over the horizon, where all must still be different.
    pub(super) fn own_mix(&self) -> Result<Option<Mix>> {
        let Some(mix) = self.mix else { return Ok(None) };
        let own = mix.over(self.horizon, |_| 1.0);
        Mix::new(own.readings()).map(Some).map_err(|_| {
            let horizon = self.horizon;
            Error::invalid(format!(
                "over a horizon of {horizon} steps two of these workloads are the same; leave one out"
            ))
        })
    }

    /// The same with weights of plain variances.
    pub(super) fn scaled_mix(&self) -> Result<Option<Mix>> {
        let Some(own) = self.own_mix()? else { return Ok(None) };
        if own.workloads().any(Workload::is_sum) && self.horizon > LONGEST_WITH_SUM {
            return Err(Error::invalid(format!(
                "running sums and windows are read from one release over {LONGEST_WITH_SUM} steps at most; divide the \
                 budget between a plan for each"
            )));
        }
        let spread = self.sensitivity()?.spread;
        let least = |workload| workload_lower_bound(workload, self.horizon, spread);
        Ok(Some(own.over(self.horizon, |workload| least(workload).powi(-2))))
    }

    /// What may be spent on the whole history.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// Whose data are protected.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// What one unit's change may be.
    pub fn neighbours(&self) -> Neighbours {
        self.neighbours
    }

    /// What one event contributes.
    pub fn values(&self) -> Values {
        self.values
    }

    /// How many running sums one event is added to, at most.
    pub fn sums_per_event(&self) -> u64 {
        self.sums_per_event
    }

    /// The distance between neighbouring values.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// The factorization; in a plan, the one that was chosen.
    pub fn mechanism(&self) -> Option<MechanismName> {
        self.mechanism
    }

    /// The noise law; in a plan, the one that was chosen.
    pub fn noise(&self) -> Option<NoiseKind> {
        self.noise
    }

    /// Which error is minimised.
    pub fn objective(&self) -> Objective {
        self.objective
    }

    /// How is searched; in a plan, the default.
    pub fn search(&self) -> &Search {
        &self.search
    }

    /// How keys that nobody declared are selected, if they are.
    pub fn selection(&self) -> Option<Selection> {
        self.selection
    }

    /// What steps, groups and values mean.
    pub fn meaning(&self) -> &BTreeMap<String, String> {
        &self.meaning
    }
}
