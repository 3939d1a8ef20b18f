//! Sharing work among threads.

use std::sync::{Mutex, PoisonError};

/// Number of coordinates from which a thread is worth its start.
const WORTH_A_THREAD: usize = 1 << 17;

/// Runs all tasks: this thread and up to `threads - 1` others take one task after another.
///
/// If the system grants fewer threads, or none, this is only slower: missing noise in some coordinates would be
/// worse.
pub fn share<T>(
    threads: usize,
    tasks: impl Iterator<Item = T> + Send,
    work: impl Fn(&mut dyn Iterator<Item = T>) + Sync,
) {
    let queue = Mutex::new(tasks);
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || work(&mut std::iter::from_fn(next));
    if threads == 1 {
        return work();
    }
    std::thread::scope(|scope| {
        for _ in 1..threads {
            if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
}

/// The number of threads that help with this many coordinates; 0 means as many as processors.
pub fn helpful(threads: usize, len: usize) -> usize {
    let most = len / WORTH_A_THREAD;
    if most < 2 {
        return 1;
    }
    asked(threads).min(most)
}

/// A number of threads; 0 means the number of processors.
pub fn asked(threads: usize) -> usize {
    if threads > 0 { threads } else { std::thread::available_parallelism().map_or(1, usize::from) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_used_where_they_help() {
        assert_eq!(helpful(8, WORTH_A_THREAD), 1);
        assert_eq!(helpful(8, 3 * WORTH_A_THREAD), 3);
        assert_eq!(helpful(2, 100 * WORTH_A_THREAD), 2);
    }
}
