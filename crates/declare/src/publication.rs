//! Publication of only some steps, and its effect on the mechanism.
//!
//! Contribution bounds, lateness and the ledger are per *step*. Values are published in *rows*, one at the end of every
//! fixed number of steps. The mechanism has its own steps, the *slots*: the fewest that make up every row. A row always
//! reads whole slots, so only the sums of slots need protection:
//!
//! | workload of the rows | slots |
//! |---|---|
//! | everything so far, or windows of whole rows | the rows themselves |
//! | other windows, if every row has the same number of steps | two per row |
//! | windows of calendar months, with steps of a day or less | 31 days for every month |
//! | anything else | the steps; only the rows among the mechanism's outputs are published |
//!
//! - *Two per row*: a window of `q` rows and `r` steps begins `r` steps before the end of a row, so it is `2q + 1`
//!   slots long.
//! - *31 days for every month*: the last ones are empty in shorter months. A window of a month is the last 31 of them,
//!   the days since the same day of the previous month.

use crate::parameter::Parameter;
use crate::problem::{Problem, sentence};
use crate::reading::Reading;
use crate::steps::{CalendarError, Every, Horizon, Period, Periods, StepCalendar, StepUnit as Width};
use evertally::mechanism::Workload;
use evertally::privacy::{PersonBounds, Unit};

/// The slots that make up rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slots {
    /// Every step.
    Steps,
    /// Every row.
    Rows,
    /// Two per row; the newer one has this many steps.
    Halves(u64),
    /// This many per day, and 31 days for every calendar month.
    Months(u64),
}

/// The number of days of every month, in slots.
const MONTH: u64 = 31;

impl Slots {
    /// The number of slots in a row of `steps` steps.
    pub fn slots_per_row(self, steps: u64) -> u64 {
        match self {
            Self::Steps | Self::Months(_) => steps,
            Self::Rows => 1,
            Self::Halves(_) => 2,
        }
    }

    /// The maximum number of steps in a slot, with at most `steps` steps in a row.
    fn longest(self, steps: u64) -> u64 {
        match self {
            Self::Steps | Self::Months(_) => 1,
            Self::Rows => steps,
            Self::Halves(newer) => newer.max(steps - newer),
        }
    }

    /// The slots and the workload over them that publish a reading at every row of `row` steps. The widths in time are
    /// those of a step and of a row, if there is a calendar. `row` is `None` if rows differ.
    ///
    /// # Errors
    /// If a time is not a whole number of steps.
    pub fn reading(
        reading: Reading,
        row: Option<u64>,
        (every, publish): (Option<Every>, Option<Every>),
    ) -> Result<(Self, Workload), Problem> {
        if let (Reading::Window(_), Some(publish)) = (reading, publish)
            && let Ok(workload) = reading.in_steps(Some(publish))
        {
            return Ok((Self::Rows, workload));
        }
        let workload = reading.in_steps(every)?;
        Ok(match (workload, row) {
            (Workload::Sum | Workload::Increments, _) => (Self::Rows, workload),
            (Workload::Window(width), Some(row)) => match (width / row, width % row) {
                (rows, 0) => (Self::Rows, Workload::Window(rows)),
                // 2 rows + 1 fits: a row has 2 steps or more.
                (rows, newer) => (Self::Halves(newer), Workload::Window(2 * rows + 1)),
            },
            _ => (Self::Steps, workload),
        })
    }

