//! The error of a plan over its steps.
//!
//! The picture is shown on white and on dark pages, inside HTML and as an image that inherits nothing. So it has no
//! sheet, and its colours are readable on both.

use crate::axis::{Axis, Spacing, ValueAxis};
use crate::canvas::Canvas;
use crate::frame::{Frame, crisp};
use crate::style::{SMALL, Stroke, TextAnchor, TextStyle, ink};
use crate::text::width;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 260.0;
const FIELD: Frame = Frame { left: 64.0, top: 30.0, width: 564.0, height: 184.0 };

const QUIET: TextStyle = TextStyle { size: SMALL, fill: ink::ANYWHERE, anchor: TextAnchor::Start, bold: false };
const ERROR: Stroke = Stroke { colour: ink::BLUE.0, width: 1.75, dash: None, opacity: 1.0 };
const BOUND: Stroke = Stroke { colour: ink::VERMILION.0, width: 1.5, dash: Some("6 4"), opacity: 1.0 };
/// Opacity of the range of nearby steps.
const RANGE: f64 = 0.3;

/// Columns of the picture; longer horizons show the range of each.
const COLUMNS: u64 = 564;
/// The maximum number of steps evaluated per column.
const MAX_STEPS_PER_COLUMN: u64 = 32;

/// Neighbouring steps that share a column of the picture.
#[derive(Clone, Copy, Debug)]
struct StepColumn {
    first: u64,
    last: u64,
    /// Smallest and largest error of the evaluated steps.
    least: f64,
    greatest: f64,
}

impl StepColumn {
    fn middle(&self) -> f64 {
        (self.first as f64 + self.last as f64) / 2.0
    }
}

/// The standard error of every step of a plan, and its lower bound.
///
/// ```
/// use evertally_plot::ErrorCurve;
///
/// let curve = ErrorCurve::of(1 << 40, |step| f64::from(step.count_ones()).sqrt(), None);
/// assert!(curve.svg().contains("standard error"));
/// ```
#[derive(Clone, Debug)]
pub struct ErrorCurve {
    horizon: u64,
    columns: Vec<StepColumn>,
    bound: Option<f64>,
}

impl ErrorCurve {
    /// The curve of the errors of the steps `1 ..= horizon`, which must be finite, with a proven lower bound. In long
    /// columns only some steps are evaluated: the first, the last, and those between them that are multiples of large
    /// powers of two, where trees have their extremes.
    pub fn of(horizon: u64, std_error: impl Fn(u64) -> f64, bound: Option<f64>) -> Self {
        let count = horizon.min(COLUMNS);
        let edge = |k: u64| (u128::from(horizon) * u128::from(k) / u128::from(count)) as u64;
        let column = |k: u64| {
            let (first, last) = (edge(k) + 1, edge(k + 1));
            let errors = evaluated_steps(first, last).into_iter().map(&std_error);
            let (least, greatest) = errors.fold((f64::INFINITY, 0.0f64), |(a, b), e| (a.min(e), b.max(e)));
            StepColumn { first, last, least, greatest }
        };
        Self { horizon, columns: (0..count).map(column).collect(), bound }
    }

    /// The picture as SVG. The same curve gives the same bytes.
    pub fn svg(&self) -> String {
        let mut canvas = Canvas::inline(WIDTH, HEIGHT, "Standard error of the release over the steps");
        let steps = Axis::over(Spacing::Linear, [1.0, self.horizon as f64].into_iter(), "step");
        let greatest = self.columns.iter().map(|column| column.greatest).chain(self.bound).fold(0.0, f64::max);
        let most = if greatest > 0.0 { greatest * 1.08 } else { 1.0 };
        let errors = Axis { spacing: Spacing::Linear, range: (0.0, most), caption: "standard error".into() };
        step_axis(&mut canvas, &steps);
        error_axis(&mut canvas, &errors);
        self.draw(&mut canvas, &steps, &errors);
        self.key(&mut canvas, &errors.caption);
        canvas.finish()
    }

    fn has_ranges(&self) -> bool {
        self.columns.iter().any(|column| column.least < column.greatest)
    }

    /// Draws the range of every column, a line through the largest errors, and the bound.
    fn draw(&self, canvas: &mut Canvas, steps: &Axis, errors: &Axis) {
        let place = |column: &StepColumn, error: f64| (FIELD.x(steps, column.middle()), FIELD.y(errors, error));
        if self.has_ranges() {
            let range = |column: &StepColumn| {
                let (x, top) = place(column, column.greatest);
                (x, top, place(column, column.least).1)
            };
            canvas.area(&self.columns.iter().map(range).collect::<Vec<_>>(), ERROR.colour, RANGE);
        }
        let line: Vec<(f64, f64)> = self.columns.iter().map(|column| place(column, column.greatest)).collect();
        match line[..] {
            [(x, y)] => canvas.dot(x, y, 3.5, ERROR.colour),
            _ => canvas.polyline(&line, ERROR),
        }
        if let Some(bound) = self.bound {
            let y = FIELD.y(errors, bound);
            canvas.line((FIELD.left, y), (FIELD.right(), y), BOUND);
        }
    }

