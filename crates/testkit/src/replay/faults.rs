//! Pipelines with one fault each, which a replay must find.
//!
//! A fault is planted around a sound pipeline: in its input or in its output. That covers all known mistakes of such
//! pipelines.

use super::pipeline::{Declared, Outcome, Pipeline, Run, TableRow, hundred_millionths};
use super::rows::Row;
use evertally_declare::declaration::Decimal;
use evertally_declare::steps::Period;
use std::collections::BTreeMap;

/// A mistake that a pipeline can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// The events of a person are counted in each file separately.
    BoundPerFile,
    /// The first events of a person are kept in each group separately.
    BoundPerGroup,
    /// The first events of a person are kept in each step separately: earlier steps are forgotten.
    BoundPerStep,
    /// A run that continues another has forgotten the persons of the earlier one.
    ForgottenCounts,
    /// All persons share one bound on events.
    SharedBound,
    /// The minimum gap of a person's steps is ignored.
    GapIgnored,
    /// The events of a person in one group are not counted.
    GroupUnbounded,
    /// The number of a person's groups is not counted.
    GroupsUncounted,
    /// Events of earlier periods count against the bounds of later ones.
    PeriodNeverEnds,
    /// Periods end too early.
    PeriodTooShort,
    /// Values are not clamped.
    NoClamping,
    /// The sum of a step is clamped to the possible sum of its events, instead of each event.
    ClampedAfterSumming,
    /// The rest group has the name of the first undeclared group that has events.
    RestLeaksName,
    /// The table ends with the last step that has events.
    LengthFollowsData,
    /// Groups without events have no rows.
    EmptyGroupsVanish,
    /// Groups come in the order of their first events.
    OrderFollowsData,
    /// The report reveals how many events were read.
    ReportCounts,
    /// Standard errors follow the number of events.
    ErrorFollowsData,
    /// Runs with few events are refused.
    RefusesLittleData,
    /// Noise depends on the data.
    NoiseFollowsData,
}

impl Planted {
    /// All faults.
    pub const ALL: [Self; 20] = [
        Self::BoundPerFile,
        Self::BoundPerGroup,
        Self::BoundPerStep,
        Self::ForgottenCounts,
        Self::SharedBound,
        Self::GapIgnored,
        Self::GroupUnbounded,
        Self::GroupsUncounted,
        Self::PeriodNeverEnds,
        Self::PeriodTooShort,
        Self::NoClamping,
        Self::ClampedAfterSumming,
        Self::RestLeaksName,
        Self::LengthFollowsData,
        Self::EmptyGroupsVanish,
        Self::OrderFollowsData,
        Self::ReportCounts,
        Self::ErrorFollowsData,
        Self::RefusesLittleData,
        Self::NoiseFollowsData,
    ];
}

/// A pipeline with a fault around a sound one.
pub struct Faulty<P> {
    /// The sound one.
    pub sound: P,
    /// The fault.
    pub planted: Planted,
}

impl<P: Pipeline> Pipeline for Faulty<P> {
    fn publish(&self, stream: &Declared, files: &[Vec<Row>]) -> Vec<Outcome> {
        let (mut stream, mut files) = (stream.clone(), files.to_vec());
        self.before(&mut stream, &mut files);
        let mut outcomes = self.sound.publish(&stream, &files);
        for (outcome, run) in outcomes.iter_mut().zip(&stream.runs) {
            let read: Vec<&Row> = files[..run.files].iter().flatten().collect();
            self.after(&stream, &read, outcome);
        }
        outcomes
    }
}

impl<P> Faulty<P> {
    /// The changed input of the sound pipeline.
    fn before(&self, stream: &mut Declared, files: &mut [Vec<Row>]) {
        let runs = stream.runs.clone();
        let run_of = |file: usize| runs.iter().position(|run: &Run| file < run.files).unwrap_or(runs.len());
        let columns = stream.declaration.group_by.as_ref().map_or(0, Vec::len);
        // A person under several names is equivalent to a bound that starts again.
        let rename = |files: &mut [Vec<Row>], anew: &dyn Fn(usize, &Row) -> String| {
            for (number, rows) in files.iter_mut().enumerate() {
                for row in rows {
                    row.person = row.person.as_ref().map(|person| format!("{person}#{}", anew(number, row)));
                }
            }
        };
        match self.planted {
            Planted::BoundPerFile => rename(files, &|file, _| file.to_string()),
            Planted::BoundPerGroup => rename(files, &|_, row| format!("{:?}", &row.labels[..columns])),
            Planted::BoundPerStep => rename(files, &|_, row| row.step.to_string()),
            Planted::ForgottenCounts => rename(files, &|file, _| run_of(file).to_string()),
            Planted::SharedBound => files.iter_mut().flatten().for_each(|row| {
                row.person = row.person.as_ref().map(|_| "everybody".to_owned());
            }),
            Planted::GapIgnored => stream.declaration.min_gap = None,
            Planted::GroupUnbounded => stream.declaration.max_events_per_group = None,
            Planted::GroupsUncounted => stream.declaration.max_groups = None,
            Planted::PeriodNeverEnds => stream.declaration.per = None,
            Planted::PeriodTooShort => {
                stream.declaration.per = stream.declaration.per.map(|_| Period::Steps(1));
            }
            Planted::NoClamping => {
                stream.declaration.bounds = stream.declaration.bounds.as_ref().map(|_| wide());
            }
            Planted::ClampedAfterSumming => clamp_sums(stream, files, columns),
            _ => {}
        }
    }

