//! Running counts or sums of groups, declared or discovered.

use super::items::push_labels;
use super::measured::MeasuredSums;
use super::open_step::OpenStep;
use super::{Accumulator, KeptEvent, LabelAssigner};
use crate::rows::{ReleaseRow, RowMaker};
use crate::views::ViewValue;
use evertally::noise::{GuardedKey, Purpose, SecretKey, mac_key};
use evertally::number::Grid;
use evertally::stream::{DiscoveredSums, GroupedSums, Release, RunningSum};
use evertally_declare::error::{PipelineError, Result, usage};
use evertally_declare::event::Event;
use evertally_declare::groups::GroupTable;
use evertally_declare::policy::Refusable;
use evertally_declare::settings::{Labels, Settings};
use evertally_declare::stream::Stream;
use evertally_declare::tuples::decode;
use evertally_ledger::ledger::StreamDigest;
use zeroize::Zeroizing;

/// The running sums of a stream: one, or one for each declared or discovered group.
pub struct RunningSums {
    groups: Option<GroupTable>,
    streams: SumStreams,
    /// One per declared group: the part of the stream's open sum that earlier steps added, since a slot may have
    /// several steps; and the sum of the last closed step. Zeros for measures, empty for discovered groups.
    before: Vec<i64>,
    closed: Vec<i64>,
    rows: RowMaker,
    numbers: GroupNumbers,
    /// The last releases, if empty slots after them are already closed.
    shown: Vec<Release>,
    /// The last closed step. The streams count slots instead, of which a step may have several.
    step: u64,
}

enum SumStreams {
    /// The sum, and its last release.
    Total(Box<RunningSum>, Option<Release>),
    Groups(Box<GroupedSums>),
    Discovered(Box<DiscoveredSums>),
    /// Several sums per group, for measures.
    Measured(Box<MeasuredSums>),
}

impl SumStreams {
    /// The last closed slot.
    fn step(&self) -> u64 {
        match self {
            Self::Total(stream, _) => stream.step(),
            Self::Groups(streams) => streams.step(),
            Self::Discovered(keys) => keys.step(),
            Self::Measured(parts) => parts.step(),
        }
    }

    /// Replaces `sums` by the exact sums of the open slot, one per declared group. Discovered groups and measures have
    /// none here.
    fn open_sums(&self, sums: &mut Vec<i64>) {
        sums.clear();
        match self {
            Self::Total(stream, _) => sums.push(stream.exact_sums().1),
            Self::Groups(streams) => sums.extend(streams.unsafe_open_sums()),
            Self::Discovered(_) | Self::Measured(_) => {}
        }
    }
}

/// The releases of a closed step; empty if its row continues.
pub struct ClosedStep<'a> {
    stream: &'a Stream,
    step: u64,
    releases: &'a [Release],
    /// Present if groups have just been discovered.
    discovered: Option<&'a DiscoveredSums>,
    /// Present if several sums make measures.
    measured: Option<&'a mut MeasuredSums>,
    sums: &'a [i64],
    rows: &'a mut RowMaker,
}

impl RunningSums {
    /// The sums of a stream before its first step; without groups, the one sum of all events.
    ///
    /// # Errors
    /// If the confidence of the stream is not valid.
    pub fn new(stream: &Stream, groups: Option<GroupTable>, key: &GuardedKey) -> Result<Self> {
        let (plan, name) = (stream.plan.clone(), stream.name.clone());
        let streams = match (&groups, &stream.measures) {
            (groups, Some(bundle)) => {
                SumStreams::Measured(Box::new(MeasuredSums::new(stream, bundle, groups.as_ref(), key)?))
            }
            (None, None) if plan.threshold().is_some() => {
                SumStreams::Discovered(Box::new(DiscoveredSums::new(plan, key, name)?))
            }
            (None, None) => SumStreams::Total(Box::new(RunningSum::new(plan, key, name)?), None),
            (Some(table), None) => {
                SumStreams::Groups(Box::new(GroupedSums::new(plan, key, name, table.to_library()?)?))
            }
        };
        Self::from_parts(stream, groups, streams, key, 0)
    }

