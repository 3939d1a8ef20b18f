//! A declaration with its plan.

use crate::store::StreamRecord;
use evertally_declare::declaration::Declaration;
use evertally_declare::error::{Result, usage};
use evertally_declare::groups::GroupTable;
use evertally_declare::records::Records;
use evertally_declare::stream::Stream;
use evertally_ledger::ledger::{Follows, Ledger};
use evertally_tables::output::TableSpec;

/// A declaration with its plan.
#[derive(Clone)]
pub(super) struct Resolved {
    pub(super) stream: Stream,
    pub(super) groups: Option<GroupTable>,
}

impl Resolved {
    /// Resolves a declaration, under the stream's original plan if it is on record.
    pub(super) fn new(declaration: &str, records: Option<&dyn Records>, follows: Option<Follows>) -> Result<Self> {
        let declared = Declaration::from_json(declaration)?;
        declared.check_service()?;
        let mut settings = declared.resolve()?;
        if let Some(records) = records {
            settings = settings.begun(records)?.0;
        }
        let (mut stream, groups) = evertally_ledger::planner::plan(settings, &mut |_| ())?;
        stream.follows = follows;
        Ok(Self { stream, groups })
    }

    pub(super) fn from_record(record: &StreamRecord, ledger: &Ledger, follows: Option<Follows>) -> Result<Self> {
        Self::new(&record.declaration, Some(ledger), follows)
    }
}

/// The names of all lines that are known before the first event.
pub(super) fn lines_of(resolved: &Resolved) -> Vec<Vec<String>> {
    let Resolved { stream, groups, .. } = resolved;
    if stream.plan.threshold().is_some() {
        return Vec::new();
    }
    let tuples = groups.as_ref().map_or_else(|| vec![Vec::new()], |table| table.tuples().to_vec());
    let Some(bundle) = &stream.measures else { return tuples };
    let labels = bundle.labels();
    let line = |tuple: &Vec<String>, label: &String| [tuple.as_slice(), std::slice::from_ref(label)].concat();
    tuples.iter().flat_map(|tuple| labels.iter().map(move |label| line(tuple, label))).collect()
}

pub(super) fn table_of(stream: &Stream) -> Result<TableSpec> {
    let table = TableSpec::from_stream(stream).map_err(usage)?;
    Ok(table.with_instants(stream.calendar.zone()))
}
