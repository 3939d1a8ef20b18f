//! From flags to validated parts, before any event is read.

use super::groups::GroupTable;
use super::options::{OutOfBounds, Refusable, ReleaseArgs};
use crate::failure::usage;
use crate::input::{Columns, InputFormat, quoted};
use crate::ledger::ledger_path;
use crate::output::{OutputFormat, TableSpec};
use crate::searched;
use crate::steps::{Horizon, Instant, StepCalendar, TimeFormat, TimeParser, Zone};
use anyhow::Result;
use evertally::decimal::{Grid, parse_scaled};
use evertally::noise::StreamName;
use evertally::plan::{Neighbours, Objective, Plan, PlanRequest, Prepared, Unit, Values};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Whether mechanisms whose time and memory grow with the horizon would take more than about half a minute (steps² × groups)
/// or a gigabyte (steps × groups).
fn is_heavy(steps: u64, groups: usize) -> bool {
    let (steps, groups) = (steps as f64, groups as f64);
    steps * steps * groups > 4e10 || steps * groups > 3e7
}

/// Everything a run needs to know, checked.
pub(super) struct Setup {
    pub(super) inputs: Vec<PathBuf>,
    pub(super) input_format: Option<InputFormat>,
    pub(super) delimiter: u8,
    pub(super) missing_texts: Vec<String>,
    pub(super) columns: Columns,
    pub(super) time_format: TimeFormat,
    pub(super) calendar: StepCalendar,
    /// The last step to publish.
    pub(super) last_step: u64,
    pub(super) groups: Option<GroupTable>,
    pub(super) plan: Plan,
    pub(super) out_of_bounds: OutOfBounds,
    pub(super) missing: Refusable,
    pub(super) outside: Refusable,
    pub(super) sort_buffer: usize,
    pub(super) key_path: PathBuf,
    pub(super) create_key: bool,
    pub(super) stream: StreamName,
    pub(super) out: PathBuf,
    pub(super) output_format: OutputFormat,
    pub(super) table: TableSpec,
    pub(super) confidence: f64,
    pub(super) title: String,
    pub(super) plot: bool,
    pub(super) show_truth: bool,
    /// Files that were read besides the inputs.
    pub(super) side_inputs: Vec<PathBuf>,
    pub(super) plan_only: bool,
    pub(super) quiet: bool,
}

impl Setup {
    pub(super) fn new(args: ReleaseArgs) -> Result<Self> {
        let args = args.with_config()?;
        let plan_only = args.plan_only == Some(true);
        let calendar = calendar(&args)?;
        let last_step = last_step(&args, &calendar)?;
        let groups = groups(&args)?;
        let plan = plan(&args, &calendar, groups.as_ref())?;
        let stream: StreamName = args.stream.clone().unwrap_or("main".into()).parse()?;
        let confidence = args.confidence.unwrap_or(0.95);
        plan.intervals(confidence)?;
        let integral = plan.request().grid.is_integral() && plan.fraction_bits() == 0;
        let group_columns = args.group_by.clone().unwrap_or_default();
        let out =
            if plan_only { args.out.unwrap_or("-".into()) } else { needed(args.out, "--out", "where the table goes")? };
        Ok(Self {
            output_format: args.output_format.map_or_else(|| OutputFormat::of_path(&out), Ok)?,
            inputs: if plan_only || !args.inputs.is_empty() {
                args.inputs
            } else {
                return Err(usage("no input file is named"));
            },
            input_format: args.input_format,
            delimiter: delimiter(args.delimiter)?,
            side_inputs: args.groups_file.into_iter().chain(args.config).collect(),
            missing_texts: args.missing_text.unwrap_or_default(),
            columns: Columns {
                time: args.time.unwrap_or("time".into()),
                groups: group_columns.clone(),
                person: args.person,
                value: args.value,
            },
            time_format: args.time_format.unwrap_or_default(),
            table: TableSpec::new(group_columns, integral).map_err(usage)?,
            key_path: if plan_only {
                PathBuf::new()
            } else {
                needed(args.key, "--key", "make one with `evertally key new FILE`")?
            },
            create_key: args.create_key == Some(true),
            title: args.title.unwrap_or_else(|| stream.to_string()),
            calendar,
            last_step,
            groups,
            plan,
            out_of_bounds: args.out_of_bounds.unwrap_or(OutOfBounds::Clamp),
            missing: args.missing.unwrap_or(Refusable::Refuse),
            outside: args.outside.unwrap_or(Refusable::Refuse),
            sort_buffer: args.sort_buffer.unwrap_or(0),
            stream,
            plot: args.no_plot != Some(true) && out.as_os_str() != "-",
            out,
            confidence,
            show_truth: args.unsafe_show_truth == Some(true),
            plan_only,
            quiet: args.quiet == Some(true),
        })
    }

