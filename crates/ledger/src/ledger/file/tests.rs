//! Key and ledger files that others change, too.

use super::*;
use crate::disk::Access;
use crate::ledger::StreamDigest;
use evertally::plan::{Plan, PlanRequest};
use evertally::privacy::{Budget, Epsilon};
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

fn plan() -> Plan {
    PlanRequest::count(10, Budget::Pure(Epsilon::new(1.0).unwrap())).plan().unwrap()
}

/// Opens a key; if it would have to wait, it is cancelled at once.
fn open_with(disk: Arc<dyn Disk>, path: &Path, absent: Absent) -> Result<OpenKey> {
    OpenKey::from_file(disk, path, absent, &AtomicBool::new(true), &mut |_| ())
}

fn open(path: &Path) -> Result<OpenKey> {
    open_with(Arc::new(RealDisk), path, Absent::Refuse)
}

fn make(path: &Path) -> Result<OpenKey> {
    open_with(Arc::new(RealDisk), path, Absent::Make)
}

/// The digest of a stream's steps.
fn closed(open: &OpenKey, sums: &[i64]) -> Result<StreamDigest> {
    let mut digest = open.ledger.stream(&open.key, &"s".parse()?, &plan(), sums.len() as u64)?;
    sums.iter().try_for_each(|sum| digest.close_step(&[*sum]))?;
    Ok(digest)
}

fn publish(open: &mut OpenKey, sums: &[i64]) -> Result<()> {
    let mut digest = closed(open, sums)?;
    open.ledger.record(&mut digest)
}

fn files(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn error_text<T>(result: Result<T>) -> String {
    format!("{:#}", result.err().expect("it was not refused"))
}

/// A run that creates the key keeps others out. It leaves no files unless it publishes, and then others see complete
/// files.
#[test]
fn a_new_key_is_written_with_its_first_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("k.key");
    let first = make(&path).unwrap();
    assert!(first.is_new && !path.exists());
    assert!(make(&path).err().unwrap().is_cancelled(), "another run got in");
    drop(first);
    assert_eq!(files(folder.path()), BTreeSet::new());

    let mut second = make(&path).unwrap();
    publish(&mut second, &[1, 2]).unwrap();
    let id = second.key.id();
    drop(second);
    assert_eq!(files(folder.path()), ["k.key", "k.key.ledger"].map(String::from).into());
    // The run that waited finds the key and the record.
    let mut third = make(&path).unwrap();
    assert_eq!((third.key.id(), third.is_new), (id, false));
    assert!(error_text(publish(&mut third, &[1, 3])).contains("different data"));
    drop(third);
    // A ledger without its key belongs to nobody.
    std::fs::remove_file(&path).unwrap();
    assert!(error_text(make(&path)).contains("a key that was here"));
    assert_eq!(files(folder.path()), ["k.key.ledger"].map(String::from).into());
}

/// The lock is on the place, not on the file that happens to be there.
#[test]
fn a_key_that_is_installed_anew_is_still_locked() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    new_key(&path("k.key")).unwrap();
    let mut first = open(&path("k.key")).unwrap();
    let mut digest = closed(&first, &[1, 2]).unwrap();
    for name in ["k.key", "k.key.ledger"] {
        std::fs::copy(path(name), path("copy")).unwrap();
        std::fs::rename(path("copy"), path(name)).unwrap();
    }
    assert!(open(&path("k.key")).err().unwrap().is_cancelled(), "another run got in");
    first.ledger.record(&mut digest).unwrap();
    drop(first);
    assert!(error_text(publish(&mut open(&path("k.key")).unwrap(), &[1, 3])).contains("different data"));
}

/// If a program circumvents the lock and changes the ledger, the run that holds the lock notices.
#[test]
fn a_ledger_that_was_changed_meanwhile_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    new_key(&path("k.key")).unwrap();
    std::fs::create_dir(path("elsewhere")).unwrap();
    for name in ["k.key", "k.key.ledger"] {
        std::fs::copy(path(name), path("elsewhere").join(name)).unwrap();
    }
    publish(&mut open(&path("elsewhere/k.key")).unwrap(), &[1, 3]).unwrap();

    let mut first = open(&path("k.key")).unwrap();
    let mut digest = closed(&first, &[1, 2]).unwrap();
    std::fs::copy(path("elsewhere/k.key.ledger"), path("k.key.ledger")).unwrap();
    let message = error_text(first.ledger.record(&mut digest));
    assert!(message.contains("nothing was published: the ledger") && message.contains("was changed"), "{message}");
    std::fs::remove_file(path("k.key.ledger")).unwrap();
    assert!(error_text(first.ledger.record(&mut digest)).contains("was changed"));
    assert!(!path("k.key.ledger").exists());

    std::fs::copy(path("elsewhere/k.key.ledger"), path("k.key.ledger")).unwrap();
    drop(first);
    let mut second = open(&path("k.key")).unwrap();
    std::fs::remove_file(path(".k.key.ledger.lock")).unwrap();
    assert!(error_text(publish(&mut second, &[1, 3, 4])).contains("was removed"));
}

