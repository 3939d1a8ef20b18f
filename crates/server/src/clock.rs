//! The service's clock, and when to doubt the machine's.
//!
//! The clock closes steps, and a closed step stays closed. A clock that jumps a year ahead would close a year of steps
//! before their events can arrive. Therefore a jump is believed only after it has lasted, and time never goes
//! backwards.

use evertally_declare::steps::Instant;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant as Monotonic, SystemTime};

/// Tells the time.
pub trait Clock: Send + Sync {
    /// The time now. It never goes backwards.
    fn now(&self) -> Instant;

    /// Why the time differs from the machine's clock, in words for the operator; `None` if it does not.
    fn doubt(&self) -> Option<String> {
        None
    }

    /// Tells the clock that this time was reached before it was started: if it shows an earlier one, it is wrong, and
    /// its correction needs no proof.
    fn has_reached(&self, time: Instant) {
        let _ = time;
    }

    /// How long this clock takes, in real time, to reach `time`; `None` if that cannot be predicted.
    fn wait_for(&self, time: Instant) -> Option<Duration>;
}

/// The difference between clocks that is always accepted, in microseconds: a leap second, or a short sleep of the
/// machine.
const MAX_CLOCK_SKEW_MICROS: i64 = 60_000_000;

/// How long the machine's clock must stay ahead before it is believed.
const JUMP_ACCEPTED_AFTER: Duration = Duration::from_secs(600);

/// The machine's clock, checked against a monotonic one.
pub struct SystemClock(Mutex<Steady>);

struct Steady {
    /// The last time returned, and when it was returned.
    reported: i64,
    at: Monotonic,
    /// Since when the machine's clock has been ahead.
    ahead_since: Option<Monotonic>,
    /// A time that was reached before this start.
    floor: i64,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self(Mutex::new(Steady { reported: machine(), at: Monotonic::now(), ahead_since: None, floor: i64::MIN }))
    }
}

fn machine() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_micros().try_into().unwrap_or(i64::MAX)
}

impl Steady {
    /// The time to return if the machine's clock shows `machine`.
    fn at(&mut self, machine: i64, now: Monotonic) -> i64 {
        let passed = i64::try_from(now.duration_since(self.at).as_micros()).unwrap_or(i64::MAX);
        let counted = self.reported.saturating_add(passed);
        let is_corrected = self.reported < self.floor && machine >= self.floor;
        let reported = if machine > counted.saturating_add(MAX_CLOCK_SKEW_MICROS) && !is_corrected {
            let since = *self.ahead_since.get_or_insert(now);
            if now.duration_since(since) >= JUMP_ACCEPTED_AFTER { machine } else { counted }
        } else {
            self.ahead_since = None;
            // The machine's clock is late: time stands still until it has caught up.
            machine.max(self.reported)
        };
        if reported == machine {
            self.ahead_since = None;
        }
        (self.reported, self.at) = (reported, now);
        reported
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        let mut steady = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Instant::from_micros(steady.at(machine(), Monotonic::now()))
    }

    fn doubt(&self) -> Option<String> {
        let now = self.now();
        let steady = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let by = machine().saturating_sub(now.micros()) / 1_000_000;
        if steady.ahead_since.is_some() {
            return Some(format!(
                "the machine's clock has jumped {by} s ahead; steps follow the old time until the jump has lasted ten \
                 minutes. Correct the clock, or wait"
            ));
        }
        (by < -MAX_CLOCK_SKEW_MICROS / 1_000_000).then(|| {
            format!("the machine's clock has gone back by {} s; no step is closed until it has caught up", -by)
        })
    }

    fn has_reached(&self, time: Instant) {
        let mut steady = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        steady.floor = steady.floor.max(time.micros());
    }

    fn wait_for(&self, time: Instant) -> Option<Duration> {
        let left = time.micros().saturating_sub(self.now().micros());
        Some(Duration::from_micros(left.max(0).unsigned_abs()))
    }
}

/// A clock that stands still until [`go`](Self::go) is called, and then runs `speed` times as fast as real time: for
/// demonstrations.
pub struct FastClock {
    start: Instant,
    began: OnceLock<Monotonic>,
    speed: f64,
}

impl FastClock {
    /// Starts at `start`, with a speed of at least 1.
    pub fn new(start: Instant, speed: f64) -> Self {
        Self { start, began: OnceLock::new(), speed: speed.max(1.0) }
    }

    /// Starts the clock.
    pub fn go(&self) {
        self.began.get_or_init(Monotonic::now);
    }
}

impl Clock for FastClock {
    fn now(&self) -> Instant {
        let passed = self.began.get().map_or(0.0, |began| began.elapsed().as_secs_f64() * self.speed * 1e6);
        Instant::from_micros(self.start.micros().saturating_add(passed as i64)) // saturates
    }

    fn wait_for(&self, time: Instant) -> Option<Duration> {
        self.began.get()?;
        let left = time.micros().saturating_sub(self.now().micros()).max(0);
        Some(Duration::from_secs_f64(left as f64 / 1e6 / self.speed))
    }
}

/// A clock that stands still until it is set: for tests.
#[derive(Default)]
pub struct ManualClock(Mutex<i64>);

impl ManualClock {
    /// A clock that shows `time`.
    pub fn at(time: Instant) -> Self {
        Self(Mutex::new(time.micros()))
    }

    /// Sets the time; a time in the past changes nothing.
    pub fn set(&self, time: Instant) {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *now = time.micros().max(*now);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        Instant::from_micros(*self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn wait_for(&self, _: Instant) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_is_believed_once_it_has_lasted() {
        let began = Monotonic::now();
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        let second = 1_000_000;
        let mut steady = Steady { reported: 0, at: began, ahead_since: None, floor: i64::MIN };
        assert_eq!(steady.at(5 * second, at(5)), 5 * second);
        // A year ahead: time follows the seconds.
        let year = 365 * 86_400 * second;
        assert_eq!(steady.at(year + 6 * second, at(6)), 6 * second);
        assert_eq!(steady.at(year + 100 * second, at(100)), 100 * second);
        // Corrected before ten minutes are over.
        assert_eq!(steady.at(200 * second, at(200)), 200 * second);
        assert_eq!(steady.at(year + 300 * second, at(300)), 300 * second);
        assert_eq!(steady.at(year + 899 * second, at(899)), 899 * second);
        assert_eq!(steady.at(year + 900 * second, at(900)), year + 900 * second);
        // Backwards: it stands still.
        assert_eq!(steady.at(901 * second, at(901)), year + 900 * second);
    }

    #[test]
    fn the_correction_of_a_slow_clock_is_believed_at_once() {
        let began = Monotonic::now();
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        let (second, year) = (1_000_000, 365 * 86_400 * 1_000_000);
        let mut steady = Steady { reported: 0, at: began, ahead_since: None, floor: year };
        assert_eq!(steady.at(5 * second, at(5)), 5 * second);
        // A jump that does not reach the known time is doubted, one that does is not.
        assert_eq!(steady.at(year - second, at(6)), 6 * second);
        assert_eq!(steady.at(year + 90 * second, at(7)), year + 90 * second);
        assert_eq!(steady.at(2 * year, at(8)), year + 91 * second);
    }
}
