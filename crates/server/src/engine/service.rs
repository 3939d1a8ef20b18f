//! How other threads reach the counting thread.

use super::Receipt;
use super::core::{Core, Directory, Notice, Setting};
use super::counting::{Request, run};
use super::decoding::Decoding;
use super::health::Health;
use super::identity::BatchId;
use super::info::{Counts, StreamInfo};
use super::opening::{self, Opening, Preview};
use super::positions::{PositionKeeper, SourceRange, positions_of};
use super::prepare::{OtherParts, PreparedBatch, latest_step, prepare};
use super::refusal::Refusal;
use super::rows::{self, RowsQuery};
use super::sums::{self, SumsRange, SumsReceipt};
use crate::clock::Clock;
use crate::config::RetentionConfig;
use crate::meters::Histogram;
use crate::standby::Shipping;
use crate::store::{BATCHES, ClosedBy, Store, stored};
use evertally_declare::error::Result;
use evertally_declare::format::Format;
use evertally_declare::steps::Instant;
use evertally_publish::rows::ReleaseRow;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::thread::JoinHandle;

/// The pause between two looks at whether changes were shipped.
const SHIPPED_POLL: std::time::Duration = std::time::Duration::from_millis(20);

/// The most batches that wait for their turn; further ones are refused as busy.
const MAX_QUEUED_REQUESTS: usize = 4096;

type Watcher = Box<dyn Fn(Notice) + Send + Sync>;

/// An open folder with all of its streams, for any thread.
pub struct Service {
    requests: SyncSender<Request>,
    thread: Mutex<Option<JoinHandle<()>>>,
    pub(super) directory: Directory,
    pub(super) store: Store,
    /// Whether it shows copies of another service's streams, and counts nothing.
    is_replica: bool,
    clock: Arc<dyn Clock>,
    watchers: Arc<Mutex<Vec<Watcher>>>,
    intake: RwLock<Arc<Intake>>,
    beats: Arc<AtomicU64>,
    shipping: OnceLock<Arc<Shipping>>,
    /// The public name of the key.
    pub key_id: String,
    /// The identity of the folder.
    pub folder_id: String,
}

/// The settings of intake, which may change while the service runs.
#[derive(Clone, Debug)]
pub struct Intake {
    /// The budget files of data sources, by name.
    pub sources: BTreeMap<String, PathBuf>,
    /// By how much the clocks of event senders may be ahead, in microseconds.
    pub ahead: i64,
    /// Memory limits for decoding batches.
    pub decoding: Arc<Decoding>,
    /// How long records are kept.
    pub retention: RetentionConfig,
}

impl Service {
    /// Opens a folder, and begins to count.
    ///
    /// # Errors
    /// As [`Core::open`].
    pub fn start(setting: Setting) -> Result<Self> {
        let (store, clock) = (setting.store.clone(), Arc::clone(&setting.clock));
        let Setting { sources, ahead, decoding, retention, .. } = &setting;
        let intake =
            Intake { sources: sources.clone(), ahead: *ahead, decoding: Arc::clone(decoding), retention: *retention };
        let watchers: Arc<Mutex<Vec<Watcher>>> = Arc::default();
        let watching = Arc::clone(&watchers);
        let notify = move |notice: Notice| {
            let watchers = watching.lock().unwrap_or_else(PoisonError::into_inner);
            watchers.iter().for_each(|watcher| watcher(notice.clone()));
        };
        let core = Core::open(setting, Arc::new(notify))?;
        let beats = Arc::clone(&core.beats);
        let directory = core.directory.clone();
        let (key_id, folder_id) = core.identities();
        let (requests, waiting) = sync_channel(MAX_QUEUED_REQUESTS);
        let counting = Arc::clone(&clock);
        let thread =
            std::thread::Builder::new().name("counting".to_owned()).spawn(move || run(core, &waiting, &*counting))?;
        Ok(Self {
            requests,
            thread: Mutex::new(Some(thread)),
            directory,
            store,
            is_replica: false,
            clock,
            watchers,
            intake: RwLock::new(Arc::new(intake)),
            beats,
            shipping: OnceLock::new(),
            key_id,
            folder_id,
        })
    }

