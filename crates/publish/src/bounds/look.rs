//! What every person does, from events; and its histograms, released.

use super::{Candidates, Estimate};
use crate::session::{GroupLabels, Placer};
use evertally::noise::{SecretKey, StreamName};
use evertally::plan::Plan;
use evertally::privacy::contribution::Pseudonym;
use evertally::stream::GroupedSums;
use evertally_declare::declaration::{Labels, Settings};
use evertally_declare::error::{Result, usage};
use evertally_declare::event::{Columns, Event};
use evertally_declare::groups::GroupTable;
use evertally_declare::steps::StepCalendar;
use evertally_declare::stream::Refusable;
use evertally_ledger::ledger::{Ledger, StreamDigest};
use hashbrown::HashMap;
use std::sync::Arc;

/// Counts the events of every person in a stretch of time. It holds exact counts: keep it as safe as the data.
///
/// Memory: some 40 bytes a person, and 8 more for each bound a step that is tried.
pub struct Look {
    candidates: Candidates,
    columns: Columns,
    placer: Placer<GroupLabels>,
    name: StreamName,
    plan: Plan,
    places: HashMap<Pseudonym, usize>,
    persons: Vec<Person>,
    /// Of each person, how many events each bound a step leaves out, and how many there are.
    numbers: Vec<u64>,
}

/// The step of a person's last event, and how many there were in it.
#[derive(Clone, Copy)]
struct Person {
    step: u64,
    in_step: u64,
}

/// Histograms with noise, and what the ledger has to record before anyone sees them.
pub struct Looked {
    /// What follows from them.
    pub estimate: Estimate,
    digest: StreamDigest,
}

impl Look {
    /// Of the events in a stretch of time, as a stream with these settings would take them in: of declared groups, and
    /// without those that lack a person where such events are skipped. Its counts are released under `name` by the plan
    /// that the candidates [ask for](Candidates::request).
    ///
    /// # Errors
    /// If the settings name no person, or items of a sketch.
    pub fn new(
        settings: &Settings,
        stretch: StepCalendar,
        candidates: Candidates,
        (name, plan): (StreamName, Plan),
        key: &SecretKey,
    ) -> Result<Self> {
        if settings.columns.person.is_none() {
            return Err(usage("single events have no bounds to choose: name the column of the person"));
        }
        let groups: Option<GroupTable> = match &settings.labels {
            Labels::None => None,
            Labels::Groups(table) => Some(table.clone()),
            _ => return Err(usage("only releases of counts and sums have bounds to choose here")),
        };
        let columns = Columns { value: None, ..settings.columns.clone() };
        let mut stream = settings.clone().planned(plan.clone())?;
        (stream.name, stream.calendar, stream.columns) = (name.clone(), stretch, columns.clone());
        // What is looked at is a part of the time; what is outside is for others.
        stream.outside = Refusable::Skip;
        let labels = GroupLabels::of_declared(groups);
        let placer = Placer::new(Arc::new(stream), labels, key);
        let (places, persons, numbers) = Default::default();
        Ok(Self { candidates, columns, placer, name, plan, places, persons, numbers })
    }

    /// The bounds that are tried.
    pub fn candidates(&self) -> &Candidates {
        &self.candidates
    }

    /// The columns that it reads.
    pub fn columns(&self) -> &Columns {
        &self.columns
    }

    /// Counts an event. Events come in the order of their steps; where some person's do not, fewer of them seem to be
    /// left out by a bound a step than would be.
    ///
    /// # Errors
    /// If a cell cannot be read or the event fits no group and such events are refused. The error names the row.
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

    /// Persons by these numbers where they are not 0, one histogram behind the other: **exact, and never to be published**.
    pub(super) fn histograms(&self) -> Vec<i64> {
        let (bounds, cells) = (self.candidates.per_step.len(), self.candidates.cells());
        let mut counts = vec![0; bounds * cells];
        for (place, number) in self.numbers.iter().enumerate().filter(|(_, number)| **number > 0) {
            counts[place % bounds * cells + self.candidates.cell(*number)] += 1;
        }
        counts
    }

    /// Adds the noise. Record what it gives before anyone sees it.
    ///
    /// # Errors
    /// If the name was used for other data or under another plan, or what it spends does not fit the ledger's source.
    pub fn release(self, key: &SecretKey, ledger: &Ledger) -> Result<Looked> {
        let mut digest = ledger.stream(key, &self.name, &self.plan, 1)?;
        let mut sums =
            GroupedSums::new(self.plan.clone(), &digest.guarded(key)?, self.name.clone(), self.candidates.groups()?)?;
        let counts = self.histograms();
        for (group, count) in counts.iter().enumerate() {
            (0..*count).try_for_each(|_| sums.add(group, 1))?;
        }
        digest.close_step(&counts)?;
        let noisy: Vec<f64> = sums.tick()?.iter().map(|release| release.value()).collect();
        let estimate = Estimate::new(self.candidates, &noisy, &self.plan)?;
        Ok(Looked { estimate, digest })
    }
}

impl Looked {
    /// Records it durably. Call this before anyone can see it.
    ///
    /// # Errors
    /// If the ledger cannot be written, or the name was used meanwhile.
    pub fn record(&mut self, ledger: &mut Ledger) -> Result<()> {
        ledger.record(&mut self.digest)
    }
}
