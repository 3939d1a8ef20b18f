//! The facts of a ledger that can be read without its key.

use super::contents::{Contents, Entry};
use super::{Issuer, Run, ledger_path};
use crate::counted::{Link, counted};
use crate::protects::Protects;
use evertally::mechanism::MechanismName;
use evertally::plan::Plan;
use evertally::privacy::composition::{Expense, Odometer};
use evertally::privacy::selection::Selection;
use evertally::privacy::{Budget, Delta, Epsilon, Neighbours, Rho, Unit};
use evertally_declare::chain::{ChainPeriod, ChainUnit};
use evertally_declare::error::{Result, usage};
use evertally_declare::settings::Assertion;
use evertally_declare::steps::{Instant, Period, Zone};
use jiff::Timestamp;
use serde::Deserialize;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// A ledger as anyone with the file can read it: nothing in it is secret, and only its form is checked.
pub struct PublicLedger {
    contents: Contents,
    /// The path of the log of steps, which need not exist.
    log: PathBuf,
}

/// A stream of a ledger.
pub struct PublishedStream {
    /// Its name.
    pub name: String,
    /// The budget of its plan.
    pub budget: Budget,
    /// The δ with which its groups are selected, if they are discovered.
    pub selection: Option<Delta>,
    /// Whom the plan protects.
    pub protects: Protects,
    /// Whether the bounds on its persons are asserted, and nothing enforces them.
    pub asserted: bool,
    /// The stream that it continues, if any.
    pub follows: Option<String>,
    /// The largest number of these consecutive streams in which one unit can have data.
    max_streams: u32,
    /// The last published step.
    pub steps: u64,
    /// Its runs, with their dates; empty for a stream that was delegated to another ledger.
    pub runs: Vec<Run>,
    plan_text: String,
}

impl PublishedStream {
    /// The privacy cost of its plan.
    pub fn expense(&self) -> Expense {
        let own = Expense::from(self.budget);
        self.selection.map_or(own, |delta| own.with_selection(delta))
    }

    fn link(&self) -> Link<'_> {
        let follows = self.follows.as_deref();
        Link { key: "", stream: &self.name, follows, max_streams: self.max_streams, cost: self.expense() }
    }
}

/// The order of pairs whose members are ordered the same way; `None` if they are not.
fn of_pairs(one: Ordering, other: Ordering) -> Option<Ordering> {
    match (one, other) {
        (Ordering::Equal, order) | (order, Ordering::Equal) => Some(order),
        (one, other) => (one == other).then_some(one),
    }
}

