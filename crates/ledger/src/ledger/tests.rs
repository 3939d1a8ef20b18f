//! The cases that a ledger accepts and refuses.

use super::*;
use crate::disk::RealDisk;
use crate::keyfile;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The ledger next to a key file.
fn open(path: &Path, key: &SecretKey) -> Result<Ledger> {
    let waiting = &mut |_: &Path| ();
    let open = OpenKey::from_file(Arc::new(RealDisk), path, Absent::Refuse, &AtomicBool::new(false), waiting)?;
    assert_eq!(open.key, *key);
    Ok(open.ledger)
}

/// A release of daily sums under one of several plans.
fn run(key_path: &Path, name: &str, plan: u64, steps: &[i64]) -> Result<()> {
    let budget = evertally::privacy::Budget::Pure(evertally::privacy::Epsilon::new(1.0)?);
    let plan = evertally::plan::PlanRequest::count(100 + plan, budget).plan()?;
    let key = keyfile::read(key_path)?;
    let mut ledger = open(key_path, &key)?;
    let mut stream = ledger.stream(&key, &name.parse()?, &plan, steps.len() as u64)?;
    steps.iter().try_for_each(|sum| stream.close_step(&[*sum]))?;
    ledger.record(&mut stream)
}

#[test]
fn the_same_data_may_be_repeated_and_extended_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("k.key");
    new_key(&key).unwrap();
    let refused = |name, plan, steps: &[i64]| run(&key, name, plan, steps).unwrap_err().to_string();
    run(&key, "s", 1, &[1, 2, 3]).unwrap();
    run(&key, "s", 1, &[1, 2, 3]).unwrap();
    run(&key, "s", 1, &[1, 2, 3, 4, 5]).unwrap();
    run(&key, "s", 1, &[1, 2, 3]).unwrap();
    assert!(refused("s", 1, &[1, 2, 4]).contains("different data"));
    assert!(refused("s", 1, &[1, 2, 3, 4, 6]).contains("up to step 5 from different data"));
    assert!(refused("s", 1, &[0, 2, 3, 4, 5, 6]).contains("step 3"));
    assert!(refused("s", 1, &[1, 2, 3, 4]).contains("nothing can be compared"));
    let message = refused("s", 2, &[1, 2, 3]);
    assert!(message.contains("another plan (it had horizon = 101"), "{message}");
    assert!(message.contains("this run has horizon = 102"), "{message}");
    run(&key, "t", 2, &[7]).unwrap();
    // The refused runs have changed nothing.
    run(&key, "s", 1, &[1, 2, 3, 4, 5, 6]).unwrap();
}

#[test]
fn an_entry_that_only_one_plan_has_is_named() {
    let (with, without) = ("steps = 3\n[meaning]\nasserted-by = \"me\"\n", "steps = 3\n[meaning]\n");
    assert_eq!(differences(with, without), "it had asserted-by = \"me\"; this run has none");
    assert_eq!(differences(without, with), "it had none; this run has asserted-by = \"me\"");
}

/// Steps without items leave no trace, whatever call closes them; everything else does.
#[test]
fn items_are_told_apart_by_step_name_and_sum() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("k.key");
    new_key(&key).unwrap();
    type Steps<'a> = &'a [(&'a [(&'a str, i64)], u64)];
    let close = |steps: Steps<'_>| {
        let budget = evertally::privacy::Budget::Pure(evertally::privacy::Epsilon::new(1.0)?);
        let plan = evertally::plan::PlanRequest::count(100, budget).plan()?;
        let secret = keyfile::read(&key)?;
        let mut ledger = open(&key, &secret)?;
        let last = steps.last().unwrap().1;
        let mut stream = ledger.stream(&secret, &"s".parse()?, &plan, last)?;
        for (items, through) in steps {
            let items: Vec<_> = items.iter().map(|(name, sum)| (name.as_bytes().into(), *sum)).collect();
            stream.close_items(&items, *through)?;
        }
        ledger.record(&mut stream)
    };
    let ab: &[(&str, i64)] = &[("a", 1), ("b", 2)];
    close(&[(ab, 5), (&[], 6)]).unwrap();
    close(&[(ab, 1), (&[], 6)]).unwrap();
    close(&[(ab, 2), (&[], 4), (&[], 6), (&[("c", 1)], 9)]).unwrap();
    close(&[(ab, 6), (&[("c", 1)], 7), (&[], 9)]).unwrap();
    for wrong in [&[("a", 1), ("b", 3)][..], &[("a", 1)], &[("ab", 2)], &[("a", 1), ("c", 2)], &[]] {
        assert!(close(&[(wrong, 9)]).unwrap_err().to_string().contains("step 6 from different data"));
    }
    assert!(close(&[(&[], 1), (ab, 9)]).unwrap_err().to_string().contains("different data"));
    assert!(close(&[(ab, 7), (&[("c", 1)], 9)]).unwrap_err().to_string().contains("step 9"));
    let secret = keyfile::read(&key).unwrap();
    let ledger = open(&key, &secret).unwrap();
    assert_eq!((ledger.last_published(&"s".parse().unwrap()), ledger.last_published(&"t".parse().unwrap())), (9, 0));
}

