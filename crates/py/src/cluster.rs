//! The work of the processes of a cluster. Called by `evertally.spark`.

use crate::error::{OrRaise, OrRaiseWorded, invalid};
use crate::key::PySecretKey;
use crate::request::declaration;
use crate::running::{abandonable, cancellable};
use crate::table::{ArrowTable, wording};
use arrow_array::{ArrayRef, BinaryArray, Int32Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, TimeUnit};
use evertally::noise::SecretKey as Key;
use evertally::number::Grid;
use evertally::plan::{Plan, SearchObserver};
use evertally_cluster::{BucketRows, ClusterJob, Digest, Digests, Reader, ReaderOutput, RowKind, Shard, ShuffleRow};
use evertally_declare::declaration::Declaration;
use evertally_declare::error::{PipelineError, Result, failure, usage};
use evertally_declare::event::Columns;
use evertally_declare::problem::Wording;
use evertally_declare::stream::OutOfBounds;
use evertally_tables::cluster::{
    ReleasedSchema, buckets_of, for_each_block, for_each_sum, named_sums, of_blocks, of_rows, read, to_rows,
};
use evertally_tables::input::ReadOptions;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3_arrow::{PyRecordBatch, PyRecordBatchReader};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// The name of the column of counts in the engine.
const COUNTS: &str = "evertally count";

/// Everything that a process needs, except the key.
#[derive(Serialize, Deserialize)]
struct WorkMessage {
    /// The declaration, as JSON.
    declared: String,
    /// Whether it is that of a service, which keeps the ledger and draws the noise.
    of_service: bool,
    /// The plan that was chosen, as JSON.
    plan: String,
    /// The digest of everything that was planned, in hexadecimal.
    digest: String,
    /// The fingerprint of the key.
    key: String,
}

impl WorkMessage {
    /// The work of a process that has the key.
    fn work(&self, key: Arc<Key>) -> Result<(ClusterJob, ReadOptions)> {
        let plan = serde_json::from_str::<Plan>(&self.plan).map_err(damaged)?;
        let settings = Declaration::from_json(&self.declared)?.resolve()?;
        let settings = if self.of_service { settings } else { settings.truncated_to_complete_rows()? };
        let options = ReadOptions { missing: settings.missing_text.clone(), ..ReadOptions::default() };
        let groups = settings.groups();
        let stream = settings.arrived(plan, &self.digest)?;
        let stream = if self.of_service { stream.through_horizon() } else { stream };
        Ok((ClusterJob::new(stream, groups, key)?, options))
    }

    fn text(&self) -> Result<String> {
        serde_json::to_string(self).map_err(failure)
    }
}

fn damaged(problem: serde_json::Error) -> PipelineError {
    usage(format!("cannot read the shipped work: {problem}"))
}

/// The work on one release, as known to every process of a cluster.
#[pyclass(frozen, name = "_ClusterWork", module = "evertally")]
pub(crate) struct ClusterWork {
    pub(crate) work: ClusterJob,
    options: ReadOptions,
    shipped: String,
}

/// The facts that the driver needs to route rows.
#[derive(Serialize)]
struct DriverFacts {
    persons: bool,
    discovers: bool,
    time: String,
    time_of_day: Option<String>,
    labels: Vec<String>,
    person: Option<String>,
    value: Option<String>,
    /// The columns of the filter.
    filter: Vec<String>,
    last_step: u64,
    groups: usize,
    /// The number of sums of a step.
    sums: usize,
    /// A width in microseconds of time intervals; no step boundary lies inside one.
    width: i64,
    /// The bounds of integer values that the engine may clamp and add up itself.
    bounds: Option<(i64, i64)>,
    missing_text: bool,
    counts: &'static str,
    /// Whether each event must be read by itself: for several measures or workloads, or for a filter.
    one_by_one: bool,
}

