//! Plans for vectors.

use super::candidate::{HEADS, PyVectorCandidate};
use super::guarantee::PyVectorGuarantee;
use super::names::{cipher_name, neighbours_name, objective_name, series_name};
use super::request::request;
use crate::arrays::column;
use crate::budget::PyBudget;
use crate::error::{OrRaise, invalid};
use crate::html::{self, HtmlRow};
use crate::options::Options;
use crate::request::declared;
use crate::running::{abandonable, searched_once, searching_with};
use crate::steps::{check_step, steps_or_all};
use crate::whole::Whole;
use evertally::plan::{Objective, SearchObserver};
use evertally_ledger::disk::{Access, RealDisk, replace};
use evertally_plot::ErrorCurve;
use evertally_training::{SamplingScheme, VectorCandidate as Found, VectorPlan as Inner, VectorRequest};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;

/// The decisions made before a training run: steps, budget, clipping norm, mechanism and noise.
///
/// Made by :func:`plan_vector`; contains no secret and may be published. Plans compare by content. In a notebook a plan
/// shows the ranking of the mechanisms and its error over the steps. All errors are standard deviations of one
/// coordinate of the *running sums* of the vectors, whatever the :attr:`series`, in units of the vectors. With an
/// :attr:`optimizer` they are those of the parameters that it computes from the vectors, in units of the vectors times
/// the learning rate.
///
/// >>> import evertally as et
/// >>> plan = et.training.plan_vector(1000, norm=1.0, epsilon=2.0, delta=1e-6, mechanism="smooth")
/// >>> plan.horizon, plan.series, plan.sigma < plan.max_std_error
/// (1000, 'increments', True)
/// >>> et.training.VectorPlan.from_json(plan.to_json()) == plan
/// True
#[pyclass(frozen, name = "VectorPlan", module = "evertally.training")]
pub(crate) struct PyVectorPlan {
    inner: Inner,
    ranking: OnceLock<Vec<PyVectorCandidate>>,
}

/// The plan for a vector. Called by `evertally.training.plan_vector`, which holds its documentation.
#[pyfunction]
#[pyo3(name = "_plan_vector")]
pub(crate) fn plan_vector(py: Python<'_>, json: &str, given: &Bound<'_, PyDict>) -> PyResult<PyVectorPlan> {
    let options = Options::new(given)?;
    let Whole(horizon) = options.needed("horizon")?;
    let request = request(&declared(json)?, &options, horizon)?;
    let progress: Option<Bound<'_, PyAny>> = options.take("progress")?;
    options.finish()?;
    searching_with(py, progress.as_ref(), move |observer| planned(request.with_observer(observer.clone())))?.or_raise()
}

/// The plan for a request. If the mechanism is open, one search gives the plan and its ranking.
fn planned(request: VectorRequest) -> evertally::Result<PyVectorPlan> {
    if request.mechanism().is_some() {
        return Ok(PyVectorPlan { inner: request.plan()?, ranking: OnceLock::new() });
    }
    let (inner, found) = request.plan_and_candidates()?;
    let ranking = ranked(&inner, &found).into();
    Ok(PyVectorPlan { inner, ranking })
}

/// The error that the objective of a plan minimises.
fn error(plan: &Inner, max: f64, mean: f64) -> f64 {
    if plan.request().objective() == Objective::Max { max } else { mean }
}

/// The candidates of a plan as Python shows them.
fn ranked(plan: &Inner, found: &[Found]) -> Vec<PyVectorCandidate> {
    let error = |candidate: &Found| error(plan, candidate.max_std_error, candidate.mean_std_error);
    let (best, bound) = (found.first().map_or(1.0, error), plan.lower_bound_max_std_error());
    let new = |own: &Found| PyVectorCandidate::new(own, plan.request().norm(), error(own) / best, bound);
    found.iter().map(new).collect()
}

impl PyVectorPlan {
    /// Wraps a plan of the library.
    pub(crate) fn new(inner: Inner) -> Self {
        Self { inner, ranking: OnceLock::new() }
    }

