//! A progress bar for reading.

use std::io::IsTerminal;
use std::time::Duration;

use evertally_tables::progress::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar in bytes on standard error if that is a terminal (a spinner if the size is unknown); silent otherwise.
#[derive(Debug)]
pub struct ProgressOnTerminal {
    bar: Option<ProgressBar>,
}

impl ProgressOnTerminal {
    /// Creates a bar, shown only if standard error is a terminal.
    #[expect(clippy::new_without_default, reason = "the result depends on the terminal")]
    pub fn new() -> Self {
        let shown = std::io::stderr().is_terminal();
        // Drawn from the start of reading on: there may be questions before.
        Self { bar: shown.then(ProgressBar::hidden) }
    }
}

impl Progress for ProgressOnTerminal {
    fn start(&self, total: Option<u64>) {
        let Some(bar) = &self.bar else { return };
        bar.set_draw_target(ProgressDrawTarget::stderr());
        match total {
            Some(total) => {
                bar.set_length(total);
                bar.set_style(style("{bar:40} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta} left"));
            }
            None => {
                bar.set_style(style("{spinner} {bytes} read {binary_bytes_per_sec}"));
                bar.enable_steady_tick(Duration::from_millis(200));
            }
        }
    }

    fn advance(&self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(bytes);
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for ProgressOnTerminal {
    // An error message must not follow a half-drawn bar on its line.
    fn drop(&mut self) {
        self.finish();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
