//! Plans of vectors.

use super::candidate::{HEADS, VectorCandidate};
use super::guarantee::VectorGuarantee;
use super::request::request;
use super::words::{cipher_word, neighbours_word, objective_word, series_word};
use crate::arrays::column;
use crate::budget::Budget;
use crate::error::{OrRaise, invalid};
use crate::html::{self, Row};
use crate::options::Options;
use crate::plan::hexadecimal;
use crate::running::abandonable;
use crate::steps::{check_step, steps_or_all};
use crate::whole::Whole;
use evertally::plan::Objective;
use evertally_plot::ErrorCurve;
use evertally_training::{VectorCandidate as Found, VectorPlan as Inner, VectorRequest};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Everything that is decided before a training run: steps, budget, clipping norm, mechanism and noise.
///
/// Made by :func:`plan_vector`; holds no secret and may be published. Plans compare by content. In a notebook a plan
/// shows the ranking of the mechanisms and its error over the steps. All errors are those of the *running sums* of the
/// vectors, whatever the :attr:`series`, or where there is an :attr:`optimizer` those of the parameters that it makes of
/// them: standard deviations of one coordinate, in units of the vectors, or those times the learning rate.
///
/// >>> import evertally as et
/// >>> plan = et.plan_vector(1000, norm=1.0, epsilon=2.0, delta=1e-6, mechanism="smooth")
/// >>> plan.horizon, plan.series, plan.sigma < plan.max_std_error
/// (1000, 'increments', True)
/// >>> et.VectorPlan.from_json(plan.to_json()) == plan
/// True
#[pyclass(frozen, module = "evertally")]
pub(crate) struct VectorPlan {
    inner: Inner,
    ranking: OnceLock<Vec<VectorCandidate>>,
}

/// The plan of a vector. Called by `evertally.plan_vector`, where its help is.
#[pyfunction]
#[pyo3(name = "_plan_vector")]
pub(crate) fn plan_vector(py: Python<'_>, given: &Bound<'_, PyDict>) -> PyResult<VectorPlan> {
    let options = Options::new(given)?;
    let request = request(&options)?;
    options.finish()?;
    abandonable(py, move || planned(request))?.or_raise()
}

/// The plan of a request. Where the mechanism is open, one search gives the plan and its ranking.
fn planned(request: VectorRequest) -> evertally::Result<VectorPlan> {
    if request.mechanism().is_some() {
        return Ok(VectorPlan { inner: request.plan()?, ranking: OnceLock::new() });
    }
    let (inner, found) = request.plan_and_candidates()?;
    let plan = VectorPlan::of(inner);
    let ranking = plan.ranked(&found);
    Ok(VectorPlan { ranking: ranking.into(), ..plan })
}

impl VectorPlan {
    /// A plan that is made.
    pub(crate) fn of(inner: Inner) -> Self {
        Self { inner, ranking: OnceLock::new() }
    }

    /// The plan of the library.
    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// What the objective minimises.
    fn error(&self, max: f64, mean: f64) -> f64 {
        if self.inner.request().objective() == Objective::Max { max } else { mean }
    }

    fn ranked(&self, found: &[Found]) -> Vec<VectorCandidate> {
        let error = |candidate: &Found| self.error(candidate.max_std_error, candidate.mean_std_error);
        let (best, bound) = (found.first().map_or(1.0, error), self.inner.lower_bound_max_std_error());
        found.iter().map(|candidate| VectorCandidate::new(candidate, error(candidate) / best, bound)).collect()
    }

    /// All mechanisms under the same request, searched at most once.
    fn candidates(&self) -> &[VectorCandidate] {
        self.ranking.get_or_init(|| {
            let open = self.inner.request().clone().with_optional_mechanism(None);
            // What fits one mechanism is a request that others can compete for.
            self.ranked(&open.candidates().unwrap_or_default())
        })
    }

    fn curve(&self) -> String {
        let bound = Some(self.inner.lower_bound_max_std_error()).filter(|bound| *bound > 0.0);
        ErrorCurve::of(self.inner.horizon(), |step| self.inner.std_error(step), bound).svg()
    }

    fn page(&self) -> String {
        let name = self.inner.name().to_string();
        let rows: Vec<Row> = self.candidates().iter().map(|candidate| candidate.row(&name)).collect();
        let error = self.error(self.inner.max_std_error(), self.inner.mean_std_error());
        let unlisted = format!("The plan has {}, of error {error:.4}.", self.inner.name().brief());
        let words = self.guarantee().words();
        let words = match self.optimizer() {
            Some(optimizer) => format!("{words}; errors are {optimizer}"),
            None => words,
        };
        html::page(&self.__repr__(), &words, HEADS, &rows, &unlisted, &self.curve())
    }
}

