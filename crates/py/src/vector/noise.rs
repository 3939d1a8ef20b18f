//! The noise of vectors, step by step.

use super::ahead;
use super::arguments::{check_finite, check_memory, is_double, range};
use super::array::writable;
use super::names;
use super::plan::PyVectorPlan;
use super::stream::{TypedStream, either};
use crate::arrays::numpy;
use crate::error::{OrRaise, invalid};
use crate::key::PySecretKey;
use crate::own::ProcessBound;
use crate::watch::{Class, Watch, bytes_of};
use crate::whole::Whole;
use evertally::noise::{GuardedKey, StreamName};
use evertally_ledger::noise_log::{StepSpan, UNKNOWN};
use evertally_training::{Real, Series, Tuning, VectorNoise as Inner, check_squares, check_sum};
use numpy::Element;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

/// The noise of a vector's coordinates, step by step, to be added to NumPy arrays in place.
///
/// ``coordinates`` is the number of coordinates of the vector, or ``(first, end)`` for a worker that owns this part of
/// them: its noise equals ``first:end`` of the whole noise. ``dtype`` is ``"float32"`` or ``"float64"``: the two draw
/// different noise. Noise is a function of key, name, plan, step and coordinate, so **one name is for one run**: a run
/// on other data needs another name. A step is issued again (from an older state, by another object, in another process
/// that has loaded the key) only for the same data, and otherwise refused with a :class:`StateError`; a difference of
/// two such sums would be exact.
///
/// ``batches`` are the batches of the run: :class:`Batches`, or :class:`FixedBatches` for a plan without sampling.
/// Batches of another plan, key or name are refused, and so are sums that are longer than the examples of their step
/// can make them.
///
/// Two options change no bit of the noise: ``threads`` is the number of threads (0: one per processor), and ``memory``
/// is ``"keep"`` (fastest) or ``"recompute"`` (trees then keep no vectors between steps).
///
/// Arrays have the noise's dtype, are C-contiguous and writeable, and may have any shape with as many elements as there
/// are coordinates; nothing is copied. Steps are drawn without the GIL. Methods may be called from several threads,
/// which take turns.
///
/// **As secret as the key**: the noise, this object and its checkpoints. It cannot be pickled; see :meth:`save`.
///
/// >>> import evertally as et, numpy as np
/// >>> plan = et.training.plan_vector(1000, norm=1.0, rho=0.5, mechanism="smooth")
/// >>> noise = et.VectorNoise(plan, et.SecretKey.generate(), "run 1", coordinates=10_000)
/// >>> gradient = np.zeros((100, 100), dtype=np.float32)  # a sum of clipped gradients
/// >>> noise.add_next(gradient) is gradient
/// True
/// >>> noise.step, len(noise), abs(gradient.std() / plan.std_error(1) - 1) < 0.1
/// (1, 10000, np.True_)
#[pyclass(frozen, name = "VectorNoise", module = "evertally.training")]
pub(crate) struct PyVectorNoise {
    stream: Arc<ProcessBound<TypedStream>>,
    plan: Py<PyVectorPlan>,
    name: String,
    watch: Watch,
    threads: usize,
    coordinates: Range<u64>,
    double: bool,
    batches: Option<Py<PyAny>>,
    /// The step of the stream, which may be locked while the next step is drawn.
    step: AtomicU64,
}

/// The parsed arguments of the constructors, except plan and key.
struct Arguments {
    name: StreamName,
    coordinates: Range<u64>,
    double: bool,
    tuning: Tuning,
}

impl Arguments {
    fn read(
        name: &str,
        coordinates: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
        threads: Whole,
        memory: &str,
    ) -> PyResult<Self> {
        Ok(Self {
            name: name.parse::<StreamName>().or_raise()?,
            coordinates: range(coordinates)?,
            double: dtype.map_or(Ok(false), is_double)?,
            tuning: Tuning {
                threads: usize::try_from(threads.0).unwrap_or(usize::MAX),
                memory: names::memory(memory)?,
                ..Tuning::default()
            },
        })
    }

