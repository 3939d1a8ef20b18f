//! A year of daily runs, each continuing the previous one, cut off everywhere: state, ledger and table.

use super::{Image, TracedDisk, open};
use evertally::noise::{GuardedKey, TestSeed};
use evertally_declare::declaration::Declaration;
use evertally_declare::error::{PipelineError, Result};
use evertally_declare::records::Records;
use evertally_declare::stream::Stream;
use evertally_ledger::disk::Disk;
use evertally_ledger::ledger::{Absent, Ledger, OutputBytes};
use evertally_publish::session::{Leg, RunRecord, RunningSums, Session};
use evertally_tables::input::{Events, ReadOptions};
use evertally_tables::output::{AppendTarget, OutputFormat, TableSpec, TableWriter, deliver};
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const DAYS: u64 = 366;

/// A stream over a year, and a file of events for each day.
struct Year {
    stream: Stream,
    files: tempfile::TempDir,
}

impl Year {
    fn new() -> Self {
        let declared = Declaration {
            start: Some("2024-01-01".into()),
            steps: Some(DAYS),
            every: Some("1d".parse().unwrap()),
            epsilon: Some(1.0),
            person: Some("who".into()),
            max_events: Some(40),
            max_events_per_step: Some(2),
            mechanism: Some("honaker-online".parse().unwrap()),
            ..Declaration::default()
        };
        let (stream, _) = evertally_ledger::planner::plan(declared.resolve().unwrap(), &mut |_| ()).unwrap();
        let year = Self { stream, files: tempfile::tempdir().unwrap() };
        for day in 1..=DAYS {
            let date = year.stream.calendar.format(year.stream.calendar.start_of(day));
            let row = |number: u64| format!("{date},person {}\n", (day * 7 + number * number) % 11);
            let rows: String = (0..day % 5 + day % 3).map(row).collect();
            std::fs::write(year.file(day), format!("time,who\n{rows}")).unwrap();
        }
        year
    }

    fn file(&self, day: u64) -> PathBuf {
        self.files.path().join(format!("{day}.csv"))
    }

    /// The run of a day, as a front end does it: recorded but unwritten output is written, the new files are read,
    /// everything is recorded, and the rows are appended.
    fn run(&self, disk: &Arc<dyn Disk>, folder: &Path, day: u64) -> Result<()> {
        let (name, table) = (&self.stream.name, folder.join("t.csv"));
        let mut open = open(disk.clone(), &folder.join("k"), Absent::Refuse)?;
        deliver(&**disk, &mut open.ledger, name)?;
        let published = open.ledger.last_published(name);
        if published >= day {
            return Ok(());
        }
        let stream = self.stream.clone().through(day);
        let mut session = match open.ledger.state(name)? {
            Some(state) => {
                let leg = Leg { last_step: day, stream: stream.clone(), groups: None };
                Session::resume(leg, &open.key, &open.ledger, &state)?
            }
            None => Session::of_sums(stream.clone(), None, &open.key, &open.ledger)?.that_goes_on(),
        };
        let mark = open.ledger.table(name).cloned();
        let target =
            AppendTarget::find(&**disk, &table, OutputFormat::Csv, mark.as_ref(), published == 0, published, None)?;
        let spec = TableSpec::new(Vec::new(), true).unwrap();
        let make = if target.is_behind() { TableWriter::behind } else { TableWriter::new };
        let mut rows = make(OutputFormat::Csv, &spec, Vec::new())?;
        let mut take = |session: &mut Session<RunningSums>| -> Result<()> {
            while let Some(mut step) = session.next_step()? {
                step.for_each_row(|_, row| rows.write(row))?;
            }
            Ok(())
        };
        let files: Vec<PathBuf> = (published + 1..=day).map(|day| self.file(day)).collect();
        let (options, running) = (ReadOptions::default(), AtomicBool::new(false));
        let mut events = Events::of_files(&files, &stream.columns, &options, &(), &running)?;
        while events.next_batch::<PipelineError>(&mut |event| {
            session.push(event)?;
            take(&mut session)
        })? {}
        session.close_through(day)?;
        take(&mut session)?;
        let rows = rows.finish()?;
        let (path, behind) = target.place(published + 1, day)?;
        let table = target.mark_after(rows.len() as u64, &rows);
        let mut contents = Cursor::new(rows);
        let output = OutputBytes { target: path, behind, private: false, contents: &mut contents };
        session
            .record_continued(&mut open.ledger, RunRecord { outputs: vec![output], table, ..RunRecord::default() })?;
        deliver(&**disk, &mut open.ledger, name)?;
        Ok(())
    }