    /// The plan of the library.
    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// All mechanisms under the same request.
    fn candidates(&self, py: Python<'_>) -> PyResult<&[PyVectorCandidate]> {
        let plan = self.inner.clone();
        // A request with one mechanism fixed is also a request that others can compete for.
        let search = move |observer: &SearchObserver| {
            let open = plan.request().clone().with_optional_mechanism(None).with_observer(observer.clone());
            ranked(&plan, &open.candidates().unwrap_or_default())
        };
        searched_once(py, &self.ranking, search).map(Vec::as_slice)
    }

    fn curve(&self) -> String {
        let bound = Some(self.inner.lower_bound_max_std_error()).filter(|bound| *bound > 0.0);
        ErrorCurve::new(self.inner.horizon(), |step| self.inner.std_error(step), bound).svg()
    }

    fn page(&self, candidates: &[PyVectorCandidate]) -> String {
        let name = self.inner.name().to_string();
        let rows: Vec<HtmlRow> = candidates.iter().map(|candidate| candidate.row(&name)).collect();
        let error = error(&self.inner, self.inner.max_std_error(), self.inner.mean_std_error());
        let unlisted = format!("The plan has {}, of error {error:.4}.", self.inner.name().brief());
        let guarantee = self.guarantee().description();
        let description = match self.optimizer() {
            Some(optimizer) => format!("{guarantee}; errors are {optimizer}"),
            None => guarantee,
        };
        html::page(&self.__repr__(), &description, HEADS, &rows, &unlisted, &self.curve())
    }
}

#[pymethods]
impl PyVectorPlan {
    /// The plan that :meth:`to_json` wrote.
    ///
    /// Raises :class:`InvalidError` if the text is not a plan for vectors, or its noise does not match its budget.
    #[staticmethod]
    fn from_json(py: Python<'_>, text: String) -> PyResult<Self> {
        let read = move || serde_json::from_str::<Inner>(&text).map_err(|e| e.to_string());
        let read = abandonable(py, read)?;
        let inner = read.map_err(|problem| invalid(format!("this is not a plan for vectors: {problem}")))?;
        Ok(Self { inner, ranking: OnceLock::new() })
    }

    /// Writes the plan as JSON to a file, which :meth:`load` reads; it contains no secret. An existing file is
    /// replaced.
    ///
    /// >>> import evertally as et, pathlib, tempfile
    /// >>> plan = et.training.plan_vector(1000, rho=0.5)
    /// >>> file = pathlib.Path(tempfile.mkdtemp(), "run.plan.json")
    /// >>> plan.save(file)
    /// >>> et.training.VectorPlan.load(file) == plan
    /// True
    fn save(&self, path: PathBuf) -> PyResult<()> {
        let text = self.to_json()? + "\n";
        Ok(replace(&RealDisk, &path, &Access::Usual, &mut text.as_bytes())?)
    }

