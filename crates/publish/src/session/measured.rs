//! The sums for several measures of one stream, each part under its own plan.

use super::KeptEvent;
use crate::row::{ReleaseRow, ReleasedValue};
use crate::rows::seven_digits;
use evertally::noise::{GuardedKey, SecretKey, StreamName};
use evertally::stream::{GroupedSums, Groups, Release};
use evertally_declare::error::{PipelineError, Result, usage};
use evertally_declare::groups::GroupTable;
use evertally_declare::measures::activity::{Activity, CountedMembers, GroupMember};
use evertally_declare::measures::estimate::{Estimator, MeasureEstimate, decimals};
use evertally_declare::measures::parts::Part;
use evertally_declare::measures::{Bundle, PlannedPart};
use evertally_declare::stream::Stream;
use evertally_declare::tuples::encode;
use evertally_ledger::ledger::StreamDigest;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::sync::Arc;

/// All parts of a stream with measures.
pub(super) struct MeasuredSums {
    bundle: Arc<Bundle>,
    parts: Vec<PartSums>,
    estimator: Estimator,
    /// The names of all rows of a group.
    labels: Vec<String>,
    /// Whether the open step has an event.
    has_events: bool,
    /// Whether events are counted elsewhere, which then also remembers people.
    is_counted: bool,
}

/// One part: a running sum for each cell of each group, group by group.
struct PartSums {
    part: Part,
    sums: GroupedSums,
    /// The open step's additions.
    open: Vec<i64>,
    releases: Vec<Release>,
    memory: PersonMemory,
}

/// A part's memory of people. **Not private.**
enum PersonMemory {
    None,
    CountedMembers(CountedMembers),
    Active(Activity),
}

/// The saved form of a part.
#[derive(Serialize, Deserialize)]
struct SavedPart {
    sums: Vec<u8>,
    counted: Option<(u64, Vec<GroupMember>)>,
    active: Option<Vec<(GroupMember, u64)>>,
}

/// The names of all running sums of a part, one per cell, group by group. No two are equal.
fn names(part: &Part, groups: Option<&GroupTable>) -> Result<Groups> {
    let no_groups = [Vec::new()];
    let tuples = groups.map_or(&no_groups[..], GroupTable::tuples);
    let cells = part.cells() as u32; // fits: at most some thousands
    let name = |tuple: &Vec<String>, cell: u32| [&cell.to_le_bytes()[..], &encode(tuple)].concat();
    Ok(Groups::new(tuples.iter().flat_map(|tuple| (0..cells).map(move |cell| name(tuple, cell))))?)
}

impl PartSums {
    fn new(planned: &PlannedPart, groups: Option<&GroupTable>, key: &GuardedKey, name: &StreamName) -> Result<Self> {
        let names = names(&planned.part, groups)?;
        let open = vec![0; names.len()];
        let sums = GroupedSums::new(planned.plan.clone(), key, name.clone(), names)?;
        let memory = match planned.part {
            Part::People => PersonMemory::CountedMembers(CountedMembers::default()),
            Part::Active(window) | Part::Present(window) => PersonMemory::Active(Activity::new(window)),
            _ => PersonMemory::None,
        };
        Ok(Self { part: planned.part.clone(), sums, open, releases: Vec::new(), memory })
    }

    fn restore(
        planned: &PlannedPart,
        groups: Option<&GroupTable>,
        key: &GuardedKey,
        name: &StreamName,
        saved: SavedPart,
    ) -> Result<Self> {
        let empty = Self::new(planned, groups, key, name)?;
        let names = names(&planned.part, groups)?;
        let sums = GroupedSums::restore(planned.plan.clone(), key, name.clone(), names, &saved.sums)?;
        let memory = match (&planned.part, saved.counted, saved.active) {
            (Part::People, Some(counted), None) => PersonMemory::CountedMembers(CountedMembers::restore(counted)),
            (Part::Active(window) | Part::Present(window), None, Some(active)) => {
                PersonMemory::Active(Activity::restore(*window, sums.step(), active).ok_or_else(damaged)?)
            }
            (Part::People | Part::Active(_) | Part::Present(_), ..) => return Err(damaged()),
            (_, None, None) => PersonMemory::None,
            _ => return Err(damaged()),
        };
        Ok(Self { sums, memory, ..empty })
    }

    fn save(&self) -> SavedPart {
        let (mut counted, mut active) = (None, None);
        match &self.memory {
            PersonMemory::None => {}
            PersonMemory::CountedMembers(memory) => counted = Some(memory.save()),
            PersonMemory::Active(memory) => active = Some(memory.save()),
        }
        SavedPart { sums: self.sums.save(), counted, active }
    }

