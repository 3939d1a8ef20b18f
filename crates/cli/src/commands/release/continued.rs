//! `evertally release --continue`: a run that reads new files, and appends new rows.
//!
//! The order of operations makes it safe to interrupt a run at any point:
//!
//! 1. rows that an earlier run recorded but did not write are written;
//! 2. new files are distinguished from those read before, and read; rows go to a file without a name;
//! 3. ledger, session state, files seen and rows are recorded, all or nothing;
//! 4. rows are appended to the table, and report and picture are written again.

use super::emit::RowEmitter;
use super::expected::{FilePattern, Missing, full};
use super::facts::print_json;
use super::setup::ReleaseSetup;
use super::side_files::{BadRowsFile, csv_of_rows, report_bad_rows};
use super::{announce, confirm, note_filter, refuse_joining, summary, views, write_due};
use crate::failure::usage;
use crate::stream::{Files, report_new_key};
use anyhow::{Result, anyhow};
use evertally::noise::SecretKey;
use evertally_declare::declaration::Parameter::Rebuild;
use evertally_declare::declaration::Present;
use evertally_declare::error::refuse_if;
use evertally_declare::event::WholeRow;
use evertally_declare::groups::GroupTable;
use evertally_declare::problem::sentence;
use evertally_declare::records::Records;
use evertally_declare::stream::Stream;
use evertally_ledger::disk::RealDisk;
use evertally_ledger::ledger::{Joined, Ledger, OpenKey, OutputBytes, Rewind, Run, SeenFile, TableMark};
use evertally_ledger::protected::check_output;
use evertally_publish::report::ErrorFacts;
use evertally_publish::session::{Leg, RunRecord, RunningSums, Session};
use evertally_tables::input::{BadRowSink, Events, Fingerprints, NewFile, Sorted};
use evertally_tables::output::{AppendTarget, RunOutputs, TableWriter, deliver, files_of};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// A segment of the run, and the files that it reads.
struct RunSegment {
    leg: Leg,
    files: Vec<PathBuf>,
    /// Whether an earlier run did it already.
    is_known: bool,
}

/// The original rows that a run does not count. They are **not private**.
struct RowsAside {
    late: Vec<WholeRow>,
    /// A CSV table of the rows that cannot be read, if such rows are set aside, and their number.
    bad_rows: Option<File>,
    bad_count: u64,
}

/// Runs `evertally release --continue`.
pub(super) fn run(setup: &ReleaseSetup, files: &Files, open: &mut OpenKey, cancelled: &AtomicBool) -> Result<()> {
    check(setup, files)?;
    let name = &setup.stream.name;
    if !files.going_on.rebuild {
        for name in &setup.names {
            for path in deliver(&RealDisk, &mut open.ledger, name).map_err(unwritten)? {
                eprintln!("finished writing the output of an interrupted run: {}", path.display());
            }
        }
    }
    let published = open.ledger.last_published(name);
    let inputs = inputs(setup, files, published)?;
    let sorted = {
        let known = setup.names.iter().flat_map(|name| open.ledger.runs_of(name)).flat_map(|run| &run.files);
        let known: Vec<&SeenFile> = known.collect();
        Fingerprints::new(&open.key, &setup.names[0]).sort(&inputs, &known, cancelled)?
    };
    let (last_step, missing) = last_step(setup, files, &open.ledger, &sorted)?;
    let stream = setup.stream.clone().through(last_step);
    let before = if files.going_on.rebuild { 0 } else { published };
    // One rule: a run that closes no step because a file is missing fails, whatever else it could read.
    if let Some(Missing { step, file }) = missing.as_ref().filter(|_| last_step == before) {
        let (end, file) = (stream.calendar.format(stream.calendar.end_of(*step)), file.display());
        let problem =
            format!("the file {file} of step {step}, which ends at {end}, was not read, so no step can be closed");
        let remedy = "run again once it is there; for a step without events, write a file with only the column names";
        return Err(usage(format!("{problem}; {remedy}")));
    }
    if published == stream.calendar.steps() && !files.going_on.extend {
        let end = stream.calendar.format(stream.calendar.end());
        eprintln!("note: the horizon ended at {end} and is completely published; --extend opens the next stream");
    }
    confirm(&stream, files, published)?;
    let setup = ReleaseSetup { stream, ..setup.clone() };
    ContinuedRun { setup: &setup, files, cancelled, before, missing }.go(open, sorted)?;
    report_new_key(open, files);
    if !files.quiet && last_step > before {
        summary(&setup, files, open.ledger.stream_count(), before == 0);
    }
    if files.json { print_json(&setup, files, &ErrorFacts::for_releases(&setup.stream), true) } else { Ok(()) }
}

