//! File locks.
//!
//! A file that must not have two writers is locked by a hidden file next to it (`.NAME.lock`) instead of by itself. A
//! file that is replaced, by this program or by `mv`, is another file under the same name, and a lock on the old file
//! does not protect the new one. The first run creates the lock file and removes it on release, so no files remain. A
//! run that waited for the lock notices that the file is gone, and starts again.

#![expect(clippy::disallowed_methods, reason = "lock files have no content")]

use crate::disk::{folder_of, sibling};
use crate::platform;
use evertally_declare::error::{Cancelled, Context, Result, usage};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The interval between attempts to take a lock that another run holds.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// How to wait while another run holds a lock.
pub(crate) struct LockWait<'a> {
    cancelled: &'a AtomicBool,
    /// Called once, with the path that is waited for.
    waiting: Option<&'a mut dyn FnMut(&Path)>,
    waits: bool,
    /// When to stop waiting.
    deadline: Option<Instant>,
}

impl<'a> LockWait<'a> {
    /// Waits until `cancelled`, and calls `waiting` once.
    pub(crate) fn until(cancelled: &'a AtomicBool, waiting: &'a mut dyn FnMut(&Path)) -> Self {
        Self { cancelled, waiting: Some(waiting), waits: true, deadline: None }
    }

    /// Waits for at most this time.
    pub(crate) fn at_most(limit: Duration) -> Self {
        Self { waits: true, deadline: Some(Instant::now() + limit), ..Self::none() }
    }

    /// Does not wait.
    pub(crate) fn none() -> Self {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Self { cancelled: &NEVER, waiting: None, waits: false, deadline: None }
    }

    /// Pauses once, for a lock that protects `what`.
    fn pause(&mut self, what: &Path) -> Result<()> {
        if !self.waits || self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(usage(format!(
                "{} is in use by another run; try again when that run has ended",
                what.display()
            )));
        }
        if let Some(waiting) = self.waiting.take() {
            waiting(what);
        }
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(Cancelled.into());
        }
        std::thread::sleep(RETRY_INTERVAL);
        Ok(())
    }
}

/// A lock on a name; held while this value lives.
pub struct NameLock {
    path: PathBuf,
    file: File,
}

impl NameLock {
    /// Locks this name, or fails if another process has locked it.
    ///
    /// # Errors
    /// A usage error if another process has locked it; an IO error if the disk does not support locks.
    pub fn now(protected: &Path) -> Result<Self> {
        Self::take(protected, protected, &mut LockWait::none())
    }

    /// Locks this name, waiting for other processes.
    ///
    /// # Errors
    /// If the lock cannot be made.
    pub fn soon(protected: &Path) -> Result<Self> {
        let never = AtomicBool::new(false);
        Self::take(protected, protected, &mut LockWait::until(&never, &mut |_| ()))
    }

    /// Locks `.NAME.lock` next to the file that it protects; `what` is the name of that file in messages.
    ///
    /// # Errors
    /// If the lock file cannot be created or locked, the wait is cancelled, or the [system](platform) is refused.
    pub(crate) fn take(protected: &Path, what: &Path, patience: &mut LockWait<'_>) -> Result<Self> {
        platform::check()?;
        let path = sibling(protected, "lock");
        loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let file = options.open(&path).map_err(|error| no_lock(&path, protected, &error))?;
            if try_lock(&file, &path)? {
                let lock = Self { path: path.clone(), file };
                // The previous holder removes the name; this file is then no longer anybody's lock.
                if lock.is_current() {
                    return Ok(lock);
                }
            } else {
                patience.pause(what)?;
            }
        }
    }

    /// Whether the lock file still has its name. Otherwise another run may hold another lock under this name.
    pub(crate) fn is_current(&self) -> bool {
        is_same_file(&self.file, &self.path)
    }
}

impl Drop for NameLock {
    fn drop(&mut self) {
        if self.is_current() {
            let _ = std::fs::remove_file(&self.path); // a remaining lock file does no harm
        }
    }
}

fn try_lock(file: &File, path: &Path) -> Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error).context(format_args!("cannot lock {}", path.display())),
    }
}

fn no_lock(path: &Path, protected: &Path, error: &std::io::Error) -> evertally_declare::error::PipelineError {
    usage(format!(
        "cannot create {} ({error}), the lock that keeps other runs away from {}; make the folder writable",
        path.display(),
        protected.display()
    ))
}