    /// The legend above the field.
    fn key(&self, canvas: &mut Canvas, error: &str) {
        const SAMPLE: f64 = 22.0;
        let (mut x, y) = (FIELD.left, 14.0);
        let mut entry = |canvas: &mut Canvas, text: &str, sample: &dyn Fn(&mut Canvas, f64)| {
            sample(canvas, x);
            canvas.text(x + SAMPLE + 6.0, y + 4.0, text, QUIET);
            x += SAMPLE + 6.0 + width(text, SMALL, false) + 20.0;
        };
        entry(canvas, error, &|canvas, x| canvas.line((x, y), (x + SAMPLE, y), ERROR));
        if self.has_ranges() {
            let band = |x: f64| [(x, y - 5.0, y + 5.0), (x + SAMPLE, y - 5.0, y + 5.0)];
            entry(canvas, "range of nearby steps", &|canvas, x| canvas.area(&band(x), ERROR.colour, RANGE));
        }
        if self.bound.is_some() {
            let text = "proven lower bound (Gaussian noise)";
            entry(canvas, text, &|canvas, x| canvas.line((x, y), (x + SAMPLE, y), BOUND));
        }
    }
}

/// Ticks below the field, and their quantity.
fn step_axis(canvas: &mut Canvas, steps: &Axis) {
    let ticks = ValueAxis::new(steps.range.0, steps.range.1, 6, true);
    let base = crisp(FIELD.bottom());
    canvas.line((FIELD.left, base), (FIELD.right(), base), Stroke::new(ink::ANYWHERE, 1.0));
    for &tick in &ticks.ticks {
        let (x, label) = (crisp(FIELD.x(steps, tick)), ticks.label(tick));
        canvas.line((x, base), (x, base + 5.0), Stroke::new(ink::ANYWHERE, 1.0));
        let juts_out = x + width(&label, SMALL, false) / 2.0 > WIDTH;
        let (x, anchor) = if juts_out { (FIELD.right(), TextAnchor::End) } else { (x, TextAnchor::Middle) };
        canvas.text(x, base + 18.0, &label, QUIET.anchor(anchor));
    }
    let middle = FIELD.left + FIELD.width / 2.0;
    canvas.text(middle, base + 37.0, &steps.caption, QUIET.anchor(TextAnchor::Middle));
    if !ticks.unit().is_empty() {
        canvas.text(FIELD.right(), base + 37.0, &ticks.unit(), QUIET.anchor(TextAnchor::End));
    }
}

/// Ticks left of the field, and their unit.
fn error_axis(canvas: &mut Canvas, errors: &Axis) {
    let ticks = ValueAxis::new(errors.range.0, errors.range.1, 5, false);
    for &tick in &ticks.ticks {
        let y = crisp(FIELD.y(errors, tick));
        let line = Stroke { opacity: 0.25, ..Stroke::new(ink::ANYWHERE, 1.0) };
        canvas.line((FIELD.left, y), (FIELD.right(), y), line);
        canvas.text(FIELD.left - 8.0, y + 4.0, &ticks.label(tick), QUIET.anchor(TextAnchor::End));
    }
    if !ticks.unit().is_empty() {
        canvas.text(FIELD.left - 8.0, 18.0, &ticks.unit(), QUIET.anchor(TextAnchor::End));
    }
}

/// Some steps of a range.
fn evaluated_steps(first: u64, last: u64) -> Vec<u64> {
    if last - first < MAX_STEPS_PER_COLUMN {
        return (first..=last).collect();
    }
    let mut steps = vec![first, last];
    for bit in (0..63).rev() {
        let multiple = last >> bit << bit;
        if multiple < first {
            continue;
        }
        steps.extend([multiple, multiple - 1].into_iter().filter(|step| *step >= first));
        if steps.len() as u64 >= MAX_STEPS_PER_COLUMN {
            break;
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_horizon_and_size_is_a_picture_inside_its_frame() {
        for horizon in [1, 2, 3, 100, 5000, 1 << 40, u64::MAX >> 1] {
            for scale in [1e-6, 1.0, 1e9] {
                for bound in [None, Some(0.7 * scale)] {
                    let error = |step: u64| scale * f64::from(step.count_ones()).sqrt();
                    let svg = ErrorCurve::of(horizon, error, bound).svg();
                    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{horizon}: {svg}");
                    assert_eq!(svg.contains("stroke-dasharray"), bound.is_some());
                    assert!(svg.contains(">step</text>") && svg.contains(">standard error</text>"));
                    let paths = svg.split(" d=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
                    let pairs = paths.flat_map(|path| path.split(['M', 'L', 'Z', ' '])).filter(|pair| !pair.is_empty());
                    for (x, y) in pairs.map(|pair| pair.split_once(',').unwrap()) {
                        let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
                        assert!((0.0..=WIDTH).contains(&x) && (0.0..=HEIGHT).contains(&y), "{horizon}: {x},{y}");
                    }
                }
            }
        }
    }
}
