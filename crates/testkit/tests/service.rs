//! A service under fire: schedules from a seed, over a disk that tears, a witness that is unavailable, and a network
//! that repeats, reorders and delays. Whatever happens, the releases are those of one run over the accepted events,
//! nothing acknowledged is lost, and nothing is published twice with different bytes.
//!
//! `EVERTALLY_SCHEDULES` sets the number of schedules (default 100; the long run uses 10,000), and
//! `EVERTALLY_FIRST_SCHEDULE` the first one.

use evertally::noise::{SecretKey, TestSeed};
use evertally_declare::declaration::Declaration;
use evertally_declare::error::{PipelineError, failure};
use evertally_declare::format::Format;
use evertally_declare::policy::SortLimit;
use evertally_declare::steps::Instant;
use evertally_ledger::ledger::Ledger;
use evertally_publish::session::{RunningSums, Session};
use evertally_server::clock::ManualClock;
use evertally_server::engine::{Core, Notice, Opening, Refusal, RowsQuery, Setting, StreamInfo, StreamState};
use evertally_server::store::{ClosedBy, Store};
use evertally_server::witness::{Witness, WitnessRecord};
use evertally_tables::input::{Events, ReadOptions};
use evertally_testkit::torn_disk::TornDisk;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

#[path = "service/chains.rs"]
mod chains;
#[path = "service/sums.rs"]
mod sums;
#[path = "service/two_machines.rs"]
mod two_machines;

const HOUR: i64 = 3_600_000_000;
const STEPS: u64 = 7;
const START: i64 = 1_767_225_600_000_000; // 2026-01-01

