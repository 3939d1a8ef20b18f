//! The table of plans with an unbounded horizon: errors at some steps instead of the maximum.

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use evertally::plan::ranking::{AtStep, Ranking};
use std::io::Write;

/// Prints the ranking, and the proven bound for the best mechanism.
pub(super) fn print(out: &mut impl Write, answer: &Ranking) -> Result<()> {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    let steps = answer.chosen.at.iter().map(|at| format!("error at {}", named(at.step)));
    let before = ["mechanism", "noise"].map(str::to_owned).into_iter();
    table.set_header(before.chain(steps).chain(["work/step", "words"].map(str::to_owned)));
    for row in &answer.ranking {
        let mut cells = vec![row.mechanism.brief().to_string(), row.noise.law.to_string()];
        cells.extend(row.at.iter().map(|at| format!("{:.4}", at.std)));
        cells.extend([format!("{:.1}", row.time_per_step), row.memory_words.to_string()]);
        table.add_row(cells);
    }
    if let Some(bounds) = answer.chosen.at.iter().map(|at| at.lower_bound).collect::<Option<Vec<_>>>() {
        let mut cells = vec!["(no mechanism that ends there)".to_owned(), String::new()];
        cells.extend(bounds.into_iter().map(|bound| format!("{bound:.4}")));
        table.add_row(cells);
    }
    table.column_iter_mut().skip(2).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    writeln!(out, "{table}")?;
    let chosen = &answer.chosen;
    let noise = &chosen.noise;
    writeln!(out, "no end: {} with {} noise of scale {:.6}", chosen.mechanism, noise.law, noise.scale)?;
    if let Some(ratio) = chosen.largest_ratio {
        let AtStep { step, .. } = chosen.at[0];
        writeln!(
            out,
            "at every step from {step} to 2^40 the variance is at most {ratio:.2} times that of any mechanism that \
             ends there"
        )?;
    }
    Ok(())
}

fn named(step: u64) -> String {
    match step {
        _ if step.is_power_of_two() && step > 1 << 20 => format!("2^{}", step.ilog2()),
        _ => step.to_string(),
    }
}
