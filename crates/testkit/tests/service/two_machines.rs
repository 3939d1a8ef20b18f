//! Two or three machines under fire: they crash, also in the middle of a write, lose the way to the witness or to the
//! standby folder, or several believe to be the primary; their clocks differ; writes to the witness arrive late, twice,
//! or between a read and a write of another machine, or their answers are lost; a follower takes over at any moment,
//! whether the primary is gone or not. Whatever happens, no publication is shown with two values, on whichever machine,
//! and the releases are those of one run over the batches that the last primary has accepted.

use super::*;
use evertally_server::standby::{
    Applied, ClaimOutcome, Replica, Shipper, Target, WholeChain, claim, end_chain, last_whole, put_whole,
};
use evertally_server::store::{Journal, Recorder};
use std::time::Duration;

#[path = "two_machines/shared.rs"]
mod shared;
#[path = "two_machines/shipping.rs"]
mod shipping;

use shared::{SharedFolder, SharedWitness, Way};

/// The streams: groups with persons, one sum with views, publications of two steps.
const STREAMS: [usize; 3] = [0, 1, 4];

/// Small enough that commits happen while the whole database is copied.
const PIECE_BYTES: usize = 200_000;

fn away() -> PipelineError {
    failure("away")
}

/// A copy, and the position that is remembered after a crash: maybe earlier than the last applied segment.
struct Copy {
    disk: TornDisk,
    replica: Replica<TornDisk>,
    remembered: Applied,
}

/// The copies that a machine keeps while the other one is the primary.
struct Following {
    copies: Vec<Copy>,
    claim: Option<String>,
    followed: String,
    /// Whether everything was applied after a claim: from then on the copy has its own changes.
    is_complete: bool,
}

/// A running service that ships.
struct Running {
    core: Core,
    shipper: Shipper,
}

enum Role {
    Primary { disk: TornDisk, running: Option<Box<Running>> },
    Follower(Following),
}

struct Machine {
    role: Role,
    witness: SharedWitness,
    folder: SharedFolder,
    /// Its name at the witness while it is the primary.
    name: String,
    clock: Arc<ManualClock>,
    /// By how much its clock differs, in microseconds.
    skew: i64,
}

struct World {
    dice: Dice,
    /// The time, in microseconds.
    now: i64,
    /// The latest time that a clock has shown.
    latest: i64,
    machines: Vec<Machine>,
    /// Whether publications wait for shipping.
    holds: bool,
    names: u64,
    /// The batches that the primary named by the witness has accepted, in their order.
    accepted: BTreeMap<usize, Vec<Sent>>,
    /// Batches that another machine has acknowledged, with its name at that time.
    others: Vec<(String, Sent)>,
    /// A machine that has taken over, and the name of the one before: clients have not repeated their batches yet.
    unrepeated: Option<(usize, String)>,
    seen: BTreeMap<(usize, u64), Vec<String>>,
    sent: u64,
    takeovers: u64,
    recoveries: u64,
    lost: u64,
    /// The machine whose disk is about to fail, in the middle of a write.
    is_failing: Option<usize>,
}

fn following(followed: &str) -> Role {
    Role::Follower(Following { copies: Vec::new(), claim: None, followed: followed.to_owned(), is_complete: false })
}

impl World {
    fn new(seed: u64) -> Self {
        let (witness, folder) = (SharedWitness::default(), SharedFolder::default());
        let machine = |role| Machine {
            role,
            witness: SharedWitness { way: Arc::default(), ..witness.clone() },
            folder: SharedFolder { way: Arc::default(), ..folder.clone() },
            name: String::new(),
            clock: Arc::new(ManualClock::at(Instant::from_micros(START))),
            skew: 0,
        };
        let primary = machine(Role::Primary { disk: TornDisk::default(), running: None });
        let mut machines = vec![primary, machine(following(""))];
        let mut dice = Dice(seed);
        if dice.one_in(3) && number("EVERTALLY_MACHINES", 3) > 2 {
            machines.push(machine(following("")));
        }
        Self {
            holds: dice.one_in(2),
            dice,
            now: START,
            latest: START,
            machines,
            names: 0,
            accepted: BTreeMap::new(),
            others: Vec::new(),
            unrepeated: None,
            seen: BTreeMap::new(),
            sent: 0,
            takeovers: 0,
            recoveries: 0,
            lost: 0,
            is_failing: None,
        }
    }

