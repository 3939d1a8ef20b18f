//! Comparison of training options.

use super::plan::PyVectorPlan;
use super::request::request;
use crate::error::OrRaise;
use crate::html::{HtmlRow, table};
use crate::options::Options;
use crate::request::declared;
use crate::running::abandonable;
use crate::whole::{SequenceIndex, Whole};
use evertally::mechanism::MechanismName;
use evertally::plan::Objective;
use evertally_plot::axis::{Axis, Spacing};
use evertally_plot::lines::{Panel, PanelLine, panels};
use evertally_plot::sheet::SheetTexts;
use evertally_plot::style::{LineStyle, Marker, ink};
use evertally_training::{Order, Training as Inner, VectorPlan as Plan, Way as Found};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyList};

/// The maximum number of lines in the picture.
const MAX_LINES: usize = 7;
/// Lines above this multiple of the best error are not shown: they would flatten the others.
const MAX_SHOWN_ERROR_RATIO: f64 = 3.0;
/// Points per line.
const POINTS: u64 = 160;

/// A training option: an order of the examples, a mechanism, and the resulting plan and error.
///
/// >>> import evertally as et
/// >>> way = et.training.plan_training(1000, 100, 1, epsilon=1.0, delta=1e-5).best
/// >>> way.order in ("fixed", "sampled", "bins", "fresh_bins"), way.plan.horizon
/// (True, 10)
#[pyclass(frozen, module = "evertally.training")]
pub(crate) struct Way {
    words: String,
    order: &'static str,
    plan: Py<PyVectorPlan>,
    vectors: u64,
    fits: bool,
    relative_error: f64,
}

#[pymethods]
impl Way {
    /// A description in words.
    #[getter]
    fn words(&self) -> &str {
        &self.words
    }

    /// ``"fixed"``: batches of one size, the same in every epoch; ``"sampled"``: drawn for every step by
    /// :class:`Batches`; ``"bins"``: random bins, drawn once; ``"fresh_bins"``: random bins, drawn for every epoch.
    #[getter]
    fn order(&self) -> &'static str {
        self.order
    }

    /// Its plan.
    #[getter]
    fn plan(&self, py: Python<'_>) -> Py<PyVectorPlan> {
        self.plan.clone_ref(py)
    }

    /// Memory or fresh noise of a step, in copies of the gradient; 0 if it grows with the logarithm of the horizon.
    #[getter]
    fn vectors(&self) -> u64 {
        self.vectors
    }

    /// Whether it is at most ``most_vectors``.
    #[getter]
    fn fits(&self) -> bool {
        self.fits
    }

    /// The error that is minimised, divided by that of the best option.
    #[getter]
    fn relative_error(&self) -> f64 {
        self.relative_error
    }

    fn __repr__(&self) -> String {
        format!("Way({:?}, relative_error={:.3})", self.words, self.relative_error)
    }
}

/// The training options for a data set, smallest error first. Made by :func:`plan_training`; prints as a table, and
/// shows a picture in a notebook (:meth:`svg`).
///
/// >>> import evertally as et
/// >>> ways = et.training.plan_training(1000, 100, 1, epsilon=1.0, delta=1e-5)
/// >>> ways.steps, len(ways) > 2, ways[0].relative_error
/// (10, True, 1.0)
#[pyclass(frozen, name = "Training", module = "evertally.training")]
pub(crate) struct PyTraining {
    ways: Vec<Py<Way>>,
    plans: Vec<Plan>,
    steps: u64,
    promise: String,
}

