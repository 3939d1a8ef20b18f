//! From flags to validated parts, before any event is read: what `release` and `sketch` share.

use super::options::{OutOfBounds, Refusable, StreamArgs};
use crate::failure::usage;
use crate::input::{Columns, ReadOptions, quoted};
use crate::ledger::ledger_path;
use crate::output::OutputFormat;
use crate::steps::{Horizon, Instant, StepCalendar, TimeFormat, TimeParser, Zone};
use anyhow::Result;
use evertally::noise::StreamName;
use evertally::number::{Grid, parse_scaled};
use evertally::plan::{Objective, Plan, PlanRequest, Prepared};
use evertally::privacy::{Neighbours, Unit, Values};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Everything about a stream that a run needs to know, checked.
pub(crate) struct StreamSetup {
    pub(crate) inputs: Vec<PathBuf>,
    pub(crate) reading: ReadOptions,
    pub(crate) columns: Columns,
    pub(crate) time_format: TimeFormat,
    pub(crate) calendar: StepCalendar,
    /// The last step to publish.
    pub(crate) last_step: u64,
    pub(crate) plan: Plan,
    /// What one event contributes, as it was declared: the plan of a sketch covers either sign.
    pub(crate) values: Values,
    pub(crate) out_of_bounds: OutOfBounds,
    pub(crate) missing: Refusable,
    pub(crate) outside: Refusable,
    pub(crate) sort_buffer: usize,
    pub(crate) key_path: PathBuf,
    pub(crate) create_key: bool,
    pub(crate) name: StreamName,
    pub(crate) out: PathBuf,
    pub(crate) output_format: OutputFormat,
    pub(crate) confidence: f64,
    pub(crate) title: String,
    pub(crate) plot: bool,
    /// Files that were read besides the inputs.
    side_inputs: Vec<PathBuf>,
    pub(crate) plan_only: bool,
    pub(crate) quiet: bool,
}

impl StreamSetup {
    /// The parts of a stream whose steps and plan are decided. `keys` are the columns that name the group or item of an event.
    pub(crate) fn new(args: StreamArgs, calendar: StepCalendar, plan: Plan, keys: Vec<String>) -> Result<Self> {
        let (plan_only, needs_files) = (args.is_plan_only(), args.needs_files());
        let last_step = last_step(&args, &calendar)?;
        let values = values(&args)?;
        let name: StreamName = args.stream.unwrap_or("main".into()).parse()?;
        let confidence = args.confidence.unwrap_or(0.95);
        plan.intervals(confidence)?;
        let out = if needs_files {
            needed(args.out, "--out", "where the table goes")?
        } else {
            args.out.unwrap_or("-".into())
        };
        Ok(Self {
            output_format: args.output_format.map_or_else(|| OutputFormat::of_path(&out), Ok)?,
            inputs: if !needs_files || !args.inputs.is_empty() {
                args.inputs
            } else {
                return Err(usage("no input file is named"));
            },
            reading: ReadOptions {
                format: args.input_format,
                delimiter: delimiter(args.delimiter)?,
                missing: args.missing_text.unwrap_or_default(),
            },
            side_inputs: args.config.into_iter().collect(),
            columns: Columns {
                time: args.time.unwrap_or("time".into()),
                groups: keys,
                person: args.person,
                value: args.value,
            },
            time_format: args.time_format.unwrap_or_default(),
            key_path: if needs_files {
                needed(args.key, "--key", "make one with `evertally key new FILE`")?
            } else {
                PathBuf::new()
            },
            create_key: args.create_key == Some(true),
            title: args.title.unwrap_or_else(|| name.to_string()),
            calendar,
            last_step,
            plan,
            values,
            out_of_bounds: args.out_of_bounds.unwrap_or(OutOfBounds::Clamp),
            missing: args.missing.unwrap_or(Refusable::Refuse),
            outside: args.outside.unwrap_or(Refusable::Refuse),
            sort_buffer: args.sort_buffer.unwrap_or(0),
            name,
            plot: args.no_plot != Some(true) && out.as_os_str() != "-",
            out,
            confidence,
            plan_only,
            quiet: args.quiet == Some(true),
        })
    }

    /// A file that was read besides the inputs.
    pub(crate) fn has_read(&mut self, path: PathBuf) {
        self.side_inputs.push(path);
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

    /// What is counted or summed, in words.
    pub(crate) fn quantity(&self) -> String {
        match &self.columns.value {
            Some(column) => format!("running sum of {column}"),
            None => "running count of events".into(),
        }
    }

    /// The privacy unit in words.
    pub(crate) fn unit(&self) -> String {
        match (self.plan.request().unit(), &self.columns.person) {
            (Unit::Person { max_events, max_events_per_step }, Some(column)) => {
                let per_step = max_events_per_step.map_or(String::new(), |n| format!(", {n} a step"));
                format!("one {column} (at most {max_events} events kept{per_step})")
            }
            _ => "one event".into(),
        }
    }

    /// The beginning of the horizon: a date alone where it begins at midnight.
    pub(crate) fn start_in_words(&self) -> String {
        let start = self.calendar.start();
        let civil = start.timestamp().map(|time| self.calendar.zone().time_zone().to_datetime(time));
        match civil {
            Some(civil) if civil.time() == jiff::civil::Time::midnight() => civil.strftime("%-d %B %Y").to_string(),
            _ => self.calendar.format(start),
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
    Ok(PlanRequest {
        horizon: calendar.steps(),
        budget: args.budget.budget()?,
        unit,
        neighbours: args.neighbours.unwrap_or(Neighbours::AddRemove),
        values: values(args)?,
        sums_per_event: 1,
        grid,
        mechanism: args.mechanism,
        noise: args.noise,
        objective: args.objective.unwrap_or(Objective::Max),
        light_steps: false,
        prepared: Prepared::default(),
        meaning: meaning(args, calendar),
    })
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