    /// The file beside the table with another ending.
    pub(super) fn beside(&self, ending: &str) -> PathBuf {
        self.out.with_extension(ending)
    }

    /// Files that no output may replace.
    pub(super) fn protected_paths(&self) -> Vec<PathBuf> {
        let inputs = self.inputs.iter().chain(&self.side_inputs).cloned();
        inputs.chain([self.key_path.clone(), ledger_path(&self.key_path)]).collect()
    }

    /// What is counted or summed, in words.
    pub(super) fn quantity(&self) -> String {
        match &self.columns.value {
            Some(column) => format!("running sum of {column}"),
            None => "running count of events".into(),
        }
    }

    /// The privacy unit in words.
    pub(super) fn unit(&self) -> String {
        match (self.plan.request().unit, &self.columns.person) {
            (Unit::Person { max_events, max_events_per_step }, Some(column)) => {
                let per_step = max_events_per_step.map_or(String::new(), |n| format!(", {n} a step"));
                format!("one {column} (at most {max_events} events kept{per_step})")
            }
            _ => "one event".into(),
        }
    }
}

fn delimiter(given: Option<char>) -> Result<u8> {
    match given {
        None => Ok(b','),
        Some(c) if c.is_ascii() && c != '"' && c != '\n' && c != '\r' => Ok(c as u8),
        Some(c) => Err(usage(format!(
            "--delimiter {} is not an ASCII character that can separate cells",
            quoted(&c.to_string())
        ))),
    }
}

fn needed<T>(value: Option<T>, flag: &str, why: &str) -> Result<T> {
    value.ok_or_else(|| usage(format!("{flag} is needed: {why}")))
}

fn parse_time(flag: &str, text: &str, parser: &mut TimeParser) -> Result<Instant> {
    parser.parse_text(text).map_err(|problem| usage(format!("{flag} {} {problem}", quoted(text))))
}

fn time_parser(args: &ReleaseArgs) -> TimeParser {
    TimeParser::new(TimeFormat::Auto, args.time_zone.clone().unwrap_or_default())
}

fn calendar(args: &ReleaseArgs) -> Result<StepCalendar> {
    let mut parser = time_parser(args);
    let start =
        needed(args.start.as_ref(), "--start", "the beginning of the first step, decided before seeing the data")?;
    let start = parse_time("--start", start, &mut parser)?;
    let horizon = match (&args.end, args.steps) {
        (Some(end), None) => Horizon::Until(parse_time("--end", end, &mut parser)?),
        (None, Some(steps)) => Horizon::Steps(steps),
        (None, None) => return Err(usage("--end or --steps is needed: the horizon is decided before seeing the data")),
        (Some(_), Some(_)) => return Err(usage("give either --end or --steps, not both")),
    };
    let every = needed(args.every, "--every", "the width of a step, such as 1h or 1d")?;
    let zone: Zone = args.time_zone.clone().unwrap_or_default();
    StepCalendar::new(start, horizon, every, zone).map_err(|problem| usage(problem.to_string()))
}

/// The last step that ends by `--through`.
fn last_step(args: &ReleaseArgs, calendar: &StepCalendar) -> Result<u64> {
    let Some(text) = &args.through else { return Ok(calendar.steps()) };
    let through = parse_time("--through", text, &mut time_parser(args))?;
    if through == calendar.end() {
        return Ok(calendar.steps());
    }
    if through > calendar.end() {
        let end = calendar.format(calendar.end());
        return Err(usage(format!(
            "--through {} is after the end of the horizon, {end}; leave it out to publish all",
            quoted(text)
        )));
    }
    match calendar.step_of(through) {
        Some(open) if open > 1 => Ok(open - 1),
        _ => Err(usage(format!(
            "--through {} is before the end of the first step, {}; nothing would be published",
            quoted(text),
            calendar.end_of(1)
        ))),
    }
}

fn groups(args: &ReleaseArgs) -> Result<Option<GroupTable>> {
    let Some(columns) = args.group_by.clone() else {
        if args.groups.is_some() || args.groups_file.is_some() || args.rest.is_some() {
            return Err(usage("--groups, --groups-file and --rest need --group-by: the column that names the group"));
        }
        return Ok(None);
    };
    match (&args.groups, &args.groups_file) {
        (Some(names), None) => GroupTable::of_names(columns, names.clone(), args.rest.clone()).map(Some),
        (None, Some(path)) => GroupTable::of_file(columns, path, args.rest.clone()).map(Some),
        (None, None) => Err(usage(
            "--group-by needs --groups or --groups-file: groups are declared, because one that appears only when \
             the data has it tells that someone is in it",
        )),
        (Some(_), Some(_)) => Err(usage("give either --groups or --groups-file, not both")),
    }
}