/// A failure after the record, including a closed pipe: nobody has the rows yet.
fn unwritten(cause: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("the release is recorded, but not written: fix this and run again, which writes it first: {cause}")
}

fn check(setup: &ReleaseSetup, files: &Files) -> Result<()> {
    views::check(setup)?;
    let outputs = std::iter::once(&files.out).chain(&files.going_on.late_file).chain(&files.bad_file);
    Ok(outputs.into_iter().try_for_each(|path| check_output(path, &files.protected_paths()))?)
}

/// The named files, or the files that match the pattern for unpublished steps.
fn inputs(setup: &ReleaseSetup, files: &Files, published: u64) -> Result<Vec<PathBuf>> {
    let named = &files.inputs;
    match &files.going_on.expect {
        Some(pattern) if named.is_empty() => {
            let first = if files.going_on.rebuild { 1 } else { published + 1 };
            FilePattern::new(pattern, &setup.stream.calendar)?.files(first, setup.stream.last_step)
        }
        _ => Ok(named.clone()),
    }
}

/// The last step that can be closed: the files of all steps up to it were read.
fn last_step(setup: &ReleaseSetup, files: &Files, ledger: &Ledger, sorted: &Sorted) -> Result<(u64, Option<Missing>)> {
    let (stream, published) = (&setup.stream, ledger.last_published(&setup.stream.name));
    let Some(pattern) = &files.going_on.expect else { return Ok((stream.last_step, None)) };
    let now = sorted.new.iter().map(|file| full(&file.path)).chain(sorted.seen.iter().map(|(path, _)| full(path)));
    let before = setup.names.iter().flat_map(|name| ledger.runs_of(name)).flat_map(|run| &run.files);
    let before = before.map(|file| PathBuf::from(&file.path));
    let read: BTreeSet<PathBuf> = now.chain(before).collect();
    let missing = FilePattern::new(pattern, &stream.calendar)?.missing(published + 1, stream.last_step, &read)?;
    Ok((missing.as_ref().map_or(stream.last_step, |missing| missing.step - 1), missing))
}

fn announce_files(files: &Files, sorted: &Sorted, missing: Option<&Missing>) {
    if let Some(Missing { step, file }) = missing {
        eprintln!("note: the file {} was not read; step {step} and all later steps wait for it", file.display());
    }
    if !files.quiet && !sorted.seen.is_empty() {
        eprintln!("{} of {} files had been read before", sorted.seen.len(), sorted.seen.len() + sorted.new.len());
    }
    if !files.quiet && sorted.new.is_empty() {
        eprintln!("there is no new file");
    }
}

struct ContinuedRun<'a> {
    setup: &'a ReleaseSetup,
    files: &'a Files,
    cancelled: &'a AtomicBool,
    /// The last step that already has rows in the table.
    before: u64,
    /// The first step whose file is missing.
    missing: Option<Missing>,
}

