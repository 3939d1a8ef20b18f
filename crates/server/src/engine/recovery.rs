//! Recovers streams when the service starts: from their stored state, and the events that it does not include.

use super::core::Core;
use super::info::{Parts, StreamInfo, StreamProgress, StreamState};
use super::live::{LAST_BATCH, RunningStream, first_head};
use super::reporting::Reporting;
use super::resolved::{Resolved, table_of};
use super::row_ids::OpenIds;
use crate::store::{
    BATCHES, CLOSED, ClosedRecord, FOLLOWS, NAMES, Phase, ROWS, RowBlock, STATES, STREAMS, StateRecord, StreamRecord,
    from_bytes, stored,
};
use evertally::noise::{Purpose, mac_key};
use evertally_declare::error::{Context, PipelineError, Result, failure};
use evertally_declare::records::Records;
use evertally_ledger::ledger::Follows;
use evertally_publish::session::{RunningSums, Session};
use evertally_publish::views::ViewValue;
use redb::ReadableTable;
use std::collections::VecDeque;
use std::sync::Arc;

impl Core {
    /// The stored records of all streams.
    pub(super) fn records(&self) -> Result<Vec<(u32, StreamRecord)>> {
        let table = self.store.look()?.open_table(STREAMS).map_err(stored)?;
        let record = |entry: std::result::Result<(redb::AccessGuard<'_, u32>, redb::AccessGuard<'_, &[u8]>), _>| {
            let (number, bytes) = entry.map_err(|e: redb::StorageError| stored(e))?;
            Ok((number.value(), from_bytes(bytes.value(), "a stream record")?))
        };
        table.iter().map_err(stored)?.map(record).collect()
    }

    /// Loads a stream: its stored state, then the events that the state does not include.
    pub(super) fn load(&self, number: u32, record: StreamRecord) -> Result<RunningStream> {
        let name = record.name.clone();
        self.loaded(number, record).context(format_args!("stream `{name}`"))
    }

    fn loaded(&self, number: u32, record: StreamRecord) -> Result<RunningStream> {
        let resolved = Resolved::from_record(&record, &self.ledger, self.follows_of(number)?)?;
        let looking = self.store.look()?;
        let closed = looking.open_table(CLOSED).map_err(stored)?;
        let state = looking.open_table(STATES).map_err(stored)?;
        let state: Option<StateRecord> = match state.get(number).map_err(stored)? {
            Some(bytes) => Some(from_bytes(bytes.value(), "the state of a stream")?),
            None => None,
        };
        let (stream, groups) = (resolved.stream.clone(), resolved.groups.clone());
        let session = match &state {
            Some(state) => Session::restore_live(stream, groups, &self.key, &self.ledger, &state.session)?,
            None => Session::live(stream, groups, &self.key, &self.ledger)?,
        };
        let mut live = self.live_of(number, record, resolved, session)?;
        live.batches = last_batch(&looking, number)?;
        self.recall(&mut live, &looking)?;
        let mut counted = live.count_stored(&self.store, state.map_or(0, |state| state.counted));
        // Steps closed after the state was stored are closed again, and must give the same result.
        let mut records = Vec::new();
        for entry in closed.range((number, live.closed() + 1)..=(number, u64::MAX)).map_err(stored)? {
            let (key, bytes) = entry.map_err(stored)?;
            records.push((key.value().1, from_bytes::<ClosedRecord>(bytes.value(), "a closed step")?));
        }
        if live.closed() > 0 {
            let bytes = closed.get((number, live.closed())).map_err(stored)?;
            let bytes = bytes.ok_or_else(|| failure("the data folder is corrupt: a closed step has no record"))?;
            live.last = from_bytes(bytes.value(), "a closed step")?;
        }
        for (step, record) in records {
            counted?;
            let looks_back = !live.info.stream.views.is_empty();
            let mut closing = live.session.close_open()?;
            if looks_back {
                closing.for_each_row(|_, _| Ok::<(), PipelineError>(()))?; // views depend on earlier rows
            }
            if live.closed() != step || live.session.chain() != record.events {
                return Err(failure(
                    "the data folder is corrupt: its events do not reproduce the published steps; restore it from a \
                     backup",
                ));
            }
            live.last = record;
            counted = live.count_stored(&self.store, 0);
        }
        match counted {
            // Events of the open step that leave its range end their own stream only.
            Err(error) if error.is_usage() => live.failed = Some(error.to_string()),
            counted => counted?,
        }
        live.ids = OpenIds::load(&self.store, number, live.closed())?;
        live.acknowledged = live.last.acknowledged;
        live.ahead = self.recovering(&live)?;
        Ok(live)
    }