#[pymethods]
impl ClusterWork {
    /// Plans a release under a declaration in JSON. The steps of a `live` stream are recorded in another ledger. Errors
    /// name keywords, or the `fields` of the stream.
    #[staticmethod]
    #[pyo3(signature = (json, key, budget_file = None, live = false, fields = false))]
    fn begin(
        py: Python<'_>,
        json: &str,
        key: &PySecretKey,
        budget_file: Option<PathBuf>,
        live: bool,
        fields: bool,
    ) -> PyResult<Self> {
        let declared = declaration(json, wording(fields))?;
        let begun = cancellable(py, |cancelled| {
            let settings = declared.resolve()?.truncated_to_complete_rows()?;
            let options = ReadOptions { missing: settings.missing_text.clone(), ..ReadOptions::default() };
            key.with_ledger(budget_file.as_deref(), cancelled, |ledger| {
                let (settings, present) = settings.observed(&SearchObserver::until(cancelled.clone())).begun(ledger)?;
                let groups = settings.groups().map_or(0, |table| table.tuples().len());
                if present.is_some_and(|present| present.present != groups) {
                    return Err(usage(
                        "the stream began without some of these groups, and on a cluster no groups can join: name the \
                         groups that it has, or use another name (its budget then adds to the budget already spent)",
                    ));
                }
                let (stream, groups) = evertally_ledger::planner::plan(settings, &mut |_| ())?;
                let plan = serde_json::to_string(&stream.plan).map_err(failure)?;
                let work = ClusterJob::new(stream, groups, Arc::clone(key.inner()))?;
                if !live {
                    work.stream().check_ends()?;
                    // Refuses now what could not be recorded at the end.
                    ledger.digest_of(key.inner(), work.stream(), work.stream().last_step)?;
                }
                let (declared, key) = (json.to_owned(), key.inner().id().to_string());
                let digest = evertally::hex(&work.stream().plan_digest());
                let shipped = WorkMessage { declared, of_service: false, plan, digest, key };
                Ok(Self { work, options, shipped: shipped.text()? })
            })
        })?;
        begun.or_raise_in(wording(fields))
    }

    /// Reconstructs the work in another process from its [shipped](Self::shipped) form.
    #[staticmethod]
    fn arrived(py: Python<'_>, shipped: &str, key: &PySecretKey) -> PyResult<Self> {
        let (key, shipped) = (Arc::clone(key.inner()), shipped.to_owned());
        let arrived = move || -> Result<Self> {
            let read: WorkMessage = serde_json::from_str(&shipped).map_err(damaged)?;
            let (expected, found) = (&read.key, key.id().to_string());
            if found != *expected {
                return Err(usage(format!(
                    "this worker has the key {found}, but the release uses {expected}: put the same key file on every \
                     worker"
                )));
            }
            let (work, options) = read.work(key)?;
            Ok(Self { work, options, shipped })
        };
        abandonable(py, arrived)?.or_raise()
    }

    /// The work for a stream of a service, as the service has declared and planned it: the key pseudonymises people,
    /// and draws no noise.
    #[staticmethod]
    fn from_service(
        py: Python<'_>,
        declaration: String,
        plan: String,
        digest: String,
        key: &PySecretKey,
    ) -> PyResult<Self> {
        let key = Arc::clone(key.inner());
        let begun = move || -> Result<Self> {
            let key_id = key.id().to_string();
            let shipped = WorkMessage { declared: declaration, of_service: true, plan, digest, key: key_id };
            let (work, options) = shipped.work(key)?;
            Ok(Self { work, options, shipped: shipped.text()? })
        };
        abandonable(py, begun)?.or_raise()
    }

    /// Sums with the names of their groups, for a service: the columns of the group, `step`, and `sum` as exact text.
    /// Rows that are not sums are omitted.
    fn named_sums(&self, py: Python<'_>, sums: Vec<PyRecordBatch>) -> PyResult<ArrowTable> {
        let sums: Vec<RecordBatch> = sums.into_iter().map(PyRecordBatch::into_inner).collect();
        py.detach(|| named_sums(&self.work, &sums)).or_raise().map(ArrowTable::new)
    }

    /// Everything that another process needs, except the key; nothing in it is secret.
    fn shipped(&self) -> &str {
        &self.shipped
    }

    /// An identifier of key, name and plan together.
    #[getter]
    fn identity(&self) -> String {
        self.work.identity()
    }

