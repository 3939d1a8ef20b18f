//! Comparison of training options.

use super::candidate::memory_cell;
use super::plan::PyVectorPlan;
use super::request::request;
use crate::error::OrRaise;
use crate::html::{HtmlRow, table};
use crate::options::Options;
use crate::request::declared;
use crate::running::searching_with;
use crate::whole::{SequenceIndex, Whole};
use evertally::plan::{Objective, SearchObserver};
use evertally_plot::axis::{Axis, Spacing};
use evertally_plot::lines::{Panel, PanelLine, panels};
use evertally_plot::sheet::SheetTexts;
use evertally_plot::style::{LineStyle, Marker, ink};
use evertally_training::{SamplingScheme, Training as Inner, TrainingOption as Found, VectorPlan as Plan};
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
/// >>> option = et.training.plan_training(1000, 100, 1, epsilon=1.0, delta=1e-5).best
/// >>> option.sampling in (None, "poisson", "cyclic-poisson", "random-allocation"), option.plan.horizon
/// (True, 10)
#[pyclass(frozen, module = "evertally.training")]
pub(crate) struct TrainingOption {
    description: String,
    sampling: Option<SamplingScheme>,
    plan: Py<PyVectorPlan>,
    memory: u64,
    fits: bool,
    relative_error: f64,
}

#[pymethods]
impl TrainingOption {
    /// A short description.
    #[getter]
    fn description(&self) -> &str {
        &self.description
    }

    /// How :class:`Batches` samples the examples of a step, by the names of :func:`plan_vector`'s ``sampling``; None
    /// for batches of one size in a fixed order, the same in every epoch.
    #[getter]
    fn sampling(&self) -> Option<&'static str> {
        self.sampling.map(SamplingScheme::name)
    }

    /// Its plan.
    #[getter]
    fn plan(&self, py: Python<'_>) -> Py<PyVectorPlan> {
        self.plan.clone_ref(py)
    }

    /// Memory or fresh noise of a step, in copies of the gradient; 0 if it grows with the logarithm of the horizon.
    #[getter]
    fn memory(&self) -> u64 {
        self.memory
    }

    /// Whether it is at most ``max_memory``.
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
        format!("TrainingOption({:?}, relative_error={:.3})", self.description, self.relative_error)
    }
}

/// The training options for a data set, smallest error first. Made by :func:`plan_training`; prints as a table, and
/// shows a picture in a notebook (:meth:`svg`).
///
/// >>> import evertally as et
/// >>> options = et.training.plan_training(1000, 100, 1, epsilon=1.0, delta=1e-5)
/// >>> options.steps, len(options) > 2, options[0].relative_error
/// (10, True, 1.0)
#[pyclass(frozen, name = "Training", module = "evertally.training")]
pub(crate) struct PyTraining {
    options: Vec<Py<TrainingOption>>,
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
    let progress: Option<Bound<'_, PyAny>> = options.take("progress")?;
    options.finish()?;
    let objective = request.objective();
    let training = Inner::new(examples, batch, epochs, request).or_raise()?;
    let steps = training.steps();
    let search = move |observer: &SearchObserver| training.with_observer(observer.clone()).options();
    let found = searching_with(py, progress.as_ref(), search)?.or_raise()?;
    PyTraining::new(py, found, steps, objective)
}

fn error(plan: &Plan, objective: Objective) -> f64 {
    if objective == Objective::Max { plan.max_std_error() } else { plan.mean_std_error() }
}

impl PyTraining {
    fn new(py: Python<'_>, found: Vec<Found>, steps: u64, objective: Objective) -> PyResult<Self> {
        let least = error(&found[0].plan, objective);
        let plans: Vec<Plan> = found.iter().map(|option| option.plan.clone()).collect();
        let promise = super::guarantee::PyVectorGuarantee(plans[0].guarantee()).description();
        let option = |option: Found| {
            let made = TrainingOption {
                description: option.description(),
                sampling: option.sampling,
                memory: option.memory,
                fits: option.fits,
                relative_error: error(&option.plan, objective) / least,
                plan: Py::new(py, PyVectorPlan::new(option.plan))?,
            };
            Py::new(py, made)
        };
        Ok(Self { options: found.into_iter().map(option).collect::<PyResult<_>>()?, plans, steps, promise })
    }

