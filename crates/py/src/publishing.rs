//! The driver of a stream that a cluster closes step by step: called by `evertally.spark`.

use crate::cluster::{ClusterWork, time_type};
use crate::error::OrRaise;
use crate::key::PySecretKey;
use crate::running::cancellable;
use crate::table::ArrowTable;
use arrow_array::RecordBatch;
use evertally_cluster::{Once, Publisher, RowKind, ShuffleRow, WriteOnceFolder};
use evertally_declare::error::{Result, failure};
use evertally_tables::cluster::{ReleaseRows, ReleasedSchema, to_rows};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3_arrow::PyRecordBatch;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

/// The driver of a stream that never ends.
#[pyclass(frozen, name = "_ClusterPublisher", module = "evertally")]
pub(crate) struct Publishing {
    publisher: Mutex<Publisher>,
    released: ReleasedSchema,
}

#[pymethods]
impl Publishing {
    /// Opens the driver's part of some work, with a ledger in a folder, or in an object store that has `create`,
    /// `read`, `replace` and `forget`.
    #[staticmethod]
    #[pyo3(signature = (work, key, ledger, time, budget_file = None))]
    fn open(
        py: Python<'_>,
        work: &ClusterWork,
        key: &PySecretKey,
        ledger: ClusterLedger,
        time: &str,
        budget_file: Option<PathBuf>,
    ) -> PyResult<Self> {
        let released = ReleasedSchema::new(&work.work, &time_type(time)?).or_raise()?;
        let opened = cancellable(py, |cancelled| {
            let once: Box<dyn Once> = match ledger {
                ClusterLedger::Folder(path) => Box::new(WriteOnceFolder::open(&path)?),
                ClusterLedger::Objects(store) => Box::new(Objects(store)),
            };
            key.with_ledger(budget_file.as_deref(), cancelled, |ledger| {
                Publisher::open(work.work.clone(), once, ledger)
            })
        })?;
        Ok(Self { publisher: Mutex::new(opened.or_raise()?), released })
    }

    /// Closes steps for a batch of a query, and returns their releases, which may then be published.
    fn close(
        &self,
        py: Python<'_>,
        key: &PySecretKey,
        query: &str,
        batch: u64,
        through: u64,
        sums: Vec<PyRecordBatch>,
    ) -> PyResult<Vec<(u64, ArrowTable)>> {
        let sums: Vec<RecordBatch> = sums.into_iter().map(PyRecordBatch::into_inner).collect();
        let closed = cancellable(py, |cancelled| -> Result<Vec<(u64, RecordBatch)>> {
            let mut rows = Vec::new();
            for batch in &sums {
                rows.extend(
                    to_rows(batch)?
                        .into_iter()
                        .filter(|row| !matches!(ShuffleRow::says(&row.label), Ok(RowKind::Shard(_)))),
                );
            }
            let mut by_step: BTreeMap<u64, ReleaseRows<'_>> = BTreeMap::new();
            let mut publisher = self.publisher.lock().expect("no holder panics");
            publisher.close(query, batch, through, &rows, |step, row| {
                by_step.entry(step).or_insert_with(|| self.released.begin()).push(row)
            })?;
            if let Some((step, chain)) = publisher.head() {
                key.with_ledger(None, cancelled, |ledger| ledger.note_left(publisher.name(), step, &chain))?;
            }
            by_step.into_iter().map(|(step, rows)| Ok((step, rows.finish()?))).collect()
        })?;
        Ok(closed.or_raise()?.into_iter().map(|(step, rows)| (step, ArrowTable::of(rows))).collect())
    }
}

/// The location of a cluster's ledger.
#[derive(FromPyObject)]
enum ClusterLedger {
    Folder(PathBuf),
    Objects(Py<PyAny>),
}

/// An object store implemented in Python.
struct Objects(Py<PyAny>);

impl Objects {
    fn call<T>(&self, read: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<T>) -> Result<T> {
        let called = Python::attach(|py| read(py, self.0.bind(py)));
        called.map_err(|problem| failure(format!("the ledger {} failed: {problem}", self.shown())))
    }
}

impl Once for Objects {
    fn create(&self, name: &str, bytes: &[u8]) -> Result<Option<Vec<u8>>> {
        self.call(|py, store| store.call_method1("create", (name, PyBytes::new(py, bytes)))?.extract())
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.call(|_, store| store.call_method1("read", (name,))?.extract())
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.call(|py, store| store.call_method1("replace", (name, PyBytes::new(py, bytes))).map(drop))
    }

    fn forget(&self, name: &str) {
        let _ = self.call(|_, store| store.call_method1("forget", (name,)).map(drop));
    }

    fn shown(&self) -> String {
        Python::attach(|py| self.0.bind(py).str().map_or_else(|_| "of objects".to_owned(), |text| text.to_string()))
    }
}