    /// The plan that :meth:`save` wrote. No mechanism is compared again, but the noise of this one is derived again
    /// from the budget, which may take seconds with random allocation.
    ///
    /// Raises :class:`InvalidError` if the file is not a plan for vectors, or its noise does not match its budget.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Self::from_json(py, std::fs::read_to_string(path)?)
    }

    /// The complete plan as JSON text; it contains no secret.
    ///
    /// >>> import evertally as et, json
    /// >>> json.loads(et.training.plan_vector(1000, rho=0.5).to_json())["horizon"]
    /// 1000
    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string(&self.inner).map_err(|problem| invalid(problem.to_string()))
    }

    /// Number of steps.
    #[getter]
    fn horizon(&self) -> u64 {
        self.inner.horizon()
    }

    /// The clipping norm, in units of the vectors.
    #[getter]
    fn norm(&self) -> f64 {
        self.inner.request().norm()
    }

    /// Short name of the mechanism.
    #[getter]
    fn mechanism(&self) -> String {
        self.inner.name().brief().to_string()
    }

    /// Full name of the mechanism, as accepted by :func:`plan_vector`.
    #[getter]
    fn mechanism_name(&self) -> String {
        self.inner.name().to_string()
    }

    /// The error that was minimised: ``"max"`` or ``"mean"``.
    #[getter]
    fn objective(&self) -> &'static str {
        objective_name(self.inner.request().objective())
    }

    /// The series that the noise is added to: ``"increments"`` or ``"running-sums"``.
    #[getter]
    fn series(&self) -> &'static str {
        series_name(self.inner.series())
    }

    /// What the errors refer to, in words, if an optimizer uses the vectors.
    ///
    /// >>> import evertally as et
    /// >>> et.training.plan_vector(100, rho=0.5, learning_rate=0.1, momentum=0.9).optimizer
    /// 'of the parameters, for a learning rate of 0.1, momentum 0.9'
    #[getter]
    fn optimizer(&self) -> Option<String> {
        self.inner.request().optimizer().map(|optimizer| optimizer.in_words())
    }

    /// The maximum number of steps in which one example takes part.
    #[getter]
    fn participations(&self) -> u64 {
        self.inner.request().participation().most()
    }

    /// The minimum distance between two such steps.
    #[getter]
    fn separation(&self) -> u64 {
        self.inner.request().participation().separation()
    }

    /// How the examples of a step are sampled, if they are: ``"poisson"``, ``"cyclic-poisson"``,
    /// ``"random-allocation"``, ``"per-epoch-random-allocation"``, ``"fixed-size"`` or ``"truncated-poisson"``.
    /// Cyclic Poisson sampling with one group is ``"poisson"``.
    ///
    /// >>> import evertally as et
    /// >>> sampling = {"sampling": "cyclic-poisson", "sampled_fraction": 0.01}
    /// >>> plan = et.training.plan_vector(200, epsilon=2, delta=1e-5, **sampling, mechanism="epoch-bands(bands=4)")
    /// >>> plan.sampling, plan.groups, plan.participations
    /// ('cyclic-poisson', 4, 50)
    #[getter]
    fn sampling(&self) -> Option<&'static str> {
        self.inner.sampling_scheme().map(SamplingScheme::name)
    }

    /// With random sampling: the expected share of all examples in a step.
    #[getter]
    fn sampled_fraction(&self) -> Option<f64> {
        self.inner.request().sampling().map(|sampling| sampling.fraction())
    }

    /// With random allocation: the number of steps in an epoch. Every example takes part in one of them: the same in
    /// every epoch, or with ``"per-epoch-random-allocation"`` in steps at least :attr:`separation` apart.
    ///
    /// >>> import evertally as et
    /// >>> given = {"epsilon": 8, "delta": 1e-5, "steps_per_epoch": 20, "mechanism": "blt(buffers=2)"}
    /// >>> plan = et.training.plan_vector(40, sampling="random-allocation", **given)
    /// >>> plan.steps_per_epoch, plan.sampled_fraction, plan.groups, plan.participations
    /// (20, 0.05, None, 2)
    /// >>> given = {"epsilon": 2, "delta": 1e-5, "steps_per_epoch": 10, "mechanism": "banded-sqrt(bands=3)"}
    /// >>> plan = et.training.plan_vector(40, sampling="per-epoch-random-allocation", **given)
    /// >>> plan.steps_per_epoch, plan.participations, plan.separation
    /// (10, 4, 3)
    #[getter]
    fn steps_per_epoch(&self) -> Option<u64> {
        self.inner.steps_per_epoch()
    }

    /// With truncated Poisson sampling: the maximum batch, as declared or as chosen by the plan.
    ///
    /// >>> import evertally as et
    /// >>> sampling = {"sampling": "truncated-poisson", "sampled_fraction": 0.01, "examples": 10_000}
    /// >>> et.training.plan_vector(200, epsilon=1, delta=1e-5, mechanism="input", **sampling).max_batch_size
    /// 173
    #[getter]
    fn max_batch_size(&self) -> Option<u64> {
        self.inner.max_batch()
    }

    /// With (cyclic) Poisson sampling and batches of fixed size: the number of groups of examples. Those of group
    /// (t - 1) mod groups may take part in step t.
    #[getter]
    fn groups(&self) -> Option<u64> {
        self.inner.groups()
    }

    /// The neighbouring relation of data sets: ``"add-remove"`` or ``"replace-one"``.
    #[getter]
    fn neighbours(&self) -> &'static str {
        neighbours_name(self.inner.request().neighbours())
    }

    /// The cipher that the noise is drawn from.
    #[getter]
    fn cipher(&self) -> &'static str {
        cipher_name(self.inner.cipher())
    }

    /// The budget that was requested.
    #[getter]
    fn budget(&self) -> PyBudget {
        PyBudget::new(self.inner.request().budget())
    }

    /// The privacy guarantee for the whole history of releases.
    #[getter]
    fn guarantee(&self) -> PyVectorGuarantee {
        PyVectorGuarantee(self.inner.guarantee())
    }

    /// The public text that is part of the plan.
    #[getter]
    fn meaning(&self) -> BTreeMap<String, String> {
        self.inner.request().meaning().clone()
    }

    /// Fingerprint of the plan, 64 hexadecimal digits. Noise is bound to it.
    #[getter]
    fn digest(&self) -> String {
        evertally::hex(&self.inner.digest())
    }

    /// Standard deviation of one noise variable, in units of the vectors. With ``"input"`` it is that of the noise of
    /// every step; other mechanisms combine several variables.
    #[getter]
    fn sigma(&self) -> f64 {
        self.inner.sigma()
    }

    /// σ over the clipping norm. With ``"input"`` this is the noise multiplier of DP-SGD: the noise of a step over the
    /// norm. Other mechanisms combine several variables in a step, whose noise is in :meth:`noise_stds`.
    #[getter]
    fn noise_multiplier(&self) -> f64 {
        self.inner.noise_multiplier()
    }

    /// The maximum distance by which adding or removing one example moves the releases, in standard deviations per
    /// ``norm``, for ``sigma=1``; rounded up.
    #[getter]
    fn sensitivity(&self) -> f64 {
        self.inner.sensitivity()
    }

    /// The largest standard error of any running sum, or of the parameters.
    #[getter]
    fn max_std_error(&self) -> f64 {
        self.inner.max_std_error()
    }

    /// The root of the mean variance over the steps.
    #[getter]
    fn mean_std_error(&self) -> f64 {
        self.inner.mean_std_error()
    }

    /// A lower bound on :attr:`max_std_error` for every mechanism; 0 with sampling, where no bound is known.
    ///
    /// >>> import evertally as et
    /// >>> plan = et.training.plan_vector(1000, rho=0.5)
    /// >>> 1.0 <= plan.max_std_error / plan.lower_bound < 1.1
    /// True
    #[getter]
    fn lower_bound(&self, py: Python<'_>) -> f64 {
        py.detach(|| self.inner.lower_bound_max_std_error())
    }

    /// The mechanisms under the same request, :class:`VectorCandidate` objects, smallest error first.
    #[getter]
    fn ranking(&self, py: Python<'_>) -> PyResult<Vec<PyVectorCandidate>> {
        Ok(self.candidates(py)?.to_vec())
    }

    /// The guarantee of the steps 1 to ``through`` alone, under the noise of the whole plan: what a run has spent that
    /// stops early. Never more than :attr:`guarantee`, and equal to it if no tighter bound is known.
    ///
    /// ``through`` must not depend on the data, nor on releases.
    ///
    /// >>> import evertally as et
    /// >>> asked = {"epsilon": 2.0, "delta": 1e-5, "mechanism": "input"}
    /// >>> plan = et.training.plan_vector(400, **asked, sampling="poisson", sampled_fraction=0.01)
    /// >>> plan.spent(through=100).epsilon_at(1e-5) < 1.5
    /// True
    fn spent(&self, py: Python<'_>, through: Whole) -> PyResult<PyVectorGuarantee> {
        let through = check_step(self.inner.horizon(), through.0)?;
        py.detach(|| self.inner.spent(through)).or_raise().map(PyVectorGuarantee)
    }

    /// Standard error of the running sum, or of the parameters, at a step (1 to the horizon).
    fn std_error(&self, step: Whole) -> PyResult<f64> {
        Ok(self.inner.std_error(check_step(self.inner.horizon(), step.0)?))
    }

    /// Standard errors of the running sums, or of the parameters, as float64: at all steps, or at those in the array
    /// ``steps``.
    ///
    /// Raises :class:`InvalidError` if all steps are requested and there are more than 2^27.
    ///
    /// >>> import evertally as et
    /// >>> plan = et.training.plan_vector(1000, rho=0.5)
    /// >>> plan.std_errors().shape, plan.std_errors([1, 1000])[1] == plan.std_error(1000)
    /// ((1000,), np.True_)
    #[pyo3(signature = (steps = None))]
    fn std_errors<'py>(&self, py: Python<'py>, steps: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let steps = steps_or_all(self.inner.horizon(), steps)?;
        column(py, py.detach(|| steps.iter().map(|step| self.inner.std_error(*step)).collect()))
    }

    /// The standard deviation of the noise that is added in each step, for every coordinate: float64 of shape
    /// (horizon,). For ``series="increments"`` it is that of the step's gradient, which correlated noise makes larger
    /// than the errors of sums.
    ///
    /// Raises :class:`InvalidError` if there are too many steps to compute.
    ///
    /// >>> import evertally as et
    /// >>> plan = et.training.plan_vector(50, rho=0.5, mechanism="input")
    /// >>> bool((plan.noise_stds() == plan.sigma).all())
    /// True
    fn noise_stds<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        column(py, py.detach(|| self.inner.noise_stds()).or_raise()?)
    }

    /// The noise matrix B, float64 of shape (horizon, variables): the noise of a coordinate over all steps is B z, with
    /// independent standard normal variables z. For those who verify a guarantee or an implementation.
    ///
    /// Raises :class:`InvalidError` if it has more than 2^26 numbers.
    ///
    /// >>> import evertally as et, numpy as np
    /// >>> plan = et.training.plan_vector(50, rho=0.5, mechanism="normalized-blt(buffers=2)")
    /// >>> matrix = plan.noise_matrix()
    /// >>> sums = np.cumsum(matrix, axis=0)
    /// >>> bool(np.allclose(np.linalg.norm(sums, axis=1), plan.std_errors()))
    /// True
    fn noise_matrix<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let matrix = py.detach(|| self.inner.noise_matrix()).or_raise()?;
        let shape = (matrix.values().len() / matrix.variables(), matrix.variables());
        column(py, matrix.values().to_vec())?.call_method1("reshape", (shape,))
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.inner.digest() == other.inner.digest()
    }

    fn __hash__(&self) -> u64 {
        u64::from_le_bytes(self.inner.digest()[..8].try_into().expect("8 of 32 bytes"))
    }

    fn __repr__(&self) -> String {
        format!(
            "VectorPlan(horizon={}, {}, norm={}, {}, {}, sigma={:.4}, max_std_error={:.4})",
            self.inner.horizon(),
            self.inner.request().budget(),
            self.norm(),
            self.series(),
            self.mechanism(),
            self.inner.sigma(),
            self.inner.max_std_error()
        )
    }

    /// The error over the steps, as SVG.
    fn _repr_svg_(&self, py: Python<'_>) -> String {
        py.detach(|| self.curve())
    }

    /// The ranking as a table, and the error over the steps.
    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        let candidates = self.candidates(py)?;
        Ok(py.detach(|| self.page(candidates)))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((py.get_type::<Self>().getattr("from_json")?, (self.to_json()?,)))
    }
}
