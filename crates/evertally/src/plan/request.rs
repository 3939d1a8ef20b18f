//! The request for a plan.

use super::correlation::{Correlation, GroupAim, GroupChoice};
use super::{NoiseKind, Objective, Search, workload_lower_bound};
use crate::mechanism::{MAX_HORIZON, MechanismName, Mix, Workload};
use crate::number::{Grid, power};
use crate::privacy::selection::Selection;
use crate::privacy::{Budget, Neighbours, Sensitivity, Unit, Values};
use crate::{Error, Result};
use std::collections::BTreeMap;

/// Longest horizon at which running sums and windows are read from one release.
const MAX_STEPS_WITH_SUM: u64 = 1 << 16;

/// The request for a plan. Start from [`PlanRequest::count`] and set what differs.
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
    pub(super) groups: Option<GroupChoice>,
    pub(super) meaning: BTreeMap<String, String>,
}

impl PlanRequest {
    /// Counts of events over `horizon` steps (1 ..= 2^62), one event protected, add-remove neighbours, minimizes the
    /// maximal error.
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
            groups: None,
            meaning: BTreeMap::new(),
        }
    }

    /// Endless counts of events: the horizon is [`MAX_HORIZON`], and only mechanisms that are good at every step
    /// compete. Largest and mean errors have no meaning there.
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
        Sensitivity::new(self.unit, self.neighbours, self.values, self.horizon)?.in_sums(self.sums_per_event)
    }
}

/// Setters. Nothing is checked before the plan is made.
impl PlanRequest {
    /// Another number of steps `T`, 1 ..= 2^62.
    pub fn with_horizon(self, horizon: u64) -> Self {
        Self { horizon, ..self }
    }

    /// The workload published at every step: the running sum by default. A window as long as the horizon is the running
    /// sum.
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

    /// Several workloads read from one release, with the weights of their variances, each in units of its [lower
    /// bound](super::workload_lower_bound). [`Plan::readings`](super::Plan::readings) has a plan for each.
    ///
    /// ```
    /// use evertally::mechanism::{Mix, Workload};
    /// use evertally::plan::PlanRequest;
    /// use evertally::privacy::{Budget, Rho};
    /// let year = PlanRequest::count(365, Budget::Zcdp(Rho::new(0.5)?));
    /// let mix = Mix::new(&[(Workload::Sum, 1.0), (Workload::Window(7), 1.0)])?;
    /// let readings = year.with_mix(mix).plan()?.readings();
    /// // With half of the budget each, the variances would be 14.0 and 6.4.
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

    /// The protected unit; one event by default.
    pub fn with_unit(self, unit: Unit) -> Self {
        Self { unit, ..self }
    }

    /// The kind of change of one unit; its events are added or removed by default.
    pub fn with_neighbours(self, neighbours: Neighbours) -> Self {
        Self { neighbours, ..self }
    }

    /// The value of one event; 1 by default.
    pub fn with_values(self, values: Values) -> Self {
        Self { values, ..self }
    }

    /// Maximum number of running sums that one event is added to, with a value between the bounds in each; 1 for counts
    /// and groups, the number of rows for a sketch. Every sum has independent noise, and the budget covers all of them.
    pub fn with_sums_per_event(self, sums_per_event: u64) -> Self {
        Self { sums_per_event, ..self }
    }

    /// The distance between neighbouring values; noise is on the same grid. 1 by default, and for counts.
    pub fn with_grid(self, grid: Grid) -> Self {
        Self { grid, ..self }
    }

    /// This factorization; by default the one with the smallest error.
    pub fn with_mechanism(self, mechanism: MechanismName) -> Self {
        self.with_optional_mechanism(Some(mechanism))
    }

    /// This factorization, or for `None` the one with the smallest error.
    pub fn with_optional_mechanism(self, mechanism: Option<MechanismName>) -> Self {
        Self { mechanism, ..self }
    }

    /// This noise law; by default the one with the smallest error that the budget allows.
    pub fn with_noise(self, noise: NoiseKind) -> Self {
        self.with_optional_noise(Some(noise))
    }

    /// This noise law, or for `None` the one with the smallest error that the budget allows.
    pub fn with_optional_noise(self, noise: Option<NoiseKind>) -> Self {
        Self { noise, ..self }
    }

    /// The error to minimise; the largest by default.
    pub fn with_objective(self, objective: Objective) -> Self {
        Self { objective, ..self }
    }

    /// Search options; these are not part of the plan.
    pub fn with_search(self, search: Search) -> Self {
        Self { search, ..self }
    }

    /// Shows undeclared keys that pass this [selection](crate::privacy::selection): its δ is added to that of the
    /// budget.
    pub fn with_selection(self, selection: Selection) -> Self {
        Self { selection: Some(selection), ..self }
    }

