//! `evertally key compare`: detects forks between two copies of a ledger.

use crate::failure::usage;
use anyhow::Result;
use evertally_ledger::ledger::PublicLedger;
use serde_json::json;
use std::cmp::Ordering;
use std::fmt::Display;
use std::path::Path;

/// The relation between two ledgers.
enum LedgerRelation {
    Same,
    /// The first is an older copy, with this number of runs.
    FirstOlder(u64),
    SecondOlder(u64),
    /// They have this number of runs in common, and each has further runs.
    Fork(u64),
    /// Their runs are ordered, but each has issued noise outside of runs that the other does not know.
    IssuedApart,
    /// Two ledgers of one key that have nothing in common.
    TwoOfOneKey,
    OtherKey,
}

/// Compares two ledgers, or a report and a ledger, and explains the result.
pub(super) fn run(a: &Path, b: &Path, as_json: bool) -> Result<()> {
    match (published(a)?, published(b)?) {
        (None, None) => ledgers(a, b, as_json),
        (Some(table), None) => table_and_ledger(&table, a, b, as_json),
        (None, Some(table)) => table_and_ledger(&table, b, a, as_json),
        (Some(_), Some(_)) => Err(usage("two reports do not show what each machine has published; give a ledger, too")),
    }
}

fn ledgers(a: &Path, b: &Path, as_json: bool) -> Result<()> {
    let (first, second) = (PublicLedger::read(a)?, PublicLedger::read(b)?);
    let verdict = verdict(&first, &second)?;
    let (a, b) = (a.display(), b.display());
    let (word, sentence) = match verdict {
        LedgerRelation::Same => {
            ("same", format!("{a} and {b} are the same ledger, with {} recorded runs", first.counter()))
        }
        LedgerRelation::FirstOlder(runs) => ("older", older(&a, &b, runs, second.counter())),
        LedgerRelation::SecondOlder(runs) => ("older", older(&b, &a, runs, first.counter())),
        LedgerRelation::IssuedApart => (
            "fork",
            format!(
                "FORK: {a} and {b} are copies of one ledger, and programs have issued noise with each of them that the \
                 other does not know (as Counter objects or noise for training; `evertally key spent` names their \
                 streams). Streams that are in both may reveal the difference of their data. Stop using the key"
            ),
        ),
        LedgerRelation::Fork(common) => ("fork", {
            let next = |ledger: &PublicLedger| {
                let runs = ledger.runs();
                let next = runs.into_iter().find(|(_, run)| run.counter > common);
                next.map_or("nothing".to_owned(), |(name, run)| {
                    format!("stream `{name}` through step {} at {:.0}", run.through, run.at)
                })
            };
            let (one, other) = (next(&first), next(&second));
            format!(
                "FORK: {a} and {b} have {common} recorded runs in common; after that {a} has {one}, {b} has {other}. \
                 Streams that both have published since may reveal the difference of their data. Stop using the key, \
                 and check which streams are in both"
            )
        }),
        LedgerRelation::TwoOfOneKey => (
            "fork",
            format!(
                "FORK: {a} and {b} are two ledgers of one key ({}) with no run in common; neither contains the \
                 runs of the other. Stop using the key, and check which streams are in both",
                first.key_id()
            ),
        ),
        LedgerRelation::OtherKey => {
            ("other", format!("{a} and {b} belong to different keys; their noise cannot coincide"))
        }
    };
    conclude(word, &sentence, as_json)
}

fn verdict(first: &PublicLedger, second: &PublicLedger) -> Result<LedgerRelation> {
    if first.key_id() != second.key_id() {
        return Ok(LedgerRelation::OtherKey);
    }
    if first.identity() != second.identity() {
        return Ok(LedgerRelation::TwoOfOneKey);
    }
    let shared = first.counter().min(second.counter());
    let agree = |runs: u64| first.head(runs) == second.head(runs);
    if !agree(shared) {
        // Heads agree up to the fork and nowhere after it.
        let (mut common, mut apart) = (0, shared);
        while common + 1 < apart {
            let middle = common + (apart - common) / 2;
            if agree(middle) { common = middle } else { apart = middle }
        }
        return Ok(LedgerRelation::Fork(common));
    }
    Ok(match first.compare_copies(second)? {
        Some(Ordering::Less) => LedgerRelation::FirstOlder(shared),
        Some(Ordering::Equal) => LedgerRelation::Same,
        Some(Ordering::Greater) => LedgerRelation::SecondOlder(shared),
        None => LedgerRelation::IssuedApart,
    })
}

