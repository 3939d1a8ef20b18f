//! The error of a plan over its steps, as SVG.
//!
//! Pictures appear on white and on dark pages, inside HTML and as images that inherit nothing. They have no background, and
//! colours of middling lightness that are readable on both.

use crate::html::escaped;
use std::fmt::Write;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 260.0;
/// Left, right, top and bottom of the field.
const FIELD: [f64; 4] = [64.0, 628.0, 30.0, 214.0];

const INK: &str = "#808080";
const LINE: &str = "#3b86e0";
const BOUND: &str = "#d9730d";

/// Columns of the picture; longer horizons show the range of each.
const COLUMNS: u64 = 564;
/// Steps of a column that are looked at.
const LOOKS: u64 = 32;

/// Errors by column of the picture.
pub(crate) struct Curve {
    horizon: u64,
    /// First and last step of a column, least and greatest error.
    columns: Vec<(u64, u64, f64, f64)>,
    /// The proven lower bound.
    bound: Option<f64>,
}

impl Curve {
    /// The curve of a plan's errors. Of long columns some steps are looked at: the first, the last and those between them that are
    /// multiples of large powers of two, where trees have their extremes.
    pub(crate) fn of(horizon: u64, std_error: impl Fn(u64) -> f64, bound: Option<f64>) -> Self {
        let count = horizon.min(COLUMNS);
        let edge = |k: u64| (u128::from(horizon) * u128::from(k) / u128::from(count)) as u64;
        let column = |k: u64| {
            let (first, last) = (edge(k) + 1, edge(k + 1));
            let errors = looked_at(first, last).into_iter().map(&std_error);
            let (least, greatest) = errors.fold((f64::INFINITY, 0.0f64), |(a, b), e| (a.min(e), b.max(e)));
            (first, last, least, greatest)
        };
        Self { horizon, columns: (0..count).map(column).collect(), bound }
    }

