//! Vectors of a very large number of running sums.

use crate::arrays::{column, multiples, naturals, numpy, structured};
use crate::counter::{after, not_pickled};
use crate::error::{OrRaise, invalid};
use crate::key::PySecretKey;
use crate::options::Options;
use crate::own::ProcessBound;
use crate::plan::PyPlan;
use crate::reading::PyReading;
use crate::reads::ReadWatch;
use crate::request::{declared, observed, request};
use crate::running::{in_chunks, searching};
use crate::steps::check_step;
use crate::units::multiple;
use crate::watch::Class;
use crate::whole::Whole;
use evertally::noise::StreamName;
use evertally::plan::SearchObserver;
use evertally::stream::{LazyPlan, LazySampling, LazyVector as Inner};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::sync::{Arc, MutexGuard};

/// Up to 2^40 private running sums, with noise only in the sums that are read.
///
/// Time and memory depend only on events and reads, and the joint law of all readings is the same as if every sum had
/// its noise at every step. ``sums`` is the number of sums, which are numbered from 0. ``sampling`` selects how noise
/// is drawn: ``"float"`` (fastest; the state then holds the noise), ``"integer"`` or ``"keyed"`` (exact; ``"keyed"``
/// keeps no noise). Plans are those of :func:`plan_lazy`. With ``history=True``, which needs ``"keyed"``, the vector
/// remembers the sums of all closed steps, so that any of them can be read; memory then grows with the pairs of a sum
/// and a step that have events.
///
/// **The choice of reads is public.** Choose them by public lists or by earlier releases: reading just the sums that
/// have events reveals where events are. Unless ``"keyed"``, save the state before publishing readings, and keep the
/// number of :attr:`reads` elsewhere: a state that is older than the published readings must not be used for further
/// reads. If reads were made after a state was saved (by any object of this name, in any process that has loaded the
/// key), reads from that state are refused with a :class:`StateError`.
///
/// Methods may be called from several threads, which take turns. Vectors are not pickled; see :meth:`save`.
///
/// >>> import evertally as et
/// >>> plan = et.plan_lazy(2**20, rho=0.5)
/// >>> visits = et.LazyVector(plan, et.SecretKey.generate(), "visits", sums=10**9)
/// >>> visits.add([123_456_789, 5, 5])  # three events
/// >>> visits.tick()
/// 1
/// >>> reading = visits.read(5)
/// >>> abs(reading.value - 2) < 10 * reading.std_error
/// True
#[pyclass(frozen, name = "LazyVector", module = "evertally")]
pub(crate) struct PyLazyVector {
    vector: ProcessBound<Inner>,
    name: String,
    watch: Arc<ReadWatch>,
}

impl PyLazyVector {
    fn from_parts(vector: Inner, watch: Arc<ReadWatch>, name: &StreamName) -> Self {
        Self { vector: ProcessBound::new(vector), name: name.to_string(), watch }
    }

    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, Inner> {
        self.vector.lock(py)
    }

    fn go_on(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Inner>> {
        self.vector.go_on(py, "LazyVector", &self.name)
    }
}

/// The plan of a lazy vector. Called by `evertally.plan_lazy`, which holds its documentation.
#[pyfunction]
#[pyo3(name = "_plan_lazy")]
pub(crate) fn plan_lazy(py: Python<'_>, json: &str, given: &Bound<'_, PyDict>) -> PyResult<PyPlan> {
    let options = Options::new(given)?;
    let sampling = options.needed::<String>("sampling")?.parse::<LazySampling>().or_raise()?;
    let Whole(horizon) = options.needed("horizon")?;
    let request = request(&declared(json)?, &options, horizon)?;
    options.finish()?;
    let best = move |observer: &SearchObserver| LazyPlan::best(observed(request, observer), 1, sampling);
    Ok(PyPlan::new(searching(py, best)?.or_raise()?.plan().clone()))
}

/// The plan of a vector.
fn lazy_plan(plan: &PyPlan, sums: Whole, sampling: &str, history: bool) -> PyResult<LazyPlan> {
    let sampling = sampling.parse::<LazySampling>().or_raise()?;
    let lazy = LazyPlan::new(plan.inner().clone(), sums.0, sampling).or_raise()?;
    if history { lazy.with_history().or_raise() } else { Ok(lazy) }
}

/// Refuses indices of sums that a vector does not have, before any event of an array is added.
fn check_indices(vector: &Inner, indices: &[u64]) -> PyResult<()> {
    let sums = vector.plan().coordinates();
    match indices.iter().find(|index| **index >= sums) {
        None => Ok(()),
        Some(index) => Err(invalid(format!("there is no running sum {index}: they are numbered 0 to {}", sums - 1))),
    }
}

/// Refuses values outside the bounds, before any is added.
fn check_values(vector: &Inner, values: &[i64]) -> PyResult<()> {
    let (lower, upper) = vector.plan().plan().request().values().bounds();
    match values.iter().find(|value| !(lower..=upper).contains(value)) {
        None => Ok(()),
        Some(value) => Err(invalid(format!(
            "an event of {value} is outside the declared bounds {lower} to {upper} (in multiples of the grid)"
        ))),
    }
}

/// Values of `count` events, 1 each if none are given.
pub(crate) fn values_of(
    values: Option<&Bound<'_, PyAny>>,
    count: usize,
    grid: evertally::number::Grid,
) -> PyResult<Vec<i64>> {
    let Some(values) = values else { return Ok(vec![1; count]) };
    let values = if is_scalar(values)? { vec![multiple(values, grid)?; count] } else { multiples(values, grid)? };
    if values.len() == count {
        return Ok(values);
    }
    Err(invalid(format!("there are {} values for {count} events; pass one value, or one per event", values.len())))
}

/// Whether this is one number and not an array.
pub(crate) fn is_scalar(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    numpy(value.py())?.call_method1("ndim", (value,))?.extract::<usize>().map(|dimensions| dimensions == 0)
}

#[pymethods]
impl PyLazyVector {
    #[new]
    #[pyo3(signature = (plan, key, name, *, sums, sampling = "float", history = false))]
    fn new(plan: &PyPlan, key: &PySecretKey, name: &str, sums: Whole, sampling: &str, history: bool) -> PyResult<Self> {
        let name = name.parse::<StreamName>().or_raise()?;
        let lazy = lazy_plan(plan, sums, sampling, history)?;
        let watch = ReadWatch::new(Class::LazyVector, key, &name, &lazy);
        let vector = Inner::new(lazy, &watch.key(), name.clone()).or_raise()?;
        Ok(Self::from_parts(vector, watch, &name))
    }

