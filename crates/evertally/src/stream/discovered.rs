//! Running sums for keys discovered in the data; only popular keys are published.

mod keys;
mod look;

use super::Release;
use super::series::{SumSeries, check_step, check_sum, check_value};
use crate::noise::{GroupNoise, GuardedKey, Purpose, SecretKey, StreamName};
use crate::plan::{Plan, Threshold};
use crate::state::{Layout, StateId, damaged};
use crate::{Error, Result};
use keys::{Keys, Past};
use look::KeySelection;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Private running counts or sums of undeclared keys; every event belongs to exactly one key.
///
/// The noise of a key depends on its name alone and equals the noise of the [group](super::GroupedSums) of that name:
/// other keys change nothing. At each declared selection time, every key with an event is checked. Keys whose release
/// reaches the [threshold](Threshold) *enter*: from then on they are released at every step, and their
/// [earlier](Self::earlier) releases can be published too. The guarantee and its proof are in
/// [`privacy::selection`](crate::privacy::selection).
///
/// Everything about keys that have not entered is secret: their names, their number, and the memory and time they take.
///
/// ```
/// use evertally::{privacy::{Budget, Delta, Rho}, noise::{GuardedKey, TestSeed}, plan::PlanRequest};
/// use evertally::privacy::selection::{Selection, SelectionTimes};
/// use evertally::stream::DiscoveredSums;
/// let selection = Selection::new(Delta::new(1e-9)?, SelectionTimes::every(2, 4)?);
/// let plan = PlanRequest::count(4, Budget::Zcdp(Rho::new(0.5)?)).with_selection(selection).plan()?;
/// let key = GuardedKey::insecure_from_test_seed(TestSeed(1));
/// let mut routes = DiscoveredSums::new(plan, &key, "routes".parse()?)?;
/// (0..1000).try_for_each(|_| routes.add(b"JFK-LAX", 1))?;
/// routes.add(b"LGA-MVY", 1)?;
/// routes.tick()?; // not a selection time
/// assert_eq!(routes.shown(), 0);
/// routes.tick()?;
/// assert_eq!((routes.shown(), routes.name(0)), (1, &b"JFK-LAX"[..]));
/// assert_eq!(routes.earlier(0).map(|release| release.step()).collect::<Vec<_>>(), [1]);
/// assert!((routes.releases()[0].value() - 1000.0).abs() < 100.0);
/// # Ok::<(), evertally::Error>(())
/// ```
pub struct DiscoveredSums {
    plan: Plan,
    threshold: Threshold,
    id: StateId,
    noise: GroupNoise,
    keys: Keys,
    /// The keys with events in the open step.
    touched: Vec<u32>,
    shown: Vec<Shown>,
    /// Earlier releases of the keys that entered last.
    entering: Vec<Past>,
    releases: Vec<Release>,
    step: u64,
}

struct Shown {
    key: u32,
    series: SumSeries,
}

#[derive(Serialize, Deserialize)]
struct SavedDiscovered {
    step: u64,
    /// Hidden and shown keys, by name.
    keys: Vec<keys::SavedKey>,
    /// In the order of entering: place among `keys`, sums of the closed steps and of the open one, memory.
    shown: Vec<(u64, (i64, i64), Option<Vec<u8>>)>,
}

impl DiscoveredSums {
    /// No keys yet, before the first step.
    ///
    /// # Errors
    /// If the plan has no selection, or as [`RunningSum::new`](super::RunningSum::new).
    pub fn new(plan: Plan, key: &GuardedKey, name: StreamName) -> Result<Self> {
        let key = key.begin(&name, &plan.digest(), Purpose::Group(b""))?;
        Self::with_key(plan, key, name)
    }