/// A symbolic link to the key leads to the same ledger; a second name of the same file is refused.
#[cfg(unix)]
#[test]
fn links_to_a_key_do_not_get_around_its_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    new_key(&path("k.key")).unwrap();
    run(&path("k.key"), "s", 1, &[1, 2]).unwrap();
    std::os::unix::fs::symlink(path("k.key"), path("link.key")).unwrap();
    assert!(run(&path("link.key"), "s", 1, &[1, 3]).unwrap_err().to_string().contains("different data"));
    std::fs::hard_link(path("k.key"), path("hard.key")).unwrap();
    assert!(run(&path("hard.key"), "s", 1, &[1, 3]).unwrap_err().to_string().contains("several names"));
}

#[test]
fn damaged_and_foreign_ledgers_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a.key"), folder.path().join("b.key"));
    new_key(&a).unwrap();
    new_key(&b).unwrap();
    run(&a, "s", 1, &[1]).unwrap();
    std::fs::copy(folder.path().join("a.key.ledger"), folder.path().join("b.key.ledger")).unwrap();
    assert!(run(&b, "s", 1, &[1]).unwrap_err().to_string().contains("another key"));
    std::fs::write(folder.path().join("a.key.ledger"), "{").unwrap();
    assert!(run(&a, "s", 1, &[1]).unwrap_err().to_string().contains("damaged"));
    // A key that lost its ledger could repeat its noise, and a ledger that lost its key is not reused.
    std::fs::remove_file(folder.path().join("a.key.ledger")).unwrap();
    assert!(run(&a, "s", 1, &[1]).unwrap_err().to_string().contains("no ledger"));
    std::fs::remove_file(&b).unwrap();
    assert!(new_key(&b).unwrap_err().to_string().contains("a key that was here"));
}

