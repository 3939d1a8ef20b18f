//! The steps of a declaration, and the last step that a run publishes.

use super::super::Parameter::{
    self, All, CenturyFrom, Date, End, Every, Start, Steps, Through, Time, TimeOfDay, Unbounded,
};
use super::super::table::Declaration;
use super::{Closing, Result, needed, not_both};
use crate::problem::{Problem, SentencePart, sentence};
use crate::publication::{Publication, Slots, row_every};
use crate::reading::{Read, Reading};
use crate::steps::{Horizon, Instant, StepCalendar, TimeFormat, TimeParser, Zone};
use crate::words::quoted;
use std::sync::Arc;

impl Declaration {
    pub(super) fn calendar(&self) -> Result<StepCalendar> {
        let zone: Zone = self.time_zone.clone().unwrap_or_default();
        let mut times = TimeParser::new(TimeFormat::Auto, zone.clone());
        let why = "the beginning of the first step, decided before seeing the data";
        let start = parse_time(Start, needed(self.start.as_ref(), Start, why)?, &mut times)?;
        let horizon = match (&self.end, self.steps, self.is_unbounded()) {
            (Some(end), None, false) => Horizon::Until(parse_time(End, end, &mut times)?),
            (None, Some(steps), false) => Horizon::Steps(steps),
            (None, None, true) => Horizon::Endless,
            (None, None, false) => {
                let why = " is needed: the horizon is decided before seeing the data";
                return Err(Problem::new(sentence![SentencePart::Any(&[End, Steps, Unbounded]), why]));
            }
            (Some(_), Some(_), _) => return Err(not_both(&[End, Steps])),
            (Some(_), None, true) => return Err(not_both(&[End, Unbounded])),
            (None, Some(_), true) => return Err(not_both(&[Steps, Unbounded])),
        };
        let every = needed(self.every, Every, "the width of a step, such as 1h or 1d")?;
        let calendar = |horizon, every| {
            StepCalendar::new(start, horizon, every, zone.clone()).map_err(|problem| Problem::new(problem.sentence()))
        };
        match self.publish.and_then(|publish| row_every(every, publish)) {
            // An endless calendar ends where the layout of its rows ends.
            Some(row) if horizon == Horizon::Endless => calendar(Horizon::Until(calendar(horizon, row)?.end()), every),
            _ => calendar(horizon, every),
        }
    }

    /// Checks how times are read, apart from single parameters.
    pub(super) fn check_times(&self) -> Result<()> {
        if self.date.is_some() && self.time.is_some() {
            return Err(not_both(&[Date, Time]));
        }
        if self.date.is_some() && self.date == self.time_of_day {
            let one = sentence![SentencePart::All(&[Date, TimeOfDay]), " name the same column"];
            return Err(Problem::new(one).remedy(sentence!["name a column with both as ", Time]));
        }
        if self.time_of_day.is_some() && matches!(self.time_format, Some(TimeFormat::Epoch(_))) {
            let why = " do not go together: numbers since 1970 have a time of day";
            return Err(Problem::new(sentence![SentencePart::All(&[TimeOfDay, Parameter::TimeFormat]), why]));
        }
        self.refuse_time_as_name()
    }

    /// Refuses a column of times that is named by a time: the first row of a file without a header would be lost.
    fn refuse_time_as_name(&self) -> Result<()> {
        let (parameter, name) = match (&self.date, &self.time) {
            (Some(name), _) => (Date, name),
            (None, Some(name)) => (Time, name),
            (None, None) => return Ok(()),
        };
        let zone = self.time_zone.clone().unwrap_or_default();
        if !TimeParser::new(self.time_format.clone().unwrap_or_default(), zone).reads_as_recent(name) {
            return Ok(());
        }
        let named = sentence![
            parameter,
            format!(" names the column {}, which is a time itself: the file seems to have no header", quoted(name))
        ];
        let columns = sentence!["name its columns with ", SentencePart::Example(Parameter::Columns)];
        let remedy = SentencePart::Where(Parameter::Columns, columns, "send it with a header".into());
        Err(Problem::for_parameter(parameter, named).remedy(remedy))
    }