    fn with_key(plan: Plan, key: &SecretKey, name: StreamName) -> Result<Self> {
        let threshold = *plan
            .threshold()
            .ok_or_else(|| Error::invalid("the plan has no selection of keys; add one to its request"))?;
        let noise = GroupNoise::new(key, &name, &plan.digest());
        let layout = Layout::Keys { threshold: threshold.value() };
        let id = StateId::new(&plan, key, name, layout);
        Ok(Self {
            plan,
            threshold,
            id,
            noise,
            keys: Keys::default(),
            touched: Vec::new(),
            shown: Vec::new(),
            entering: Vec::new(),
            releases: Vec::new(),
            step: 0,
        })
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The threshold that a key's release must reach.
    pub fn threshold(&self) -> &Threshold {
        &self.threshold
    }

    /// The last closed step, 0 before the first.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Adds one event to the open step of a key; encode a key over several columns by any injective encoding of the
    /// tuple. `O(1)`.
    ///
    /// # Errors
    /// As [`RunningSum::add`](super::RunningSum::add), and beyond 2^32 - 2 keys.
    pub fn add(&mut self, key: &[u8], value: i64) -> Result<()> {
        check_step(&self.plan, self.step)?;
        check_value(&self.plan, value)?;
        self.add_checked(key, value)
    }

    fn add_checked(&mut self, key: &[u8], value: i64) -> Result<()> {
        let place = self.keys.place(key)?;
        let entry = self.keys.at(place);
        match entry.shown() {
            Some(shown) => self.shown[shown].series.add(value)?,
            None => entry.check_room(value)?,
        }
        if self.keys.at(place).add(value) {
            self.touched.push(place);
        }
        Ok(())
    }

    /// Adds the sum of any number of events at once to the open step of a key, as
    /// [`RunningSum::add_sum`](super::RunningSum::add_sum). `O(1)`.
    ///
    /// # Errors
    /// As [`RunningSum::add_sum`](super::RunningSum::add_sum), and beyond 2^32 - 2 keys.
    pub fn add_sum(&mut self, key: &[u8], sum: i64) -> Result<()> {
        check_step(&self.plan, self.step)?;
        check_sum(&self.plan, sum)?;
        self.add_checked(key, sum)
    }

    /// The sums that the open step adds to the keys, in no order: **exact, and never to be published**.
    pub fn unsafe_open_sums(&self) -> impl Iterator<Item = (&[u8], i64)> {
        self.touched.iter().map(|place| (self.keys.name(*place), self.keys.get(*place).open()))
    }

    /// Closes the open step; at a selection time, keys that reach the threshold enter.
    ///
    /// # Errors
    /// After the last step of the horizon.
    pub fn tick(&mut self) -> Result<()> {
        check_step(&self.plan, self.step)?;
        self.step += 1;
        for place in self.touched.drain(..) {
            self.keys.at(place).close(self.step);
        }
        self.entering.clear();
        self.releases.clear();
        let (plan, step) = (&self.plan, self.step);
        self.releases.extend(self.shown.iter_mut().map(|shown| shown.series.close_through(plan, step)));
        if self.threshold.selection().times().contains(step) {
            self.select();
        }
        Ok(())
    }

    /// How many keys are shown.
    pub fn shown(&self) -> usize {
        self.shown.len()
    }

    /// The name of a shown key, numbered in the order of entering, and by name among those that entered together.
    ///
    /// # Panics
    /// If there is no shown key with this number, here and below.
    pub fn name(&self, shown: usize) -> &[u8] {
        self.keys.name(self.shown[shown].key)
    }

    /// The releases of the last closed step, one for each shown key in its order.
    pub fn releases(&self) -> &[Release] {
        &self.releases
    }

    /// The keys that entered at the last closed step.
    pub fn entering(&self) -> Range<usize> {
        self.shown.len() - self.entering.len()..self.shown.len()
    }

    /// The releases of a key that has just [entered](Self::entering) at all steps before the last closed one. The next
    /// step discards them.
    pub fn earlier(&self, shown: usize) -> impl Iterator<Item = Release> {
        let mut series = self.series(self.shown[shown].key);
        let mut past = self.entering[shown - self.entering().start].events().peekable();
        (1..self.step).map(move |step| {
            if let Some((_, sum)) = past.next_if(|(at, _)| *at == step) {
                series.add(sum).expect("it was added before");
            }
            series.close_through(&self.plan, step)
        })
    }

    /// Bytes of memory of the keys. The number depends on the data: do not publish it.
    pub fn memory_bytes(&self) -> usize {
        self.keys.memory_bytes()
    }

    /// The [state](crate::state) of all keys. It holds names and exact sums: keep it as safe as the data. It does not
    /// hold the earlier releases of keys that have just entered.
    pub fn save(&self) -> Vec<u8> {
        let (keys, places) = self.keys.save();
        let shown = self.shown.iter();
        let shown = shown.map(|shown| (places[shown.key as usize], shown.series.sums(), shown.series.memory()));
        self.id.seal(&SavedDiscovered { step: self.step, keys, shown: shown.collect() })
    }

    /// Continues saved keys.
    ///
    /// # Errors
    /// If the bytes are damaged, of an unknown version, or belong to another plan, stream, key or selection.
    pub fn restore(plan: Plan, key: &GuardedKey, name: StreamName, state: &[u8]) -> Result<Self> {
        let key = key.resume(&name, &plan.digest(), Purpose::Group(b""))?;
        let mut stream = Self::with_key(plan, key, name)?;
        let saved: SavedDiscovered = stream.id.open(state)?;
        if saved.step > stream.plan.horizon() {
            return Err(damaged());
        }
        stream.step = saved.step;
        stream.keys = Keys::restore(saved.keys, saved.step)?;
        stream.touched = stream.keys.with_open_events();
        for (place, sums, memory) in saved.shown {
            let key = u32::try_from(place).ok().filter(|place| (*place as usize) < stream.keys.len());
            let key = key.ok_or_else(damaged)?;
            let mut series = stream.series(key);
            series.restore(saved.step, sums, memory.as_deref())?;
            if !stream.keys.at(key).show(stream.shown.len()) {
                return Err(damaged());
            }
            if saved.step > 0 {
                stream.releases.push(series.release(&stream.plan));
            }
            stream.shown.push(Shown { key, series });
        }
        Ok(stream)
    }

    /// The running sum of a key before its first step.
    fn series(&self, key: u32) -> SumSeries {
        SumSeries::from_noise(&self.plan, self.noise.of(self.keys.name(key)))
    }

    /// Lets the keys that reach the threshold at the just closed step enter.
    fn select(&mut self) {
        let mut found = self.look().found();
        found.sort_unstable_by(|a, b| self.keys.name(*a).cmp(self.keys.name(*b)));
        for key in found {
            let series = self.look().replayed(key);
            self.releases.push(series.release(&self.plan));
            let entry = self.keys.at(key);
            self.entering.push(entry.remove_past());
            entry.show(self.shown.len());
            self.shown.push(Shown { key, series });
        }
    }

    /// The selection from the keys after the just closed step.
    fn look(&self) -> KeySelection<'_> {
        let Self { plan, threshold, noise, keys, step, .. } = self;
        KeySelection { plan, noise, keys, step: *step, threshold: threshold.value() }
    }
}

impl std::fmt::Debug for DiscoveredSums {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Neither the names nor the number of keys.
        let mut out = f.debug_struct("DiscoveredSums");
        out.field("plan", &self.plan).field("step", &self.step).field("shown", &self.shown.len());
        out.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
