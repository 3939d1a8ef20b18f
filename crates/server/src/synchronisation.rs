//! Whether the machine's clock is synchronised.
//!
//! The kernel knows, but a hardened service and most containers may not ask it. Therefore a command is run that may:
//! `timedatectl` of systemd, whichever program sets the clock, or one that the operator names. Without an answer the
//! state is unknown, which is not an alarm.

use crate::config::ClockConfig;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// How often the command is run.
const INTERVAL: Duration = Duration::from_secs(60);
/// How long it may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long its output may take after its end.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);
/// The most bytes of its output that are read.
const MAX_OUTPUT: u64 = 1024;

/// Whether the clock is synchronised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockState {
    /// It is.
    Synchronised,
    /// It is not.
    Unsynchronised,
    /// Nobody says.
    #[default]
    Unknown,
}

impl ClockState {
    /// All states.
    pub const ALL: [Self; 3] = [Self::Synchronised, Self::Unsynchronised, Self::Unknown];

    /// The state as one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Synchronised => "synchronised",
            Self::Unsynchronised => "unsynchronised",
            Self::Unknown => "unknown",
        }
    }
}

/// The last answer of the command.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClockReport {
    /// The state.
    pub state: ClockState,
    /// The estimated error in seconds, if the command names one.
    pub error_seconds: Option<f64>,
    /// Since when it has not been synchronised.
    since: Option<Instant>,
    asked: Option<Instant>,
}

/// Watches whether the machine's clock is synchronised.
#[derive(Default)]
pub struct Synchronisation {
    setting: Mutex<ClockConfig>,
    report: Mutex<ClockReport>,
}

impl Synchronisation {
    /// Sets the command, and after what time an unsynchronised clock is a problem.
    pub fn set(&self, config: &ClockConfig) {
        let mut setting = self.setting();
        if *setting != *config {
            *setting = config.clone();
            self.locked().asked = None;
        }
    }

    fn setting(&self) -> MutexGuard<'_, ClockConfig> {
        self.setting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn locked(&self) -> MutexGuard<'_, ClockReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last answer.
    pub fn report(&self) -> ClockReport {
        *self.locked()
    }

    /// Why an operator should look at the clock, if so.
    pub fn problem(&self) -> Option<String> {
        let (limit, report) = (self.setting().unsynchronised.duration(), self.report());
        let since = report.since.filter(|since| since.elapsed() >= limit)?;
        let minutes = since.elapsed().as_secs() / 60;
        Some(format!(
            "the machine's clock has not been synchronised for {minutes} minutes: steps may close too early or too \
             late. Check the program that sets it (`timedatectl`, `chronyc tracking`)"
        ))
    }

    /// Runs the command if it is time.
    pub(crate) fn look(&self) {
        if self.report().asked.is_some_and(|asked| asked.elapsed() < INTERVAL) {
            return;
        }
        let command = self.setting().command.clone();
        let (state, error_seconds) = output_of(&command).map_or((ClockState::Unknown, None), |text| answer_in(&text));
        if self.setting().command != command {
            return; // the answer is that of an earlier setting
        }
        let mut report = self.locked();
        let since = report.since.unwrap_or_else(Instant::now);
        let since = (state == ClockState::Unsynchronised).then_some(since);
        *report = ClockReport { state, error_seconds, since, asked: Some(Instant::now()) };
    }
}

/// The answer in an output: `yes` or `no`, and possibly the estimated error in seconds.
fn answer_in(text: &str) -> (ClockState, Option<f64>) {
    let mut words = text.split_whitespace();
    let state = match words.next() {
        Some("yes") => ClockState::Synchronised,
        Some("no") => ClockState::Unsynchronised,
        _ => return (ClockState::Unknown, None),
    };
    let error = words.next().and_then(|word| word.parse::<f64>().ok());
    (state, error.filter(|error| error.is_finite() && *error >= 0.0))
}

/// The output of a command that succeeds in time.
fn output_of(command: &[String]) -> Option<String> {
    let (program, arguments) = command.split_first()?;
    let mut run = Command::new(program);
    run.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    // Programs of systemd would report their own failure to the service manager, as that of the service.
    for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"] {
        run.env_remove(name);
    }
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut run, 0);
    let mut child = run.spawn().ok()?;
    let until = Instant::now() + TIMEOUT;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
            _ => break None,
        }
    };
    // What the command has started may live on, and keep its output open.
    end_group(&child);
    let Some(status) = status else {
        drop(child.kill());
        drop(child.wait());
        return None;
    };
    let output = child.stdout.take()?;
    let (sender, text) = mpsc::channel();
    let reading = std::thread::Builder::new().name("clock".to_owned()).spawn(move || {
        let mut text = String::new();
        let read = output.take(MAX_OUTPUT).read_to_string(&mut text);
        drop(sender.send(read.is_ok().then_some(text)));
    });
    drop(reading);
    let text = text.recv_timeout(OUTPUT_TIMEOUT).ok()??;
    status.success().then_some(text)
}

/// Ends all processes of a command, whose group has no others.
fn end_group(child: &Child) {
    #[cfg(unix)]
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL); // usually, all have ended
    }
    #[cfg(not(unix))]
    let _ = child;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TimeSpan;

    #[test]
    fn answers_are_words_and_seconds() {
        use ClockState::{Synchronised, Unknown, Unsynchronised};
        for (text, expected) in [
            ("yes\n", (Synchronised, None)),
            ("no 0.5\n", (Unsynchronised, Some(0.5))),
            ("yes -1", (Synchronised, None)),
            ("yes soon", (Synchronised, None)),
            ("", (Unknown, None)),
            ("maybe 1", (Unknown, None)),
        ] {
            assert_eq!(answer_in(text), expected, "{text}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn an_unsynchronised_clock_is_a_problem_after_a_time() {
        let watched = Synchronisation::default();
        let ask = |command: &[&str], limit: i64| {
            let command = command.iter().map(|word| (*word).to_owned()).collect();
            watched.set(&ClockConfig { command, unsynchronised: TimeSpan(limit) });
            watched.look();
            (watched.report().state, watched.problem().is_some())
        };
        assert_eq!(ask(&["echo", "no 0.5"], 0), (ClockState::Unsynchronised, true));
        assert_eq!(ask(&["echo", "no 0.5"], 3_600_000_000), (ClockState::Unsynchronised, false));
        assert_eq!(watched.report().error_seconds, Some(0.5));
        assert_eq!(ask(&["echo", "yes"], 0), (ClockState::Synchronised, false));
        for silent in [&["false"][..], &["/nowhere/timedatectl"], &[]] {
            assert_eq!(ask(silent, 0), (ClockState::Unknown, false), "{silent:?}");
        }
    }
}