    /// Restores the sums from [`save`](Self::save), after a step.
    ///
    /// # Errors
    /// If they are damaged, or belong to another stream or other groups.
    pub fn restore(
        stream: &Stream,
        groups: Option<GroupTable>,
        key: &GuardedKey,
        (step, saved): (u64, &[u8]),
    ) -> Result<Self> {
        let (plan, name) = (stream.plan.clone(), stream.name.clone());
        let streams = match (&groups, &stream.measures) {
            (groups, Some(bundle)) => {
                SumStreams::Measured(Box::new(MeasuredSums::restore(stream, bundle, groups.as_ref(), key, saved)?))
            }
            (None, None) if plan.threshold().is_some() => {
                SumStreams::Discovered(Box::new(DiscoveredSums::restore(plan, key, name, saved)?))
            }
            (None, None) => SumStreams::Total(Box::new(RunningSum::restore(plan, key, name, saved)?), None),
            (Some(table), None) => {
                SumStreams::Groups(Box::new(GroupedSums::restore(plan, key, name, table.to_library()?, saved)?))
            }
        };
        if streams.step() != stream.published.as_ref().map_or(step, |published| published.slots_through(step)) {
            return Err(usage("the saved state of the stream is damaged; rebuild it from the raw data"));
        }
        Self::from_parts(stream, groups, streams, key, step)
    }

    fn from_parts(
        stream: &Stream,
        groups: Option<GroupTable>,
        streams: SumStreams,
        key: &SecretKey,
        step: u64,
    ) -> Result<Self> {
        let mut rows = RowMaker::new(stream, groups.as_ref())?;
        if let SumStreams::Discovered(keys) = &streams {
            rows = RowMaker::for_discovered(stream)?;
            (0..keys.shown()).try_for_each(|shown| tuple_of(keys.name(shown)).map(|tuple| rows.enter(tuple)))?;
        }
        let count = if matches!(streams, SumStreams::Discovered(_)) { 0 } else { rows.tuples().len() };
        let numbers = GroupNumbers::new(stream, key);
        let mut before = Vec::new();
        streams.open_sums(&mut before);
        before.resize(count, 0);
        Ok(Self { groups, streams, before, closed: vec![0; count], rows, numbers, shown: Vec::new(), step })
    }

    /// The saved form of the closed steps' sums and their noise.
    pub fn save(&self) -> Vec<u8> {
        match &self.streams {
            SumStreams::Total(stream, _) => stream.save(),
            SumStreams::Groups(streams) => streams.save(),
            SumStreams::Discovered(keys) => keys.save(),
            SumStreams::Measured(parts) => parts.save(),
        }
    }

    /// The last releases, one per group; `None` before the first step, and for measures.
    pub(super) fn releases(&self) -> Option<Vec<Release>> {
        match &self.streams {
            SumStreams::Total(stream, _) => stream.release().map(|release| vec![release]),
            SumStreams::Groups(streams) => streams.releases(),
            SumStreams::Discovered(keys) => (keys.step() > 0).then(|| keys.releases().to_vec()),
            SumStreams::Measured(_) => None,
        }
    }

    /// The texts of each group; without groups, a single entry without texts.
    pub(super) fn tuples(&self) -> &[Vec<String>] {
        self.rows.tuples()
    }

    /// The label of a discovered group.
    pub fn label_of(&self, name: &[u8]) -> GroupRef {
        self.numbers.label(name)
    }

    /// Adds to the open step a group's sum of events that were bounded elsewhere.
    ///
    /// # Errors
    /// If no events can have this sum, a running sum exceeds 64 bits, or the group does not exist.
    pub fn add_sum(&mut self, group: &GroupRef, sum: i64) -> Result<()> {
        match (&mut self.streams, group) {
            (SumStreams::Total(stream, _), GroupRef::Place(0)) => Ok(stream.add_sum(sum)?),
            (SumStreams::Groups(streams), GroupRef::Place(place)) => Ok(streams.add_sum(*place, sum)?),
            (SumStreams::Discovered(keys), GroupRef::Name(name, _)) => Ok(keys.add_sum(name, sum)?),
            _ => Err(usage("the sum belongs to a stream with other groups")),
        }
    }

    /// Adds to one [cell](evertally_declare::measures::Bundle::cells) of a declared group in the open step the sum of
    /// events that were counted elsewhere.
    ///
    /// # Errors
    /// As for [`add_sum`](Self::add_sum).
    pub fn add_to_cell(&mut self, group: usize, cell: usize, sum: i64) -> Result<()> {
        match &mut self.streams {
            SumStreams::Measured(parts) => parts.add_counted(group, cell, sum),
            _ => Err(usage("the sum belongs to a stream with other groups")),
        }
    }

    /// The last shown view of each group, if views depend on earlier ones.
    pub fn saved_views(&self) -> Vec<(Vec<String>, ViewValue)> {
        self.rows.saved_views()
    }

    /// Restores the last view of a group that an earlier run has shown, for [views](crate::views) that depend on it.
    pub fn restore_view(&mut self, group: Vec<String>, shown: ViewValue) {
        self.rows.restore_view(group, shown);
    }

