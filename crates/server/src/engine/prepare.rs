//! From the bytes of a batch to anonymous events: in any thread, before the batch takes its turn.

use super::chunk::{Chunk, IdentifiedRow, ROW_BYTES};
use super::decoding::{Decoding, Share};
use super::identity::{BatchBytes, BatchId, ResolvedId, RowsDigest};
use super::info::StreamInfo;
use super::refusal::{Refusal, RowProblem};
use super::row_ids::IdReader;
use evertally::privacy::Unit;
use evertally_declare::declaration::Parameter::Late as LatePolicy;
use evertally_declare::error::{InputError, PipelineError, Place, Result, Unreadable, usage};
use evertally_declare::event::{ColumnRole, Columns, Event, Field};
use evertally_declare::format::Format;
use evertally_declare::problem::sentence;
use evertally_declare::steps::{Instant, StepCalendar, TimeParser};
use evertally_declare::stream::{Late, Stream};
use evertally_publish::session::LateEvent;
use evertally_tables::input::{Events, ReadOptions, spool};
use std::collections::BTreeMap;
use std::io::Read;
use std::num::NonZero;
use std::sync::atomic::AtomicBool;

/// The most rows that are named when a batch is refused.
pub(super) const MAX_NAMED_ROWS: usize = 100;

/// The most rows of a batch: a few bytes of some formats can stand for any number.
pub(super) const MAX_BATCH_ROWS: u64 = 50_000_000;

/// How messages name a batch.
const BATCH: &str = "the batch";

/// What a part must know of the others to accept a batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct OtherParts {
    /// The part that will continue it, if the batch may have events of that one.
    pub(crate) next: Option<NextPart>,
    /// The beginning of the first part, if events of earlier parts are late events of this one.
    pub(crate) since: Option<Instant>,
}

/// The part that will continue a stream, as long as it is not open.
#[derive(Clone, Debug)]
pub(crate) struct NextPart {
    /// Why its events are not accepted yet, and when they will be.
    pub(crate) why: String,
    /// The seconds after which a sender may try again.
    pub(crate) wait: u32,
    /// Events from the end of the stream to this moment wait for it; later ones are treated as declared.
    pub(crate) until: Instant,
    /// Events from this moment on are in the future; `None` if the clock does not close steps.
    pub(crate) future: Option<Instant>,
}

/// A valid batch that was read and waits for its turn.
pub struct PreparedBatch {
    pub(super) id: ResolvedId,
    /// The step that was open when it was accepted for the first time, if its sender names it.
    pub(super) open_step: Option<u64>,
    /// The last step that could have events when it was read.
    pub(super) latest: u64,
    pub(super) digest: [u8; 32],
    pub(super) rows: u64,
    pub(super) chunks: BTreeMap<u64, Chunk>,
    /// The part that will continue the stream, if the batch may be of that one.
    pub(super) next: Option<Box<NextPart>>,
    /// The first of its events of that part.
    pub(super) later: Option<LaterRow>,
    /// Its share of the memory for all batches, until the engine has accepted it.
    pub(super) memory: Share,
}

/// The first row of a batch that belongs to the next part.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaterRow {
    /// Its place in the batch.
    pub(super) row: u64,
    /// Whether there are rows before it.
    pub(super) has_own_before: bool,
}