/// The streams of a schedule: declared groups with persons, one sum, discovered groups, several measures.
const DECLARATIONS: [(&str, &str); 5] = [
    (
        "persons",
        concat!(
            r#""group-by":["group"],"groups":["a","b"],"person":"person","max-events":3,"max-events-per-step":2,"#,
            r#""max-groups":1,"epsilon":1"#,
        ),
    ),
    (
        "sum",
        concat!(
            r#""value":"value","bounds":["0","5"],"view":["whole-number","non-decreasing"],"#,
            r#""band":"simultaneous","rho":0.5"#,
        ),
    ),
    (
        "found",
        concat!(
            r#""group-by":["group"],"discover-groups":true,"person":"person","max-events":2,"rho":4,"#,
            r#""selection-delta":0.01,"allow-weak-budget":true,"select-every":2"#,
        ),
    ),
    (
        "measures",
        concat!(
            r#""group-by":["group"],"groups":["a","b"],"person":"person","max-events":3,"#,
            r#""measure":["count","distinct"],"epsilon":1"#,
        ),
    ),
    ("daily", r#""publish":"2h","epsilon":1"#),
];

/// Streams whose rows are counted once by their ids.
const WITH_IDS: [usize; 2] = [1, 2];

fn declaration(which: usize) -> String {
    let (name, own) = DECLARATIONS[which];
    let steps = if name == "daily" { STEPS - 1 } else { STEPS };
    let hourly = r#""start":"2026-01-01","every":"1h""#;
    format!(r#"{{"stream":"{name}","time":"time",{hourly},"steps":{steps},"time-zone":"UTC",{own}}}"#)
}

fn key() -> SecretKey {
    SecretKey::insecure_from_test_seed(TestSeed(7))
}

/// A small generator: the schedule of a seed must not change with a library version.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }
}

/// A witness that survives crashes, and is unavailable on request.
#[derive(Clone, Default)]
struct FarWitness {
    said: Arc<Mutex<Option<WitnessRecord>>>,
    is_away: Arc<AtomicBool>,
}

impl Witness for FarWitness {
    fn ask(&mut self) -> Result<Option<WitnessRecord>, PipelineError> {
        if self.is_away.load(Ordering::Relaxed) {
            return Err(failure("away"));
        }
        Ok(self.said.lock().unwrap().clone())
    }

    fn write(&mut self, testimony: &WitnessRecord) -> Result<(), PipelineError> {
        if self.is_away.load(Ordering::Relaxed) {
            return Err(failure("away"));
        }
        *self.said.lock().unwrap() = Some(testimony.clone());
        Ok(())
    }

    fn place(&self) -> String {
        "far".into()
    }
}

/// A batch in flight.
#[derive(Clone)]
struct Sent {
    stream: usize,
    id: String,
    text: String,
    /// Whether it was acknowledged.
    is_acknowledged: bool,
}

/// A publication, as watchers see it.
type Shown = (Arc<StreamInfo>, u64);

/// A complete history.
struct History {
    dice: Dice,
    disk: TornDisk,
    clock: Arc<ManualClock>,
    witness: FarWitness,
    core: Option<Core>,
    has_begun: bool,
    shown: Arc<Mutex<Vec<Shown>>>,
    /// For every stream the accepted batches in their order, and the one whose state is unknown.
    accepted: BTreeMap<usize, Vec<String>>,
    unknown: Vec<Sent>,
    sent: Vec<Sent>,
    /// The rows of each stream that were ever written.
    rows: Vec<(usize, String)>,
    /// Everything that was ever published.
    seen: BTreeMap<(usize, u64), Vec<String>>,
}

impl History {
    fn new(seed: u64) -> Self {
        Self {
            dice: Dice(seed),
            disk: TornDisk::default(),
            clock: Arc::new(ManualClock::at(Instant::from_micros(START))),
            witness: FarWitness::default(),
            core: None,
            has_begun: false,
            shown: Arc::default(),
            accepted: BTreeMap::new(),
            unknown: Vec::new(),
            sent: Vec::new(),
            rows: Vec::new(),
            seen: BTreeMap::new(),
        }
    }

    /// Starts the service, with as many attempts as needed.
    fn start(&mut self) {
        while self.core.is_none() {
            if self.dice.one_in(6) {
                self.disk.fail_after(self.dice.roll(60));
            }
            let shown = Arc::clone(&self.shown);
            let notify = move |notice: Notice| {
                if let Notice::Published(info, publication) = notice {
                    shown.lock().unwrap().push((info, publication));
                }
            };
            self.witness.is_away.store(false, Ordering::Relaxed);
            let opened = Store::on(self.disk.clone()).and_then(|store| {
                let setting = Setting {
                    store,
                    key: key(),
                    clock: Arc::clone(&self.clock) as _,
                    witness: Some(Box::new(self.witness.clone())),
                    sources: BTreeMap::new(),
                    ahead: HOUR,
                    decoding: Arc::default(),
                    catch_up: 0,
                    retention: evertally_server::config::RetentionConfig::default(),
                };
                Core::open(setting, Arc::new(notify))
            });
            match opened {
                Ok(core) => (self.core, self.has_begun) = (Some(core), true),
                // A file gets its name once it is a database; a disk without one is started again.
                Err(error) if !self.has_begun && error.to_string().contains("magic number") => {
                    self.disk = TornDisk::default();
                }
                Err(error) => {
                    assert!(is_of_the_disk(&error.to_string()), "{error}");
                    self.crash();
                }
            }
        }
    }

    fn crash(&mut self) {
        self.core = None;
        let mut dice = Dice(self.dice.roll(u64::MAX));
        let keeps = self.dice.roll(4);
        self.disk.restart(|| dice.roll(3) < keeps);
    }

    fn open_streams(&mut self) {
        for (which, (name, _)) in DECLARATIONS.iter().enumerate() {
            loop {
                self.start();
                let core = self.core.as_mut().unwrap();
                if core.find(name).is_some() {
                    break;
                }
                let closing = ClosedBy::Schedule { grace: 60_000_000, delay: 5_000_000 };
                let id = WITH_IDS.contains(&which).then(|| "id".to_owned());
                let opening = Opening { declaration: declaration(which), public: true, source: None, closing, id };
                if self.dice.one_in(5) {
                    self.disk.fail_after(self.dice.roll(40));
                }
                let core = self.core.as_mut().unwrap();
                if let Err(error) = core.open_stream(Core::plan(opening).unwrap()) {
                    assert!(is_of_the_disk(&error.to_string()), "{error}");
                    self.crash();
                }
            }
        }
        if self.dice.one_in(2) {
            self.crash();
        }
    }

    /// A new batch of some rows near the current time.
    fn write(&mut self) -> Sent {
        let stream = self.dice.roll(DECLARATIONS.len() as u64) as usize;
        let now = (evertally_server::clock::Clock::now(&*self.clock).micros() - START) / HOUR;
        let mut text = String::new();
        for _ in 0..1 + self.dice.roll(4) {
            let step = (now + self.dice.roll(4) as i64 - 2).clamp(0, STEPS as i64 - 1);
            let (minute, group) =
                (self.dice.roll(60), ["a", "b", "c"][self.dice.roll(2 + u64::from(stream == 2)) as usize]);
            let (person, value) = (self.dice.roll(4), self.dice.roll(11) as i64 - 5);
            // Some rows arrive again, in another batch or in the same one.
            let earlier = self.dice.roll(1 + self.rows.len() as u64) as usize;
            if let Some((_, row)) = self.rows.get(earlier).filter(|(of, _)| *of == stream && self.dice.one_in(2)) {
                text += row;
                continue;
            }
            let id = self.rows.len();
            let row = format!(
                "{{\"time\":\"2026-01-01T{step:02}:{minute:02}:00Z\",\"group\":\"{group}\",\
                 \"person\":\"p{person}\",\"value\":{value},\"id\":{id}}}\n"
            );
            text += &row;
            self.rows.push((stream, row));
        }
        Sent { stream, id: format!("b{}", self.sent.len()), text, is_acknowledged: false }
    }

    /// Sends some batches at once, including old ones again.
    fn send(&mut self) {
        self.start();
        let mut batches = Vec::new();
        for _ in 0..1 + self.dice.roll(4) {
            if self.dice.one_in(3) && !self.sent.is_empty() {
                let again = self.dice.roll(self.sent.len() as u64) as usize;
                let mut again = self.sent[again].clone();
                if self.dice.one_in(10) && again.is_acknowledged {
                    let first = again.text.split_inclusive('\n').next().unwrap_or_default().to_owned();
                    again.text += &first;
                }
                batches.push(again);
            } else {
                let new = self.write();
                self.sent.push(new.clone());
                batches.push(new);
            }
        }
        if self.dice.one_in(6) {
            self.disk.fail_after(self.dice.roll(50));
        }
        let core = self.core.as_mut().unwrap();
        let mut prepared = Vec::new();
        batches.retain(|sent| {
            let info = core.find(DECLARATIONS[sent.stream].0).unwrap();
            let bytes = Box::new(Cursor::new(sent.text.clone().into_bytes()));
            match core.prepare(&info, sent.id.as_str(), (Format::JsonLines, bytes)) {
                Ok(batch) => {
                    prepared.push((info, batch));
                    true
                }
                Err(refusal) => {
                    assert!(matches!(refusal, Refusal::Rows { .. }), "{refusal}");
                    false
                }
            }
        });
        let answers = core.accept(prepared);
        let mut is_broken = false;
        for (sent, answer) in batches.into_iter().zip(answers) {
            match answer {
                Ok(receipt) => self.took(sent, receipt.repeated),
                Err(Refusal::Differs(_) | Refusal::Rows { .. } | Refusal::ReadOnly(_) | Refusal::Halted(_)) => {}
                Err(refusal) => {
                    assert!(is_of_the_disk(&refusal.to_string()), "{refusal}");
                    self.unknown.push(sent);
                    is_broken = true;
                }
            }
        }
        if is_broken {
            self.crash();
            self.ask_again();
        }
    }

    fn took(&mut self, sent: Sent, repeated: bool) {
        let known = self.sent.iter_mut().find(|known| known.id == sent.id).unwrap();
        assert!(repeated || !known.is_acknowledged, "{} was acknowledged, and lost", sent.id);
        assert_eq!(known.text, sent.text, "other rows were accepted under the same id");
        if !repeated {
            self.accepted.entry(sent.stream).or_default().push(sent.text);
        } else if !known.is_acknowledged {
            // It was accepted when the disk failed: before everything since.
            let at = self.unknown.iter().position(|unknown| unknown.id == sent.id);
            assert!(at.is_some(), "nobody was notified that {} was accepted", sent.id);
            self.accepted.entry(sent.stream).or_default().push(sent.text);
        }
        self.sent.iter_mut().find(|known| known.id == sent.id).unwrap().is_acknowledged = true;
    }

    /// A client without an answer sends again at once, in the same order.
    fn ask_again(&mut self) {
        for sent in self.unknown.clone() {
            loop {
                self.start();
                let core = self.core.as_mut().unwrap();
                let info = core.find(DECLARATIONS[sent.stream].0).unwrap();
                let bytes = Box::new(Cursor::new(sent.text.clone().into_bytes()));
                let Ok(batch) = core.prepare(&info, sent.id.as_str(), (Format::JsonLines, bytes)) else { break };
                match core.accept(vec![(info, batch)]).pop().unwrap() {
                    Ok(receipt) => {
                        self.took(sent.clone(), receipt.repeated);
                        break;
                    }
                    Err(Refusal::Differs(_) | Refusal::Rows { .. } | Refusal::ReadOnly(_) | Refusal::Halted(_)) => {
                        break;
                    }
                    Err(refusal) => {
                        assert!(is_of_the_disk(&refusal.to_string()), "{refusal}");
                        self.crash();
                    }
                }
            }
        }
        self.unknown.clear();
    }

    /// Time passes, and due work is done.
    fn wait(&mut self, micros: i64) {
        self.start();
        let now = evertally_server::clock::Clock::now(&*self.clock).micros();
        self.clock.set(Instant::from_micros(now + micros));
        self.witness.is_away.store(self.dice.one_in(8), Ordering::Relaxed);
        if self.dice.one_in(6) {
            self.disk.fail_after(self.dice.roll(60));
        }
        let ticked = self.core.as_mut().unwrap().tick();
        if let Err(error) = ticked {
            assert!(is_of_the_disk(&error.to_string()), "{error}");
            self.crash();
            return;
        }
        self.look();
        if self.dice.one_in(12) {
            self.core.as_mut().unwrap().checkpoint_all();
        }
        if self.dice.one_in(8) {
            self.crash();
        }
    }

    /// All readers read the publications.
    fn look(&mut self) {
        let Some(core) = &self.core else { return };
        if core.find("sum").is_none() {
            return;
        }
        self.shown.lock().unwrap().clear();
        for (which, (name, _)) in DECLARATIONS.iter().enumerate() {
            let info = core.find(name).unwrap();
            let mut rows: BTreeMap<u64, Vec<String>> = BTreeMap::new();
            let query = RowsQuery::new(1..=u64::MAX);
            let read = core.rows(&info, &query, &mut |publication, row| {
                rows.entry(publication).or_default().push(format!("{row:?}"));
                Ok(())
            });
            if read.is_err() {
                return; // the disk has failed
            }
            for (publication, rows) in rows {
                let end = info.stream.rows().end_of(publication).micros();
                let now = evertally_server::clock::Clock::now(&*self.clock).micros();
                assert!(end + 65_000_000 <= now, "{name} {publication} was shown before its moment");
                let before = self.seen.entry((which, publication)).or_insert_with(|| rows.clone());
                assert_eq!(*before, rows, "{name} {publication} was published twice with different rows");
            }
        }
    }

    fn play(&mut self) {
        self.open_streams();
        for _ in 0..25 {
            match self.dice.roll(3) {
                0 => {
                    let micros = self.dice.roll(40) as i64 * 60_000_000;
                    self.wait(micros);
                }
                _ => self.send(),
            }
        }
        for _ in 0..20 {
            self.wait(HOUR);
        }
        self.witness.is_away.store(false, Ordering::Relaxed);
        while self.core.as_mut().is_none_or(|core| core.tick().is_err()) {
            self.crash();
            self.start();
        }
        self.look();
        for (which, (name, _)) in DECLARATIONS.iter().enumerate() {
            let info = self.core.as_ref().unwrap().find(name).unwrap();
            let problems = self.core.as_ref().unwrap().problems();
            assert_eq!(info.progress().state, StreamState::Ended, "{name}, {:?}: {problems:?}", info.progress());
            let found: BTreeMap<u64, Vec<String>> = self
                .seen
                .iter()
                .filter(|((of, _), _)| *of == which)
                .map(|((_, publication), rows)| (*publication, rows.clone()))
                .collect();
            let accepted = self.accepted.get(&which).map(Vec::as_slice).unwrap_or_default();
            assert_eq!(found, expected(which, accepted), "{name}");
        }
    }
}

/// The releases of one run over the accepted events.
fn expected(which: usize, accepted: &[String]) -> BTreeMap<u64, Vec<String>> {
    let mut settings = Declaration::from_json(&declaration(which)).unwrap().resolve().unwrap();
    settings.sort_buffer = SortLimit::All;
    let (stream, groups) = evertally_ledger::planner::plan(settings, &mut |_| ()).unwrap();
    let (ledger, key) = (Ledger::in_memory(&key()), key());
    let mut session = Session::new_sums(stream.clone(), groups, &key, &ledger).unwrap();
    let mut text = accepted.concat();
    if WITH_IDS.contains(&which) {
        let mut ids = BTreeSet::new();
        text = text.split_inclusive('\n').filter(|row| ids.insert(*row)).collect();
    }
    let (options, running) = (ReadOptions::default(), AtomicBool::new(false));
    let mut rows: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    let mut due = |session: &mut Session<RunningSums>| -> Result<(), PipelineError> {
        while let Some(mut step) = session.next_step()? {
            let publication = stream.rows_through(step.step());
            step.for_each_row(|_, row| {
                rows.entry(publication).or_default().push(format!("{row:?}"));
                Ok::<(), PipelineError>(())
            })?;
        }
        Ok(())
    };
    if !text.is_empty() {
        let bytes = Box::new(Cursor::new(text.into_bytes()));
        let events =
            Events::from_reader("accepted", bytes, Format::JsonLines, &stream.columns, &options, &running).unwrap();
        events.feed(&mut session, &mut due).unwrap();
    }
    session.close_through(stream.last_step).unwrap();
    due(&mut session).unwrap();
    rows
}

/// Whether an error is exactly that of a failing disk.
fn is_of_the_disk(error: &str) -> bool {
    error.contains("disk has failed") || error.contains("Previous I/O error")
}

fn number(name: &str, unless: u64) -> u64 {
    std::env::var(name).map_or(unless, |text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

/// Plays every schedule, on two threads.
fn play_all(play: impl Fn(u64) + Sync) {
    let first = number("EVERTALLY_FIRST_SCHEDULE", 1);
    let next = AtomicU64::new(first);
    let end = first + number("EVERTALLY_SCHEDULES", 100);
    let work = || {
        for seed in std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed)).take_while(|seed| *seed < end) {
            let played = catch_unwind(AssertUnwindSafe(|| play(seed)));
            if let Err(panic) = played {
                eprintln!("schedule {seed}: run it alone with EVERTALLY_FIRST_SCHEDULE={seed} EVERTALLY_SCHEDULES=1");
                resume_unwind(panic);
            }
        }
    };
    std::thread::scope(|threads| {
        threads.spawn(work);
        work();
    });
}

#[test]
fn whatever_happens_the_release_is_that_of_one_run() {
    play_all(|seed| History::new(seed).play());
}

/// The crate of the service can only package files in its folder.
#[test]
fn the_demo_replays_the_flights_of_the_examples() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let [demo, example] =
        ["crates/server/demo", "examples"].map(|folder| root.join(folder).join("flights-2013.parquet"));
    assert!(std::fs::read(demo).unwrap() == std::fs::read(example).unwrap(), "copy examples/flights-2013.parquet");
}
