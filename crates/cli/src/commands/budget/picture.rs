//! The budget of a source over time.

use evertally_ledger::source::BudgetState;
use evertally_plot::axis::{Axis, Spacing};
use evertally_plot::lines::{self, Panel, PanelLine};
use evertally_plot::sheet::SheetTexts;
use evertally_plot::style::dash::{DASHED, SOLID};
use evertally_plot::style::ink::{BLUE, GREY, ORANGE};
use evertally_plot::style::{LineStyle, Marker};

/// The spent and reserved amounts over days, next to the total.
pub(super) fn svg(state: &BudgetState) -> String {
    let day = |at: jiff::Timestamp| (at.as_second() - state.made.as_second()).max(0) as f64 / 86_400.0;
    let mut costs: Vec<_> = state
        .costs
        .iter()
        .map(|cost| (day(cost.reserved), 100.0 * state.amount(cost).main() / state.cap.main(), cost))
        .collect();
    costs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let last = costs.last().map_or(0.0, |(at, ..)| *at).max(1.0);
    let staircase = |counts: &dyn Fn(bool) -> bool| {
        let mut points = vec![(0.0, 0.0)];
        for (at, amount, cost) in &costs {
            let before = points[points.len() - 1].1;
            points.push((*at, before));
            points.push((*at, if counts(cost.spent.is_some()) { before + amount } else { before }));
        }
        points.push((last, points[points.len() - 1].1));
        points
    };
    let line = |label: &str, look: LineStyle, points| PanelLine { label: label.into(), look, points };
    let lines = vec![
        line("total", LineStyle::new(GREY, SOLID, Marker::None), vec![(0.0, 100.0), (last, 100.0)]),
        line("spent and reserved", LineStyle::new(ORANGE, DASHED, Marker::None), staircase(&|_| true)),
        line("spent", LineStyle::new(BLUE, SOLID, Marker::None), staircase(&|spent| spent)),
    ];
    let currency = if state.cap.epsilon.is_some() { "ε" } else { "ρ" };
    let x = Axis { spacing: Spacing::Linear, range: (0.0, last), caption: "days since the budget was made".into() };
    let y = Axis {
        spacing: Spacing::Linear,
        range: (0.0, 105.0),
        caption: format!("{currency} counted, in % of the total"),
    };
    let words = SheetTexts {
        title: format!("Privacy budget of {}", state.name),
        subtitle: format!("{} for one {}: {} is left", state.total.budget, state.total.protects.brief(), state.left),
        footer: format!(
            "Made {:.0}. A plan counts in full as soon as its first step is published; {} streams are counted.",
            state.made,
            state.costs.len()
        ),
    };
    lines::panels(&words, &[Panel { x, y, lines, height: 260.0 }])
}