#[pymethods]
impl VectorPlan {
    /// The plan that :meth:`to_json` wrote.
    ///
    /// Raises :class:`InvalidError` if the text is no plan of vectors, or its noise is not what its budget needs.
    #[staticmethod]
    fn from_json(py: Python<'_>, text: String) -> PyResult<Self> {
        let read = move || serde_json::from_str::<Inner>(&text).map_err(|e| e.to_string());
        let read = abandonable(py, read)?;
        let inner = read.map_err(|problem| invalid(format!("this is not a plan of vectors: {problem}")))?;
        Ok(Self { inner, ranking: OnceLock::new() })
    }

    /// The plan as JSON text: all of it, and nothing secret.
    ///
    /// >>> import evertally as et, json
    /// >>> json.loads(et.plan_vector(1000, rho=0.5).to_json())["horizon"]
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

    /// Full name of the mechanism, as :func:`plan_vector` takes it.
    #[getter]
    fn mechanism_name(&self) -> String {
        self.inner.name().to_string()
    }

    /// The error that was minimised: ``"max"`` or ``"mean"``.
    #[getter]
    fn objective(&self) -> &'static str {
        objective_word(self.inner.request().objective())
    }

    /// What the noise is added to: ``"increments"`` or ``"running-sums"``.
    #[getter]
    fn series(&self) -> &'static str {
        series_word(self.inner.series())
    }

    /// What errors are of, in words: the running sums, or what an optimizer makes of the vectors.
    ///
    /// >>> import evertally as et
    /// >>> et.plan_vector(100, rho=0.5, learning_rate=0.1, momentum=0.9).optimizer
    /// 'of the parameters, for a learning rate of 0.1, momentum 0.9'
    #[getter]
    fn optimizer(&self) -> Option<String> {
        self.inner.request().optimizer().map(|optimizer| optimizer.in_words())
    }

    /// In how many steps one example takes part at most.
    #[getter]
    fn participations(&self) -> u64 {
        self.inner.request().participation().most()
    }

    /// How many steps two of them are apart at least.
    #[getter]
    fn separation(&self) -> u64 {
        self.inner.request().participation().separation()
    }

    /// Where examples take part by lot: the share of all of them that is expected in a step.
    ///
    /// >>> import evertally as et
    /// >>> plan = et.plan_vector(200, epsilon=2, delta=1e-5, sampled=0.01, mechanism="epoch-bands(bands=4)")
    /// >>> plan.sampled, plan.groups, plan.participations
    /// (0.01, 4, 50)
    #[getter]
    fn sampled(&self) -> Option<f64> {
        self.inner.request().sampling().map(|sampling| sampling.fraction())
    }

    /// Where every example is put into a bin by lot, once: how many bins there are. In step t those of bin (t - 1) mod bins
    /// take part.
    ///
    /// >>> import evertally as et
    /// >>> plan = et.plan_vector(40, epsilon=8, delta=1e-5, bins=20, mechanism="blt(buffers=2)")
    /// >>> plan.bins, plan.sampled, plan.groups, plan.participations
    /// (20, 0.05, None, 2)
    #[getter]
    fn bins(&self) -> Option<u64> {
        self.inner.bins()
    }

    /// Where every example is put into a new bin in every epoch: how many bins there are. Two steps of an example are
    /// :attr:`separation` apart at least.
    ///
    /// >>> import evertally as et
    /// >>> plan = et.plan_vector(40, epsilon=2, delta=1e-5, fresh_bins=10, mechanism="banded-sqrt(bands=3)")
    /// >>> plan.fresh_bins, plan.sampled, plan.participations, plan.separation
    /// (10, 0.1, 4, 3)
    #[getter]
    fn fresh_bins(&self) -> Option<u64> {
        self.inner.fresh_bins()
    }

    /// In how many groups the examples are then: in step t those of group (t - 1) mod groups may take part. None with
    /// :attr:`bins` and :attr:`fresh_bins`.
    #[getter]
    fn groups(&self) -> Option<u64> {
        self.inner.groups()
    }

    /// What neighbouring data sets differ in: ``"add-remove"`` or ``"replace-one"``.
    #[getter]
    fn neighbours(&self) -> &'static str {
        neighbours_word(self.inner.request().neighbours())
    }

    /// The cipher that the noise is drawn from.
    #[getter]
    fn cipher(&self) -> &'static str {
        cipher_word(self.inner.cipher())
    }

    /// The budget that the plan was asked for.
    #[getter]
    fn budget(&self) -> Budget {
        Budget(self.inner.request().budget())
    }

    /// What is promised about the whole history of releases.
    #[getter]
    fn guarantee(&self) -> VectorGuarantee {
        VectorGuarantee(self.inner.guarantee())
    }

    /// The public text that is part of the plan.
    #[getter]
    fn meaning(&self) -> BTreeMap<String, String> {
        self.inner.request().meaning().clone()
    }

    /// Fingerprint of the plan, 64 hexadecimal digits. Noise is bound to it.
    #[getter]
    fn digest(&self) -> String {
        hexadecimal(&self.inner.digest())
    }

    /// Standard deviation of one noise variable, in units of the vectors. With ``"input"`` it is that of the noise of
    /// every step; other mechanisms combine several.
    #[getter]
    fn sigma(&self) -> f64 {
        self.inner.sigma()
    }

    /// By how many standard deviations per ``norm`` one added or removed example moves the releases at most, for
    /// ``sigma=1``; never too small.
    #[getter]
    fn sensitivity(&self) -> f64 {
        self.inner.sensitivity()
    }

    /// The largest standard error of any running sum, or of the parameters.
    #[getter]
    fn max_std_error(&self) -> f64 {
        self.inner.max_std_error()
    }

    /// The root of the mean variance of the same over the steps.
    #[getter]
    fn mean_std_error(&self) -> f64 {
        self.inner.mean_std_error()
    }

    /// What :attr:`max_std_error` of no mechanism can be below; 0 with sampling, where no bound is known.
    ///
    /// >>> import evertally as et
    /// >>> plan = et.plan_vector(1000, rho=0.5)
    /// >>> 1.0 <= plan.max_std_error / plan.lower_bound < 1.1
    /// True
    #[getter]
    fn lower_bound(&self, py: Python<'_>) -> f64 {
        py.detach(|| self.inner.lower_bound_max_std_error())
    }

    /// The mechanisms under the same request, :class:`VectorCandidate` objects, least error first.
    #[getter]
    fn ranking(&self, py: Python<'_>) -> Vec<VectorCandidate> {
        py.detach(|| self.candidates().to_vec())
    }

    /// Standard error of the running sum, or the parameters, at a step (1 to the horizon).
    fn std_error(&self, step: Whole) -> PyResult<f64> {
        Ok(self.inner.std_error(check_step(self.inner.horizon(), step.0)?))
    }

    /// Standard errors of the running sums, or the parameters, at many steps as float64: at all, or at those in the array ``steps``.
    ///
    /// Raises :class:`InvalidError` if all are asked for and there are more than 2^27.
    ///
    /// >>> import evertally as et
    /// >>> plan = et.plan_vector(1000, rho=0.5)
    /// >>> plan.std_errors().shape, plan.std_errors([1, 1000])[1] == plan.std_error(1000)
    /// ((1000,), np.True_)
    #[pyo3(signature = (steps = None))]
    fn std_errors<'py>(&self, py: Python<'py>, steps: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let steps = steps_or_all(self.inner.horizon(), steps)?;
        Ok(column(py, py.detach(|| steps.iter().map(|step| self.inner.std_error(*step)).collect())))
    }

    /// The standard deviation of the noise that is added in each step, for every coordinate: float64 of shape
    /// (horizon,). For ``series="increments"`` it is that of the step's gradient, which correlated noise makes larger than
    /// errors of sums are.
    ///
    /// Raises :class:`InvalidError` if there are too many steps to follow.
    ///
    /// >>> import evertally as et
    /// >>> plan = et.plan_vector(50, rho=0.5, mechanism="input")
    /// >>> bool((plan.noise_stds() == plan.sigma).all())
    /// True
    fn noise_stds<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(column(py, py.detach(|| self.inner.noise_stds()).or_raise()?))
    }

    /// The matrix B of the noise, float64 of shape (horizon, variables): that of a coordinate is B z, with independent
    /// standard normal variables z, over all steps. For whoever checks a promise or a program.
    ///
    /// Raises :class:`InvalidError` if it has more than 2^26 numbers.
    ///
    /// >>> import evertally as et, numpy as np
    /// >>> plan = et.plan_vector(50, rho=0.5, mechanism="normalized-blt(buffers=2)")
    /// >>> matrix = plan.noise_matrix()
    /// >>> sums = np.cumsum(matrix, axis=0)
    /// >>> bool(np.allclose(np.linalg.norm(sums, axis=1), plan.std_errors()))
    /// True
    fn noise_matrix<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let matrix = py.detach(|| self.inner.noise_matrix()).or_raise()?;
        let shape = (matrix.values().len() / matrix.variables(), matrix.variables());
        column(py, matrix.values().to_vec()).call_method1("reshape", (shape,))
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
    fn _repr_html_(&self, py: Python<'_>) -> String {
        py.detach(|| self.page())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((py.get_type::<Self>().getattr("from_json")?, (self.to_json()?,)))
    }
}
