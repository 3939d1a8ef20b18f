//! Running counts and sums.

use crate::arrays::{multiples, rows};
use crate::error::{OrRaise, invalid};
use crate::key::PySecretKey;
use crate::own::ProcessBound;
use crate::plan::PyPlan;
use crate::release::PyRelease;
use crate::running::in_chunks;
use crate::units::multiple;
use crate::watch::{Class, Watch};
use crate::whole::Whole;
use evertally::noise::StreamName;
use evertally::plan::Intervals;
use evertally::stream::{Release as Released, RunningSum};
use evertally::{Error, ErrorKind};
use evertally_ledger::noise_log::StepSpan;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::MutexGuard;

/// A private running count or sum: it takes events and releases one value per step.
///
/// :meth:`add` adds to the open step, :meth:`tick` closes it and releases the running sum; :meth:`release_many` does
/// both for many steps at once.
///
/// ``name`` (1 to 200 bytes) separates the noise of this counter from that of others with the same key. Each name is
/// for one data set: two data sets under the same key, name and plan get the same noise, and the difference of their
/// releases is exact. So a step is released again (from an older state, by another counter, in another process that has
/// loaded the key) only with the same totals, and otherwise refused with a :class:`StateError`. ``confidence``,
/// strictly between 0 and 1, is that of the intervals.
///
/// With ``max_events`` in the plan, the caller must add at most that number of events per person, and respect the other
/// bounds of the plan's privacy unit.
///
/// Methods may be called from several threads, which take turns. Counters cannot be pickled; see :meth:`save`.
///
/// >>> import evertally as et
/// >>> plan = et.plan(365, epsilon=1.0)
/// >>> key = et.SecretKey.insecure_from_test_seed(et.TestSeed(1))  # real data: SecretKey.generate()
/// >>> visits = et.Counter(plan, key, "visits")
/// >>> visits.add(120)
/// >>> monday = visits.tick()
/// >>> visits.add(90)
/// >>> visits.add(5)
/// >>> tuesday = visits.tick()
/// >>> tuesday.step, abs(tuesday.value - 215) < 5 * tuesday.std_error
/// (2, True)
#[pyclass(frozen, module = "evertally")]
pub(crate) struct Counter {
    state: ProcessBound<CounterState>,
    name: String,
    confidence: f64,
    watch: Watch,
}

struct CounterState {
    stream: RunningSum,
    intervals: Intervals,
}

impl Counter {
    fn watch(plan: &PyPlan, key: &PySecretKey, name: &StreamName) -> Watch {
        Watch::new(Class::Counter, key, name, &plan.inner().digest(), b"sum")
    }

    fn from_parts(stream: RunningSum, watch: Watch, name: StreamName, confidence: f64) -> PyResult<Self> {
        let intervals = stream.plan().intervals(confidence).or_raise()?;
        let watch = watch.since(stream.step());
        Ok(Self {
            state: ProcessBound::new(CounterState { stream, intervals }),
            name: name.to_string(),
            confidence,
            watch,
        })
    }

    /// The span issued by closing steps through this one, which all have the same sum.
    fn span(&self, first: u64, last: u64, sum: i64) -> Option<StepSpan> {
        Some(StepSpan { first, last, mark: self.watch.marker()?.sum(sum) })
    }

    /// The spans issued by closing one step for each total, up to the first one that is refused.
    fn spans(&self, stream: &RunningSum, totals: &[i64]) -> Vec<StepSpan> {
        let (closed, open) = stream.exact_sums();
        let mut sum = closed + open; // fits: checked by every `add`
        let mut step = stream.step();
        let values = stream.plan().request().values();
        let next = |total: &i64| {
            values.allows_sum(*total).then_some(())?;
            sum = sum.checked_add(*total)?;
            step += 1;
            self.span(step, step, sum)
        };
        totals.iter().map_while(next).collect()
    }

    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, CounterState> {
        self.state.lock(py)
    }

    fn go_on(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, CounterState>> {
        self.state.go_on(py, "Counter", &self.name)
    }
}

impl CounterState {
    /// Standard error of a step in units of the data, and half the width of its interval in grid steps.
    fn error(&mut self, step: u64) -> (f64, i128) {
        let (std_error, half_width) = self.intervals.error(step);
        (std_error, half_width as i128) // fits: half-widths are those of noise below 2^102 grid steps
    }

    /// A release with its error.
    fn with_error(&mut self, release: Released) -> PyRelease {
        let (std_error, half_width) = self.error(release.step());
        PyRelease {
            step: release.step(),
            value: release.value(),
            std_error,
            lower: release.shifted(-half_width).value(),
            upper: release.shifted(half_width).value(),
            text: release.to_string(),
        }
    }