impl ContinuedRun<'_> {
    fn go(&self, open: &mut OpenKey, sorted: Sorted) -> Result<()> {
        let (setup, files, name) = (self.setup, self.files, &self.setup.stream.name);
        let (rebuild, mark) = (files.going_on.rebuild, self.mark(&open.ledger));
        let is_whole = (rebuild || self.before == 0) && setup.names.len() == 1;
        let follows = setup.names.len() > 1;
        let (out, format) = (&files.out, files.output_format);
        let own = open.ledger.table(name).map(|mark| mark.bytes).filter(|_| rebuild && follows);
        let known = if is_whole { open.ledger.table(name).cloned() } else { mark.clone() };
        let steps = self.rows_before();
        let target = AppendTarget::find(&RealDisk, out, format, known.as_ref(), is_whole, steps, own)?;
        self.protect(&target, &sorted)?;
        views::check_columns(setup, files, &target)?;
        if rebuild && follows && matches!(target, AppendTarget::Alone(_)) {
            let problem =
                format!("{} is missing, and contains rows of earlier streams; restore it first", out.display());
            return Err(usage(problem));
        }
        let (mut session, stretches) = self.session(open, &sorted)?;
        views::recall(setup, out, self.rows_before(), &mut session)?;

        let mut publication = RunOutputs::new(&files.protected_paths(), true);
        let mut emitter = RowEmitter::new(setup, files, self.table(&target)?);
        if target.is_behind() || !is_whole {
            emitter.recall(setup, &files_of(&RealDisk, &files.out)?)?;
        }
        let aside = self.read(&mut session, &mut emitter, &open.key, stretches)?;
        let (late_count, bad_count) = (aside.late.len(), aside.bad_count);
        let rows = emitter.finish(setup, files, open, &mut publication)?;
        let mut rows = rows.into_inner().map_err(|e| e.into_error())?;
        sorted.new.iter().try_for_each(NewFile::check_unchanged)?;
        refuse_if(self.cancelled)?;
        note_filter(&session);
        announce_files(files, &sorted, self.missing.as_ref());
        if setup.stream.last_step > self.before {
            announce(&setup.stream, files, self.before);
        }
        let read = sorted.new.into_iter().map(|file| file.record).chain(sorted.again).collect();
        self.record(open, session, &target, mark, &mut rows, aside, read)?;
        deliver(&RealDisk, &mut open.ledger, name).map_err(unwritten)?;
        if let (1.., Some(path)) = (late_count, &files.going_on.late_file) {
            let path = numbered(path, open.ledger.counter());
            eprintln!("wrote late events to {}, which is NOT PRIVATE", path.display());
        }
        if let Some(path) = &files.bad_file {
            report_bad_rows(bad_count, &numbered(path, open.ledger.counter()));
        }
        publication.commit().map_err(unwritten)
    }

    /// Refuses a table that is an input, or that was not written by this stream.
    fn protect(&self, target: &AppendTarget, sorted: &Sorted) -> Result<()> {
        let out = full(&self.files.out);
        let named = sorted.new.iter().map(|file| &file.path).chain(sorted.seen.iter().map(|(path, _)| path));
        let others = self.files.protected_paths();
        if named.chain(&others).any(|input| full(input) == out) {
            let problem = format!("{}: this is an input of the run, and inputs are never replaced", out.display());
            return Err(usage(problem));
        }
        if !self.files.going_on.rebuild && matches!(target, AppendTarget::Alone(_)) && out.exists() {
            let problem = format!("{}: the file exists, and this stream did not write it", out.display());
            return Err(usage(format!("{problem}; move it away, or choose another name")));
        }
        Ok(())
    }

    /// The table to which rows are appended. If all rows of a stream that follows others are written again, this is the
    /// table that the earlier streams left.
    fn mark(&self, ledger: &Ledger) -> Option<TableMark> {
        let mut names = self.setup.names.iter().rev();
        if self.before == 0 && self.setup.names.len() > 1 {
            names.next();
        }
        names.next().and_then(|name| ledger.table(name)).cloned()
    }

    /// The number of rows that the table has for each group.
    fn rows_before(&self) -> u64 {
        self.setup.stream.rows_through(self.before) + self.setup.steps_before()
    }

    /// The writer for this run's rows, which go to a file without a name.
    fn table(&self, target: &AppendTarget) -> Result<TableWriter<BufWriter<File>>> {
        let spool = BufWriter::new(tempfile::tempfile()?);
        let (format, spec) = (self.files.output_format, &self.setup.table);
        let is_behind = target.is_behind() || (matches!(target, AppendTarget::Stream(_)) && self.rows_before() > 0);
        Ok(if is_behind { TableWriter::append(format, spec, spool) } else { TableWriter::new(format, spec, spool) }?)
    }

    /// The session at its current step, and the remaining stretches.
    fn session(&self, open: &mut OpenKey, sorted: &Sorted) -> Result<(Session<RunningSums>, Vec<RunSegment>)> {
        let (setup, stream) = (self.setup, &self.setup.stream);
        let last = RunSegment {
            leg: Leg { last_step: stream.last_step, stream: stream.clone(), groups: setup.groups.clone() },
            files: sorted.new.iter().map(|file| file.path.clone()).collect(),
            is_known: false,
        };
        let published = open.ledger.last_published(&stream.name);
        if !self.files.going_on.rebuild && published > 0 {
            let state = open.ledger.state(&stream.name)?.ok_or_else(|| lost(stream, &open.ledger))?;
            let session = Session::resume(last.leg.clone(), &open.key, &open.ledger, &state)?;
            return Ok((session, vec![last]));
        }
        let mut stretches = known(setup, open.ledger.runs_of(&stream.name), open.ledger.joined(&stream.name), sorted)?;
        if stretches.is_empty() && published > 0 {
            refuse_joining(setup)?;
        }
        stretches.push(last);
        let first = stretches[0].leg.clone();
        let digest = open.ledger.digest_of(&open.key, stream, stream.last_step)?;
        let sums = RunningSums::new(&first.stream, first.groups.clone(), &digest.guarded(&open.key)?)?;
        let session = Session::new(first.stream, sums, &open.key, digest, first.last_step)?;
        Ok((session.that_goes_on(), stretches))
    }

    /// Reads all files, segment by segment. Returns the rows of the last segment that are set aside.
    fn read(
        &self,
        session: &mut Session<RunningSums>,
        emitter: &mut RowEmitter<BufWriter<File>>,
        key: &SecretKey,
        stretches: Vec<RunSegment>,
    ) -> Result<RowsAside> {
        let mut late = Vec::new();
        let mut bad_rows = match self.files.bad_file {
            Some(_) => Some(BadRowsFile::new(BufWriter::new(tempfile::tempfile()?))?),
            None => None,
        };
        for (number, RunSegment { leg, files, is_known }) in stretches.into_iter().enumerate() {
            let last_step = leg.last_step;
            let columns = leg.stream.columns.clone();
            if number > 0 {
                session.begin(leg, key)?;
            }
            let progress = self.files.progress();
            let events = Events::from_files(&files, &columns, &self.files.reading, &*progress, self.cancelled)?;
            let sink: Option<BadRowSink<'_>> = match &mut bad_rows {
                Some(_) if is_known => Some(Box::new(|_| Ok(()))),
                Some(bad_rows) => Some(Box::new(|bad| bad_rows.push(&bad))),
                None => None,
            };
            let events = events.without_bad_rows(sink);
            events.feed(session, &mut |session| write_due(session, emitter, self.cancelled))?;
            session.close_through(last_step)?;
            write_due(session, emitter, self.cancelled)?;
            let aside = session.drain_late();
            if !is_known {
                late = aside;
            }
        }
        let Some(bad_rows) = bad_rows else { return Ok(RowsAside { late, bad_rows: None, bad_count: 0 }) };
        let (bad_rows, bad_count) = bad_rows.finish()?;
        let bad_rows = Some(bad_rows.into_inner().map_err(|e| e.into_error())?);
        Ok(RowsAside { late, bad_rows, bad_count })
    }

    #[expect(clippy::too_many_arguments, reason = "everything that a run records")]
    fn record(
        &self,
        open: &mut OpenKey,
        mut session: Session<RunningSums>,
        target: &AppendTarget,
        mark: Option<TableMark>,
        rows: &mut File,
        mut aside: RowsAside,
        files: Vec<SeenFile>,
    ) -> Result<()> {
        let (first, last) = (self.before + 1, session.step());
        let mut leaving = RunRecord { files, ..RunRecord::default() };
        if let (Some(groups), Some(present)) = (&self.setup.groups, self.setup.present) {
            leaving.joined = groups.joining(present.present, open.ledger.last_published(&self.setup.stream.name));
        }
        let counter = open.ledger.counter() + 1;
        let mut late_csv;
        if let (false, Some(path)) = (aside.late.is_empty(), &self.files.going_on.late_file) {
            late_csv = Cursor::new(csv_of_rows(&aside.late)?);
            leaving.outputs.push(side_output(path, counter, "late events", &mut late_csv)?);
        }
        if let (1.., Some(path), Some(rows)) = (aside.bad_count, &self.files.bad_file, &mut aside.bad_rows) {
            leaving.outputs.push(side_output(path, counter, "rows that cannot be read", rows)?);
        }
        leaving.table = mark;
        let is_idle = first > last && leaving.files.is_empty() && leaving.joined.is_none();
        if is_idle && !self.files.going_on.rebuild {
            return Ok(()); // everything is recorded already
        }
        let (first, last) = (self.rows_before() + 1, self.setup.stream.rows_through(last) + self.setup.steps_before());
        if first <= last {
            let (path, behind) = target.place(first, last)?;
            let (bytes, tail) = length_and_tail(rows)?;
            leaving.table = target.mark_after(bytes, &tail);
            leaving.outputs.push(OutputBytes { target: path, behind, private: false, contents: rows });
        }
        Ok(session.record_continued(&mut open.ledger, leaving)?)
    }
}

