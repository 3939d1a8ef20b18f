//! Tables as streams of Arrow record batches, for a remote service.

use crate::error::invalid;
use crate::table::ArrowTable;
use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::ArrowError;
use arrow_select::concat::concat_batches;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use pyo3_arrow::PyRecordBatchReader;

/// Splits the rows of a table into parts of at most `rows`, each a separate stream. The same rows give the same bytes,
/// whatever the chunks of the table.
#[pyfunction]
#[pyo3(name = "_to_ipc")]
pub(crate) fn to_ipc(py: Python<'_>, table: PyRecordBatchReader, rows: usize) -> PyResult<Vec<Bound<'_, PyBytes>>> {
    let reader = table.into_reader()?;
    let written: Result<Vec<Vec<u8>>, ArrowError> = py.detach(move || {
        let schema = reader.schema();
        let batches = reader.collect::<Result<Vec<_>, _>>()?;
        let whole = concat_batches(&schema, &batches)?;
        let starts = (0..whole.num_rows().max(1)).step_by(rows.max(1));
        starts.map(|start| stream_of(&whole.slice(start, rows.min(whole.num_rows() - start)))).collect()
    });
    let parts = written.map_err(|e| invalid(format!("the table: {e}")))?;
    Ok(parts.iter().map(|part| PyBytes::new(py, part)).collect())
}

fn stream_of(rows: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
    let mut writer = StreamWriter::try_new(Vec::new(), &rows.schema())?;
    writer.write(rows)?;
    writer.into_inner()
}

/// The table of one or several streams of record batches, one after another.
#[pyfunction]
#[pyo3(name = "_from_ipc")]
pub(crate) fn from_ipc(py: Python<'_>, streams: Vec<PyBackedBytes>) -> PyResult<ArrowTable> {
    let read = py.detach(|| {
        let (mut schema, mut batches) = (None, Vec::new());
        for stream in &streams {
            let reader = StreamReader::try_new(&stream[..], None)?;
            schema.get_or_insert_with(|| reader.schema());
            for batch in reader {
                batches.push(batch?);
            }
        }
        let schema = schema.ok_or_else(|| ArrowError::IpcError("there is no stream".to_owned()))?;
        concat_batches(&schema, &batches)
    });
    read.map(ArrowTable::new).map_err(|e: ArrowError| invalid(format!("the answer is not an Arrow table: {e}")))
}