    /// Adds to the open step, closes it, and writes its release into a row of [`FIELDS`].
    fn release_into(&mut self, total: i64, row: &mut [u8]) -> evertally::Result<()> {
        self.stream.add_sum(total)?;
        let release = self.stream.tick()?;
        let (std_error, half_width) = self.error(release.step());
        let (lower, upper) = (release.shifted(-half_width).value(), release.shifted(half_width).value());
        let (step, figures) = row.split_at_mut(size_of::<u64>());
        step.copy_from_slice(&release.step().to_ne_bytes());
        for (place, figure) in
            figures.chunks_exact_mut(size_of::<f64>()).zip([release.value(), std_error, lower, upper])
        {
            place.copy_from_slice(&figure.to_ne_bytes());
        }
        Ok(())
    }
}

/// Fields of a row of [`Counter::release_many`].
const FIELDS: [(&str, &str); 5] =
    [("step", "u8"), ("value", "f8"), ("std_error", "f8"), ("lower", "f8"), ("upper", "f8")];

#[pymethods]
impl Counter {
    #[new]
    #[pyo3(signature = (plan, key, name, *, confidence = 0.95))]
    fn new(plan: &PyPlan, key: &PySecretKey, name: &str, confidence: f64) -> PyResult<Self> {
        let name = name.parse::<StreamName>().or_raise()?;
        let watch = Self::watch(plan, key, &name);
        let stream = RunningSum::new(plan.inner().clone(), watch.key(), name.clone()).or_raise()?;
        Self::from_parts(stream, watch, name, confidence)
    }

    /// The counter that was saved, with the same plan, key and name; it continues as if it had never stopped.
    ///
    /// Raises :class:`StateError` if the bytes are damaged or belong to another plan, key or name.
    ///
    /// >>> import evertally as et
    /// >>> plan, key = et.plan(365, epsilon=1.0), et.SecretKey.generate()
    /// >>> visits = et.Counter(plan, key, "visits")
    /// >>> visits.add(120)
    /// >>> again = et.Counter.restore(plan, key, "visits", visits.save())
    /// >>> again.tick() == visits.tick()
    /// True
    #[staticmethod]
    #[pyo3(signature = (plan, key, name, state, *, confidence = 0.95))]
    fn restore(
        py: Python<'_>,
        plan: &PyPlan,
        key: &PySecretKey,
        name: &str,
        state: &[u8],
        confidence: f64,
    ) -> PyResult<Self> {
        let name = name.parse::<StreamName>().or_raise()?;
        let watch = Self::watch(plan, key, &name);
        let restored = || RunningSum::restore(plan.inner().clone(), watch.key(), name.clone(), state);
        Self::from_parts(py.detach(restored).or_raise()?, watch, name, confidence)
    }

    /// Adds events to the open step: their number, or the sum of their values.
    ///
    /// The total is in units of the data; one that is finer than the plan's grid is rounded half to even. It must be
    /// possible for events within the bounds: at least 0 for counts.
    ///
    /// Raises :class:`InvalidError` for an impossible total, :class:`HorizonExhausted` after the last step and
    /// :class:`SumOverflowError` if the running sum leaves 64 bits. The counter is then as it was.
    ///
    /// >>> import evertally as et
    /// >>> plan = et.plan(365, rho=0.5, bounds=(0, "49.99"), grid="0.01")
    /// >>> sales = et.Counter(plan, et.SecretKey.generate(), "sales")
    /// >>> sales.add(1234.56)
    /// >>> abs(sales.tick().value - 1234.56) < 1000
    /// True
    fn add(&self, py: Python<'_>, total: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut state = self.go_on(py)?;
        let total = multiple(total, state.stream.plan().request().grid())?;
        state.stream.add_sum(total).or_raise()
    }

    /// Closes the open step, and ``steps - 1`` empty ones after it, and releases the running sum of the last of them.
    ///
    /// Raises :class:`HorizonExhausted` beyond the horizon, and :class:`StateError` if one of the steps was released
    /// with another sum; nothing is closed then.
    ///
    /// >>> import evertally as et
    /// >>> visits = et.Counter(et.plan(365, epsilon=1.0), et.SecretKey.generate(), "visits")
    /// >>> visits.add(120)
    /// >>> visits.tick().step, visits.tick(7).step
    /// (1, 8)
    #[pyo3(signature = (steps = Whole(1)), text_signature = "($self, steps=1)")]
    fn tick(&self, py: Python<'_>, steps: Whole) -> PyResult<PyRelease> {
        let mut state = self.go_on(py)?;
        let state = &mut *state;
        let to = after(state.stream.step(), steps)?;
        if to <= state.stream.plan().horizon() {
            let (closed, open) = state.stream.exact_sums();
            let span = self.span(state.stream.step() + 1, to, closed + open); // fits: checked by every `add`
            self.watch.give(py, span.as_slice())?;
        }
        py.detach(|| state.stream.tick_through(to).map(|release| state.with_error(release))).or_raise()
    }