fn older(copy: &impl Display, newer: &impl Display, runs: u64, all: u64) -> String {
    let lacks = if runs < all {
        format!("it has {runs} of its {all} runs")
    } else {
        "it lacks noise that programs have issued since then".to_owned()
    };
    format!("{copy} is an older copy of {newer}: {lacks}. Use {newer}, never {copy}")
}

/// The facts in a report about the ledger that recorded it.
struct Published {
    stream: String,
    key_id: String,
    through: u64,
    identity: String,
    run: u64,
}

/// Reads a report, or the report next to a table; `None` if the file is neither.
fn published(path: &Path) -> Result<Option<Published>> {
    let report = |path: &Path| {
        let text = std::fs::read_to_string(path).ok()?;
        serde_json::from_str::<serde_json::Value>(&text).ok().filter(|report| report.get("plan_digest").is_some())
    };
    let is_ledger = path.extension().is_some_and(|ending| ending == "ledger" || ending == "key");
    let beside = path.with_extension("report.json");
    let Some(report) = report(path).or_else(|| (!is_ledger).then(|| report(&beside))?) else { return Ok(None) };
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    let found = || {
        Some(Published {
            stream: text(&report["stream"])?,
            key_id: text(&report["key_id"])?,
            through: report["horizon"]["released_steps"].as_u64()?,
            identity: text(&report["ledger"]["identity"])?,
            run: report["ledger"]["run"].as_u64()?,
        })
    };
    let shown = path.display();
    found().map(Some).ok_or_else(|| {
        usage(format!(
            "the report of {shown} does not name the ledger that recorded it; use the original, unedited report"
        ))
    })
}

fn table_and_ledger(table: &Published, shown: &Path, ledger: &Path, as_json: bool) -> Result<()> {
    let known = PublicLedger::read(ledger)?;
    let (shown, at) = (shown.display(), ledger.display());
    let Published { stream, through, run: number, .. } = table;
    let recorded = known.runs().into_iter().find(|(_, run)| run.counter == *number);
    let (word, said) = if table.key_id != known.key_id() {
        ("other", format!("{shown} was published with a different key than that of {at}"))
    } else if table.identity != known.identity() {
        ("fork", format!("FORK: {shown} was recorded in a ledger of the same key, but not in {at}. Stop using the key"))
    } else if *number > known.counter() {
        let runs = known.counter();
        (
            "older",
            format!(
                "{at} is an older copy: {shown} is run {number}, but the copy has only {runs}. Restore the newer ledger"
            ),
        )
    } else {
        match recorded {
            Some((name, run)) if name == stream && run.through >= *through => {
                let place = format!(
                    "{shown} reports to be run {number} of this ledger, and {at} has its stream at that run ({:.0})",
                    run.at
                );
                // A report contains neither time nor digest of its run, because it must not depend on the data.
                (
                    "same",
                    place
                        + ". A copy that published the same stream instead would report the same: compare ledgers, too",
                )
            }
            other => {
                let has =
                    other.map_or("another".into(), |(name, run)| format!("`{name}` through step {}", run.through));
                (
                    "fork",
                    format!(
                        "FORK: {shown} is run {number} of a copy of {at}, which has {has} there. Stop using the key"
                    ),
                )
            }
        }
    };
    conclude(word, &said, as_json)
}

/// Prints the result; a fork is an error, so that scripts can detect it.
fn conclude(word: &str, said: &str, as_json: bool) -> Result<()> {
    if as_json {
        println!("{}", serde_json::to_string_pretty(&json!({"verdict": word, "text": said}))?);
    } else if word != "fork" {
        println!("{said}");
    }
    if word == "fork" { Err(usage(said.to_owned())) } else { Ok(()) }
}
