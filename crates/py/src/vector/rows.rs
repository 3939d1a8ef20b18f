//! Noise for the rows of a large table, drawn when rows are used.

use super::array::writable;
use super::plan::PyVectorPlan;
use crate::arrays::{naturals, numpy};
use crate::error::{OrRaise, invalid};
use crate::key::PySecretKey;
use crate::own::ProcessBound;
use crate::watch::{Class, Watch};
use crate::whole::Whole;
use evertally::noise::StreamName;
use evertally_ledger::noise_log::StepSpan;
use evertally_training::{RowNoise as Inner, Tuning, check_sum};
use numpy::{PyArrayDyn, PyArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::MutexGuard;

/// The noise of a large parameter table, such as an embedding. The noise of a row is drawn when the row is used.
///
/// The caller owns the table: a float32 array of ``rows`` times ``width``, C-contiguous and writeable; for a PyTorch
/// embedding, ``embedding.weight.data.numpy()``. A step is ``table -= rate * (gradient + noise)``. The gradient is 0
/// except in the few rows that a batch uses, but the noise is not: it is deferred until a row is used, or seen. The
/// table that is seen in the end has the same joint law as if every step added a :class:`VectorNoise` to all rows.
///
/// 1. ``catch_up(table, rows)`` with the rows that a batch uses, **before** they are read.
/// 2. ``descend(table, rows, gradient)`` with the sum of clipped gradients, one gradient row for each of these rows:
/// one step. These rows get the step's noise at once; for all other rows it is deferred.
/// 3. ``catch_up(table)`` for all rows, **before anyone sees the table**.
///
/// ``rates`` are learning rates divided by the expected batch size, one for all steps or one for each: the factor of
/// gradient and noise in a step. An example's gradient is clipped over all parameters together; parameters outside the
/// table get the noise of a :class:`VectorNoise` of the same plan. Momentum cannot be combined with deferred rows.
///
/// Using a row takes one normal variable more than the mechanism's memory in copies of the gradient, for any number of
/// missed steps (a BLT with 3 buffers: at most 4). Memory grows with the rows that were used. Plans must release
/// increments, with any mechanism except square roots without bands. Threads take turns.
///
/// **Secret**: the table until it has caught up, and this object and its saved states, which reveal the rows that were
/// used.
///
/// >>> import evertally as et, numpy as np
/// >>> plan = et.training.plan_vector(1000, norm=1.0, epsilon=4.0, delta=1e-6, participations=4, separation=250)
/// >>> key, table = et.SecretKey.generate(), np.zeros((100_000, 16), np.float32)
/// >>> noise = et.training.RowNoise(plan, key, "words", rows=100_000, width=16, rates=0.1 / 64)
/// >>> for words in [[17, 4711, 17], [42, 17]]:
/// ...     _ = noise.catch_up(table, words)
/// ...     used = np.unique(words)
/// ...     gradient = np.ones((len(used), 16), np.float32)  # of the batch, clipped and summed
/// ...     _ = noise.descend(table, used, gradient)
/// >>> noise.step, noise.touched
/// (2, 3)
/// >>> bool((noise.catch_up(table) != 0).all())
/// True
#[pyclass(frozen, name = "RowNoise", module = "evertally.training")]
pub(crate) struct PyRowNoise {
    noise: ProcessBound<Inner<f32>>,
    plan: Py<PyVectorPlan>,
    name: String,
    watch: Watch,
}

impl PyRowNoise {
    fn open(
        plan: &Bound<'_, PyVectorPlan>,
        key: &PySecretKey,
        name: &str,
        (rows, width, rates, threads): (Whole, Whole, &Bound<'_, PyAny>, Whole),
        state: Option<&[u8]>,
    ) -> PyResult<Self> {
        let (py, inner) = (plan.py(), plan.get().inner().clone());
        let (stream, rates) = (name.parse::<StreamName>().or_raise()?, rates_of(rates)?);
        let (shape, stream_name) = ((rows.0, width.0), stream.clone());
        let tuning = Tuning { threads: usize::try_from(threads.0).unwrap_or(usize::MAX), ..Tuning::default() };
        // A name is for one run: other rates or another shape count as other data.
        let watch = Watch::new(Class::RowNoise, key, &stream, &inner.digest(), b"rows 32");
        let key_inner = watch.key();
        let made = py.detach(|| match state {
            None => Inner::new(inner, key_inner, stream_name, shape, &rates, tuning),
            Some(state) => Inner::restore(inner, key_inner, stream_name, shape, &rates, tuning, state),
        });
        let made = made.or_raise()?;
        let watch = watch.since(made.calls());
        Ok(Self { noise: ProcessBound::new(made), plan: plan.clone().unbind(), name: name.to_owned(), watch })
    }

    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, Inner<f32>> {
        self.noise.lock(py)
    }

    /// Records that the next call is for these bytes, or refuses it.
    fn give(&self, py: Python<'_>, noise: &Inner<f32>, bytes: &[u8]) -> PyResult<()> {
        self.watch.give(py, &self.span(noise, bytes))
    }

    /// The span of the next call, for these bytes.
    fn span(&self, noise: &Inner<f32>, bytes: &[u8]) -> Vec<StepSpan> {
        let call = noise.calls() + 1;
        let marked = self.watch.marker().map(|marker| marker.bytes(call, &[&noise.digest(), bytes].concat()));
        marked.map(|mark| StepSpan::from_step(call, mark)).into_iter().collect()
    }

    /// Works on the table.
    fn with_table(
        &self,
        table: &Bound<'_, PyAny>,
        work: impl FnOnce(Python<'_>, &mut Inner<f32>, &mut [f32]) -> PyResult<()>,
    ) -> PyResult<()> {
        let py = table.py();
        let mut noise = self.noise.go_on(py, "RowNoise", &self.name)?;
        let (all, width) = noise.shape();
        let mut elements = writable::<f32>(table, (all * width) as usize)?; // fits: or no array has as many
        let slice = elements.as_slice_mut().map_err(|problem| invalid(problem.to_string()))?;
        work(py, &mut noise, slice)
    }

    /// Works on the table and a gradient for some of its rows, the sum of `examples` examples if that is known.
    fn with_gradient(
        &self,
        table: &Bound<'_, PyAny>,
        (rows, gradient): (&Bound<'_, PyAny>, &Bound<'_, PyAny>),
        examples: Option<Whole>,
        work: impl FnOnce(Python<'_>, &mut Inner<f32>, &mut [f32], &[u64], &[f32]) -> PyResult<()>,
    ) -> PyResult<()> {
        let (rows, gradient) = (naturals(rows)?, numbers(gradient)?);
        self.with_table(table, |py, noise, slice| {
            noise.check_descend(slice.len(), &rows, &gradient).or_raise()?;
            let norm = self.plan.get().inner().request().norm();
            check_sum(&gradient, norm, examples.map(|Whole(count)| count), 1).or_raise()?;
            work(py, noise, slice, &rows, &gradient)
        })
    }
}

/// One rate, or a list of them.
fn rates_of(rates: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
    let several = || -> PyResult<Vec<f64>> { rates.try_iter()?.map(|rate| rate?.extract()).collect() };
    rates
        .extract::<f64>()
        .map(|rate| vec![rate])
        .or_else(|_| several())
        .map_err(|_| invalid(format!("rates must be a number, or one for each step, got {rates}")))
}

/// The bytes that identify a call: its kind, the rows, and the numbers of a gradient.
fn described(kind: u8, rows: &[u64], numbers: &[f32]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(9 + 8 * rows.len() + 4 * numbers.len());
    bytes.push(kind);
    bytes.extend((rows.len() as u64).to_le_bytes());
    rows.iter().for_each(|row| bytes.extend(row.to_le_bytes()));
    numbers.iter().for_each(|number| bytes.extend(number.to_bits().to_le_bytes()));
    bytes
}

/// Copies the numbers of a gradient.
fn numbers(gradient: &Bound<'_, PyAny>) -> PyResult<Vec<f32>> {
    let numpy = numpy(gradient.py())?;
    let array = numpy.call_method1("ascontiguousarray", (gradient,))?;
    let Ok(array) = array.cast::<PyArrayDyn<f32>>() else {
        let found = array.getattr("dtype")?;
        return Err(PyTypeError::new_err(format!(
            "the gradient must have the dtype of the table, float32, got {found}"
        )));
    };
    let numbers = array.try_readonly().map_err(|problem| invalid(problem.to_string()))?;
    Ok(numbers.as_slice().map_err(|problem| invalid(problem.to_string()))?.to_vec())
}

#[pymethods]
impl PyRowNoise {
    #[new]
    #[pyo3(signature = (plan, key, name, *, rows, width, rates, threads = Whole(1)), text_signature = "(plan, key, \
        name, *, rows, width, rates, threads=1)")]
    #[allow(clippy::too_many_arguments)] // keywords in Python
    fn new(
        plan: &Bound<'_, PyVectorPlan>,
        key: &PySecretKey,
        name: &str,
        rows: Whole,
        width: Whole,
        rates: &Bound<'_, PyAny>,
        threads: Whole,
    ) -> PyResult<Self> {
        Self::open(plan, key, name, (rows, width, rates, threads), None)
    }

    /// The noise that was saved, with the same plan, key, name, shape and rates, together with the table as it was
    /// then. It continues as if it had never stopped.
    ///
    /// Raises :class:`StateError` if the bytes are damaged or belong to another object.
    #[staticmethod]
    #[pyo3(signature = (plan, key, name, state, *, rows, width, rates, threads = Whole(1)), text_signature = "(plan, \
        key, name, state, *, rows, width, rates, threads=1)")]
    #[allow(clippy::too_many_arguments)] // keywords in Python
    fn restore(
        plan: &Bound<'_, PyVectorPlan>,
        key: &PySecretKey,
        name: &str,
        state: &[u8],
        rows: Whole,
        width: Whole,
        rates: &Bound<'_, PyAny>,
        threads: Whole,
    ) -> PyResult<Self> {
        Self::open(plan, key, name, (rows, width, rates, threads), Some(state))
    }

    /// Adds the noise of missed steps to rows of the table, in place, and returns the table. ``rows`` are whole numbers
    /// in any order, and may repeat; None means all rows.
    ///
    /// Raises :class:`InvalidError` for a table of another size or a missing row, :class:`TypeError` for an array of
    /// another type, and :class:`StateError` if this call was made for other rows. Nothing changes then.
    #[pyo3(signature = (table, rows = None))]
    fn catch_up<'py>(&self, table: Bound<'py, PyAny>, rows: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let rows = rows.map(naturals).transpose()?;
        self.with_table(&table, |py, noise, slice| match rows {
            Some(rows) => {
                noise.check_catch_up(slice.len(), &rows).or_raise()?;
                self.give(py, noise, &described(0, &rows, &[]))?;
                py.detach(|| noise.catch_up(slice, &rows)).or_raise()
            }
            None => {
                self.give(py, noise, &described(1, &[], &[]))?;
                py.detach(|| noise.catch_up_all(slice)).or_raise()
            }
        })?;
        Ok(table)
    }

    /// Takes a step: subtracts the step's rate times the sum of ``gradient`` and noise from these rows of the table, in
    /// place, and returns the table. In all other rows the noise of the step is deferred. ``gradient`` is a float32
    /// array with a row for each of ``rows``, the sum of clipped gradients. An empty batch has no rows, and the step is
    /// taken all the same.
    ///
    /// With ``examples``, the number of examples in the sum, a gradient that is longer than the sum of that many
    /// clipped gradients can be is refused.
    ///
    /// Raises :class:`InvalidError` if sizes do not fit, a number of the gradient is NaN or infinite, a row is named
    /// twice, or a row has not caught up; :class:`HorizonExhausted` after the last step, and :class:`StateError` if
    /// this call was made for another gradient. Nothing changes then.
    #[pyo3(signature = (table, rows, gradient, *, examples = None))]
    fn descend<'py>(
        &self,
        table: Bound<'py, PyAny>,
        rows: &Bound<'py, PyAny>,
        gradient: &Bound<'py, PyAny>,
        examples: Option<Whole>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.with_gradient(&table, (rows, gradient), examples, |py, noise, slice, rows, gradient| {
            self.give(py, noise, &described(2, rows, gradient))?;
            py.detach(|| noise.descend(slice, rows, gradient)).or_raise()?;
            Ok(())
        })?;
        Ok(table)
    }

    /// Raises what :meth:`descend` with the same arguments would raise, and does nothing else.
    #[pyo3(signature = (table, rows, gradient, *, examples = None))]
    fn check<'py>(
        &self,
        table: &Bound<'py, PyAny>,
        rows: &Bound<'py, PyAny>,
        gradient: &Bound<'py, PyAny>,
        examples: Option<Whole>,
    ) -> PyResult<()> {
        self.with_gradient(table, (rows, gradient), examples, |_, noise, _, rows, gradient| {
            self.watch.check(&self.span(noise, &described(2, rows, gradient)))
        })
    }

    /// The bytes for :meth:`restore`, **as secret as key and data**. They do not include the table: keep it as it is
    /// now.
    fn save<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let noise = self.lock(py);
        PyBytes::new(py, &py.detach(|| noise.save()))
    }

    /// Steps taken.
    #[getter]
    fn step(&self, py: Python<'_>) -> u64 {
        self.lock(py).step()
    }

    /// Total number of steps.
    #[getter]
    fn horizon(&self, py: Python<'_>) -> u64 {
        self.lock(py).horizon()
    }

    /// Rows of the table.
    #[getter]
    fn rows(&self, py: Python<'_>) -> u64 {
        self.lock(py).shape().0
    }

    /// Coordinates of a row.
    #[getter]
    fn width(&self, py: Python<'_>) -> u64 {
        self.lock(py).shape().1
    }

    /// Number of rows with stored noise.
    #[getter]
    fn touched(&self, py: Python<'_>) -> usize {
        self.lock(py).touched()
    }

    /// Bytes of that stored noise.
    #[getter]
    fn memory_bytes(&self, py: Python<'_>) -> usize {
        self.lock(py).memory_bytes()
    }

    /// The plan.
    #[getter]
    fn plan(&self, py: Python<'_>) -> Py<PyVectorPlan> {
        self.plan.clone_ref(py)
    }

    /// The name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let noise = self.lock(py);
        let (rows, width) = noise.shape();
        format!("RowNoise({:?}, {rows} rows of {width}, step {} of {})", self.name, noise.step(), noise.horizon())
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "a RowNoise cannot be pickled or copied: two copies could give the same noise to different data. To move \
             it, keep the bytes of save() as safe as the key, and pass them to RowNoise.restore(...)",
        ))
    }
}