    /// The changes to the output of the sound pipeline.
    fn after(&self, stream: &Declared, read: &[&Row], outcome: &mut Outcome) {
        let last = read.iter().map(|row| row.step).max().unwrap_or(0);
        let seen: Vec<String> = read.iter().map(|row| row.labels.iter().flatten().cloned().collect()).collect();
        let place = |row: &TableRow| seen.iter().position(|group| *group == row.group.replace(',', ""));
        match self.planted {
            Planted::RestLeaksName => leak_rest(stream, read, outcome),
            Planted::LengthFollowsData => outcome.table.retain(|row| row.step <= last),
            Planted::EmptyGroupsVanish => outcome.table.retain(|row| row.group.is_empty() || place(row).is_some()),
            Planted::OrderFollowsData => outcome.table.sort_by_key(|row| (row.step, place(row))),
            Planted::ReportCounts => {
                outcome.files.insert("report.md".into(), format!("{} events were read", read.len()));
            }
            Planted::ErrorFollowsData => {
                outcome.table.iter_mut().for_each(|row| row.fixed += &format!("{}", read.len()));
            }
            Planted::RefusesLittleData if read.len() < 12 => {
                *outcome = Outcome { refusal: Some("there is too little to release".into()), ..Outcome::default() };
            }
            Planted::NoiseFollowsData => {
                let shift = 100_000_000 * (read.len() as i128 * 7919 % 1000);
                outcome.table.iter_mut().for_each(|row| row.value += shift);
            }
            _ => {}
        }
    }
}

fn wide() -> Vec<Decimal<String>> {
    ["-1000000000", "1000000000"].map(|bound| bound.parse().expect("a number")).to_vec()
}

fn leak_rest(stream: &Declared, read: &[&Row], outcome: &mut Outcome) {
    let (Some(rest), Some(columns)) = (&stream.declaration.rest, &stream.declaration.group_by) else { return };
    let known = |text: &str| matches!(text, "a" | "b" | "x" | "y");
    let texts = read.iter().flat_map(|row| row.labels[..columns.len()].iter().flatten());
    let Some(leaked) = texts.filter(|text| !known(text)).min() else { return };
    for row in &mut outcome.table {
        row.fixed = row.fixed.replace(rest.as_str(), leaked);
    }
}

/// Replaces the values of every step and group by others, each within the bounds, that add up to the clamped sum.
fn clamp_sums(stream: &Declared, files: &mut [Vec<Row>], columns: usize) {
    let Some(bounds) = &stream.declaration.bounds else { return };
    let [lower, upper] = [&bounds[0], &bounds[1]].map(|bound| hundred_millionths(&bound.0));
    if upper > 1000 * 100_000_000 {
        return; // values are codes: moving them from one event to another has no meaning
    }
    let mut sums: BTreeMap<(u64, Vec<Option<String>>), (i128, i128)> = BTreeMap::new();
    let place = |row: &Row| (row.step, row.labels[..columns].to_vec());
    for row in files.iter().flatten() {
        let Some(value) = &row.value else { continue };
        let (sum, count) = sums.entry(place(row)).or_default();
        (*sum, *count) = (*sum + hundred_millionths(value), *count + 1);
    }
    for (sum, count) in sums.values_mut() {
        *sum = (*sum).clamp(lower * *count, upper * *count);
    }
    for row in files.iter_mut().flatten().filter(|row| row.value.is_some()) {
        let (sum, count) = sums.get_mut(&place(row)).expect("counted above");
        // The remaining range of the others determines how much this one must change.
        let value = (*sum - lower * (*count - 1)).clamp(lower, upper);
        (*sum, *count) = (*sum - value, *count - 1);
        let (sign, size) = (if value < 0 { "-" } else { "" }, value.unsigned_abs());
        row.value = Some(format!("{sign}{}.{:08}", size / 100_000_000, size % 100_000_000));
    }
}
