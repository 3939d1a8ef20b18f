//! Count sketches.

use crate::arrays::{column, structured};
use crate::counter::{after, not_pickled};
use crate::error::{OrRaise, invalid};
use crate::items::{ItemArgument, Owned};
use crate::key::PySecretKey;
use crate::lazy::values_of;
use crate::options::Options;
use crate::own::ProcessBound;
use crate::plan::PyPlan;
use crate::reading::PyReading;
use crate::reads::ReadWatch;
use crate::request::{declared, observed, request};
use crate::running::{in_chunks, searching};
use crate::watch::Class;
use crate::whole::Whole;
use evertally::noise::StreamName;
use evertally::plan::SearchObserver;
use evertally::sketch::{CountSketch as Inner, Shape, SketchPlan, Table};
use evertally::stream::LazySampling;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::sync::{Arc, MutexGuard};

/// Private counts of arbitrary items in a small table: a count sketch whose cells are read lazily.
///
/// Items are whole numbers from 0 to 2^64 - 1, ``str`` or ``bytes``. An estimate reads one cell per row. It is
/// unbiased; its error comes from the noise, which it states, and from items that share its cells (:meth:`half_width`
/// covers both). Plans are those of :func:`plan_sketch`, including rows and width. The remarks of :class:`LazyVector`
/// on ``sampling``, reads and states also apply here: query only items from public lists or earlier answers.
///
/// Methods may be called from several threads, which take turns. Sketches are not pickled; see :meth:`save`.
///
/// >>> import evertally as et
/// >>> plan = et.plan_sketch(2**20, rows=5, width=1_000_000, rho=0.5)
/// >>> queries = et.CountSketch(plan, et.SecretKey.generate(), "queries")
/// >>> queries.add_many(["zebra"] * 500 + ["gnu"] * 20)
/// >>> queries.tick()
/// 1
/// >>> zebras = queries.estimate("zebra")
/// >>> abs(zebras.value - 500) < 10 * zebras.std_error
/// True
#[pyclass(frozen, name = "CountSketch", module = "evertally")]
pub(crate) struct PyCountSketch {
    sketch: ProcessBound<Inner>,
    name: String,
    watch: Arc<ReadWatch>,
}

/// The plan of a sketch. Called by `evertally.plan_sketch`, which holds its documentation.
#[pyfunction]
#[pyo3(name = "_plan_sketch")]
pub(crate) fn plan_sketch(py: Python<'_>, json: &str, given: &Bound<'_, PyDict>) -> PyResult<PyPlan> {
    let options = Options::new(given)?;
    let sampling = options.needed::<String>("sampling")?.parse::<LazySampling>().or_raise()?;
    let (Whole(rows), Whole(width)) = (options.needed("rows")?, options.needed("width")?);
    let Whole(horizon) = options.needed("horizon")?;
    let request = request(&declared(json)?, &options, horizon)?;
    options.finish()?;
    // A number of rows beyond 32 bits is too large anyway.
    let shape = Shape::CountSketch(Table::new(rows.try_into().unwrap_or(u32::MAX), width).or_raise()?);
    let plan = move |observer: &SearchObserver| SketchPlan::new(observed(request, observer), shape, sampling);
    let plan = searching(py, plan)?.or_raise()?;
    Ok(PyPlan::new(plan.plan().clone()))
}

impl PyCountSketch {
    fn from_parts(sketch: Inner, watch: Arc<ReadWatch>, name: &StreamName) -> Self {
        Self { sketch: ProcessBound::new(sketch), name: name.to_string(), watch }
    }

    /// Reads cells.
    fn reading<T>(&self, py: Python<'_>, work: impl FnOnce(&mut Inner) -> PyResult<T>) -> PyResult<T> {
        let mut sketch = self.go_on(py)?;
        self.watch.reading(py, || work(&mut sketch))
    }

    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, Inner> {
        self.sketch.lock(py)
    }

