//! The last step that a run publishes: the declared one, or the last that has ended by the clock. The data must never
//! decide it, because then the number of rows would depend on the data.

use crate::declaration::Closing;
use crate::parameter::Parameter::{All, Through};
use crate::problem::{Problem, SentencePart, sentence};
use crate::steps::{Instant, StepCalendar};

/// The last step that a run publishes. `published` is the last published step of the stream (0 before its first run),
/// and `asked` is the last declared step. The result is never before `published`: no run makes a table shorter.
///
/// # Errors
/// If the last step was not declared, and the clock would finish a stream that has not begun, or no step has ended yet.
///
/// ```
/// use evertally_declare::closing::last_step;
/// use evertally_declare::declaration::Closing;
/// use evertally_declare::steps::{Horizon, Instant, StepCalendar, Zone};
/// let start = Instant::from_micros(0);
/// let days = StepCalendar::new(start, Horizon::Steps(10), "1d".parse().unwrap(), Zone::utc()).unwrap();
/// let noon_of_day_4 = Instant::from_micros((3 * 24 + 12) * 3_600_000_000);
/// assert_eq!(last_step(&days, Closing::Clock, 10, 0, noon_of_day_4).unwrap(), 3);
/// assert_eq!(last_step(&days, Closing::All, 10, 0, noon_of_day_4).unwrap(), 10);
/// assert_eq!(last_step(&days, Closing::Through, 2, 3, noon_of_day_4).unwrap(), 3);
/// ```
pub fn last_step(
    calendar: &StepCalendar,
    closing: Closing,
    asked: u64,
    published: u64,
    now: Instant,
) -> Result<u64, Problem> {
    let last = match closing {
        Closing::Through | Closing::All => asked,
        Closing::Clock => ended(calendar, now),
    };
    if closing == Closing::Clock && published == 0 {
        if last == 0 {
            let end = calendar.format(calendar.end_of(1));
            return Err(
                Problem::new(format!("no step has ended yet: the first ends at {end}")).remedy("run again then")
            );
        }
        if last == calendar.steps() {
            let (steps, end) = (calendar.steps(), calendar.format(calendar.end()));
            let problem =
                format!("all {steps} steps have ended, the last at {end}, and publishing them finishes the stream");
            let remedy =
                sentence!["confirm with ", All, ", or set the last step with ", SentencePart::Example(Through)];
            return Err(Problem::new(problem).remedy(remedy));
        }
    }
    Ok(last.max(published))
}

/// The number of steps that have ended by now.
fn ended(calendar: &StepCalendar, now: Instant) -> u64 {
    match calendar.step_of(now) {
        Some(open) => open - 1,
        None if now < calendar.start() => 0,
        None => calendar.steps(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::{Horizon, Zone};

    #[test]
    fn the_clock_finishes_only_what_has_begun() {
        let hour = |hours: i64| Instant::from_micros(hours * 3_600_000_000);
        let calendar = StepCalendar::new(hour(0), Horizon::Steps(5), "1h".parse().unwrap(), Zone::utc()).unwrap();
        let last = |published, now| last_step(&calendar, Closing::Clock, 5, published, hour(now));
        assert!(last(0, -1).unwrap_err().to_string().contains("the first ends at 1970-01-01T01:00:00Z"));
        assert!(last(0, 0).is_err());
        assert_eq!(last(0, 1), Ok(1));
        assert_eq!(last(0, 4), Ok(4));
        let finished = last(0, 5).unwrap_err().to_string();
        assert!(finished.contains("--all") && finished.contains("--through"), "{finished}");
        assert_eq!(last(4, 5), Ok(5));
        assert_eq!(last(3, 1), Ok(3), "never shorter");
        assert_eq!(last_step(&calendar, Closing::Through, 2, 3, hour(9)), Ok(3));
    }
}