    /// The unit for the mechanism, with bounds on slots instead of steps, if rows have at most `steps` steps. Data that
    /// respect the per-step bounds respect these too.
    ///
    /// A slot of `n` steps has events in at most `⌈n/gap⌉` of them, and steps that are `gap` apart are in slots that
    /// are at least `⌊gap/n⌋` apart. A period touches at most `period` slots.
    #[must_use]
    pub fn unit(self, unit: Unit, steps: u64, period: Option<u64>) -> Unit {
        let Some(bounds) = unit.bounds() else { return unit };
        let (longest, gap) = (self.longest(steps), bounds.min_gap.unwrap_or(1).max(1));
        let active = longest.div_ceil(gap);
        Unit::Person(PersonBounds {
            max_events_per_step: bounds.max_events_per_step.map(|events| {
                // A bound above the total is not a bound.
                if active == 1 { events } else { events.saturating_mul(active).min(bounds.max_events.max(events)) }
            }),
            min_gap: Some(gap / longest).filter(|slots| *slots > 1),
            period: bounds.period.and(period),
            ..bounds
        })
    }

    /// The most slots that a period of `period` steps touches, if every row has `row` steps.
    pub fn touched(self, period: u64, row: u64) -> u64 {
        let rows = if period.is_multiple_of(row) { period / row } else { (period - 1).div_ceil(row) + 1 };
        match self {
            Self::Steps | Self::Months(_) => period,
            Self::Rows => rows,
            Self::Halves(_) => rows.saturating_mul(2),
        }
    }

    /// The slots of calendar months, and the window in slots; `None` if the steps do not divide all days into equally
    /// many parts.
    pub fn from_months(steps: &StepCalendar, window: Every) -> Option<(Self, Workload)> {
        let months = match window.unit() {
            Width::Month => 1,
            Width::Year => 12,
            _ => return None,
        };
        const DAY: i64 = 86_400;
        let per_day = match (steps.every().unit(), steps.every().seconds()?) {
            (Width::Day, DAY) => 1,
            (Width::Second | Width::Minute | Width::Hour, seconds)
                if DAY % seconds == 0 && steps.zone().fixed_offset().is_some() =>
            {
                (DAY / seconds) as u64 // fits: positive
            }
            _ => return None,
        };
        // Where a step begins in the gap of a clock change, it can begin on the date of the next step.
        let rises = |step: u64| place_in_months(steps, step, per_day) < place_in_months(steps, step + 1, per_day);
        if steps.zone().fixed_offset().is_none() && !steps.is_date_only() && !(1..steps.steps()).all(rises) {
            return None;
        }
        let months = months * u64::from(window.count());
        Some((Self::Months(per_day), Workload::Window(months.checked_mul(MONTH * per_day)?)))
    }
}

/// The place of a step, if every month has 31 days, and every day `per_day` places.
fn place_in_months(steps: &StepCalendar, step: u64, per_day: u64) -> i64 {
    let start = steps.start_of(step).timestamp().expect("checked when the steps were laid out");
    let civil = steps.zone().time_zone().to_datetime(start);
    let month = i64::from(civil.year()) * 12 + i64::from(civil.month()) - 1;
    let day = month * MONTH as i64 + i64::from(civil.day());
    let second = i64::from(civil.hour()) * 3600 + i64::from(civil.minute()) * 60 + i64::from(civil.second());
    day * per_day as i64 + second * per_day as i64 / 86_400 // fits: years have four digits
}

/// The published steps of a calendar.
///
/// ```
/// use evertally_declare::publication::{Publication, Slots};
/// use evertally_declare::steps::{Horizon, Instant, StepCalendar, Zone};
/// let (start, week) = (Instant::from_micros(0), "1w".parse().unwrap());
/// let days = StepCalendar::new(start, Horizon::Steps(28), "1d".parse().unwrap(), Zone::utc()).unwrap();
/// let weekly = Publication::new(&days, week).unwrap().with_slots(Slots::Rows);
/// assert_eq!((weekly.slot_ending(6), weekly.slot_ending(7), weekly.rows_through(20)), (None, Some(1), 2));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    steps: StepCalendar,
    rows: StepCalendar,
    slots: Slots,
    /// The least and the largest number of steps in a row.
    widths: (u64, u64),
}

