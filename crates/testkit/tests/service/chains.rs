//! Chains of segments that a machine ends when it takes over.

use super::*;
use evertally_server::standby::{Applied, FolderTarget, Replica, Shipper, Target, end_chain, restore};
use evertally_server::store::{Journal, Recorder};
use redb::backends::InMemoryBackend;
use std::path::Path;

const SECOND: i64 = 1_000_000;

/// A database that ships to a folder.
struct Machine {
    store: Store,
    journal: Arc<Journal>,
    recorder: Recorder,
    name: &'static str,
}

impl Machine {
    fn new(name: &'static str) -> Self {
        let journal = Arc::new(Journal::new(4 << 20));
        let recorder = Recorder::new(Arc::new(TornDisk::default()), Arc::clone(&journal));
        let store = Store::on(recorder.clone()).unwrap();
        Self { store, journal, recorder, name }
    }

    fn shipper(&self, folder: &Path) -> Shipper {
        let target = Box::new(FolderTarget::new(folder));
        Shipper::new(&self.recorder, &self.journal, target, "statistics", None).with_primary(self.name)
    }
}

fn ship_all(shipper: &mut Shipper, now: i64) -> String {
    while shipper.ship(now).unwrap() {}
    shipper.position().unwrap().0.to_owned()
}

#[test]
fn a_machine_that_was_replaced_adds_nothing_to_its_chain_and_nothing_is_restored_from_its_later_ones() {
    let folder = tempfile::tempdir().unwrap();
    let target = FolderTarget::new(folder.path());
    let old = Machine::new("old");
    let mut shipper = old.shipper(folder.path());
    let chain = ship_all(&mut shipper, START);
    let mut replica = Replica::new(InMemoryBackend::new(), Applied::new(&chain));
    while replica.apply_next(&target, i64::MAX).unwrap().is_some() {}
    old.store.set_primary("old").unwrap();
    ship_all(&mut shipper, START + SECOND);
    assert!(!end_chain(&target, &replica.applied, "new").unwrap(), "a segment is not applied yet");
    assert!(replica.apply_next(&target, i64::MAX).unwrap().is_some());
    assert!(end_chain(&target, &replica.applied, "new").unwrap());
    assert!(end_chain(&target, &replica.applied, "new").unwrap(), "another attempt");
    assert!(end_chain(&target, &replica.applied, "third").unwrap(), "it has ended already");
    let applied = replica.applied.clone();

    // The old primary has not noticed.
    old.store.set_primary("old").unwrap();
    for _ in 0..2 {
        let refused = shipper.ship(START + 2 * SECOND).unwrap_err().to_string();
        assert_eq!(refused, "another machine has taken over, and continues the chain of segments");
        shipper.restart();
    }
    assert!(replica.apply_next(&target, i64::MAX).unwrap().is_none());
    assert_eq!(replica.applied, applied);
    // It restarts, and begins a chain that nobody follows.
    ship_all(&mut old.shipper(folder.path()), START + 3 * SECOND);
    let at = |at: Option<i64>| {
        let to = folder.path().join("restored.redb");
        let at = at.map(|at| jiff::Timestamp::from_microsecond(at).unwrap());
        let restored = restore(&target, at, &to).unwrap().as_microsecond();
        let primary = Store::open(&to).unwrap().primary().unwrap();
        std::fs::remove_file(to).unwrap();
        (restored, primary)
    };
    assert_eq!(at(None), (applied.at, "old".into()));
    assert_eq!(at(Some(START)), (START, "old".into()));
    let new = Machine::new("new");
    ship_all(&mut new.shipper(folder.path()), START + 4 * SECOND);
    assert_eq!(at(None), (START + 4 * SECOND, "new".into()));
    assert_eq!(at(Some(START + 3 * SECOND)), (applied.at, "new".into()));
}

#[test]
fn of_two_machines_that_write_the_same_file_one_does() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..50 {
        let name = format!("chain/{number}");
        let wrote: Vec<bool> = std::thread::scope(|scope| {
            let write = |of: u8| FolderTarget::new(folder.path()).create(&name, &[of; 5000]).unwrap();
            let threads: Vec<_> = (0..2).map(|of| scope.spawn(move || write(of))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(wrote[0] != wrote[1], "{wrote:?}");
        let target = FolderTarget::new(folder.path());
        let written = target.get(&name).unwrap().unwrap();
        assert_eq!(written, [u8::from(wrote[1]); 5000]);
        assert!(target.create(&name, &written).unwrap(), "another attempt");
    }
    let files = std::fs::read_dir(folder.path().join("chain")).unwrap().count();
    assert_eq!(files, 50, "no temporary file stays");
}

/// As after a crash of the machine that holds the target: a file at the end of the chain has only a part of its bytes.
#[test]
fn a_damaged_segment_in_the_way_is_shipped_around() {
    let folder = tempfile::tempdir().unwrap();
    let target = FolderTarget::new(folder.path());
    let machine = Machine::new("one");
    let mut shipper = machine.shipper(folder.path());
    let chain = ship_all(&mut shipper, START);
    let last = shipper.position().unwrap().1;
    let file = |number: u64| format!("{chain}/{number:012}.segment");
    let whole = target.get(&file(last)).unwrap().unwrap();
    assert!(target.create(&file(last + 1), &whole[..whole.len() - 1]).unwrap());
    machine.store.set_primary("two").unwrap();
    let refused = shipper.ship(START + SECOND).unwrap_err().to_string();
    assert!(refused.contains("the whole database is shipped again"), "{refused}");
    let around = ship_all(&mut shipper, START + 2 * SECOND);
    assert!(around > chain, "{around} does not begin a chain after {chain}");
    let to = folder.path().join("restored.redb");
    let restored = restore(&target, None, &to).unwrap().as_microsecond();
    // A restored folder has the name of the machine that shipped it.
    assert_eq!((restored, Store::open(&to).unwrap().primary().unwrap()), (START + 2 * SECOND, "one".into()));
}
