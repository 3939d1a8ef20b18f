//! Comparison of training options.

use super::candidate::memory_cell;
use super::plan::PyVectorPlan;
use super::request::request;
use crate::error::{OrRaise, invalid};
use crate::html::{HtmlRow, table};
use crate::options::Options;
use crate::request::declared;
use crate::running::searching_with;
use crate::whole::{SequenceIndex, Whole};
use evertally::plan::SearchObserver;
use evertally_plot::axis::{Axis, Spacing};
use evertally_plot::lines::{Panel, PanelLine, panels};
use evertally_plot::sheet::SheetTexts;
use evertally_plot::style::{LineStyle, Marker, ink};
use evertally_training::{
    OmittedOption as Omitted, SamplingScheme, Training as Inner, TrainingOption as Found, TrainingOptions,
    VectorPlan as Plan,
};
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
    batch: f64,
    noise_multiplier: f64,
    memory: u64,
    memory_gib: Option<f64>,
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

    /// Its number of steps. With batches that divide the data, all options have the same; otherwise random allocation
    /// and the fixed order have whole epochs.
    #[getter]
    fn steps(&self, py: Python<'_>) -> u64 {
        self.plan.borrow(py).inner().horizon()
    }

    /// The expected batch size. With random allocation, it is the number of examples over a whole number of steps.
    #[getter]
    fn batch_size(&self) -> f64 {
        self.batch
    }

    /// σ over the clipping norm. With independent noise, this is the noise multiplier of DP-SGD: the noise of a step
    /// over the norm. Correlated noise combines several variables of this standard deviation in a step, whose noise is
    /// in :meth:`VectorPlan.noise_stds`.
    #[getter]
    fn noise_multiplier(&self) -> f64 {
        self.noise_multiplier
    }

    /// Memory or fresh noise of a step, in copies of the gradient; 0 if it grows with the logarithm of the horizon.
    #[getter]
    fn memory(&self) -> u64 {
        self.memory
    }

    /// With ``parameters``: the vectors that the noise keeps between steps in single precision, in GiB.
    #[getter]
    fn memory_gib(&self) -> Option<f64> {
        self.memory_gib
    }

    /// Whether it is at most ``max_memory``, and ``memory`` if that is given.
    #[getter]
    fn fits(&self) -> bool {
        self.fits
    }

    /// The error that is minimised over the expected batch size, divided by that of the best option.
    #[getter]
    fn relative_error(&self) -> f64 {
        self.relative_error
    }

    fn __repr__(&self) -> String {
        format!("TrainingOption({:?}, relative_error={:.3})", self.description, self.relative_error)
    }
}

/// A training option that is out of reach, and why.
///
/// >>> import evertally as et
/// >>> option = et.training.plan_training(1000, 1000, 4, epsilon=1.0, delta=1e-5).omitted[0]
/// >>> option.description, option.reason
/// ('Poisson sampling, correlated noise', 'a batch holds more than half of all examples, which leaves too few for ...
#[pyclass(frozen, name = "OmittedOption", module = "evertally.training")]
pub(crate) struct PyOmittedOption(Omitted);

#[pymethods]
impl PyOmittedOption {
    /// A short description.
    #[getter]
    fn description(&self) -> &str {
        &self.0.description
    }

    /// How examples are sampled, as in :attr:`TrainingOption.sampling`.
    #[getter]
    fn sampling(&self) -> Option<&'static str> {
        self.0.sampling.map(SamplingScheme::name)
    }

    /// Why it is out of reach.
    #[getter]
    fn reason(&self) -> &str {
        &self.0.reason
    }

    fn __repr__(&self) -> String {
        format!("OmittedOption({:?}, reason={:?})", self.0.description, self.0.reason)
    }
}

/// The training options for a data set, smallest error first, and those that are out of reach. Made by
/// :func:`plan_training`; prints as a table, and shows a picture in a notebook (:meth:`svg`).
///
/// >>> import evertally as et
/// >>> options = et.training.plan_training(1000, 100, 1, epsilon=1.0, delta=1e-5)
/// >>> options.steps, len(options) > 2, options[0].relative_error
/// (10, True, 1.0)
#[pyclass(frozen, name = "Training", module = "evertally.training")]
pub(crate) struct PyTraining {
    options: Vec<Py<TrainingOption>>,
    omitted: Vec<Omitted>,
    plans: Vec<Plan>,
    steps: u64,
    promise: String,
}

/// Numbers in a GiB of single precision.
const NUMBERS_PER_GIB: f64 = (1u64 << 28) as f64;