    /// Opens the stream, before its first step or from a saved state.
    fn open(
        &self,
        plan: &Bound<'_, PyVectorPlan>,
        key: &Bound<'_, PySecretKey>,
        batches: Option<&Bound<'_, PyAny>>,
        state: Option<&[u8]>,
    ) -> PyResult<PyVectorNoise> {
        if let Some(batches) = batches
            && !batches.call_method1("is_of", (plan, key, self.name.to_string()))?.is_truthy()?
        {
            return Err(invalid("these batches belong to another plan, key or name"));
        }
        let key = key.get();
        let purpose: &[u8] = if self.double { b"vector 64" } else { b"vector 32" };
        let watch = Watch::new(Class::VectorNoise, key, &self.name, &plan.get().inner().digest(), purpose);
        let stream = match self.double {
            false => self.opened(plan, watch.key(), state).map(TypedStream::Single),
            true => self.opened(plan, watch.key(), state).map(TypedStream::Double),
        }?;
        let step = either!(&stream, noise => noise.step());
        Ok(PyVectorNoise {
            watch: watch.of_part(self.coordinates.clone()).since(step),
            stream: Arc::new(ProcessBound::new(stream)),
            plan: plan.clone().unbind(),
            name: self.name.to_string(),
            threads: self.tuning.threads,
            coordinates: self.coordinates.clone(),
            double: self.double,
            batches: batches.map(|batches| batches.clone().unbind()),
            step: AtomicU64::new(step),
        })
    }

    fn opened<F: Real>(
        &self,
        plan: &Bound<'_, PyVectorPlan>,
        key: &GuardedKey,
        state: Option<&[u8]>,
    ) -> PyResult<Inner<F>> {
        let (inner, coordinates) = (plan.get().inner(), self.coordinates.clone());
        let made = Inner::new(inner.clone(), key, self.name.clone(), coordinates.clone(), self.tuning).or_raise()?;
        check_memory::<F>(made.len())?;
        let Some(state) = state else { return Ok(made) };
        let restore = || Inner::restore(inner.clone(), key, self.name.clone(), coordinates, self.tuning, state);
        plan.py().detach(restore).or_raise()
    }
}

impl PyVectorNoise {
    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, TypedStream> {
        self.stream.lock(py)
    }

