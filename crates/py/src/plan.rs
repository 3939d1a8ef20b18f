//! Plans.

use crate::arrays::column;
use crate::budget::PyBudget;
use crate::candidate::{HEADS, PyCandidate, noise_word};
use crate::error::{OrRaise, invalid};
use crate::guarantee::PyGuarantee;
use crate::html::{self, HtmlRow};
use crate::options::Options;
use crate::request::{declared, observed, request};
use crate::running::{abandonable, searched_once, searching_with};
use crate::steps::{check_step, steps_or_all};
use crate::whole::Whole;
use evertally::mechanism::MAX_HORIZON;
use evertally::plan::ranking::{Ranking, RankingRow};
use evertally::plan::{LOOKED_AT, Objective, Plan as Inner, PlanRequest};
use evertally_declare::settings::Assertion;
use evertally_ledger::planner;
use evertally_plot::ErrorCurve;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The number of rows shown of a ranking.
const SHOWN: usize = 12;

/// For an endless plan, the index of the evaluated step whose error represents the plan: step 1000.
const ENDLESS_SHOWN_INDEX: usize = 1;
/// For an endless plan, the number of steps whose errors are drawn.
const ENDLESS_DRAWN_STEPS: u64 = 1 << 20;

/// The decisions made before the first data point: horizon, budget, privacy unit, mechanism and noise.
///
/// Made by :func:`plan`; contains no secret and may be published. Plans compare by content. In a notebook a plan shows
/// the ranking of the mechanisms and its error over the steps.
///
/// >>> import evertally as et
/// >>> plan = et.plan(365, epsilon=1.0)
/// >>> plan.horizon, plan.noise
/// (365, 'laplace')
/// >>> et.Plan.from_json(plan.to_json()) == plan
/// True
#[pyclass(frozen, name = "Plan", module = "evertally")]
pub(crate) struct PyPlan {
    inner: Inner,
    ranking: OnceLock<Option<Ranking>>,
}

/// The plan for a counter. Called by `evertally.plan`, which holds its documentation.
#[pyfunction]
#[pyo3(name = "_plan")]
pub(crate) fn plan(py: Python<'_>, json: &str, given: &Bound<'_, PyDict>) -> PyResult<PyPlan> {
    let options = Options::new(given)?;
    let horizon = options.take("horizon")?.map_or(MAX_HORIZON, |Whole(steps)| steps);
    let request = request(&declared(json)?, &options, horizon)?;
    let progress: Option<Bound<'_, PyAny>> = options.take("progress")?;
    options.finish()?;
    searching_with(py, progress.as_ref(), move |observer| planned(observed(request, observer)))?.or_raise()
}

/// All mechanisms under a request; `None` for several workloads.
fn ranking(request: PlanRequest) -> Option<Ranking> {
    if request.mix().is_some() {
        return None;
    }
    let request = request.with_optional_mechanism(None).with_optional_noise(None);
    Ranking::new(&request, &request.candidates().ok()?).ok()?
}

/// The plan for a request. If mechanism and noise are open, one search gives the plan and its ranking.
fn planned(request: PlanRequest) -> evertally_declare::error::Result<PyPlan> {
    let request = planner::with_searched(request, &mut |_| ())?;
    if request.mix().is_some() || request.mechanism().is_some() || request.noise().is_some() {
        return Ok(PyPlan::new(request.plan()?));
    }
    let (inner, candidates) = request.clone().plan_with_candidates()?;
    let ranking = Ranking::new(&request, &candidates)?;
    Ok(PyPlan { inner, ranking: ranking.into() })
}

impl PyPlan {
    /// Wraps a plan of the library.
    pub(crate) fn new(inner: Inner) -> Self {
        Self { inner, ranking: OnceLock::new() }
    }

