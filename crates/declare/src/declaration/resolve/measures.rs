//! The measures of a stream, and the parameters that they need.

use super::super::Parameter::{
    self, Bounds, DiscoverGroups, KeyColumns, MaxTotal, Measure, Person, RestScale, Scales, Value,
};
use super::super::table::Declaration;
use super::{Labels, Measures, Result};
use crate::measures::{self, Wanted};
use crate::problem::{Problem, sentence};
use crate::publication::{Publication, Slots};
use crate::reading::{Reading, Workloads};
use crate::steps::StepCalendar;
use crate::stream::Coverage;
use evertally::mechanism::Workload;

impl Declaration {
    /// The declared measures, after checking the parameters that they need.
    pub(super) fn measures(
        &self,
        labels: &Labels,
        readings: Vec<Wanted>,
        calendar: &StepCalendar,
        published: Option<&Publication>,
    ) -> Result<Measures> {
        let Some(wanted) = &self.measure else { return self.several(labels, readings) };
        if !readings.is_empty() {
            let why = ": all measures share one workload";
            return Err(Problem::for_parameter(
                Measure,
                sentence![Measure, " and more than one ", Parameter::Workload, " do not go together", why],
            ));
        }
        let refuse = |problem| Err(Problem::for_parameter(Measure, problem));
        if wanted.is_empty() {
            return refuse(sentence![Measure, " names no measure; omit it for a running count or sum"]);
        }
        for (place, Wanted { measure, .. }) in wanted.iter().enumerate() {
            if measure.needs_values() && self.value.is_none() {
                let why = ": the column with the values of events, between bounds";
                return refuse(sentence![Measure, format!(" {measure} needs "), Value, why]);
            }
            if measure.needs_persons() && self.asserts() {
                let why = ": asserted bounds identify nobody, so that people cannot be counted";
                return refuse(sentence![Measure, format!(" {measure} needs "), Person, why]);
            }
            if measure.needs_persons() && self.person.is_none() {
                return refuse(sentence![
                    Measure,
                    format!(" {measure} needs "),
                    Person,
                    ": the column that names people"
                ]);
            }
            let reads_all = self.workload.as_ref().is_none_or(Workloads::is_sum);
            if measure.needs_persons() && !reads_all {
                let problem = format!(" {measure} has its own window; omit ");
                return refuse(sentence![Measure, problem, Parameter::Workload]);
            }
            let again = |other: &&Wanted| match (&other.measure, measure) {
                (measures::Measure::Histogram(_), measures::Measure::Histogram(_)) => true,
                (other, measure) => other == measure,
            };
            if wanted[..place].iter().find(again).is_some() {
                let problem = match measure {
                    measures::Measure::Histogram(_) => " has two histograms; name all cuts in one".to_owned(),
                    measure => format!(" names {measure} twice"),
                };
                return refuse(sentence![Measure, problem]);
            }
        }
        if matches!(labels, Labels::Discovered { .. } | Labels::Items(_)) {
            let other = if matches!(labels, Labels::Items(_)) { KeyColumns } else { DiscoverGroups };
            return refuse(sentence![Measure, " and ", other, " do not go together: declare the groups"]);
        }
        let apart: [(Parameter, &str); 5] = [
            (Parameter::Band, ": each interval of a measure holds by itself"),
            (Parameter::View, ": measures have no views"),
            (MaxTotal, ": truncated values have no mean; bound the events instead, and the values by their bounds"),
            (Scales, ": all groups have the same bounds"),
            (RestScale, ": all groups have the same bounds"),
        ];
        if let Some((other, why)) = apart.into_iter().find(|(other, _)| self.is_declared_explicitly(*other)) {
            return refuse(sentence![Measure, " and ", other, " do not go together", why]);
        }
        let has_values = wanted.iter().any(|wanted| wanted.measure.needs_values());
        if !has_values && self.value.is_some() {
            let why = ", but no measure uses values; omit it, or add a mean";
            return refuse(sentence![Value, " and ", Bounds, " are given", why]);
        }
        let wanted = wanted.iter().map(|wanted| in_rows(wanted, calendar, published)).collect::<Result<_>>()?;
        Ok(Measures { wanted, ..Measures::default() })
    }

    /// Whether a value other than the default is declared.
    fn is_declared_explicitly(&self, parameter: Parameter) -> bool {
        match parameter {
            Parameter::Band => self.band.is_some_and(|band| band != Coverage::default()),
            Parameter::View => self.view.as_ref().is_some_and(|views| !views.is_empty()),
            other => self.has(other),
        }
    }

    /// Several workloads instead of measures, after checking their requirements; empty if there is only one.
    fn several(&self, labels: &Labels, readings: Vec<Wanted>) -> Result<Measures> {
        if readings.is_empty() {
            return Ok(Measures::default());
        }
        let refuse = |with: Parameter, why: &str| {
            let several = Parameter::Workload;
            Err(Problem::for_parameter(
                several,
                sentence!["more than one ", several, " and ", with, " do not go together", why.to_owned()],
            ))
        };
        match labels {
            Labels::Discovered { .. } => return refuse(DiscoverGroups, ": declare the groups"),
            Labels::Items(_) => return refuse(KeyColumns, ": items are read as running sums"),
            Labels::None | Labels::Groups(_) => {}
        }
        let apart: [(Parameter, &str); 4] = [
            (Parameter::Band, ": each interval of several workloads holds by itself"),
            (Parameter::View, ": views need a single workload"),
            (Scales, ": all groups have the same bounds"),
            (RestScale, ": all groups have the same bounds"),
        ];
        match apart.into_iter().find(|(other, _)| self.is_declared_explicitly(*other)) {
            Some((other, why)) => refuse(other, why),
            None => Ok(Measures { wanted: readings, ..Measures::default() }),
        }
    }
}

/// The measure with its own width in published units: steps, or rows of several steps.
fn in_rows(wanted: &Wanted, calendar: &StepCalendar, published: Option<&Publication>) -> Result<Wanted> {
    let reading = match wanted.measure {
        measures::Measure::Active(steps) => Reading::Steps(Workload::Window(steps)),
        measures::Measure::Within(time) => Reading::Window(time),
        _ => return Ok(wanted.clone()),
    };
    let refuse = |why: &str| {
        let measure = &wanted.measure;
        Problem::for_parameter(Measure, sentence![Measure, format!(" {measure}: {why}")])
            .remedy("give a number of steps")
    };
    let workload = match published {
        None => reading.in_steps(Some(calendar.every())).map_err(|_| refuse("it is not a whole number of steps"))?,
        Some(rows) => {
            let widths = (Some(calendar.every()), Some(rows.rows().every()));
            match Slots::reading(reading, rows.row_width(), widths) {
                Ok((Slots::Rows, workload)) => workload,
                _ => return Err(refuse("it is not a whole number of publications")),
            }
        }
    };
    let Workload::Window(width) = workload else { unreachable!("windows are read as windows") };
    Ok(Wanted { measure: measures::Measure::Active(width), ..wanted.clone() })
}
