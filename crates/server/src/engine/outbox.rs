//! The publications in the store that webhooks have accepted or refused.

use super::info::StreamInfo;
use super::service::Service;
use crate::store::{DEAD_LETTERS, DELIVERED, DeadLetterRecord, from_bytes, stored, to_bytes};
use evertally_declare::error::Result;

/// A publication that a webhook has refused for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The publication.
    pub publication: u64,
    /// The status of the last answer.
    pub status: u16,
    /// When it was set aside, in microseconds since 1970.
    pub at: i64,
}

impl Service {
    /// The last publication of a stream that a webhook has accepted, or that was set aside; `None` if it never received
    /// the stream.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn delivered(&self, address: &str, info: &StreamInfo) -> Result<Option<u64>> {
        let table = self.store.look()?.open_table(DELIVERED).map_err(stored)?;
        Ok(table.get((address, info.number)).map_err(stored)?.map(|last| last.value()))
    }

    /// Records the last publication of a stream that a webhook has accepted.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn set_delivered(&self, address: &str, info: &StreamInfo, publication: u64) -> Result<()> {
        self.store.change(|writing| {
            let mut table = writing.open_table(DELIVERED).map_err(stored)?;
            table.insert((address, info.number), publication).map_err(stored)?;
            Ok(())
        })
    }

    /// Sets a publication aside that a webhook has refused with a status: the next ones are sent.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn set_dead_letter(&self, address: &str, info: &StreamInfo, publication: u64, status: u16) -> Result<()> {
        let record = to_bytes(&DeadLetterRecord { status, at: self.now().micros() })?;
        self.store.change(|writing| {
            let mut table = writing.open_table(DEAD_LETTERS).map_err(stored)?;
            table.insert((address, info.number, publication), record.as_slice()).map_err(stored)?;
            let mut table = writing.open_table(DELIVERED).map_err(stored)?;
            table.insert((address, info.number), publication).map_err(stored)?;
            Ok(())
        })
    }

    /// The publications of a stream that a webhook has refused for good.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn dead_letters(&self, address: &str, info: &StreamInfo) -> Result<Vec<DeadLetter>> {
        let table = self.store.look()?.open_table(DEAD_LETTERS).map_err(stored)?;
        let mut letters = Vec::new();
        for entry in table.range((address, info.number, 0)..=(address, info.number, u64::MAX)).map_err(stored)? {
            let (key, bytes) = entry.map_err(stored)?;
            let DeadLetterRecord { status, at } = from_bytes(bytes.value(), "a dead letter")?;
            letters.push(DeadLetter { publication: key.value().2, status, at });
        }
        Ok(letters)
    }

    /// Removes a dead letter, after it was accepted or an operator has discarded it.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn remove_dead_letter(&self, address: &str, info: &StreamInfo, publication: u64) -> Result<()> {
        self.store.change(|writing| {
            let mut table = writing.open_table(DEAD_LETTERS).map_err(stored)?;
            table.remove((address, info.number, publication)).map_err(stored)?;
            Ok(())
        })
    }
}