    fn go_on(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Inner>> {
        self.sketch.go_on(py, "CountSketch", &self.name)
    }

    fn add_items(&self, py: Python<'_>, items: &[Owned], values: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let mut sketch = self.go_on(py)?;
        let request = sketch.plan().plan().request();
        let values = values_of(values, items.len(), request.grid())?;
        let (_, most) = request.values().bounds();
        if let Some(value) = values.iter().find(|value| value.unsigned_abs() > most.unsigned_abs()) {
            return Err(invalid(format!(
                "an event of {value} is outside the declared bounds -{most} to {most} (in multiples of the grid)"
            )));
        }
        let events: Vec<(&Owned, i64)> = items.iter().zip(values).collect();
        let sketch = &mut *sketch;
        in_chunks(py, &events, |(item, value)| sketch.add(*item, *value))
    }
}

#[pymethods]
impl PyCountSketch {
    #[new]
    #[pyo3(signature = (plan, key, name, *, sampling = "float"))]
    fn new(plan: &PyPlan, key: &PySecretKey, name: &str, sampling: &str) -> PyResult<Self> {
        let name = name.parse::<StreamName>().or_raise()?;
        let plan =
            SketchPlan::from_plan(plan.inner().clone(), sampling.parse::<LazySampling>().or_raise()?).or_raise()?;
        let watch = ReadWatch::new(Class::CountSketch, key, &name, plan.lazy());
        Ok(Self::from_parts(Inner::new(plan, &watch.key(), name.clone()).or_raise()?, watch, &name))
    }

    /// The sketch that was saved, with the same plan, key, name and sampling.
    ///
    /// Raises :class:`StateError` if the bytes are damaged or belong to another sketch.
    #[staticmethod]
    #[pyo3(signature = (plan, key, name, state, *, sampling = "float"))]
    fn restore(
        py: Python<'_>,
        plan: &PyPlan,
        key: &PySecretKey,
        name: &str,
        state: &[u8],
        sampling: &str,
    ) -> PyResult<Self> {
        let name = name.parse::<StreamName>().or_raise()?;
        let plan =
            SketchPlan::from_plan(plan.inner().clone(), sampling.parse::<LazySampling>().or_raise()?).or_raise()?;
        let watch = ReadWatch::new(Class::CountSketch, key, &name, plan.lazy());
        let sketch = py.detach(|| Inner::restore(plan, &watch.key(), name.clone(), state)).or_raise()?;
        Ok(Self::from_parts(sketch, watch, &name))
    }

    /// Adds an event of one item to the open step, with a value in units of the data within the plan's bounds.
    ///
    /// Raises :class:`InvalidError` for a value out of bounds, :class:`HorizonExhausted` after the last step and
    /// :class:`SumOverflowError` if a cell leaves 64 bits; nothing is added then.
    #[pyo3(signature = (item, value = None))]
    fn add(&self, py: Python<'_>, item: &Bound<'_, PyAny>, value: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        match ItemArgument::new(item)? {
            ItemArgument::One(item) => self.add_items(py, &[item], value),
            ItemArgument::Many(_) => Err(invalid("add takes one item; add_many takes many")),
        }
    }

    /// Adds many events to the open step: an array, a column or an iterable of items, with a value of 1, one value for
    /// all, or one for each.
    ///
    /// Raises as :meth:`add`. If a cell leaves 64 bits, and after Ctrl-C, the preceding events have been added.
    #[pyo3(signature = (items, values = None))]
    fn add_many(&self, py: Python<'_>, items: &Bound<'_, PyAny>, values: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        match ItemArgument::new(items)? {
            ItemArgument::Many(items) => self.add_items(py, &items, values),
            ItemArgument::One(_) => Err(invalid("add_many takes many items; add takes one")),
        }
    }

    /// Closes the open step, and ``steps - 1`` empty ones after it; returns the last closed step.
    ///
    /// Raises :class:`HorizonExhausted` beyond the horizon; nothing is closed then.
    #[pyo3(signature = (steps = Whole(1)), text_signature = "($self, steps=1)")]
    fn tick(&self, py: Python<'_>, steps: Whole) -> PyResult<u64> {
        let mut sketch = self.go_on(py)?;
        let to = after(sketch.step(), steps)?;
        let sketch = &mut *sketch;
        py.detach(|| sketch.tick_through(to)).or_raise()
    }