    /// A stream whose session has just been created.
    pub(super) fn live_of(
        &self,
        number: u32,
        record: StreamRecord,
        resolved: Resolved,
        session: Session<RunningSums>,
    ) -> Result<RunningStream> {
        let stream = Arc::new(session.stream().clone());
        let reporting = Reporting::new(Arc::clone(&stream), &self.key, &self.ledger);
        let mac = mac_key(&self.key, &stream.name, &stream.plan.digest(), Purpose::Hashing);
        let digest_key = blake3::derive_key("evertally serve 1 batches", mac.as_slice());
        let progress = StreamProgress {
            closed: 0,
            publications: 0,
            head: first_head(record.name.as_str()),
            state: StreamState::Open,
            closes_at: None,
            shows_at: None,
        };
        let (closing, is_retired) = (record.closing, matches!(record.phase, Phase::Retired(_)));
        let info = StreamInfo::new(Parts {
            number,
            table: table_of(&stream)?,
            plan: stream.plan_text()?,
            groups: resolved.groups.clone(),
            joined: self.ledger.joined(&stream.name).to_vec(),
            reporting,
            placer: Some(session.placer()),
            digest_key,
            progress,
            stream,
            record,
        });
        info.add_names(self.names(number)?);
        let last = ClosedRecord {
            publications: 0,
            head: first_head(info.name()),
            events: session.chain(),
            shown_at: 0,
            batches: 0,
            acknowledged: 0,
            lines: 0,
        };
        Ok(RunningStream {
            info: Arc::new(info),
            session,
            ids: OpenIds::default(),
            batches: 0,
            last,
            unseen: VecDeque::new(),
            unsaved: 0,
            failed: None,
            acknowledged: 0,
            ahead: None,
            held_until: None,
            closing,
            is_retired,
        })
    }

    /// The stored names of lines.
    fn names(&self, number: u32) -> Result<Vec<Vec<String>>> {
        let table = self.store.look()?.open_table(NAMES).map_err(stored)?;
        let mut names = Vec::new();
        for entry in table.range((number, 0)..=(number, u32::MAX)).map_err(stored)? {
            names.push(from_bytes(entry.map_err(stored)?.1.value(), "the names of a stream")?);
        }
        Ok(names)
    }

    /// Restores the last views, from which later ones continue.
    fn recall(&self, live: &mut RunningStream, looking: &redb::ReadTransaction) -> Result<()> {
        let publications = live.info.stream.rows_through(live.closed());
        if live.info.stream.views.is_empty() || publications == 0 {
            return Ok(());
        }
        let (table, number) = (looking.open_table(ROWS).map_err(stored)?, live.info.number);
        for entry in table.range((number, publications, 0)..=(number, publications, u32::MAX)).map_err(stored)? {
            let block: RowBlock = from_bytes(entry.map_err(stored)?.1.value(), "released rows")?;
            for row in block.rows {
                if let (Some(view), Some(names)) = (row.view, live.info.names_of(row.place)) {
                    let shown =
                        ViewValue { text: view.text, number: view.number, lower: view.lower, upper: view.upper };
                    live.session.restore_view(names.to_vec(), shown);
                }
            }
        }
        Ok(())
    }

    /// The stream that a stream continues, if any.
    pub(super) fn follows_of(&self, number: u32) -> Result<Option<Follows>> {
        let table = self.store.look()?.open_table(FOLLOWS).map_err(stored)?;
        let bytes = table.get(number).map_err(stored)?;
        bytes.map(|bytes| from_bytes(bytes.value(), "the link to an earlier stream")).transpose()
    }
}

/// The number of the last accepted batch of a stream.
fn last_batch(looking: &redb::ReadTransaction, number: u32) -> Result<u64> {
    let table = looking.open_table(BATCHES).map_err(stored)?;
    let last = table.get((number, LAST_BATCH)).map_err(stored)?;
    Ok(last.and_then(|bytes| bytes.value().try_into().ok()).map_or(0, u64::from_le_bytes))
}
