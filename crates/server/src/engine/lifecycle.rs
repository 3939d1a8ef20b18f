//! Start and stop: opens a folder, and leaves it ready for the next start.

use super::core::{Core, Directory, Notice, Setting};
use crate::store::{RedbLedger, random_name};
use crate::witness::WitnessRecord;
use evertally_declare::error::Result;
use evertally_declare::steps::Instant;
use evertally_ledger::ledger::Ledger;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Core {
    /// Opens a folder: all streams are as they were at its last write.
    ///
    /// # Errors
    /// If the folder belongs to another key, or is damaged, or its witness belongs to another folder.
    pub fn open(setting: Setting, notify: Arc<dyn Fn(Notice) + Send + Sync>) -> Result<Self> {
        let Setting { store, key, clock, witness, sources, ahead, decoding, catch_up, retention } = setting;
        let ledger = Ledger::open_or_begin(RedbLedger::new(&store), &key)?;
        let identity = store.identity()?;
        let primary = store.primary()?;
        let held_until = Instant::from_micros(clock.now().micros().saturating_add(catch_up));
        let mut core = Self {
            store,
            key,
            ledger,
            clock,
            sources,
            ahead,
            decoding,
            held_until,
            catch_up,
            was_slow: false,
            retention,
            looked_for_old: None,
            live: BTreeMap::new(),
            directory: Directory::default(),
            witness,
            witnessed: WitnessRecord::new(&identity).with_primary(&primary),
            settling: None,
            writer: random_name()?,
            is_unrecorded: false,
            held: None,
            has_witnessed: false,
            ask_again: None,
            witness_problem: None,
            store_problem: None,
            read_only: None,
            notify,
            beats: Arc::default(),
        };
        for (number, record) in core.records()? {
            let live = core.load(number, record)?;
            if live.times(1).is_some() && live.closed() > 0 {
                core.clock.has_reached(live.info.stream.calendar.end_of(live.closed()));
            }
            core.put(live);
        }
        core.was_slow = core.slow_clock().is_some();
        core.read_witness()?;
        Ok(core)
    }

    /// Checkpoints all sessions, so that the next start has less to count again.
    pub fn checkpoint_all(&mut self) {
        let numbers: Vec<u32> = self.live.keys().copied().collect();
        for number in numbers {
            let put_by = self.put_by(number);
            drop(put_by); // without a checkpoint, events are counted again
        }
        let remembered = self.store_acknowledged();
        drop(remembered); // otherwise the last step is shown once the witness was asked
    }
}
