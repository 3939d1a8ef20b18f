//! Measures of a stream that closes step by step: the people that a shard remembers from step to step.

use super::labels::LabelNumbers;
use super::sums::Sums;
use evertally::privacy::contribution::Pseudonym;
use evertally_declare::error::{PipelineError, Result, usage};
use evertally_declare::measures::activity::{Activity, CountedMembers, GroupMember};
use evertally_declare::measures::parts::Part;
use evertally_declare::measures::{Bundle, MeasuredEvent};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The memory of a shard for each part of a bundle. **Not private.** It adds to each step what
/// [`Bundle::for_each_addition`] adds, from the events through that step alone.
pub(super) struct MeasureMemory<'b> {
    bundle: &'b Bundle,
    parts: Vec<PartMemory>,
    /// The number of groups.
    groups: usize,
}

enum PartMemory {
    None,
    Counted(CountedMembers),
    Active(Activity),
}

/// The saved form of one part.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct SavedMemory {
    counted: Option<(u64, Vec<GroupMember>)>,
    active: Option<Vec<(GroupMember, u64)>>,
}

impl<'b> MeasureMemory<'b> {
    /// Before the first step.
    pub(super) fn new(bundle: &'b Bundle, groups: usize) -> Self {
        let of = |part: &Part| match part {
            Part::People => PartMemory::Counted(CountedMembers::default()),
            Part::Active(window) | Part::Present(window) => PartMemory::Active(Activity::new(*window)),
            _ => PartMemory::None,
        };
        Self { bundle, parts: bundle.parts().iter().map(|planned| of(&planned.part)).collect(), groups }
    }

    /// The memory that was [saved](Self::save) after step `closed`.
    pub(super) fn restore(bundle: &'b Bundle, groups: usize, closed: u64, saved: Vec<SavedMemory>) -> Result<Self> {
        if saved.len() != bundle.parts().len() {
            return Err(damaged());
        }
        let of = |(part, saved): (&Part, SavedMemory)| match (part, saved.counted, saved.active) {
            (Part::People, Some(counted), None) => Ok(PartMemory::Counted(CountedMembers::restore(counted))),
            (Part::Active(window) | Part::Present(window), None, Some(active)) => {
                Activity::restore(*window, closed, active).map(PartMemory::Active).ok_or_else(damaged)
            }
            (Part::People | Part::Active(_) | Part::Present(_), ..) => Err(damaged()),
            (_, None, None) => Ok(PartMemory::None),
            _ => Err(damaged()),
        };
        let parts = bundle.parts().iter().map(|planned| &planned.part).zip(saved).map(of).collect::<Result<_>>()?;
        Ok(Self { bundle, parts, groups })
    }

    /// The saved form, for a next step in the period since `since`.
    pub(super) fn save(&self, since: u64) -> Vec<SavedMemory> {
        let of = |part: &PartMemory| match part {
            PartMemory::None => SavedMemory::default(),
            PartMemory::Counted(counted) => {
                let (of_period, members) = counted.save();
                // People who were counted in an earlier period are counted again.
                let counted = if of_period < since { CountedMembers::default().save() } else { (of_period, members) };
                SavedMemory { counted: Some(counted), active: None }
            }
            PartMemory::Active(activity) => SavedMemory { counted: None, active: Some(activity.save()) },
        };
        self.parts.iter().map(of).collect()
    }

    /// Adds a kept event of a person, in the open step.
    pub(super) fn add(
        &mut self,
        person: Pseudonym,
        event: MeasuredEvent,
        labels: &LabelNumbers,
        sums: &mut Sums,
    ) -> Result<()> {
        let MeasuredEvent { step, since, group, value } = event;
        let (member, mut before) = ((person.to_bytes(), group), 0);
        for (planned, memory) in self.bundle.parts().iter().zip(&mut self.parts) {
            let mut add = |cell: usize, amount| sums.add(step, labels.of_cell(group, before + cell), amount);
            match (&planned.part, memory) {
                (_, PartMemory::Counted(counted)) => {
                    if counted.is_first(member, since) {
                        add(0, 1)?;
                    }
                }
                (part, PartMemory::Active(activity)) => {
                    let is_up = activity.activate(member, step);
                    // People who are present are counted at the end of the step.
                    if is_up && !matches!(part, Part::Present(_)) {
                        add(0, 1)?;
                    }
                }
                (part, PartMemory::None) => {
                    part.of_event(self.bundle.centre(), planned.plan.noise_kind(), value, add)?;
                }
            }
            before += planned.part.cells();
        }
        Ok(())
    }

    /// Ends steps, in order: counts the people who become inactive in them, or are present in them.
    pub(super) fn end_steps(&mut self, steps: Range<u64>, labels: &LabelNumbers, sums: &mut Sums) -> Result<()> {
        let mut before = 0;
        for (planned, memory) in self.bundle.parts().iter().zip(&mut self.parts) {
            if let PartMemory::Active(activity) = memory {
                for step in steps.clone() {
                    let downs = activity.downs(step);
                    if matches!(planned.part, Part::Present(_)) {
                        let active = (0..).zip(activity.active(self.groups));
                        for (group, count) in active.filter(|(_, count)| *count > 0) {
                            sums.add(step, labels.of_cell(group, before), count)?;
                        }
                    } else {
                        downs.into_iter().try_for_each(|group| sums.add(step, labels.of_cell(group, before), -1))?;
                    }
                }
            }
            before += planned.part.cells();
        }
        Ok(())
    }

    /// The first step after `closed` to which this memory may add something without further events.
    pub(super) fn next(&self, closed: u64) -> Option<u64> {
        let of = |(part, memory): (&Part, &PartMemory)| match (part, memory) {
            (Part::Active(window), PartMemory::Active(activity)) => {
                activity.save().iter().map(|(_, last)| last.saturating_add(*window)).min()
            }
            (Part::Present(_), PartMemory::Active(activity)) => (!activity.save().is_empty()).then_some(closed + 1),
            _ => None,
        };
        self.bundle.parts().iter().map(|planned| &planned.part).zip(&self.parts).filter_map(of).min()
    }
}

pub(super) fn damaged() -> PipelineError {
    usage("the saved state of a shard of persons is damaged; restore the checkpoint, or begin with a new one")
}
