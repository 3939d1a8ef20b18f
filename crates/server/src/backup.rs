//! Copies of the folder's database: when an operator requests one, and on a schedule.

#![expect(clippy::disallowed_methods, reason = "removes old copies")]

use crate::config::BackupSchedule;
use crate::engine::Service;
use evertally_declare::error::{Result, usage};
use jiff::Timestamp;
use jiff::fmt::strtime::BrokenDownTime;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How often the schedule is checked.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The pause after a copy that failed.
const RETRY_INTERVAL: Duration = Duration::from_secs(600);
/// The time in the name of a copy, in UTC.
const TIME_FORMAT: &str = "%Y%m%dT%H%M%S%.3fZ";
/// The digits of the folder's identity in the name of a copy: several services may share a folder for backups.
const IDENTITY_DIGITS: usize = 8;

/// The copies of a service's folder.
#[derive(Default)]
pub struct Backups(Mutex<BackupState>);

#[derive(Default)]
struct BackupState {
    folder: Option<PathBuf>,
    schedule: Option<BackupSchedule>,
    problem: Option<String>,
    /// When the newest copy was made.
    newest: Option<Timestamp>,
    /// When to try again after a copy that failed.
    retry: Option<Instant>,
}

/// A copy.
pub struct BackupFile {
    /// Its path.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
}

impl Backups {
    /// Sets the folder for copies, and the schedule.
    pub fn set(&self, folder: Option<&Path>, schedule: Option<&BackupSchedule>, folder_id: &str) {
        let newest = folder.and_then(|folder| copies(folder, folder_id).ok()).and_then(|copies| Some(copies.last()?.0));
        let (folder, schedule) = (folder.map(Path::to_owned), schedule.cloned());
        *self.state() = BackupState { folder, schedule, newest, ..BackupState::default() };
    }

    fn state(&self) -> MutexGuard<'_, BackupState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the newest copy was made, as far as is known.
    pub fn newest(&self) -> Option<Timestamp> {
        self.state().newest
    }

    /// Why the last scheduled copy failed, if it did.
    pub fn problem(&self) -> Option<String> {
        self.state().problem.clone()
    }

    /// Writes a copy, and removes the oldest ones if the schedule keeps a number of them. It takes as long as reading
    /// the whole database; the service continues meanwhile.
    ///
    /// # Errors
    /// If no folder is configured, or the copy cannot be written.
    pub fn make(&self, service: &Service) -> Result<BackupFile> {
        let (folder, keep) = {
            let state = self.state();
            (state.folder.clone(), state.schedule.as_ref().and_then(|schedule| schedule.keep))
        };
        let folder = folder.ok_or_else(|| {
            usage("the configuration has no folder for backups; add backups = \"/mnt/other-disk/evertally\" at its top")
        })?;
        let now = Timestamp::now();
        let path = folder.join(name_of(&service.folder_id, now));
        service.copy_to(&path)?;
        self.state().newest = Some(now);
        if let Some(keep) = keep {
            let copies = copies(&folder, &service.folder_id)?;
            let excess = copies.len().saturating_sub(keep.get());
            // The new copy stays, whatever the clock says of the others.
            for (_, old) in copies.iter().filter(|(_, own)| *own != path).take(excess) {
                std::fs::remove_file(old)?;
            }
        }
        let bytes = std::fs::metadata(&path).map_or(0, |meta| meta.len());
        Ok(BackupFile { path, bytes })
    }

    /// Makes copies on schedule until `is_over`.
    pub fn run(&self, service: &Weak<Service>, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Relaxed) {
            std::thread::sleep(POLL_INTERVAL);
            let now = Timestamp::now();
            if !self.is_due(now) {
                continue;
            }
            let Some(service) = service.upgrade() else { return };
            let made = self.make(&service);
            let mut state = self.state();
            match made {
                Ok(BackupFile { path, bytes }) => {
                    tracing::info!(file = %path.display(), bytes, "a scheduled backup was made");
                    (state.problem, state.retry) = (None, None);
                }
                Err(error) => {
                    tracing::error!(%error, "a scheduled backup failed");
                    state.problem = Some(format!("the scheduled backup failed: {error}"));
                    state.retry = Some(Instant::now() + RETRY_INTERVAL);
                }
            }
        }
    }

    /// Whether the schedule needs a copy now.
    fn is_due(&self, now: Timestamp) -> bool {
        let state = self.state();
        let Some(every) = state.schedule.as_ref().map(|schedule| schedule.every) else { return false };
        if state.retry.is_some_and(|retry| Instant::now() < retry) {
            return false;
        }
        // A copy from the future is the work of a wrong clock.
        let newest = state.newest.filter(|newest| *newest <= now);
        newest.is_none_or(|newest| now.as_microsecond() - newest.as_microsecond() >= every.0)
    }
}

fn name_of(folder_id: &str, time: Timestamp) -> String {
    format!("evertally-{}-{}.redb", &folder_id[..IDENTITY_DIGITS], time.strftime(TIME_FORMAT))
}

/// The copies of this folder in a folder for backups, the oldest first.
fn copies(folder: &Path, folder_id: &str) -> Result<Vec<(Timestamp, PathBuf)>> {
    let prefix = format!("evertally-{}-", &folder_id[..IDENTITY_DIGITS]);
    let mut copies = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let time = name.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix(".redb"));
        let time = time.and_then(|time| BrokenDownTime::parse("%Y%m%dT%H%M%S%.fZ", time).ok());
        if let Some(time) = time.and_then(|time| time.to_datetime().ok()).and_then(|time| {
            let zoned = time.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
            Some(zoned.timestamp())
        }) {
            copies.push((time, path));
        }
    }
    copies.sort();
    Ok(copies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_copies_of_the_same_folder_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let (own, other) = ("0123456789abcdef", "fedcba9876543210");
        let times: Vec<Timestamp> = ["2026-01-02T03:04:05.678Z", "2025-12-31T23:59:59.001Z", "2026-01-01T00:00:00Z"]
            .iter()
            .map(|time| time.parse().unwrap())
            .collect();
        for time in &times {
            std::fs::write(folder.path().join(name_of(own, *time)), "").unwrap();
            std::fs::write(folder.path().join(name_of(other, *time)), "").unwrap();
        }
        std::fs::write(folder.path().join("evertally-01234567-late.redb"), "").unwrap();
        std::fs::write(folder.path().join("notes.txt"), "").unwrap();
        let found: Vec<Timestamp> = copies(folder.path(), own).unwrap().into_iter().map(|(time, _)| time).collect();
        assert_eq!(found, [times[1], times[2], times[0]]);
    }
}
