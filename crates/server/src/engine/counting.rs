//! The counting thread: decides everything that depends on order.

use super::Receipt;
use super::core::Core;
use super::info::StreamInfo;
use super::prepare::PreparedBatch;
use super::refusal::Refusal;
use crate::clock::Clock;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

/// The most batches in one commit.
const MAX_BATCHES_PER_COMMIT: usize = 1024;

/// How long the thread waits for a request before it checks the clock again.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// A request to the thread.
pub(super) enum Request {
    Take(Arc<StreamInfo>, PreparedBatch, SyncSender<Result<Receipt, Refusal>>),
    Do(Box<dyn FnOnce(&mut Core) + Send>),
    Stop,
}

/// Whether the disk has failed permanently for this process. Memory may be ahead of the disk: a restart begins from the
/// disk.
fn is_lost(core: &Core) -> bool {
    let is_lost = core.store.is_lost();
    if is_lost {
        tracing::error!("the disk of the data folder has failed: nothing is accepted or published until a restart");
    }
    is_lost
}

/// The problems already logged.
#[derive(Default)]
struct Log {
    looked: Option<std::time::Instant>,
    logged: Vec<String>,
}

impl Log {
    /// Logs each problem once, and its end.
    fn look(&mut self, core: &Core) {
        if self.looked.is_some_and(|looked| looked.elapsed() < Duration::from_secs(1)) {
            return;
        }
        self.looked = Some(std::time::Instant::now());
        let problems = core.problems();
        // Times in a problem do not make it another one.
        let kinds: Vec<String> =
            problems.iter().map(|problem| problem.replace(|c: char| c.is_ascii_digit(), "")).collect();
        for (problem, _) in problems.iter().zip(&kinds).filter(|(_, kind)| !self.logged.contains(kind)) {
            tracing::error!(problem = %problem, "problem");
        }
        if problems.is_empty() && !self.logged.is_empty() {
            tracing::info!("all problems are solved");
        }
        self.logged = kinds;
    }
}

/// Counts until it receives a request to stop.
pub(super) fn run(mut core: Core, waiting: &Receiver<Request>, clock: &dyn Clock) {
    let mut log = Log::default();
    loop {
        core.beat();
        let next = match core.tick() {
            Ok(next) => next,
            Err(error) => {
                tracing::error!(error = %error, "cannot write to the data folder");
                core.store_problem = Some(error.to_string());
                None
            }
        };
        if core.store_problem.is_some() && is_lost(&core) {
            return;
        }
        log.look(&core);
        let wait = next.and_then(|next| clock.wait_for(next)).map_or(POLL_INTERVAL, |wait| wait.min(POLL_INTERVAL));
        let mut request = match waiting.recv_timeout(wait) {
            Ok(request) => Some(request),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Request::Stop),
        };
        let (mut batches, mut answers) = (Vec::new(), Vec::new());
        let mut then = None;
        while let Some(next) = request.take() {
            match next {
                Request::Take(info, prepared, answer) => {
                    batches.push((info, prepared));
                    answers.push(answer);
                    if batches.len() < MAX_BATCHES_PER_COMMIT {
                        request = waiting.try_recv().ok();
                    }
                }
                other => then = Some(other),
            }
        }
        if !batches.is_empty() {
            for (answer, receipt) in answers.iter().zip(core.accept(batches)) {
                if let Err(refusal @ (Refusal::Other(_) | Refusal::DiskFull(_))) = &receipt {
                    core.store_problem = Some(refusal.to_string());
                }
                let _ = answer.send(receipt); // a client that is gone may ask again
            }
            if core.store_problem.is_some() && is_lost(&core) {
                return;
            }
        }
        match then {
            Some(Request::Do(what)) => what(&mut core),
            Some(Request::Stop) => break,
            _ => {}
        }
    }
    core.checkpoint_all();
}
