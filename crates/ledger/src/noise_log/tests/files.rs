//! The file: crashes, damage, copies, and its size.

use super::super::file::ENTRY;
use super::*;
use evertally::noise::SecretKey;

/// Replaces the file of a log as a crash or a person would, with the permissions of the user alone.
fn write_private(path: &Path, bytes: &[u8]) {
    use crate::disk::{Access, RealDisk, replace};
    replace(&RealDisk, path, &Access::Private, &mut &bytes[..]).unwrap();
}

/// A process may be killed, or a machine lose power, between the record of a step and its noise, or in the middle of
/// the record. Wherever the file ends: the same data are released again with the same noise, and a step whose entry is
/// whole is refused for other data. A torn entry is of a step whose noise was not issued.
#[test]
fn a_log_that_is_cut_at_any_length() {
    let (_folder, path) = new_folder();
    let log = noise_log_path(&path);
    let released = tick_all(&mut sum(&open(&path), "visits"), &[3, 4, 5]).unwrap();
    let whole = std::fs::read(&log).unwrap();
    assert_eq!(whole.len(), 4 * ENTRY);
    for len in 0..=whole.len() {
        let torn = || write_private(&log, &whole[..len]);
        torn();
        if len < ENTRY {
            let error = refused(sum(&open(&path), "visits").tick());
            assert!(error.contains("is damaged") && std::fs::read(&log).unwrap() == whole[..len], "{len}: {error}");
            continue;
        }
        assert_eq!(tick_all(&mut sum(&open(&path), "visits"), &[3, 4, 5]).unwrap(), released, "{len}");
        assert_eq!(std::fs::read(&log).unwrap(), whole, "{len}: the lost entries are written again");
        let complete = len / ENTRY - 1;
        for changed in 0..3 {
            torn();
            let mut totals = [3, 4, 5];
            totals[changed] += 1;
            let done = tick_all(&mut sum(&open(&path), "visits"), &totals[..=changed]);
            assert_eq!(done.is_err(), changed < complete, "step {} after {len} bytes", changed + 1);
        }
    }
}

#[test]
fn damaged_and_foreign_logs_are_refused() {
    let (folder, path) = new_folder();
    let log = noise_log_path(&path);
    tick_all(&mut sum(&open(&path), "visits"), &[1, 2, 3]).unwrap();
    let whole = std::fs::read(&log).unwrap();
    let problem = |content: &[u8]| {
        write_private(&log, content);
        let error = refused(sum(&open(&path), "visits").tick());
        assert_eq!(std::fs::read(&log).unwrap(), content, "it is left as it is");
        error
    };
    for place in ENTRY..whole.len() {
        let mut flipped = whole.clone();
        flipped[place] ^= 1;
        let error = problem(&flipped);
        assert!(error.contains("is damaged: restore an undamaged copy"), "byte {place}: {error}");
    }
    let gap = [&whole[..ENTRY], &whole[ENTRY + 6..]].concat();
    let zeros = [&whole[..2 * ENTRY], &[0; ENTRY], &whole[3 * ENTRY..]].concat();
    assert!(problem(&gap).contains("is damaged: restore") && problem(&zeros).contains("is damaged: restore"));
    let other = folder.path().join("other.key");
    new_key(&other).unwrap();
    sum(&open(&other), "visits").tick().unwrap();
    let other = std::fs::read(noise_log_path(&other)).unwrap();
    for foreign in [b"something else", &[b'x'; 640][..], &whole[ENTRY..], &[0; 300], b"", &other] {
        let error = problem(foreign);
        assert!(error.contains("it belongs to another key, or is damaged"), "{error}");
    }
    // Possible bytes at the end after a loss of power.
    for tail in [&whole[..20], &[0; 100], &[0; 64], b""] {
        write_private(&log, &[&whole, tail].concat());
        tick_all(&mut sum(&open(&path), "visits"), &[1, 2, 3]).unwrap();
        assert_eq!(std::fs::read(&log).unwrap(), whole);
    }
}

/// The ledger of the key knows its log.
#[test]
fn a_log_that_is_lost_or_another_is_refused() {
    let (folder, path) = new_folder();
    let log = noise_log_path(&path);
    sum(&open(&path), "visits").tick().unwrap();
    let elsewhere = LoggedKey::open_with_log(&path, &folder.path().join("elsewhere")).unwrap().guarded();
    assert!(refused(sum(&elsewhere, "visits").tick()).contains("is missing: restore it"));
    drop(elsewhere);
    let whole = std::fs::read(&log).unwrap();
    std::fs::remove_file(&log).unwrap();
    assert!(refused(sum(&open(&path), "visits").tick()).contains("is missing: restore it"));
    // A new log of the same key does not take the place of the old one.
    let key = Arc::new(crate::keyfile::read(&path).unwrap());
    NoiseLog::from_key(&key).write_to(&log, Some([7; 16])).unwrap();
    assert!(refused(sum(&open(&path), "visits").tick()).contains("belongs to another log of steps"));
    write_private(&log, &whole);
    sum(&open(&path), "visits").tick().unwrap();
}