impl Publication {
    /// One row at the end of each period; the first period begins with the first step.
    ///
    /// # Errors
    /// If a row would end inside a step, if the horizon does not end with a row, or if each step is a row.
    pub fn new(steps: &StepCalendar, period: Period) -> Result<Self, Problem> {
        let parameter = Parameter::Publish;
        let refuse = |why: String| Problem::for_parameter(parameter, sentence![parameter, format!(" {period}: {why}")]);
        let every = row_every(steps.every(), period).ok_or_else(|| refuse("that is too long".into()))?;
        let rows = StepCalendar::new(steps.start(), Horizon::Until(steps.end()), every, steps.zone().clone());
        let rows = rows.map_err(|problem| match problem {
            CalendarError::EndInsideStep { end, before, after, .. } => {
                let before = before.map_or(String::new(), |before| format!("{} and ", steps.format(before)));
                let (end, after) = (steps.format(end), steps.format(after));
                refuse(format!(
                    "the horizon ends at {end}, between two publications; the nearest are at {before}{after}"
                ))
            }
            problem => Problem::new(problem.sentence()),
        })?;
        let mut widths = (u64::MAX, 0);
        let mut before = 0;
        let is_even = steps.width().zip(rows.width());
        for row in 1..=if is_even.is_some() { 1 } else { rows.steps() } {
            let end = rows.end_of(row);
            let through =
                if end == steps.end() { steps.steps() } else { steps.step_of(end).map_or(0, |next| next - 1) };
            if through == 0 || steps.end_of(through) != end {
                let (end, every) = (rows.format(end), steps.every());
                return Err(refuse(format!("the publication of {end} would cut a step of {every}"))
                    .remedy(sentence!["publish at ends of steps, or choose a narrower ", Parameter::Every]));
            }
            widths = (widths.0.min(through - before), widths.1.max(through - before));
            before = through;
        }
        if widths.1 == 1 {
            return Err(refuse("that is every step".into()).remedy("omit it"));
        }
        Ok(Self { steps: steps.clone(), rows, slots: Slots::Rows, widths })
    }

    /// Every step, for a mechanism with other slots.
    pub fn all_steps(steps: &StepCalendar, slots: Slots) -> Self {
        Self { steps: steps.clone(), rows: steps.clone(), slots, widths: (1, 1) }
    }

    /// Whether every step is published.
    pub fn is_every_step(&self) -> bool {
        self.widths.1 == 1
    }

    /// This publication with other slots.
    #[must_use]
    pub fn with_slots(self, slots: Slots) -> Self {
        Self { slots, ..self }
    }

    /// The calendar of the rows, one step per row.
    pub fn rows(&self) -> &StepCalendar {
        &self.rows
    }

    /// The slots that make up the rows.
    pub fn slots(&self) -> Slots {
        self.slots
    }

    /// The number of steps of every row; `None` if rows differ.
    pub fn row_width(&self) -> Option<u64> {
        (self.widths.0 == self.widths.1).then_some(self.widths.0)
    }

    /// The largest number of steps in a row.
    pub fn longest_row(&self) -> u64 {
        self.widths.1
    }

    /// The number of slots of the horizon.
    pub fn slot_count(&self) -> u64 {
        self.slots_through(self.steps.steps())
    }

    /// The row that ends with this step, if any.
    pub fn row_ending(&self, step: u64) -> Option<u64> {
        let row = self.rows_through(step);
        (row > 0 && self.rows.end_of(row) == self.steps.end_of(step)).then_some(row)
    }

    /// The number of rows that have ended when a step ends; 0 before the first step.
    pub fn rows_through(&self, step: u64) -> u64 {
        if step == 0 {
            return 0;
        }
        let end = self.steps.end_of(step);
        self.rows.step_of(end).map_or(self.rows.steps(), |open| open - 1)
    }

    /// The last step of a row.
    pub fn last_step_of(&self, row: u64) -> u64 {
        if row == 0 {
            return 0;
        }
        self.steps.step_of(self.rows.end_of(row)).map_or(self.steps.steps(), |next| next - 1)
    }