    /// Checks two steps, where 0 is the start.
    fn steps_or_start(&self, steps: [Whole; 2]) -> PyResult<[u64; 2]> {
        let checked = |step: u64| if step == 0 { Ok(0) } else { check_step(self.inner.horizon(), step) };
        Ok([checked(steps[0].0)?, checked(steps[1].0)?])
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// All mechanisms under the same request.
    fn ranked(&self, py: Python<'_>) -> PyResult<Option<&Ranking>> {
        let request = self.inner.request().clone();
        let ranking = searched_once(py, &self.ranking, move |observer| ranking(observed(request, observer)))?;
        Ok(ranking.as_ref())
    }

    /// The error that the objective minimises.
    fn error(&self) -> f64 {
        match self.inner.request().objective() {
            _ if self.inner.is_unbounded() => self.inner.std_error(LOOKED_AT[ENDLESS_SHOWN_INDEX]),
            Objective::Max => self.inner.max_std_error(),
            Objective::Mean => self.inner.mean_std_error(),
        }
    }

    fn candidates(&self, ranking: Option<&Ranking>) -> Vec<PyCandidate> {
        let Some(ranking) = ranking else { return Vec::new() };
        let mean = self.inner.request().objective() == Objective::Mean;
        let error = |row: &RankingRow| match row.at.get(ENDLESS_SHOWN_INDEX) {
            Some(at) => at.std,
            None if mean => row.mean_std,
            None => row.max_std,
        };
        let errors: Vec<f64> = ranking.ranking.iter().map(error).collect();
        let rows = ranking.ranking.iter().zip(&errors).take(SHOWN);
        rows.map(|(row, error)| PyCandidate::new(row, *error, errors[0], ranking.bound())).collect()
    }

    fn curve(&self, ranking: Option<&Ranking>) -> String {
        let bound = ranking.and_then(Ranking::bound);
        // An endless plan draws its first steps.
        let steps = if self.inner.is_unbounded() { ENDLESS_DRAWN_STEPS } else { self.inner.horizon() };
        ErrorCurve::new(steps, |step| self.inner.std_error(step), bound).svg()
    }

    fn page(&self, ranking: Option<&Ranking>) -> String {
        let (name, noise) = (self.mechanism_name(), self.noise());
        let rows: Vec<HtmlRow> = self.candidates(ranking).iter().map(|candidate| candidate.row(&name, noise)).collect();
        let unlisted = format!("The plan has {name} with {noise} noise, of error {:.4}.", self.error());
        html::page(&self.__repr__(), &self.guarantee().words(), HEADS, &rows, &unlisted, &self.curve(ranking))
    }
}

#[pymethods]
impl PyPlan {
    /// The plan that :meth:`to_json` wrote.
    ///
    /// Raises :class:`InvalidError` if the text is not a plan, or its noise does not match its budget.
    #[staticmethod]
    fn from_json(py: Python<'_>, text: String) -> PyResult<Self> {
        let read = move || serde_json::from_str::<Inner>(&text).map_err(|e| e.to_string());
        let inner = abandonable(py, read)?.map_err(|problem| invalid(format!("this is not a plan: {problem}")))?;
        Ok(Self::new(inner))
    }

    /// The complete plan as JSON text; it contains no secret.
    ///
    /// >>> import evertally as et, json
    /// >>> json.loads(et.plan(365, epsilon=1.0).to_json())["horizon"]
    /// 365
    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string(&self.inner).map_err(|problem| invalid(problem.to_string()))
    }

    /// Number of steps; ``None`` for an endless plan.
    ///
    /// >>> import evertally as et
    /// >>> endless = et.plan(None, rho=0.5)
    /// >>> print(endless.horizon, endless.std_error(1000) < 4.5)
    /// None True
    #[getter]
    fn horizon(&self) -> Option<u64> {
        (!self.inner.is_unbounded()).then(|| self.inner.horizon())
    }

    /// Short name of the mechanism.
    #[getter]
    fn mechanism(&self) -> String {
        self.inner.mechanism().name().brief().to_string()
    }

    /// Full name of the mechanism, as accepted by :func:`plan`.
    #[getter]
    fn mechanism_name(&self) -> String {
        self.inner.mechanism().name().to_string()
    }

