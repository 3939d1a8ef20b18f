//! Assignment of examples to steps.

use super::plan::PyVectorPlan;
use crate::arrays::vector_of;
use crate::error::OrRaise;
use crate::key::PySecretKey;
use crate::whole::{SequenceIndex, Whole};
use evertally::noise::{KeyId, StreamName};
use evertally_training::Batches as Inner;
use numpy::PyArray1;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;

/// The batches of a plan with ``sampling``: which examples take part in which step, drawn at random from the key.
///
/// Examples are numbered 0 to ``examples - 1`` and keep their numbers: if one is removed, its number stays unused. The
/// count of numbers is public. With (cyclic) Poisson sampling, the examples whose number leaves the remainder
/// (t - 1) mod :attr:`groups` take part in step t, each with the same probability; with a maximum batch, a larger one
/// loses examples at random. With batches of fixed size, a uniform subset of them takes part. With random allocation,
/// every example is allocated to a step of the epoch once, and takes part in that step of every epoch. With per-epoch
/// random allocation, every example takes part once in each of its epochs, which begin at the step given by its number
/// modulo :attr:`steps_per_epoch`. The random choices are a function of key, name, plan, step and number. So a run that
/// restarts, or continues after a crash, has the same batches, and the run matches what the guarantee assumes. The
/// object is a sequence of arrays, one per step, such as PyTorch's ``DataLoader`` accepts as its ``batch_sampler``.
/// Unless their size is fixed, batches differ in size and may be empty: divide sums by :attr:`expected_size`, never by
/// the size of the batch.
///
/// **As secret as the key**: against anyone who knows the batches, the guarantee is weaker.
///
/// >>> import evertally as et
/// >>> sampling = {"sampling": "cyclic-poisson", "sampled_fraction": 0.01}
/// >>> plan = et.training.plan_vector(200, epsilon=2, delta=1e-5, **sampling, mechanism="epoch-bands(bands=4)")
/// >>> batches = et.training.Batches(plan, et.SecretKey.generate(), "run 1", examples=5000)
/// >>> len(batches), batches.groups, batches.expected_size
/// (200, 4, 50.0)
/// >>> set((batches.batch(3) % 4).tolist())
/// {2}
/// >>> all((batch == batches.batch(step)).all() for step, batch in enumerate(batches, 1))
/// True
#[pyclass(frozen, name = "Batches", module = "evertally.training")]
pub(crate) struct PyBatches {
    inner: Inner,
    plan: Py<PyVectorPlan>,
    name: String,
    key: KeyId,
}

#[pymethods]
impl PyBatches {
    #[new]
    #[pyo3(signature = (plan, key, name, *, examples))]
    fn new(plan: &Bound<'_, PyVectorPlan>, key: &PySecretKey, name: &str, examples: Whole) -> PyResult<Self> {
        let stream = name.parse::<StreamName>().or_raise()?;
        let inner = Inner::new(plan.get().inner(), key.inner(), stream, examples.0).or_raise()?;
        Ok(Self { inner, plan: plan.clone().unbind(), name: name.to_owned(), key: key.inner().id() })
    }

    /// The numbers of the examples in a step (from 1), in order.
    fn batch<'py>(&self, py: Python<'py>, step: Whole) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let batch = py.detach(|| self.inner.batch(step.0)).or_raise()?;
        // fits: numbers of examples in memory
        let numbers: Vec<i64> = batch.into_iter().map(|example| example as i64).collect();
        vector_of(py, numbers)
    }

    /// Number of examples.
    #[getter]
    fn examples(&self) -> u64 {
        self.inner.examples()
    }

    /// The mean size of a batch: divide a sum of gradients by this.
    #[getter]
    fn expected_size(&self) -> f64 {
        self.inner.expected_size()
    }

    /// The largest possible batch, if it is known beforehand: with batches of fixed size, or a maximum batch.
    #[getter]
    fn max_size(&self) -> Option<u64> {
        self.inner.max_size()
    }

    /// How examples are sampled: one of the plan's names.
    #[getter]
    fn sampling(&self) -> &'static str {
        self.inner.scheme().name()
    }

    /// The number of groups of examples, with (cyclic) Poisson sampling and batches of fixed size.
    #[getter]
    fn groups(&self) -> Option<u64> {
        self.inner.groups()
    }

    /// The number of steps in an epoch, with random allocation.
    #[getter]
    fn steps_per_epoch(&self) -> Option<u64> {
        self.inner.steps_per_epoch()
    }

    /// The plan.
    #[getter]
    fn plan(&self, py: Python<'_>) -> Py<PyVectorPlan> {
        self.plan.clone_ref(py)
    }

    /// Whether the batches belong to this plan, key and name.
    fn is_of(&self, plan: &Bound<'_, PyVectorPlan>, key: &PySecretKey, name: &str) -> bool {
        let own = self.plan.get().inner().digest() == plan.get().inner().digest();
        own && self.key == key.inner().id() && self.name == name
    }

    /// The name of the run.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.inner.horizon()).unwrap_or(usize::MAX)
    }

    /// Indexes from 0, so that a loop visits all steps; negative indices count from the end.
    fn __getitem__<'py>(&self, py: Python<'py>, place: SequenceIndex) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let SequenceIndex(place) = place;
        // fits: a horizon is at most 2^62
        let from_start = if place < 0 { place.saturating_add(self.inner.horizon() as i64) } else { place };
        match u64::try_from(from_start) {
            Ok(place) if place < self.inner.horizon() => self.batch(py, Whole(place + 1)),
            _ => Err(PyIndexError::new_err(format!("there are {} batches", self.inner.horizon()))),
        }
    }

    fn __iter__(slf: Py<Self>) -> AllBatches {
        AllBatches { batches: slf, place: 0 }
    }

    fn __repr__(&self) -> String {
        format!("{:?}, {:?}", self.inner, self.name)
    }
}

/// Iterates over the batches.
#[pyclass(module = "evertally")]
pub(crate) struct AllBatches {
    batches: Py<PyBatches>,
    place: i64,
}

#[pymethods]
impl AllBatches {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray1<i64>>>> {
        let batches = self.batches.get();
        // fits: a horizon is at most 2^62
        if self.place as u64 >= batches.inner.horizon() {
            return Ok(None);
        }
        self.place += 1;
        batches.__getitem__(py, SequenceIndex(self.place - 1)).map(Some)
    }
}
