//! Opening streams: from a declaration to a plan and its cost, before anything is opened.

use super::Notice;
use super::core::Core;
use super::info::{StreamInfo, StreamState};
use super::refusal::Refusal;
use super::resolved::{Resolved, lines_of};
use crate::store::{ClosedBy, FOLLOWS, NAMES, Phase, RECOVERING, STREAMS, StreamRecord, stored, to_bytes};
use evertally::noise::StreamName;
use evertally_declare::declaration::Declaration;
use evertally_declare::error::{PipelineError, Result, failure, usage};
use evertally_declare::follows::CarriedSum;
use evertally_declare::groups::GroupTable;
use evertally_declare::records::Records;
use evertally_declare::steps::{Horizon, Instant, StepCalendar};
use evertally_declare::stream::Stream;
use evertally_ledger::ledger::Follows;
use evertally_ledger::source::{Approval, Claim, Costs, SourceBudget};
use evertally_publish::report::ErrorFacts;
use evertally_publish::session::Session;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A stream that is to be opened.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The declaration, as JSON.
    pub declaration: String,
    /// Whether anybody may read it.
    pub public: bool,
    /// The data source whose budget it spends.
    pub source: Option<String>,
    /// Who closes its steps.
    pub closing: ClosedBy,
    /// The column with the ids of its rows, if rows are counted once by their id.
    pub id: Option<String>,
}

/// A planned stream that is not opened yet.
pub struct Preview {
    resolved: Resolved,
    opening: Opening,
    follows: Option<Follows>,
    /// Whether its time has come without a request, so that its first steps may be over after a long stop.
    is_automatic: bool,
    /// The remaining budget of its source after it, in words, if it has a source.
    pub left: Option<String>,
}

impl Preview {
    /// The stream.
    pub fn stream(&self) -> &Stream {
        &self.resolved.stream
    }

    /// The request.
    pub fn opening(&self) -> &Opening {
        &self.opening
    }

    /// Its declared groups.
    pub fn groups(&self) -> Option<&GroupTable> {
        self.resolved.groups.as_ref()
    }

    /// The errors of its future publications.
    pub fn errors(&self) -> ErrorFacts {
        ErrorFacts::for_releases(&self.resolved.stream)
    }

    /// Checks that the stream can accept sums, if an external counter sends them.
    ///
    /// # Errors
    /// If it cannot.
    pub(crate) fn check_sums(&self) -> Result<()> {
        let (stream, opening) = (self.stream(), &self.opening);
        if opening.closing != ClosedBy::Sums {
            return Ok(());
        }
        if stream.columns.labels.iter().any(|name| name == "step" || name == "sum") {
            return Err(usage("sums of steps have columns `step` and `sum`: rename the column of the group"));
        }
        if opening.id.is_some() {
            return Err(usage("a stream that accepts sums has no rows with ids: omit `id`"));
        }
        if stream.measures.is_some() {
            return Err(usage(
                "a stream that accepts sums cannot have several measures or workloads: open one stream for each, \
                 or close its steps by the clock",
            ));
        }
        Ok(())
    }

    /// The end of its first step, if the clock would close that step before its events can arrive.
    pub fn missed_step(&self, now: Instant) -> Option<String> {
        let ClosedBy::Schedule { grace, .. } = self.opening.closing else { return None };
        let first = self.stream().calendar.end_of(1);
        let is_missed = first.micros().saturating_add(grace) < now.micros();
        is_missed.then(|| self.stream().calendar.format(first))
    }
}

/// The name of the stream that continues another: `NAME #2`, and so on.
///
/// # Errors
/// If it is too long.
pub(crate) fn next_name(info: &StreamInfo) -> Result<StreamName> {
    name_after(info.name(), info.stream.follows.is_some())
}

fn name_after(name: &str, follows: bool) -> Result<StreamName> {
    let (first, place) = match name.rsplit_once(" #") {
        Some((first, place)) if follows => (first, place.parse::<u32>().unwrap_or(1)),
        _ => (name, 1),
    };
    format!("{first} #{}", place + 1)
        .parse()
        .map_err(|_| usage(format!("the name of stream `{name}` is too long for an extension")))
}

/// Whether a source's budget has recorded the cost of a stream under a key.
pub(crate) fn is_spent(costs: &[Costs], stream: &str, key_id: &str) -> bool {
    costs.iter().any(|cost| cost.stream == stream && cost.key_id == key_id)
}

