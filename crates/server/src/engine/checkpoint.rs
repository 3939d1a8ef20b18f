//! Checkpoints of sessions, so that a start has less to count again.

use super::core::Core;
use super::live::RunningStream;
use crate::store::{EVENTS, IDS, STATES, StateRecord, stored, to_bytes};
use evertally_declare::error::Result;

/// The most events, or closed sums, that are counted again when the service starts.
const MOST_AGAIN: u64 = 1_000_000;

impl Core {
    /// Checkpoints a session, and deletes the events that it includes and the ids of closed steps.
    pub(super) fn put_by(&mut self, number: u32) -> Result<()> {
        let Some(live) = self.live.get_mut(&number).filter(|live| live.failed.is_none() && live.unsaved > 0) else {
            return Ok(());
        };
        let Some(session) = live.session.live_state()? else { return Ok(()) };
        let (closed, counted) = (live.closed(), live.batches);
        let record = to_bytes(&StateRecord { closed, counted, session })?;
        self.store.change(|writing| {
            writing.open_table(STATES).map_err(stored)?.insert(number, record.as_slice()).map_err(stored)?;
            let mut events = writing.open_table(EVENTS).map_err(stored)?;
            let through = (number, closed + 1, counted);
            events.retain_in((number, 0, 0)..=through, |_, _| false).map_err(stored)?;
            let mut ids = writing.open_table(IDS).map_err(stored)?;
            ids.retain_in((number, 0, 0)..=(number, closed, u64::MAX), |_, _| false).map_err(stored)?;
            Ok(())
        })?;
        live.unsaved = 0;
        Ok(())
    }

    /// Checkpoints sessions with many uncheckpointed events.
    pub(super) fn checkpoint_if_large(&mut self) -> Result<()> {
        let is_long = |live: &&RunningStream| live.unsaved > MOST_AGAIN;
        let long: Vec<u32> = self.live.values().filter(is_long).map(|live| live.info.number).collect();
        long.into_iter().try_for_each(|number| self.put_by(number))
    }
}
