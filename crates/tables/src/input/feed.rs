//! From pieces to a session: one thread reads, workers parse and place events, and the caller's thread consumes them in
//! the order of the input.
//!
//! ```text
//!            ┌─▶ worker 1: cells ─▶ placed ─┐
//! reader ────┼─▶ worker 2                   ┼──▶ session
//!  (pieces)  └─▶ worker 3                   ┘    (order, bounds of persons, sums)
//! ```
//!
//! Pieces are distributed to the workers in turn and collected in turn, so that their order is that of the input,
//! whatever the speed of each worker. All channels are bounded: each worker has a few pieces in memory. The first end
//! or error in the order of the input ends the run, as with one thread: a worker that finds an error passes on the rows
//! before it, and then the error.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evertally_declare::error::{PipelineError, Result, failure, refuse_if};
use evertally_declare::event::{ColumnLayout, Event};
use evertally_publish::session::{
    Accumulator, Batch, ItemCounts, KeyCounts, LabelAssigner, Placer, PushResult, RunningSums, Session,
};

use super::bad_rows::{BadRow, SetAside};
use super::csv::RecordBuffers;
use super::json::Findings;
use super::pass::{CallbackError, Pass};
use super::pieces::{InputPieces, Piece};
use super::{BadRowSink, Events, Summary};

/// The interval at which the caller's thread checks the cancellation flag.
const CANCEL_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// A piece in transit, and the events parsed from it.
struct WorkItem<L> {
    piece: Piece,
    batch: Batch<L>,
    findings: Findings,
    rows: u64,
    /// The rows that cannot be read, if they are set aside.
    bad_rows: Vec<BadRow>,
    /// An error after the rows of the batch.
    error: Option<PipelineError>,
    /// No parcels follow.
    is_last: bool,
}

impl<L> Default for WorkItem<L> {
    fn default() -> Self {
        let (piece, batch, findings) = (Piece::default(), Batch::new(), Findings::default());
        WorkItem { piece, batch, findings, rows: 0, bad_rows: Vec::new(), error: None, is_last: false }
    }
}

impl<L> WorkItem<L> {
    /// Fills it with the next piece.
    fn fill(&mut self, pieces: &mut InputPieces<'_>) {
        let next = pieces.next(&mut self.piece);
        self.is_last = !matches!(next, Ok(true));
        self.error = next.err();
    }
}

/// What a session adds events to. The loops over events are compiled here for each kind, once for all front ends.
pub trait EventSink: Accumulator + Sized {
    #[doc(hidden)]
    fn take_all(
        events: Events<'_>,
        session: &mut Session<Self>,
        due: &mut dyn FnMut(&mut Session<Self>) -> Result<()>,
    ) -> Result<Summary>;
}

macro_rules! event_sinks {
    ($($kind:ty),*) => {$(
        impl EventSink for $kind {
            fn take_all(
                events: Events<'_>,
                session: &mut Session<Self>,
                due: &mut dyn FnMut(&mut Session<Self>) -> Result<()>,
            ) -> Result<Summary> {
                events.feed_each(session, due)
            }
        }
    )*};
}

event_sinks!(RunningSums, ItemCounts, KeyCounts);

impl Events<'_> {
    /// Pushes all events into a session, and calls `due` whenever steps are due; `due` has to take them. Cells are read
    /// by [`ReadOptions::threads`](super::ReadOptions::threads) threads, whose number affects only the time.
    ///
    /// # Errors
    /// The first error of reading, [`Session::push`] or `due` in the order of the events; or the cancellation.
    pub fn feed<T: EventSink, E: From<PipelineError>>(
        self,
        session: &mut Session<T>,
        due: &mut dyn FnMut(&mut Session<T>) -> Result<(), E>,
    ) -> Result<Summary, E> {
        let mut own = CallbackError::NONE;
        let fed = T::take_all(self, session, &mut |session| due(session).map_err(|error| own.keep(error)));
        own.or(fed)
    }

    fn feed_each<T: Accumulator>(
        self,
        session: &mut Session<T>,
        due: &mut dyn FnMut(&mut Session<T>) -> Result<()>,
    ) -> Result<Summary> {
        let Events { layout, cancelled, mut pieces, bad_rows, .. } = self;
        let (missing, progress) = (&pieces.options.missing[..], pieces.progress);
        let stopped = AtomicBool::new(false);
        let threads = pieces.options.thread_count();
        let rows = |stopped| RowsOf { layout: &layout, missing, stopped, cut: RecordBuffers::default() };
        let placer = session.placer();
        let sets_aside = bad_rows.is_some();
        let (findings, read) = Default::default();
        let mut taker = Collector { session, due, rows: rows(cancelled), findings, read, bad_rows };
        if threads == 1 {
            let mut worker = PlacingWorker::new(placer, rows(cancelled), sets_aside);
            let mut parcel = WorkItem::default();
            while !parcel.is_last {
                parcel.fill(&mut pieces);
                worker.place(&mut parcel);
                taker.take(&mut parcel)?;
            }
        } else {
            let pieces = InputPieces { stopped: &stopped, ..pieces };
            let workers = (0..threads).map(|_| PlacingWorker::new(placer.clone(), rows(&stopped), sets_aside));
            let room = MemoryLimit::new(pieces.options.memory / 2);
            in_threads(pieces, workers, &stopped, &room, &mut |parcel| taker.take(parcel), cancelled)?;
        }
        progress.finish();
        Ok(taker.read)
    }
}