    /// The facts that the driver needs, as JSON.
    fn facts(&self) -> PyResult<String> {
        let stream = self.work.stream();
        let are_whole = stream.plan.request().grid() == Grid::ONE
            && stream.out_of_bounds == OutOfBounds::Clamp
            && self.work.groups().is_none_or(|table| table.scales().iter().all(|scale| *scale == Grid::ONE));
        let groups = self.work.groups().map_or(1, |table| table.tuples().len());
        let facts = DriverFacts {
            persons: self.work.has_persons(),
            discovers: self.work.discovers(),
            time: stream.columns.time.clone(),
            time_of_day: stream.columns.time_of_day.clone(),
            labels: stream.columns.labels.clone(),
            person: stream.columns.person.clone(),
            value: stream.columns.value.clone(),
            filter: stream.columns.filter.clone(),
            last_step: stream.last_step,
            groups,
            sums: groups * stream.measures.as_ref().map_or(1, |bundle| bundle.cells()),
            width: stream.calendar.common_width(),
            bounds: are_whole.then(|| stream.values.bounds()),
            missing_text: !self.options.missing.is_empty(),
            counts: COUNTS,
            one_by_one: stream.measures.is_some() || stream.filter.is_some(),
        };
        serde_json::to_string(&facts).map_err(|problem| invalid(problem.to_string()))
    }

    /// An empty table with the columns of the released table; `time` is the kind of the time column.
    fn released(&self, time: &str) -> PyResult<ArrowTable> {
        let released = ReleasedSchema::new(&self.work, &time_type(time)?).or_raise()?;
        Ok(ArrowTable::new(RecordBatch::new_empty(released.schema().or_raise()?)))
    }

    /// A fingerprint per step of whose events were kept.
    fn evidence(&self, py: Python<'_>, sums: Vec<PyRecordBatch>) -> PyResult<Vec<(u64, String)>> {
        let sums: Vec<RecordBatch> = sums.into_iter().map(PyRecordBatch::into_inner).collect();
        let found = py.detach(|| -> Result<_> {
            let rows = sums.iter().map(to_rows).collect::<Result<Vec<_>>>()?;
            Ok(self.work.evidence(&rows.concat()))
        });
        found.or_raise()
    }

    /// A reader of events, or of rows of counts; events of people are split into `shards` shards.
    fn reader(&self, shards: u32, counts: bool) -> PyResult<PyClusterReader> {
        let stream = self.work.stream();
        let mut columns = stream.columns.clone();
        let reader = match counts {
            true => self.work.reader_of_counts(Wording::Keywords),
            false => self.work.reader(shards, Wording::Keywords),
        };
        if counts {
            columns.value = Some(COUNTS.to_owned());
        }
        let reader = reader.or_raise()?;
        Ok(PyClusterReader { reader: Mutex::new(reader), columns, options: self.options.clone(), counts })
    }

    /// A reader of events buffered in shards until their steps end.
    fn waiting_reader(&self, shards: u32) -> PyResult<PyClusterReader> {
        let (columns, options) = (self.work.stream().columns.clone(), self.options.clone());
        let reader = self.work.waiting_reader(shards, Wording::Keywords).or_raise()?;
        Ok(PyClusterReader { reader: Mutex::new(reader), columns, options, counts: false })
    }

    /// The last step that has ended by a time, in microseconds since 1970.
    fn ended_by(&self, micros: i64) -> u64 {
        self.work.ended_by(micros)
    }

    /// When a step ends, in microseconds since 1970.
    fn end_of(&self, step: u64) -> PyResult<i64> {
        self.work.end_of(step).or_raise()
    }