    /// Adds and closes many steps, one per total, and returns their releases as a structured array with the fields
    /// ``step`` (uint64), ``value``, ``std_error``, ``lower`` and ``upper`` (float64), one row per step.
    ///
    /// ``totals`` has one dimension; integers and doubles are in units of the data. Works without the GIL. Raises
    /// :class:`HorizonExhausted` if there are more totals than remaining steps, and :class:`StateError` if a step was
    /// released with another total; the counter is then unchanged. If a later total is refused, or after Ctrl-C, the
    /// steps before it stay closed: see :attr:`step`, and :attr:`last`. To get their releases again, restore a state
    /// that was saved before, and pass the same totals. After Ctrl-C the steps that are still open can be released with
    /// these totals only.
    ///
    /// >>> import evertally as et, numpy as np
    /// >>> visits = et.Counter(et.plan(365, epsilon=1.0), et.SecretKey.generate(), "visits")
    /// >>> releases = visits.release_many(np.full(30, 100))
    /// >>> releases["step"][-1], abs(releases["value"][-1] - 3000) < 500
    /// (np.uint64(30), np.True_)
    fn release_many<'py>(&self, py: Python<'py>, totals: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let mut state = self.go_on(py)?;
        let state = &mut *state;
        let totals = multiples(totals, state.stream.plan().request().grid())?;
        check_room(&state.stream, totals.len())?;
        // Before the noise is drawn: after a refusal, `last` and `save` would show it.
        self.watch.give(py, &self.spans(&state.stream, &totals))?;
        rows(py, &FIELDS, totals.len(), |mut places| {
            in_chunks(py, &totals, |total| {
                let row = places.next().expect("one row per total");
                state.release_into(*total, row)
            })
        })
    }

    /// The release of the last closed step; ``None`` before the first.
    #[getter]
    fn last(&self, py: Python<'_>) -> Option<PyRelease> {
        let mut state = self.lock(py);
        let release = state.stream.release()?;
        Some(state.with_error(release))
    }

    /// The last closed step; 0 before the first.
    #[getter]
    fn step(&self, py: Python<'_>) -> u64 {
        self.lock(py).stream.step()
    }

    /// The plan.
    #[getter]
    fn plan(&self, py: Python<'_>) -> PyPlan {
        PyPlan::new(self.lock(py).stream.plan().clone())
    }

    /// The name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Confidence of the intervals.
    #[getter]
    fn confidence(&self) -> f64 {
        self.confidence
    }

    /// The state, for :meth:`restore`. It holds exact sums: keep it as safe as the data.
    fn save<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.lock(py).stream.save())
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let state = self.lock(py);
        format!("Counter({:?}, step {} of {})", self.name, state.stream.step(), state.stream.plan().horizon())
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(not_pickled("Counter"))
    }
}

/// Refuses more totals than remaining steps, before the first step is closed.
fn check_room(stream: &RunningSum, totals: usize) -> PyResult<()> {
    let horizon = stream.plan().horizon();
    let left = horizon - stream.step();
    if totals as u64 <= left {
        return Ok(());
    }
    let problem =
        format!("{left} of {horizon} steps are left, too few for {totals} totals; a longer stream needs a new plan");
    Err(Error::new(ErrorKind::HorizonExhausted, problem)).or_raise()
}

/// The step `steps` after another.
pub(crate) fn after(step: u64, Whole(steps): Whole) -> PyResult<u64> {
    if steps == 0 {
        return Err(invalid("at least one step must be closed, got steps=0"));
    }
    Ok(step.saturating_add(steps))
}

/// The error for pickling an object that holds exact data.
pub(crate) fn not_pickled(class: &str) -> PyErr {
    PyTypeError::new_err(format!(
        "a {class} cannot be pickled or copied: two copies could continue with different data and the same noise, \
         whose difference is exact, and the pickle would hold the exact data. To move it, keep the bytes of save() as \
         safe as the data, and pass them to {class}.restore(...) with the plan, key and name"
    ))
}