    /// The number of slots that have ended when a step ends; 0 before the first step.
    pub fn slots_through(&self, step: u64) -> u64 {
        let rows = self.rows_through(step);
        match self.slots {
            Slots::Steps => step,
            Slots::Rows => rows,
            Slots::Halves(_) if rows == self.rows.steps() => 2 * rows,
            Slots::Halves(newer) => 2 * rows + u64::from(step + newer >= self.last_step_of(rows + 1)),
            Slots::Months(per_day) if step == self.steps.steps() => self.slot_of_month(step, per_day),
            // Including those after the end of a shorter month.
            Slots::Months(per_day) => self.slot_of_month(step + 1, per_day) - 1,
        }
    }

    /// The slot that ends with this step, if any.
    pub fn slot_ending(&self, step: u64) -> Option<u64> {
        if let Slots::Months(per_day) = self.slots {
            return Some(self.slot_of_month(step, per_day));
        }
        let slot = self.slots_through(step);
        (slot > self.slots_through(step - 1)).then_some(slot)
    }

    /// The slot of a step, counted from the first step, if every month has 31 days.
    fn slot_of_month(&self, step: u64, per_day: u64) -> u64 {
        let place = |step: u64| place_in_months(&self.steps, step, per_day);
        (place(step) - place(1)) as u64 + 1 // fits: steps rise
    }

    /// The last slot of a row, at whose end the mechanism outputs the row.
    pub fn slot_of_row(&self, row: u64) -> u64 {
        match self.slots {
            Slots::Steps => self.last_step_of(row),
            Slots::Rows => row,
            Slots::Halves(_) => 2 * row,
            Slots::Months(_) if row == 0 => 0,
            Slots::Months(per_day) => self.slot_of_month(self.last_step_of(row), per_day),
        }
    }

    /// The row that the mechanism outputs at the end of a slot, if any.
    pub fn row_of_slot(&self, slot: u64) -> Option<u64> {
        match self.slots {
            Slots::Steps => self.row_ending(slot),
            Slots::Rows => Some(slot),
            Slots::Halves(_) => slot.is_multiple_of(2).then_some(slot / 2),
            Slots::Months(per_day) => {
                let (mut low, mut high) = (1, self.steps.steps().min(slot)); // no slot is before its step's number
                while low < high {
                    let middle = low + (high - low) / 2;
                    if self.slot_of_month(middle, per_day) < slot { low = middle + 1 } else { high = middle }
                }
                (self.slot_of_month(low, per_day) == slot).then(|| self.row_ending(low))?
            }
        }
    }

    /// The largest number of slots that one of the periods touches.
    pub fn touched(&self, periods: &Periods) -> Option<u64> {
        let longest = periods.longest()?;
        let is_even = self.steps.width().is_some() && !matches!(self.slots, Slots::Months(_));
        if let (true, Some(row)) = (is_even, self.row_width()) {
            return Some(self.slots.touched(longest, row));
        }
        let (mut first, mut most) = (1, 1);
        while first <= self.steps.steps() {
            let period = periods.of(first);
            let last = (period.end - 1).min(self.steps.steps());
            let rows = self.rows_through(last - 1) - self.rows_through(first - 1) + 1;
            most = most.max(match self.slots {
                Slots::Steps => last - first + 1,
                Slots::Rows => rows,
                Slots::Halves(_) => 2 * rows,
                Slots::Months(per_day) => self.slot_of_month(last, per_day) - self.slot_of_month(first, per_day) + 1,
            });
            first = period.end;
        }
        Some(most)
    }
}

/// The width in time of a row, which may be declared as a number of steps; `None` if it is too long.
pub fn row_every(step: Every, period: Period) -> Option<Every> {
    match period {
        Period::Time(every) => Some(every),
        Period::Steps(steps) => Every::new(u32::try_from(steps).ok()?.checked_mul(step.count())?, step.unit()),
    }
}

#[cfg(test)]
mod tests;