/// The size of the model and the limit of the noise's memory in GiB, if given.
#[derive(Clone, Copy)]
struct NoiseMemoryLimit {
    parameters: u64,
    gib: f64,
}

impl NoiseMemoryLimit {
    fn taken(options: &Options<'_>) -> PyResult<Option<Self>> {
        let parameters: Option<Whole> = options.take("parameters")?;
        let gib: Option<f64> = options.take("memory")?;
        match (parameters, gib) {
            (None, None) => Ok(None),
            (None, Some(_)) => Err(invalid("memory is a limit in GiB: give the model's number of parameters, too")),
            (Some(Whole(0)), _) => Err(invalid("a model has at least one parameter, got parameters=0")),
            (_, Some(gib)) if gib.is_nan() || gib < 0.0 => {
                Err(invalid(format!("memory is a limit in GiB, at least 0, got {gib}")))
            }
            (Some(Whole(parameters)), gib) => Ok(Some(Self { parameters, gib: gib.unwrap_or(f64::INFINITY) })),
        }
    }

    /// The limit in copies of the gradient. Casts saturate.
    fn copies(&self) -> u64 {
        (self.gib * NUMBERS_PER_GIB / self.parameters as f64) as u64
    }

    /// The memory of a plan's noise, in GiB.
    fn used(&self, plan: &Plan) -> PyResult<f64> {
        Ok(plan.memory_bytes(self.parameters).or_raise()? as f64 / (4.0 * NUMBERS_PER_GIB))
    }
}

/// Compares the options. Called by `evertally.training.plan_training`, which holds its documentation.
#[pyfunction]
#[pyo3(name = "_plan_training")]
pub(crate) fn plan_training(py: Python<'_>, json: &str, given: &Bound<'_, PyDict>) -> PyResult<PyTraining> {
    let options = Options::new(given)?;
    let (Whole(examples), Whole(batch)) = (options.needed("examples")?, options.needed("batch")?);
    let (epochs, request) = (options.needed("epochs")?, request(&declared(json)?, &options, 1)?);
    let memory = NoiseMemoryLimit::taken(&options)?;
    let copies = memory.map_or(u64::MAX, |limit| limit.copies()).min(request.max_memory());
    let request = request.with_max_memory(copies);
    let progress: Option<Bound<'_, PyAny>> = options.take("progress")?;
    options.finish()?;
    let training = Inner::new(examples, batch, epochs, request).or_raise()?;
    let steps = training.steps();
    let search = move |observer: &SearchObserver| training.with_observer(observer.clone()).options();
    let found = searching_with(py, progress.as_ref(), search)?.or_raise()?;
    PyTraining::new(py, found, steps, memory)
}

impl PyTraining {
    fn new(py: Python<'_>, found: TrainingOptions, steps: u64, memory: Option<NoiseMemoryLimit>) -> PyResult<Self> {
        let TrainingOptions { available, omitted } = found;
        let plans: Vec<Plan> = available.iter().map(|option| option.plan.clone()).collect();
        let promise = super::guarantee::PyVectorGuarantee(plans[0].guarantee()).description();
        let option = |option: Found| {
            let memory_gib = memory.map(|limit| limit.used(&option.plan)).transpose()?;
            let too_much = memory.zip(memory_gib).is_some_and(|(limit, used)| used > limit.gib);
            let made = TrainingOption {
                description: option.description(),
                sampling: option.sampling,
                batch: option.batch,
                noise_multiplier: option.plan.noise_multiplier(),
                memory: option.memory,
                memory_gib,
                fits: option.fits && !too_much,
                relative_error: option.relative_error(),
                plan: Py::new(py, PyVectorPlan::new(option.plan))?,
            };
            Py::new(py, made)
        };
        Ok(Self {
            options: available.into_iter().map(option).collect::<PyResult<_>>()?,
            omitted,
            plans,
            steps,
            promise,
        })
    }

    /// The best option that fits.
    fn fitting(&self) -> Option<&Py<TrainingOption>> {
        self.options.iter().find(|option| option.get().fits)
    }

