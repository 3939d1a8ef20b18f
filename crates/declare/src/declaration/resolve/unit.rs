//! The privacy unit of a declaration, and the selection of discovered groups.

use super::super::Parameter::{
    self, AllowWeakBudget, AssertMaxEvents, AssertMaxTotal, DiscoverGroups, Floor, Groups, GroupsFile, MaxEvents,
    MaxEventsPerGroup, MaxEventsPerStep, MaxGroups, MaxTotal, Measure, MinGap, Per, Person, ProtectWindow, Publish,
    SelectionDelta, UnitName, Workload,
};
use super::super::table::Declaration;
use super::asserted::GivenBounds;
use super::{Result, on_grid};
use crate::problem::{Problem, SentencePart, sentence};
use crate::steps::{Period, Periods, StepCalendar};
use crate::words::quoted;
use evertally::number::parse_scaled;
use evertally::privacy::selection::{Selection, SelectionTimes};
use evertally::privacy::{Budget, Delta, PersonBounds, RollingWindow, Unit};

/// Characters of a word for a person.
const MAX_WORD: usize = 40;

impl Declaration {
    /// Whether groups are discovered from the data.
    pub(super) fn discovers(&self) -> bool {
        self.discover_groups == Some(true)
    }

    /// The selection of discovered groups.
    pub(super) fn selection(&self, horizon: u64) -> Result<Selection> {
        let delta = self.selection_delta.expect("checked: it comes with the groups");
        if delta > Delta::WEAK && self.allow_weak_budget != Some(true) {
            let problem = format!(
                " {delta} protects next to nothing: with that probability a group of only one person is published"
            );
            return Err(Problem::for_parameter(SelectionDelta, sentence![SelectionDelta, problem])
                .remedy(sentence!["lower it, or allow it with ", AllowWeakBudget]));
        }
        if matches!(self.budget()?, Budget::Pure(_)) {
            let problem = sentence![
                DiscoverGroups,
                " cannot satisfy pure ε-differential privacy, with any threshold or ",
                Floor,
                ": without a person, the groups of that person alone are never published, and no ε bounds a ratio to 0"
            ];
            let remedy = sentence![
                "give ",
                SentencePart::Any(&[Parameter::Delta, Parameter::Rho]),
                ", or declare the groups with ",
                SentencePart::Any(&[Groups, GroupsFile])
            ];
            return Err(Problem::for_parameter(DiscoverGroups, problem).remedy(remedy));
        }
        if self.floor == Some(0) {
            return Err(Problem::new(sentence![Floor, " 0 has no effect; omit it"]));
        }
        let times = match self.select_every {
            Some(every) => SelectionTimes::every(every, horizon)?,
            None => SelectionTimes::twelve(horizon)?,
        };
        Ok(Selection::new(Delta::new(delta)?, times).with_floor(self.floor.unwrap_or(1)))
    }

    /// The word for a person.
    pub(super) fn unit_name(&self) -> Result<Option<String>> {
        let Some(word) = &self.unit_name else { return Ok(None) };
        let is_plain = |c: char| c.is_alphanumeric() || " -'’".contains(c);
        if word.trim() != word || word.is_empty() || word.chars().count() > MAX_WORD || !word.chars().all(is_plain) {
            let problem = sentence![UnitName, format!(" {} is not a word for a person", quoted(word))];
            let remedy = format!("give at most {MAX_WORD} letters, such as patient");
            return Err(Problem::for_parameter(UnitName, problem).remedy(remedy));
        }
        Ok(Some(word.clone()))
    }

    /// The protected window, if one is declared, over these periods.
    ///
    /// # Errors
    /// If the window is not a whole number of steps, or is declared with something that does not support it.
    pub(super) fn window(
        &self,
        calendar: &StepCalendar,
        periods: &Periods,
        in_slots: bool,
    ) -> Result<Option<RollingWindow>> {
        let Some((window, period)) = self.protect_window.zip(self.per) else { return Ok(None) };
        self.check_window(in_slots)?;
        let steps = match window {
            Period::Steps(steps) => steps,
            Period::Time(every) => {
                let no_steps = |_| {
                    let what = format!(" {every} is not a whole number of steps of {}", calendar.every());
                    Problem::for_parameter(ProtectWindow, sentence![ProtectWindow, what]).remedy(sentence![
                        "give a multiple of a step, or the number of steps, as with ",
                        (ProtectWindow, "30")
                    ])
                };
                Periods::new(calendar, window).map_err(no_steps)?.longest().unwrap_or(1).max(1)
            }
        };
        Ok(Some(RollingWindow { steps, periods: periods.touched(steps, calendar, period) }))
    }

