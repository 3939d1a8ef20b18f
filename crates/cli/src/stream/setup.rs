//! From flags to validated parts, before any event is read: what `release` and `sketch` share.

use super::options::StreamArgs;
use crate::failure::usage;
use anyhow::Result;
use evertally::noise::StreamName;
use evertally::number::{Grid, parse_scaled};
use evertally::plan::{Objective, Plan, PlanRequest};
use evertally::privacy::{Neighbours, Unit, Values};
use evertally_publish::event::Columns;
use evertally_publish::ledger::ledger_path;
use evertally_publish::steps::{Horizon, Instant, StepCalendar, TimeFormat, TimeParser, Zone};
use evertally_publish::stream::{OutOfBounds, Refusable, Stream};
use evertally_publish::words::quoted;
use evertally_tables::input::ReadOptions;
use evertally_tables::output::OutputFormat;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a run reads and writes, and how.
pub(crate) struct Files {
    pub(crate) inputs: Vec<PathBuf>,
    pub(crate) reading: ReadOptions,
    pub(crate) key_path: PathBuf,
    pub(crate) create_key: bool,
    pub(crate) out: PathBuf,
    pub(crate) output_format: OutputFormat,
    pub(crate) plot: bool,
    /// Files that were read besides the inputs.
    side_inputs: Vec<PathBuf>,
    pub(crate) plan_only: bool,
    pub(crate) quiet: bool,
}

impl Files {
    pub(crate) fn new(args: &StreamArgs) -> Result<Self> {
        let (plan_only, needs_files) = (args.is_plan_only(), args.needs_files());
        let out = if needs_files {
            needed(args.out.clone(), "--out", "where the table goes")?
        } else {
            args.out.clone().unwrap_or("-".into())
        };
        let output_format = args.output_format.map_or_else(|| OutputFormat::of_path(&out), Ok)?;
        if needs_files && args.inputs.is_empty() {
            return Err(usage("no input file is named"));
        }
        let delimiter = delimiter(args.delimiter)?;
        let missing = args.missing_text.clone().unwrap_or_default();
        let key_path = if needs_files {
            needed(args.key.clone(), "--key", "make one with `evertally key new FILE`")?
        } else {
            PathBuf::new()
        };
        Ok(Self {
            inputs: args.inputs.clone(),
            reading: ReadOptions { format: args.input_format, delimiter, missing },
            key_path,
            create_key: args.create_key == Some(true),
            plot: args.no_plot != Some(true) && out.as_os_str() != "-",
            out,
            output_format,
            side_inputs: args.config.clone().into_iter().collect(),
            plan_only,
            quiet: args.quiet == Some(true),
        })
    }

    /// A file that was read besides the inputs.
    pub(crate) fn has_read(&mut self, path: PathBuf) {
        self.side_inputs.push(path);
    }

    /// Whether the table goes to standard output, and nothing beside it.
    pub(crate) fn is_stdout(&self) -> bool {
        self.out.as_os_str() == "-"
    }

    /// The file beside the table with another ending.
    pub(crate) fn beside(&self, ending: &str) -> PathBuf {
        self.out.with_extension(ending)
    }

    /// The endings of what is written beside the table.
    pub(crate) fn endings(&self) -> Vec<&'static str> {
        let mut endings = vec!["report.md", "report.json", "plan.toml"];
        if self.plot {
            endings.extend(["svg", "png"]);
        }
        endings
    }

    /// Files that no output may replace.
    pub(crate) fn protected_paths(&self) -> Vec<PathBuf> {
        let inputs = self.inputs.iter().chain(&self.side_inputs).cloned();
        inputs.chain([self.key_path.clone(), ledger_path(&self.key_path)]).collect()
    }
}

