//! `evertally budget show`: spent, reserved and left, as table, JSON and picture.

use super::picture;
use anyhow::Result;
use comfy_table::{Table, presets};
use evertally::privacy::Budget;
use evertally_ledger::source::{Approval, BudgetState, Costs, SourceBudget};
use evertally_tables::output::RunOutputs;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;

pub(super) fn run(file: &Path, as_json: bool, plot: Option<&Path>) -> Result<()> {
    let state = SourceBudget::from_file(file)?.state()?;
    if let Some(path) = plot {
        let mut publication = RunOutputs::new(&[file.to_owned()], true);
        let mut output = publication.add(path)?;
        output.write_all(picture::svg(&state).as_bytes())?;
        output.finish()?;
        publication.commit()?;
    }
    let mut out = std::io::stdout().lock();
    if as_json {
        serde_json::to_writer_pretty(&mut out, &facts(&state)).map_err(std::io::Error::from)?;
        writeln!(out)?;
        return Ok(());
    }
    let BudgetState { name, total, made, approval, costs, cap, spent, reserved, left } = &state;
    writeln!(out, "`{name}`: {} for one {}, since {made:.0}{}", total.budget, total.protects.brief(), by(approval))?;
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(["stream", "key", "budget", "counts", "reserved", "spent", "approved"]);
    for cost in costs {
        table.add_row([
            cost.stream.clone(),
            if cost.key_id.is_empty() { "any".into() } else { cost.key_id.chars().take(8).collect() },
            cost.budget.clone(),
            state.amount(cost).to_string(),
            format!("{:.0}", cost.reserved),
            cost.spent.map_or("not yet".into(), |at| format!("{at:.0}")),
            approved(cost),
        ]);
    }
    if !costs.is_empty() {
        writeln!(out, "{table}")?;
    }
    writeln!(out, "total     {cap}\nspent     {spent}\nreserved  {reserved}\nleft      {left}")?;
    if matches!(total.budget, Budget::Approximate(..)) && !total.is_basic {
        writeln!(out, "The total is counted in ρ: the largest that implies {}.", total.budget)?;
    }
    writeln!(out, "A plan counts in full as soon as its first step is published.")?;
    Ok(())
}

fn by(Approval { approver, note }: &Approval) -> String {
    let approver = approver.as_ref().map(|name| format!(", approved by {name}"));
    let note = note.as_ref().map(|note| format!(" ({note})"));
    approver.unwrap_or_default() + &note.unwrap_or_default()
}

fn approved(cost: &Costs) -> String {
    [cost.approver.as_deref(), cost.note.as_deref()].into_iter().flatten().collect::<Vec<_>>().join(": ")
}

fn facts(state: &BudgetState) -> Value {
    let rows: Vec<_> = state
        .costs
        .iter()
        .map(|cost| {
            json!({
                "stream": cost.stream, "key_id": cost.key_id, "plan_digest": cost.plan, "budget": cost.budget,
                "counts": state.amount(cost), "reserved": cost.reserved, "spent": cost.spent,
                "approver": cost.approver, "note": cost.note,
            })
        })
        .collect();
    json!({
        "source": state.name, "unit": state.total.protects.unit(), "period": state.total.protects.period,
        "replaced": state.total.protects.replaced,
        "budget": state.total.budget, "basic": state.total.is_basic, "made": state.made,
        "approver": state.approval.approver, "note": state.approval.note,
        "total": state.cap, "spent": state.spent, "reserved": state.reserved, "left": state.left, "streams": rows,
    })
}
