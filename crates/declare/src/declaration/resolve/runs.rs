//! What a run of the program or a service refuses, although the declaration alone is right. Everything here depends on
//! what is declared, and on no file.

use super::super::Parameter::{
    self, All, At, AtColumn, BadFile, BadRows as BadRowsOf, Bounds, Candidates, Continue, DiscoverGroups, EveryQuery,
    Expect, Extend, Groups, GroupsFile, KeyBits, KeyColumns, LateFile, Measure, Publish, Queries, Rebuild, ScaleColumn,
    Scales, Top, Unbounded, UnsafeShowTruth, View as ViewOf, Workload,
};
use super::super::table::{Declaration, Written};
use super::{Result, groups_need_columns, not_both};
use crate::policy::{BadRows, Late};
use crate::problem::{Problem, Sentence, SentencePart, sentence};
use crate::view::View;

impl Written {
    /// Checks the combinations of a run of `evertally release`.
    ///
    /// # Errors
    /// The first parameter that needs or excludes another one in a run.
    ///
    /// ```
    /// use evertally_declare::declaration::Written;
    /// let written: Written = serde_json::from_str(r#"{"all": true, "extend": true, "continue": true}"#).unwrap();
    /// let problem = written.check_release().unwrap_err();
    /// assert!(problem.to_string().starts_with("--all and --extend do not go together"));
    /// ```
    pub fn check_release(&self) -> Result<()> {
        self.check_groups_file()?;
        self.check_extended()?;
        self.check_figures()?;
        self.check_bad_rows()?;
        let truth = self.shows_truth();
        together(&[truth, self.discovers()], ": the true counts of earlier steps are not kept")?;
        if self.questions.top.is_some_and(|top| top == 0 || self.declaration.group_by.is_none()) {
            return Err(Problem::for_parameter(
                Top,
                sentence![Top, " needs a number of at least 1, and a release by group"],
            ));
        }
        if self.files.plan_only == Some(true) { Ok(()) } else { self.check_continued() }
    }

    /// Checks the combinations of a run of `evertally sketch`.
    ///
    /// # Errors
    /// If no item is declared, nothing is asked, or queries contradict each other.
    pub fn check_sketch(&self) -> Result<()> {
        let declared = &self.declaration;
        super::needed(declared.key_columns.as_ref(), KeyColumns, "the columns that name the item of an event")?;
        if declared.key_bits.is_some() {
            let is_negative = |bound: &str| bound.trim().parse().is_ok_and(|bound: f64| bound < 0.0);
            if declared.bounds.iter().flatten().any(|bound| is_negative(&bound.0)) {
                let why = " finds heavy keys through blocks of keys: negative values (";
                return Err(Problem::for_parameter(KeyBits, sentence![KeyBits, why, Bounds, " below 0) hide them"]));
            }
            return self.check_heavy_keys();
        }
        self.check_queries()
    }

    /// Checks that the groups come from one place, and that a column of scales has a file.
    ///
    /// # Errors
    /// If groups or scales are given twice, or a file or column is missing.
    pub fn check_groups_file(&self) -> Result<()> {
        let (declared, files) = (&self.declaration, &self.files);
        match (&files.groups_file, &files.scale_column) {
            (None, Some(_)) => {
                Err(Problem::new(sentence![ScaleColumn, " needs ", GroupsFile, ", which has the column"]))
            }
            (None, None) => Ok(()),
            (Some(_), _) if declared.groups.is_some() => Err(not_both(&[Groups, GroupsFile])),
            (Some(_), _) if declared.group_by.is_none() => Err(Problem::new(groups_need_columns())),
            (Some(_), Some(_)) if declared.scales.is_some() => Err(not_both(&[Scales, ScaleColumn])),
            (Some(_), _) => Ok(()),
        }
    }

    /// The file for rows that cannot be read is named if and only if it is needed, and differs from the other outputs.
    fn check_bad_rows(&self) -> Result<()> {
        let files = &self.files;
        match (files.bad_rows, &files.bad_file) {
            (Some(BadRows::SideFile), None) => {
                Err(Problem::new(sentence![BadFile, " is needed: the file for rows that cannot be read"]))
            }
            (None | Some(BadRows::Refuse), Some(_)) => {
                Err(Problem::new(sentence![BadFile, " needs ", (BadRowsOf, "side-file")]))
            }
            (_, Some(bad)) if files.late_file.as_ref() == Some(bad) => {
                let one = sentence![BadFile, " and ", LateFile, " name one file; give each a name"];
                Err(Problem::for_parameter(BadFile, one))
            }
            _ => Ok(()),
        }
    }

