//! The release for which bounds are chosen, and the time range of the estimate.

use crate::failure::usage;
use anyhow::Result;
use evertally::plan::{NoiseKind, Objective, PlanRequest};
use evertally::privacy::{Budget, Neighbours};
use evertally_declare::declaration::{Declaration, Labels, Parameter, Settings, parse_time};
use evertally_declare::error;
use evertally_declare::steps::{Horizon, StepCalendar};
use evertally_declare::words::quoted;
use evertally_publish::bounds::{Candidates, Choices, ContributionEstimate, Stretch};

/// The planned release, with open bounds.
pub(super) struct PlannedRelease {
    declaration: Declaration,
    stretch: Stretch,
}

impl PlannedRelease {
    /// The release as declared, for a look at part of its time or at earlier time.
    pub(super) fn new(declaration: Declaration, settings: &Settings, look: &StepCalendar) -> Self {
        let (horizon, looked) = (settings.calendar.steps() as f64, look.steps() as f64);
        let periods = settings.periods.count(settings.calendar.steps()) as f64;
        let groups = match &settings.labels {
            Labels::Groups(table) => table.tuples().len() as f64,
            _ => 1.0,
        };
        let objective = settings.request.objective();
        let stretch = Stretch { looks: horizon / periods / looked, count: periods, groups, objective };
        Self { declaration, stretch }
    }

    /// How the time of the release relates to the time of the look.
    pub(super) fn stretch(&self) -> Stretch {
        self.stretch
    }

    /// Whether a bound on the events in a step reduces the noise.
    pub(super) fn gains_by_step(&self) -> Result<bool> {
        Ok(self.request(2, None)?.plan()?.noise_kind() == NoiseKind::Gaussian)
    }

    /// The request for its plan under these bounds.
    fn request(&self, max_events: u64, max_events_per_step: Option<u64>) -> error::Result<PlanRequest> {
        let bounded = Declaration { max_events: Some(max_events), max_events_per_step, ..self.declaration.clone() };
        Ok(bounded.resolve()?.request)
    }

    /// The best bounds according to an estimate.
    pub(super) fn choices(&self, estimate: &ContributionEstimate) -> Result<Choices> {
        let mut noise_of = |max_events, max_events_per_step| {
            let plan = self.request(max_events, max_events_per_step)?.plan()?;
            Ok(match self.stretch.objective {
                Objective::Max => plan.max_std_error(),
                Objective::Mean => plan.mean_std_error(),
            })
        };
        Ok(Choices::new(estimate, self.stretch, &mut noise_of)?)
    }
}

/// The steps of the look.
pub(super) fn stretch(settings: &Settings, from: Option<&str>, until: Option<&str>) -> Result<StepCalendar> {
    let (mut times, calendar) = (settings.times(), &settings.calendar);
    let mut time = |flag: &str, text: &str| {
        let problem = |_| usage(format!("{flag}: {} is not a time", quoted(text)));
        parse_time(Parameter::Start, text, &mut times).map_err(problem)
    };
    let start = from.map_or(Ok(calendar.start()), |text| time("--look-from", text))?;
    let end = match (until, settings.periods.longest()) {
        (Some(text), _) => Horizon::Until(time("--look-until", text)?),
        (None, Some(_)) if from.is_none() => Horizon::Steps(first_period(settings).min(calendar.steps())),
        _ => return Err(usage("--look-until is needed: the end of the time range of the estimate")),
    };
    StepCalendar::new(start, end, calendar.every(), calendar.zone().clone())
        .map_err(|problem| usage(format!("--look-from and --look-until, in steps of {}: {problem}", calendar.every())))
}

/// The number of steps in the first period.
fn first_period(settings: &Settings) -> u64 {
    settings.periods.of(1).end - 1
}

/// The request for the plan of the estimate. It includes the data range, so that another look is another plan.
pub(super) fn look_request(
    settings: &Settings,
    look: &StepCalendar,
    candidates: &Candidates,
    budget: Budget,
) -> PlanRequest {
    // If the look covers more than one period, a unit of one period may change only part of a person's events.
    let is_within = look.start() == settings.calendar.start() && look.steps() <= first_period(settings);
    // A protected window may cover only a part of the look, wherever that begins.
    let has_window = settings.kept.bounds().is_some_and(|bounds| bounds.window.is_some());
    let may_move = settings.request.neighbours() == Neighbours::ReplaceOne
        || has_window
        || (settings.periods.longest().is_some() && !is_within);
    let meaning = settings.request.meaning();
    let who = ["person", "normalise-ids", "group-by", "groups", "rest", "where"];
    let same = ["every", "time-zone", "missing", "unknown-group"].into_iter().chain(who);
    let same = same.filter_map(|name| Some((name.to_owned(), meaning.get(name)?.clone())));
    let request = candidates.request(budget, may_move);
    let own = request.meaning().clone();
    request
        .with_meanings(own.into_iter().chain(same).collect())
        .with_meaning("start", look.start().to_string())
        .with_meaning("end", look.end().to_string())
}