    /// A service that counts nothing.
    pub(super) fn without_counting(
        store: Store,
        clock: Arc<dyn Clock>,
        intake: Intake,
        directory: Directory,
    ) -> Result<Self> {
        let (requests, _) = sync_channel(1); // every request is refused
        let folder_id = store.identity()?;
        Ok(Self {
            requests,
            thread: Mutex::default(),
            directory,
            store,
            is_replica: true,
            clock,
            watchers: Arc::default(),
            intake: RwLock::new(Arc::new(intake)),
            beats: Arc::default(),
            shipping: OnceLock::new(),
            key_id: String::new(),
            folder_id,
        })
    }

    /// Whether it shows copies of another service's streams, and counts nothing.
    pub fn is_replica(&self) -> bool {
        self.is_replica
    }

    /// Signals progress.
    pub(crate) fn beat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn notify(&self, notice: Notice) {
        let watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.iter().for_each(|watcher| watcher(notice.clone()));
    }

    /// The time of the clock that closes steps.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Why the clock differs from that of the machine, if it does.
    pub(crate) fn clock_doubt(&self) -> Option<String> {
        self.clock.doubt()
    }

    /// The durations of commits to the database.
    pub(crate) fn commits(&self) -> &Histogram {
        self.store.commits()
    }

    /// The stream with this name.
    pub fn stream(&self, name: &str) -> Option<Arc<StreamInfo>> {
        self.directory.find(name)
    }

    /// The settings of intake.
    pub fn intake(&self) -> Arc<Intake> {
        Arc::clone(&self.intake.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the settings of intake, for later batches and streams.
    ///
    /// # Errors
    /// If the service is overloaded or stopping.
    pub fn change_intake(&self, intake: Intake) -> Result<(), Refusal> {
        let (sources, decoding, retention) = (intake.sources.clone(), Arc::clone(&intake.decoding), intake.retention);
        self.ask(move |core| {
            (core.sources, core.decoding, core.retention) = (sources, decoding, retention);
            Ok(())
        })?;
        *self.intake.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(intake);
        Ok(())
    }

    /// How much memory batches may take.
    pub fn decoding(&self) -> Arc<Decoding> {
        Arc::clone(&self.intake().decoding)
    }

    /// All streams, by name.
    pub fn streams(&self) -> Vec<Arc<StreamInfo>> {
        self.directory.all()
    }

    /// Calls `watcher` on every change, from the counting thread, which it must not block.
    pub fn watch(&self, watcher: impl Fn(Notice) + Send + Sync + 'static) {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(watcher));
    }

    /// Accepts a batch: reads it in this thread, and waits for its turn. A returned receipt is durable.
    ///
    /// # Errors
    /// If it is not accepted; then it has left no trace.
    pub fn accept(
        &self,
        info: &Arc<StreamInfo>,
        id: impl Into<BatchId>,
        batch: (Format, Box<dyn Read + Send>),
    ) -> Result<Receipt, Refusal> {
        self.accept_again(info, id, None, batch)
    }

    /// The same for a batch of which the sender knows which step was open when it was accepted before: so late rows are
    /// counted in the same step as then, if the service was restored from an older copy.
    ///
    /// # Errors
    /// As [`accept`](Self::accept), or if that step was closed already, or has not begun.
    pub fn accept_again(
        &self,
        info: &Arc<StreamInfo>,
        id: impl Into<BatchId>,
        open_step: Option<u64>,
        batch: (Format, Box<dyn Read + Send>),
    ) -> Result<Receipt, Refusal> {
        self.accept_among(OtherParts::default(), info, (id.into(), open_step), batch)
    }

    /// The same for a part of a stream: events of the next part are not accepted before it is open.
    ///
    /// # Errors
    /// As [`accept_again`](Self::accept_again), or if the batch is to be sent again once that part is open.
    pub(crate) fn accept_among(
        &self,
        others: OtherParts,
        info: &Arc<StreamInfo>,
        (id, open_step): (BatchId, Option<u64>),
        batch: (Format, Box<dyn Read + Send>),
    ) -> Result<Receipt, Refusal> {
        if let Some(why) = info.slow_clock(self.clock.now()) {
            return Err(Refusal::Halted(why)); // otherwise events of now would seem to be of the future
        }
        self.check_shipping()?;
        let intake = self.intake();
        let latest = latest(info, &*self.clock, intake.ahead);
        let prepared = prepare(info, id, batch, latest, &intake.decoding, others)
            .inspect_err(|_| Counts::add(&info.counts.refused, 1))?;
        let prepared = PreparedBatch { open_step, ..prepared };
        let (answer, answered) = sync_channel(1);
        self.send(Request::Take(Arc::clone(info), prepared, answer))?;
        answered.recv().unwrap_or_else(|_| Err(Refusal::Stopping))
    }

    /// Whether a stream has accepted a batch with this id, and remembers it.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) fn has_accepted(&self, info: &StreamInfo, id: &str) -> Result<bool> {
        let batches = self.store.look()?.open_table(BATCHES).map_err(stored)?;
        Ok(batches.get((info.number, id)).map_err(stored)?.is_some())
    }

    /// A stream, and the streams that continue it, in their order.
    pub(crate) fn parts_of(&self, name: &str) -> Vec<Arc<StreamInfo>> {
        self.directory.parts_of(name)
    }

    /// The part that has accepted these rows of a source, if they are the last ones that were accepted.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) fn part_with(&self, range: &SourceRange, name: &str) -> Result<Option<Arc<StreamInfo>>> {
        let parts = self.directory.parts_with_positions(name);
        if parts.len() < 2 {
            return Ok(None); // the only part finds out itself
        }
        let keepers: Vec<PositionKeeper> = parts.iter().map(|part| part.position_keeper()).collect();
        Ok(range.accepted_by(&self.store.look()?, &keepers)?.map(|place| Arc::clone(&parts[place])))
    }

