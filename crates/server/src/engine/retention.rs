//! Forgets the ids of old batches, and late events that were set aside long ago.

use super::core::Core;
use crate::store::{BATCH_DAYS, BATCHES, LATE, LateRecord, from_bytes, stored};
use evertally_declare::error::Result;
use redb::WriteTransaction;

/// A day in microseconds.
const DAY: i64 = 86_400_000_000;

/// The most ids that are forgotten at once: nothing else is committed meanwhile.
const MAX_FORGOTTEN: usize = 5000;

/// The time between two looks for old ids.
const INTERVAL: std::time::Duration = std::time::Duration::from_secs(1);

/// The day of a time, in UTC, since 1970.
fn day_of(micros: i64) -> u32 {
    u32::try_from(micros.div_euclid(DAY)).unwrap_or(0)
}

impl Core {
    /// Notes the day of an accepted batch, if its id is to be forgotten some day.
    pub(super) fn note_day(&self, writing: &WriteTransaction, number: u32, id: &str, now: i64) -> Result<()> {
        if self.retention.batch_ids.is_none() {
            return Ok(());
        }
        let mut days = writing.open_table(BATCH_DAYS).map_err(stored)?;
        days.insert((number, day_of(now), id), ()).map_err(stored)?;
        Ok(())
    }

    /// Forgets some records that are older than their retention.
    ///
    /// # Errors
    /// If the store cannot be written; then nothing has changed.
    pub(super) fn forget_old(&mut self) -> Result<()> {
        if self.looked_for_old.is_some_and(|looked| looked.elapsed() < INTERVAL) {
            return Ok(());
        }
        self.looked_for_old = Some(std::time::Instant::now());
        self.forget_old_batches()?;
        self.forget_old_late()
    }

    fn forget_old_batches(&self) -> Result<()> {
        let Some(kept) = self.retention.batch_ids else { return Ok(()) };
        // A batch of this day may be younger than the retention.
        let first_kept = day_of(self.clock.now().micros().saturating_sub(kept.0));
        let old = self.old_batches(first_kept)?;
        if old.is_empty() {
            return Ok(());
        }
        self.store.change(|writing| {
            let mut days = writing.open_table(BATCH_DAYS).map_err(stored)?;
            let mut batches = writing.open_table(BATCHES).map_err(stored)?;
            for (number, day, id) in &old {
                days.remove((*number, *day, id.as_str())).map_err(stored)?;
                batches.remove((*number, id.as_str())).map_err(stored)?;
            }
            Ok(())
        })
    }

    /// Removes late events that were set aside longer ago than the retention.
    fn forget_old_late(&self) -> Result<()> {
        let Some(kept) = self.retention.side_files else { return Ok(()) };
        let first_kept = self.clock.now().micros().saturating_sub(kept.0);
        let late = self.store.look()?.open_table(LATE).map_err(stored)?;
        let mut old = Vec::new();
        for number in self.live.keys() {
            // In the order of their batches, and thereby of time.
            for entry in late.range((*number, 0)..=(*number, u64::MAX)).map_err(stored)? {
                let (key, bytes) = entry.map_err(stored)?;
                let record: LateRecord = from_bytes(bytes.value(), "late events")?;
                if record.at >= first_kept || old.len() == MAX_FORGOTTEN {
                    break;
                }
                old.push(key.value());
            }
        }
        drop(late);
        if old.is_empty() {
            return Ok(());
        }
        self.store.change(|writing| {
            let mut late = writing.open_table(LATE).map_err(stored)?;
            for key in &old {
                late.remove(key).map_err(stored)?;
            }
            Ok(())
        })
    }

    /// Batches of the days before `first_kept`.
    fn old_batches(&self, first_kept: u32) -> Result<Vec<(u32, u32, String)>> {
        let days = self.store.look()?.open_table(BATCH_DAYS).map_err(stored)?;
        let mut old = Vec::new();
        for number in self.live.keys() {
            for entry in days.range((*number, 0, "")..(*number, first_kept, "")).map_err(stored)? {
                if old.len() == MAX_FORGOTTEN {
                    return Ok(old);
                }
                let key = entry.map_err(stored)?.0;
                let (number, day, id) = key.value();
                old.push((number, day, id.to_owned()));
            }
        }
        Ok(old)
    }
}
