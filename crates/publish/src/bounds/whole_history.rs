//! What bounds over a whole history do to late counts: known, and to be said, before anything is published.

use evertally::plan::PlanRequest;
use evertally_declare::parameter::Parameter::Per;
use evertally_declare::problem::{Sentence, sentence};
use evertally_declare::steps::{Periods, StepCalendar};

/// What a reader has to know where the bounds on a person's events hold for the whole history, and are used up before the
/// horizon ends by somebody with an event in every step that counts; `period` is what would help. Nobody's data are looked
/// at.
///
/// ```
/// use evertally::plan::PlanRequest;
/// use evertally::privacy::{Budget, Rho, Unit};
/// use evertally_publish::bounds::fall_behind;
/// use evertally_declare::problem::Wording;
/// let days = PlanRequest::count(366, Budget::Zcdp(Rho::new(0.5)?)).with_unit(Unit::person(100));
/// let text = fall_behind(&days, "month").unwrap().worded(Wording::Flags);
/// assert!(text.contains("step 100 of 366") && text.ends_with("--per month lets the bound start anew in each period"));
/// assert!(fall_behind(&days.clone().with_unit(Unit::person(100).per_period(31)), "month").is_none());
/// assert!(fall_behind(&days.with_unit(Unit::person(366)), "month").is_none());
/// # Ok::<(), evertally::Error>(())
/// ```
pub fn fall_behind(request: &PlanRequest, period: &str) -> Option<Sentence> {
    let bounds = request.unit().bounds().filter(|bounds| bounds.period.is_none())?;
    let (events, gap, steps) = (bounds.max_events, bounds.min_gap.unwrap_or(1), request.horizon());
    let last = (events - 1).saturating_mul(gap).saturating_add(1);
    let of = if request.is_unbounded() { "of a count without end".to_owned() } else { format!("of {steps}") };
    (last < steps).then(|| {
        sentence![
            format!(
                "the bound of {events} events holds for the whole history: who has one in every step is counted through \
                 step {last} {of} and no further, so that late counts fall behind, like a slowdown that never was; "
            ),
            (Per, period.to_owned()),
            " lets the bound start anew in each period"
        ]
    })
}

/// A period of the calendar of which the horizon has several, of several steps each; or else a number of steps.
pub fn natural_period(calendar: &StepCalendar) -> String {
    let fits = |name: &&str| {
        let periods = Periods::new(calendar, name.parse().expect("the name of a period"));
        periods.is_ok_and(|periods| periods.count(calendar.steps()) > 2 && periods.longest() > Some(1))
    };
    let named = ["year", "month", "week", "day"].into_iter().find(fits);
    named.map_or_else(|| calendar.steps().div_ceil(4).to_string(), str::to_owned)
}