/// Checks that another stream can continue from the last values of this one.
///
/// # Errors
/// If it has no end, or releases anything but running sums of declared groups after every step.
pub(crate) fn check_continues(stream: &Stream) -> Result<()> {
    let name = &stream.name;
    if stream.plan.is_unbounded() {
        return Err(usage(format!("stream `{name}` has no end, so there is nothing to extend")));
    }
    if stream.published.is_some() || stream.measures.is_some() || stream.plan.threshold().is_some() {
        return Err(usage(format!(
            "stream `{name}` cannot be extended: only running sums of declared groups that are published after every \
             step continue in another stream; declare a longer horizon"
        )));
    }
    stream.goes_on()
}

/// The stream after another one, as far as its cost depends on it.
fn following_part(part: Stream) -> Result<Stream> {
    let calendar = &part.calendar;
    let (start, steps) = (calendar.end(), Horizon::Steps(calendar.steps()));
    let calendar = StepCalendar::new(start, steps, calendar.every(), calendar.zone().clone())
        .map_err(|problem| usage(problem.sentence()))?;
    let carried = vec![CarriedSum { group: Vec::new(), exact: "0".to_owned(), streams: part.streams() }];
    let steps = part.steps_before() + part.calendar.steps();
    let follows = Follows { stream: part.name.to_string(), since: part.start_in_words(), steps, carried };
    let name = name_after(part.name.as_str(), part.follows.is_some())?;
    let mut next = part;
    next.follows = Some(follows);
    (next.name, next.calendar) = (name, calendar);
    Ok(next)
}

/// A stream that continues another.
pub(super) struct Next {
    opening: Opening,
    follows: Follows,
}

impl Next {
    /// Plans it, which may take seconds.
    ///
    /// # Errors
    /// If no plan meets the declaration.
    pub(super) fn planned(self) -> Result<Preview> {
        following(self.opening, Some(self.follows))
    }

    /// The same for an extension that nobody has requested.
    ///
    /// # Errors
    /// As [`planned`](Self::planned).
    pub(super) fn planned_automatically(self) -> Result<Preview> {
        Ok(Preview { is_automatic: true, ..self.planned()? })
    }
}

/// Plans a stream to be opened. It takes seconds, and runs in any thread.
///
/// # Errors
/// If the declaration is invalid, or no plan meets it.
pub(super) fn preview(opening: Opening) -> Result<Preview> {
    following(opening, None)
}

/// The same for a stream that may continue another.
fn following(opening: Opening, follows: Option<Follows>) -> Result<Preview> {
    let resolved = Resolved::new(&opening.declaration, None, follows.clone())?;
    Ok(Preview { resolved, opening, follows, is_automatic: false, left: None })
}

impl Core {
    /// Checks whether a planned stream could be opened now, and computes the remaining budget of its source after it.
    ///
    /// # Errors
    /// If its name is taken, it begins in the past, or its source is unknown or lacks budget.
    pub fn check(&self, preview: &mut Preview) -> Result<()> {
        let (stream, opening) = (&preview.resolved.stream, &preview.opening);
        let name = stream.name.as_str();
        if let Some(why) = &self.read_only {
            return Err(usage(why.clone()));
        }
        if self.find(name).is_some() {
            return Err(usage(format!(
                "there is already a stream `{name}`, and open streams do not change: choose another name"
            )));
        }
        // A stream that recovers is not closed by the clock, and the start of an automatic one was declared long ago.
        let may_be_past = self.witnessed.streams.contains_key(name) || preview.is_automatic;
        preview.check_sums()?;
        if let Some(end) = preview.missed_step(self.clock.now()).filter(|_| !may_be_past) {
            if preview.follows.is_some() {
                return Err(usage(format!(
                    "its first step ended at {end}, without its events: a stream is extended before that, or \
                     automatically (`extend`). Open a stream with another name and a later start"
                )));
            }
            return Err(usage(format!(
                "its first step ended at {end}, and would be closed before its events can arrive; begin later, or let \
                 an operator close its steps (`closing` = \"operator\")"
            )));
        }
        if let Some(source) = self.source(opening)? {
            self.check_known(&source, opening)?;
            let claim = Claim::from_stream(stream, &self.key.id().to_string());
            preview.left = Some(format!("{}", source.check(&claim)?));
        }
        Ok(())
    }