    /// The number of declared sums.
    pub(super) fn group_count(&self) -> usize {
        self.before.len()
    }

    /// The open step's additions to declared sums so far, for a state in the middle of a step; `None` if measures have
    /// an event in it.
    pub(super) fn open(&self) -> Option<Vec<i64>> {
        match &self.streams {
            SumStreams::Measured(parts) => parts.is_between_steps().then(Vec::new),
            _ => {
                let mut open = Vec::new();
                self.streams.open_sums(&mut open);
                // Wraps back in `restore_open`.
                open.iter_mut().zip(&self.before).for_each(|(open, before)| *open = open.wrapping_sub(*before));
                Some(open)
            }
        }
    }

    /// Restores the additions from [`open`](Self::open); `None` if they belong to other sums.
    #[must_use]
    pub(super) fn restore_open(&mut self, open: Vec<i64>) -> Option<()> {
        if matches!(self.streams, SumStreams::Measured(_)) {
            return open.is_empty().then_some(());
        }
        self.streams.open_sums(&mut self.before);
        self.before.iter_mut().zip(&open).for_each(|(before, open)| *before = before.wrapping_sub(*open));
        (open.len() == self.before.len()).then_some(())
    }

    /// The numbering of discovered groups.
    pub(super) fn numbers(&self) -> GroupNumbers {
        self.numbers.clone()
    }

    /// Adds groups after the present ones, between two steps.
    ///
    /// # Errors
    /// If the present groups are not the first of the new ones.
    pub(super) fn join(&mut self, key: &SecretKey, stream: &Stream, groups: Option<GroupTable>) -> Result<()> {
        if let (SumStreams::Measured(parts), Some(table)) = (&mut self.streams, &groups) {
            if table.tuples().len() != self.before.len() {
                parts.join(key, &stream.name, table)?;
                self.before.resize(table.tuples().len(), 0);
            }
            self.rows = RowMaker::new(stream, groups.as_ref())?;
            self.groups = groups;
        } else if let (SumStreams::Groups(streams), Some(table)) = (&mut self.streams, &groups) {
            if table.tuples().len() != self.before.len() {
                streams.join(key, stream.name.clone(), table.to_library()?)?;
                self.before.resize(table.tuples().len(), 0);
                self.closed.resize(table.tuples().len(), 0);
            }
            self.rows.replace(RowMaker::new(stream, groups.as_ref())?);
            self.groups = groups;
        }
        Ok(())
    }
}

/// Assigns groups to events.
#[derive(Clone)]
pub enum GroupAssigner {
    /// No groups.
    None,
    /// Declared groups.
    Declared(Box<GroupTable>),
    /// Discovered groups, named by the events.
    Discovered {
        /// The name of the event's group, and the text of a cell.
        name: Vec<u8>,
        /// See `name`.
        text: String,
        /// Assigns numbers to groups.
        numbers: GroupNumbers,
    },
}

/// The group of an event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupRef {
    /// A place among the declared groups.
    Place(usize),
    /// The library's name of the group, the same as for a declared group of this name, and its [number](GroupNumbers).
    Name(Box<[u8]>, u64),
}

/// Numbers of discovered groups, for the bounds on a person's groups: a keyed hash of 64 bits of the name.
///
/// Two groups of one person have the same number with probability 2⁻⁶⁴, and nobody without the key can search for such
/// names. Without such bounds all groups have the number 0.
#[derive(Clone)]
pub struct GroupNumbers(Option<Zeroizing<[u8; 32]>>);

impl GroupNumbers {
    /// Of the groups of a stream.
    pub fn new(stream: &Stream, key: &SecretKey) -> Self {
        let bounds = stream.plan.request().unit().bounds().unwrap_or_default();
        let is_needed = bounds.max_groups.is_some() || bounds.max_events_per_group.is_some();
        Self(is_needed.then(|| mac_key(key, &stream.name, &stream.plan.digest(), Purpose::Hashing)))
    }

    pub(super) fn label(&self, name: &[u8]) -> GroupRef {
        GroupRef::Name(name.into(), self.of(name))
    }

    /// The number of a group.
    pub fn of(&self, name: &[u8]) -> u64 {
        self.0.as_ref().map_or(0, |key| {
            let hash = blake3::keyed_hash(key, name);
            u64::from_le_bytes(*hash.as_bytes().first_chunk().expect("32 bytes"))
        })
    }
}

/// The first byte of a group's name, unless the group is the rest.
const NAMED: u8 = 0;

