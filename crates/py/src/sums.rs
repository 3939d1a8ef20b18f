//! Exact sums that somebody else has, released.

use crate::error::{OrRaise, invalid};
use crate::key::SecretKey;
use crate::plan::Plan;
use crate::running::cancellable;
use crate::table::ArrowTable;
use arrow_array::{RecordBatch, RecordBatchReader};
use evertally::noise::StreamName;
use evertally_publish::error::Result;
use evertally_tables::sums::{self, Stream, SumColumns};
use pyo3::prelude::*;
use pyo3_arrow::PyRecordBatchReader;
use serde::Deserialize;
use std::sync::atomic::AtomicBool;

/// What a table is read from.
type Rows = dyn RecordBatchReader + Send;

/// The arguments.
#[derive(Deserialize)]
struct Asked {
    name: String,
    group: Vec<String>,
    step: String,
    sum: String,
    confidence: f64,
    groups: Option<Vec<Vec<String>>>,
    #[serde(default)]
    through: u64,
}

impl Asked {
    fn of(keywords: &str) -> PyResult<(Self, StreamName, SumColumns)> {
        let asked: Self = serde_json::from_str(keywords).map_err(|problem| invalid(problem.to_string()))?;
        let name = asked.name.parse::<StreamName>().or_raise()?;
        let columns = SumColumns { groups: asked.group.clone(), step: asked.step.clone(), sum: asked.sum.clone() };
        Ok((asked, name, columns))
    }
}

/// Releases running sums; `keywords` are the arguments as JSON. Called by `evertally.release_sums`.
#[pyfunction]
#[pyo3(name = "_release_sums")]
pub(crate) fn release_sums(
    py: Python<'_>,
    keywords: &str,
    table: PyRecordBatchReader,
    plan: &Plan,
    key: &SecretKey,
) -> PyResult<ArrowTable> {
    released(py, keywords, table, (plan, key), |stream, table, columns, asked, cancelled| {
        sums::release_sums(stream, table, columns, asked.groups.as_deref(), cancelled)
    })
}

/// Releases what steps add. Called by `evertally.release_steps`.
#[pyfunction]
#[pyo3(name = "_release_steps")]
pub(crate) fn release_steps(
    py: Python<'_>,
    keywords: &str,
    table: PyRecordBatchReader,
    plan: &Plan,
    key: &SecretKey,
) -> PyResult<ArrowTable> {
    released(py, keywords, table, (plan, key), |stream, table, columns, asked, cancelled| {
        sums::release_steps(
            stream,
            table,
            columns,
            asked.groups.as_deref().unwrap_or_default(),
            asked.through,
            cancelled,
        )
    })
}

fn released(
    py: Python<'_>,
    keywords: &str,
    table: PyRecordBatchReader,
    (plan, key): (&Plan, &SecretKey),
    release: impl FnOnce(&Stream<'_>, &mut Rows, &SumColumns, &Asked, &AtomicBool) -> Result<RecordBatch> + Send,
) -> PyResult<ArrowTable> {
    let (asked, name, columns) = Asked::of(keywords)?;
    let (mut table, plan, key) = (table.into_reader()?, plan.inner(), key.inner());
    let released = cancellable(py, |cancelled| {
        let stream = Stream { plan, key, name: &name, confidence: asked.confidence };
        release(&stream, &mut *table, &columns, &asked, cancelled)
    })?;
    released.or_raise().map(ArrowTable::of)
}
