//! Releases of event tables.

use crate::error::{OrRaise, OrRaiseWorded, invalid};
use crate::key::PySecretKey;
use crate::plan::PyPlan;
use crate::request::declaration;
use crate::running::{cancellable, searching};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchReader, StructArray};
use arrow_schema::{DataType, Field};
use evertally::plan::SearchObserver;
use evertally_declare::declaration::Declaration;
use evertally_declare::error::Result;
use evertally_declare::problem::Wording;
use evertally_publish::session::Session;
use evertally_tables::history::{ComparedWith, HistoryQuery, ask_batches};
use evertally_tables::input::ReadOptions;
use evertally_tables::released::release_table as release_events;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3_arrow::PyRecordBatchReader;
use pyo3_arrow::ffi::{ArrayIterator, to_stream_pycapsule};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// An Arrow table. Any library that reads the Arrow PyCapsule interface (``__arrow_c_stream__``) can use it without a
/// copy, for example ``pyarrow.table(...)`` or ``polars.DataFrame(...)``.
#[pyclass(frozen, module = "evertally")]
pub(crate) struct ArrowTable(RecordBatch);

impl ArrowTable {
    pub(crate) fn new(rows: RecordBatch) -> Self {
        Self(rows)
    }
}

#[pymethods]
impl ArrowTable {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let fields = self.0.schema().fields().clone();
        let field = Arc::new(Field::new("", DataType::Struct(fields), false));
        let rows: ArrayRef = Arc::new(StructArray::from(self.0.clone()));
        let stream = ArrayIterator::new([Ok(rows)], field);
        Ok(to_stream_pycapsule(py, Box::new(stream), requested_schema)?)
    }

    /// Names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.0.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    fn __repr__(&self) -> String {
        format!("ArrowTable({} rows: {})", self.0.num_rows(), self.column_names().join(", "))
    }
}

/// Releases a table under a declaration in JSON. Called by `evertally.release` and `evertally.Stream.release`; errors
/// name keywords, or the `fields` of the stream.
#[pyfunction]
#[pyo3(name = "_release_table", signature = (declared, table, key, budget_file = None, fields = false))]
pub(crate) fn release_table(
    py: Python<'_>,
    declared: &str,
    table: PyRecordBatchReader,
    key: &PySecretKey,
    budget_file: Option<PathBuf>,
    fields: bool,
) -> PyResult<ArrowTable> {
    let wording = wording(fields);
    let declared = declaration(declared, wording)?;
    let mut reader = table.into_reader()?;
    let budget_file = budget_file.as_deref();
    let released = cancellable(py, |cancelled| released(&declared, &mut *reader, key, budget_file, cancelled))?;
    released.or_raise_in(wording).map(ArrowTable)
}

/// The plan of a declaration in JSON. Called by `evertally.plan_release` and `evertally.Stream.plan`.
#[pyfunction]
#[pyo3(name = "_plan_table", signature = (declared, fields = false))]
pub(crate) fn plan_table(py: Python<'_>, declared: &str, fields: bool) -> PyResult<PyPlan> {
    let wording = wording(fields);
    let declared = declaration(declared, wording)?;
    searching(py, move |observer| plan_of(&declared, observer))?.or_raise_in(wording).map(PyPlan::new)
}

/// Answers a query about a released table; `keywords` are the arguments as JSON. Called by `evertally.interval`.
#[pyfunction]
#[pyo3(name = "_interval_table")]
pub(crate) fn interval_table(
    py: Python<'_>,
    keywords: &str,
    table: PyRecordBatchReader,
    plan: &PyPlan,
) -> PyResult<ArrowTable> {
    #[derive(serde::Deserialize)]
    struct Asked {
        start: Option<String>,
        end: Option<String>,
        groups: Vec<String>,
        ratio_to: Option<(String, String)>,
        ratio_to_groups: Vec<String>,
        share: bool,
        confidence: f64,
    }
    let asked: Asked = serde_json::from_str(keywords).map_err(|problem| invalid(problem.to_string()))?;
    let compared_with = match (asked.ratio_to, asked.ratio_to_groups, asked.share) {
        (None, groups, false) if groups.is_empty() => ComparedWith::Nothing,
        (None, groups, true) if groups.is_empty() => ComparedWith::All,
        (None, groups, false) => ComparedWith::Groups(groups),
        (Some((from, to)), groups, false) if groups.is_empty() => ComparedWith::Stretch(from, to),
        _ => return Err(invalid("pass only one of ratio_to, ratio_to_group and share")),
    };
    let question = HistoryQuery {
        from: asked.start,
        to: asked.end,
        groups: asked.groups,
        compared_with,
        confidence: asked.confidence,
    };
    let plan = plan.inner().clone();
    let batches =
        table.into_reader()?.collect::<std::result::Result<Vec<_>, _>>().map_err(|e| invalid(e.to_string()))?;
    let answer = cancellable(py, |cancelled| ask_batches(&batches, &plan, &question, cancelled)?.table())?;
    answer.or_raise().map(ArrowTable)
}

/// Releases a table under the ledger of the key.
fn released(
    declared: &Declaration,
    table: &mut (dyn RecordBatchReader + Send),
    key: &PySecretKey,
    budget_file: Option<&Path>,
    cancelled: &Arc<AtomicBool>,
) -> Result<RecordBatch> {
    let settings =
        declared.resolve()?.truncated_to_complete_rows()?.observed(&SearchObserver::until(cancelled.clone()));
    let options = ReadOptions { missing: settings.missing_text.clone(), ..ReadOptions::default() };
    key.with_ledger(budget_file, cancelled, |ledger| {
        // Uses the plan with which the stream began, if it exists already.
        let (settings, _) = settings.begun(ledger)?;
        let (stream, groups) = evertally_ledger::planner::plan(settings, &mut |_| ())?;
        stream.check_ends()?;
        let session = Session::new_sums(stream, groups, key.inner(), ledger)?;
        release_events(session, table, &options, ledger, cancelled)
    })
}

/// The plan of a declaration.
fn plan_of(declared: &Declaration, observer: &SearchObserver) -> Result<evertally::plan::Plan> {
    Ok(evertally_ledger::planner::plan(declared.resolve()?.observed(observer), &mut |_| ())?.0.plan)
}

/// What errors call a parameter: a field of the declaration objects, or a keyword.
pub(crate) fn wording(fields: bool) -> Wording {
    if fields { Wording::Fields } else { Wording::Keywords }
}
