//! `evertally key spent`: the total cost of the streams of a ledger.

use anyhow::Result;
use comfy_table::{Table, presets};
use evertally::privacy::Delta;
use evertally_ledger::ledger::{Protects, PublicLedger, PublishedStream, Spent, spent};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// Streams by the unit that they protect.
type StreamsByUnit<'a> = BTreeMap<Protects, Vec<&'a PublishedStream>>;

/// Prints the streams of a ledger and their composition, separately for each privacy unit.
pub(super) fn run(file: &Path, delta: Delta, as_json: bool) -> Result<()> {
    let ledger = PublicLedger::read(file)?;
    let streams = ledger.streams()?;
    let mut groups = StreamsByUnit::new();
    for stream in &streams {
        groups.entry(stream.protects.clone()).or_default().push(stream);
    }
    let mut out = std::io::stdout().lock();
    if as_json {
        serde_json::to_writer_pretty(&mut out, &facts(&ledger, &streams, &groups, delta))
            .map_err(std::io::Error::from)?;
        writeln!(out)?;
        return Ok(());
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(["stream", "budget", "for one", "published steps", "first", "last", "runs"]);
    for stream in &streams {
        let [first, last] = dates(stream).map(|date| date.unwrap_or_else(|| "?".into()));
        let (budget, steps, runs) = (budget_of(stream), stream.steps.to_string(), stream.runs.len().to_string());
        let assumed = if stream.asserted { ", bounds assumed" } else { "" };
        let whom = format!("{}{assumed}", stream.protects.brief());
        table.add_row([stream.name.clone(), budget, whom, steps, first, last, runs]);
    }
    writeln!(out, "{table}")?;
    if streams.is_empty() {
        let has_issued = ledger.service().is_some() || ledger.issued().next().is_some();
        let scope = if has_issued {
            "No release is recorded in this ledger."
        } else {
            "Nothing has been published with this key."
        };
        writeln!(out, "{scope}")?;
        return write_other_noise(&mut out, &ledger);
    }
    for (protects, streams) in &groups {
        let whom = match (protects.persons, streams.len()) {
            (true, 1) => "For a person with data in this stream",
            (true, _) => "Together, for a person with data in all of these streams",
            (false, 1) => "For one event of this stream",
            (false, _) => "Together, for one event that is in all of these streams",
        };
        let whom = match &protects.period {
            Some(period) => format!("{whom}, and what they do in {period}"),
            None => whom.to_owned(),
        };
        let change = if protects.replaced { "replaced" } else { "added or removed" };
        let named = |stream: &&PublishedStream| match &stream.follows {
            Some(before) => format!("`{}`, which continues `{before}`", stream.name),
            None => format!("`{}`", stream.name),
        };
        let names: Vec<_> = streams.iter().map(named).collect();
        writeln!(out, "{whom} ({}), {change}:", names.join(", "))?;
        let Spent { pure_epsilon, rho, selection, epsilon } = spent(streams, delta);
        if let Some(epsilon) = pure_epsilon {
            writeln!(out, "- ε-differential privacy with ε = {}", up(epsilon))?;
        }
        if let Some(rho) = rho {
            let apart =
                selection.map_or(String::new(), |delta| format!(", apart from δ = {delta:e} of selecting groups"));
            writeln!(out, "- zero-concentrated differential privacy with ρ = {}{apart}", up(rho))?;
        }
        if epsilon.is_finite() {
            writeln!(out, "- (ε, δ)-differential privacy with ε = {} at δ = {}", up(epsilon), delta.get())?;
        } else {
            writeln!(
                out,
                "- no (ε, δ) at δ = {}: the plans spend more δ than that; give a larger --delta",
                delta.get()
            )?;
        }
    }
    if groups.len() > 1 {
        writeln!(out, "The spending of different units does not add up: each line is a promise for its own unit.")?;
    }
    if streams.iter().any(|stream| stream.follows.is_some()) {
        writeln!(out, "Of streams that continue one another, as many count as one unit can have data in.")?;
    }
    if streams.iter().any(|stream| stream.asserted) {
        writeln!(out, "Where bounds are assumed, nothing enforces them: these totals hold for people within them.")?;
    }
    writeln!(out, "A plan's budget counts in full as soon as its first step is published.")?;
    write_other_noise(&mut out, &ledger)
}

/// Lists noise that the totals omit, because the ledger does not know its cost.
fn write_other_noise(out: &mut impl Write, ledger: &PublicLedger) -> Result<()> {
    for (name, issuer) in ledger.issued() {
        writeln!(out, "Not counted here: `{name}`, issued by {}; its plan's budget adds to this.", issuer.in_words())?;
    }
    if let Some(folder) = ledger.service() {
        writeln!(
            out,
            "Not counted here: the streams of the service in {folder}, which this key belongs to. The service shows \
             the budget of each (`GET /v1/operator`, or the operator's page), and `evertally budget show` adds those \
             of a source."
        )?;
    }
    Ok(())
}

/// The budget of a plan, with the δ of selecting groups.
fn budget_of(stream: &PublishedStream) -> String {
    let selection =
        stream.selection.map_or(String::new(), |delta| format!(", groups selected by δ = {:e}", delta.get()));
    format!("{}{selection}", stream.budget)
}

/// A number rounded up to at most six decimals; shorter numbers are unchanged.
fn up(value: f64) -> String {
    let whole = value.to_string();
    if whole.split_once('.').is_none_or(|(_, decimals)| decimals.len() <= 6) {
        return whole;
    }
    let rounded = format!("{:.6}", (value * 1e6).next_up().ceil() / 1e6);
    rounded.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The dates of the first and the last run, if they are known.
fn dates(stream: &PublishedStream) -> [Option<String>; 2] {
    [stream.runs.first(), stream.runs.last()].map(|run| run.map(|run| format!("{:.0}", run.at)))
}

fn facts(ledger: &PublicLedger, streams: &[PublishedStream], groups: &StreamsByUnit<'_>, delta: Delta) -> Value {
    let rows: Vec<_> = streams
        .iter()
        .map(|stream| {
            let [first, last] = dates(stream);
            json!({
                "stream": stream.name, "budget": stream.budget,
                "selection_delta": stream.selection.map(Delta::get), "published_steps": stream.steps,
                "unit": stream.protects.unit(), "period": stream.protects.period, "replaced": stream.protects.replaced,
                "asserted": stream.asserted, "follows": stream.follows, "first": first, "last": last,
                "runs": stream.runs.len(),
            })
        })
        .collect();
    let total = |protects: Option<&Protects>, streams: &[&PublishedStream]| {
        let Spent { pure_epsilon, rho, selection, epsilon } = spent(streams, delta);
        let mut total = json!({
            "pure_epsilon": pure_epsilon, "rho": rho, "selection_delta": selection, "delta": delta.get(),
            "epsilon": (!streams.is_empty() && epsilon.is_finite()).then_some(epsilon),
        });
        if let Some(protects) = protects {
            total["unit"] = json!(protects.unit());
            total["period"] = json!(protects.period);
            total["replaced"] = json!(protects.replaced);
        }
        total
    };
    let totals: Vec<_> = groups.iter().map(|(protects, streams)| total(Some(protects), streams)).collect();
    // The total, if there is a single one; different units have no common total.
    let single = match totals.as_slice() {
        [] => total(None, &[]),
        [single] => single.clone(),
        _ => Value::Null,
    };
    let not_counted: Vec<_> =
        ledger.issued().map(|(name, issuer)| json!({"stream": name, "issued_by": issuer.in_words()})).collect();
    json!({
        "not_counted": not_counted, "service": ledger.service(), "key_id": ledger.key_id(),
        "ledger": ledger.identity(), "recorded_runs": ledger.counter(),
        "streams": rows, "total": single, "totals": totals,
    })
}

#[cfg(test)]
mod tests {
    use super::up;

    #[test]
    fn figures_are_rounded_up_and_short_ones_stay() {
        for (value, shown) in [
            (1.0, "1"),
            (0.1, "0.1"),
            (0.3, "0.3"),
            (4.886_543_21, "4.886544"),
            (1.000_000_02, "1.000001"),
            (12_345.678_901, "12345.678901"),
            (1e-9, "0.000001"),
        ] {
            assert_eq!(up(value), shown);
        }
    }
}
