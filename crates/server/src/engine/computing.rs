//! The rows of a step that is closed, as they are committed.

use super::live::RunningStream;
use crate::store::{ClosedRecord, RowBlock, Store, StoredRow, StoredView, to_bytes};
use evertally_declare::error::{PipelineError, Result, failure};
use evertally_publish::rows::ReleaseRow;

/// Rows in one block of a publication.
pub(super) const ROWS_PER_BLOCK: u32 = 128;
/// The first block with rows of the publication's own step. The blocks before it hold rows of earlier steps, of groups
/// that were discovered with this publication.
pub(super) const FIRST_OWN_BLOCK: u32 = 1 << 31;

/// A step that is closed in memory, to be committed.
pub(super) struct Computed {
    pub(super) number: u32,
    pub(super) step: u64,
    pub(super) record: ClosedRecord,
    pub(super) publication: u64,
    pub(super) blocks: Vec<(u32, Vec<u8>)>,
    pub(super) names: Vec<(u32, Vec<String>)>,
}

impl Computed {
    /// Its number of rows, approximately.
    pub(super) fn rows(&self) -> usize {
        1 + self.blocks.len() * ROWS_PER_BLOCK as usize
    }
}

/// Closes the open step of a stream in memory, and counts the stored events of the next one.
pub(super) fn compute(live: &mut RunningStream, store: &Store) -> Result<Computed> {
    let step = live.session.open_step();
    let shown_at = live.times(step).map_or(i64::MIN, |(_, shows)| shows.micros());
    let (publication, before) = (live.info.stream.rows_through(step), live.info.stream.rows_through(step - 1));
    // Of steps that are closed in a row before they are committed, each knows the lines of those before it.
    let discovers = live.info.stream.plan.threshold().is_some();
    let known = if discovers { live.last.lines as usize } else { live.info.all_lines() };
    let steps_before = live.info.stream.steps_before();
    let mut pieces = RowBlocks { publication, blocks: Vec::new(), names: Vec::new(), known, steps_before };
    let mut closed = live.session.close_open()?;
    closed.for_each_row(|place, row| pieces.add(place, row))?;
    let RowBlocks { blocks, names, .. } = pieces;
    let blocks: Vec<(u32, Vec<u8>)> =
        blocks.into_iter().map(|(block, rows)| Ok((block, to_bytes(&rows)?))).collect::<Result<_>>()?;
    let head = if publication > before { next_head(&live.last.head, step, &names, &blocks) } else { live.last.head };
    let record = ClosedRecord {
        publications: publication,
        head,
        events: live.session.chain(),
        shown_at,
        batches: live.batches,
        acknowledged: live.acknowledged,
        lines: u32::try_from(known + names.len()).map_err(|_| too_many())?,
    };
    live.last = record.clone();
    live.unsaved += 1 + blocks.len() as u64 * u64::from(ROWS_PER_BLOCK);
    if step < live.session.last_step() {
        live.count_stored(store, 0)?;
    }
    Ok(Computed { number: live.info.number, step, record, publication, blocks, names })
}

/// The rows of a publication, in blocks.
struct RowBlocks {
    publication: u64,
    blocks: Vec<(u32, RowBlock)>,
    names: Vec<(u32, Vec<String>)>,
    known: usize,
    /// Steps of the streams that this one continues; step numbers run through all of them.
    steps_before: u64,
}

impl RowBlocks {
    fn add(&mut self, place: usize, row: &ReleaseRow<'_>) -> Result<()> {
        let place = u32::try_from(place).ok().filter(|place| *place < FIRST_OWN_BLOCK).ok_or_else(too_many)?;
        if place as usize >= self.known + self.names.len() {
            self.names.push((place, row.groups.iter().map(|text| (*text).to_owned()).collect()));
        }
        let last = self.blocks.last().map(|(block, rows)| (*block, rows.rows.len()));
        let step = row.step - self.steps_before;
        let block = if step == self.publication {
            FIRST_OWN_BLOCK + place / ROWS_PER_BLOCK
        } else {
            match last {
                Some((block, rows)) if rows < ROWS_PER_BLOCK as usize => block,
                Some((block, _)) => block + 1,
                None => 0,
            }
        };
        if last.is_none_or(|(last, _)| last != block) {
            self.blocks.push((block, RowBlock::default()));
        }
        let view = row.view.map(|view| StoredView {
            text: view.value.text.to_owned(),
            number: view.value.number,
            lower: view.lower,
            upper: view.upper,
        });
        let stored = StoredRow {
            place,
            step,
            text: row.value.text.to_owned(),
            number: row.value.number,
            std_error: row.std_error,
            lower: row.lower,
            upper: row.upper,
            view,
        };
        self.blocks.last_mut().expect("just pushed").1.rows.push(stored);
        Ok(())
    }
}

fn too_many() -> PipelineError {
    failure("the stream has more lines than a service can keep: 2^31")
}

/// The digest of all published rows, including those of `step`.
pub(super) fn next_head(
    head: &[u8; 32],
    step: u64,
    names: &[(u32, Vec<String>)],
    blocks: &[(u32, Vec<u8>)],
) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("evertally serve 1 publication");
    hasher.update(head).update(&step.to_le_bytes());
    let mut piece = |number: u32, bytes: &[u8]| {
        hasher.update(&number.to_le_bytes()).update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    };
    for (place, name) in names {
        piece(*place, &postcard::to_allocvec(name).expect("texts are plain data"));
    }
    piece(u32::MAX, &[]);
    blocks.iter().for_each(|(block, bytes)| piece(*block, bytes));
    *hasher.finalize().as_bytes()
}
