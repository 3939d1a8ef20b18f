//! What a ledger accepts and refuses.

use super::*;
use crate::keyfile;
use std::sync::atomic::AtomicBool;

/// The ledger beside a key file.
fn open(path: &Path, key: &SecretKey) -> Result<Ledger> {
    let waiting = &mut |_: &Path| ();
    let open = OpenKey::of_file(Arc::new(RealDisk), path, Absent::Refuse, &AtomicBool::new(false), waiting)?;
    assert_eq!(open.key, *key);
    Ok(open.ledger)
}

/// A release of daily sums under one of many plans.
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

/// Steps without items leave no trace, however they are closed; everything else does.
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
    // A key that lost its ledger could repeat its noise, and a ledger that lost its key is not taken over.
    std::fs::remove_file(folder.path().join("a.key.ledger")).unwrap();
    assert!(run(&a, "s", 1, &[1]).unwrap_err().to_string().contains("no ledger"));
    std::fs::remove_file(&b).unwrap();
    assert!(new_key(&b).unwrap_err().to_string().contains("a key that was here"));
}

/// A key without a file remembers what it has published, and takes that along when it is saved.
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

/// A store that fails now and then.
#[derive(Clone, Default)]
struct Fragile {
    inner: MemoryStore,
    broken: std::sync::Arc<AtomicBool>,
}

impl Store for Fragile {
    fn load(&mut self) -> Result<Option<Vec<u8>>> {
        self.inner.load()
    }

    fn commit(&mut self, contents: &[u8]) -> Result<()> {
        if self.broken.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(crate::error::failure("the disk is full"));
        }
        self.inner.commit(contents)
    }

    fn name(&self) -> String {
        "on a bad disk".to_owned()
    }
}

/// What could not be committed is not recorded: not in the store, and not in the ledger that tried.
#[test]
fn a_failed_commit_records_nothing() {
    let key = SecretKey::generate().unwrap();
    let store = Fragile::default();
    let ledger = Ledger::create(store.clone(), &key).unwrap();
    let twice = Ledger::open(store.clone(), &key).err().unwrap().to_string();
    assert!(twice.contains("open already"), "{twice}");
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
    // A run that began before another was recorded is held against it.
    let error = ledger.record(&mut other).unwrap_err().to_string();
    assert!(error.contains("meanwhile been released otherwise"), "{error}");
    // So is a longer one, whose own steps were never held against those.
    let error = ledger.record(&mut longer).unwrap_err().to_string();
    assert!(error.contains("meanwhile been released otherwise"), "{error}");
    // One that goes on from what it recorded itself is not in its own way.
    first.close_step(&[7]).unwrap();
    ledger.record(&mut first).unwrap();
    assert_eq!(ledger.last_published(&name), 3);
    drop(ledger);
    assert_eq!(Ledger::open(store, &key).unwrap().last_published(&name), 3);
}
