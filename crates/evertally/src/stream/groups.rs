//! One running sum per declared group.

use super::Release;
use super::series::{SumSeries, check_step, check_sum, check_value};
use crate::noise::{GuardedKey, Purpose, SecretKey, StreamName};
use crate::plan::Plan;
use crate::privacy::{Neighbours, Values};
use crate::state::{Layout, SavedSums, StateId};
use crate::{Error, Result};

/// The declared groups of a stream: distinct, not empty, in a fixed order.
///
/// Groups are declared before the data are seen. A group that existed only because of some event would reveal that
/// event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    names: Vec<Vec<u8>>,
}

impl Groups {
    /// Groups with the given names; for groups over several columns, use any injective encoding of the tuple.
    ///
    /// # Errors
    /// If there are none, or two are equal.
    ///
    /// ```
    /// use evertally::stream::Groups;
    /// assert_eq!(Groups::new(["EWR", "JFK", "LGA"])?.len(), 3);
    /// assert!(Groups::new(["JFK", "JFK"]).is_err());
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn new<N: Into<Vec<u8>>>(names: impl IntoIterator<Item = N>) -> Result<Self> {
        let names: Vec<Vec<u8>> = names.into_iter().map(Into::into).collect();
        if names.is_empty() {
            return Err(Error::invalid("at least one group must be declared"));
        }
        let mut seen = std::collections::HashSet::new();
        if let Some(twice) = names.iter().find(|name| !seen.insert(name.as_slice())) {
            return Err(Error::invalid(format!("group `{}` is declared twice", String::from_utf8_lossy(twice))));
        }
        Ok(Self { names })
    }

    /// The first `count` groups, or all if there are fewer.
    ///
    /// # Errors
    /// If `count` is 0.
    pub fn first(&self, count: usize) -> Result<Self> {
        Self::new(self.names.iter().take(count).cloned())
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Never true: at least one group is declared.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    fn layout(&self) -> Layout {
        let mut hasher = blake3::Hasher::new_derive_key("evertally 1 groups");
        for name in &self.names {
            hasher.update(&(name.len() as u64).to_le_bytes()).update(name);
        }
        Layout::Groups(*hasher.finalize().as_bytes())
    }
}

/// Private running counts or sums of many groups, where every event belongs to exactly one.
///
/// Each group has independent noise, and one event changes the sums of one group only, so the guarantee of the plan
/// holds for all groups together (parallel composition). If the plan [correlates](Plan::correlation) the noise of
/// groups, it is for exactly as many groups.
///
/// ```
/// use evertally::{privacy::{Budget, Epsilon}, noise::{GuardedKey, SecretKey}, plan::PlanRequest};
/// use evertally::stream::{GroupedSums, Groups};
/// let plan = PlanRequest::count(24, Budget::Pure(Epsilon::new(1.0)?)).plan()?;
/// let groups = Groups::new(["EWR", "JFK", "LGA"])?;
/// let key = GuardedKey::published_nothing(SecretKey::generate()?);
/// let mut flights = GroupedSums::new(plan, &key, "flights".parse()?, groups)?;
/// flights.add(1, 1)?; // one event at JFK
/// let releases = flights.tick()?;
/// assert_eq!(releases.len(), 3);
/// # Ok::<(), evertally::Error>(())
/// ```
pub struct GroupedSums {
    plan: Plan,
    id: StateId,
    series: Vec<SumSeries>,
    releases: Vec<Release>,
    step: u64,
}

impl GroupedSums {
    /// Streams of all groups before their first step.
    ///
    /// # Errors
    /// As [`RunningSum::new`](super::RunningSum::new), or if the plan correlates the noise of another number of groups.
    pub fn new(plan: Plan, key: &GuardedKey, name: StreamName, groups: Groups) -> Result<Self> {
        check_groups(&plan, &groups)?;
        let key = key.begin(&name, &plan.digest(), Purpose::Group(b""))?;
        Ok(Self::with_key(plan, key, name, groups))
    }

