//! Streams that are extended without a request.
//!
//! The next stream continues from the last released values, so it can be opened once the last step is published, and is
//! opened at that moment. Its name follows from that of the one before it, its budget is reserved before it is opened,
//! and a reservation counts once: after a crash between the two, or on another machine, the same extension is
//! completed.

use crate::audit::{AuditEntry, AuditLog};
use crate::config::Extend;
use crate::engine::{
    BatchId, NextPart, OtherParts, Receipt, Refusal, Service, StreamInfo, StreamState, SumsRange, SumsReceipt,
    content_id, next_name,
};
use crate::store::ClosedBy;
use evertally_declare::error::Result;
use evertally_declare::format::Format;
use evertally_declare::steps::{Instant as Moment, StepCalendar};
use evertally_tables::input::spool;
use std::collections::BTreeMap;
use std::io::{Read, Seek};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most extensions that are checked against the budget of a source in advance.
const MAX_FORESEEN: u32 = 12;
/// How often the budget is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// The most seconds after which a sender is to try again.
const MAX_WAIT: i64 = 60;
/// The pause after an extension that failed.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// The streams that are extended.
#[derive(Default)]
pub struct Extensions {
    settings: Mutex<Vec<(String, Extend)>>,
    states: Mutex<BTreeMap<String, ExtensionState>>,
}

/// How a stream is extended.
#[derive(Clone)]
pub struct ExtensionState {
    /// The name of its last part.
    pub last: String,
    /// How many more extensions there will be, at most [`MAX_FORESEEN`].
    pub left: u32,
    /// Why the next extension will fail, or has failed.
    problem: Option<String>,
    /// Whether it is known in advance that there is no budget for the next extension.
    ends: bool,
    looked: Instant,
}

/// A batch that was sent to a stream.
pub(crate) struct SentBatch {
    pub(crate) id: BatchId,
    /// The step that was open when it was accepted before, if its sender names it.
    pub(crate) open_step: Option<u64>,
    pub(crate) format: Format,
    pub(crate) bytes: Box<dyn Read + Send>,
}

/// The part of a stream for a batch that was sent to it: the part that has accepted a batch with this id, or else the
/// first one whose steps are not all closed, or else the last one. The steps of the parts do not overlap, so no event
/// is counted in two of them, even if its batch is sent again without an id of its sender. Rows of a source are known
/// by their positions, also by a part that continues from them.
fn part_for(service: &Service, info: Arc<StreamInfo>, sent: &mut SentBatch) -> Result<Arc<StreamInfo>> {
    if let BatchId::Source(range) = &sent.id
        && let Some(known) = service.part_with(range, info.name())?
    {
        return Ok(known);
    }
    if info.progress().state != StreamState::Ended {
        return Ok(info);
    }
    let mut parts = service.parts_of(info.name());
    let known = match &sent.id {
        BatchId::Named(id) => known_id(service, &parts, id)?,
        BatchId::Content if parts.len() > 1 => known_content(service, &parts, &mut sent.bytes)?,
        _ => None,
    };
    let open = parts.iter().find(|part| part.progress().state != StreamState::Ended).cloned();
    Ok(known.or(open).or_else(|| parts.pop()).unwrap_or(info))
}

/// Whether a part that is recovering after a restore was continued before: batches of the parts that were lost may be
/// sent again.
fn was_continued(service: &Service, part: &StreamInfo) -> Result<bool, Refusal> {
    if !matches!(part.progress().state, StreamState::Recovering(_)) {
        return Ok(false);
    }
    let name = part.name().to_owned();
    service.ask(move |core| Ok(core.was_continued(&name)))
}

/// The part that has accepted a batch with this id.
fn known_id(service: &Service, parts: &[Arc<StreamInfo>], id: &str) -> Result<Option<Arc<StreamInfo>>> {
    for part in parts {
        if service.has_accepted(part, id)? {
            return Ok(Some(Arc::clone(part)));
        }
    }
    Ok(None)
}

/// The part that has accepted a batch with these bytes. Every part has a key of its digests, so they are read once for
/// each, and once more by the part that is to accept them.
fn known_content(
    service: &Service,
    parts: &[Arc<StreamInfo>],
    bytes: &mut Box<dyn Read + Send>,
) -> Result<Option<Arc<StreamInfo>>> {
    let sent = std::mem::replace(bytes, Box::new(std::io::empty()));
    let mut file = spool(sent, "the batch", &AtomicBool::new(false))?;
    let mut known = None;
    for part in parts {
        file.rewind()?;
        let id = content_id(part, Box::new(file.try_clone()?))?;
        if service.has_accepted(part, &id)? {
            known = Some(Arc::clone(part));
            break;
        }
    }
    file.rewind()?;
    *bytes = Box::new(file);
    Ok(known)
}

