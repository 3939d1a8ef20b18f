//! What a device needs to generate the noise of vectors itself, step by step, for given gradients.

use super::arguments::range;
use super::plan::PyVectorPlan;
use super::words;
use crate::error::{OrRaise, invalid};
use crate::key::PySecretKey;
use crate::own::ProcessBound;
use crate::uses::Span;
use crate::watch::{Class, Watch, bytes_of};
use crate::whole::Whole;
use evertally::noise::StreamName;
use evertally_kernels::{SINGLE_ROWS, quantile};
use evertally_training::Programs;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Instructions as integers: code, place, level, the halves of an index, and the bits of a weight.
type Numbers = [u32; 6];

/// The programs of a stream in single precision. Each is issued for the data that its noise is added to. They generate
/// the stream's noise elsewhere, and so are **as secret as the key**.
#[pyclass(frozen, module = "evertally")]
pub(crate) struct _Programs {
    programs: ProcessBound<Programs>,
    watch: Watch,
    name: String,
}

#[pymethods]
impl _Programs {
    #[new]
    #[pyo3(signature = (plan, key, name, *, coordinates, memory = "keep"))]
    fn new(
        plan: &Bound<'_, PyVectorPlan>,
        key: &PySecretKey,
        name: &str,
        coordinates: &Bound<'_, PyAny>,
        memory: &str,
    ) -> PyResult<Self> {
        let stream = name.parse::<StreamName>().or_raise()?;
        let (coordinates, memory) = (range(coordinates)?, words::memory(memory)?);
        if coordinates.is_empty() || coordinates.end > 1 << 32 {
            return Err(invalid(format!(
                "devices make noise for 1 to 2^32 coordinates, got {} to {}: use on=\"host\"",
                coordinates.start, coordinates.end
            )));
        }
        let inner = plan.get().inner();
        // The same watch as for noise generated on the host, so that neither kind is issued for data that differ from
        // the other's.
        let watch = Watch::new(Class::VectorNoise, key, &stream, &inner.digest(), b"vector 32").of_part(coordinates);
        let programs = plan.py().detach(|| Programs::new(inner, watch.key(), &stream, memory)).or_raise()?;
        Ok(Self { programs: ProcessBound::new(programs), watch, name: name.to_owned() })
    }

    /// The program of a step (from 1), as rows of six numbers, recorded as issued for ``of``.
    fn program(&self, py: Python<'_>, step: Whole, of: &Bound<'_, PyAny>) -> PyResult<Vec<Numbers>> {
        let mut programs = self.programs.go_on(py, "VectorNoise", &self.name)?;
        let program = programs.program(step.0).or_raise()?;
        if let Some(marker) = self.watch.marker() {
            self.watch.give(py, &[Span::of(step.0, marker.bytes(step.0, &bytes_of(of)?))])?;
        }
        Ok(program
            .into_iter()
            .map(|op| {
                let index = [op.index as u32, (op.index >> 32) as u32];
                [op.code as u32, op.place, op.level, index[0], index[1], op.weight.to_bits()]
            })
            .collect())
    }

    /// The key of the normal variables.
    fn subkey<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.programs.lock(py).subkey())
    }

    #[getter]
    fn cipher(&self, py: Python<'_>) -> &'static str {
        words::cipher_word(self.programs.lock(py).cipher())
    }

    #[getter]
    fn horizon(&self, py: Python<'_>) -> u64 {
        self.programs.lock(py).horizon()
    }

    #[getter]
    fn buffers(&self, py: Python<'_>) -> usize {
        self.programs.lock(py).buffers()
    }

    #[getter]
    fn longest(&self, py: Python<'_>) -> usize {
        self.programs.lock(py).longest()
    }

    /// The codes of all programs, if the programs are equal except for additions that some lack.
    #[getter]
    fn template(&self, py: Python<'_>) -> Option<Vec<u32>> {
        let programs = self.programs.lock(py);
        programs.template().map(|codes| codes.iter().map(|code| *code as u32).collect())
    }

    /// The codes in use.
    #[getter]
    fn codes(&self, py: Python<'_>) -> Vec<u32> {
        self.programs.lock(py).codes().map(|code| code as u32).collect()
    }

    /// Gaps and echoes of the recurrence.
    #[getter]
    fn recurrence(&self, py: Python<'_>) -> (Vec<f32>, Vec<f32>) {
        let programs = self.programs.lock(py);
        let (gaps, echoes) = programs.recurrence();
        (gaps.to_vec(), echoes.to_vec())
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err("noise programs are as secret as the key and cannot be pickled"))
    }
}

/// The rows of the polynomials in single precision, and the rational functions of the near and far tail.
#[pyfunction]
#[pyo3(name = "_normal_tables")]
pub(crate) fn normal_tables() -> (Vec<[f32; 8]>, Vec<[[f64; 8]; 2]>) {
    (SINGLE_ROWS.to_vec(), vec![quantile::NEAR, quantile::FAR])
}
