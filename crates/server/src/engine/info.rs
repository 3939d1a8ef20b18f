//! Shared facts about an open stream, for readers and writers in any thread.

use super::identity;
use super::positions::PositionKeeper;
use super::reporting::{GuaranteeStatement, Reporting};
use crate::store::{ClosedBy, StreamRecord};
use evertally_declare::event::Columns;
use evertally_declare::groups::{GroupTable, Joined};
use evertally_declare::steps::Instant;
use evertally_declare::stream::Stream;
use evertally_publish::report::Report;
use evertally_publish::session::{GroupAssigner, Placer};
use evertally_tables::output::TableSpec;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

/// A stream, as far as other threads than the counting one may know it.
pub struct StreamInfo {
    /// Its number in the store.
    pub number: u32,
    /// The resolved stream.
    pub stream: Arc<Stream>,
    /// The layout of its table.
    pub table: TableSpec,
    /// Its plan, as text.
    pub plan: String,
    record: RwLock<StreamRecord>,
    groups: RwLock<Arc<Option<GroupTable>>>,
    /// The groups that had joined according to the ledger, when it was planned.
    joined: RwLock<Arc<[Joined]>>,
    reporting: Reporting,
    names: RwLock<LineNames>,
    progress: Mutex<StreamProgress>,
    placers: Mutex<Vec<Placer<GroupAssigner>>>,
    /// Key of the digests of batches.
    pub(super) digest_key: [u8; 32],
    /// The columns of a batch: those that the stream declares and, in the end, that of the ids of rows.
    pub(super) columns: Columns,
    /// Whether rows have ids.
    pub(super) has_ids: bool,
    /// Counts for the operator.
    pub counts: Counts,
    /// The publications that readers may have seen before the start; 0 if none of them is missing.
    returning: AtomicU64,
}

/// The names of all lines of a stream, by place.
#[derive(Default)]
struct LineNames {
    by_place: Vec<Arc<[String]>>,
    places: HashMap<Arc<[String]>, u32>,
    /// The number of lines among the rows that are shown: a discovered group is unknown to everybody before that.
    shown: usize,
}

/// The progress of a stream, as far as anybody may know it.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamProgress {
    /// The last closed step.
    pub closed: u64,
    /// The number of publications shown.
    pub publications: u64,
    /// The digest of the shown rows.
    pub head: [u8; 32],
    /// The state of the stream.
    pub state: StreamState,
    /// When the next step is closed, if the clock closes it.
    pub closes_at: Option<Instant>,
    /// When its rows are shown.
    pub shows_at: Option<Instant>,
}

/// The state of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamState {
    /// It accepts events and publishes.
    Open,
    /// All steps of its horizon are closed.
    Ended,
    /// It was retired.
    Retired,
    /// It lags its witness, which has seen steps through this one.
    Recovering(u64),
    /// It has failed, for this reason, in words for its operator.
    Failed(String),
}

impl StreamState {
    /// The state as one word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Ended => "ended",
            Self::Retired => "retired",
            Self::Recovering(_) => "recovering",
            Self::Failed(_) => "failed",
        }
    }
}

/// Exact counts, for the operator alone.
#[derive(Debug, Default)]
pub struct Counts {
    /// Events accepted since the service started.
    pub events: AtomicU64,
    /// Batches accepted.
    pub batches: AtomicU64,
    /// Late events: refused, counted in a later step, or set aside.
    pub late: AtomicU64,
    /// Batches refused.
    pub refused: AtomicU64,
    /// Events of steps that are not open yet.
    pub waiting: AtomicU64,
}

impl Counts {
    pub(super) fn add(of: &AtomicU64, more: u64) {
        of.fetch_add(more, Ordering::Relaxed);
    }

