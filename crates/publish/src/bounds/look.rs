//! Counts the events of each person, and releases histograms of the counts.

use super::{Candidates, ContributionEstimate};
use crate::session::{GroupAssigner, Placer};
use evertally::noise::{SecretKey, StreamName};
use evertally::plan::Plan;
use evertally::privacy::contribution::Pseudonym;
use evertally::stream::GroupedSums;
use evertally_declare::declaration::{Labels, Settings};
use evertally_declare::error::{Result, usage};
use evertally_declare::event::{Columns, Event};
use evertally_declare::groups::GroupTable;
use evertally_declare::policy::Outside;
use evertally_declare::steps::StepCalendar;
use evertally_ledger::ledger::{Ledger, StreamDigest};
use hashbrown::HashMap;
use std::sync::Arc;

/// Counts the events of each person in a stretch of time. It holds exact counts: protect it like the data.
///
/// Memory: about 40 bytes per person, and 8 more per candidate bound per step.
#[doc(alias = "Look")]
pub struct PersonEventCounts {
    candidates: Candidates,
    columns: Columns,
    placer: Placer<GroupAssigner>,
    name: StreamName,
    plan: Plan,
    places: HashMap<Pseudonym, usize>,
    persons: Vec<Person>,
    /// For each person, the number of events that each bound per step drops; the last is the number of all events.
    numbers: Vec<u64>,
}

/// The step of a person's last event, and the number of events in it so far.
#[derive(Clone, Copy)]
struct Person {
    step: u64,
    in_step: u64,
}

/// Noisy histograms, and the record that the ledger must hold before anyone sees them.
pub struct ReleasedLook {
    /// The estimates computed from them.
    pub estimate: ContributionEstimate,
    digest: StreamDigest,
}

impl PersonEventCounts {
    /// A look at the events in a stretch of time, filtered as a stream with these settings would filter them: events of
    /// declared groups only, and without events that lack a person if those are skipped. The counts are released under
    /// `name` by the plan that the candidates [ask for](Candidates::request).
    ///
    /// # Errors
    /// If the settings name no person, or name items of a sketch.
    pub fn new(
        settings: &Settings,
        stretch: StepCalendar,
        candidates: Candidates,
        (name, plan): (StreamName, Plan),
        key: &SecretKey,
    ) -> Result<Self> {
        if settings.columns.person.is_none() {
            return Err(usage("there are no bounds to choose for single events: name the column of the person"));
        }
        let groups: Option<GroupTable> = match &settings.labels {
            Labels::None => None,
            Labels::Groups(table) => Some(table.clone()),
            _ => return Err(usage("bounds can be chosen only for releases of counts and sums")),
        };
        let columns = Columns { value: None, ..settings.columns.clone() };
        let mut stream = settings.clone().planned(plan.clone())?;
        (stream.name, stream.calendar, stream.columns) = (name.clone(), stretch, columns.clone());
        // Only a part of the time is observed; events outside of it are skipped.
        stream.outside = if settings.outside == Outside::SkipAny { Outside::SkipAny } else { Outside::Skip };
        let labels = GroupAssigner::from_declared(groups);
        let placer = Placer::new(Arc::new(stream), labels, key);
        let (places, persons, numbers) = Default::default();
        Ok(Self { candidates, columns, placer, name, plan, places, persons, numbers })
    }

    /// The candidate bounds.
    pub fn candidates(&self) -> &Candidates {
        &self.candidates
    }

    /// The columns that are read.
    pub fn columns(&self) -> &Columns {
        &self.columns
    }

    /// Counts an event. Events must come in the order of their steps; if a person's events do not, the events dropped
    /// by a bound per step are underestimated.
    ///
    /// # Errors
    /// If a cell cannot be read, or if the event fits no group and such events are refused. The error names the row.
    pub fn push(&mut self, event: &Event<'_>) -> Result<()> {
        let Some(placed) = self.placer.place(event)? else { return Ok(()) };
        let bounds = self.candidates.per_step.len();
        let place = *self.places.entry(placed.person()).or_insert_with(|| {
            self.persons.push(Person { step: 0, in_step: 0 });
            self.numbers.resize(self.numbers.len() + bounds, 0);
            self.persons.len() - 1
        });
        let person = &mut self.persons[place];
        if person.step != placed.step() {
            *person = Person { step: placed.step(), in_step: 0 };
        }
        person.in_step += 1;
        let numbers = &mut self.numbers[place * bounds..][..bounds];
        for (number, bound) in numbers.iter_mut().zip(&self.candidates.per_step) {
            *number += u64::from(bound.is_none_or(|bound| person.in_step > bound));
        }
        Ok(())
    }

    /// Counts of persons by these numbers where they are not 0, one histogram after the other: **exact, never to be
    /// published**.
    pub(super) fn histograms(&self) -> Vec<i64> {
        let (bounds, cells) = (self.candidates.per_step.len(), self.candidates.cells());
        let mut counts = vec![0; bounds * cells];
        for (place, number) in self.numbers.iter().enumerate().filter(|(_, number)| **number > 0) {
            counts[place % bounds * cells + self.candidates.cell(*number)] += 1;
        }
        counts
    }

    /// Adds the noise. Record the result before anyone sees it.
    ///
    /// # Errors
    /// If events were read and none is in the stretch, if the name was used for other data or under another plan, or
    /// the ledger's source has too little budget left.
    pub fn release(self, key: &SecretKey, ledger: &Ledger) -> Result<ReleasedLook> {
        self.placer.check_times()?;
        let mut digest = ledger.stream(key, &self.name, &self.plan, 1)?;
        let mut sums =
            GroupedSums::new(self.plan.clone(), &digest.guarded(key)?, self.name.clone(), self.candidates.groups()?)?;
        let counts = self.histograms();
        for (group, count) in counts.iter().enumerate() {
            (0..*count).try_for_each(|_| sums.add(group, 1))?;
        }
        digest.close_step(&counts)?;
        let noisy: Vec<f64> = sums.tick()?.iter().map(|release| release.value()).collect();
        let estimate = ContributionEstimate::new(self.candidates, &noisy, &self.plan)?;
        Ok(ReleasedLook { estimate, digest })
    }
}

impl ReleasedLook {
    /// Records the look durably. Call this before anyone can see it.
    ///
    /// # Errors
    /// If the ledger cannot be written, or another run has used the name in the meantime.
    pub fn record(&mut self, ledger: &mut Ledger) -> Result<()> {
        ledger.record(&mut self.digest)
    }
}