    /// The vector that was saved, with the same plan, key, name, number of sums, sampling and history.
    ///
    /// Raises :class:`StateError` if the bytes are damaged or belong to another vector.
    ///
    /// >>> import evertally as et
    /// >>> plan, key = et.plan_lazy(100, rho=0.5), et.SecretKey.generate()
    /// >>> visits = et.LazyVector(plan, key, "visits", sums=1000)
    /// >>> visits.tick()
    /// 1
    /// >>> reading = visits.read(7)
    /// >>> again = et.LazyVector.restore(plan, key, "visits", visits.save(), sums=1000)
    /// >>> again.read(7) == reading
    /// True
    #[staticmethod]
    #[pyo3(signature = (plan, key, name, state, *, sums, sampling = "float", history = false))]
    #[allow(clippy::too_many_arguments)] // keywords in Python
    fn restore(
        py: Python<'_>,
        plan: &PyPlan,
        key: &PySecretKey,
        name: &str,
        state: &[u8],
        sums: Whole,
        sampling: &str,
        history: bool,
    ) -> PyResult<Self> {
        let name = name.parse::<StreamName>().or_raise()?;
        let lazy = lazy_plan(plan, sums, sampling, history)?;
        let watch = ReadWatch::new(Class::LazyVector, key, &name, &lazy);
        let vector = py.detach(|| Inner::restore(lazy, &watch.key(), name.clone(), state)).or_raise()?;
        Ok(Self::from_parts(vector, watch, &name))
    }

    /// Adds events to the open step, each to one running sum: one event for an index, one for each element of an array.
    ///
    /// ``values`` is one value for all events (1 by default), or one for each, in units of the data and within the
    /// plan's bounds.
    ///
    /// Raises :class:`InvalidError` for an index or value that is out of range and :class:`HorizonExhausted` after the
    /// last step; nothing is added then. If a sum leaves 64 bits (:class:`SumOverflowError`), and after Ctrl-C, the
    /// preceding events have been added.
    #[pyo3(signature = (indices, values = None))]
    fn add(&self, py: Python<'_>, indices: &Bound<'_, PyAny>, values: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let mut vector = self.go_on(py)?;
        let indices = if is_scalar(indices)? { vec![natural(indices)?] } else { naturals(indices)? };
        let values = values_of(values, indices.len(), vector.plan().plan().request().grid())?;
        check_indices(&vector, &indices)?;
        check_values(&vector, &values)?;
        let events: Vec<(u64, i64)> = indices.into_iter().zip(values).collect();
        let vector = &mut *vector;
        in_chunks(py, &events, |(index, value)| vector.add(*index, *value))
    }

    /// Adds one event to several different running sums in the open step, at most the plan's ``sums_per_event``.
    ///
    /// >>> import evertally as et
    /// >>> plan = et.plan_lazy(100, rho=0.5, sums_per_event=2)
    /// >>> visits = et.LazyVector(plan, et.SecretKey.generate(), "visits", sums=1000)
    /// >>> visits.add_event([3, 14])
    #[pyo3(signature = (indices, values = None))]
    fn add_event(&self, py: Python<'_>, indices: &Bound<'_, PyAny>, values: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let mut vector = self.go_on(py)?;
        let indices = naturals(indices)?;
        let values = values_of(values, indices.len(), vector.plan().plan().request().grid())?;
        let parts: Vec<(u64, i64)> = indices.into_iter().zip(values).collect();
        vector.add_event(&parts).or_raise()
    }