    fn named(&self) -> String {
        let shared = self.machines[0].witness.shared.lock().unwrap();
        shared.record.as_ref().map(|record| record.primary.clone()).unwrap_or_default()
    }

    /// The machine that the witness names, if it runs as the primary.
    fn head(&self) -> Option<usize> {
        let named = self.named();
        self.all()
            .find(|at| self.machines[*at].name == named && matches!(self.machines[*at].role, Role::Primary { .. }))
    }

    fn all(&self) -> std::ops::Range<usize> {
        0..self.machines.len()
    }

    /// Any machine.
    fn any(&mut self) -> usize {
        self.dice.roll(self.machines.len() as u64) as usize
    }

    /// The clock of a machine is corrected, if it is slow: otherwise it takes batches for those of the future that
    /// another machine has accepted.
    fn correct(&mut self, at: usize) {
        let now = |machine: &Machine| evertally_server::clock::Clock::now(&*machine.clock).micros();
        self.latest = self.machines.iter().map(now).fold(self.latest, i64::max);
        self.machines[at].clock.set(Instant::from_micros(self.latest));
    }

    /// Time passes.
    fn pass(&mut self, micros: i64) {
        self.now += micros;
        for machine in &self.machines {
            machine.clock.set(Instant::from_micros(self.now + machine.skew));
        }
    }

    /// Starts a primary that is down; one that was replaced becomes a follower.
    fn start(&mut self, at: usize) {
        let holds = self.holds;
        let machine = &mut self.machines[at];
        let clock = Arc::clone(&machine.clock);
        let Role::Primary { disk, running } = &mut machine.role else { return };
        if running.is_some() {
            return;
        }
        let journal = Arc::new(Journal::new(4 << 20));
        let recorder = Recorder::new(Arc::new(disk.clone()), Arc::clone(&journal));
        let limit = if holds { Duration::MAX } else { Duration::ZERO };
        let store = match Store::on(recorder.clone()).and_then(|store| Ok((store.identity()?, store))) {
            Ok((folder_id, store)) => (folder_id, store.holding(&journal, limit)),
            Err(error) if is_of_the_disk(&error.to_string()) => return self.crash(at),
            Err(error) => panic!("{error}"),
        };
        let (folder_id, store) = store;
        let setting = Setting {
            store,
            key: key(),
            clock: clock as _,
            witness: Some(Box::new(machine.witness.clone())),
            sources: BTreeMap::new(),
            ahead: HOUR,
            decoding: Arc::default(),
            catch_up: 0,
            retention: evertally_server::config::RetentionConfig::default(),
        };
        match Core::open(setting, Arc::new(|_| ())) {
            Ok(core) => {
                let shipper = Shipper::new(&recorder, &journal, Box::new(machine.folder.clone()), &folder_id, None)
                    .with_piece_bytes(PIECE_BYTES)
                    .with_primary(&machine.name);
                *running = Some(Box::new(Running { core, shipper }));
            }
            Err(error) if error.to_string().contains("another machine has taken over") => {
                let named = self.named();
                self.machines[at].role = following(&named);
            }
            Err(error) if is_of_the_disk(&error.to_string()) => self.crash(at),
            Err(error) => assert_eq!(error.to_string(), "away"),
        }
    }

    /// A machine loses its power. Its clock may be wrong when it is back.
    fn crash(&mut self, at: usize) {
        self.correct(at); // remembers the time that it has shown
        let skew = if self.dice.one_in(3) { self.dice.roll(9) as i64 - 4 } else { 0 };
        self.machines[at].skew = skew * HOUR / 3;
        self.machines[at].clock = Arc::new(ManualClock::at(Instant::from_micros(self.now + skew * HOUR / 3)));
        let mut dice = Dice(self.dice.roll(u64::MAX));
        let keeps = self.dice.roll(4);
        match &mut self.machines[at].role {
            Role::Primary { disk, running } => {
                *running = None;
                disk.restart(|| dice.roll(3) < keeps);
            }
            Role::Follower(own) => {
                for copy in &mut own.copies {
                    copy.disk.restart(|| dice.roll(3) < keeps);
                    copy.replica = Replica::new(copy.disk.clone(), copy.remembered.clone());
                }
            }
        }
    }

    fn open_streams(&mut self) {
        self.start(0);
        let Role::Primary { running: Some(running), .. } = &mut self.machines[0].role else { panic!("it runs") };
        for which in STREAMS {
            let closing = ClosedBy::Schedule { grace: 60_000_000, delay: 5_000_000 };
            let declaration = declaration(which);
            let opening = Opening { declaration, public: true, source: None, closing, id: None };
            running.core.open_stream(Core::plan(opening).unwrap()).unwrap();
        }
    }

