//! Releases of exact sums that the caller has computed.

use crate::error::{OrRaise, invalid};
use crate::key::PySecretKey;
use crate::plan::PyPlan;
use crate::running::cancellable;
use crate::table::ArrowTable;
use crate::watch::{Class, Watch};
use arrow_array::RecordBatchReader;
use evertally::noise::StreamName;
use evertally_declare::error::Result;
use evertally_ledger::noise_log::StepSpan;
use evertally_tables::sums::{self, ReleasedSums, SumColumns, SumsStream};
use pyo3::prelude::*;
use pyo3_arrow::PyRecordBatchReader;
use serde::Deserialize;
use std::sync::atomic::AtomicBool;

/// The source of a table.
type TableSource = dyn RecordBatchReader + Send;

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
    fn parse(keywords: &str) -> PyResult<(Self, StreamName, SumColumns)> {
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
    plan: &PyPlan,
    key: &PySecretKey,
) -> PyResult<ArrowTable> {
    released(py, keywords, table, (plan, key), |stream, table, columns, asked, cancelled| {
        sums::release_sums(stream, table, columns, asked.groups.as_deref(), cancelled)
    })
}

/// Releases increments of steps. Called by `evertally.release_steps`.
#[pyfunction]
#[pyo3(name = "_release_steps")]
pub(crate) fn release_steps(
    py: Python<'_>,
    keywords: &str,
    table: PyRecordBatchReader,
    plan: &PyPlan,
    key: &PySecretKey,
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

fn released<R>(
    py: Python<'_>,
    keywords: &str,
    table: PyRecordBatchReader,
    (plan, key): (&PyPlan, &PySecretKey),
    release: R,
) -> PyResult<ArrowTable>
where
    R: FnOnce(&SumsStream<'_>, &mut TableSource, &SumColumns, &Asked, &AtomicBool) -> Result<ReleasedSums> + Send,
{
    let (asked, name, columns) = Asked::parse(keywords)?;
    let (mut table, plan) = (table.into_reader()?, plan.inner());
    let watch = |group: &[String]| {
        let purpose = serde_json::to_vec(&("sums", group)).expect("texts are plain data");
        Watch::new(Class::Sums, key, &name, &plan.digest(), &purpose)
    };
    let guarded = watch(&[]).key().clone();
    let released = cancellable(py, |cancelled| {
        let stream = SumsStream { plan, key: &guarded, name: &name, confidence: asked.confidence };
        release(&stream, &mut *table, &columns, &asked, cancelled)
    })?;
    let ReleasedSums { table, issued } = released.or_raise()?;
    let marked = |(group, releases): (Vec<String>, Vec<(u64, i128)>)| {
        let watch = watch(&group);
        let mark = |(step, exact): &(u64, i128)| {
            Some(StepSpan::from_step(*step, watch.marker()?.bytes(*step, &exact.to_le_bytes())))
        };
        let mut spans: Vec<StepSpan> = releases.iter().map_while(mark).collect();
        spans.sort_unstable_by_key(|span| span.first);
        spans.dedup();
        (watch, spans)
    };
    let marked: Vec<(Watch, Vec<StepSpan>)> = issued.into_iter().map(marked).collect();
    // All or nothing, as far as this process can check.
    marked.iter().try_for_each(|(watch, spans)| watch.check(spans))?;
    marked.iter().try_for_each(|(watch, spans)| watch.give(py, spans))?;
    Ok(ArrowTable::new(table))
}
