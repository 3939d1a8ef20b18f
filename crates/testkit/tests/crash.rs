//! Power failures at every point: files, the ledger and its parts, new keys.

#[path = "crash/year.rs"]
mod year;

use evertally::plan::{Plan, PlanRequest};
use evertally::privacy::{Budget, Epsilon};
use evertally_declare::records::Records;
use evertally_ledger::disk::{Access, Disk, RealDisk, append_durably, beside, folder_of, replace};
use evertally_ledger::ledger::{Absent, Ledger, Left, OpenKey, OutputBytes, StreamDigest, ledger_path, new_key};
use evertally_testkit::crash::{Image, Point, TracedDisk};
use std::io::{self, Cursor};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Maximum number of images checked per point; all, if fewer are possible.
const IMAGES: usize = 96;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Calls `look` with a folder for each image that a power failure can leave at any of these points.
fn for_every_image(points: &[Point], most: usize, mut look: impl FnMut(usize, &str, &Path)) -> usize {
    let mut images = 0;
    for (number, point) in points.iter().enumerate() {
        for image in point.images(most) {
            let folder = folder();
            image.write_into(folder.path());
            look(number, &point.after, folder.path());
            images += 1;
        }
    }
    images
}

type Replace = fn(&dyn Disk, &Path, &[u8]) -> io::Result<()>;

/// The states of a replaced file over all crashes: whether it is ever neither old nor new, and whether it is ever old
/// after the replacement has returned.
fn faults_of(replacing: Replace) -> (bool, bool) {
    let folder = folder();
    let path = folder.path().join("a");
    std::fs::write(&path, "old content").unwrap();
    let disk = TracedDisk::new(folder.path());
    replacing(&disk, &path, b"new, longer content").unwrap();
    let points = disk.points();
    let (mut torn, mut lost) = (false, false);
    for_every_image(&points, IMAGES, |number, _, folder| {
        let found = std::fs::read(folder.join("a")).ok();
        let is_new = found.as_deref() == Some(b"new, longer content");
        torn |= !is_new && found.as_deref() != Some(b"old content");
        lost |= number + 1 == points.len() && !is_new;
    });
    (torn, lost)
}

#[test]
fn replaced_files_are_old_or_new_and_shortcuts_are_found() {
    assert_eq!(faults_of(|disk, path, new| replace(disk, path, &Access::Private, &mut &*new)), (false, false));
    // Each of these omits one of the steps, and the images reveal it.
    let in_place: Replace = |disk, path, mut new| {
        disk.truncate(path, 0)?;
        disk.append(path, &mut new)?;
        disk.sync(path)
    };
    let without_sync: Replace = |disk, path, mut new| {
        disk.create(&beside(path, "tmp"), &Access::Private, &mut new)?;
        disk.rename(&beside(path, "tmp"), path)?;
        disk.sync_folder(folder_of(path))
    };
    let without_folder: Replace = |disk, path, mut new| {
        disk.create(&beside(path, "tmp"), &Access::Private, &mut new)?;
        disk.sync(&beside(path, "tmp"))?;
        disk.rename(&beside(path, "tmp"), path)
    };
    assert_eq!(faults_of(in_place), (true, false));
    assert_eq!(faults_of(without_sync), (true, true));
    assert_eq!(faults_of(without_folder), (false, true));
}

#[test]
fn what_was_appended_to_is_whole_and_can_be_appended_to_again() {
    let folder = folder();
    let path = folder.path().join("a");
    std::fs::write(&path, "first ").unwrap();
    let disk = TracedDisk::new(folder.path());
    append_durably(&disk, &path, 6, &mut &b"second "[..]).unwrap();
    append_durably(&disk, &path, 13, &mut &b"third"[..]).unwrap();
    let points = disk.points();
    for_every_image(&points, IMAGES, |number, after, folder| {
        let path = folder.join("a");
        let found = std::fs::read(&path).unwrap();
        assert!(found.starts_with(b"first "), "{after}: {found:?}");
        assert!(number < points.len() / 2 || found.starts_with(b"first second "), "{after}: {found:?}");
        if found.len() >= 13 && found.starts_with(b"first second ") {
            append_durably(&RealDisk, &path, 13, &mut &b"third"[..]).unwrap();
        } else {
            append_durably(&RealDisk, &path, 6, &mut &b"second third"[..]).unwrap();
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"first second third");
    });
}

/// A call that fails midway leaves a replaced file unchanged, and no other file.
#[test]
fn a_full_disk_changes_nothing() {
    for call in 1..=3 {
        let folder = folder();
        let path = folder.path().join("a");
        std::fs::write(&path, "old").unwrap();
        let disk = TracedDisk::new(folder.path()).failing_at(call);
        assert!(replace(&disk, &path, &Access::Private, &mut &b"new"[..]).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"old", "call {call}");
    }
}