    fn write(&mut self) -> Sent {
        let stream = STREAMS[self.dice.roll(STREAMS.len() as u64) as usize];
        let now = (self.now - START) / HOUR;
        let mut text = String::new();
        for row in 0..1 + self.dice.roll(3) {
            // No two rows are equal: `expected` would take them for one.
            let id = 3 * self.sent + row;
            let step = (now + self.dice.roll(3) as i64 - 1).clamp(0, STEPS as i64 - 1);
            let (minute, group) = (self.dice.roll(60), ["a", "b"][self.dice.roll(2) as usize]);
            let (person, value) = (self.dice.roll(4), self.dice.roll(11) as i64 - 5);
            text += &format!(
                "{{\"time\":\"2026-01-01T{step:02}:{minute:02}:00Z\",\"group\":\"{group}\",\"person\":\"p{person}\",\
                 \"value\":{value},\"id\":{id}}}\n"
            );
        }
        self.sent += 1;
        Sent { stream, id: format!("b{}", self.sent), text, is_acknowledged: false }
    }

    /// Sends a batch to a machine: whether it knew it already, or `None` if it was not accepted.
    fn post(&mut self, at: usize, sent: &Sent) -> Option<bool> {
        let Role::Primary { running: Some(running), .. } = &mut self.machines[at].role else { return None };
        let info = running.core.find(DECLARATIONS[sent.stream].0)?;
        let bytes = Box::new(Cursor::new(sent.text.clone().into_bytes()));
        let batch = running.core.prepare(&info, sent.id.as_str(), (Format::JsonLines, bytes)).ok()?;
        match running.core.accept(vec![(info, batch)]).pop().unwrap() {
            Ok(receipt) => Some(receipt.repeated),
            Err(Refusal::Rows { .. } | Refusal::ReadOnly(_) | Refusal::Halted(_)) => None,
            Err(refusal) => panic!("{refusal}"),
        }
    }

    fn send(&mut self) {
        // Some clients have not noticed that another machine is the primary.
        let at = self.any();
        self.repeat(at);
        let sent = self.write();
        let Some(repeated) = self.post(at, &sent) else { return };
        assert!(!repeated);
        if self.head() == Some(at) {
            self.accepted.entry(sent.stream).or_default().push(sent);
        } else {
            self.others.push((self.machines[at].name.clone(), sent));
        }
    }

    fn tick(&mut self, at: usize) {
        if let Role::Primary { running: Some(running), .. } = &mut self.machines[at].role {
            if let Err(error) = running.core.tick() {
                assert!(is_of_the_disk(&error.to_string()), "{error}");
            }
            if self.dice.one_in(10) {
                running.core.checkpoint_all();
            }
        }
        if self.is_failing != Some(at) {
            self.look(at);
        }
    }

