//! Share kept and total error by bound.

use super::{BoundsSetup, shown};
use evertally_plot::axis::{Axis, Spacing};
use evertally_plot::lines::{self, Panel, PanelLine};
use evertally_plot::sheet::SheetTexts;
use evertally_plot::style::dash::{DASHED, DOTTED, SOLID};
use evertally_plot::style::ink::{BLACK, BLUE, GREEN, ORANGE, VERMILION};
use evertally_plot::style::{LineStyle, Marker};
use evertally_publish::bounds::{BoundChoice, Choices, ContributionEstimate};

pub(super) fn svg(setup: &BoundsSetup, estimate: &ContributionEstimate, choices: &Choices) -> String {
    let (all, best) = (&choices.in_all, &choices.best);
    let least = best.total();
    let line = |label: &str, look: LineStyle, of: &dyn Fn(&BoundChoice) -> f64| {
        let points = all.iter().map(|choice| (choice.max_events as f64, of(choice)));
        // Tiny errors are left out of the logarithmic axis.
        PanelLine { label: label.into(), look, points: points.filter(|point| point.1 > least / 50.0).collect() }
    };
    let mark = |at: f64| PanelLine {
        label: "best".into(),
        look: LineStyle { width: 3.0, ..LineStyle::new(GREEN, SOLID, Marker::Diamond) },
        points: vec![(best.max_events as f64, at)],
    };
    let x = || {
        Axis::over(
            Spacing::Decades,
            all.iter().map(|choice| choice.max_events as f64),
            "maximum number of events kept per person",
        )
    };
    let share = |choice: &BoundChoice| 100.0 * choice.share;
    let kept_line = |label: &str, look: LineStyle, of: &dyn Fn(&BoundChoice) -> f64| PanelLine {
        label: label.into(),
        look,
        points: all.iter().map(|choice| (choice.max_events as f64, of(choice))).collect(),
    };
    let kept = Panel {
        x: x().padded(),
        y: Axis { spacing: Spacing::Linear, range: (0.0, 104.0), caption: "kept events, in %".into() },
        lines: vec![
            kept_line("kept", LineStyle::new(BLUE, SOLID, Marker::Circle), &share),
            kept_line("at least", LineStyle::new(BLUE, DOTTED, Marker::None), &|choice| {
                100.0 * choice.share_interval.lower
            }),
            kept_line("at most", LineStyle::new(BLUE, DASHED, Marker::None), &|choice| {
                100.0 * choice.share_interval.upper
            }),
            mark(share(best)),
        ],
        height: 190.0,
    };
    let errors = vec![
        line("total error", LineStyle::new(BLACK, SOLID, Marker::Circle), &BoundChoice::total),
        line("missing", LineStyle::new(ORANGE, DASHED, Marker::None), &|choice| choice.missing),
        line("noise", LineStyle::new(VERMILION, DOTTED, Marker::None), &|choice| choice.noise),
        mark(least),
    ];
    let heights = errors.iter().flat_map(|line| &line.points).map(|point| point.1);
    let y = Axis::over(Spacing::Decades, heights, "error of a count at the end").padded();
    let words = SheetTexts {
        title: format!(
            "How many events of one {} to keep",
            setup.settings.columns.person.as_deref().unwrap_or("person")
        ),
        subtitle: format!(
            "Estimated from {}. Least total error: {}, which keeps about {}.",
            shown::looked_at(setup, estimate),
            shown::flags(best),
            shown::kept(best)
        ),
        footer: format!(
            "{}. Total error: root sum of squares of dropped events and planned noise. Everyone observed is assumed to \
             continue at the same rate; {}.",
            shown::promise(setup),
            shown::assumption(setup, estimate)
        ),
    };
    lines::panels(&words, &[kept, Panel { x: x().padded(), y, lines: errors, height: 240.0 }])
}