    /// Closes the open step, and ``steps - 1`` empty ones after it; returns the last closed step. The time does not
    /// depend on ``steps``.
    ///
    /// Raises :class:`HorizonExhausted` beyond the horizon; nothing is closed then.
    #[pyo3(signature = (steps = Whole(1)), text_signature = "($self, steps=1)")]
    fn tick(&self, py: Python<'_>, steps: Whole) -> PyResult<u64> {
        let mut vector = self.go_on(py)?;
        let to = after(vector.step(), steps)?;
        let vector = &mut *vector;
        py.detach(|| vector.tick_through(to)).or_raise()
    }

    /// The running sums at the last closed step, or at ``step``: a :class:`Reading` for an index; for an array of them,
    /// a structured array with the fields ``index`` (uint64), ``step`` (uint64), ``value`` and ``std_error`` (float64).
    ///
    /// Reading the same index at the same step again gives the same reading. An earlier step than the last closed one
    /// needs ``history=True``. Raises :class:`InvalidError` for an index out of range and for a step that is not
    /// closed, and :class:`StateError` if another object of this name has made reads from the same state.
    ///
    /// >>> import evertally as et
    /// >>> plan = et.plan_lazy(100, rho=0.5, sampling="keyed")
    /// >>> key = et.SecretKey.generate()
    /// >>> visits = et.LazyVector(plan, key, "visits", sums=1000, sampling="keyed", history=True)
    /// >>> visits.tick()
    /// 1
    /// >>> first = visits.read(7)
    /// >>> visits.add(7)
    /// >>> visits.tick(9)
    /// 10
    /// >>> visits.read(7, step=1) == first
    /// True
    #[pyo3(signature = (indices, step = None))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        indices: &Bound<'py, PyAny>,
        step: Option<Whole>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut vector = self.go_on(py)?;
        let single = is_scalar(indices)?;
        let indices = if single { vec![natural(indices)?] } else { naturals(indices)? };
        check_indices(&vector, &indices)?;
        let mut values = Vec::with_capacity(indices.len());
        let vector = &mut *vector;
        let step = match step {
            None => vector.step(),
            Some(step) => check_step(vector.step(), step.0)?,
        };
        self.watch.reading(py, || {
            in_chunks(py, &indices, |index| vector.read_at(*index, step).map(|release| values.push(release.value())))
        })?;
        let std_error = if step == 0 { 0.0 } else { vector.plan().std_error(step) };
        if single {
            return Ok(Bound::new(py, PyReading { step, value: values[0], std_error })?.into_any());
        }
        let count = indices.len();
        structured(
            py,
            &[
                ("index", column(py, indices)?),
                ("step", column(py, vec![step; count])?),
                ("value", column(py, values)?),
                ("std_error", column(py, vec![std_error; count])?),
            ],
        )
    }

    /// Standard error of a reading at a step (1 to the horizon), in units of the data. It follows from the plan alone.
    fn std_error(&self, py: Python<'_>, step: Whole) -> PyResult<f64> {
        let vector = self.lock(py);
        let plan = vector.plan();
        Ok(plan.std_error(check_step(plan.plan().horizon(), step.0)?))
    }

    /// The last closed step; 0 before the first.
    #[getter]
    fn step(&self, py: Python<'_>) -> u64 {
        self.lock(py).step()
    }

    /// Number of running sums.
    #[getter]
    fn sums(&self, py: Python<'_>) -> u64 {
        self.lock(py).plan().coordinates()
    }

    /// The total number of reads. A restored vector with fewer reads than were published is out of date.
    #[getter]
    fn reads(&self, py: Python<'_>) -> u64 {
        self.lock(py).reads()
    }

    /// The number of running sums whose noise is remembered.
    #[getter]
    fn touched(&self, py: Python<'_>) -> usize {
        self.lock(py).touched()
    }

    /// The state, for :meth:`restore`. It holds exact sums and, unless ``"keyed"``, noise: keep it as safe as the data.
    fn save<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let vector = self.lock(py);
        let vector = &*vector;
        PyBytes::new(py, &vector.save())
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let vector = self.lock(py);
        let plan = vector.plan();
        format!(
            "LazyVector({:?}, sums={}, step {} of {})",
            self.name,
            plan.coordinates(),
            vector.step(),
            plan.plan().horizon()
        )
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(not_pickled("LazyVector"))
    }
}

/// The index of a running sum.
fn natural(index: &Bound<'_, PyAny>) -> PyResult<u64> {
    index
        .extract()
        .map_err(|_| invalid(format!("{index} is not an index of a running sum: indices are whole numbers from 0")))
}