    fn go_on(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, TypedStream>> {
        self.stream.go_on(py, "VectorNoise", &self.name)
    }

    /// Writes the next step to an array of the stream's type.
    fn give(&self, array: &Bound<'_, PyAny>, to: NoiseTarget) -> PyResult<()> {
        // No thread waits for a stream while holding another, so arrays may be borrowed under its lock.
        either!(&mut *self.go_on(array.py())?, noise => self.give_of(noise, array, to))
    }

    fn give_of<F: Real + Element>(
        &self,
        noise: &mut Inner<F>,
        array: &Bound<'_, PyAny>,
        to: NoiseTarget,
    ) -> PyResult<()> {
        let py = array.py();
        let mut elements = writable::<F>(array, noise.len())?;
        let slice = elements.as_slice_mut().map_err(|problem| invalid(problem.to_string()))?;
        let step = noise.step() + 1;
        let mark = match &to {
            NoiseTarget::This(examples) => self.checked(py, slice, step, *examples)?,
            NoiseTarget::These(bytes) => self.watch.marker().map(|marker| marker.bytes(step, bytes)),
            NoiseTarget::Unknown => self.watch.marker().map(|_| UNKNOWN),
        };
        // After the last step nothing is issued; the stream reports the error.
        if let Some(mark) = mark.filter(|_| step <= noise.horizon()) {
            self.watch.give(py, &[StepSpan::from_step(step, mark)])?;
        }
        let add = matches!(to, NoiseTarget::This(_));
        py.detach(|| if add { noise.add_next_to_checked(slice) } else { noise.next_into(slice) }).or_raise()?;
        self.step.store(noise.step(), Ordering::Relaxed);
        Ok(())
    }

    /// The mark of a sum, if noise is watched, after a check that the sum can be one. Both need one pass.
    fn checked<F: Real>(&self, py: Python<'_>, sum: &[F], step: u64, examples: Option<u64>) -> PyResult<Option<u64>> {
        let (norm, examples) = (self.plan.get().inner().request().norm(), self.examples(py, step, examples)?);
        let checked = py.detach(|| {
            let Some(marker) = self.watch.marker() else {
                return check_sum(sum, norm, examples, self.threads).map(|()| None);
            };
            let found = marker.numbers(step, F::numbers(sum), self.threads);
            check_squares(sum, found.squares, norm, examples).map(|()| Some(found.mark))
        });
        checked.or_raise()
    }

    /// The number of examples in the sum of a step, if known.
    fn examples(&self, py: Python<'_>, step: u64, said: Option<u64>) -> PyResult<Option<u64>> {
        let plan = self.plan.get().inner();
        let Some(batches) = &self.batches else { return Ok(said) };
        if plan.series() != Series::Increments || step > plan.horizon() {
            return Ok(said);
        }
        let own = batches.bind(py).call_method1("batch", (step,))?.len()? as u64;
        match said {
            Some(said) if said != own => Err(invalid(format!(
                "examples is {said}, but the batch of step {step} has a different number of examples"
            ))),
            _ => Ok(Some(own)),
        }
    }

    /// Moves to a step. Later steps are drawn one by one if the mechanism cannot skip them.
    fn seek_of<F: Real>(&self, py: Python<'_>, noise: &mut Inner<F>, step: u64) -> PyResult<()> {
        let sought = self.sought(py, noise, step);
        self.step.store(noise.step(), Ordering::Relaxed);
        sought
    }

    fn sought<F: Real>(&self, py: Python<'_>, noise: &mut Inner<F>, step: u64) -> PyResult<()> {
        let sought = py.detach(|| noise.seek(step));
        if sought.is_ok() || step > noise.horizon() || step < noise.step() {
            return sought.or_raise();
        }
        let mut passed = vec![F::default(); noise.len()];
        while noise.step() < step {
            py.detach(|| noise.next_into(&mut passed)).or_raise()?;
            py.check_signals()?;
        }
        Ok(())
    }
}

/// The data that noise is added to.
enum NoiseTarget {
    /// The array itself: a sum of this number of examples, if known.
    This(Option<u64>),
    /// Data identified by these bytes.
    These(Vec<u8>),
    Unknown,
}

#[pymethods]
impl PyVectorNoise {
    #[new]
    #[pyo3(
        signature = (
            plan, key, name, *, coordinates, dtype = None, threads = Whole(1), memory = "keep", batches = None
        ),
        text_signature = "(plan, key, name, *, coordinates, dtype='float32', threads=1, memory='keep', batches=None)"
    )]
    #[allow(clippy::too_many_arguments)] // keywords in Python
    fn new(
        plan: &Bound<'_, PyVectorPlan>,
        key: &Bound<'_, PySecretKey>,
        name: &str,
        coordinates: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
        threads: Whole,
        memory: &str,
        batches: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        Arguments::read(name, coordinates, dtype, threads, memory)?.open(plan, key, batches, None)
    }

    /// The stream that was saved, with the same plan, key, name, coordinates and dtype; ``threads`` and ``memory`` may
    /// differ. It continues as if it had never stopped.
    ///
    /// Raises :class:`StateError` if the bytes are damaged or belong to another stream.
    ///
    /// >>> import evertally as et, numpy as np
    /// >>> plan, key = et.training.plan_vector(1000, rho=0.5, mechanism="smooth"), et.SecretKey.generate()
    /// >>> noise = et.VectorNoise(plan, key, "run 1", coordinates=100)
    /// >>> state, gradient = noise.save(), np.ones(100, np.float32)
    /// >>> first = noise.add_next(gradient.copy())
    /// >>> again = et.VectorNoise.restore(plan, key, "run 1", state, coordinates=100)
    /// >>> again.step, bool((again.add_next(gradient.copy()) == first).all())
    /// (0, True)
    /// >>> again.seek(0)
    /// >>> again.add_next(2 * gradient)
    /// Traceback (most recent call last):
    /// ...
    /// evertally.StateError: step 1 of the VectorNoise "run 1" was issued for other data; ...
    #[staticmethod]
    #[pyo3(
        signature = (
            plan, key, name, state, *, coordinates, dtype = None, threads = Whole(1), memory = "keep", batches = None
        ),
        text_signature = "(plan, key, name, state, *, coordinates, dtype='float32', threads=1, memory='keep', \
                          batches=None)"
    )]
    #[allow(clippy::too_many_arguments)] // keywords in Python
    fn restore(
        plan: &Bound<'_, PyVectorPlan>,
        key: &Bound<'_, PySecretKey>,
        name: &str,
        state: &[u8],
        coordinates: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
        threads: Whole,
        memory: &str,
        batches: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        Arguments::read(name, coordinates, dtype, threads, memory)?.open(plan, key, batches, Some(state))
    }

    /// Moves to the next step, adds its noise to the array in place, and returns the array.
    ///
    /// ``examples`` is the number of examples in the sum (for ``"running-sums"``, in all steps so far). A sum that is
    /// longer than the sum of that many vectors of the plan's norm can be is refused; with ``batches``, this is checked
    /// even without ``examples``.
    ///
    /// Raises :class:`TypeError` for anything other than an array of the noise's dtype; :class:`InvalidError` for an
    /// array that has another size, is read-only or not contiguous, has a number that is NaN or infinite, or is too
    /// long; :class:`HorizonExhausted` after the last step; and :class:`StateError` if the step was issued for an array
    /// of other numbers. Nothing changes then.
    ///
    /// >>> import evertally as et, numpy as np
    /// >>> plan = et.training.plan_vector(100, norm=1.0, rho=0.5)
    /// >>> noise = et.VectorNoise(plan, et.SecretKey.generate(), "run 1", coordinates=4)
    /// >>> noise.add_next(np.full(4, 10, np.float32), examples=5)  # of length 20
    /// Traceback (most recent call last):
    /// ...
    /// evertally.InvalidError: the sum is longer than possible for its number of examples, ...
    #[pyo3(signature = (array, *, examples = None))]
    fn add_next<'py>(&self, array: Bound<'py, PyAny>, examples: Option<Whole>) -> PyResult<Bound<'py, PyAny>> {
        self.give(&array, NoiseTarget::This(examples.map(|Whole(count)| count)))?;
        Ok(array)
    }

    /// Moves to the next step, writes its noise over the array, and returns the array. Raises what :meth:`add_next`
    /// does.
    ///
    /// ``of`` identifies the data that the noise will be added to: an array of numbers, or bytes or a whole number that
    /// stand for these data only, such as their hash. Without it the step is issued once and never again.
    #[pyo3(signature = (array, *, of = None))]
    fn next_into<'py>(&self, array: Bound<'py, PyAny>, of: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        of.map_or(Ok(()), check_finite)?;
        let to = of.map_or(Ok(NoiseTarget::Unknown), |of| bytes_of(of).map(NoiseTarget::These))?;
        self.give(&array, to)?;
        Ok(array)
    }

    /// Moves to the next step and returns its noise as a new array of one dimension. ``of`` is as for
    /// :meth:`next_into`.
    ///
    /// >>> import evertally as et
    /// >>> plan = et.training.plan_vector(1000, rho=0.5, mechanism="smooth")
    /// >>> noise = et.VectorNoise(plan, et.SecretKey.generate(), "run 1", coordinates=(50, 80), dtype="float64")
    /// >>> noise.next().shape
    /// (30,)
    #[pyo3(signature = (*, of = None))]
    fn next<'py>(&self, py: Python<'py>, of: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let array = numpy(py)?.call_method1("empty", (self.__len__(), self.dtype()))?;
        self.next_into(array, of)
    }

    /// Starts to draw the noise of the next step in the background, and returns at once: call it before the gradient of
    /// the step is computed. The next :meth:`add_next` or :meth:`next_into` then finds the noise ready, or waits until
    /// it is complete. Nothing else changes: neither the bytes of the noise, nor :attr:`step` and :meth:`save`. The
    /// data for the noise are recorded, or refused, when it is issued.
    ///
    /// This needs memory for one more vector. Prepared noise is as secret as the key. It is overwritten by the next use
    /// of its memory, and when it is discarded: by :meth:`seek`, or with this object. Does nothing if noise is prepared
    /// already, or after the last step.
    ///
    /// >>> import evertally as et, numpy as np
    /// >>> plan = et.training.plan_vector(1000, rho=0.5, mechanism="blt")
    /// >>> noise = et.VectorNoise(plan, et.SecretKey.generate(), "run 1", coordinates=10_000)
    /// >>> for _ in range(3):
    /// ...     noise.draw_ahead()
    /// ...     gradient = np.zeros(10_000, np.float32)  # forward and backward
    /// ...     _ = noise.add_next(gradient)
    /// >>> noise.step
    /// 3
    fn draw_ahead(slf: &Bound<'_, Self>) -> PyResult<()> {
        draw_ahead(vec![slf.clone().unbind()])
    }

    /// Moves to any step (0 to the horizon), forwards or backwards: the next step issued is the one after it.
    ///
    /// Trees need about the time of a step; ``"input"`` needs that of all preceding steps; mechanisms whose noise
    /// depends on all preceding steps, such as BLTs, need that of the steps between. Raises :class:`InvalidError`
    /// beyond the horizon, and if such a mechanism has to move backwards: restore it from a :meth:`save`. The steps
    /// between are not issued.
    ///
    /// >>> import evertally as et, numpy as np
    /// >>> plan = et.training.plan_vector(1000, rho=0.5, mechanism="smooth")
    /// >>> noise = et.VectorNoise(plan, et.SecretKey.generate(), "run 1", coordinates=100)
    /// >>> gradient = np.ones(100, np.float32)
    /// >>> first = noise.add_next(gradient.copy())
    /// >>> noise.seek(0)
    /// >>> bool((noise.add_next(gradient.copy()) == first).all())
    /// True
    fn seek(&self, py: Python<'_>, step: Whole) -> PyResult<()> {
        let mut stream = self.go_on(py)?;
        either!(&mut *stream, noise => self.seek_of(py, noise, step.0))
    }

    /// The bytes for :meth:`restore`, **as secret as the key**: some hundred bytes for trees; for other mechanisms also
    /// the vectors of noise that they keep.
    fn save<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let stream = self.lock(py);
        let bytes = either!(&*stream, noise => py.detach(|| noise.save()));
        PyBytes::new(py, &bytes)
    }

    /// The last step issued; 0 before the first.
    #[getter]
    fn step(&self) -> u64 {
        self.step.load(Ordering::Relaxed)
    }

    /// Total number of steps.
    #[getter]
    fn horizon(&self) -> u64 {
        self.plan.get().inner().horizon()
    }

    /// The coordinates, as ``(first, end)``.
    #[getter]
    fn coordinates(&self) -> (u64, u64) {
        (self.coordinates.start, self.coordinates.end)
    }

    /// Type of the elements: ``"float32"`` or ``"float64"``.
    #[getter]
    fn dtype(&self) -> &'static str {
        if self.double { "float64" } else { "float32" }
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

    /// Bytes of the vectors kept between steps, so far, and of the vector for prepared noise.
    #[getter]
    fn memory_bytes(&self, py: Python<'_>) -> usize {
        either!(&*self.lock(py), noise => noise.memory_bytes())
    }

    fn __len__(&self) -> usize {
        (self.coordinates.end - self.coordinates.start) as usize // fits: a stream has this length
    }

    fn __repr__(&self) -> String {
        let (first, end) = self.coordinates();
        format!(
            "VectorNoise({:?}, coordinates=({first}, {end}), dtype={:?}, step {} of {})",
            self.name,
            self.dtype(),
            self.step(),
            self.horizon()
        )
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "a VectorNoise cannot be pickled or copied: noise is as secret as the key, and two copies could give the \
             same noise to different data. To move it, keep the checkpoint of save() as safe as the key, and pass it \
             to VectorNoise.restore(...) with the plan, key, name and coordinates",
        ))
    }
}

/// Starts to draw the next step of each stream in the background, one after the other.
#[pyfunction]
#[pyo3(name = "_draw_ahead")]
pub(crate) fn draw_ahead(noises: Vec<Py<PyVectorNoise>>) -> PyResult<()> {
    for noise in &noises {
        let noise = noise.get();
        noise.stream.check("VectorNoise", &noise.name)?;
        if noise.double { check_memory::<f64>(noise.__len__()) } else { check_memory::<f32>(noise.__len__()) }?;
    }
    ahead::begin(noises.iter().map(|noise| Arc::downgrade(&noise.get().stream)).collect());
    Ok(())
}