impl PublicLedger {
    /// Reads a ledger: its file, or the ledger next to a key, which is not read.
    ///
    /// # Errors
    /// If it does not exist, or is damaged.
    pub fn read(path: &Path) -> Result<Self> {
        let beside = ledger_path(path);
        // A key is not read, except for one byte, which distinguishes it from a ledger.
        let path = if is_json(path) || !beside.exists() { path } else { &beside };
        let shown = path.display();
        let bytes = std::fs::read(path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => usage(format!("there is no ledger {shown}; name a key or its ledger")),
            _ => usage(format!("the ledger {shown} cannot be read: {error}")),
        })?;
        let key = if is_json(path) { path.with_extension("") } else { path.to_owned() };
        let mut log = key.into_os_string();
        log.push(".uses");
        Ok(Self { contents: Contents::read(&bytes, &shown.to_string())?, log: log.into() })
    }

    /// Which of two copies of a ledger contains more, given that the runs of one are the first runs of the other. It
    /// compares the number of runs, the names under which programs have issued noise, and the logs of steps. `None` if
    /// each copy records noise that the other does not.
    ///
    /// A log only grows, unless it is rewritten because thousands of its records are no longer needed; two copies of
    /// which one was rewritten count as diverged.
    ///
    /// # Errors
    /// If a log cannot be read.
    pub fn compare_copies(&self, other: &Self) -> Result<Option<Ordering>> {
        let part_of = |ours: bool, theirs: bool| match (ours, theirs) {
            (true, true) => Some(Ordering::Equal),
            (true, false) => Some(Ordering::Less),
            (false, true) => Some(Ordering::Greater),
            (false, false) => None,
        };
        let (ours, theirs) = (self.contents.issued_noise(), other.contents.issued_noise());
        let by_names = part_of(ours.is_subset(&theirs), theirs.is_subset(&ours));
        let (ours, theirs) = (self.log()?, other.log()?);
        let by_logs = part_of(theirs.starts_with(&ours), ours.starts_with(&theirs));
        let by_runs = Some(self.counter().cmp(&other.counter()));
        let both = |one: Option<Ordering>, other: Option<Ordering>| of_pairs(one?, other?);
        Ok(both(both(by_runs, by_names), by_logs))
    }

    fn log(&self) -> Result<Vec<u8>> {
        match std::fs::read(&self.log) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            read => read.map_err(|error| usage(format!("the log {} cannot be read: {error}", self.log.display()))),
        }
    }

    /// The names under which noise was issued outside of releases, with their issuers. Its privacy cost is not recorded
    /// here.
    pub fn issued(&self) -> impl Iterator<Item = (&str, Issuer)> {
        self.contents.issued.iter().map(|(name, issued)| (name.as_str(), issued.by))
    }

    /// The folder of the service that the key belongs to.
    pub fn service(&self) -> Option<&str> {
        Some(&self.contents.service.as_ref()?.folder)
    }

    /// The public id of its key.
    pub fn key_id(&self) -> &str {
        &self.contents.key_id
    }

    /// See [`Ledger::identity`](super::Ledger::identity).
    pub fn identity(&self) -> &str {
        &self.contents.identity
    }

    /// The number of runs ever recorded.
    pub fn counter(&self) -> u64 {
        self.contents.counter
    }

    /// See [`Ledger::head`](super::Ledger::head).
    pub fn head(&self, counter: u64) -> String {
        self.contents.head(counter)
    }

    /// All runs in the order of their numbers, each with its stream's name.
    pub fn runs(&self) -> Vec<(&str, &Run)> {
        self.contents.runs()
    }

    /// Every published stream.
    ///
    /// # Errors
    /// If a plan cannot be read.
    pub fn streams(&self) -> Result<Vec<PublishedStream>> {
        let of = |(name, entry): (&String, &Entry)| {
            let plan = RecordedPlan::of(name, entry)?;
            Ok(PublishedStream {
                name: name.clone(),
                budget: plan.budget,
                selection: plan.selection.map(|selection| selection.delta()),
                protects: Protects::new(plan.unit, plan.neighbours, &plan.meaning),
                asserted: Assertion::is_in(&plan.meaning),
                follows: entry.follows.as_ref().map(|follows| follows.stream.clone()),
                max_streams: self.max_streams(entry, &plan)?,
                steps: entry.last_step(),
                runs: entry.runs.clone(),
                plan_text: entry.plan_text.clone(),
            })
        };
        self.contents.streams.iter().map(of).collect()
    }

    /// The largest number of consecutive streams, up to this one, in which one unit can have data.
    fn max_streams(&self, entry: &Entry, plan: &RecordedPlan) -> Result<u32> {
        let longest = plan.unit.bounds().and_then(|bounds| bounds.reach());
        let period = match (longest, plan.period()) {
            (Some(longest), Some(period)) => {
                let is_divided = !self.begins_with_a_period(entry, plan, period)?;
                Some(ChainPeriod { is_divided, fits: longest <= plan.horizon })
            }
            _ => None,
        };
        Ok(ChainUnit::new(plan.unit, plan.neighbours, period).max_streams())
    }

    /// Whether this stream and all that it continues, except the first, begin with a new period.
    fn begins_with_a_period(&self, entry: &Entry, plan: &RecordedPlan, period: Period) -> Result<bool> {
        let (mut entry, mut earlier) = (entry, None);
        while let Some(follows) = &entry.follows {
            let plan = earlier.as_ref().unwrap_or(plan);
            let Some(before) = self.contents.streams.get(&follows.stream) else { return Ok(false) };
            let plan_before = RecordedPlan::of(&follows.stream, before)?;
            let begin = plan_before.start().map(Instant::from);
            let length = plan.unit.bounds().and_then(|bounds| bounds.reach());
            let is_multiple = length.is_some_and(|length| plan.horizon.is_multiple_of(length));
            let begins = |(start, zone): (Timestamp, Zone)| period.begins_at(start.into(), begin, &zone, is_multiple);
            if !plan.start().zip(plan.zone()).is_some_and(begins) {
                return Ok(false);
            }
            (entry, earlier) = (before, Some(plan_before));
        }
        Ok(true)
    }
}