/// Distributes the pieces to worker threads, and collects the results in order.
fn in_threads<'w, S: LabelAssigner + 'w>(
    pieces: InputPieces<'_>,
    workers: impl Iterator<Item = PlacingWorker<'w, S>>,
    stopped: &AtomicBool,
    room: &MemoryLimit,
    take: &mut dyn FnMut(&mut WorkItem<S::Label>) -> Result<()>,
    cancelled: &AtomicBool,
) -> Result<()> {
    std::thread::scope(|scope| {
        let (give_back, used) = mpsc::channel();
        let (mut to_workers, mut from_workers) = (Vec::new(), Vec::new());
        for mut worker in workers {
            let (to_worker, parcels) = mpsc::sync_channel::<WorkItem<S::Label>>(1);
            let (hand_on, from_worker) = mpsc::sync_channel(1);
            to_workers.push(to_worker);
            from_workers.push(from_worker);
            scope.spawn(move || {
                for mut parcel in parcels {
                    worker.place(&mut parcel);
                    if hand_on.send(parcel).is_err() {
                        return; // the receiver is gone
                    }
                }
            });
        }
        scope.spawn(move || distribute(pieces, &to_workers, &used, (room, stopped)));
        // Dropped before the scope joins its threads, also after a panic: waiting threads then end.
        let _stop = StopOnDrop(stopped);
        let from_workers = from_workers;
        for worker in from_workers.iter().cycle() {
            let mut parcel = wait(worker, cancelled)?;
            take(&mut parcel)?;
            if parcel.is_last {
                break;
            }
            room.leave(&mut parcel.piece);
            let _ = give_back.send(parcel); // the reader may have ended already
        }
        Ok(())
    })
}

/// Reads the pieces, and distributes them in turn.
fn distribute<L>(
    mut pieces: InputPieces<'_>,
    to_workers: &[SyncSender<WorkItem<L>>],
    used: &Receiver<WorkItem<L>>,
    (room, stopped): (&MemoryLimit, &AtomicBool),
) {
    for worker in to_workers.iter().cycle() {
        let mut parcel = used.try_recv().unwrap_or_default();
        parcel.fill(&mut pieces);
        room.enter(&parcel.piece, stopped);
        let is_last = parcel.is_last;
        if worker.send(parcel).is_err() || is_last {
            return;
        }
    }
}

/// Smaller pieces are not counted: there are few, and waiting for each would take longer than reading it.
const MIN_COUNTED_BYTES: usize = 1 << 20;

/// A limit on the memory of large pieces, which only files with very long records have.
struct MemoryLimit {
    most: u64,
    used: Mutex<u64>,
    freed: Condvar,
}

impl MemoryLimit {
    fn new(most: u64) -> Self {
        MemoryLimit { most, used: Mutex::new(0), freed: Condvar::new() }
    }

    fn used(&self) -> MutexGuard<'_, u64> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is room for a piece, or no other piece is in memory.
    fn enter(&self, piece: &Piece, stopped: &AtomicBool) {
        let bytes = piece.buffer_bytes();
        if bytes < MIN_COUNTED_BYTES {
            return;
        }
        let mut used = self.used();
        while *used > 0 && *used + bytes as u64 > self.most && !stopped.load(Ordering::Relaxed) {
            used = self.freed.wait_timeout(used, CANCEL_CHECK_INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
        }
        *used += bytes as u64;
    }

    /// Frees the room of a piece.
    fn leave(&self, piece: &mut Piece) {
        let bytes = piece.buffer_bytes();
        if bytes < MIN_COUNTED_BYTES {
            return;
        }
        piece.drop_buffer();
        *self.used() -= bytes as u64;
        self.freed.notify_one();
    }
}

/// The next parcel of a worker.
fn wait<L>(worker: &Receiver<WorkItem<L>>, cancelled: &AtomicBool) -> Result<WorkItem<L>> {
    loop {
        refuse_if(cancelled)?;
        match worker.recv_timeout(CANCEL_CHECK_INTERVAL) {
            Ok(parcel) => return Ok(parcel),
            Err(RecvTimeoutError::Timeout) => {}
            // A worker ends early only if it panics; the scope then propagates the panic.
            Err(RecvTimeoutError::Disconnected) => return Err(failure("a thread that reads the events has ended")),
        }
    }
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How a thread reads the rows of pieces.
struct RowsOf<'r> {
    layout: &'r ColumnLayout,
    missing: &'r [String],
    stopped: &'r AtomicBool,
    cut: RecordBuffers,
}

impl RowsOf<'_> {
    /// Calls `visit` for every row, and counts them.
    fn visit(
        &mut self,
        piece: &Piece,
        aside: Option<&SetAside>,
        visit: &mut dyn FnMut(&Event<'_>) -> Result<()>,
    ) -> (Result<Findings>, u64) {
        let Self { layout, missing, stopped, cut } = self;
        let mut pass = Pass { layout, missing, cancelled: stopped, visit, rows: 0, aside };
        (piece.visit(cut, &mut pass), pass.rows)
    }
}

/// The state of a thread that places events.
struct PlacingWorker<'w, S> {
    placer: Placer<S>,
    rows: RowsOf<'w>,
    /// The rows of a piece that cannot be read; `None` if they are errors.
    aside: Option<SetAside>,
}