    /// Refuses a protected window together with something that does not support it.
    pub(super) fn check_window(&self, in_slots: bool) -> Result<()> {
        let slots = if self.publish.is_some() { Publish } else { Workload };
        let unsupported = [(self.discovers(), DiscoverGroups), (self.measure.is_some(), Measure), (in_slots, slots)];
        match unsupported.into_iter().find(|(given, _)| *given && self.protect_window.is_some()) {
            Some((_, other)) => {
                let why = " do not go together: no bound is known on how far the events of a window move the \
                           published values";
                let problem = sentence![ProtectWindow, " and ", other, why];
                Err(Problem::for_parameter(ProtectWindow, problem).remedy(sentence!["omit one of them"]))
            }
            None => Ok(()),
        }
    }

    /// The protected window of a plan without a calendar, in steps.
    pub(super) fn window_in_steps(&self) -> Result<Option<RollingWindow>> {
        let refuse = |problem| Err(Problem::for_parameter(ProtectWindow, problem));
        match (self.protect_window, self.per) {
            (Some(Period::Steps(window)), Some(Period::Steps(period))) => Ok(Some(RollingWindow::new(window, period))),
            (Some(_), None) => {
                refuse(sentence![ProtectWindow, " needs ", Per, ": the period in which the bounds on a person restart"])
            }
            (Some(Period::Time(every)), _) => {
                let what = format!(" {every}: there is no calendar here; give the number of steps, as with ");
                refuse(sentence![ProtectWindow, what, (ProtectWindow, "30")])
            }
            _ => Ok(None),
        }
    }

    /// The unit, for periods of at most `period` steps.
    pub(super) fn unit(&self, period: Option<u64>, window: Option<RollingWindow>) -> Result<Unit> {
        self.check_asserted()?;
        let given = self.person_bounds();
        let max_total = self.total(&given)?;
        // Enforced, a total ends the events of a person. Asserted, it allows any number of events of value 0.
        let enforced_total = max_total.filter(|_| !self.asserts());
        let rest = [given.max_events_per_step, given.max_events_per_group, given.max_groups, given.min_gap, max_total];
        let max_events = match given.max_events.or_else(|| given.implied_max_events(period, enforced_total)) {
            Some(max_events) => max_events,
            None if self.person.is_none() && rest == [None; 5] && period.is_none() => return Ok(Unit::Event),
            None => return Err(self.no_max_events()),
        };
        Ok(Unit::Person(PersonBounds {
            max_events,
            max_events_per_step: given.max_events_per_step,
            max_events_per_group: given.max_events_per_group,
            max_groups: given.max_groups,
            min_gap: given.min_gap,
            max_total,
            period,
            window,
        }))
    }

    /// The cap on a person's total, in multiples of the grid.
    fn total(&self, given: &GivenBounds<'_>) -> Result<Option<u64>> {
        let (Some(total), grid) = (given.max_total, self.grid()) else { return Ok(None) };
        let parameter = if self.asserts() { AssertMaxTotal } else { MaxTotal };
        let text = total.0.to_string();
        let multiple = Some(&text).filter(|text| on_grid(text, grid)).and_then(|text| parse_scaled(text, grid).ok());
        let refuse = || {
            Problem::for_parameter(
                parameter,
                sentence![parameter, format!(" {text} is not a multiple of the grid {grid}")],
            )
        };
        multiple.map(|multiple| Some(multiple.unsigned_abs())).ok_or_else(refuse)
    }

    fn no_max_events(&self) -> Problem {
        if self.asserts() {
            let given = self.first_asserted().expect("a bound is asserted");
            let needs = sentence![given, " needs ", AssertMaxEvents, ": how many events a person has at most"];
            let why = match self.has(AssertMaxTotal) {
                true => needs.then("; a total does not limit that, because events of value 0 count as well"),
                false => needs,
            };
            return Problem::for_parameter(given, why);
        }
        let given = [MaxEventsPerStep, MaxEventsPerGroup, MaxGroups, MinGap, Per, Person];
        let what = given.into_iter().find(|bound| self.has(*bound)).expect("a bound of a person is given");
        let why = sentence![what, " needs ", MaxEvents, ": how many events of a person are kept"];
        Problem::for_parameter(what, why).remedy(sentence![
            "omit it only together with ",
            SentencePart::All(&[MaxEventsPerGroup, MaxGroups]),
            " or ",
            SentencePart::All(&[MaxEventsPerStep, Per]),
            " or ",
            MaxTotal,
            ", which imply it"
        ])
    }
}