    /// Closes the steps of a shard after one step through another. Returns the state of its people, its buffered
    /// events, the first step with buffered events, and the sums.
    #[allow(clippy::type_complexity)]
    fn close_shard<'py>(
        &self,
        py: Python<'py>,
        steps: (u64, u64),
        persons: Option<Vec<u8>>,
        waiting: Vec<Vec<u8>>,
    ) -> PyResult<(
        Option<Bound<'py, PyBytes>>,
        Vec<Bound<'py, PyBytes>>,
        Option<u64>,
        Vec<(u64, Bound<'py, PyBytes>, i64)>,
    )> {
        let left = py.detach(|| self.work.close_shard(steps.0, steps.1, persons.as_deref(), waiting)).or_raise()?;
        let bytes = |bytes: &[u8]| PyBytes::new(py, bytes);
        let rows = left.rows.iter().map(|row| (row.step, bytes(&row.label), row.sum)).collect();
        Ok((
            left.persons.as_deref().map(bytes),
            left.waiting.iter().map(|block| bytes(block)).collect(),
            left.next,
            rows,
        ))
    }

    /// The contribution bounding for some shards.
    fn shard(&self) -> PyResult<Bounding> {
        let shard = self.work.shard().or_raise()?;
        Ok(Bounding { shard: Mutex::new(Some(shard)) })
    }

    /// Digests of sums with a column of buckets, by step (kind 0) and by bucket (kind 1); and the rows that are not
    /// sums, unchanged (kind 2).
    fn digests(&self, py: Python<'_>, sums: PyRecordBatch) -> PyResult<ArrowTable> {
        let sums = sums.into_inner();
        py.detach(|| digests(&self.work, &sums)).or_raise().map(ArrowTable::new)
    }

    /// Records the upcoming release: for each digest, its step and 40 bytes. Afterwards it may be published.
    #[pyo3(signature = (key, digests, budget_file = None))]
    fn record(
        &self,
        py: Python<'_>,
        key: &PySecretKey,
        digests: Vec<(u64, Vec<u8>)>,
        budget_file: Option<PathBuf>,
    ) -> PyResult<()> {
        let recorded = cancellable(py, |cancelled| {
            let mut all = Digests::default();
            for (step, digest) in &digests {
                all.add_step(*step, Digest::from_bytes(digest)?);
            }
            key.with_ledger(budget_file.as_deref(), cancelled, |ledger| self.work.record(&all, ledger))
        })?;
        recorded.or_raise()
    }

    /// The releases of one of `buckets` buckets, from its sums, which must match this digest; none if it has no sums.
    fn release(
        &self,
        py: Python<'_>,
        place: (u32, u32),
        sums: Vec<PyRecordBatch>,
        digest: Option<Vec<u8>>,
        time: &str,
    ) -> PyResult<Releasing> {
        let sums: Vec<RecordBatch> = sums.into_iter().map(PyRecordBatch::into_inner).collect();
        let kind = time_type(time)?;
        let released = py.detach(|| -> Result<(BucketRows, ReleasedSchema)> {
            let mut bucket = self.work.bucket(place.0, place.1)?;
            for batch in &sums {
                for_each_sum(batch, |_, step, label, sum| match label {
                    [] => Ok(()), // marks the bucket as present
                    label => bucket.add(step, label, sum),
                })?;
            }
            let recorded = digest.as_deref().map_or_else(|| Ok(Digest::default()), Digest::from_bytes)?;
            Ok((bucket.release(recorded)?, ReleasedSchema::new(&self.work, &kind)?))
        });
        let (rows, released) = released.or_raise()?;
        Ok(Releasing { rows: Mutex::new(rows), released })
    }
}

/// Reads events in one process.
#[pyclass(frozen, name = "_ClusterReading", module = "evertally")]
pub(crate) struct PyClusterReader {
    reader: Mutex<Reader>,
    columns: Columns,
    options: ReadOptions,
    counts: bool,
}

#[pymethods]
impl PyClusterReader {
    /// Reads a batch; true if enough rows are buffered that they should be taken out.
    fn read(&self, py: Python<'_>, events: PyRecordBatchReader) -> PyResult<bool> {
        let mut events = events.into_reader()?;
        let read = cancellable(py, |cancelled| -> Result<bool> {
            let mut reader = self.reader.lock().expect("no holder panics");
            read(&mut reader, &mut *events, &self.columns, &self.options, self.counts, cancelled)?;
            Ok(reader.is_full())
        });
        read?.or_raise()
    }

    /// The latest time of an event, in microseconds since 1970; ``None`` before the first.
    #[getter]
    fn latest(&self) -> Option<i64> {
        self.reader.lock().expect("no holder panics").latest()
    }

    /// Takes out the rows read so far: sums, or blocks.
    fn take(&self, py: Python<'_>) -> PyResult<ArrowTable> {
        let taken = py.detach(|| match self.reader.lock().expect("no holder panics").take() {
            ReaderOutput::Sums(rows) => of_rows(&rows),
            ReaderOutput::Blocks(blocks) => of_blocks(&blocks),
        });
        taken.or_raise().map(ArrowTable::new)
    }
}

/// Bounds people's contributions in one process.
#[pyclass(frozen, name = "_ClusterBounding", module = "evertally")]
pub(crate) struct Bounding {
    shard: Mutex<Option<Shard>>,
}