#[cfg(unix)]
#[test]
fn a_log_with_wrong_permissions_or_several_names_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, path) = new_folder();
    let log = noise_log_path(&path);
    sum(&open(&path), "visits").tick().unwrap();
    assert_eq!(std::fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::set_permissions(&log, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(refused(sum(&open(&path), "visits").tick()).contains("chmod 600"));
    std::fs::set_permissions(&log, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::hard_link(&log, folder.path().join("other")).unwrap();
    assert!(refused(sum(&open(&path), "visits").tick()).contains("has several names"));
    // Through a link the key has the same log.
    std::fs::remove_file(folder.path().join("other")).unwrap();
    std::os::unix::fs::symlink(&path, folder.path().join("link.key")).unwrap();
    refused(tick_all(&mut sum(&open(&folder.path().join("link.key")), "visits"), &[1]));
}

#[test]
fn a_log_that_changes_while_it_is_open() {
    let (_folder, path) = new_folder();
    let log = noise_log_path(&path);
    let key = open(&path);
    let mut visits = sum(&key, "visits");
    tick_all(&mut visits, &[1, 2, 3]).unwrap();
    let whole = std::fs::read(&log).unwrap();
    std::fs::write(&log, &whole[..2 * ENTRY]).unwrap();
    visits.add_sum(4).unwrap();
    assert!(refused(visits.tick()).contains("is damaged"));
    assert_eq!(visits.step(), 3);
    std::fs::write(&log, &whole).unwrap();
    visits.tick().unwrap();
    // Restored from a backup: this process still knows the later steps.
    write_private(&log, &whole[..2 * ENTRY]);
    assert!(refused(tick_all(&mut sum(&key, "visits"), &[1, 7])).contains("step 2 "));
    // Moved away.
    std::fs::remove_file(&log).unwrap();
    assert!(refused(sum(&key, "sales").tick()).contains("is missing"));
}

/// Entries that later ones make redundant are removed, even while another object has the file open.
#[test]
fn a_log_stays_small() {
    let (_folder, path) = new_folder();
    let key = open(&path);
    sum(&key, "visits").tick().unwrap();
    let log = NoiseLog::from_key(key.secret());
    log.write_to(&noise_log_path(&path), None).unwrap();
    let mut other = super::super::file::NoiseLogFile::new(noise_log_path(&path), key.secret());
    other.with_lock(|new| (vec![], new)).unwrap();
    for block in 0..30 {
        let steps = (1..=10_000).map(|i| block * 10_000 + i);
        let spans: Vec<_> = steps.map(|step| StepSpan::from_step(step, step)).collect();
        log.claim(&SpanClaim { identity: [1; 16], part: &(0..1), resumed_from: 0, spans: &spans }).unwrap();
    }
    assert!(std::fs::metadata(noise_log_path(&path)).unwrap().len() < ENTRY as u64 * 200_000);
    let seen = other.with_lock(|new| (vec![], new)).unwrap();
    assert!(seen.iter().any(|entry| entry.span == StepSpan::from_step(300_000, 300_000)));
    // After a restart, forgotten steps are refused.
    drop((log, key));
    let key = open(&path);
    refused(tick_all(&mut sum(&key, "visits"), &[1]));
    let log = NoiseLog::from_key(key.secret());
    log.write_to(&noise_log_path(&path), None).unwrap();
    let again = |step, mark| {
        let spans = [StepSpan::from_step(step, mark)];
        log.claim(&SpanClaim { identity: [1; 16], part: &(0..1), resumed_from: 0, spans: &spans }).is_ok()
    };
    assert!(!again(1, 1) && !again(300_000, 1) && again(300_000, 300_000));
}

/// Noise issued before a key had a file is recorded in the file that it gets.
#[test]
fn a_key_that_is_saved_later_takes_its_record_along() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("late.uses");
    let key = Arc::new(SecretKey::generate().unwrap());
    let log = NoiseLog::from_key(&key);
    let claim = |log: &NoiseLog, step, mark| {
        let spans = [StepSpan::from_step(step, mark)];
        log.claim(&SpanClaim { identity: [1; 16], part: &(0..1), resumed_from: 0, spans: &spans }).is_ok()
    };
    assert!(claim(&log, 1, 5));
    log.write_to(&path, Some([7; 16])).unwrap();
    assert!(claim(&log, 2, 6) && log.is_in_file());
    drop(log);
    let log = NoiseLog::from_key(&key);
    log.write_to(&path, None).unwrap();
    assert!(!claim(&log, 1, 6) && !claim(&log, 2, 5) && claim(&log, 1, 5) && claim(&log, 2, 6));
}

#[test]
fn a_log_that_cannot_be_written_issues_nothing() {
    let (folder, path) = new_folder();
    let nowhere = folder.path().join("none").join("log");
    let key = LoggedKey::open_with_log(&path, &nowhere).unwrap().guarded();
    let mut visits = sum(&key, "visits");
    let error = refused(visits.tick());
    assert!(error.contains("cannot write") && error.contains("name another file"), "{error}");
    assert_eq!(visits.step(), 0);
}