    /// The whole table, by one run.
    fn table(&self) -> String {
        let folder = tempfile::tempdir().unwrap();
        new_key_of_year(folder.path());
        self.run(&traced(folder.path()), folder.path(), DAYS).unwrap();
        std::fs::read_to_string(folder.path().join("t.csv")).unwrap()
    }
}

/// A disk that never syncs: no test depends on it.
fn traced(folder: &Path) -> Arc<dyn Disk> {
    Arc::new(TracedDisk::new(folder))
}

/// Always the same key.
fn new_key_of_year(folder: &Path) {
    let key = GuardedKey::insecure_from_test_seed(TestSeed(366));
    Ledger::in_memory(&key).save(&folder.join("k"), &key).unwrap();
}

/// Runs on an image: checks that the run ends with the right table; false if it was refused.
fn go_on(year: &Year, folder: &Path, image: &Image, day: u64, lines: &[&str], after: &str) -> bool {
    // At the path of the original folder, because the ledger names outputs by their full paths.
    let aside = folder.with_extension("aside");
    std::fs::rename(folder, &aside).unwrap();
    std::fs::create_dir(folder).unwrap();
    image.write_into(folder);
    let ended = year.run(&traced(folder), folder, day);
    let table = std::fs::read_to_string(folder.join("t.csv"));
    std::fs::remove_dir_all(folder).unwrap();
    std::fs::rename(&aside, folder).unwrap();
    match ended {
        Ok(()) => {
            assert_eq!(table.unwrap(), lines[..=day as usize].concat(), "day {day}, {after}");
            true
        }
        Err(error) => {
            let said = error.to_string();
            assert!(
                said.contains("was changed before the recorded rows of the last run"),
                "day {day}, {after}: {said}"
            );
            false
        }
    }
}

#[test]
fn a_year_of_daily_runs_cut_off_everywhere_gives_one_table() {
    let year = Year::new();
    let table = year.table();
    let lines: Vec<&str> = table.split_inclusive('\n').collect();
    assert_eq!(lines.len() as u64, DAYS + 1);
    let base = tempfile::tempdir().unwrap();
    let folder = base.path().canonicalize().unwrap().join("live");
    std::fs::create_dir(&folder).unwrap();
    new_key_of_year(&folder);
    let (mut ended, mut refused, mut points_seen) = (0, 0, 0);
    for day in 1..=DAYS {
        let disk = Arc::new(TracedDisk::new(&folder));
        let shared: Arc<dyn Disk> = disk.clone();
        year.run(&shared, &folder, day).unwrap();
        let points = disk.points();
        points_seen += points.len();
        for (number, point) in points.iter().enumerate() {
            // Every point of some days, and one point of each other day.
            let images = match day {
                2 | 180 => 24,
                day if day.is_multiple_of(15) => 4,
                day if number as u64 == day % points.len() as u64 => 3,
                _ => continue,
            };
            for image in point.images(images) {
                *if go_on(&year, &folder, &image, day, &lines, &point.after) { &mut ended } else { &mut refused } += 1;
            }
        }
    }
    assert_eq!(std::fs::read_to_string(folder.join("t.csv")).unwrap(), table);
    println!("{points_seen} points; {ended} images continued, {refused} were refused");
    assert!(points_seen > 15 * DAYS as usize && ended > 1500 && refused < ended / 10);
}