#[pymethods]
impl Bounding {
    /// Adds a batch of blocks.
    fn add(&self, py: Python<'_>, blocks: PyRecordBatch) -> PyResult<()> {
        let blocks = blocks.into_inner();
        let added = py.detach(|| {
            let mut shard = self.shard.lock().expect("no holder panics");
            let shard = shard.as_mut().ok_or_else(|| usage("the shard was bounded already"))?;
            for_each_block(&blocks, |number, block| shard.add(number, block.to_vec()))
        });
        added.or_raise()
    }

    /// The sums, in several tables.
    fn finish(&self, py: Python<'_>) -> PyResult<Vec<ArrowTable>> {
        let finished = py.detach(|| {
            let shard = self.shard.lock().expect("no holder panics").take();
            let mut batches = Vec::new();
            let shard = shard.ok_or_else(|| usage("the shard was bounded already"))?;
            shard.finish(|rows| of_rows(&rows).map(|batch| batches.push(batch)))?;
            Ok::<_, PipelineError>(batches)
        });
        Ok(finished.or_raise()?.into_iter().map(ArrowTable::new).collect())
    }
}

/// Releases of one bucket, in order of its steps.
#[pyclass(frozen, name = "_ClusterReleasing", module = "evertally")]
pub(crate) struct Releasing {
    rows: Mutex<BucketRows>,
    released: ReleasedSchema,
}

#[pymethods]
impl Releasing {
    /// The next rows; ``None`` at the end.
    fn take(&self, py: Python<'_>) -> PyResult<Option<ArrowTable>> {
        let never = AtomicBool::new(false);
        let next = py.detach(|| self.released.next(&mut self.rows.lock().expect("no holder panics"), &never));
        Ok(next.or_raise()?.map(ArrowTable::new))
    }
}

/// The column type for times of this kind.
pub(crate) fn time_type(time: &str) -> PyResult<DataType> {
    match time {
        "instant" => Ok(DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))),
        "civil" => Ok(DataType::Timestamp(TimeUnit::Microsecond, None)),
        "date" => Ok(DataType::Date32),
        "text" => Ok(DataType::Utf8),
        _ => Err(invalid(format!("unknown kind of times {time:?}"))),
    }
}

fn digests(work: &ClusterJob, sums: &RecordBatch) -> Result<RecordBatch> {
    let (mut all, mut digesting, mut others) = (Digests::default(), work.digesting(), BTreeMap::new());
    let buckets = buckets_of(sums)?;
    for_each_sum(sums, |row, step, label, sum| {
        let bucket = buckets.value(row) as u32; // fits: none is below 0
        match ShuffleRow::says(label)? {
            RowKind::Place(_) | RowKind::Cell(..) | RowKind::Name(_) => {
                let digest = digesting.of(step, label, sum);
                all.add_step(step, digest);
                all.add_bucket(bucket, digest);
            }
            RowKind::Refused(_) | RowKind::Shard(_) | RowKind::Kept(_) => {
                *others.entry(label.to_vec()).or_insert(0) += sum;
            }
        }
        Ok(())
    })?;
    let steps = all.steps().map(|(step, digest)| (0, step as i64, Vec::new(), digest)); // fits: below 2^62
    let buckets = all.buckets().map(|(bucket, digest)| (1, i64::from(bucket), Vec::new(), digest));
    let others = others.into_iter().map(|(label, count)| (2, 0, label, Digest::from_count(count)));
    let rows: Vec<(i32, i64, Vec<u8>, Digest)> = steps.chain(buckets).chain(others).collect();
    let lane = |lane: usize| Int64Array::from_iter_values(rows.iter().map(|row| i64::from(row.3.lanes()[lane])));
    let mut columns: Vec<(String, ArrayRef)> = vec![
        ("kind".into(), Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.0)))),
        ("index".into(), Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1)))),
        ("label".into(), Arc::new(BinaryArray::from_iter_values(rows.iter().map(|row| &row.2)))),
        ("count".into(), Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.3.count())))),
    ];
    columns.extend((0..8).map(|number| (format!("lane{number}"), Arc::new(lane(number)) as ArrayRef)));
    RecordBatch::try_from_iter(columns).map_err(failure)
}