    /// Correlates the noise of this many declared groups if that lowers these errors, as it may if one unit is in
    /// several groups: see [`Plan::correlation`](super::Plan::correlation). The plan is then for exactly these groups.
    pub fn with_groups(self, groups: u64, aim: GroupAim) -> Self {
        Self { groups: Some(GroupChoice::Best(groups, aim)), ..self }
    }

    /// If the noise of groups is to be correlated: as in the plan with which a stream began.
    pub fn with_begun_correlation(self, correlation: Correlation) -> Self {
        Self { groups: self.groups.map(|_| GroupChoice::Fixed(correlation)), ..self }
    }

    /// The noise of groups as another request has it.
    pub fn with_groups_of(self, other: &Self) -> Self {
        Self { groups: other.groups, ..self }
    }

    /// Independent noise for each group: the default.
    pub fn with_independent_groups(self) -> Self {
        Self { groups: None, ..self }
    }

    /// Adds an entry to the caller's description of steps, groups or values. It is public and part of the plan's
    /// digest: plans that differ here have independent noise.
    pub fn with_meaning(mut self, of: impl Into<String>, meaning: impl Into<String>) -> Self {
        self.meaning.insert(of.into(), meaning.into());
        self
    }

    /// Replaces all entries of the description.
    pub fn with_meanings(self, meaning: BTreeMap<String, String>) -> Self {
        Self { meaning, ..self }
    }
}

/// Getters.
impl PlanRequest {
    /// Number of steps `T`.
    pub fn horizon(&self) -> u64 {
        self.horizon
    }

    /// Whether the horizon is endless: see [`unbounded`](Self::unbounded).
    pub fn is_unbounded(&self) -> bool {
        self.horizon == MAX_HORIZON
    }

    /// Whether endless running sums are published, whose errors grow without bound.
    pub(super) fn grows_without_end(&self) -> bool {
        self.is_unbounded() && self.workload.is_sum()
    }

    /// The workload published at every step.
    pub fn workload(&self) -> Workload {
        self.workload
    }

    /// The workloads that are read from one release, if there are several.
    pub fn mix(&self) -> Option<Mix> {
        self.mix
    }

    /// The same over the horizon, over which all must still be different.
    pub(super) fn own_mix(&self) -> Result<Option<Mix>> {
        let Some(mix) = self.mix else { return Ok(None) };
        let own = mix.over(self.horizon, |_| 1.0);
        Mix::new(own.readings()).map(Some).map_err(|_| {
            let horizon = self.horizon;
            Error::invalid(format!("over a horizon of {horizon} steps two of these workloads are the same; omit one"))
        })
    }

    /// The same with weights of plain variances.
    pub(super) fn scaled_mix(&self) -> Result<Option<Mix>> {
        let Some(own) = self.own_mix()? else { return Ok(None) };
        if own.workloads().any(Workload::is_sum) && self.horizon > MAX_STEPS_WITH_SUM {
            return Err(Error::invalid(format!(
                "running sums and windows are read from one release over at most {MAX_STEPS_WITH_SUM} steps; divide \
                 the \
                 budget between a plan for each"
            )));
        }
        let spread = self.sensitivity()?.spread;
        let least = |workload| workload_lower_bound(workload, self.horizon, spread);
        Ok(Some(own.over(self.horizon, |workload| power(least(workload), -2))))
    }

    /// The budget of the whole history.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// The protected unit.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// The kind of change of one unit.
    pub fn neighbours(&self) -> Neighbours {
        self.neighbours
    }

    /// The value of one event.
    pub fn values(&self) -> Values {
        self.values
    }

    /// Maximum number of running sums that one event is added to.
    pub fn sums_per_event(&self) -> u64 {
        self.sums_per_event
    }

    /// The distance between neighbouring values.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// The factorization; in a plan, the chosen one.
    pub fn mechanism(&self) -> Option<MechanismName> {
        self.mechanism
    }

    /// The noise law; in a plan, the chosen one.
    pub fn noise(&self) -> Option<NoiseKind> {
        self.noise
    }

    /// The error that is minimised.
    pub fn objective(&self) -> Objective {
        self.objective
    }

    /// The search options; in a plan, the default.
    pub fn search(&self) -> &Search {
        &self.search
    }

    /// The selection of undeclared keys, if any.
    pub fn selection(&self) -> Option<Selection> {
        self.selection
    }

    /// Whether the noise of groups is to be [correlated](Self::with_groups) if that lowers errors. A plan for such a
    /// request without a [correlation](super::Plan::correlation) gains nothing from it.
    pub fn correlates_groups(&self) -> bool {
        self.groups.is_some()
    }

    /// The caller's description of steps, groups and values.
    pub fn meaning(&self) -> &BTreeMap<String, String> {
        &self.meaning
    }
}