/// A ledger in another folder, with a link to it next to every key, is one ledger.
#[cfg(unix)]
#[test]
fn a_link_to_a_ledger_is_followed_and_a_second_name_refused() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("shared")).unwrap();
    new_key(&path("a.key")).unwrap();
    std::fs::copy(path("a.key"), path("b.key")).unwrap();
    std::fs::rename(path("a.key.ledger"), path("shared/ledger")).unwrap();
    std::fs::set_permissions(path("shared/ledger"), PermissionsExt::from_mode(0o640)).unwrap();
    symlink(path("shared/ledger"), path("a.key.ledger")).unwrap();
    symlink("shared/ledger", path("b.key.ledger")).unwrap();

    let mut a = open(&path("a.key")).unwrap();
    assert!(open(&path("b.key")).err().unwrap().is_cancelled(), "another run got in");
    publish(&mut a, &[1, 2]).unwrap();
    drop(a);
    assert!(path("a.key.ledger").is_symlink() && path("b.key.ledger").is_symlink());
    assert_eq!(std::fs::metadata(path("shared/ledger")).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(error_text(publish(&mut open(&path("b.key")).unwrap(), &[1, 3])).contains("different data"));
    assert_eq!(files(&path("shared")), ["ledger".to_owned()].into());

    std::fs::hard_link(path("shared/ledger"), path("other")).unwrap();
    assert!(error_text(open(&path("a.key"))).contains("several names"));
    std::fs::remove_file(path("other")).unwrap();
    let mut a = open(&path("a.key")).unwrap();
    std::fs::hard_link(path("shared/ledger"), path("other")).unwrap();
    assert!(error_text(publish(&mut a, &[1, 2, 3])).contains("several names"));
    drop(a);
    std::fs::remove_file(path("shared/ledger")).unwrap();
    assert!(error_text(open(&path("a.key"))).contains("is a link to"));
}

/// A disk that fails at one of its calls, and afterwards.
struct CutOff {
    calls: AtomicUsize,
    last: usize,
}

impl CutOff {
    fn after(last: usize) -> Arc<Self> {
        Arc::new(Self { calls: AtomicUsize::new(0), last })
    }

    fn call<T>(&self, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if self.calls.fetch_add(1, Ordering::Relaxed) < self.last { call() } else { Err(io::Error::other("cut off")) }
    }
}

impl Disk for CutOff {
    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        self.call(|| RealDisk.read(path))
    }
    fn len(&self, path: &Path) -> io::Result<Option<u64>> {
        self.call(|| RealDisk.len(path))
    }
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        self.call(|| RealDisk.list(folder))
    }
    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        self.call(|| RealDisk.create_folder(folder))
    }
    fn create(&self, path: &Path, access: &Access, contents: &mut dyn Read) -> io::Result<()> {
        // The file exists, with half of its contents.
        self.call(|| RealDisk.create(path, access, contents)).or_else(|error| {
            if self.calls.load(Ordering::Relaxed) == self.last + 1 {
                RealDisk.create(path, access, &mut contents.take(40))?;
            }
            Err(error)
        })
    }
    fn append(&self, path: &Path, contents: &mut dyn Read) -> io::Result<()> {
        self.call(|| RealDisk.append(path, contents))
    }
    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        self.call(|| RealDisk.truncate(path, len))
    }
    fn sync(&self, path: &Path) -> io::Result<()> {
        self.call(|| RealDisk.sync(path))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(|| RealDisk.rename(from, to))
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call(|| RealDisk.remove(path))
    }
    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.call(|| RealDisk.sync_folder(folder))
    }
}

/// If the creation of a key is interrupted anywhere, the next run has a key and a ledger, and recorded steps are kept.
#[test]
fn a_new_key_survives_being_cut_off_anywhere() {
    let (mut recorded, mut whole) = (0, false);
    for last in 0.. {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("k.key");
        let cut = open_with(CutOff::after(last), &path, Absent::Make).and_then(|mut first| {
            let done = publish(&mut first, &[1, 2]);
            done.map(|()| first.key.id())
        });
        let mut next = make(&path).unwrap();
        let was_recorded = next.ledger.stream_count() == 1;
        recorded += usize::from(was_recorded);
        if let Ok(id) = cut {
            assert!(was_recorded && next.key.id() == id);
            whole = true;
        }
        publish(&mut next, &[1, 2]).unwrap();
        drop(next);
        assert_eq!(files(folder.path()), ["k.key", "k.key.ledger"].map(String::from).into(), "cut off after {last}");
        if whole {
            break;
        }
        assert!(last < 100);
    }
    assert!(recorded > 1, "it was never cut off between the two files");
}