    /// ``"laplace"`` or ``"gaussian"``.
    #[getter]
    fn noise(&self) -> &'static str {
        noise_word(self.inner.noise_kind())
    }

    /// The budget that was requested.
    #[getter]
    fn budget(&self) -> PyBudget {
        PyBudget::new(self.inner.request().budget())
    }

    /// The privacy guarantee for the whole history of releases.
    #[getter]
    fn guarantee(&self) -> PyGuarantee {
        PyGuarantee(self.inner.guarantee())
    }

    /// How the noise of groups is correlated, or ``None`` if it is independent, also because `correlate_groups` would
    /// not lower the errors: the number of ``groups``; the ``coefficient`` of correlation of two groups in one step;
    /// and ``total_factor`` and ``difference_factor``, the variance of the total over all groups and of the difference
    /// of two groups, compared with independent noise of the same size.
    ///
    /// >>> import evertally as et
    /// >>> unit = dict(max_events_per_group=1, max_groups=4, per=1)
    /// >>> plan = et.plan(30, rho=0.5, **unit, group_count=4, correlate_groups="groups")
    /// >>> of = plan.correlation
    /// >>> of["groups"], of["total_factor"] > 1 > of["difference_factor"]
    /// (4.0, True)
    #[getter]
    fn correlation(&self) -> Option<BTreeMap<&'static str, f64>> {
        let correlation = self.inner.correlation()?;
        Some(BTreeMap::from([
            ("groups", correlation.groups() as f64),
            ("coefficient", correlation.coefficient()),
            ("total_factor", correlation.total_factor()),
            ("difference_factor", correlation.difference_factor()),
        ]))
    }

    /// How undeclared groups are selected, or ``None`` if groups are declared: ``threshold``, which a released value
    /// must reach; ``shown_half`` and ``shown_almost``, the sums with which a group is published at any one selection
    /// time with probability 0.5 and 0.95 (all in units of the data); ``delta``; ``failure``, its proven bound;
    /// ``every``, the steps between two selection times; and ``floor``.
    #[getter]
    fn selection(&self) -> Option<BTreeMap<&'static str, f64>> {
        let threshold = self.inner.threshold()?;
        let (selection, grid) = (threshold.selection(), self.inner.request().grid());
        let of_data = |multiple: i64| grid.to_f64(multiple.into());
        Some(BTreeMap::from([
            ("threshold", of_data(threshold.value())),
            ("shown_half", of_data(threshold.shown_half())),
            ("shown_almost", of_data(threshold.shown_almost())),
            ("delta", selection.delta().get()),
            ("failure", threshold.failure()),
            ("every", selection.times().distance() as f64),
            ("floor", selection.floor() as f64),
        ]))
    }

    /// The privacy unit, in words.
    #[getter]
    fn unit(&self) -> String {
        let request = self.inner.request();
        let Some(bounds) = request.unit().bounds() else { return "event".to_owned() };
        let declared = request.meaning().get("per").map(|per| format!("per=\"{per}\""));
        // The prefix of the keywords of bounds that nothing enforces.
        let assert = if Assertion::is_in(request.meaning()) { "assert_" } else { "" };
        let more = [
            bounds.max_events_per_step.map(|n| format!("{assert}max_events_per_step={n}")),
            bounds.max_events_per_group.map(|n| format!("{assert}max_events_per_group={n}")),
            bounds.max_groups.map(|n| format!("{assert}max_groups={n}")),
            bounds.min_gap.map(|n| format!("{assert}min_gap={n}")),
            bounds.max_total.map(|n| format!("{assert}max_total={}", request.grid().format(n.into()))),
            bounds.period.and_then(|steps| declared.or_else(|| Some(format!("per={steps}")))),
            bounds.window.map(|window| match request.meaning().get("protect-window") {
                Some(declared) => format!("protect_window=\"{declared}\""),
                None => format!("protect_window={}", window.steps),
            }),
        ];
        let all =
            std::iter::once(format!("{assert}max_events={}", bounds.max_events)).chain(more.into_iter().flatten());
        format!("person ({})", all.collect::<Vec<_>>().join(", "))
    }

    /// The public text that is part of the plan.
    #[getter]
    fn meaning(&self) -> BTreeMap<String, String> {
        self.inner.request().meaning().clone()
    }

    /// The quantity published at every step, such as ``"sum"`` or ``"window(7)"``.
    #[getter]
    fn workload(&self) -> String {
        self.inner.request().workload().to_string()
    }

    /// A plan for each of several workloads that are computed from one release (``workload=["sum", "window(7)"]``),
    /// starting with this one; only this one if there are no others. All have one digest and one guarantee: give a
    /// counter of each the same name and **the same data**.
    #[getter]
    fn readings(&self) -> Vec<Self> {
        self.inner.readings().into_iter().map(Self::new).collect()
    }

    /// Fingerprint of the plan, 64 hexadecimal digits. Noise is bound to it.
    #[getter]
    fn digest(&self) -> String {
        evertally::hex(&self.inner.digest())
    }

    /// The largest standard error of any step, in units of the data.
    #[getter]
    fn max_std_error(&self) -> f64 {
        self.inner.max_std_error()
    }

    /// The root of the mean variance over the steps, in units of the data.
    #[getter]
    fn mean_std_error(&self) -> f64 {
        self.inner.mean_std_error()
    }

    /// A lower bound on the largest standard error of every mechanism with Gaussian noise, in units of the data;
    /// ``None`` if nothing is proven (pure ε).
    ///
    /// >>> import evertally as et
    /// >>> plan = et.plan(365, rho=0.5)
    /// >>> 1.0 <= plan.max_std_error / plan.lower_bound < 1.1
    /// True
    #[getter]
    fn lower_bound(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        Ok(self.ranked(py)?.and_then(Ranking::bound))
    }

    /// The best mechanisms under the same request, at most 12 :class:`Candidate` objects, smallest error first.
    #[getter]
    fn ranking(&self, py: Python<'_>) -> PyResult<Vec<PyCandidate>> {
        Ok(self.candidates(self.ranked(py)?))
    }

    /// The guarantee of the releases of the steps 1 to ``through`` alone, under the noise of the whole plan: what a
    /// stream has spent that stops early. Never more than :attr:`guarantee`, and equal to it if no tighter bound is
    /// known.
    ///
    /// ``through`` must not depend on the data, nor on releases.
    ///
    /// >>> import evertally as et
    /// >>> plan = et.plan(1000, rho=0.5, mechanism="binary")
    /// >>> round(plan.spent(through=7).rho, 6)  # three levels of ten
    /// 0.15
    fn spent(&self, py: Python<'_>, through: Whole) -> PyResult<PyGuarantee> {
        let through = check_step(self.inner.horizon(), through.0)?;
        py.detach(|| self.inner.spent(through)).or_raise().map(PyGuarantee)
    }

    /// Standard error of the release of a step (1 to the horizon), in units of the data.
    fn std_error(&self, step: Whole) -> PyResult<f64> {
        Ok(self.inner.std_error(check_step(self.inner.horizon(), step.0)?))
    }

    /// Standard errors as float64, in units of the data: of all steps, or of those in the array ``steps``.
    ///
    /// Raises :class:`InvalidError` if all steps are requested and there are more than 2^27.
    ///
    /// >>> import evertally as et
    /// >>> errors = et.plan(365, epsilon=1.0).std_errors()
    /// >>> errors.shape, bool(errors.max() <= et.plan(365, epsilon=1.0).max_std_error * (1 + 1e-12))
    /// ((365,), True)
    #[pyo3(signature = (steps = None))]
    fn std_errors<'py>(&self, py: Python<'py>, steps: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let steps = steps_or_all(self.inner.horizon(), steps)?;
        column(py, py.detach(|| steps.iter().map(|step| self.inner.std_error(*step)).collect()))
    }

    /// Half the width of the interval of a step that contains the exact sum with this confidence, in units of the data.
    ///
    /// >>> import evertally as et
    /// >>> plan = et.plan(365, rho=0.5)
    /// >>> abs(plan.half_width(100) - 1.96 * plan.std_error(100)) <= 1.0
    /// True
    #[pyo3(signature = (step, confidence = 0.95))]
    fn half_width(&self, step: Whole, confidence: f64) -> PyResult<f64> {
        let half_width =
            self.inner.intervals(confidence).or_raise()?.half_width(check_step(self.inner.horizon(), step.0)?);
        // fits: half-widths belong to noise below 2^102 grid steps.
        Ok(self.inner.request().grid().to_f64(half_width as i128))
    }

    /// Covariance of the released values of two steps (step 0 is the start, with value 0), in squared units of the
    /// data.
    ///
    /// >>> import evertally as et
    /// >>> plan = et.plan(365, rho=0.5)
    /// >>> abs(plan.covariance(100, 100) / plan.std_error(100) ** 2 - 1) < 1e-9
    /// True
    fn covariance(&self, first: Whole, second: Whole) -> PyResult<f64> {
        let [first, second] = self.steps_or_start([first, second])?;
        Ok(self.inner.covariance(first, second))
    }

    /// Variance of the released increase from one step to another (0 is the start), in squared units of the data.
    ///
    /// >>> import evertally as et
    /// >>> plan = et.plan(365, rho=0.5)
    /// >>> plan.variance_between(93, 100) < plan.variance_between(0, 93) + plan.variance_between(0, 100)
    /// True
    fn variance_between(&self, first: Whole, second: Whole) -> PyResult<f64> {
        let [first, second] = self.steps_or_start([first, second])?;
        Ok(self.inner.variance_between(first, second))
    }

    /// Half the width of a simultaneous band, in standard errors: it holds at all steps at once with this confidence.
    /// Computed by simulation of the public law, the same for every key. ``None`` if the horizon is too long for that.
    ///
    /// >>> import evertally as et
    /// >>> 2.6 < et.plan(52, rho=0.5).band() < 3.3
    /// True
    #[pyo3(signature = (confidence = 0.95))]
    fn band(&self, py: Python<'_>, confidence: f64) -> PyResult<Option<f64>> {
        Ok(py.detach(|| self.inner.band(confidence)).or_raise()?.standard_errors)
    }

    fn __eq__(&self, other: &Self) -> bool {
        let read = |plan: &Self| (plan.inner.digest(), plan.inner.request().workload());
        read(self) == read(other)
    }

    fn __hash__(&self) -> u64 {
        u64::from_le_bytes(self.inner.digest()[..8].try_into().expect("8 of 32 bytes"))
    }

    fn __repr__(&self) -> String {
        if self.inner.is_unbounded() {
            return format!(
                "Plan(horizon=None, {}, per {}, {} with {} noise, std_error(1000)={:.4})",
                self.inner.request().budget(),
                self.unit(),
                self.mechanism(),
                self.noise(),
                self.inner.std_error(1000)
            );
        }
        format!(
            "Plan(horizon={}, {}, per {}, {} with {} noise, max_std_error={:.4})",
            self.inner.horizon(),
            self.inner.request().budget(),
            self.unit(),
            self.mechanism(),
            self.noise(),
            self.inner.max_std_error()
        )
    }

    /// The error over the steps, as SVG.
    fn _repr_svg_(&self, py: Python<'_>) -> PyResult<String> {
        let ranking = self.ranked(py)?;
        Ok(py.detach(|| self.curve(ranking)))
    }

    /// The ranking as a table, and the error over the steps.
    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        let ranking = self.ranked(py)?;
        Ok(py.detach(|| self.page(ranking)))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((py.get_type::<Self>().getattr("from_json")?, (self.to_json()?,)))
    }
}