/// The texts of a group, from the library's name.
pub fn tuple_of(name: &[u8]) -> Result<Vec<String>> {
    let named = name.split_first().filter(|(mark, _)| **mark == NAMED);
    named
        .and_then(|(_, code)| decode(code))
        .ok_or_else(|| usage("the saved state of the stream holds a group without a name"))
}

impl GroupAssigner {
    /// Assigns declared groups to events, or the one sum.
    pub fn from_declared(table: Option<GroupTable>) -> Self {
        table.map_or(Self::None, |table| Self::Declared(Box::new(table)))
    }

    /// Assigns the groups of checked settings to events, without a key: the numbers of discovered groups are all 0.
    pub(super) fn from_settings(settings: &Settings) -> Self {
        match &settings.labels {
            Labels::Discovered { .. } => {
                Self::Discovered { name: Vec::new(), text: String::new(), numbers: GroupNumbers(None) }
            }
            _ => Self::from_declared(settings.groups()),
        }
    }

    /// Assigns discovered groups to events.
    pub fn discovered(stream: &Stream, key: &SecretKey) -> Self {
        Self::Discovered { name: Vec::new(), text: String::new(), numbers: GroupNumbers::new(stream, key) }
    }
}

impl LabelAssigner for GroupAssigner {
    type Label = GroupRef;

    fn grid_of(&self, stream: &Stream, label: &GroupRef) -> Grid {
        self.grid_in(stream.plan.request().grid(), label)
    }

    #[inline]
    fn label_of(&mut self, stream: &Stream, event: &Event<'_>) -> Result<Option<GroupRef>> {
        self.group_of(stream, event)
    }
}

impl GroupAssigner {
    /// The grid of a group's values, where values are on this grid at scale 1.
    pub(super) fn grid_in(&self, grid: Grid, label: &GroupRef) -> Grid {
        match (self, label) {
            (Self::Declared(table), GroupRef::Place(place)) => table.grid_of(*place, grid),
            _ => grid,
        }
    }

    /// The group of an event; `None` for an event that the stream skips.
    #[inline]
    pub(super) fn group_of(&mut self, stream: &Settings, event: &Event<'_>) -> Result<Option<GroupRef>> {
        match self {
            Self::None => Ok(Some(GroupRef::Place(0))),
            Self::Declared(table) => match table.place_of(event)? {
                None if stream.unknown_group == Refusable::Refuse => Err(table.unknown(event)),
                place => Ok(place.map(GroupRef::Place)),
            },
            Self::Discovered { name, text, numbers } => {
                name.clear();
                name.push(NAMED);
                let is_whole = push_labels(name, text, stream, event, "group")?;
                Ok(is_whole.then(|| numbers.label(name)))
            }
        }
    }
}

impl Accumulator for RunningSums {
    type Label = GroupRef;
    type Labels = GroupAssigner;
    type Closed<'a> = ClosedStep<'a>;

    fn labels(&self) -> GroupAssigner {
        match (&self.streams, &self.groups) {
            (SumStreams::Discovered(_), _) => {
                let numbers = self.numbers.clone();
                GroupAssigner::Discovered { name: Vec::new(), text: String::new(), numbers }
            }
            (_, Some(table)) => GroupAssigner::Declared(Box::new(table.clone())),
            (_, None) => GroupAssigner::None,
        }
    }

    fn group_of(label: &GroupRef) -> u64 {
        match label {
            GroupRef::Place(place) => *place as u64,
            GroupRef::Name(_, number) => *number,
        }
    }

    fn push_label(label: &GroupRef, bytes: &mut Vec<u8>) {
        match label {
            // fits: declared in memory
            GroupRef::Place(place) => bytes.extend_from_slice(&(*place as u32).to_be_bytes()),
            GroupRef::Name(name, _) => bytes.extend_from_slice(name),
        }
    }

    fn read_label(&self, bytes: &[u8]) -> Option<GroupRef> {
        match self.streams {
            SumStreams::Discovered(_) => Some(self.label_of(bytes)),
            _ => bytes.try_into().ok().map(|place| GroupRef::Place(u32::from_be_bytes(place) as usize)),
        }
    }

    fn step(&self) -> u64 {
        self.step
    }

    #[inline]
    fn add(&mut self, group: &GroupRef, kept: KeptEvent) -> Result<()> {
        let value = kept.value;
        match (&mut self.streams, group) {
            (SumStreams::Total(stream, _), _) => Ok(stream.add(value)?),
            (SumStreams::Groups(streams), GroupRef::Place(place)) => Ok(streams.add(*place, value)?),
            (SumStreams::Measured(parts), GroupRef::Place(place)) => parts.add(*place, kept),
            (SumStreams::Discovered(keys), GroupRef::Name(name, _)) => Ok(keys.add(name, value)?),
            _ => Err(usage("the event was read for a stream with other groups")),
        }
    }