impl Extensions {
    /// Accepts a batch in the part of a stream that it is for, and returns that part. Events of a part that is not open
    /// yet are refused until then, whatever is declared for events outside the horizon: they would be lost.
    ///
    /// # Errors
    /// If it is not accepted; then it has left no trace.
    pub(crate) fn accept(
        &self,
        service: &Service,
        info: Arc<StreamInfo>,
        mut sent: SentBatch,
    ) -> Result<(Arc<StreamInfo>, Receipt), Refusal> {
        let part = part_for(service, info, &mut sent)?;
        let next = self.next_of(service, &part)?;
        let SentBatch { id, open_step, format, bytes } = sent;
        // No event of a source is sent to two parts, so those of earlier parts are late.
        let since = match &id {
            BatchId::Source(range) => service.source_since(range, &part)?,
            _ => None,
        };
        let receipt = service.accept_among(OtherParts { next, since }, &part, (id, open_step), (format, bytes))?;
        Ok((part, receipt))
    }

    /// Accepts sums in the part of a stream that has their steps, and returns that part. Steps are counted from the
    /// first one of the stream.
    ///
    /// # Errors
    /// If they are not accepted; then nothing has changed.
    pub(crate) fn accept_sums(
        &self,
        service: &Service,
        info: Arc<StreamInfo>,
        range: SumsRange,
        batch: (Format, Box<dyn Read + Send>),
    ) -> Result<(Arc<StreamInfo>, SumsReceipt), Refusal> {
        let parts = if info.closing() == ClosedBy::Sums { service.parts_of(info.name()) } else { Vec::new() };
        let before = |part: &StreamInfo| part.stream.steps_before() - info.stream.steps_before();
        let has = |part: &&Arc<StreamInfo>| *range.steps.start() <= before(part) + part.stream.calendar.steps();
        let part = parts.iter().find(has).or(parts.last()).map_or_else(|| Arc::clone(&info), Arc::clone);
        let is_later = !parts.is_empty()
            && !has(&&part)
            && matches!(part.progress().state, StreamState::Ended | StreamState::Recovering(_));
        if is_later && (was_continued(service, &part)? || self.will_extend(service, &part)) {
            let next = next_part(&part, service.now().micros(), 0)?;
            return Err(Refusal::NotOpen { why: next.why, wait: next.wait, row: None });
        }
        let range = SumsRange { before: before(&part), ..range };
        let receipt = service.accept_sums(&part, range, batch)?;
        Ok((part, receipt))
    }

    /// The part that will continue a part, if it is not open yet and will be.
    fn next_of(&self, service: &Service, part: &Arc<StreamInfo>) -> Result<Option<NextPart>, Refusal> {
        let state = part.progress().state;
        let is_alive = matches!(state, StreamState::Open | StreamState::Ended | StreamState::Recovering(_));
        if !is_alive || part.closing() == ClosedBy::Sums || service.parts_of(part.name()).len() > 1 {
            return Ok(None);
        }
        if !was_continued(service, part)? && !self.will_extend(service, part) {
            return Ok(None);
        }
        let now = service.now().micros();
        let ahead = now.saturating_add(service.intake().ahead);
        Ok(Some(next_part(part, now, ahead)?))
    }

    /// Whether the settings extend a stream after this part, which is the last one so far.
    fn will_extend(&self, service: &Service, part: &StreamInfo) -> bool {
        let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        let is_part = |name: &str| {
            let rest = part.name().strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || (part.stream.follows.is_some() && rest.starts_with(" #")))
        };
        let found = settings.iter().find(|(name, _)| is_part(name)).cloned();
        drop(settings);
        let Some((first, extend)) = found else { return false };
        // The budget of its source does not allow it, which its operator can see.
        let ends = self.locked().get(&first).is_some_and(|state| state.ends && state.last == part.name());
        if ends && part.progress().state != StreamState::Ended {
            return false;
        }
        match extend {
            Extend::Automatic => true,
            Extend::Times(times) => {
                let place = service.parts_of(&first).iter().position(|own| own.name() == part.name());
                place.is_some_and(|place| (place as u64) < u64::from(times))
            }
        }
    }

    /// Sets the streams that are extended, by the names of their first parts.
    pub fn set(&self, settings: Vec<(String, Extend)>) {
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = settings;
        self.locked().clear();
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<String, ExtensionState>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of each stream that is extended, by the name of its first part.
    pub fn states(&self) -> BTreeMap<String, ExtensionState> {
        self.locked().clone()
    }

    /// Extensions that will fail or have failed, in words for an operator.
    pub fn problems(&self) -> Vec<String> {
        self.locked().values().filter_map(|state| state.problem.clone()).collect()
    }

    /// Extends the streams whose last part is over, and looks ahead for the others. It takes seconds if a stream is
    /// planned.
    pub(crate) fn look(&self, service: &Service, audit: &AuditLog) {
        let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (name, extend) in settings {
            let parts = service.parts_of(&name);
            let Some(last) = parts.last() else { continue };
            let interval = if is_over(last) { RETRY_INTERVAL } else { CHECK_INTERVAL };
            let before = self.locked().get(&name).cloned();
            let (known, problem) =
                before.map_or((None, None), |state| (Some((state.last, state.looked)), state.problem));
            let is_known =
                |(last_name, looked): &(String, Instant)| last_name == last.name() && looked.elapsed() < interval;
            // A stream that has ended since the last look is extended at once.
            let was_tried = !is_over(last) || problem.is_some();
            if known.is_some_and(|known| is_known(&known)) && was_tried {
                continue;
            }
            let (left, new_problem, ends) = match look_at(service, audit, extend, &parts) {
                Ok((left, problem)) => {
                    let ends = left == 0 && problem.is_some();
                    (left, problem, ends)
                }
                Err(error) => (0, Some(format!("stream `{}` cannot be extended: {error}", last.name())), false),
            };
            if let Some(problem) = new_problem.as_ref().filter(|new| problem.as_ref() != Some(*new)) {
                tracing::error!(problem, "a stream cannot be extended");
            }
            // If it was extended just now, the new part is looked at next.
            let last = last.name().to_owned();
            let state = ExtensionState { last, left, problem: new_problem, ends, looked: Instant::now() };
            self.locked().insert(name, state);
        }
    }
}