/// Reads a batch. `latest` is the last step that can have events: later ones are in the future. Of events of the
/// next part, only the first is noticed.
pub(super) fn prepare(
    info: &StreamInfo,
    id: BatchId,
    (format, bytes): (Format, Box<dyn Read + Send>),
    latest: u64,
    decoding: &Decoding,
    OtherParts { next, since }: OtherParts,
) -> Result<PreparedBatch, Refusal> {
    let bytes = BatchBytes::with_id(bytes, &id, &info.digest_key);
    let mut ids = info.has_ids.then(|| IdReader::new(&info.columns, &info.digest_key));
    let mut digest = RowsDigest::new(&info.columns, &info.digest_key);
    let groups = info.groups();
    let mut reading = BatchReading::new(&info.stream, latest, (next.as_ref(), since));
    let mut placer = info.placer();
    let with_person = info.stream.enforced() != Unit::Event;
    let keeps_texts = info.stream.late == Late::SideFile;
    let Ok(mut memory) = decoding.share(READER_BYTES) else { return Err(drained(bytes)) };
    let mut busy = false;
    let read = guarded(|| {
        each_event(info, &info.columns, (format, bytes.clone()), decoding, &mut |event| {
            reading.rows += 1;
            if reading.rows > MAX_BATCH_ROWS {
                return Err(usage(format!("a batch has at most {MAX_BATCH_ROWS} rows; send it in parts")));
            }
            if reading.more > MAX_REFUSED_ROWS {
                return Err(usage(reading.too_many()));
            }
            digest.add(event);
            let (mut placed, mut earlier) = (placer.place(event), None);
            if !matches!(placed, Ok(Some(_))) {
                match reading.other_part_of(event) {
                    Some(OtherPart::Next) => return Ok(()),
                    Some(OtherPart::Future(begins)) => return reading.add_future(event, begins),
                    Some(OtherPart::Earlier(time)) => {
                        (placed, earlier) = (placer.place_earlier(event, time), Some(time));
                    }
                    None => {}
                }
            }
            match placed {
                Ok(None) => {}
                Ok(Some(placed)) => {
                    let steps = reading.chunks.len();
                    let mut id = None;
                    if let Some(ids) = &mut ids {
                        // Events of earlier parts count in one step, but their ids differ by their own.
                        let own_step = earlier.map_or(placed.step(), |time| reading.step_before(time));
                        match ids.read(event, own_step) {
                            Ok(read) => id = Some(read),
                            Err(error) => return reading.add(error),
                        }
                    }
                    if let Some(chunk) = reading.chunk(placed.step(), event) {
                        let before = chunk.bytes.len();
                        placed.write(with_person, &mut chunk.bytes);
                        let mut bytes = (chunk.bytes.len() - before) as u64;
                        if let Some(id) = id {
                            chunk.ids.push(IdentifiedRow::new(id, chunk.bytes.len() - before));
                            bytes += ROW_BYTES;
                        }
                        if keeps_texts {
                            let late = LateEvent::new(event);
                            bytes +=
                                TEXT_BYTES + late.texts.iter().map(|text| text.len() as u64 + TEXT_BYTES).sum::<u64>();
                            chunk.texts.push(late);
                        }
                        bytes += STEP_BYTES * (reading.chunks.len() - steps) as u64;
                        use_memory(&mut memory, bytes, decoding, &mut busy)?;
                    }
                }
                Err(error) => reading.add(error)?,
            }
            Ok(())
        })
    });
    info.give_back(placer, &groups);
    if busy {
        drop((memory, reading));
        return Err(drained(bytes));
    }
    if let Err(error) = read {
        reading.add(error)?;
    }
    if !reading.problems.is_empty() {
        return Err(Refusal::Rows { rows: reading.problems, more: reading.more });
    }
    let id = id.resolve(bytes.finish().map_err(PipelineError::from)?);
    Ok(PreparedBatch {
        id,
        open_step: None,
        latest,
        digest: digest.finish(),
        rows: reading.rows,
        later: reading.others.and_then(|others| others.first),
        chunks: reading.chunks,
        next: next.map(Box::new),
        memory,
    })
}

/// About the memory that a reader of rows takes for its blocks of text.
pub(super) const READER_BYTES: u64 = 2 << 20;
/// The memory for reading text: no record is longer than 1 MiB.
const TEXT_MEMORY: u64 = 16 << 20;
/// About the memory of a step, in addition to its rows.
pub(super) const STEP_BYTES: u64 = 256;
/// About the memory of a text, in addition to its bytes.
const TEXT_BYTES: u64 = 40;

/// Reads a body without memory for it to its end: many clients read the answer only after they have sent everything.
pub(super) fn drained(bytes: BatchBytes) -> Refusal {
    match bytes.finish() {
        Ok(_) => Refusal::Busy,
        Err(error) => Refusal::Other(PipelineError::from(error)),
    }
}

/// Charges the bytes kept of a row to the memory of the batch and of all batches, since a few compressed bytes can
/// stand for any number of rows. Sets `busy` if other batches use the memory.
pub(super) fn use_memory(memory: &mut Share, bytes: u64, decoding: &Decoding, busy: &mut bool) -> Result<()> {
    if memory.use_more(bytes).is_err() {
        *busy = true;
        return Err(usage("other batches use all of the memory"));
    }
    if memory.used() - READER_BYTES > decoding.memory {
        let problem = format!("its rows take more than {} bytes of memory", decoding.memory);
        let error = InputError::in_file(BATCH, problem).remedy("send it in parts");
        return Err(error.as_unreadable(Unreadable::TooLarge).into());
    }
    Ok(())
}

/// Runs `read`, and turns a panic of a library for binary formats over invalid bytes into an error.
pub(super) fn guarded(read: impl FnOnce() -> Result<()>) -> Result<()> {
    // The error discards everything read so far.
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(read)).unwrap_or_else(|_| {
        let error = InputError::in_file(BATCH, "its bytes are damaged and cannot be read".to_owned());
        Err(error.as_unreadable(Unreadable::Damaged).into())
    })
}

