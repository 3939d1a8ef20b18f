//! `evertally bounds`: chooses how many events to keep per person, from a private estimate.

mod picture;
mod planned;
mod shown;

use crate::failure::{RecordedNotWritten, usage};
use crate::stream::{Files, PlannedFlags, interruptible, open_key, report_new_key, with_config, with_groups_of_file};
use anyhow::Result;
use clap::Args;
use evertally::noise::StreamName;
use evertally::plan::Plan;
use evertally::privacy::Budget;
use evertally_declare::declaration::{self, Declaration, Settings, Use};
use evertally_declare::error::{PipelineError, refuse_if};
use evertally_declare::event::Event;
use evertally_declare::format::Format;
use evertally_declare::steps::StepCalendar;
use evertally_ledger::ledger::OpenKey;
use evertally_publish::bounds::{Candidates, Choices, ContributionEstimate, PersonEventCounts};
use evertally_tables::input::for_each_event;
use evertally_tables::output::RunOutputs;
use planned::PlannedRelease;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// Flags of `evertally bounds`.
#[derive(Args, Debug)]
pub(super) struct BoundsArgs {
    /// ε to spend on the estimate, in addition to the budget of the planned release
    #[arg(long, value_name = "E", help_heading = "Estimate")]
    look_epsilon: Option<f64>,
    /// ρ to spend on the estimate, instead of an ε
    #[arg(long, value_name = "R", help_heading = "Estimate", conflicts_with = "look_epsilon")]
    look_rho: Option<f64>,
    /// Use events from this time on [default: the beginning of the first step]
    #[arg(long, value_name = "TIME", help_heading = "Estimate")]
    look_from: Option<String>,
    /// Use events before this time, a whole number of steps after the start [default: the end of the first period, if
    /// periods are declared]
    #[arg(long, value_name = "TIME", help_heading = "Estimate")]
    look_until: Option<String>,
    /// Distinguish people by their number of events, up to M
    #[arg(long, value_name = "M", help_heading = "Estimate", default_value = "1024")]
    most_events: u64,
    /// Nobody has more than N events, which intervals rely on [default: 16 times --most-events, at least 65536]
    #[arg(long, value_name = "N", help_heading = "Estimate")]
    largest_events: Option<u64>,
    /// Bounds on events per step to try, separated by commas; each adds noise to the estimate [default: 1,2,4 if the
    /// planned noise is Gaussian; otherwise none, because they would not change the noise]
    #[arg(long, value_name = "C", help_heading = "Estimate", value_delimiter = ',')]
    try_per_step: Option<Vec<u64>>,
    /// Name of the estimate under the key [default: `bounds of` and the name of the stream]
    #[arg(long, value_name = "NAME", help_heading = "Estimate")]
    look_name: Option<String>,
    /// Write a table of the bounds to this CSV file, with a picture next to it
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    out: Option<PathBuf>,
    #[command(flatten)]
    flags: PlannedFlags,
}

/// Everything that is known before any event is read.
struct BoundsSetup {
    settings: Settings,
    planned: PlannedRelease,
    stretch: StepCalendar,
    candidates: Candidates,
    name: StreamName,
    plan: Plan,
    files: Files,
    out: Option<PathBuf>,
}

impl BoundsArgs {
    /// Makes the estimate, and shows the resulting bounds.
    pub(super) fn run(self) -> Result<()> {
        let unused: Vec<String> = self.flags.unused().map(|flag| format!("--{}", flag.name())).collect();
        if !unused.is_empty() {
            eprintln!("note: not used here, where bounds on counts of events are chosen: {}", unused.join(", "));
        }
        let setup = self.setup()?;
        let files = &setup.files;
        if files.plan_only {
            return shown::print_plan(&setup);
        }
        let cancelled = interruptible()?;
        let mut open = open_key(files, &cancelled)?;
        // A look that does not fit the ledger or the source budget is refused before anything is read.
        open.ledger.stream(&open.key, &setup.name, &setup.plan, 1)?;
        let mut looked = setup.look(&open, &cancelled)?.release(&open.key, &open.ledger)?;
        let choices = setup.planned.choices(&looked.estimate)?;
        refuse_if(&cancelled)?;
        let publication = setup.written(&looked.estimate, &choices)?;
        // Commit, then publish.
        looked.record(&mut open.ledger)?;
        publication.commit().map_err(|cause| RecordedNotWritten::new("the estimate is", cause))?;
        report_new_key(&open, files);
        if files.json {
            shown::print_json(&setup, &looked.estimate, &choices)
        } else {
            shown::print_table(&setup, &looked.estimate, &choices)
        }
    }