    fn rows(&self) -> Vec<HtmlRow<COLUMNS>> {
        let best = self.options.iter().position(|option| option.get().fits);
        let row = |(place, option): (usize, &Py<TrainingOption>)| {
            let (option, plan) = (option.get(), &self.plans[place]);
            let too_much = if option.fits { "" } else { ", too much" };
            let memory = match option.memory_gib {
                Some(gib) => format!("{gib:.2} GiB{too_much}"),
                None => format!("{}{too_much}", memory_cell(option.memory)),
            };
            let numbers = [option.noise_multiplier, plan.max_std_error(), plan.mean_std_error()];
            let [multiplier, max, mean] = numbers.map(|x| format!("{x:.4}"));
            let relative = format!("{:.3}", option.relative_error);
            let (steps, batch) = (plan.horizon().to_string(), batch_cell(option.batch));
            let cells = [option.description.clone(), steps, batch, memory, multiplier, max, mean, relative];
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
        self.fitting().map_or("none fits the memory", |option| &option.get().description)
    }

    /// A line for each option that is out of reach.
    fn omitted_lines(&self) -> impl Iterator<Item = String> {
        self.omitted.iter().map(|option| format!("{}: {}", option.description, option.reason))
    }
}

/// An expected batch size, with a digit after the point if it is not whole.
fn batch_cell(batch: f64) -> String {
    if batch.fract() == 0.0 { batch.to_string() } else { format!("{batch:.1}") }
}

/// The number of columns.
const COLUMNS: usize = 8;
/// Their headings.
const HEADS: [&str; COLUMNS] =
    ["option", "steps", "batch", "memory", "multiplier", "max error", "mean error", "× best"];

#[pymethods]
impl PyTraining {
    /// Number of steps: epochs times examples, divided by the batch size. An option may have a few more or less, see
    /// :attr:`TrainingOption.steps`.
    #[getter]
    fn steps(&self) -> u64 {
        self.steps
    }

    /// The best option that fits ``max_memory``, and ``memory`` if that is given.
    ///
    /// Raises :class:`InvalidError` if none fits.
    #[getter]
    fn best(&self, py: Python<'_>) -> PyResult<Py<TrainingOption>> {
        let none = || invalid("no training option fits the memory limit: raise it, or plan for fewer parameters");
        self.fitting().map(|option| option.clone_ref(py)).ok_or_else(none)
    }

    /// The plan of the best option that fits.
    #[getter]
    fn plan(&self, py: Python<'_>) -> PyResult<Py<PyVectorPlan>> {
        Ok(self.best(py)?.get().plan.clone_ref(py))
    }

    /// Options that are out of reach, with the reason, :class:`OmittedOption` objects.
    #[getter]
    fn omitted(&self) -> Vec<PyOmittedOption> {
        self.omitted.iter().cloned().map(PyOmittedOption).collect()
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
        let rows: Vec<[String; COLUMNS]> =
            std::iter::once(HEADS.map(str::to_owned)).chain(self.rows().into_iter().map(|row| row.cells)).collect();
        let wide = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: [usize; COLUMNS] = std::array::from_fn(wide);
        let mut out = format!("{}\n\n", self.headline());
        for row in &rows {
            let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
                if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            out += cells.collect::<Vec<_>>().join("  ").trim_end();
            out.push('\n');
        }
        if !self.omitted.is_empty() {
            out += "\nnot available:\n";
            self.omitted_lines().for_each(|line| out += &format!("  {line}\n"));
        }
        out
    }

    /// The standard error of every step under the best options, as a picture. It includes the best of every sampling
    /// scheme and of the fixed order, and DP-SGD, unless they have more than three times the error of the best.
    fn svg(&self) -> String {
        let shades = [ink::BLUE, ink::VERMILION, ink::GREEN, ink::PURPLE, ink::SKY, ink::ORANGE, ink::BLACK];
        let step = |horizon: u64, i: u64| 1 + (horizon - 1) * i / POINTS.min(horizon).max(1);
        let line = |(rank, place): (usize, usize)| {
            let (plan, horizon) = (&self.plans[place], self.plans[place].horizon());
            let steps = (0..=POINTS.min(horizon)).map(|i| step(horizon, i));
            PanelLine {
                label: self.options[place].get().description.clone(),
                look: LineStyle::new(shades[rank % shades.len()], (rank > 3).then_some("5 3"), Marker::None),
                points: steps.map(|step| (step as f64, plan.std_error(step))).collect(),
            }
        };
        let lines: Vec<PanelLine> = self.shown().into_iter().enumerate().map(line).collect();
        let last = self.plans.iter().map(Plan::horizon).max().unwrap_or(2).max(2);
        let x = Axis { spacing: Spacing::Linear, range: (1.0, last as f64), caption: "step".into() };
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
        if !self.omitted.is_empty() {
            out.push_str("<p style=\"margin:4px 0\">Not available:</p><ul style=\"margin:0\">");
            self.omitted_lines().for_each(|line| out += &format!("<li>{}</li>", crate::html::escaped(&line)));
            out.push_str("</ul>");
        }
        out + &format!("<div style=\"max-width:960px;margin-top:8px\">{}</div></div>", self.svg())
    }

    fn _repr_svg_(&self) -> String {
        self.svg()
    }
}
