//! What the events of one person, or one event alone, add to all parts: for processes of which none sees everybody.
//!
//! All parts are sums over persons, and what a person adds follows from the person's own events: so whoever has all
//! events of a person adds them up by themselves.

use super::Bundle;
use super::parts::Part;
use crate::error::Result;
use std::collections::{BTreeMap, HashSet};

/// An event that is kept.
#[derive(Clone, Copy, Debug)]
pub struct KeptEvent {
    /// Its step.
    pub step: u64,
    /// The first step of its period.
    pub since: u64,
    /// The place of its group.
    pub group: u32,
    /// What is kept of its value.
    pub value: i64,
}

impl Bundle {
    /// How many running sums a group has, of all parts: their cells, one part after the other.
    pub fn cells(&self) -> usize {
        self.parts().iter().map(|planned| planned.part.cells()).sum()
    }

    /// Visits all that the kept events of one person add, through a last step; they are in order of their steps. Without
    /// persons, of one event. Shown are step, group, cell and sum.
    pub fn for_each_addition(
        &self,
        events: &[KeptEvent],
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
                    let is_anew = matches!(planned.part, Part::Present(_));
                    for (group, from, end) in runs(events, *window) {
                        if is_anew {
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

/// In which groups a person is active from which step until before which, having had an event in the last `window` steps.
fn runs(events: &[KeptEvent], window: u64) -> Vec<(u32, u64, u64)> {
    let mut runs: Vec<(u32, u64, u64)> = Vec::new();
    let mut last: BTreeMap<u32, usize> = BTreeMap::new();
    for event in events {
        let end = event.step.saturating_add(window);
        match last.get(&event.group) {
            // An event in the very step in which it would end goes on.
            Some(run) if event.step <= runs[*run].2 => runs[*run].2 = end,
            _ => {
                last.insert(event.group, runs.len());
                runs.push((event.group, event.step, end));
            }
        }
    }
    runs
}