/// Compares the options. Called by `evertally.training.plan_training`, which holds its documentation.
#[pyfunction]
#[pyo3(name = "_plan_training")]
pub(crate) fn plan_training(py: Python<'_>, json: &str, given: &Bound<'_, PyDict>) -> PyResult<PyTraining> {
    let options = Options::new(given)?;
    let (Whole(examples), Whole(batch)) = (options.needed("examples")?, options.needed("batch")?);
    let (epochs, request) = (options.needed("epochs")?, request(&declared(json)?, &options, 1)?);
    options.finish()?;
    let objective = request.objective();
    let training = Inner::new(examples, batch, epochs, request).or_raise()?;
    let steps = training.steps();
    let found = abandonable(py, move || training.ways())?.or_raise()?;
    PyTraining::new(py, found, steps, objective)
}

fn error(plan: &Plan, objective: Objective) -> f64 {
    if objective == Objective::Max { plan.max_std_error() } else { plan.mean_std_error() }
}

impl PyTraining {
    fn new(py: Python<'_>, found: Vec<Found>, steps: u64, objective: Objective) -> PyResult<Self> {
        let least = error(&found[0].plan, objective);
        let plans: Vec<Plan> = found.iter().map(|way| way.plan.clone()).collect();
        let promise = super::guarantee::PyVectorGuarantee(plans[0].guarantee()).words();
        let way = |way: Found| {
            let made = Way {
                words: way.in_words(),
                order: match way.order {
                    Order::Fixed => "fixed",
                    Order::Sampled => "sampled",
                    Order::Bins => "bins",
                    Order::FreshBins => "fresh_bins",
                },
                vectors: way.vectors,
                fits: way.fits,
                relative_error: error(&way.plan, objective) / least,
                plan: Py::new(py, PyVectorPlan::of(way.plan))?,
            };
            Py::new(py, made)
        };
        Ok(Self { ways: found.into_iter().map(way).collect::<PyResult<_>>()?, plans, steps, promise })
    }

    fn rows(&self) -> Vec<HtmlRow> {
        let best = self.ways.iter().position(|way| way.get().fits);
        let row = |(place, way): (usize, &Py<Way>)| {
            let (way, plan) = (way.get(), &self.plans[place]);
            let memory = match (way.fits, way.vectors) {
                (_, 0) => "light".to_owned(),
                (true, vectors) => vectors.to_string(),
                (false, vectors) => format!("{vectors}, too many"),
            };
            let figures = [plan.sigma(), plan.max_std_error(), plan.mean_std_error()].map(|x| format!("{x:.4}"));
            let [sigma, max, mean] = figures;
            let cells = [way.words.clone(), memory, sigma, max, mean, format!("{:.3}", way.relative_error)];
            HtmlRow { cells, chosen: Some(place) == best }
        };
        self.ways.iter().enumerate().map(row).collect()
    }

    /// Which options have a line: the best of every order, DP-SGD as the common reference, and the best of the others.
    fn shown(&self) -> Vec<usize> {
        let way = |place: usize| self.ways[place].get();
        let near = || (0..self.ways.len()).filter(|place| way(*place).relative_error < MAX_SHOWN_ERROR_RATIO);
        let is_told_apart = |place: usize| {
            let order = way(place).order;
            let is_dp_sgd = order == "sampled" && self.plans[place].name() == MechanismName::Input;
            is_dp_sgd || near().find(|other| way(*other).order == order) == Some(place)
        };
        let mut shown: Vec<usize> = near().collect();
        shown.sort_by_key(|place| !is_told_apart(*place));
        shown.truncate(MAX_LINES);
        shown.sort_unstable();
        shown
    }

    fn headline(&self) -> String {
        let count = self.ways.len();
        let (steps, promise, best) = (self.steps, &self.promise, self.best_in_words());
        format!("{count} training options for {steps} steps, with {promise}; best: {best}")
    }

    fn best_in_words(&self) -> &str {
        &self.ways.iter().find(|way| way.get().fits).unwrap_or(&self.ways[0]).get().words
    }
}

/// The column headings.
const HEADS: [&str; 6] = ["option", "vectors", "σ", "max error", "mean error", "× best"];

#[pymethods]
impl PyTraining {
    /// Number of steps: epochs times examples, divided by the batch size.
    #[getter]
    fn steps(&self) -> u64 {
        self.steps
    }