    /// Adds a kept event of a group.
    fn add(&mut self, bundle: &Bundle, group: usize, kept: KeptEvent) -> Result<()> {
        let member = (kept.person.to_bytes(), group as u32); // fits: groups are declared in memory
        let step = self.sums.step() + 1;
        let Self { part, sums, open, memory, .. } = self;
        let (cells, noise) = (part.cells(), sums.plan().noise_kind());
        let mut add_at = |place: usize, value: i64| -> Result<()> {
            sums.add(place, value)?;
            open[place] += value; // fits: the stream has just checked the larger running sum
            Ok(())
        };
        match memory {
            PersonMemory::None => {
                part.of_event(bundle.centre(), noise, kept.value, |cell, value| add_at(group * cells + cell, value))
            }
            PersonMemory::CountedMembers(counted) => match counted.is_first(member, kept.since) {
                true => add_at(group, 1),
                false => Ok(()),
            },
            // People who are present are counted at the end of the step.
            PersonMemory::Active(activity) => {
                match activity.activate(member, step) && !matches!(part, Part::Present(_)) {
                    true => add_at(group, 1),
                    false => Ok(()),
                }
            }
        }
    }

    /// Adds to a running sum of the open step the sum of events that were counted elsewhere.
    fn add_counted(&mut self, place: usize, sum: i64) -> Result<()> {
        match self.part {
            // More people become inactive than active.
            Part::Active(_) if sum < 0 => (sum..0).try_for_each(|_| self.sums.take_back(place))?,
            _ => self.sums.add_sum(place, sum)?,
        }
        self.open[place] += sum; // fits: the stream has just checked the larger running sum
        Ok(())
    }

    /// Counts the people who become inactive in the open step, at its end.
    fn end_step(&mut self) -> Result<()> {
        let PersonMemory::Active(activity) = &mut self.memory else { return Ok(()) };
        let downs = activity.downs(self.sums.step() + 1);
        if matches!(self.part, Part::Present(_)) {
            let active = activity.active(self.open.len());
            for (group, active) in active.into_iter().enumerate() {
                self.sums.add_sum(group, active)?;
                self.open[group] = active;
            }
            return Ok(());
        }
        for group in downs {
            self.sums.take_back(group as usize)?;
            self.open[group as usize] -= 1;
        }
        Ok(())
    }
}

fn damaged() -> PipelineError {
    usage("the saved state of the stream is damaged; rebuild it from the raw data")
}

impl MeasuredSums {
    /// All parts before the first step.
    pub(super) fn new(
        stream: &Stream,
        bundle: &Arc<Bundle>,
        groups: Option<&GroupTable>,
        key: &GuardedKey,
    ) -> Result<Self> {
        let part = |planned| PartSums::new(planned, groups, key, &stream.name);
        Self::of(stream, bundle, bundle.parts().iter().map(part).collect::<Result<_>>()?)
    }

    /// Restores the sums from [`save`](Self::save).
    pub(super) fn restore(
        stream: &Stream,
        bundle: &Arc<Bundle>,
        groups: Option<&GroupTable>,
        key: &GuardedKey,
        saved: &[u8],
    ) -> Result<Self> {
        let saved: Vec<SavedPart> = postcard::from_bytes(saved).map_err(|_| damaged())?;
        if saved.len() != bundle.parts().len() {
            return Err(damaged());
        }
        let part = |(planned, saved)| PartSums::restore(planned, groups, key, &stream.name, saved);
        let parts: Vec<PartSums> = bundle.parts().iter().zip(saved).map(part).collect::<Result<_>>()?;
        if parts.iter().any(|part| part.sums.step() != parts[0].sums.step()) {
            return Err(damaged());
        }
        Self::of(stream, bundle, parts)
    }

    fn of(stream: &Stream, bundle: &Arc<Bundle>, parts: Vec<PartSums>) -> Result<Self> {
        let estimator = Estimator::new(Arc::clone(bundle), stream.confidence)?;
        Ok(Self {
            bundle: Arc::clone(bundle),
            parts,
            estimator,
            labels: bundle.labels(),
            has_events: false,
            is_counted: false,
        })
    }

    /// The sums and the memory of all parts.
    pub(super) fn save(&self) -> Vec<u8> {
        let parts: Vec<SavedPart> = self.parts.iter().map(PartSums::save).collect();
        postcard::to_allocvec(&parts).expect("a state is plain data")
    }