/// What a total needs of a stream's plan.
#[derive(Deserialize)]
struct RecordedPlan {
    budget: Budget,
    selection: Option<Selection>,
    unit: Unit,
    neighbours: Neighbours,
    horizon: u64,
    #[serde(default)]
    meaning: BTreeMap<String, String>,
}

impl RecordedPlan {
    fn of(name: &str, entry: &Entry) -> Result<Self> {
        toml::from_str(&entry.plan_text)
            .map_err(|e| usage(format!("the ledger's plan of stream `{name}` cannot be read: {e}")))
    }

    fn period(&self) -> Option<Period> {
        self.meaning.get("per").and_then(|text| text.parse().ok())
    }

    fn start(&self) -> Option<Timestamp> {
        self.meaning.get("start").and_then(|text| text.parse().ok())
    }

    fn zone(&self) -> Option<Zone> {
        self.meaning.get("time-zone").map_or_else(|| Some(Zone::utc()), |name| name.parse().ok())
    }
}

/// Whether a file begins like a ledger.
fn is_json(path: &Path) -> bool {
    let mut first = [0];
    path.is_file() && File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok_and(|()| first == *b"{")
}

/// The total privacy cost of streams that protect the same units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spent {
    /// Pure ε, if all of them have one.
    pub pure_epsilon: Option<f64>,
    /// ρ of zCDP, if all of them have one.
    pub rho: Option<f64>,
    /// The δ of the selection of groups, summed up. If present, there is no pure ε, ρ holds except with this
    /// probability, and the requested δ includes it.
    pub selection: Option<f64>,
    /// ε at the requested δ; infinite if none is known.
    pub epsilon: f64,
}

/// The total privacy cost of streams; each counts in full as soon as its first step is published. Rounded up. Of
/// consecutive streams, as many count as can have data of one unit.
///
/// For a single stream it equals the guarantee in the stream's report.
pub fn spent(streams: &[&PublishedStream], delta: Delta) -> Spent {
    let links: Vec<Link<'_>> = streams.iter().map(|stream| stream.link()).collect();
    let counted = streams.iter().zip(counted(&links)).filter_map(|(stream, counts)| counts.then_some(*stream));
    let streams: Vec<&PublishedStream> = counted.collect();
    let mut odometer = Odometer::default();
    streams.iter().for_each(|stream| odometer.record(stream.expense()));
    let selection = Some(odometer.selection()).filter(|delta| *delta > 0.0);
    let by_budgets = Spent {
        pure_epsilon: odometer.pure_epsilon(),
        rho: odometer.rho(),
        selection,
        epsilon: odometer.epsilon_at(delta),
    };
    let [stream] = streams[..] else { return by_budgets };
    let Some(plan) = stream.plan() else { return by_budgets };
    let guarantee = plan.guarantee();
    Spent {
        pure_epsilon: guarantee.pure_epsilon.map(Epsilon::get),
        rho: Some(Rho::get(guarantee.rho)),
        selection,
        epsilon: guarantee.epsilon_at(delta),
    }
}

impl PublishedStream {
    /// The plan itself, unless it needs a search of minutes, or another version wrote it.
    fn plan(&self) -> Option<Plan> {
        let name = |line: &str| line.strip_prefix("mechanism = \"")?.strip_suffix('"')?.parse::<MechanismName>().ok();
        let is_searched = |name: MechanismName| name.family().long_search.is_some();
        if self.plan_text.lines().filter_map(name).any(is_searched) {
            None
        } else {
            toml::from_str(&self.plan_text).ok()
        }
    }
}