/// The stretches of earlier runs, to be repeated: their files, with the policies and groups of that time.
fn known(setup: &ReleaseSetup, runs: &[Run], joined: &[Joined], sorted: &Sorted) -> Result<Vec<RunSegment>> {
    // Runs before the first one that recorded its files read everything at once, and so does this run.
    let runs = runs.iter().skip_while(|run| run.files.is_empty());
    let stretch = |run: &Run| {
        let path = |file: &SeenFile| {
            let given = sorted.seen.iter().find(|(_, seen)| seen.digest == file.digest);
            given.map(|(path, _)| path.clone()).ok_or_else(|| {
                let (path, at) = (&file.path, run.at.strftime("%Y-%m-%d %H:%M"));
                usage(format!("{path}, which was read at {at} UTC, is missing: give all files again, in any order"))
            })
        };
        let count = |present: Present| {
            let later = joined.iter().filter(|joined| joined.run <= run.counter);
            present.first + later.map(|joined| joined.groups.len()).sum::<usize>()
        };
        let groups: Option<GroupTable> = match (&setup.groups, setup.present) {
            (Some(table), Some(present)) => Some(table.first(count(present))),
            (table, _) => table.clone(),
        };
        let stream = setup.stream.clone().through(run.through).with_policies(&run.policies);
        let files = run.files.iter().filter(|file| !file.again).map(path).collect::<Result<_>>()?;
        Ok(RunSegment { leg: Leg { last_step: run.through, stream, groups }, files, is_known: true })
    };
    runs.map(stretch).collect()
}