    fn with_key(plan: Plan, key: &SecretKey, name: StreamName, groups: Groups) -> Self {
        let series =
            groups.names.iter().map(|group| SumSeries::new(&plan, key, &name, Purpose::Group(group))).collect();
        let id = StateId::new(&plan, key, name, groups.layout());
        Self { plan, id, series, releases: Vec::with_capacity(groups.len()), step: 0 }
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The last closed step, 0 before the first.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The sums that the open step adds to the groups, in declared order: **exact, and never to be published**.
    ///
    /// ```
    /// # use evertally::noise::{GuardedKey, SecretKey};
    /// # use evertally::{plan::PlanRequest, privacy::{Budget, Epsilon}, stream::{GroupedSums, Groups}};
    /// # let plan = PlanRequest::count(10, Budget::Pure(Epsilon::new(1.0)?)).plan()?;
    /// let key = GuardedKey::published_nothing(SecretKey::generate()?);
    /// let mut flights = GroupedSums::new(plan, &key, "flights".parse()?, Groups::new(["EWR", "JFK"])?)?;
    /// flights.add_sum(1, 3)?;
    /// assert_eq!(flights.unsafe_open_sums().collect::<Vec<i64>>(), [0, 3]);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn unsafe_open_sums(&self) -> impl ExactSizeIterator<Item = i64> {
        self.series.iter().map(|series| series.sums().1)
    }

    /// Adds one event to the open step of a group, by its place in the declared list. `O(1)`.
    ///
    /// # Errors
    /// If there is no such group, and as [`RunningSum::add`](super::RunningSum::add).
    pub fn add(&mut self, group: usize, value: i64) -> Result<()> {
        check_step(&self.plan, self.step)?;
        check_value(&self.plan, value)?;
        let count = self.series.len();
        let series = self.series.get_mut(group);
        series.ok_or_else(|| Error::invalid(format!("group {group} is not among the {count} declared")))?.add(value)
    }

    /// Adds the sum of any number of events at once to the open step of a group, as
    /// [`RunningSum::add_sum`](super::RunningSum::add_sum). `O(1)`.
    ///
    /// # Errors
    /// If there is no such group, and as [`RunningSum::add_sum`](super::RunningSum::add_sum).
    pub fn add_sum(&mut self, group: usize, sum: i64) -> Result<()> {
        check_step(&self.plan, self.step)?;
        check_sum(&self.plan, sum)?;
        let count = self.series.len();
        let series = self.series.get_mut(group);
        series.ok_or_else(|| Error::invalid(format!("group {group} is not among the {count} declared")))?.add(sum)
    }

    /// Retracts one event of a count from the open step of a group: adds -1.
    ///
    /// For streams of changes: the events that a unit adds and those that it retracts must each be within the plan's
    /// unit. The plan treats them as the events of two data sets, one replaced by the other, so it must have been
    /// made for [`Neighbours::ReplaceOne`](crate::privacy::Neighbours::ReplaceOne). `O(1)`.
    ///
    /// # Errors
    /// If the plan is for other values or neighbours, and as [`add`](Self::add).
    ///
    /// ```
    /// use evertally::{privacy::{Budget, Neighbours, Rho, Unit}, noise::{GuardedKey, TestSeed}, plan::PlanRequest};
    /// use evertally::stream::{GroupedSums, Groups};
    /// // The number of people present: everybody comes once and leaves once.
    /// let request = PlanRequest::count(24, Budget::Zcdp(Rho::new(0.5)?)).with_unit(Unit::person(1));
    /// let plan = request.with_neighbours(Neighbours::ReplaceOne).plan()?;
    /// let key = GuardedKey::insecure_from_test_seed(TestSeed(1));
    /// let mut present = GroupedSums::new(plan, &key, "present".parse()?, Groups::new(["hall"])?)?;
    /// (0..1000).try_for_each(|_| present.add(0, 1))?;
    /// present.tick()?;
    /// (0..1000).try_for_each(|_| present.take_back(0))?;
    /// assert!(present.tick()?[0].value().abs() < 100.0);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn take_back(&mut self, group: usize) -> Result<()> {
        check_step(&self.plan, self.step)?;
        let request = self.plan.request();
        if request.values() != Values::Count || request.neighbours() != Neighbours::ReplaceOne {
            return Err(Error::invalid(
                "only counts under a plan for replaced events (`ReplaceOne`) can be taken back",
            ));
        }
        let count = self.series.len();
        let series = self.series.get_mut(group);
        series.ok_or_else(|| Error::invalid(format!("group {group} is not among the {count} declared")))?.add(-1)
    }

    /// Closes the open step and releases every group's running sum, in declared order.
    ///
    /// # Errors
    /// After the last step of the horizon.
    pub fn tick(&mut self) -> Result<&[Release]> {
        check_step(&self.plan, self.step)?;
        self.step += 1;
        self.releases.clear();
        self.releases.extend(self.series.iter_mut().map(|series| series.close_through(&self.plan, self.step)));
        Ok(&self.releases)
    }

