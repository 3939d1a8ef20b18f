//! Sharing work among threads.

use std::sync::{Mutex, PoisonError};

/// A thread is worth its start for so many coordinates.
const WORTH_A_THREAD: usize = 1 << 17;

/// Does all tasks: this thread and up to `threads - 1` more take one after the other.
///
/// A system that grants fewer threads, or none, makes it slower and nothing else: noise that is missing in some
/// coordinates would be worse.
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

/// How many threads help with so many coordinates; 0 are as many as there are processors.
pub fn helpful(threads: usize, len: usize) -> usize {
    let most = len / WORTH_A_THREAD;
    if most < 2 {
        return 1;
    }
    asked(threads).min(most)
}

/// A number of threads; for 0, that of processors.
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