    /// The picture.
    pub(crate) fn svg(&self) -> String {
        let mut out = String::new();
        self.write(&mut out).expect("a String accepts every write");
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let [left, right, top, bottom] = FIELD;
        let greatest = self.columns.iter().map(|column| column.3).chain(self.bound).fold(0.0, f64::max);
        let ticks = ticks(greatest * 1.05);
        let height = ticks.last().copied().unwrap_or(1.0);
        let x = |step: f64| {
            let span = (self.horizon.max(2) - 1) as f64;
            left + (right - left) * (step - 1.0) / span
        };
        let y = |error: f64| bottom - (bottom - top) * error / height;
        write!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
             font-family=\"system-ui,sans-serif\" font-size=\"12\" fill=\"{INK}\" role=\"img\" \
             aria-label=\"Standard error of the release over the steps\">"
        )?;
        for tick in &ticks {
            let at = y(*tick);
            write!(
                out,
                "<line x1=\"{left}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"{INK}\" stroke-opacity=\"0.25\"/>"
            )?;
            write!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 8.0,
                at + 4.0,
                short(*tick)
            )?;
        }
        for (step, label) in step_labels(self.horizon) {
            let at = x(step);
            let anchor = if at > right - 20.0 { "end" } else { "middle" };
            write!(
                out,
                "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom}\" y2=\"{:.1}\" stroke=\"{INK}\"/>",
                bottom + 5.0
            )?;
            let at = if anchor == "end" { right } else { at };
            write!(
                out,
                "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
                bottom + 19.0,
                escaped(&label)
            )?;
        }
        write!(out, "<line x1=\"{left}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\" stroke=\"{INK}\"/>")?;
        write!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">step</text>",
            (left + right) / 2.0,
            bottom + 38.0
        )?;
        write!(
            out,
            "<text x=\"14\" y=\"{:.1}\" text-anchor=\"middle\" transform=\"rotate(-90 14 {:.1})\">standard error</text>",
            (top + bottom) / 2.0,
            (top + bottom) / 2.0
        )?;
        self.write_range(out, &x, &y)?;
        if let Some(bound) = self.bound {
            let at = y(bound);
            write!(
                out,
                "<line x1=\"{left}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"{BOUND}\" stroke-width=\"1.5\" stroke-dasharray=\"6 4\"/>"
            )?;
        }
        self.write_key(out)?;
        out.push_str("</svg>");
        Ok(())
    }

    /// The range of every column, and a line through the greatest errors.
    fn write_range(&self, out: &mut String, x: &dyn Fn(f64) -> f64, y: &dyn Fn(f64) -> f64) -> std::fmt::Result {
        let middle = |column: &(u64, u64, f64, f64)| x((column.0 as f64 + column.1 as f64) / 2.0);
        let point = |column, error| format!("{:.1},{:.1}", middle(column), y(error));
        let upper: Vec<String> = self.columns.iter().map(|column| point(column, column.3)).collect();
        if self.columns.iter().any(|column| column.2 < column.3) {
            let lower = self.columns.iter().rev().map(|column| point(column, column.2));
            let outline: Vec<String> = upper.iter().cloned().chain(lower).collect();
            write!(out, "<polygon points=\"{}\" fill=\"{LINE}\" fill-opacity=\"0.3\"/>", outline.join(" "))?;
        }
        if let [only] = &self.columns[..] {
            return write!(
                out,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\" fill=\"{LINE}\"/>",
                middle(only),
                y(only.3)
            );
        }
        write!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{LINE}\" stroke-width=\"1.6\" stroke-linejoin=\"round\"/>",
            upper.join(" ")
        )
    }

    /// What the lines are, above the field.
    fn write_key(&self, out: &mut String) -> std::fmt::Result {
        let [left, ..] = FIELD;
        let mut entry = |at: f64, colour: &str, dash: &str, text: &str| {
            write!(
                out,
                "<line x1=\"{at}\" x2=\"{:.1}\" y1=\"14\" y2=\"14\" stroke=\"{colour}\" stroke-width=\"2\"{dash}/>\
                 <text x=\"{:.1}\" y=\"18\">{text}</text>",
                at + 22.0,
                at + 28.0
            )
        };
        let ranges = self.columns.iter().any(|column| column.2 < column.3);
        entry(left, LINE, "", if ranges { "standard error and range of nearby steps" } else { "standard error" })?;
        if self.bound.is_some() {
            entry(left + 318.0, BOUND, " stroke-dasharray=\"6 4\"", "proven lower bound (Gaussian noise)")?;
        }
        Ok(())
    }
}

/// Some steps of a range.
fn looked_at(first: u64, last: u64) -> Vec<u64> {
    if last - first < LOOKS {
        return (first..=last).collect();
    }
    let mut steps = vec![first, last];
    for bit in (0..63).rev() {
        let multiple = last >> bit << bit;
        if multiple < first {
            continue;
        }
        steps.extend([multiple, multiple - 1].into_iter().filter(|step| *step >= first));
        if steps.len() as u64 >= LOOKS {
            break;
        }
    }
    steps
}

/// Round numbers from 0 to the first that reaches `greatest`, four to seven of them.
fn ticks(greatest: f64) -> Vec<f64> {
    let rough = greatest / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|digit| digit * power).find(|step| *step >= rough);
    let step = step.unwrap_or(10.0 * power);
    (0..=(greatest / step).ceil() as u32).map(|k| f64::from(k) * step).collect()
}

/// Where the steps are labelled: the first, the last, and round ones between.
fn step_labels(horizon: u64) -> Vec<(f64, String)> {
    let mut labels = vec![(1.0, "1".to_owned())];
    let span = horizon as f64;
    let inner = ticks(span)
        .into_iter()
        .filter(|step| *step > 1.0 && *step > 0.06 * span && *step < 0.9 * span && step.fract() == 0.0);
    labels.extend(inner.map(|step| (step, short(step))));
    if horizon > 1 {
        labels.push((span, short(span)));
    }
    labels
}

/// A number in few characters: 1234, 12.5, 1.05e6.
fn short(x: f64) -> String {
    if x == 0.0 {
        return "0".into();
    }
    if !(1e-3..1e7).contains(&x) {
        return format!("{:e}", format!("{x:.3e}").parse::<f64>().unwrap_or(x));
    }
    let digits = (2 - x.log10().floor() as i32).max(0) as usize;
    let text = format!("{x:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}
