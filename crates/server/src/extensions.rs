//! Streams that are extended without a request.
//!
//! The next stream continues from the last released values, so it can be opened once the last step is published, and is
//! opened at that moment. Its name follows from that of the one before it, its budget is reserved before it is opened,
//! and a reservation counts once: after a crash between the two, or on another machine, the same extension is
//! completed.

use crate::audit::{AuditEntry, AuditLog};
use crate::config::Extend;
use crate::engine::{BatchId, Refusal, Service, StreamInfo, StreamState, next_name};
use evertally_declare::error::Result;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most extensions that are checked against the budget of a source in advance.
const MAX_FORESEEN: u32 = 12;
/// How often the budget is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
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
    looked: Instant,
}

/// The parts of a stream: itself, and the streams that continue it.
pub(crate) fn parts_of(service: &Service, name: &str) -> Vec<Arc<StreamInfo>> {
    let mut parts: Vec<Arc<StreamInfo>> = service.stream(name).into_iter().collect();
    let after = |last: &Arc<StreamInfo>| {
        let next = service.stream(next_name(last).ok()?.as_str())?;
        // Not a stream that somebody has given such a name.
        let continues = next.stream.follows.as_ref().is_some_and(|follows| follows.stream == last.name());
        continues.then_some(next)
    };
    while let Some(next) = parts.last().and_then(after) {
        parts.push(next);
    }
    parts
}

/// The part of a stream for a batch that was sent to it: the part that has accepted a batch with this id, or else the
/// first one whose steps are not all closed. The steps of the parts do not overlap, so no event is counted in two of
/// them, even if its batch is sent again without an id of its sender.
///
/// # Errors
/// If the store cannot be read.
pub(crate) fn part_for(service: &Service, info: Arc<StreamInfo>, id: &BatchId) -> Result<Arc<StreamInfo>> {
    // The positions of a source are those of one part.
    if info.progress().state != StreamState::Ended || matches!(id, BatchId::Source(_)) {
        return Ok(info);
    }
    for part in parts_of(service, info.name()) {
        let is_known = match id {
            BatchId::Named(id) => service.has_accepted(&part, id)?,
            _ => false,
        };
        if is_known || part.progress().state != StreamState::Ended {
            return Ok(part);
        }
    }
    Ok(info)
}

impl Extensions {
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
            let parts = parts_of(service, &name);
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
            let (left, new_problem) = match look_at(service, audit, extend, &parts) {
                Ok(found) => found,
                Err(error) => (0, Some(format!("stream `{}` cannot be extended: {error}", last.name()))),
            };
            if let Some(problem) = new_problem.as_ref().filter(|new| problem.as_ref() != Some(*new)) {
                tracing::error!(problem, "a stream cannot be extended");
            }
            // If it was extended just now, the new part is looked at next.
            let last = last.name().to_owned();
            self.locked().insert(name, ExtensionState { last, left, problem: new_problem, looked: Instant::now() });
        }
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