/// After this many rejected rows a batch is read no further.
const MAX_REFUSED_ROWS: u64 = 100_000;

struct BatchReading<'r> {
    stream: &'r Stream,
    latest: u64,
    chunks: BTreeMap<u64, Chunk>,
    problems: Vec<RowProblem>,
    more: u64,
    rows: u64,
    others: Option<OtherEvents>,
}

/// Events of other parts of a stream.
struct OtherEvents {
    times: TimeParser,
    /// Events before the horizon from here on are late.
    since: Option<Instant>,
    /// Events after the horizon up to here wait for the next part.
    until: Option<Instant>,
    /// Events from this moment on are in the future.
    future: Option<Instant>,
    /// The first that waits.
    first: Option<LaterRow>,
    /// The calendars of earlier parts, from the last one on, as far as they were needed.
    earlier: Vec<StepCalendar>,
}

/// Where an event without a place in a part belongs.
enum OtherPart {
    /// To the next part, which will accept it.
    Next,
    /// To the next part, later than now.
    Future(Instant),
    /// To a part before, with its time.
    Earlier(Instant),
}

impl<'r> BatchReading<'r> {
    fn new(stream: &'r Stream, latest: u64, (next, since): (Option<&NextPart>, Option<Instant>)) -> Self {
        let (until, future) = (next.map(|next| next.until), next.and_then(|next| next.future));
        let others = (next.is_some() || since.is_some()).then(|| OtherEvents {
            times: stream.file_times(),
            since,
            until,
            future,
            first: None,
            earlier: Vec::new(),
        });
        Self { stream, latest, chunks: BTreeMap::new(), problems: Vec::new(), more: 0, rows: 0, others }
    }

    /// Finds the other part to which an event without a place in this one belongs, and notices the first of the next.
    fn other_part_of(&mut self, event: &Event<'_>) -> Option<OtherPart> {
        let others = self.others.as_mut()?;
        let time = others.times.read_event(event).ok().flatten()?.instant;
        let (start, end) = (self.stream.calendar.start(), self.stream.calendar.end());
        let is_later = others.until.is_some_and(|until| (end..until).contains(&time));
        let is_earlier = others.since.is_some_and(|since| (since..start).contains(&time));
        if !(is_later || is_earlier) || !self.stream.keeps(event).unwrap_or(false) {
            return None;
        }
        if is_earlier {
            return Some(OtherPart::Earlier(time));
        }
        if others.future.is_some_and(|future| time >= future) {
            return Some(OtherPart::Future(time));
        }
        let has_own_before = self.rows > 1;
        others.first.get_or_insert(LaterRow { row: place_of(event), has_own_before });
        Some(OtherPart::Next)
    }

    /// The step of an event of an earlier part: 0 for the last one before this part, and one less for each before it,
    /// as a number modulo 2^64.
    fn step_before(&mut self, time: Instant) -> u64 {
        let Some(others) = &mut self.others else { return 0 };
        let (mut steps_between, mut place) = (0, 0);
        loop {
            if others.earlier.len() == place {
                let Some(calendar) = others.earlier.last().unwrap_or(&self.stream.calendar).preceding() else {
                    return 0;
                };
                others.earlier.push(calendar);
            }
            let calendar = &others.earlier[place];
            if let Some(step) = calendar.step_of(time) {
                return 0_u64.wrapping_sub(steps_between + (calendar.steps() - step));
            }
            steps_between += calendar.steps();
            place += 1;
        }
    }

    /// Why the rest of a batch is not read.
    fn too_many(&self) -> String {
        let first = self.problems.first().map_or(String::new(), |row| {
            let place = row.row.map_or(String::new(), |row| format!("row {row}: "));
            format!("; the first: {place}{}", row.problem)
        });
        format!("more than {MAX_REFUSED_ROWS} of its rows cannot be accepted{first}")
    }

    /// The chunk for an event of a step; `None` if the step is in the future, which is recorded as a problem.
    fn chunk(&mut self, step: u64, event: &Event<'_>) -> Option<&mut Chunk> {
        if step > self.latest {
            let calendar = &self.stream.calendar;
            if let Ok(()) =
                self.add(in_future(event, format!("its step begins at {}", calendar.format(calendar.start_of(step)))))
            {
            }
            return None;
        }
        let chunk = self.chunks.entry(step).or_default();
        chunk.events += 1;
        if chunk.rows.len() < MAX_NAMED_ROWS {
            chunk.rows.push(place_of(event));
        }
        Some(chunk)
    }

    /// Records a row of the next part that is in the future.
    fn add_future(&mut self, event: &Event<'_>, time: Instant) -> Result<()> {
        self.add(in_future(event, format!("it is of {}", self.stream.calendar.format(time))))
    }