/// A key without a file remembers what it has published, and saves that record together with the key.
#[test]
fn a_ledger_in_memory_is_the_same_and_goes_to_the_file() {
    let key = SecretKey::generate().unwrap();
    let mut ledger = Ledger::in_memory(&key);
    let budget = evertally::privacy::Budget::Pure(evertally::privacy::Epsilon::new(1.0).unwrap());
    let plan = evertally::plan::PlanRequest::count(101, budget).plan().unwrap();
    let publish = |ledger: &mut Ledger, steps: &[i64]| {
        let mut stream = ledger.stream(&key, &"s".parse()?, &plan, steps.len() as u64)?;
        steps.iter().try_for_each(|sum| stream.close_step(&[*sum]))?;
        ledger.record(&mut stream)
    };
    publish(&mut ledger, &[1, 2, 3]).unwrap();
    assert!(publish(&mut ledger, &[1, 2, 4]).unwrap_err().to_string().contains("different data"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("k.key");
    ledger.save(&path, &key).unwrap();
    assert!(ledger.save(&path, &key).is_err());
    run(&path, "s", 1, &[1, 2, 3]).unwrap();
    assert!(run(&path, "s", 1, &[2, 2, 3]).unwrap_err().to_string().contains("different data"));
}

/// A store that fails sometimes.
#[derive(Clone, Default)]
struct Fragile {
    inner: MemoryStore,
    broken: std::sync::Arc<AtomicBool>,
}

impl LedgerStore for Fragile {
    fn load(&mut self) -> Result<Option<Vec<u8>>> {
        self.inner.load()
    }

    fn commit(&mut self, contents: &[u8]) -> Result<()> {
        if self.broken.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(evertally_declare::error::failure("the disk is full"));
        }
        self.inner.commit(contents)
    }

    fn name(&self) -> String {
        "on a bad disk".to_owned()
    }

    fn part(&mut self, name: &str) -> Result<Option<Vec<u8>>> {
        self.inner.part(name)
    }

    fn put_part(&mut self, name: &str, contents: &mut dyn Read) -> Result<()> {
        self.inner.put_part(name, contents)
    }

    fn keep_parts(&mut self, names: &[String]) {
        self.inner.keep_parts(names);
    }
}

/// A failed commit is recorded nowhere: not in the store, and not in the ledger that tried it.
#[test]
fn a_failed_commit_records_nothing() {
    let key = SecretKey::generate().unwrap();
    let store = Fragile::default();
    let ledger = Ledger::create(store.clone(), &key).unwrap();
    let twice = Ledger::open(store.clone(), &key).err().unwrap().to_string();
    assert!(twice.contains("already open"), "{twice}");
    drop(ledger);
    assert!(Ledger::create(store.clone(), &key).is_err(), "one key, one ledger");
    let mut ledger = Ledger::open(store.clone(), &key).unwrap();
    let budget = evertally::privacy::Budget::Pure(evertally::privacy::Epsilon::new(1.0).unwrap());
    let plan = evertally::plan::PlanRequest::count(101, budget).plan().unwrap();
    let name: StreamName = "s".parse().unwrap();
    let closed = |ledger: &Ledger, steps: &[i64]| {
        let mut stream = ledger.stream(&key, &name, &plan, steps.len() as u64).unwrap();
        steps.iter().try_for_each(|sum| stream.close_step(&[*sum])).unwrap();
        stream
    };
    let (mut first, mut other) = (closed(&ledger, &[1, 2]), closed(&ledger, &[1, 3]));
    let mut longer = closed(&ledger, &[1, 3, 4]);
    store.broken.store(true, std::sync::atomic::Ordering::Relaxed);
    let error = format!("{:#}", ledger.record(&mut first).unwrap_err());
    assert!(error.contains("on a bad disk; nothing was published: the disk is full"), "{error}");
    assert_eq!(ledger.last_published(&name), 0);
    store.broken.store(false, std::sync::atomic::Ordering::Relaxed);
    ledger.record(&mut first).unwrap();
    assert_eq!(ledger.last_published(&name), 2);
    // A run that began before another was recorded is compared with it.
    let error = ledger.record(&mut other).unwrap_err().to_string();
    assert!(error.contains("been released differently in the meantime"), "{error}");
    // So is a longer one, whose own steps were never compared with that run.
    let error = ledger.record(&mut longer).unwrap_err().to_string();
    assert!(error.contains("been released differently in the meantime"), "{error}");
    // A run that continues from its own record does not conflict with itself.
    first.close_step(&[7]).unwrap();
    ledger.record(&mut first).unwrap();
    assert_eq!(ledger.last_published(&name), 3);
    drop(ledger);
    assert_eq!(Ledger::open(store, &key).unwrap().last_published(&name), 3);
}

fn plan_of(horizon: u64) -> Plan {
    let budget = Budget::Pure(evertally::privacy::Epsilon::new(1.0).unwrap());
    evertally::plan::PlanRequest::count(horizon, budget).plan().unwrap()
}

/// The digests of steps in ledgers are a stable format.
#[test]
fn digests_of_steps_are_frozen() {
    let mut sums = StreamDigest::unrecorded();
    sums.close_step(&[3, -1]).unwrap();
    sums.close_step(&[0, 4]).unwrap();
    let mut items = StreamDigest::unrecorded();
    items.close_items(&[(b"a".as_slice().into(), 2), (b"bc".as_slice().into(), -5)], 3).unwrap();
    items.close_items(&[], 4).unwrap();
    items.close_items(&[(b"a".as_slice().into(), 1)], 5).unwrap();
    assert_eq!([sums.steps(), items.steps()], [2, 5]);
    assert_eq!([&sums.digest()[..16], &items.digest()[..16]], ["1d09da917a07debe", "b7cb37681ecb4aab"]);
}

/// Other data are refused at the first step that differs, and a shorter release has nothing to compare with.
#[test]
fn what_was_published_is_compared_step_by_step() {
    let key = SecretKey::generate().unwrap();
    let (name, plan): (StreamName, _) = ("s".parse().unwrap(), plan_of(100));
    let store = MemoryStore::default();
    drop(Ledger::create(store.clone(), &key).unwrap());
    let close = |store: &MemoryStore, steps: &[i64]| {
        let mut ledger = Ledger::open(store.clone(), &key)?;
        let mut stream = ledger.stream(&key, &name, &plan, steps.len() as u64)?;
        steps.iter().try_for_each(|sum| stream.close_step(&[*sum]))?;
        ledger.record(&mut stream)
    };
    close(&store, &[1, 2, 3]).unwrap();
    let written = store.clone().load().unwrap().unwrap();
    let copy = Ledger::open(store.copied(), &key).unwrap();
    assert!(close(&store, &[1, 2, 4]).unwrap_err().to_string().contains("up to step 3 from different data"));
    assert!(close(&store, &[1, 2]).unwrap_err().to_string().contains("nothing can be compared"));
    close(&store, &[1, 2, 3]).unwrap();
    assert_eq!(store.clone().load().unwrap().unwrap(), written, "nothing new, nothing written");
    close(&store, &[1, 2, 3, 4]).unwrap();
    assert!(close(&store, &[1, 2, 5, 4]).unwrap_err().to_string().contains("step 3 from different data"));
    assert!(close(&store, &[1, 2, 3, 5]).unwrap_err().to_string().contains("step 4 from different data"));
    let ledger = Ledger::open(store, &key).unwrap();
    assert_eq!((ledger.last_published(&name), ledger.counter()), (4, 2));
    assert_eq!(ledger.identity(), copy.identity(), "copies are one ledger");
}

#[test]
fn a_ledger_that_was_written_by_hand_is_refused() {
    let key = SecretKey::generate().unwrap();
    let mut store = MemoryStore::default();
    let mut ledger = Ledger::create(store.clone(), &key).unwrap();
    let mut stream = ledger.stream(&key, &"s".parse().unwrap(), &plan_of(100), 1).unwrap();
    stream.close_step(&[1]).unwrap();
    ledger.record(&mut stream).unwrap();
    drop(ledger);
    let text = String::from_utf8(store.load().unwrap().unwrap()).unwrap();
    let refused = |from: &str, to: &str| {
        assert!(text.contains(from), "{text}");
        let mut store = MemoryStore::default();
        store.commit(text.replace(from, to).as_bytes()).unwrap();
        Ledger::open(store.copied(), &key).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(refused("\"through\": 1", "\"through\": 0").contains("other than this program"));
    assert!(
        refused("\"counter\": 1,\n  \"streams\"", "\"counter\": 2,\n  \"streams\"").contains("other than this program")
    );
    for other in ["0", "2", "2, \"new\": [1]"] {
        assert!(refused("\"version\": 1", &format!("\"version\": {other}")).contains("another version"), "{other}");
    }
    assert!(refused("\"version\": 1", "\"version\": 1, \"new\": [1]").contains("is damaged"));
}

/// The state of a run is there for the next run, complete; and two copies of a ledger share their runs up to the fork.
#[test]
fn a_stream_goes_on_from_its_state_and_forks_show() {
    let key = SecretKey::generate().unwrap();
    let (name, plan): (StreamName, _) = ("s".parse().unwrap(), plan_of(100));
    let store = MemoryStore::default();
    let mut ledger = Ledger::create(store.clone(), &key).unwrap();
    let mut stream = ledger.stream(&key, &name, &plan, 2).unwrap();
    [[1], [2]].iter().try_for_each(|sums| stream.close_step(sums)).unwrap();
    let mut rows = std::io::Cursor::new(b"rows".to_vec());
    let output = OutputBytes { target: "t.csv".into(), behind: Some(4), private: false, contents: &mut rows };
    let left = Left { state: b"state".to_vec(), outputs: vec![output], ..Left::default() };
    ledger.record_continued(&mut stream, left).unwrap();
    let chain = stream.chain();

    let mut again = Ledger::open(store.copied(), &key).unwrap();
    assert_eq!(again.state(&name).unwrap().as_deref(), Some(&b"state"[..]));
    let pending = again.pending(&name)[0].clone();
    assert_eq!((pending.target.as_str(), pending.behind), ("t.csv", Some(4)));
    assert_eq!(again.part(&pending.part).unwrap().as_deref(), Some(&b"rows"[..]));
    again.delivered(&name);
    assert_eq!(again.part(&pending.part).unwrap(), None);
    assert_eq!(again.state(&name).unwrap().as_deref(), Some(&b"state"[..]));
    // Continues, and is compared with one run over all the data.
    let mut next = again.stream(&key, &name, &plan, 3).unwrap();
    assert!(next.resume(1, chain).is_err() && next.resume(2, [0; 32]).is_err());
    next.resume(2, chain).unwrap();
    next.close_step(&[3]).unwrap();
    again.record_continued(&mut next, Left::default()).unwrap();
    let mut whole = again.stream(&key, &name, &plan, 3).unwrap();
    [[1], [2]].iter().try_for_each(|sums| whole.close_step(sums)).unwrap();
    assert!(whole.close_step(&[4]).is_err());
    whole.close_step(&[3]).expect("a refused step was not added");
    // The older copy of the ledger diverges.
    let mut fork = ledger.stream(&key, &name, &plan, 3).unwrap();
    fork.resume(2, chain).unwrap();
    fork.close_step(&[4]).unwrap();
    assert!(ledger.record(&mut fork).unwrap_err().to_string().contains("would not write"));
    ledger.record_continued(&mut fork, Left::default()).unwrap();
    assert_eq!((ledger.identity(), ledger.counter()), (again.identity(), again.counter()));
    assert_ne!(ledger.identity(), Ledger::create(MemoryStore::default(), &key).unwrap().identity());
    assert_eq!((again.counter(), again.runs().len(), again.has_state(&name)), (2, 2, true));
    assert_eq!([2, 3, 4].map(|through| again.place_of(&name, through).run), [1, 2, 3]);
    assert_eq!(again.plan_text(&name), Some(toml::to_string(&plan).unwrap().as_str()));
    assert_eq!(ledger.head(1), again.head(1));
    assert_ne!(ledger.head(2), again.head(2));
}

/// A part that differs from the one the ledger names is not used.
#[test]
fn parts_are_vouched_for() {
    let key = SecretKey::generate().unwrap();
    let mut store = MemoryStore::default();
    let mut ledger = Ledger::create(store.clone(), &key).unwrap();
    let name: StreamName = "s".parse().unwrap();
    let mut stream = ledger.stream(&key, &name, &plan_of(100), 1).unwrap();
    stream.close_step(&[1]).unwrap();
    ledger.record_continued(&mut stream, Left { state: b"state".to_vec(), ..Left::default() }).unwrap();
    let part = part_name(&mut &b"state"[..]).unwrap();
    drop(ledger);
    store.put_part(&part, &mut &b"other"[..]).unwrap();
    let mut ledger = Ledger::open(store.copied(), &key).unwrap();
    assert!(ledger.state(&name).unwrap_err().to_string().contains("differs from the recorded one"));
    store.keep_parts(&[]);
    let mut ledger = Ledger::open(store.copied(), &key).unwrap();
    assert_eq!(ledger.state(&name).unwrap(), None, "lost, to be rebuilt");
}

/// Without the key, nobody can write a valid ledger for it.
#[test]
fn the_code_of_a_ledger_needs_its_key() {
    let [one, other] = [(); 2].map(|()| code_key(&SecretKey::generate().unwrap()));
    assert!(*one != *other && *one != [0; 32]);
}