/// The part that follows another one, which is to open.
fn next_part(part: &StreamInfo, now: i64, ahead: i64) -> Result<NextPart> {
    let (name, next, calendar) = (part.name(), next_name(part)?, &part.stream.calendar);
    let (start, end) = (calendar.start().micros(), calendar.end().micros());
    let opens = match part.closing() {
        ClosedBy::Schedule { grace, delay } => Some(end.saturating_add(grace).saturating_add(delay)),
        _ => None,
    };
    let opens = opens.filter(|opens| *opens > now);
    let when = match opens {
        Some(opens) => format!("at {}", calendar.format(Moment::from_micros(opens))),
        None => format!("as soon as all of `{name}` is published"),
    };
    let seconds = opens.map_or(2, |opens| opens.saturating_sub(now) / 1_000_000 + 1);
    Ok(NextPart {
        why: format!("stream `{name}` is continued by `{next}`, which opens {when} and accepts nothing before"),
        wait: u32::try_from(seconds.clamp(1, MAX_WAIT)).unwrap_or(1),
        // About as long as this one, or longer if the machine was stopped for so long.
        until: Moment::from_micros(end.saturating_add(end.saturating_sub(start)).max(ahead)),
        future: matches!(part.closing(), ClosedBy::Schedule { .. }).then(|| future_after(calendar, ahead)),
    })
}

/// The end of the last step after a calendar that has begun at a moment. Steps of months differ a little, and the part
/// that accepts the events checks them again.
fn future_after(calendar: &StepCalendar, moment: i64) -> Moment {
    let end = calendar.end().micros();
    let width = end.saturating_sub(calendar.start_of(calendar.steps()).micros()).max(1);
    match moment.saturating_sub(end) {
        since if since < 0 => calendar.end(),
        since => Moment::from_micros(end.saturating_add(width.saturating_mul(since / width + 1))),
    }
}

/// Whether all steps of a stream are published.
fn is_over(info: &StreamInfo) -> bool {
    let progress = info.progress();
    progress.state == StreamState::Ended && progress.publications == info.stream.rows_through(progress.closed)
}

/// Extends a stream if its last part is over. Returns how many extensions are left, and why the next one will fail.
fn look_at(
    service: &Service,
    audit: &AuditLog,
    extend: Extend,
    parts: &[Arc<StreamInfo>],
) -> Result<(u32, Option<String>)> {
    let Some(last) = parts.last() else { return Ok((0, None)) };
    if matches!(last.progress().state, StreamState::Retired | StreamState::Failed(_)) {
        return Ok((0, None));
    }
    let done = u32::try_from(parts.len() - 1).unwrap_or(u32::MAX);
    let most = match extend {
        Extend::Automatic => MAX_FORESEEN,
        Extend::Times(times) => times.saturating_sub(done).min(MAX_FORESEEN),
    };
    let (name, own) = (last.name().to_owned(), last.name().to_owned());
    let asked = service.ask(move |core| Ok(core.fitting_extensions(&own, most)?));
    let (fitting, why) = asked.map_err(Refusal::into_error)?;
    if fitting == 0 && most > 0 && !is_over(last) {
        let end = last.stream.calendar.format(last.stream.calendar.end());
        let why = why.map_or(String::new(), |error| format!(": {error}"));
        return Ok((0, Some(format!("stream `{name}` ends at {end} and will not be extended{why}"))));
    }
    if most == 0 || !is_over(last) {
        return Ok((fitting, None));
    }
    // The budget itself decides.
    let next = service.extend_automatically(&name).map_err(Refusal::into_error)?;
    tracing::info!(stream = next, "the next part of a stream is open, and accepts its events from now on");
    audit.record(&AuditEntry::done("service", "extend", &name));
    Ok((fitting.saturating_sub(1), None))
}
