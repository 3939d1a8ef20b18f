//! Bounds on a person's events: enforced with a column of persons, or asserted without one.

use super::super::Parameter::{
    self, AssertMaxEvents, AssertMaxEventsPerGroup, AssertMaxEventsPerStep, AssertMaxGroups, AssertMaxTotal,
    AssertMinGap, AssertedBy, MaxEvents, MaxEventsPerGroup, MaxEventsPerStep, MaxGroups, MaxTotal, MinGap, Person,
};
use super::super::table::Declaration;
use super::{Result, value};
use crate::policy::Late;
use crate::problem::{Problem, sentence};
use crate::settings::Assertion;
use evertally::number;

/// Characters of the text that names who asserts the bounds.
const MAX_TEXT: usize = 200;

/// Each asserted bound, and the bound that is enforced instead.
const ASSERTED: [(Parameter, Parameter); 6] = [
    (AssertMaxEvents, MaxEvents),
    (AssertMaxEventsPerStep, MaxEventsPerStep),
    (AssertMaxEventsPerGroup, MaxEventsPerGroup),
    (AssertMaxGroups, MaxGroups),
    (AssertMaxTotal, MaxTotal),
    (AssertMinGap, MinGap),
];

/// The declared bounds, enforced or asserted.
pub(super) struct GivenBounds<'a> {
    pub(super) max_events: Option<u64>,
    pub(super) max_events_per_step: Option<u64>,
    pub(super) max_events_per_group: Option<u64>,
    pub(super) max_groups: Option<u64>,
    pub(super) min_gap: Option<u64>,
    pub(super) max_total: Option<&'a value::Decimal<number::Grid>>,
}

impl GivenBounds<'_> {
    /// The number of events that other bounds allow: in all groups, in all steps of a period, or of the least size.
    pub(super) fn implied_max_events(&self, period: Option<u64>, max_total: Option<u64>) -> Option<u64> {
        let of_groups =
            self.max_events_per_group.zip(self.max_groups).map(|(events, groups)| events.saturating_mul(groups));
        let gap = self.min_gap.unwrap_or(1).max(1);
        let of_steps =
            self.max_events_per_step.zip(period).map(|(events, steps)| events.saturating_mul(steps.div_ceil(gap)));
        of_groups.into_iter().chain(of_steps).chain(max_total).min()
    }
}

impl Declaration {
    /// Whether a bound on persons is asserted.
    pub fn asserts(&self) -> bool {
        self.first_asserted().is_some()
    }

    /// The first asserted bound.
    pub(super) fn first_asserted(&self) -> Option<Parameter> {
        ASSERTED.iter().map(|(asserted, _)| *asserted).find(|asserted| self.has(*asserted))
    }

    /// The assertion, if bounds are asserted.
    pub(super) fn assertion(&self) -> Option<Assertion> {
        self.asserts().then(|| Assertion { by: self.asserted_by.clone() })
    }

    pub(super) fn person_bounds(&self) -> GivenBounds<'_> {
        if self.asserts() {
            return GivenBounds {
                max_events: self.assert_max_events,
                max_events_per_step: self.assert_max_events_per_step,
                max_events_per_group: self.assert_max_events_per_group,
                max_groups: self.assert_max_groups,
                min_gap: self.assert_min_gap,
                max_total: self.assert_max_total.as_ref(),
            };
        }
        GivenBounds {
            max_events: self.max_events,
            max_events_per_step: self.max_events_per_step,
            max_events_per_group: self.max_events_per_group,
            max_groups: self.max_groups,
            min_gap: self.min_gap,
            max_total: self.max_total.as_ref(),
        }
    }

    /// Refuses asserted bounds together with enforced ones.
    pub(super) fn check_asserted(&self) -> Result<()> {
        let Some(asserted) = self.first_asserted() else {
            return match self.asserted_by {
                Some(_) => {
                    let needs = sentence![AssertedBy, " needs ", AssertMaxEvents, ": the bound that is asserted"];
                    Err(Problem::for_parameter(AssertedBy, needs))
                }
                None => Ok(()),
            };
        };
        if self.person.is_some() {
            let enforced = ASSERTED.iter().find(|(bound, _)| *bound == asserted).expect("it is one of them").1;
            let not =
                sentence![asserted, " and ", Person, " do not go together: bounds on identified people are enforced"];
            return Err(Problem::for_parameter(asserted, not).remedy(sentence![
                "give ",
                enforced,
                " instead, or omit ",
                Person
            ]));
        }
        if let Some((instead, enforced)) = ASSERTED.iter().find(|(_, enforced)| self.has(*enforced)) {
            let not = sentence![
                *enforced,
                " and ",
                asserted,
                " do not go together: without ",
                Person,
                " no bound is enforced"
            ];
            return Err(Problem::for_parameter(*enforced, not).remedy(sentence!["give ", *instead]));
        }
        if matches!(self.late, Some(Late::NextStep)) {
            let why = " and asserted bounds do not go together: a late event would count in another step than its \
                       own, where the person may have as many already";
            let problem = sentence![(Parameter::Late, "next-step"), why];
            return Err(
                Problem::for_parameter(Parameter::Late, problem).remedy(sentence!["give another ", Parameter::Late])
            );
        }
        let scales = [Parameter::Scales, Parameter::RestScale].into_iter().find(|scales| self.has(*scales));
        if let Some(scales) = scales.filter(|_| self.has(AssertMaxTotal)) {
            let why = " do not go together: the total would count each value in units of its group's scale";
            let problem = sentence![AssertMaxTotal, " and ", scales, why];
            return Err(Problem::for_parameter(AssertMaxTotal, problem)
                .remedy(sentence!["assert the number of events with ", AssertMaxEvents]));
        }
        let is_plain = |text: &String| {
            let characters = text.chars().count();
            text.trim() == text && (1..=MAX_TEXT).contains(&characters) && !text.chars().any(char::is_control)
        };
        match self.asserted_by.as_ref().filter(|text| !is_plain(text)) {
            Some(_) => {
                let problem = sentence![AssertedBy, " is not one line of text"];
                let remedy = format!("give at most {MAX_TEXT} characters, without blanks at the ends");
                Err(Problem::for_parameter(AssertedBy, problem).remedy(remedy))
            }
            None => Ok(()),
        }
    }
}