    #[inline(never)]
    fn add_kept(&mut self, open: &mut OpenStep<Self>, step: u64, since: u64) -> Result<()> {
        open.close(step, since, |label, kept| self.add(label, kept))
    }

    fn close<'a>(&'a mut self, stream: &'a Stream, _: u64, digest: &mut StreamDigest) -> Result<ClosedStep<'a>> {
        let step = self.step + 1;
        let slot = stream.slot_ending(step);
        // Empty slots after it; only declared sums have them.
        let through = stream.published.as_ref().map_or(step, |published| published.slots_through(step));
        match &self.streams {
            SumStreams::Total(..) | SumStreams::Groups(_) => {
                self.streams.open_sums(&mut self.closed);
                for (sum, before) in self.closed.iter_mut().zip(&mut self.before) {
                    let open = std::mem::replace(before, *sum);
                    *sum = sum.checked_sub(open).ok_or_else(|| usage("the sum of a step does not fit 64 bits"))?;
                }
                digest.close_step(&self.closed)?;
            }
            SumStreams::Discovered(keys) => bind_discovered(keys, step, digest)?,
            SumStreams::Measured(parts) if slot.is_none() => parts.bind(digest)?,
            SumStreams::Measured(_) => {} // bound when the slot is closed
        }
        self.step = step;
        let rows = &mut self.rows;
        let mut closed = ClosedStep { stream, step, releases: &[], discovered: None, measured: None, sums: &[], rows };
        if matches!(self.streams, SumStreams::Total(..) | SumStreams::Groups(_)) {
            closed.sums = &self.closed;
        }
        if slot.is_none() {
            return Ok(closed);
        }
        self.before.fill(0);
        match &mut self.streams {
            SumStreams::Total(sum, last) => {
                closed.releases = std::slice::from_ref(last.insert(sum.tick()?));
                if sum.step() < through {
                    sum.tick_through(through)?;
                }
            }
            SumStreams::Groups(streams) => {
                self.shown.clear();
                self.shown.extend_from_slice(streams.tick()?);
                while streams.step() < through {
                    streams.tick()?;
                }
                closed.releases = &self.shown;
            }
            SumStreams::Discovered(keys) => {
                keys.tick()?;
                keys.entering()
                    .try_for_each(|shown| tuple_of(keys.name(shown)).map(|tuple| closed.rows.enter(tuple)))?;
                let keys = &**keys;
                (closed.releases, closed.discovered) = (keys.releases(), Some(keys));
            }
            SumStreams::Measured(parts) => {
                parts.close(digest)?;
                closed.measured = Some(&mut **parts);
            }
        }
        Ok(closed)
    }
}

/// Binds the digest to the open slot's additions to discovered groups, each by name, like items of a sketch.
fn bind_discovered(keys: &DiscoveredSums, step: u64, digest: &mut StreamDigest) -> Result<()> {
    let sums = keys.unsafe_open_sums().filter(|(_, sum)| *sum != 0);
    let mut sums: Vec<(Box<[u8]>, i64)> = sums.map(|(name, sum)| (name.into(), sum)).collect();
    sums.sort_unstable();
    digest.close_items(&sums, step)
}

impl ClosedStep<'_> {
    /// The step, from 1.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The releases, one per group, in declared order or in order of discovery; empty for measures, and for a step that
    /// is not published.
    pub fn releases(&self) -> &[Release] {
        self.releases
    }

    /// The sums of this step's events for each declared group: **exact, never to be published**.
    pub fn unsafe_exact_sums(&self) -> &[i64] {
        self.sums
    }

    /// The texts of each group; without groups, a single entry without texts.
    pub fn tuples(&self) -> &[Vec<String>] {
        self.rows.tuples()
    }

    /// Visits the rows of the step, each with the place of its group (with measures, its place among all groups and
    /// rows). If groups were discovered in this step, their rows of all earlier steps come first, group by group.
    ///
    /// # Errors
    /// If an interval is too wide to write, or `visit` fails.
    pub fn for_each_row<E: From<PipelineError>>(
        &mut self,
        mut visit: impl FnMut(usize, &ReleaseRow<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(measured) = &mut self.measured {
            return measured.for_each_row(self.stream, self.rows.tuples(), visit);
        }
        if let Some(keys) = self.discovered {
            for shown in keys.entering() {
                for release in keys.earlier(shown) {
                    self.rows.of_step(self.stream, shown, &[release], &mut visit)?;
                }
            }
        }
        self.rows.of_step(self.stream, 0, self.releases, visit)
    }
}
