//! Reading released rows as they were committed.

use super::computing::{FIRST_OWN_BLOCK, ROWS_PER_BLOCK};
use super::info::{StreamInfo, StreamProgress};
use crate::store::{CLOSED, ClosedRecord, LATE, LateRecord, ROWS, RowBlock, Store, StoredRow, from_bytes, stored};
use evertally_declare::error::{Result, failure};
use evertally_publish::rows::{ReleaseRow, ReleasedValue, ViewRow};
use std::ops::RangeInclusive;

/// The selection of rows.
#[derive(Clone, Debug)]
pub struct RowsQuery {
    /// The publications, from 1; those that are not shown yet have no rows.
    pub publications: RangeInclusive<u64>,
    /// The places of the selected lines, rising; `None` for all.
    pub places: Option<Vec<u32>>,
    /// Keeps only the steps that are multiples of this number, and the last; 1 for all.
    pub every: u64,
    /// The last publication, if this query is a part of a larger one.
    pub kept: Option<u64>,
}

impl RowsQuery {
    /// All rows of some publications.
    pub fn new(publications: RangeInclusive<u64>) -> Self {
        Self { publications, places: None, every: 1, kept: None }
    }
}

/// Late events that were set aside, of batches after number `behind`: the texts of each, and where to continue.
pub(super) fn late(
    store: &Store,
    info: &StreamInfo,
    behind: u64,
    most: usize,
) -> Result<(Vec<Vec<String>>, Option<u64>)> {
    let (table, number) = (store.look()?.open_table(LATE).map_err(stored)?, info.number);
    let mut events = Vec::new();
    for entry in table.range((number, behind.saturating_add(1))..=(number, u64::MAX)).map_err(stored)? {
        let (key, bytes) = entry.map_err(stored)?;
        events.extend(from_bytes::<LateRecord>(bytes.value(), "late events")?.rows);
        if events.len() >= most {
            return Ok((events, Some(key.value().1)));
        }
    }
    Ok((events, None))
}

/// Visits the rows, in the order of a released table, each with its publication.
pub(super) fn visit(
    store: &Store,
    info: &StreamInfo,
    query: &RowsQuery,
    visit: &mut dyn FnMut(u64, &ReleaseRow<'_>) -> Result<()>,
) -> Result<()> {
    let shown = info.progress().publications;
    let (first, last) = ((*query.publications.start()).max(1), (*query.publications.end()).min(shown));
    let (read_txn, number) = (store.look()?, info.number);
    let table = read_txn.open_table(ROWS).map_err(stored)?;
    let mut reader = RowReader { info, time: String::new() };
    let kept = query.kept.map_or(last, |kept| kept.min(shown));
    let is_kept = |step: u64| query.every <= 1 || step.is_multiple_of(query.every) || step == kept;
    let wanted = query.places.as_deref();
    let is_wanted =
        |row: &&StoredRow| is_kept(row.step) && wanted.is_none_or(|wanted| wanted.binary_search(&row.place).is_ok());
    let mut show = |publication, bytes: &[u8]| -> Result<()> {
        let block: RowBlock = from_bytes(bytes, "released rows")?;
        block.rows.iter().filter(is_wanted).try_for_each(|row| reader.show(publication, row, visit))
    };
    // Groups that were discovered with a publication have rows of earlier steps in it, including kept ones.
    let has_earlier = info.stream.plan.threshold().is_some();
    let blocks = wanted.map(|places| {
        let mut blocks: Vec<u32> = places.iter().map(|place| FIRST_OWN_BLOCK + place / ROWS_PER_BLOCK).collect();
        blocks.dedup();
        blocks
    });
    for publication in first..=last {
        if !has_earlier && !is_kept(publication) {
            continue;
        }
        let through = if blocks.is_none() && is_kept(publication) { u32::MAX } else { FIRST_OWN_BLOCK - 1 };
        for entry in table.range((number, publication, 0)..=(number, publication, through)).map_err(stored)? {
            show(publication, entry.map_err(stored)?.1.value())?;
        }
        for block in blocks.iter().flatten().filter(|_| is_kept(publication)) {
            if let Some(bytes) = table.get((number, publication, *block)).map_err(stored)? {
                show(publication, bytes.value())?;
            }
        }
    }
    Ok(())
}

/// The digest of all published rows through a shown publication.
pub(super) fn head_of(store: &Store, info: &StreamInfo, publication: u64) -> Result<[u8; 32]> {
    let step = step_of(info, &info.progress(), publication);
    let table = store.look()?.open_table(CLOSED).map_err(stored)?;
    let bytes = table.get((info.number, step)).map_err(stored)?;
    let bytes = bytes.ok_or_else(|| failure(format!("the record of publication {publication} is missing")))?;
    Ok(from_bytes::<ClosedRecord>(bytes.value(), "a closed step")?.head)
}

/// The first closed step with this number of publications.
pub(super) fn step_of(info: &StreamInfo, progress: &StreamProgress, publication: u64) -> u64 {
    let (mut low, mut high) = (publication, progress.closed.max(publication));
    while low < high {
        let middle = low + (high - low) / 2;
        if info.stream.rows_through(middle) >= publication { high = middle } else { low = middle + 1 }
    }
    low
}

struct RowReader<'i> {
    info: &'i StreamInfo,
    time: String,
}

impl RowReader<'_> {
    fn show(
        &mut self,
        publication: u64,
        row: &StoredRow,
        visit: &mut dyn FnMut(u64, &ReleaseRow<'_>) -> Result<()>,
    ) -> Result<()> {
        let calendar = self.info.stream.rows();
        let span = (calendar.start_of(row.step), calendar.end_of(row.step));
        self.time.clear();
        calendar.write_time(span.0, &mut self.time);
        let names = self.info.names_of(row.place).unwrap_or_default();
        let groups: Vec<&str> = names.iter().map(String::as_str).collect();
        let view = row.view.as_ref().map(|view| ViewRow {
            value: ReleasedValue { text: &view.text, number: view.number },
            lower: view.lower,
            upper: view.upper,
        });
        let row = ReleaseRow {
            time: &self.time,
            span,
            groups: &groups,
            step: row.step + self.info.stream.steps_before(),
            value: ReleasedValue { text: &row.text, number: row.number },
            std_error: row.std_error,
            lower: row.lower,
            upper: row.upper,
            view,
        };
        visit(publication, &row)
    }
}