    /// Adds groups after the present ones, between two steps: those of `groups` that are not yet part of the stream.
    ///
    /// A new group has the noise of a group declared from the first step on, and no events in the closed steps. The
    /// releases of other groups do not change, and neither does the guarantee: groups never share an event. Someone
    /// must decide to add a group; the decision must never depend on the data.
    ///
    /// ```
    /// # use evertally::{privacy::{Budget, Epsilon}, noise::{GuardedKey, SecretKey}, plan::PlanRequest};
    /// # use evertally::stream::{GroupedSums, Groups};
    /// # let plan = PlanRequest::count(24, Budget::Pure(Epsilon::new(1.0)?)).plan()?;
    /// # let (key, name) = (GuardedKey::published_nothing(SecretKey::generate()?), "flights");
    /// let mut flights = GroupedSums::new(plan, &key, name.parse()?, Groups::new(["EWR", "JFK"])?)?;
    /// assert_eq!(flights.tick()?.len(), 2);
    /// flights.join(&key, name.parse()?, Groups::new(["EWR", "JFK", "LGA"])?)?;
    /// assert_eq!(flights.tick()?.len(), 3);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    ///
    /// # Errors
    /// If `groups` does not begin with the present groups in their order, or key or name are those of another stream.
    /// If the plan correlates the noise of the groups: it is calibrated for their number.
    pub fn join(&mut self, key: &SecretKey, name: StreamName, groups: Groups) -> Result<()> {
        check_groups(&self.plan, &groups)?;
        let present = groups.first(self.series.len())?;
        if present.len() != self.series.len()
            || StateId::new(&self.plan, key, name.clone(), present.layout()) != self.id
        {
            return Err(Error::invalid(
                "existing groups must come first, in their original order, followed by new ones, under one key",
            ));
        }
        for group in &groups.names[self.series.len()..] {
            let mut series = SumSeries::new(&self.plan, key, &name, Purpose::Group(group));
            if self.step > 0 {
                series.close_through(&self.plan, self.step);
            }
            self.series.push(series);
        }
        self.id = StateId::new(&self.plan, key, name, groups.layout());
        Ok(())
    }

    /// The releases of the last closed step again, or `None` before the first.
    pub fn releases(&self) -> Option<Vec<Release>> {
        (self.step > 0).then(|| self.series.iter().map(|series| series.release(&self.plan)).collect())
    }

    /// The [state](crate::state) of all groups. It holds exact sums: keep it as safe as the data.
    pub fn save(&self) -> Vec<u8> {
        self.id.seal(&SavedSums {
            step: self.step,
            sums: self.series.iter().map(SumSeries::sums).collect(),
            memories: self.series.iter().filter_map(SumSeries::memory).collect(),
        })
    }

    /// Continues saved streams.
    ///
    /// # Errors
    /// If the bytes are damaged, of an unknown version, or belong to another plan, stream, key or list of groups.
    pub fn restore(plan: Plan, key: &GuardedKey, name: StreamName, groups: Groups, state: &[u8]) -> Result<Self> {
        check_groups(&plan, &groups)?;
        let key = key.resume(&name, &plan.digest(), Purpose::Group(b""))?;
        let mut stream = Self::with_key(plan, key, name, groups);
        let saved = stream.id.open_sums(state, stream.plan.horizon(), stream.series.len())?;
        for (place, (series, sums)) in stream.series.iter_mut().zip(&saved.sums).enumerate() {
            series.restore(saved.step, *sums, saved.memory(place))?;
        }
        stream.step = saved.step;
        Ok(stream)
    }
}

/// Refuses groups whose number is not that of the plan's correlated noise.
fn check_groups(plan: &Plan, groups: &Groups) -> Result<()> {
    match plan.correlation() {
        Some(correlation) if correlation.groups() != groups.len() as u64 => Err(Error::invalid(format!(
            "the plan correlates the noise of {} groups, and there are {}: with correlated noise no group is added or \
             removed later; start a new stream, or use independent noise",
            correlation.groups(),
            groups.len()
        ))),
        _ => Ok(()),
    }
}

impl std::fmt::Debug for GroupedSums {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("GroupedSums");
        out.field("plan", &self.plan).field("step", &self.step).field("groups", &self.series.len());
        out.finish_non_exhaustive()
    }
}
