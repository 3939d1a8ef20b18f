//! The amounts that the events of one person, or one event alone, add to all parts: for processes none of which sees
//! everyone.
//!
//! All parts are sums over persons, and a person's additions follow from the person's own events. So a process that has
//! all events of a person can compute them independently.

use super::Bundle;
use super::parts::Part;
use crate::error::Result;
use std::collections::{BTreeMap, HashSet};

/// A kept event.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredEvent {
    /// Its step.
    pub step: u64,
    /// The first step of its period.
    pub since: u64,
    /// The place of its group.
    pub group: u32,
    /// The kept part of its value.
    pub value: i64,
}

impl Bundle {
    /// The number of running sums of a group in all parts: their cells, one part after another.
    pub fn cells(&self) -> usize {
        self.parts().iter().map(|planned| planned.part.cells()).sum()
    }

    /// Calls `add` with every addition of the kept events of one person, through a last step: step, group, cell and
    /// amount. The events are ordered by step. Without persons, `events` is a single event.
    pub fn for_each_addition(
        &self,
        events: &[MeasuredEvent],
        last_step: u64,
        mut add: impl FnMut(u64, u32, usize, i64) -> Result<()>,
    ) -> Result<()> {
        let mut before = 0;
        for planned in self.parts() {
            match &planned.part {
                Part::People => {
                    let mut counted = HashSet::new();
                    for event in events.iter().filter(|event| counted.insert((event.since, event.group))) {
                        add(event.step, event.group, before, 1)?;
                    }
                }
                Part::Active(window) | Part::Present(window) => {
                    let is_present = matches!(planned.part, Part::Present(_));
                    for (group, from, end) in runs(events, *window) {
                        if is_present {
                            (from..end.min(last_step + 1)).try_for_each(|step| add(step, group, before, 1))?;
                            continue;
                        }
                        add(from, group, before, 1)?;
                        if end <= last_step {
                            add(end, group, before, -1)?;
                        }
                    }
                }
                part => {
                    let noise = planned.plan.noise_kind();
                    for event in events {
                        part.of_event(self.centre(), noise, event.value, |cell, value| {
                            add(event.step, event.group, before + cell, value)
                        })?;
                    }
                }
            }
            before += planned.part.cells();
        }
        Ok(())
    }
}

/// The runs in which a person is active, having had an event in the last `window` steps: group, first step, and the
/// step after the last.
fn runs(events: &[MeasuredEvent], window: u64) -> Vec<(u32, u64, u64)> {
    let mut runs: Vec<(u32, u64, u64)> = Vec::new();
    let mut last: BTreeMap<u32, usize> = BTreeMap::new();
    for event in events {
        let end = event.step.saturating_add(window);
        match last.get(&event.group) {
            // An event in the step in which the run would end extends it.
            Some(run) if event.step <= runs[*run].2 => runs[*run].2 = end,
            _ => {
                last.insert(event.group, runs.len());
                runs.push((event.group, event.step, end));
            }
        }
    }
    runs
}