fn lost(stream: &Stream, ledger: &Ledger) -> anyhow::Error {
    let (name, last) = (&stream.name, ledger.last_published(&stream.name));
    let problem = match ledger.has_state(name) {
        true => format!("the state of stream `{name}`, published through step {last}, is lost"),
        false => {
            format!("stream `{name}` was published through step {last} by runs over all data, and has no state")
        }
    };
    usage(sentence![problem, "; recreate it from all files since the beginning with ", Rebuild])
}

/// The length of the written rows, and their last bytes.
fn length_and_tail(rows: &mut File) -> Result<(u64, Vec<u8>)> {
    let bytes = rows.seek(SeekFrom::End(0))?;
    rows.seek(SeekFrom::Start(bytes.saturating_sub(4096)))?;
    let mut tail = Vec::new();
    rows.read_to_end(&mut tail)?;
    Ok((bytes, tail))
}

/// A file of original rows that a run sets aside.
fn side_output<'a>(path: &Path, counter: u64, what: &str, contents: &'a mut dyn Rewind) -> Result<OutputBytes<'a>> {
    let path = numbered(path, counter);
    if path.exists() {
        return Err(usage(format!("{}: this is the file for {what}, but it already exists", path.display())));
    }
    let target = utf8(&std::path::absolute(path)?)?;
    Ok(OutputBytes { target, behind: None, private: true, contents })
}

/// `late.csv` as `late.000012.csv`.
fn numbered(path: &Path, number: u64) -> PathBuf {
    let ending = path.extension().map_or(String::new(), |ending| format!(".{}", ending.to_string_lossy()));
    path.with_extension(format!("{number:06}{ending}"))
}

fn utf8(path: &Path) -> Result<String> {
    path.to_str().map(str::to_owned).ok_or_else(|| usage(format!("{} is not UTF-8 text", path.display())))
}