impl<'w, S: LabelAssigner> PlacingWorker<'w, S> {
    fn new(placer: Placer<S>, rows: RowsOf<'w>, sets_aside: bool) -> Self {
        Self { placer, rows, aside: sets_aside.then(SetAside::default) }
    }

    /// Places the events of a parcel; the mark of each is its number in the piece, from 0.
    fn place(&mut self, parcel: &mut WorkItem<S::Label>) {
        let WorkItem { piece, batch, findings, rows, bad_rows, error, is_last } = parcel;
        batch.clear();
        (*findings, *rows) = (Findings::default(), 0);
        if *is_last {
            return;
        }
        let (mut mark, Self { placer, rows: reading, aside }) = (0, self);
        let (found, visited) = reading.visit(piece, aside.as_ref(), &mut |event| {
            match (placer.place(event), aside.as_ref()) {
                (Ok(Some(placed)), _) => batch.push(mark, placed),
                (Ok(None), _) => {}
                (Err(error), Some(aside)) => aside.push_event(event, error)?,
                (Err(error), None) => return Err(error),
            }
            mark += 1; // fits: a piece has fewer than 2³² bytes
            Ok(())
        });
        *bad_rows = aside.as_ref().map_or(Vec::new(), SetAside::take);
        *rows = visited;
        match found {
            Ok(found) => *findings = found,
            Err(problem) => *error = Some(problem),
        }
    }
}

/// Feeds parcels into a session, in order.
struct Collector<'t, 'b, T: Accumulator> {
    session: &'t mut Session<T>,
    due: &'t mut dyn FnMut(&mut Session<T>) -> Result<()>,
    rows: RowsOf<'t>,
    findings: Findings,
    read: Summary,
    /// Takes the rows that cannot be read; `None` if they are errors.
    bad_rows: Option<BadRowSink<'b>>,
}

impl<T: Accumulator> Collector<'_, '_, T> {
    fn take(&mut self, parcel: &mut WorkItem<T::Label>) -> Result<()> {
        loop {
            match self.session.push_placed(&mut parcel.batch)? {
                PushResult::All => break,
                PushResult::StepsDue => (self.due)(self.session)?,
                PushResult::Late(mark) => self.push_rest(parcel, mark)?,
            }
        }
        if self.session.is_due() {
            (self.due)(self.session)?;
        }
        if let Some(error) = parcel.error.take() {
            return Err(error);
        }
        for bad in parcel.bad_rows.drain(..) {
            self.session.note_unreadable();
            let sink = self.bad_rows.as_mut().expect("rows are set aside only for a sink");
            sink(bad)?;
        }
        self.read.rows += parcel.rows;
        let found = std::mem::take(&mut parcel.findings);
        if !parcel.is_last {
            Events::ended(&parcel.piece, found, &mut self.findings, &mut self.read)?;
        }
        Ok(())
    }

    /// Pushes the events of a parcel one at a time, starting from this mark: the session decides about each by its
    /// cells.
    fn push_rest(&mut self, parcel: &mut WorkItem<T::Label>, mark: u32) -> Result<()> {
        parcel.batch.clear();
        let (mut at, session, due) = (0, &mut *self.session, &mut *self.due);
        // A worker has set these rows aside already.
        let again = self.bad_rows.is_some().then(SetAside::default);
        let (visited, _) = self.rows.visit(&parcel.piece, again.as_ref(), &mut |event| {
            if at >= mark {
                match session.push(event) {
                    Err(error) if again.is_some() && error.is_bad_row() => {}
                    pushed => pushed?,
                }
                if session.is_due() {
                    due(session)?;
                }
            }
            at += 1;
            Ok(())
        });
        visited.map(|_| ())
    }
}

#[cfg(test)]
mod tests;