/// A stream whose steps and plan are decided. `labels` are the columns that name the group or item of an event.
pub(crate) fn stream(args: StreamArgs, calendar: StepCalendar, plan: Plan, labels: Vec<String>) -> Result<Stream> {
    let last_step = last_step(&args, &calendar)?;
    let values = values(&args)?;
    let name: StreamName = args.stream.unwrap_or("main".into()).parse()?;
    let confidence = args.confidence.unwrap_or(0.95);
    plan.intervals(confidence)?;
    Ok(Stream {
        columns: Columns { time: args.time.unwrap_or("time".into()), labels, person: args.person, value: args.value },
        time_format: args.time_format.unwrap_or_default(),
        title: args.title.unwrap_or_else(|| name.to_string()),
        name,
        calendar,
        last_step,
        plan,
        values,
        out_of_bounds: args.out_of_bounds.unwrap_or(OutOfBounds::Clamp),
        missing: args.missing.unwrap_or(Refusable::Refuse),
        outside: args.outside.unwrap_or(Refusable::Refuse),
        sort_buffer: args.sort_buffer.unwrap_or(0),
        confidence,
    })
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

pub(crate) fn needed<T>(value: Option<T>, flag: &str, why: &str) -> Result<T> {
    value.ok_or_else(|| usage(format!("{flag} is needed: {why}")))
}

pub(crate) fn parse_time(flag: &str, text: &str, parser: &mut TimeParser) -> Result<Instant> {
    parser.parse_text(text).map_err(|problem| usage(format!("{flag} {} {problem}", quoted(text))))
}

/// Of times in flags and configuration files.
pub(crate) fn time_parser(args: &StreamArgs) -> TimeParser {
    TimeParser::new(TimeFormat::Auto, args.time_zone.clone().unwrap_or_default())
}

/// Of times in other files than the events: written as theirs.
pub(crate) fn file_time_parser(args: &StreamArgs) -> TimeParser {
    TimeParser::new(args.time_format.unwrap_or_default(), args.time_zone.clone().unwrap_or_default())
}

pub(crate) fn calendar(args: &StreamArgs) -> Result<StepCalendar> {
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
pub(crate) fn last_step(args: &StreamArgs, calendar: &StepCalendar) -> Result<u64> {
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

/// The request for the plan of one running sum over these steps.
pub(crate) fn request(args: &StreamArgs, calendar: &StepCalendar) -> Result<PlanRequest> {
    let grid = args.grid.unwrap_or(Grid::ONE);
    if args.max_events_per_step.is_some() && args.max_events.is_none() {
        return Err(usage("--max-events-per-step needs --person and --max-events beside it"));
    }
    let unit = match (&args.person, args.max_events) {
        (Some(_), Some(max_events)) => Unit::person(max_events).with_optional_per_step(args.max_events_per_step),
        (None, None) => Unit::Event,
        (Some(_), None) => return Err(usage("--person needs --max-events: how many events of a person are kept")),
        (None, Some(_)) => return Err(usage("--max-events needs --person: the column that names the person")),
    };
    Ok(PlanRequest::count(calendar.steps(), args.budget.budget()?)
        .with_unit(unit)
        .with_neighbours(args.neighbours.unwrap_or(Neighbours::AddRemove))
        .with_values(values(args)?)
        .with_grid(grid)
        .with_optional_mechanism(args.mechanism)
        .with_optional_noise(args.noise)
        .with_objective(args.objective.unwrap_or(Objective::Max))
        .with_meanings(meaning(args, calendar)))
}

fn values(args: &StreamArgs) -> Result<Values> {
    let grid = args.grid.unwrap_or(Grid::ONE);
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
    declared_values(bounds, grid)
}

/// Sums of values between two bounds, as decimal texts.
pub fn declared_values(bounds: &[String], grid: Grid) -> Result<Values> {
    let [lower, upper] = bounds else {
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
    use evertally::number::{Rounding, parse_rounded};
    let text = text.trim();
    let negated = text.strip_prefix('-').map_or_else(|| format!("-{text}"), str::to_owned);
    let down = |text: &str| parse_rounded(text, grid, Rounding::Floor).ok();
    matches!((down(text), down(&negated)), (Some(a), Some(b)) if a == -b)
}

/// What the numbers of this plan mean. All of it shapes the data before the mechanism sees them, and a change of any
/// makes a new stream.
fn meaning(args: &StreamArgs, calendar: &StepCalendar) -> BTreeMap<String, String> {
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
    meaning
}