    /// The best option that fits ``most_vectors``.
    #[getter]
    fn best(&self, py: Python<'_>) -> Py<Way> {
        let fits = self.ways.iter().find(|way| way.get().fits);
        fits.unwrap_or(&self.ways[0]).clone_ref(py)
    }

    /// The plan of the best option that fits.
    #[getter]
    fn plan(&self, py: Python<'_>) -> Py<PyVectorPlan> {
        self.best(py).get().plan.clone_ref(py)
    }

    fn __len__(&self) -> usize {
        self.ways.len()
    }

    fn __getitem__(&self, py: Python<'_>, place: SequenceIndex) -> PyResult<Py<Way>> {
        let SequenceIndex(place) = place;
        // fits: there are far fewer options
        let place = if place < 0 { place + self.ways.len() as i64 } else { place };
        let way = usize::try_from(place).ok().and_then(|place| self.ways.get(place));
        way.map(|way| way.clone_ref(py)).ok_or_else(|| PyIndexError::new_err("there is no such training option"))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        let ways = self.ways.iter().map(|way| way.clone_ref(py));
        PyList::new(py, ways.collect::<Vec<_>>())?.try_iter()
    }

    fn __repr__(&self) -> String {
        self.headline()
    }

    fn __str__(&self) -> String {
        let rows: Vec<[String; 6]> =
            std::iter::once(HEADS.map(str::to_owned)).chain(self.rows().into_iter().map(|row| row.cells)).collect();
        let wide = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: [usize; 6] = std::array::from_fn(wide);
        let mut out = format!("{}\n\n", self.headline());
        for row in &rows {
            let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
                if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            out += cells.collect::<Vec<_>>().join("  ").trim_end();
            out.push('\n');
        }
        out
    }

    /// The standard error of every step under the best options, as a picture. It includes the best of every order and
    /// DP-SGD, unless they have more than three times the error of the best.
    fn svg(&self) -> String {
        let shades = [ink::BLUE, ink::VERMILION, ink::GREEN, ink::PURPLE, ink::SKY, ink::ORANGE, ink::BLACK];
        let step = |i: u64| 1 + (self.steps - 1) * i / POINTS.min(self.steps).max(1);
        let line = |(rank, place): (usize, usize)| PanelLine {
            label: self.ways[place].get().words.clone(),
            look: LineStyle::new(shades[rank % shades.len()], (rank > 3).then_some("5 3"), Marker::None),
            points: (0..=POINTS.min(self.steps))
                .map(|i| (step(i) as f64, self.plans[place].std_error(step(i))))
                .collect(),
        };
        let lines: Vec<PanelLine> = self.shown().into_iter().enumerate().map(line).collect();
        let x = Axis { spacing: Spacing::Linear, range: (1.0, self.steps.max(2) as f64), caption: "step".into() };
        let errors = lines.iter().flat_map(|line| &line.points).map(|point| point.1);
        let of = if self.plans[0].request().optimizer().is_some() { "parameters" } else { "running sums" };
        let y = Axis::over(Spacing::Linear, errors.chain([0.0]), "standard error").padded();
        let words = SheetTexts {
            title: format!("Training options for {} steps", self.steps),
            subtitle: format!("Standard error of one coordinate of the {of}, in units of the clipped gradients' sums."),
            footer: format!("Every option guarantees {} for the whole run.", self.promise),
        };
        panels(&words, &[Panel { x, y, lines, height: 280.0 }])
    }

    fn _repr_html_(&self) -> String {
        let mut out = format!("<div class=\"evertally-plan\"><p>{}</p>", crate::html::escaped(&self.headline()));
        table(&mut out, HEADS, &self.rows(), "");
        out + &format!("<div style=\"max-width:960px;margin-top:8px\">{}</div></div>", self.svg())
    }

    fn _repr_svg_(&self) -> String {
        self.svg()
    }
}