    /// Counts of items at the last closed step: a :class:`Reading` for one item; for many, a structured array with the
    /// fields ``step`` (uint64), ``value`` and ``std_error`` (float64), in the order of the items.
    ///
    /// Raises :class:`InvalidError` before the first step is closed, and :class:`StateError` if another object of this
    /// name has made reads from the same state.
    ///
    /// >>> import evertally as et, numpy as np
    /// >>> plan = et.plan_sketch(1000, rows=5, width=1000, rho=0.5)
    /// >>> sketch = et.CountSketch(plan, et.SecretKey.generate(), "keys")
    /// >>> sketch.add_many(np.arange(10))
    /// >>> sketch.tick(24)
    /// 24
    /// >>> sketch.estimate(np.arange(100)).shape
    /// (100,)
    fn estimate<'py>(&self, py: Python<'py>, items: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let items = ItemArgument::new(items)?;
        let mut estimates = Vec::with_capacity(items.as_slice().len());
        self.reading(py, |sketch| {
            in_chunks(py, items.as_slice(), |item| sketch.estimate(item).map(|estimate| estimates.push(estimate)))
        })?;
        if let ItemArgument::One(_) = items {
            let estimate = estimates[0];
            let (step, value, std_error) = (estimate.step, estimate.value, estimate.noise_std_error);
            return Ok(Bound::new(py, PyReading { step, value, std_error })?.into_any());
        }
        structured(
            py,
            &[
                ("step", column(py, estimates.iter().map(|estimate| estimate.step).collect())?),
                ("value", column(py, estimates.iter().map(|estimate| estimate.value).collect())?),
                ("std_error", column(py, estimates.iter().map(|estimate| estimate.noise_std_error).collect())?),
            ],
        )
    }

    /// An unbiased estimate of the second moment of the counts (the sum of their squares). Reads the whole table.
    ///
    /// Its square root divided by the width is about the error that collisions add to an estimate, see
    /// :meth:`collision_std_error`.
    fn second_moment(&self, py: Python<'_>) -> PyResult<PyReading> {
        let estimate = self.reading(py, |sketch| py.detach(|| sketch.second_moment()).or_raise())?;
        Ok(PyReading { step: estimate.step, value: estimate.value, std_error: estimate.noise_std_error })
    }

    /// Standard error that collisions add to an estimate, if the counts have this second moment.
    fn collision_std_error(&self, py: Python<'_>, second_moment: f64) -> f64 {
        self.lock(py).collision_std_error(second_moment)
    }

    /// Half of the width of the interval of an estimate at the last closed step. It covers the noise and items that
    /// share the same cells, for items that were not chosen by their estimates. Reads some thousand cells.
    ///
    /// Raises :class:`InvalidError` before the first step is closed, or for a confidence out of range.
    ///
    /// >>> import evertally as et, numpy as np
    /// >>> plan = et.plan_sketch(1000, rows=5, width=100, rho=0.5)
    /// >>> sketch = et.CountSketch(plan, et.SecretKey.generate(), "keys")
    /// >>> sketch.add_many(np.arange(10_000))
    /// >>> sketch.tick()
    /// 1
    /// >>> sketch.half_width() > 1.96 * sketch.estimate(5).std_error
    /// True
    #[pyo3(signature = (confidence = 0.95))]
    fn half_width(&self, py: Python<'_>, confidence: f64) -> PyResult<f64> {
        self.reading(py, |sketch| {
            let half_width = || {
                let nobody = sketch.roster::<u64>([])?;
                sketch.answer(&nobody)?.errors.half_width(confidence)
            };
            py.detach(half_width).or_raise()
        })
    }

    /// Rows and width of the table.
    #[getter]
    fn shape(&self, py: Python<'_>) -> (u32, u64) {
        let table = self.lock(py).table();
        (table.rows(), table.width())
    }

    /// The last closed step; 0 before the first.
    #[getter]
    fn step(&self, py: Python<'_>) -> u64 {
        self.lock(py).step()
    }

    /// The total number of cell reads. A restored sketch with fewer reads than were published is out of date.
    #[getter]
    fn reads(&self, py: Python<'_>) -> u64 {
        self.lock(py).reads()
    }

    /// The state, for :meth:`restore`. It holds exact sums and, unless ``"keyed"``, noise: keep it as safe as the data.
    ///
    /// >>> import evertally as et
    /// >>> plan, key = et.plan_sketch(100, rows=3, width=100, rho=0.5), et.SecretKey.generate()
    /// >>> sketch = et.CountSketch(plan, key, "keys")
    /// >>> sketch.tick()
    /// 1
    /// >>> estimate = sketch.estimate("a")
    /// >>> et.CountSketch.restore(plan, key, "keys", sketch.save()).estimate("a") == estimate
    /// True
    fn save<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let sketch = self.lock(py);
        PyBytes::new(py, &sketch.save())
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let sketch = self.lock(py);
        let (step, horizon) = (sketch.step(), sketch.plan().plan().horizon());
        format!("CountSketch({:?}, {}, step {step} of {horizon})", self.name, sketch.plan().shape())
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(not_pickled("CountSketch"))
    }
}