    /// Checks whether planned streams fit the budgets of their sources together.
    ///
    /// # Errors
    /// The place of the first that does not, and why.
    pub(super) fn check_together(&self, previews: &[Preview]) -> Result<(), (usize, PipelineError)> {
        let mut of_sources: BTreeMap<&str, Vec<(usize, Claim)>> = BTreeMap::new();
        for (place, preview) in previews.iter().enumerate() {
            if let Some(source) = &preview.opening.source {
                let claim = Claim::from_stream(&preview.resolved.stream, &self.key.id().to_string());
                of_sources.entry(source).or_default().push((place, claim));
            }
        }
        for claims in of_sources.into_values() {
            let first = claims[0].0;
            let budget = self.source(&previews[first].opening).map_err(|error| (first, error))?;
            let Some(budget) = budget else { continue };
            budget
                .check_all(claims.iter().map(|(_, claim)| claim))
                .map_err(|(fitting, error)| (claims.get(fitting).map_or(first, |(place, _)| *place), error))?;
        }
        Ok(())
    }

    /// Checks that a budget knows all streams that spend from it: an old copy of its file would let them spend again.
    fn check_known(&self, budget: &SourceBudget, opening: &Opening) -> Result<()> {
        let (key_id, costs) = (self.key.id().to_string(), budget.state()?.costs);
        let spending = self.live.values().filter(|live| live.info.record().source == opening.source);
        for name in spending.map(|live| live.info.name()) {
            if !is_spent(&costs, name, &key_id) {
                return Err(usage(format!(
                    "the budget of its source does not know stream `{name}`, which spends from it: restore the \
                     previous file"
                )));
            }
        }
        Ok(())
    }

    fn source(&self, opening: &Opening) -> Result<Option<SourceBudget>> {
        self.source_named(opening.source.as_deref())
    }

    fn source_named(&self, name: Option<&str>) -> Result<Option<SourceBudget>> {
        let Some(name) = name else { return Ok(None) };
        let path = self.sources.get(name).ok_or_else(|| {
            usage(format!("there is no data source `{name}`; declare it in the configuration of the service"))
        })?;
        SourceBudget::from_file(path).map(Some)
    }

    /// Opens a planned stream: from here on its budget is spent.
    ///
    /// # Errors
    /// As [`check`](Self::check), or if the store cannot be written.
    pub fn open_stream(&mut self, mut preview: Preview) -> Result<(), Refusal> {
        self.check(&mut preview)?;
        let Preview { resolved, opening, follows, is_automatic, .. } = preview;
        let name = resolved.stream.name.clone();
        // If a crash came between ledger and store, the ledger has a plan already.
        let resolved = match self.ledger.plan_text(&name) {
            Some(_) => Resolved::new(&opening.declaration, Some(&self.ledger), follows.clone())?,
            None => resolved,
        };
        let source = self.source(&opening)?;
        self.ledger.spend_from(source.map(|budget| (budget, Approval::default())));
        let begun = self.begin(&resolved);
        self.ledger.spend_from(None);
        let session = begun?;
        let number = self.live.keys().next_back().map_or(1, |last| last + 1);
        let Opening { declaration, public, source, closing, id } = opening;
        let opened_at = self.clock.now().micros();
        let record = StreamRecord {
            name: name.to_string(),
            declaration,
            public,
            source,
            closing,
            id,
            opened_at,
            phase: Phase::Open,
        };
        let lines = lines_of(&resolved);
        // If its witness has seen steps of it, they were published from another copy of the folder.
        let seen = self.witnessed.streams.get(name.as_str()).cloned();
        self.store.change(|writing| {
            let mut streams = writing.open_table(STREAMS).map_err(stored)?;
            streams.insert(number, to_bytes(&record)?.as_slice()).map_err(stored)?;
            if let Some(seen) = &seen {
                let mut table = writing.open_table(RECOVERING).map_err(stored)?;
                table.insert(number, to_bytes(seen)?.as_slice()).map_err(stored)?;
            }
            if let Some(follows) = &follows {
                let mut table = writing.open_table(FOLLOWS).map_err(stored)?;
                table.insert(number, to_bytes(follows)?.as_slice()).map_err(stored)?;
            }
            let mut names = writing.open_table(NAMES).map_err(stored)?;
            for (place, line) in (0u32..).zip(&lines) {
                names.insert((number, place), to_bytes(line)?.as_slice()).map_err(stored)?;
            }
            Ok(())
        })?;
        let mut live = self.live_of(number, record, resolved, session)?;
        live.ahead = seen;
        live.update_progress(None);
        let (now, first) = (self.clock.now(), live.times(1).map(|(closes, _)| closes));
        if is_automatic && first.is_some_and(|first| first <= now) {
            // After a long stop: events that wait elsewhere may still come.
            let until = Instant::from_micros(now.micros().saturating_add(self.catch_up));
            live.held_until = Some(until);
        }
        let info = Arc::clone(&live.info);
        self.put(live);
        (self.notify)(Notice::Changed(info));
        Ok(())
    }