#[cfg(unix)]
fn is_same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(a), Ok(b)) => a.dev() == b.dev() && a.ino() == b.ino(),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_same_file(_: &File, path: &Path) -> bool {
    path.exists() // an open file keeps its name on these systems
}

/// Resolves all links of a path. The file need not exist, but its folder must.
pub(crate) fn resolve(path: &Path, what: &str) -> Result<PathBuf> {
    let shown = path.display();
    match std::fs::canonicalize(path) {
        Ok(path) => return Ok(path),
        Err(e) if e.kind() != ErrorKind::NotFound => {
            return Err(usage(format!("the {what} {shown} cannot be found: {e}")));
        }
        Err(_) => {}
    }
    if let Ok(target) = std::fs::read_link(path) {
        let target = target.display();
        return Err(usage(format!("the {what} {shown} is a link to {target}, which does not exist; restore it")));
    }
    let Some(name) = path.file_name() else {
        return Err(usage(format!("{shown} is not the name of a {what}")));
    };
    let folder = folder_of(path);
    let folder = std::fs::canonicalize(folder).map_err(|_| {
        usage(format!("there is no folder {} for the {what} {shown}; create it first", folder.display()))
    })?;
    Ok(folder.join(name))
}

/// Refuses a file with several names: replacing it under one name would leave the others with the old contents.
#[cfg(unix)]
pub(crate) fn check_one_name(path: &Path, what: &str) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    match std::fs::metadata(path) {
        Ok(meta) if meta.is_file() && meta.nlink() > 1 => Err(usage(format!(
            "the {what} {} has several names (hard links), and all but one would miss new releases; keep one \
             and remove the others",
            path.display()
        ))),
        _ => Ok(()),
    }
}

#[cfg(not(unix))]
pub(crate) fn check_one_name(_: &Path, _: &str) -> Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    /// Many threads that take the lock repeatedly never hold it together, though each removes the lock file.
    #[test]
    fn one_at_a_time_though_the_file_comes_and_goes() {
        let folder = tempfile::tempdir().unwrap();
        let protected = folder.path().join("a");
        let (inside, never) = (AtomicU32::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..25 {
                        let mut waiting = |_: &Path| ();
                        let lock = loop {
                            // Without pauses, so that the threads meet at the moment of release.
                            match NameLock::take(&protected, &protected, &mut LockWait::none()) {
                                Ok(lock) => break lock,
                                Err(error) => assert!(error.to_string().contains("in use"), "{error}"),
                            }
                            if inside.load(Ordering::SeqCst) > 4 {
                                LockWait::until(&never, &mut waiting).pause(&protected).unwrap();
                            }
                        };
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        std::thread::yield_now();
                        assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                        drop(lock);
                    }
                });
            }
        });
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "a lock file stayed");
    }

    #[test]
    fn a_wait_may_end_before_the_lock_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let protected = folder.path().join("a");
        let held = NameLock::take(&protected, &protected, &mut LockWait::none()).unwrap();
        let (begin, limit) = (Instant::now(), Duration::from_millis(120));
        let error = NameLock::take(&protected, &protected, &mut LockWait::at_most(limit)).map(drop).unwrap_err();
        assert!(error.to_string().contains("in use by another run") && begin.elapsed() >= limit, "{error}");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                NameLock::take(&protected, &protected, &mut LockWait::at_most(Duration::from_secs(60))).is_ok()
            });
            std::thread::sleep(2 * RETRY_INTERVAL);
            drop(held);
            assert!(waiting.join().unwrap());
        });
    }

    #[test]
    fn a_lock_knows_when_its_name_was_taken_from_it() {
        let folder = tempfile::tempdir().unwrap();
        let protected = folder.path().join("a");
        let lock = NameLock::take(&protected, &protected, &mut LockWait::none()).unwrap();
        assert!(lock.is_current());
        std::fs::remove_file(sibling(&protected, "lock")).unwrap();
        let other = NameLock::take(&protected, &protected, &mut LockWait::none()).unwrap();
        assert!(!lock.is_current() && other.is_current());
        drop(lock);
        assert!(other.is_current(), "it removed the other's lock");
    }
}