fn plan(args: &ReleaseArgs, calendar: &StepCalendar, groups: Option<&GroupTable>) -> Result<Plan> {
    let grid = args.grid.unwrap_or(Grid::ONE);
    if args.max_events_per_step.is_some() && args.max_events.is_none() {
        return Err(usage("--max-events-per-step needs --person and --max-events beside it"));
    }
    let unit = match (&args.person, args.max_events) {
        (Some(_), Some(max_events)) => Unit::Person { max_events, max_events_per_step: args.max_events_per_step },
        (None, None) => Unit::Event,
        (Some(_), None) => return Err(usage("--person needs --max-events: how many events of a person are kept")),
        (None, Some(_)) => return Err(usage("--max-events needs --person: the column that names the person")),
    };
    let request = PlanRequest {
        horizon: calendar.steps(),
        budget: args.budget.budget()?,
        unit,
        neighbours: args.neighbours.unwrap_or(Neighbours::AddRemove),
        values: values(args, grid)?,
        sums_per_event: 1,
        grid,
        mechanism: args.mechanism,
        noise: args.noise,
        objective: args.objective.unwrap_or(Objective::Max),
        light_steps: is_heavy(calendar.steps(), groups.map_or(1, |table| table.tuples().len())),
        prepared: Prepared::default(),
        meaning: meaning(args, calendar, groups),
    };
    Ok(searched::with_searched(request)?.plan()?)
}

fn values(args: &ReleaseArgs, grid: Grid) -> Result<Values> {
    let Some(bounds) = &args.bounds else {
        if args.value.is_some() {
            return Err(usage("--value needs --bounds LOW,HIGH: the least and greatest value of one event"));
        }
        if args.grid.is_some() {
            return Err(usage("--grid needs --value: counts are whole numbers"));
        }
        return Ok(Values::Count);
    };
    if args.value.is_none() {
        return Err(usage("--bounds needs --value: the column to sum"));
    }
    let [lower, upper] = &bounds[..] else {
        return Err(usage(format!("--bounds needs two numbers, LOW,HIGH, and got {}", bounds.len())));
    };
    let multiple = |text: &String| {
        let refuse = |_| usage(format!("--bounds: {} is not a number that fits the grid {grid}", quoted(text)));
        let multiple = parse_scaled(text, grid).map_err(refuse)?;
        // A bound between two grid values would be rounded: say so instead.
        if on_grid(text, grid) {
            Ok(multiple)
        } else {
            Err(usage(format!("--bounds: {} is not a multiple of the grid {grid}", quoted(text))))
        }
    };
    Ok(Values::Sum { lower: multiple(lower)?, upper: multiple(upper)? })
}

/// Whether a decimal text names a multiple of the grid: rounding down and rounding to nearest then agree, also for the
/// negated number.
fn on_grid(text: &str, grid: Grid) -> bool {
    use evertally::decimal::{Rounding, parse_rounded};
    let text = text.trim();
    let negated = text.strip_prefix('-').map_or_else(|| format!("-{text}"), str::to_owned);
    let down = |text: &str| parse_rounded(text, grid, Rounding::Floor).ok();
    matches!((down(text), down(&negated)), (Some(a), Some(b)) if a == -b)
}

/// What the numbers of this plan mean. All of it shapes the data before the mechanism sees them, and a change of any
/// makes a new stream.
fn meaning(args: &ReleaseArgs, calendar: &StepCalendar, groups: Option<&GroupTable>) -> BTreeMap<String, String> {
    let spec = calendar.spec();
    let policy = |choice: Option<Refusable>| if choice == Some(Refusable::Skip) { "skip" } else { "refuse" };
    let mut meaning = BTreeMap::from([
        ("start".to_owned(), spec.start.to_string()),
        ("every".to_owned(), spec.every.to_string()),
        ("time-zone".to_owned(), spec.zone.to_string()),
        ("outside".to_owned(), policy(args.outside).to_owned()),
        ("missing".to_owned(), policy(args.missing).to_owned()),
    ]);
    let mut put = |name: &str, text: Option<String>| meaning.extend(text.map(|text| (name.to_owned(), text)));
    put("person", args.person.clone());
    put("value", args.value.clone());
    put("out-of-bounds", (args.out_of_bounds == Some(OutOfBounds::Refuse)).then(|| "refuse".to_owned()));
    put("group-by", args.group_by.as_ref().map(|columns| columns.join(",")));
    put("groups", groups.map(|g| format!("{} (digest {})", g.tuples().len(), g.digest())));
    put("rest", groups.and_then(|g| g.rest_name()).map(str::to_owned));
    meaning
}