    /// How many of the next `most` extensions of a stream its source has budget for, and why not for more.
    ///
    /// # Errors
    /// If the stream publishes something that cannot be continued, or the budget cannot be read.
    pub fn fitting_extensions(&self, name: &str, most: u32) -> Result<(u32, Option<String>)> {
        let info = self.find(name).ok_or_else(|| usage(format!("there is no stream `{name}`")))?;
        check_continues(&info.stream)?;
        let Some(budget) = self.source_named(info.record().source.as_deref())? else { return Ok((most, None)) };
        let (key_id, costs) = (self.key.id().to_string(), budget.state()?.costs);
        let (mut claims, mut part, mut reserved) = (Vec::new(), Stream::clone(&info.stream), 0);
        for _ in 0..most {
            part = following_part(part)?;
            // A crash came between the reservation and the opening.
            match is_spent(&costs, part.name.as_str(), &key_id) {
                true => reserved += 1,
                false => claims.push(Claim::from_stream(&part, &key_id)),
            }
        }
        Ok(match budget.check_all(&claims) {
            Ok(_) => (most, None),
            Err((fitting, error)) => (reserved + u32::try_from(fitting).unwrap_or(most), Some(error.to_string())),
        })
    }

    /// Prepares the stream that continues another after its horizon: with the same number of steps and declaration, its
    /// own budget, and values that continue from the last released ones. It is called `NAME #2`, and so on. It still
    /// has to be planned, in any thread, and opened.
    ///
    /// # Errors
    /// If the other has not ended, has steps that are not shown yet, or publishes something that cannot be continued.
    pub(super) fn next_of(&self, name: &str) -> Result<Next, Refusal> {
        let info = self.find(name).ok_or(Refusal::NoStream)?;
        let live = self.live.get(&info.number).ok_or(Refusal::NoStream)?;
        let next = next_name(&info)?;
        check_continues(&info.stream)?;
        if self.find(next.as_str()).is_some() {
            return Err(usage(format!("stream `{name}` was extended already, as `{next}`: extend that one")).into());
        }
        if live.state() != StreamState::Ended || !live.unseen.is_empty() {
            let last = info.stream.calendar.format(info.stream.calendar.end());
            return Err(usage(format!(
                "stream `{name}` can be extended once its horizon is over, at {last}, and all of it is published"
            ))
            .into());
        }
        let record = info.record();
        let declared = Declaration::from_json(&record.declaration).map_err(PipelineError::from)?;
        let declared = declared.next_stream(&next, &info.stream.calendar)?;
        let declaration = serde_json::to_string(&declared).map_err(failure)?;
        let follows = live.session.followed()?;
        let StreamRecord { public, source, closing, id, .. } = record;
        Ok(Next { opening: Opening { declaration, public, source, closing, id }, follows })
    }

    fn begin(&mut self, resolved: &Resolved) -> Result<Session<evertally_publish::session::RunningSums>> {
        let (stream, groups) = (resolved.stream.clone(), resolved.groups.clone());
        let mut session = Session::live(stream, groups, &self.key, &self.ledger)?;
        session.record_begun(&mut self.ledger)?;
        Ok(session)
    }

    /// Retires a stream: it accepts and closes nothing more; its spent budget stays spent.
    ///
    /// # Errors
    /// If there is no such stream, it is retired already, or the store cannot be written.
    pub fn retire(&mut self, name: &str) -> Result<(), Refusal> {
        let info = self.find(name).ok_or(Refusal::NoStream)?;
        if info.progress().state == StreamState::Retired {
            return Err(usage(format!("stream `{name}` is retired already")).into());
        }
        let phase = Phase::Retired(self.clock.now().micros());
        self.change_record(&info, StreamRecord { phase, ..info.record() })?;
        let live = self.live.get_mut(&info.number).expect("all streams are loaded");
        live.is_retired = true; // closed steps that were not shown stay hidden
        live.update_progress(None);
        (self.notify)(Notice::Changed(info));
        Ok(())
    }

    pub(super) fn change_record(&self, info: &super::StreamInfo, record: StreamRecord) -> Result<()> {
        self.store.change(|writing| {
            let mut streams = writing.open_table(STREAMS).map_err(stored)?;
            streams.insert(info.number, to_bytes(&record)?.as_slice()).map_err(stored)?;
            Ok(())
        })?;
        info.set_record(record);
        Ok(())
    }
}