    /// Continues from the counts of the same stream before its settings changed.
    pub(super) fn continue_from(&self, before: &Self) {
        for (own, before) in [
            (&self.events, &before.events),
            (&self.batches, &before.batches),
            (&self.late, &before.late),
            (&self.refused, &before.refused),
            (&self.waiting, &before.waiting),
        ] {
            own.store(before.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

/// The parts of a stream, when it is opened or the service starts.
pub(super) struct Parts {
    pub(super) number: u32,
    pub(super) stream: Arc<Stream>,
    pub(super) table: TableSpec,
    pub(super) plan: String,
    pub(super) record: StreamRecord,
    pub(super) groups: Option<GroupTable>,
    pub(super) joined: Vec<Joined>,
    pub(super) reporting: Reporting,
    /// The reader of events; `None` if none are accepted.
    pub(super) placer: Option<Placer<GroupAssigner>>,
    pub(super) digest_key: [u8; 32],
    pub(super) progress: StreamProgress,
}

impl StreamInfo {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { number, stream, table, plan, record, groups, joined, reporting, placer, digest_key, progress } =
            parts;
        let columns = identity::with_id(stream.columns.clone(), record.id.as_ref());
        Self {
            has_ids: record.id.is_some(),
            columns,
            number,
            stream,
            table,
            plan,
            record: RwLock::new(record),
            groups: RwLock::new(Arc::new(groups)),
            joined: RwLock::new(joined.into()),
            reporting,
            names: RwLock::default(),
            progress: Mutex::new(progress),
            placers: Mutex::new(placer.into_iter().collect()),
            digest_key,
            counts: Counts::default(),
            returning: AtomicU64::new(0),
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.stream.name.as_str()
    }

    /// Itself, as one that stores positions.
    pub(super) fn position_keeper(&self) -> PositionKeeper {
        PositionKeeper { number: self.number, digest_key: self.digest_key }
    }

    /// Its stored record.
    pub fn record(&self) -> StreamRecord {
        self.record.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Who closes its steps.
    pub fn closing(&self) -> ClosedBy {
        self.record.read().unwrap_or_else(PoisonError::into_inner).closing
    }

    /// Whether anybody may read it.
    pub fn is_public(&self) -> bool {
        self.record.read().unwrap_or_else(PoisonError::into_inner).public
    }

    pub(super) fn set_record(&self, record: StreamRecord) {
        *self.record.write().unwrap_or_else(PoisonError::into_inner) = record;
    }

    /// Why the clock is wrong, if it is earlier than the end of a step that it has closed.
    pub(super) fn slow_clock(&self, now: Instant) -> Option<String> {
        if !matches!(self.closing(), ClosedBy::Schedule { .. }) {
            return None;
        }
        let closed = {
            let progress = self.locked();
            if progress.state == StreamState::Open { progress.closed } else { 0 }
        };
        if closed == 0 {
            return None;
        }
        let calendar = &self.stream.calendar;
        let end = calendar.end_of(closed);
        (now < end).then(|| {
            format!(
                "the machine's clock is slow: it shows {}, but stream `{}` was published through {}. Correct the \
                 clock; until then the stream accepts and publishes nothing",
                calendar.format(now),
                self.name(),
                calendar.format(end)
            )
        })
    }

    /// Its declared groups.
    pub fn groups(&self) -> Arc<Option<GroupTable>> {
        self.groups.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The groups that had joined according to the ledger, when it was planned.
    pub(super) fn joined(&self) -> Arc<[Joined]> {
        Arc::clone(&self.joined.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn reporting(&self) -> &Reporting {
        &self.reporting
    }

    /// The report on the publications so far. It may take some time.
    pub fn report(&self) -> Arc<Report> {
        self.reporting.report(self.progress().publications, self.groups())
    }

    /// The guarantee for everything it will ever publish.
    pub fn promise(&self) -> GuaranteeStatement {
        self.reporting.promise()
    }

    /// Computes the guarantee and the largest error once, so that no request waits for them.
    pub(crate) fn compute_promise(&self) {
        self.promise();
        self.max_std_error();
    }

    /// The largest standard error of a published value; `None` if it grows without bound.
    pub fn max_std_error(&self) -> Option<f64> {
        self.reporting.largest_error()
    }

    /// Replaces the groups and the reader of events after groups have joined.
    pub(super) fn set_groups(&self, groups: Option<GroupTable>, joined: &[Joined], placer: Placer<GroupAssigner>) {
        *self.joined.write().unwrap_or_else(PoisonError::into_inner) = joined.into();
        *self.groups.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(groups);
        *self.placers() = vec![placer];
    }

    /// Its progress.
    pub fn progress(&self) -> StreamProgress {
        self.locked().clone()
    }

    /// Notes how many publications readers may have seen before the start.
    pub(super) fn set_returning(&self, publications: u64) {
        self.returning.store(publications, Ordering::Relaxed);
    }

    /// Whether publications that readers may have seen before the start are not shown again yet.
    pub(crate) fn is_returning(&self) -> bool {
        self.locked().publications < self.returning.load(Ordering::Relaxed)
    }

    pub(super) fn locked(&self) -> MutexGuard<'_, StreamProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A reader of events, to be [given back](Self::give_back).
    pub(super) fn placer(&self) -> Placer<GroupAssigner> {
        let mut placers = self.placers();
        // One always stays, to be cloned.
        if placers.len() > 1 { placers.pop().expect("more than one") } else { placers[0].clone() }
    }

    pub(super) fn give_back(&self, placer: Placer<GroupAssigner>, groups: &Arc<Option<GroupTable>>) {
        let mut placers = self.placers();
        if placers.len() < 64 && Arc::ptr_eq(groups, &self.groups()) {
            placers.push(placer);
        }
    }

    fn placers(&self) -> MutexGuard<'_, Vec<Placer<GroupAssigner>>> {
        self.placers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of lines that anybody may know of: running sums, or measures of groups.
    pub fn line_count(&self) -> usize {
        self.visible(&self.all_names())
    }

    /// The number of all lines, including groups that are not shown yet.
    pub(super) fn all_lines(&self) -> usize {
        self.all_names().by_place.len()
    }

    fn visible(&self, names: &LineNames) -> usize {
        if self.stream.plan.threshold().is_some() { names.shown } else { names.by_place.len() }
    }

    /// Makes the first `lines` lines known to everybody.
    pub(super) fn show_lines(&self, lines: u32) {
        self.names.write().unwrap_or_else(PoisonError::into_inner).shown = lines as usize;
    }

    /// The names of the line at a place: the texts of its group, and its measure if there are several.
    pub fn names_of(&self, place: u32) -> Option<Arc<[String]>> {
        self.all_names().by_place.get(place as usize).cloned()
    }

    /// The names of the lines that anybody may know of, at most the first `most`.
    pub fn names(&self, most: usize) -> Vec<Arc<[String]>> {
        let names = self.all_names();
        names.by_place.iter().take(most.min(self.visible(&names))).cloned().collect()
    }

    /// The place of a line with these names, if anybody may know of it.
    pub fn place_of(&self, names: &[String]) -> Option<u32> {
        let all = self.all_names();
        let place = all.places.get(names).copied();
        place.filter(|place| (*place as usize) < self.visible(&all))
    }

    fn all_names(&self) -> RwLockReadGuard<'_, LineNames> {
        self.names.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds lines after the existing ones.
    pub(super) fn add_names(&self, more: impl IntoIterator<Item = Vec<String>>) {
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        for line in more {
            let place = names.by_place.len() as u32; // fits: places are 32 bits wide in the store
            let line: Arc<[String]> = line.into();
            names.places.insert(Arc::clone(&line), place);
            names.by_place.push(line);
        }
    }
}