    /// The beginning of the first part of a stream, if an earlier part than this one has accepted rows of a source.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) fn source_since(&self, range: &SourceRange, part: &Arc<StreamInfo>) -> Result<Option<Instant>> {
        let parts = self.directory.parts_through(part);
        let earlier: Vec<PositionKeeper> = parts.iter().skip(1).map(|part| part.position_keeper()).collect();
        if earlier.is_empty() || positions_of(&self.store.look()?, &earlier, range.source())?.is_empty() {
            return Ok(None);
        }
        Ok(parts.last().map(|first| first.stream.calendar.start()))
    }

    /// Accepts the sums of complete steps that were counted elsewhere, and publishes them idempotently.
    ///
    /// # Errors
    /// If they differ from the accepted ones, or are not the next, or not as declared; then nothing has changed.
    pub fn accept_sums(
        &self,
        info: &Arc<StreamInfo>,
        whole: SumsRange,
        batch: (Format, Box<dyn Read + Send>),
    ) -> Result<SumsReceipt, Refusal> {
        self.check_shipping()?;
        let intake = self.intake();
        let latest = sums::latest(&*self.clock, intake.ahead);
        let prepared = sums::prepare(info, latest, whole, batch, &intake.decoding)
            .inspect_err(|_| Counts::add(&info.counts.refused, 1))?;
        let info = Arc::clone(info);
        self.ask(move |core| core.accept_sums(&info, prepared))
    }

    /// Runs `what` in the counting thread, and waits for its result.
    ///
    /// # Errors
    /// The error of `what`, or that the service is overloaded or stopping.
    pub fn ask<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut Core) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let (answer, answered) = sync_channel(1);
        let asked = move |core: &mut Core| drop(answer.send(what(core)));
        self.send(Request::Do(Box::new(asked)))?;
        answered.recv().unwrap_or_else(|_| Err(Refusal::Stopping))
    }

    fn send(&self, request: Request) -> Result<(), Refusal> {
        self.requests.try_send(request).map_err(|error| match error {
            TrySendError::Full(_) => Refusal::Busy,
            TrySendError::Disconnected(_) => Refusal::Stopping,
        })
    }

    /// The digest of all published rows through a publication.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn head_of(&self, info: &StreamInfo, publication: u64) -> Result<[u8; 32]> {
        rows::head_of(&self.store, info, publication)
    }

    /// Visits released rows in the order of a released table, each with its publication.
    ///
    /// # Errors
    /// If the store cannot be read, and whatever `visit` returns.
    pub fn rows(
        &self,
        info: &StreamInfo,
        query: &RowsQuery,
        visit: &mut dyn FnMut(u64, &ReleaseRow<'_>) -> Result<()>,
    ) -> Result<()> {
        rows::visit(&self.store, info, query, visit)
    }

    /// Late events that were set aside, of batches after number `behind`: each as one text per declared column. Returns
    /// about `most` of them, and where to continue if there are more.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn late(&self, info: &StreamInfo, behind: u64, most: usize) -> Result<(Vec<Vec<String>>, Option<u64>)> {
        rows::late(&self.store, info, behind, most)
    }

    /// Writes a snapshot of the folder's database to a new file.
    ///
    /// # Errors
    /// As [`Store::copy_to`].
    pub fn copy_to(&self, path: &std::path::Path) -> Result<()> {
        self.store.copy_to(path)
    }

    /// Stops the shipping of the database together with the service.
    pub(crate) fn set_shipping(&self, shipping: Arc<Shipping>) {
        drop(self.shipping.set(shipping));
    }

    /// The shipping of the database, if there is a second machine.
    pub fn shipping(&self) -> Option<&Shipping> {
        self.shipping.get().map(Arc::as_ref)
    }

    /// Refuses events that another machine would not have, if it may have taken over.
    fn check_shipping(&self) -> Result<(), Refusal> {
        self.shipping().and_then(Shipping::pause).map_or(Ok(()), |why| Err(Refusal::Halted(why)))
    }

    /// Waits until everything that was committed so far has been shipped to the second machine, as publications do, but
    /// not longer than `hold`. Returns whether it was: if not, a takeover may undo it.
    pub(super) fn wait_until_shipped(&self) -> bool {
        let Some(hold) = self.store.hold() else { return true };
        let (mark, since) = (hold.journal.mark(), std::time::Instant::now());
        while !hold.journal.is_shipped(mark) {
            if since.elapsed() >= hold.limit {
                return false;
            }
            std::thread::sleep(SHIPPED_POLL);
        }
        true
    }

    /// Whether counting has ended: the service was stopped, or its disk has failed.
    pub fn has_ended(&self) -> bool {
        if self.is_replica {
            return false; // it only shows
        }
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// A counter that grows while the counting thread makes progress.
    pub fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// The health of the service.
    ///
    /// # Errors
    /// If it is stopping or overloaded.
    pub fn health(&self) -> Result<Health, Refusal> {
        if self.is_replica {
            return Ok(Health::default());
        }
        self.ask(|core| Ok(core.health()))
    }

    /// Stops counting; accepted events are counted at the next start.
    pub fn stop(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = self.requests.send(Request::Stop);
            let _ = thread.join();
            if let Some(shipping) = self.shipping() {
                shipping.stop();
            }
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The last step whose events are accepted now.
fn latest(info: &StreamInfo, clock: &dyn Clock, ahead: i64) -> u64 {
    let by_clock = matches!(info.closing(), ClosedBy::Schedule { .. });
    latest_step(&info.stream, by_clock.then(|| clock.now()), ahead)
}

impl Core {
    /// Reads a batch, for [`accept`](Self::accept).
    ///
    /// # Errors
    /// If it is not as declared.
    pub fn prepare(
        &self,
        info: &StreamInfo,
        id: impl Into<BatchId>,
        batch: (Format, Box<dyn Read + Send>),
    ) -> Result<PreparedBatch, Refusal> {
        prepare(info, id.into(), batch, latest(info, &*self.clock, self.ahead), &self.decoding, OtherParts::default())
    }

    /// Plans a declaration.
    ///
    /// # Errors
    /// If the declaration is invalid.
    pub fn plan(opening: Opening) -> Result<Preview> {
        opening::preview(opening)
    }

    /// Visits released rows; see [`Service::rows`].
    ///
    /// # Errors
    /// If the store cannot be read, and whatever `visit` returns.
    pub fn rows(
        &self,
        info: &StreamInfo,
        query: &RowsQuery,
        visit: &mut dyn FnMut(u64, &ReleaseRow<'_>) -> Result<()>,
    ) -> Result<()> {
        rows::visit(&self.store, info, query, visit)
    }
}