    /// Adds groups after the present ones.
    pub(super) fn join(&mut self, key: &SecretKey, name: &StreamName, groups: &GroupTable) -> Result<()> {
        for part in &mut self.parts {
            let names = names(&part.part, Some(groups))?;
            part.open.resize(names.len(), 0);
            part.sums.join(key, name.clone(), names)?;
        }
        Ok(())
    }

    pub(super) fn step(&self) -> u64 {
        self.parts[0].sums.step()
    }

    /// Whether the open step has no event.
    pub(super) fn is_between_steps(&self) -> bool {
        !self.has_events
    }

    /// Adds an event of a group to the open step of all parts.
    pub(super) fn add(&mut self, group: usize, kept: KeptEvent) -> Result<()> {
        self.has_events = true;
        let Self { bundle, parts, .. } = self;
        parts.iter_mut().try_for_each(|part| part.add(bundle, group, kept))
    }

    /// Adds to one [cell](Bundle::cells) of a group in the open step the sum of events that were counted elsewhere.
    pub(super) fn add_counted(&mut self, group: usize, mut cell: usize, sum: i64) -> Result<()> {
        self.is_counted = true;
        for part in &mut self.parts {
            let cells = part.part.cells();
            if cell < cells {
                return part.add_counted(group * cells + cell, sum);
            }
            cell -= cells;
        }
        Err(usage("the sum belongs to a stream with other measures"))
    }

    /// Binds the digest to the open step's additions to all parts so far.
    pub(super) fn bind(&self, digest: &mut StreamDigest) -> Result<()> {
        let open: Vec<i64> = self.parts.iter().flat_map(|part| &part.open).copied().collect();
        digest.close_step(&open)
    }

    /// Closes the open step; its additions to all parts go into the digest first.
    pub(super) fn close(&mut self, digest: &mut StreamDigest) -> Result<u64> {
        if !self.is_counted {
            self.parts.iter_mut().try_for_each(PartSums::end_step)?;
        }
        self.bind(digest)?;
        self.has_events = false;
        for part in &mut self.parts {
            part.open.fill(0);
            part.releases.clear();
            part.releases.extend_from_slice(part.sums.tick()?);
        }
        let step = self.step();
        self.estimator.go_to(step);
        Ok(step)
    }

    /// Visits the rows of the last closed step, each with its place among all groups and measures.
    pub(super) fn for_each_row<E: From<PipelineError>>(
        &mut self,
        stream: &Stream,
        tuples: &[Vec<String>],
        mut visit: impl FnMut(usize, &ReleaseRow<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(step) = stream.row_of_slot(self.step()) else { return Ok(()) };
        let calendar = stream.rows();
        let span = (calendar.start_of(step), calendar.end_of(step));
        let (mut time, mut text) = (String::new(), String::new());
        calendar.write_time(calendar.start_of(step), &mut time);
        for (group, tuple) in tuples.iter().enumerate() {
            let cells = |part: &'_ PartSums| group * part.part.cells()..(group + 1) * part.part.cells();
            let releases: Vec<&[Release]> = self.parts.iter().map(|part| &part.releases[cells(part)]).collect();
            let rows = self.estimator.rows(&releases);
            for (place, row) in rows.iter().enumerate() {
                text.clear();
                write_value(row, &mut text);
                let label = self.labels[place].as_str();
                let groups: Vec<&str> = tuple.iter().map(String::as_str).chain([label]).collect();
                let number = if row.exact.is_some() { row.value } else { text.parse().unwrap_or(f64::NAN) };
                let row = ReleaseRow {
                    time: &time,
                    span,
                    groups: &groups,
                    step,
                    value: ReleasedValue { text: &text, number },
                    std_error: seven_digits(row.std_error),
                    lower: end(row, row.lower),
                    upper: end(row, row.upper),
                    view: None,
                };
                visit(group * self.labels.len() + place, &row)?;
            }
        }
        Ok(())
    }
}

/// An end of an interval, with as many decimals as its value: seven digits would be too few for large sums.
fn end(row: &MeasureEstimate, end: f64) -> f64 {
    if row.exact.is_some() || !end.is_finite() {
        return end;
    }
    let decimals = decimals(row.std_error);
    format!("{end:.decimals$}").parse().expect("formatted as a number")
}

/// Writes counts exactly and other values to a thousandth of their standard error; writes nothing for a missing value.
fn write_value(row: &MeasureEstimate, text: &mut String) {
    let decimals = decimals(row.std_error);
    match row.exact {
        Some(release) => write!(text, "{release}"),
        None if row.value.is_nan() => Ok(()),
        None => write!(text, "{:.decimals$}", row.value),
    }
    .expect("a String accepts every write");
}