    /// What cannot continue from one stream to the next.
    fn check_extended(&self) -> Result<()> {
        let extended = on(Extend, self.files.extend);
        together(&[on(All, self.declaration.all), extended], ": the new stream has only just begun")?;
        let why = ": discovered groups cannot continue in another stream; declare a longer horizon";
        together(&[self.discovers(), extended], why)?;
        let why = ": a stream with several figures cannot continue in another; declare a longer horizon";
        together(&[self.figures(), extended], why)?;
        let why =
            ": publications cannot continue from one stream to another; declare a longer horizon, or no end with ";
        together(&[self.publishes_some(), extended], sentence![why, Unbounded])
    }

    /// What a release of several measures or workloads excludes.
    fn check_figures(&self) -> Result<()> {
        let figures = self.figures();
        let again = on(Rebuild, self.files.rebuild).or(on(Continue, self.files.r#continue));
        let why = ": the parts of an unfinished publication are not kept; omit it and run over all events";
        together(&[figures, self.publishes_some(), again], why)?;
        together(&[self.shows_truth(), figures], ": the true figures are not kept")?;
        let growing = self.questions.top.map(|_| Top);
        together(&[growing, figures], ": growth is defined only for a single count or sum")
    }

    /// What a stream that continues from run to run needs and excludes.
    fn check_continued(&self) -> Result<()> {
        let files = &self.files;
        if files.r#continue != Some(true) && files.rebuild != Some(true) {
            let of_files = [(Expect, files.expect.is_some()), (LateFile, files.late_file.is_some())];
            let alone = [(Extend, files.extend == Some(true))].into_iter().chain(of_files).find(|(_, given)| *given);
            return match alone {
                Some((parameter, _)) => Err(Problem::new(sentence![parameter, " needs ", Continue])),
                None => Ok(()),
            };
        }
        if self.shows_truth().is_some() {
            let why = " needs the true counts of all steps, but a continued run only has those of new steps";
            return Err(Problem::new(sentence![UnsafeShowTruth, why]));
        }
        if files.extend == Some(true) && self.declaration.view.iter().flatten().any(|view| *view == View::NonDecreasing)
        {
            return Err(follows_no_stream());
        }
        if self.declaration.late == Some(Late::SideFile) && files.late_file.is_none() {
            return Err(Problem::new(sentence![LateFile, " is needed: the file for late events"]));
        }
        Ok(())
    }

    /// Queries to a table of cells: a public list of items, and the steps at which they are asked.
    fn check_queries(&self) -> Result<()> {
        let asked = &self.questions;
        let limited = asked.top.is_some() || asked.threshold.is_some();
        self.check_limits()?;
        if asked.threshold.is_some_and(|threshold| !threshold.is_finite()) {
            return Err(Problem::new(sentence![Parameter::Threshold, " is not a finite number"]));
        }
        let limits = SentencePart::All(&[Top, Parameter::Threshold]);
        let problem = match (asked.queries.is_some(), asked.candidates.is_some()) {
            (true, true) => return Err(not_both(&[Queries, Candidates])),
            (true, false) if limited => {
                sentence![limits, " select among ", Candidates, "; ", Queries, " answers every item"]
            }
            (false, true) if !limited => {
                let why = ": how many, or how heavy; for all items use ";
                sentence![Candidates, " needs ", SentencePart::Any(&[Top, Parameter::Threshold]), why, Queries]
            }
            (false, true) if asked.at_column.is_some() => {
                let why = "; candidates are compared at the same steps: use ";
                sentence![AtColumn, " is for ", Queries, why, At]
            }
            (false, false) if limited || asked.at_column.is_some() => {
                let all = SentencePart::All(&[Top, Parameter::Threshold, AtColumn]);
                sentence![all, " need a file of items: ", SentencePart::Any(&[Candidates, Queries])]
            }
            (false, false) if self.files.plan_only != Some(true) => {
                sentence!["there is nothing to query: list the items in ", SentencePart::Any(&[Queries, Candidates])]
            }
            (true, false) | (false, true) => return self.check_times(),
            (false, false) => return Ok(()),
        };
        Err(Problem::new(problem))
    }

    /// Queries to a tree of whole numbers, which finds its items.
    fn check_heavy_keys(&self) -> Result<()> {
        let asked = &self.questions;
        if self.files.plan_only == Some(true) && asked.threshold.is_none() {
            return Ok(());
        }
        if asked.queries.is_some() || asked.candidates.is_some() || asked.at_column.is_some() {
            let why = " finds heavy keys without a list: omit ";
            return Err(Problem::new(sentence![KeyBits, why, SentencePart::All(&[Queries, Candidates, AtColumn])]));
        }
        self.check_limits()?;
        if !asked.threshold.is_some_and(|threshold| threshold > 0.0 && threshold.is_finite()) {
            let why = " above 0: how heavy a key must be to be listed";
            return Err(Problem::new(sentence![KeyBits, " needs a ", Parameter::Threshold, why]));
        }
        self.check_times()
    }

    fn check_limits(&self) -> Result<()> {
        match self.questions.top {
            Some(0) => Err(Problem::new(sentence![Top, " must be at least 1"])),
            _ => Ok(()),
        }
    }

    /// The steps of queries are named in one way.
    fn check_times(&self) -> Result<()> {
        let asked = &self.questions;
        let given = [asked.at.is_some(), asked.at_column.is_some(), asked.every_query.is_some()];
        if given.into_iter().filter(|given| *given).count() > 1 {
            return Err(Problem::new(sentence!["give one of ", SentencePart::All(&[At, AtColumn, EveryQuery])]));
        }
        match (&asked.at, asked.every_query) {
            (_, Some(0)) => Err(Problem::new(sentence![EveryQuery, " must be at least 1"])),
            (Some(times), _) if times.is_empty() => {
                Err(Problem::new(sentence![At, " is empty; give at least one time"]))
            }
            _ => Ok(()),
        }
    }

    /// The parameter that declares several released figures, if there are several.
    fn figures(&self) -> Option<Parameter> {
        let several = self.declaration.workload.as_ref().is_some_and(|workloads| workloads.0.len() > 1);
        if several { Some(Workload) } else { self.declaration.measure.as_ref().map(|_| Measure) }
    }

    fn publishes_some(&self) -> Option<Parameter> {
        self.declaration.publish.map(|_| Publish)
    }

    fn discovers(&self) -> Option<Parameter> {
        on(DiscoverGroups, self.declaration.discover_groups)
    }

    fn shows_truth(&self) -> Option<Parameter> {
        on(UnsafeShowTruth, self.files.unsafe_show_truth)
    }
}

impl Declaration {
    /// Checks what a service cannot do.
    ///
    /// # Errors
    /// If the declaration names the steps that a run publishes, or is one of a sketch.
    pub fn check_service(&self) -> Result<()> {
        if let Some(parameter) = Parameter::OF_RUNS.into_iter().find(|parameter| self.has(*parameter)) {
            let why = " is for runs: a service closes steps when they are due";
            return Err(Problem::for_parameter(parameter, sentence![parameter, why]));
        }
        if self.key_columns.is_some() {
            let why = "a service releases running counts and sums; sketches are released by runs";
            return Err(Problem::for_parameter(KeyColumns, why));
        }
        Ok(())
    }
}

/// The problem of a view that depends on earlier steps, in a run over several streams.
pub fn follows_no_stream() -> Problem {
    let why = " non-decreasing cannot continue from one stream to the next: its band holds for the steps of one stream";
    Problem::new(sentence![ViewOf, why]).remedy("declare a longer horizon")
}

/// The parameter, if it is switched on.
fn on(parameter: Parameter, switch: Option<bool>) -> Option<Parameter> {
    (switch == Some(true)).then_some(parameter)
}

/// Refuses parameters that are all given, for this reason.
fn together(given: &[Option<Parameter>], why: impl Into<Sentence>) -> Result<()> {
    let Some(names) = given.iter().copied().collect::<Option<Vec<Parameter>>>() else { return Ok(()) };
    let mut pieces = Vec::new();
    for (place, name) in names.iter().enumerate() {
        match place {
            0 => {}
            _ if place + 1 == names.len() => pieces.push(SentencePart::from(" and ")),
            _ => pieces.push(SentencePart::from(", ")),
        }
        pieces.push(SentencePart::from(*name));
    }
    pieces.push(SentencePart::from(" do not go together"));
    Err(Problem::new(Sentence::new(pieces).then(why)))
}