    fn rows(&self) -> Vec<HtmlRow> {
        let best = self.options.iter().position(|option| option.get().fits);
        let row = |(place, option): (usize, &Py<TrainingOption>)| {
            let (option, plan) = (option.get(), &self.plans[place]);
            let too_much = if option.fits { "" } else { ", too much" };
            let memory = format!("{}{too_much}", memory_cell(option.memory));
            let numbers = [plan.sigma(), plan.max_std_error(), plan.mean_std_error()].map(|x| format!("{x:.4}"));
            let [sigma, max, mean] = numbers;
            let cells = [option.description.clone(), memory, sigma, max, mean, format!("{:.3}", option.relative_error)];
            HtmlRow { cells, chosen: Some(place) == best }
        };
        self.options.iter().enumerate().map(row).collect()
    }

    /// Which options have a line: the best of every sampling scheme and of the fixed order, DP-SGD as the common
    /// reference, and the best of the others.
    fn shown(&self) -> Vec<usize> {
        let option = |place: usize| self.options[place].get();
        let near = || (0..self.options.len()).filter(|place| option(*place).relative_error < MAX_SHOWN_ERROR_RATIO);
        let is_required = |place: usize| {
            let sampling = option(place).sampling;
            let is_independent = self.plans[place].name().family().is_independent;
            let is_dp_sgd = sampling == Some(SamplingScheme::Poisson) && is_independent;
            is_dp_sgd || near().find(|other| option(*other).sampling == sampling) == Some(place)
        };
        let mut shown: Vec<usize> = near().collect();
        shown.sort_by_key(|place| !is_required(*place));
        shown.truncate(MAX_LINES);
        shown.sort_unstable();
        shown
    }

    fn headline(&self) -> String {
        let count = self.options.len();
        let (steps, promise, best) = (self.steps, &self.promise, self.best_description());
        format!("{count} training options for {steps} steps, with {promise}; best: {best}")
    }

    fn best_description(&self) -> &str {
        &self.options.iter().find(|option| option.get().fits).unwrap_or(&self.options[0]).get().description
    }
}

/// The column headings.
const HEADS: [&str; 6] = ["option", "memory", "σ", "max error", "mean error", "× best"];

#[pymethods]
impl PyTraining {
    /// Number of steps: epochs times examples, divided by the batch size.
    #[getter]
    fn steps(&self) -> u64 {
        self.steps
    }

    /// The best option that fits ``max_memory``.
    #[getter]
    fn best(&self, py: Python<'_>) -> Py<TrainingOption> {
        let fits = self.options.iter().find(|option| option.get().fits);
        fits.unwrap_or(&self.options[0]).clone_ref(py)
    }

    /// The plan of the best option that fits.
    #[getter]
    fn plan(&self, py: Python<'_>) -> Py<PyVectorPlan> {
        self.best(py).get().plan.clone_ref(py)
    }

    fn __len__(&self) -> usize {
        self.options.len()
    }

    fn __getitem__(&self, py: Python<'_>, place: SequenceIndex) -> PyResult<Py<TrainingOption>> {
        let SequenceIndex(place) = place;
        // fits: there are far fewer options
        let place = if place < 0 { place + self.options.len() as i64 } else { place };
        let option = usize::try_from(place).ok().and_then(|place| self.options.get(place));
        option
            .map(|option| option.clone_ref(py))
            .ok_or_else(|| PyIndexError::new_err("there is no such training option"))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        let options = self.options.iter().map(|option| option.clone_ref(py));
        PyList::new(py, options.collect::<Vec<_>>())?.try_iter()
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

    /// The standard error of every step under the best options, as a picture. It includes the best of every sampling
    /// scheme and of the fixed order, and DP-SGD, unless they have more than three times the error of the best.
    fn svg(&self) -> String {
        let shades = [ink::BLUE, ink::VERMILION, ink::GREEN, ink::PURPLE, ink::SKY, ink::ORANGE, ink::BLACK];
        let step = |i: u64| 1 + (self.steps - 1) * i / POINTS.min(self.steps).max(1);
        let line = |(rank, place): (usize, usize)| PanelLine {
            label: self.options[place].get().description.clone(),
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
        let texts = SheetTexts {
            title: format!("Training options for {} steps", self.steps),
            subtitle: format!("Standard error of one coordinate of the {of}, in units of the clipped gradients' sums."),
            footer: format!("Every option guarantees {} for the whole run.", self.promise),
        };
        panels(&texts, &[Panel { x, y, lines, height: 280.0 }])
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