fn plan() -> Plan {
    PlanRequest::count(400, Budget::Pure(Epsilon::new(1.0).unwrap())).plan().unwrap()
}

fn open(disk: Arc<dyn Disk>, key: &Path, absent: Absent) -> evertally_declare::error::Result<OpenKey> {
    OpenKey::of_file(disk, key, absent, &AtomicBool::new(false), &mut |_| ())
}

/// Checks the digest of these steps against the ledger.
fn digest(open: &OpenKey, plan: &Plan, sums: &[i64]) -> evertally_declare::error::Result<StreamDigest> {
    let name = "s".parse().unwrap();
    let mut digest = open.ledger.stream(&open.key, &name, plan, sums.len() as u64)?;
    sums.iter().try_for_each(|sum| digest.close_step(&[*sum]))?;
    Ok(digest)
}

fn record(disk: Arc<dyn Disk>, key: &Path, plan: &Plan, sums: &[i64]) -> evertally_declare::error::Result<()> {
    let mut open = open(disk, key, Absent::Refuse)?;
    let mut digest = digest(&open, plan, sums)?;
    open.ledger.record(&mut digest)
}

fn last(ledger: &Ledger) -> u64 {
    ledger.last_published(&"s".parse().unwrap())
}

/// A run records three more steps. Wherever it is cut off, the ledger can be read and has the earlier records; once
/// recording has returned, it also has the new steps. The same data can be recorded again; other data cannot, as soon
/// as a ledger may hold the record.
#[test]
fn a_ledger_forgets_nothing_wherever_the_power_fails() {
    let (folder, plan) = (folder(), plan());
    let key = folder.path().join("k");
    new_key(&key).unwrap();
    record(Arc::new(RealDisk), &key, &plan, &[1, 2]).unwrap();
    let disk = Arc::new(TracedDisk::new(folder.path()));
    record(disk.clone(), &key, &plan, &[1, 2, 3, 4, 5]).unwrap();
    let points = disk.points();
    let images = for_every_image(&points, IMAGES, |number, after, folder| {
        let key = folder.join("k");
        let again = open(Arc::new(RealDisk), &key, Absent::Refuse).unwrap();
        let known = last(&again.ledger);
        assert!(known == 5 || known == 2 && number + 1 < points.len(), "{after}: {known} steps are known");
        assert!(digest(&again, &plan, &[1, 2, 3, 4, 6]).is_err() || known == 2, "{after}: other data");
        assert!(digest(&again, &plan, &[1, 3, 3, 4, 5]).is_err(), "{after}: other data");
        drop(again);
        record(Arc::new(RealDisk), &key, &plan, &[1, 2, 3, 4, 5]).unwrap();
        assert_eq!(last(&open(Arc::new(RealDisk), &key, Absent::Refuse).unwrap().ledger), 5);
    });
    assert!(points.len() >= 5 && images >= 10, "{} points, {images} images", points.len());
}

/// Recording that fails at any call returns an error and leaves a working ledger.
#[test]
fn a_ledger_on_a_full_disk_stays_what_it_was() {
    let plan = plan();
    let mut failed = 0;
    for call in 1.. {
        let folder = folder();
        let key = folder.path().join("k");
        new_key(&key).unwrap();
        record(Arc::new(RealDisk), &key, &plan, &[1, 2]).unwrap();
        let disk = Arc::new(TracedDisk::new(folder.path()).failing_at(call));
        let recorded = record(disk.clone(), &key, &plan, &[1, 2, 3]);
        let known = last(&open(Arc::new(RealDisk), &key, Absent::Refuse).unwrap().ledger);
        if recorded.is_ok() {
            assert_eq!(known, 3);
            break;
        }
        // Only the sync of the folder comes after the rename.
        assert!(known == 2 || call >= disk.calls(), "call {call}: {known}");
        record(Arc::new(RealDisk), &key, &plan, &[1, 2, 3]).unwrap();
        failed += 1;
    }
    assert!(failed >= 4, "{failed}");
}

