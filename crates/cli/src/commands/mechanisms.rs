//! `evertally mechanisms`: exact figures of every mechanism at a horizon.

use super::kebab;
use crate::failure::usage;
use crate::searched;
use anyhow::Result;
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use evertally::mechanism::{Criterion, Mechanism, MechanismName, NoiseKind, Objective};
use serde::Serialize;
use std::io::Write;

/// Flags of `evertally mechanisms`.
#[derive(Args, Debug)]
pub(super) struct MechanismsArgs {
    /// Number of steps.
    #[arg(long, value_name = "T")]
    horizon: u64,
    /// Only this mechanism, such as `binary`, `subtract(k=13)` or `smooth(h=14,zeros=6)`; may be repeated.
    #[arg(long = "mechanism", value_name = "NAME")]
    mechanisms: Vec<MechanismName>,
    /// The noise law for which parameters left out of a name are chosen; where left out, Laplace for `consistent`,
    /// `hats` and `dense-pure`, Gaussian for the others.
    #[arg(long, value_parser = kebab::<NoiseKind>, value_name = "laplace|gaussian")]
    law: Option<NoiseKind>,
    /// Choose open parameters by the mean instead of the maximal error (`dense-pure` always, unless its name says
    /// `objective=max`).
    #[arg(long)]
    by_mean: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The figures of one mechanism, for step sensitivity 1: `zcdp_*` are 2ρ·variance, `pure_*` are ε²·variance.
#[derive(Debug, Serialize)]
struct Figures {
    mechanism: MechanismName,
    /// The same with every parameter.
    resolved: MechanismName,
    /// Infinite, and null in JSON, where Laplace noise is refused; so are `pure_*`.
    s1: f64,
    s2: f64,
    zcdp_max: f64,
    zcdp_mean: f64,
    pure_max: f64,
    pure_mean: f64,
    /// Exact Gaussian accounting of the release's covariance.
    s2_exact: Option<f64>,
    zcdp_max_exact: Option<f64>,
    zcdp_mean_exact: Option<f64>,
    fn table(rows: &[Figures]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header([
        "mechanism",
        "s1",
        "s2",
        "zCDP max",
        "zCDP mean",
        "pure max",
        "pure mean",
        "draws/step",
        "words",
    ]);
    for row in rows {
        let (name, resolved) = (row.mechanism.brief(), row.resolved.brief());
        let shape = if name == resolved { String::new() } else { format!(" = {resolved}") };
        let figure = |x: f64| match x {
            _ if x < 1e5 => format!("{x:.2}"),
            f64::INFINITY => "–".into(),
            _ => format!("{x:.3e}"),
        };
        let mut cells = vec![format!("{name}{shape}")];
        cells.extend([row.s1, row.s2, row.zcdp_max, row.zcdp_mean, row.pure_max, row.pure_mean].map(figure));
        cells.extend([format!("{:.2}", row.time_per_step), row.memory_words.to_string()]);
        table.add_row(cells);
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}