    /// Readers read what a machine shows.
    fn look(&mut self, at: usize) {
        let Role::Primary { running: Some(running), .. } = &self.machines[at].role else { return };
        for which in STREAMS {
            let name = DECLARATIONS[which].0;
            let info = running.core.find(name).unwrap();
            let mut rows: BTreeMap<u64, Vec<String>> = BTreeMap::new();
            let query = RowsQuery::new(1..=u64::MAX);
            let mut visit = |publication, row: &evertally_publish::rows::ReleaseRow<'_>| {
                rows.entry(publication).or_default().push(format!("{row:?}"));
                Ok(())
            };
            running.core.rows(&info, &query, &mut visit).unwrap();
            for (publication, rows) in rows {
                let before = self.seen.entry((which, publication)).or_insert_with(|| rows.clone());
                assert_eq!(*before, rows, "{name} {publication} was published twice with different rows");
            }
        }
    }

    /// The disks of a machine stop to work after some operations: it loses its power in the middle of a write.
    fn fail_soon(&mut self, at: usize) {
        let good = self.dice.roll(80);
        match &self.machines[at].role {
            Role::Primary { disk, .. } => disk.fail_after(good),
            Role::Follower(own) => own.copies.iter().for_each(|copy| copy.disk.fail_after(good)),
        }
        self.is_failing = Some(at);
    }

    /// One thing happens.
    fn turn(&mut self) {
        let at = self.any();
        match self.dice.roll(16) {
            0..=4 => self.send(),
            5 | 6 => {
                let micros = self.dice.roll(40) as i64 * 60_000_000;
                self.pass(micros);
                self.tick(at);
            }
            7 => {
                if self.dice.one_in(2) {
                    self.fail_soon(at);
                }
                match self.dice.roll(4) {
                    0 => self.ship(at, 5),
                    1 => drop(self.apply(at, 5)),
                    2 => self.take_over(at),
                    _ => self.tick(at),
                }
            }
            8..=10 => {
                let most = self.dice.roll(20);
                self.ship(at, most);
            }
            11 => {
                let most = self.dice.roll(20);
                drop(self.apply(at, most));
            }
            12 if self.dice.one_in(2) => self.take_over(at),
            13 if self.dice.one_in(2) => self.crash(at),
            14 => {
                let (ways, dice) = ([&self.machines[at].witness.way, &self.machines[at].folder.way], &mut self.dice);
                for way in ways {
                    let mut way = way.lock().unwrap();
                    way.is_away = dice.one_in(4);
                    way.loses_answer = dice.one_in(5);
                    way.is_late = dice.one_in(5);
                    way.is_repeated = dice.one_in(5);
                    way.is_overtaken = dice.one_in(5);
                }
            }
            15 => {
                let mut shared = self.machines[at].witness.shared.lock().unwrap();
                if !shared.late.is_empty() {
                    let which = self.dice.roll(shared.late.len() as u64) as usize;
                    let late = shared.late.swap_remove(which);
                    shared.write(late.version, late.record);
                }
            }
            _ => {}
        }
        if let Some(at) = self.is_failing.take() {
            self.crash(at);
        }
        self.all().for_each(|at| self.start(at));
    }

    /// Everything works again: the machine that the witness names continues, or its claimant becomes the primary.
    fn mend(&mut self) {
        for machine in &self.machines {
            machine.witness.shared.lock().unwrap().late.clear();
            for way in [&machine.witness.way, &machine.folder.way] {
                *way.lock().unwrap() = Way::default();
            }
        }
        // Operators restart a service that has halted because a write of its previous start arrived late.
        for at in self.all() {
            self.crash(at);
            self.start(at);
        }
    }

    fn play(&mut self) -> [u64; 3] {
        self.open_streams();
        for _ in 0..120 {
            self.turn();
        }
        self.mend();
        for _ in 0..4 {
            for at in self.all() {
                self.ship(at, u64::MAX);
            }
            let named = self.named();
            let claimant = self.all().find(|at| match &self.machines[*at].role {
                Role::Follower(own) => own.claim.as_ref() == Some(&named),
                Role::Primary { .. } => false,
            });
            if let Some(at) = claimant {
                self.take_over(at);
            }
        }
        let head = self.head().expect("somebody is the primary");
        self.unrepeated = Some((head, self.unrepeated.take().map(|(_, name)| name).unwrap_or_default()));
        self.repeat(head);
        for _ in 0..20 {
            self.pass(HOUR);
            for at in self.all() {
                self.tick(at);
                self.ship(at, u64::MAX);
                self.tick(at);
            }
        }
        for which in STREAMS {
            let name = DECLARATIONS[which].0;
            let Role::Primary { running: Some(running), .. } = &self.machines[head].role else { panic!("it runs") };
            let (info, problems) = (running.core.find(name).unwrap(), running.core.problems());
            assert_eq!(info.progress().state, StreamState::Ended, "{name}, {:?}: {problems:?}", info.progress());
            let own = self.seen.iter().filter(|((of, _), _)| *of == which);
            let found: BTreeMap<u64, Vec<String>> =
                own.map(|((_, publication), rows)| (*publication, rows.clone())).collect();
            let accepted: Vec<String> =
                self.accepted.get(&which).into_iter().flatten().map(|sent| sent.text.clone()).collect();
            assert_eq!(found, expected(which, &accepted), "{name}");
        }
        [self.takeovers, self.recoveries, self.lost]
    }
}

#[test]
fn two_machines_never_publish_a_step_twice() {
    let sums = Mutex::new([0; 3]);
    play_all(|seed| {
        let counts = World::new(seed).play();
        let mut sums = sums.lock().unwrap();
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    });
    let [takeovers, recoveries, lost] = *sums.lock().unwrap();
    eprintln!("{takeovers} takeovers, {recoveries} streams recovered, {lost} batches refused after a takeover");
    assert!(takeovers > 0);
}