    /// The first of the hundred years that years of two digits mean.
    pub(super) fn century(&self) -> Result<Option<i16>> {
        let Some(first) = self.century_from else { return Ok(None) };
        if !matches!(&self.time_format, Some(TimeFormat::Pattern(pattern)) if pattern.has_short_year()) {
            let needs = sentence![CenturyFrom, " needs a ", Parameter::TimeFormat, " with a year of two digits (%y)"];
            return Err(Problem::for_parameter(CenturyFrom, needs));
        }
        match i16::try_from(first) {
            Ok(year @ 1..=9900) => Ok(Some(year)),
            _ => {
                let range = sentence![CenturyFrom, format!(" {first} is not a year from 1 to 9900")];
                Err(Problem::for_parameter(CenturyFrom, range))
            }
        }
    }

    /// The published steps, if not all are, and the workloads over the slots that make up the published rows.
    pub(super) fn publication(&self, steps: &StepCalendar) -> Result<(Option<Arc<Publication>>, Read)> {
        let months = |reading| match reading {
            Reading::Window(time) => Slots::from_months(steps, time),
            _ => None,
        };
        let Some(period) = self.publish else {
            let (slots, read) = self.read(|reading| match months(reading) {
                Some(of_months) => Ok(of_months),
                None => Ok((Slots::Steps, reading.in_steps(Some(steps.every()))?)),
            })?;
            let of_all = (slots != Slots::Steps).then(|| Arc::new(Publication::all_steps(steps, slots)));
            return Ok((of_all, read));
        };
        let rows = Publication::new(steps, period)?;
        let widths = (Some(steps.every()), Some(rows.rows().every()));
        let (slots, read) =
            self.read(|reading| match (months(reading), Slots::reading(reading, rows.row_width(), widths)) {
                (Some(of_months), Err(_)) => Ok(of_months),
                (_, read) => read,
            })?;
        Ok((Some(Arc::new(rows.with_slots(slots))), read))
    }

    /// Whether the stream is explicitly declared to have no end.
    pub(super) fn is_unbounded(&self) -> bool {
        self.unbounded == Some(true)
    }

    pub(super) fn closing(&self) -> Result<Closing> {
        match (&self.through, self.all == Some(true)) {
            (Some(_), true) => Err(not_both(&[Through, All])),
            (None, true) if self.is_unbounded() => Err(not_both(&[All, Unbounded])),
            (Some(_), false) => Ok(Closing::Through),
            (None, true) => Ok(Closing::All),
            (None, false) => Ok(Closing::Clock),
        }
    }

    /// The last step that ends by the declared time.
    pub(super) fn last_step(&self, calendar: &StepCalendar) -> Result<u64> {
        let Some(text) = &self.through else { return Ok(calendar.steps()) };
        let mut times = TimeParser::new(TimeFormat::Auto, calendar.zone().clone());
        let through = parse_time(Through, text, &mut times)?;
        if through == calendar.end() {
            return Ok(calendar.steps());
        }
        let asked = sentence![Through, format!(" {} is ", quoted(text))];
        if through > calendar.end() {
            let end = calendar.format(calendar.end());
            return Err(Problem::new(asked.then(format!("after the end of the horizon, {end}")))
                .remedy("omit it to publish all"));
        }
        match calendar.step_of(through) {
            Some(open) if open > 1 => Ok(open - 1),
            _ => {
                let end = calendar.end_of(1);
                Err(Problem::new(asked.then(format!("before the end of the first step, {end}")))
                    .remedy("nothing would be published"))
            }
        }
    }
}

/// A declared time.
///
/// # Errors
/// If the text is not a time.
pub fn parse_time(parameter: Parameter, text: &str, parser: &mut TimeParser) -> Result<Instant> {
    let says = |problem: crate::steps::TimeError| {
        Problem::for_parameter(
            parameter,
            sentence![parameter, format!(" {} ", quoted(text))].then(problem.sentence_of_declared(text.trim())),
        )
    };
    parser.parse_text(text).map_err(says)
}