/// State and outputs are recorded with the ledger, in one piece: whichever ledger is found, everything that it names
/// exists.
#[test]
fn parts_are_there_whenever_the_ledger_names_them() {
    let (folder, plan) = (folder(), plan());
    let key = folder.path().join("k");
    new_key(&key).unwrap();
    let name = "s".parse().unwrap();
    let run = |disk: Arc<dyn Disk>, key: &Path, sums: &[i64], state: &[u8], rows: &[u8]| {
        let mut open = open(disk, key, Absent::Refuse).unwrap();
        let mut digest = digest(&open, &plan, sums).unwrap();
        let mut contents = Cursor::new(rows.to_vec());
        let output = OutputBytes { target: "t.csv".into(), behind: None, private: false, contents: &mut contents };
        let left = Left { state: state.to_vec(), outputs: vec![output], ..Left::default() };
        open.ledger.record_continued(&mut digest, left).unwrap();
        open.ledger.delivered(&name);
    };
    run(Arc::new(RealDisk), &key, &[1, 2], b"state 2", b"rows 1 to 2");
    let disk = Arc::new(TracedDisk::new(folder.path()));
    run(disk.clone(), &key, &[1, 2, 3], b"state 3", b"row 3");
    let points = disk.points();
    for_every_image(&points, IMAGES, |number, after, folder| {
        let mut found = open(Arc::new(RealDisk), &folder.join("k"), Absent::Refuse).unwrap();
        let known = last(&found.ledger);
        assert!(known == 3 || known == 2 && number + 1 < points.len(), "{after}: {known}");
        let state = found.ledger.state(&name).unwrap_or_else(|error| panic!("{after}: {error}"));
        assert_eq!(state.as_deref(), Some(format!("state {known}").as_bytes()), "{after}");
        // Missing output is kept at least until it is recorded as written.
        for pending in found.ledger.pending(&name).to_vec() {
            let part = found.ledger.part(&pending.part).unwrap();
            let is_rows = part.as_deref() == Some(if known == 3 { b"row 3" } else { b"rows 1 to 2" });
            assert!(is_rows || part.is_none(), "{after}: {part:?}");
        }
    });
    assert!(points.len() >= 12, "{}", points.len());
}

/// A key is made with its first record. Wherever that is cut off, a run with `--create-key` continues with the recorded
/// key, or with a new one if nothing was recorded; and nothing of an unused key remains.
#[test]
fn a_new_key_is_there_with_its_ledger_or_not_at_all() {
    let (folder, plan) = (folder(), plan());
    let key = folder.path().join("k");
    let disk = Arc::new(TracedDisk::new(folder.path()));
    let id = {
        let mut made = open(disk.clone(), &key, Absent::Make).unwrap();
        let mut digest = digest(&made, &plan, &[1, 2]).unwrap();
        made.ledger.record(&mut digest).unwrap();
        made.key.id().to_string()
    };
    let points = disk.points();
    let (mut kept, mut anew) = (0, 0);
    for_every_image(&points, IMAGES, |number, after, folder| {
        let key = folder.join("k");
        let mut again = match open(Arc::new(RealDisk), &key, Absent::Make) {
            Ok(again) => again,
            Err(error) => {
                // The file lost its old name before it got the new one. Nothing was published; no second key is made.
                let is_lost = !key.exists() && !beside(&key, "new").exists() && number + 1 < points.len();
                assert!(is_lost && error.to_string().contains("belongs to a key that was here"), "{after}: {error}");
                return;
            }
        };
        if again.key.id().to_string() == id {
            // A ledger without the stream belongs to a key that is just being made.
            kept += 1;
            assert!(last(&again.ledger) == 2 && !again.is_new, "{after}");
            assert!(digest(&again, &plan, &[1, 3]).is_err(), "{after}");
        } else {
            anew += 1;
            assert!(again.is_new && number + 1 < points.len(), "{after}");
            let mut digest = digest(&again, &plan, &[1, 3]).unwrap();
            again.ledger.record(&mut digest).unwrap();
        }
        drop(again);
        let left: Vec<PathBuf> = RealDisk.list(folder).unwrap();
        let unfinished = beside(&key, "new");
        assert!(!left.contains(&unfinished) && left.contains(&key) && left.contains(&ledger_path(&key)), "{left:?}");
        let opened = open(Arc::new(RealDisk), &key, Absent::Refuse).unwrap();
        assert_eq!(last(&opened.ledger), 2, "{after}");
    });
    assert!(kept > 0 && anew > 0, "{kept} kept, {anew} anew");
}

/// The assumptions of the tests above about keys and images.
#[test]
fn images_are_written_as_they_are() {
    let (first, second) = (folder(), folder());
    std::fs::create_dir(first.path().join("d")).unwrap();
    std::fs::write(first.path().join("d/a"), "1").unwrap();
    std::fs::write(first.path().join("b"), "2").unwrap();
    let images: Vec<Image> = TracedDisk::new(first.path()).points()[0].images(9);
    assert_eq!(images.len(), 1, "nothing was pending");
    images[0].write_into(second.path());
    assert_eq!(std::fs::read(second.path().join("d/a")).unwrap(), b"1");
}