    fn setup(self) -> Result<BoundsSetup> {
        let budget = Budget::from_numbers(self.look_epsilon, None, self.look_rho, false)
            .map_err(|problem| usage(format!("--look-epsilon or --look-rho, the budget of the estimate: {problem}")))?;
        // That of a configuration file is about the release.
        let plan_only = self.flags.0.files.plan_only;
        let written = with_config(self.flags, Use::Release)?;
        written.check_groups_file()?;
        let named = &written.files;
        let groups = named.groups_file.as_deref();
        let declaration = with_groups_of_file(written.declaration, groups, None)?;
        // The bounds are chosen for counts of events; a sum of values of the greatest size behaves like a count.
        let (value, bounds, grid, out_of_bounds, scales, rest_scale, max_total) = Default::default();
        let mut declaration =
            Declaration { value, bounds, grid, out_of_bounds, scales, rest_scale, max_total, ..declaration };
        (declaration.max_events, declaration.max_events_per_step) = (Some(1), None);
        if declaration.asserts() {
            let why = "asserted bounds need no estimate: nothing is dropped, and no column names people";
            return Err(usage(format!("{why}; omit them and give --person to estimate bounds that are enforced")));
        }
        if declaration.person.is_none() {
            return Err(usage("--person is needed: the column that names the person of each event"));
        }
        let settings = Declaration { through: None, all: Some(true), ..declaration.clone() }.resolve()?;
        let stretch = planned::stretch(&settings, self.look_from.as_deref(), self.look_until.as_deref())?;
        let planned = PlannedRelease::new(declaration, &settings, &stretch);
        let per_step = match self.try_per_step {
            Some(bounds) => bounds,
            None if planned.gains_by_step()? => vec![1, 2, 4],
            None => Vec::new(),
        };
        let largest = self.largest_events.unwrap_or(self.most_events.saturating_mul(16).max(1 << 16));
        let candidates = Candidates::new(self.most_events, largest, &per_step)?;
        let plan = planned::look_request(&settings, &stretch, &candidates, budget).plan()?;
        let name = self.look_name.unwrap_or_else(|| format!("bounds of {}", settings.name));
        let quiet = declaration::Files {
            out: Some(PathBuf::from("-")),
            output_format: Some(Format::Csv),
            json: None,
            plan_only,
            // Flags of the release that have no meaning here.
            r#continue: None,
            rebuild: None,
            expect: None,
            extend: None,
            late_file: None,
            ..written.files.clone()
        };
        let mut files = Files::new(quiet, settings.missing_text.clone())?;
        files.json = written.files.json == Some(true);
        Ok(BoundsSetup { settings, planned, stretch, candidates, name: name.parse()?, plan, files, out: self.out })
    }
}

impl BoundsSetup {
    /// Reads the events.
    fn look(&self, open: &OpenKey, cancelled: &AtomicBool) -> Result<PersonEventCounts> {
        let release = (self.name.clone(), self.plan.clone());
        let mut look =
            PersonEventCounts::new(&self.settings, self.stretch.clone(), self.candidates.clone(), release, &open.key)?;
        let (columns, progress) = (look.columns().clone(), self.files.progress());
        let mut visit = |event: &Event<'_>| -> Result<(), PipelineError> { look.push(event) };
        for_each_event(&self.files.inputs, &columns, &self.files.reading, &*progress, cancelled, &mut visit)?;
        Ok(look)
    }

    /// Writes table and picture to files that have no name yet.
    fn written(&self, estimate: &ContributionEstimate, choices: &Choices) -> Result<RunOutputs> {
        use std::io::Write;
        let mut publication = RunOutputs::new(&self.files.protected_paths(), true);
        let Some(out) = &self.out else { return Ok(publication) };
        let svg = picture::svg(self, estimate, choices);
        let png = evertally_plot::png(&svg, 2.0)?;
        let table = shown::csv(choices)?;
        for (path, bytes) in
            [(out.clone(), table), (out.with_extension("svg"), svg.into_bytes()), (out.with_extension("png"), png)]
        {
            let mut file = publication.add(&path)?;
            file.write_all(&bytes)?;
            file.finish()?;
        }
        Ok(publication)
    }
}