    /// Records a rejected row; any other error is returned.
    fn add(&mut self, error: PipelineError) -> Result<()> {
        if error.io().is_some() {
            return Err(error);
        }
        let Some(problem) = RowProblem::new(&error) else { return Err(error) };
        if error.input().is_some_and(|input| input.unreadable().is_some()) {
            return Err(error);
        }
        if self.problems.len() < MAX_NAMED_ROWS {
            self.problems.push(problem);
        } else {
            self.more += 1;
        }
        Ok(())
    }
}

/// The place of an event in its batch.
fn place_of(event: &Event<'_>) -> u64 {
    let (Place::Line(place) | Place::Row(place)) = event.position.place;
    place
}

fn in_future(event: &Event<'_>, when: String) -> PipelineError {
    let error = event.bad_cell(ColumnRole::Time, format!("is in the future: {when}"));
    error.remedy("correct the clock of its sender, or send it later").into()
}

/// Visits every row of a batch, in order.
pub(super) fn each_event(
    info: &StreamInfo,
    columns: &Columns,
    (format, bytes): (Format, BatchBytes),
    decoding: &Decoding,
    visit: &mut dyn FnMut(&Event<'_>) -> Result<()>,
) -> Result<()> {
    let running = AtomicBool::new(false);
    let has_lines = format.has_lines();
    let options = ReadOptions {
        format: Some(format),
        missing: info.stream.missing_text.clone(),
        threads: Some(NonZero::<usize>::MIN),
        memory: if has_lines { decoding.memory.min(TEXT_MEMORY) } else { decoding.memory },
        ..ReadOptions::default()
    };
    if has_lines {
        let mut events = Events::from_reader(BATCH, Box::new(bytes), format, columns, &options, &running)?;
        while events.next_batch::<PipelineError>(visit)? {}
        return Ok(());
    }
    // The body is complete in a file before decoding begins: a slow sender delays no other decoder.
    let file = spool(Box::new(bytes), BATCH, &running)?;
    let _turn = decoding.turn();
    let mut left = decoding.cells;
    let visit = &mut |event: &Event<'_>| {
        left = left.checked_sub(bytes_of(event)).ok_or_else(|| {
            let problem = format!("its rows have more than {} bytes when written as text", decoding.cells);
            InputError::in_file(BATCH, problem).remedy("send it in parts").as_unreadable(Unreadable::TooLarge)
        })?;
        visit(event)
    };
    let mut events = Events::from_file(BATCH, file, format, columns, &options, &running)?;
    while events.next_batch::<PipelineError>(visit)? {}
    Ok(())
}

/// About the number of bytes of an event's cells when written as text: a few bytes of a binary format can stand for any
/// number.
fn bytes_of(event: &Event<'_>) -> u64 {
    let own = [event.time(), event.person(), event.value()];
    let cells = event.labels().chain(event.filter_cells()).chain(own).chain(event.time_of_day());
    let bytes = |cell| match cell {
        Field::Missing => 1,
        Field::Text(text) | Field::Number(text) => text.len() as u64 + 1,
        _ => 8,
    };
    cells.map(bytes).sum()
}

/// The rows of a chunk whose step is closed, as problems.
pub(super) fn late_rows(stream: &Stream, step: u64, chunk: &Chunk) -> (Vec<RowProblem>, u64) {
    let calendar = &stream.calendar;
    // Step 0 has the events of earlier parts.
    let end = calendar.format(if step == 0 { calendar.start() } else { calendar.end_of(step) });
    let problem = format!("belongs to a step that is closed: it ended at {end}");
    let remedy = sentence!["open streams with ", (LatePolicy, "next-step"), " if events may arrive this late"];
    let remedy = remedy.worded(evertally_declare::problem::Wording::Json);
    let of_row = |row: &u64| RowProblem {
        row: Some(*row),
        field: Some(stream.columns.time.clone()),
        problem: problem.clone(),
        remedy: Some(remedy.clone()),
    };
    (chunk.rows.iter().map(of_row).collect(), chunk.events - chunk.rows.len() as u64)
}

/// The last step whose events are accepted at this time; no limit if the clock does not close steps.
pub(super) fn latest_step(stream: &Stream, now: Option<Instant>, ahead: i64) -> u64 {
    let Some(now) = now else { return u64::MAX };
    let calendar = &stream.calendar;
    let latest = Instant::from_micros(now.micros().saturating_add(ahead));
    match calendar.step_of(latest) {
        Some(step) => step,
        None if latest < calendar.start() => 0,
        None => calendar.steps(),
    }
}
