//! Warns, before anything is published, that bounds over the whole history make late counts too low.

use evertally::plan::PlanRequest;
use evertally_declare::parameter::Parameter::{MaxEvents, Per};
use evertally_declare::problem::{Sentence, sentence};
use evertally_declare::steps::{Periods, StepCalendar};

/// The warning for bounds that hold for the whole history and are used up before the horizon ends by a person with one
/// counted event in every step. `period` is the remedy to suggest, if there is one. No data are read.
///
/// ```
/// use evertally::plan::PlanRequest;
/// use evertally::privacy::{Budget, Rho, Unit};
/// use evertally_publish::bounds::fall_behind;
/// use evertally_declare::problem::Wording;
/// let days = PlanRequest::count(366, Budget::Zcdp(Rho::new(0.5)?)).with_unit(Unit::person(100));
/// let text = fall_behind(&days, Some("month")).unwrap().worded(Wording::Flags);
/// assert!(text.contains("step 100 of 366") && text.ends_with("--per month restarts the bound in each period"));
/// assert!(fall_behind(&days.clone().with_unit(Unit::person(100).per_period(31)), Some("month")).is_none());
/// assert!(fall_behind(&days.with_unit(Unit::person(366)), None).is_none());
/// # Ok::<(), evertally::Error>(())
/// ```
pub fn fall_behind(request: &PlanRequest, period: Option<&str>) -> Option<Sentence> {
    let bounds = request.unit().bounds().filter(|bounds| bounds.period.is_none())?;
    let (events, gap, steps) = (bounds.max_events, bounds.min_gap.unwrap_or(1), request.horizon());
    let last = (events - 1).saturating_mul(gap).saturating_add(1);
    let of = if request.is_unbounded() { "of a count without end".to_owned() } else { format!("of {steps}") };
    let bound = if events == 1 { "1 event".to_owned() } else { format!("{events} events") };
    let remedy = match period {
        Some(period) => sentence![(Per, period.to_owned()), " restarts the bound in each period"],
        None => sentence!["a larger ", MaxEvents, " counts more of them"],
    };
    (last < steps).then(|| {
        let what = format!(
            "the bound of {bound} holds for the whole history: a person with an event in every step is counted only \
             through step {last} {of}, so later counts are too low and the series seems to level off; "
        );
        Sentence::from(what).then(remedy)
    })
}

/// A calendar period that fits into the horizon several times and spans several steps, if there is one.
pub fn natural_period(calendar: &StepCalendar) -> Option<&'static str> {
    let fits = |name: &&str| {
        let periods = Periods::new(calendar, name.parse().expect("the name of a period"));
        periods.is_ok_and(|periods| periods.count(calendar.steps()) > 2 && periods.longest() > Some(1))
    };
    ["year", "month", "week", "day"].into_iter().find(fits)
}
