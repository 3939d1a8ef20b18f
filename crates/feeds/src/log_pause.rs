//! How often the log repeats itself.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_secs(60);

/// Lets one message through per minute: its cause costs others nothing, or lasts.
#[derive(Debug, Default)]
pub struct LogPause(Mutex<Option<Instant>>);

impl LogPause {
    /// Whether a message may be logged now. Then the next one waits.
    pub fn is_over(&self) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = last.is_none_or(|last| last.elapsed() >= INTERVAL);
        if is_over {
            *last = Some(Instant::now());
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::LogPause;

    #[test]
    fn the_second_message_waits() {
        let pause = LogPause::default();
        assert!(pause.is_over() && !pause.is_over());
    }
}
