//! The ledger of the service's key, in the database.

use super::{LEDGER, Store, stored};
use evertally_declare::error::Result;
use evertally_ledger::ledger::LedgerStore;
use std::io::Read;

/// The name of the ledger; names of its parts have a prefix.
const WHOLE: &str = "ledger";
const PART: &str = "part ";

/// A ledger in the database of a folder, which only one process can have open.
pub struct RedbLedger(Store);

impl RedbLedger {
    /// The ledger in this database.
    pub fn new(store: &Store) -> Self {
        Self(store.clone())
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let table = self.0.look()?.open_table(LEDGER).map_err(stored)?;
        Ok(table.get(name).map_err(stored)?.map(|bytes| bytes.value().to_vec()))
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.0.change(|writing| {
            let mut table = writing.open_table(LEDGER).map_err(stored)?;
            table.insert(name, bytes).map_err(stored)?;
            Ok(())
        })
    }
}

impl LedgerStore for RedbLedger {
    fn load(&mut self) -> Result<Option<Vec<u8>>> {
        self.get(WHOLE)
    }

    fn commit(&mut self, contents: &[u8]) -> Result<()> {
        self.put(WHOLE, contents)
    }

    fn name(&self) -> String {
        "in the folder of the service".to_owned()
    }

    fn part(&mut self, name: &str) -> Result<Option<Vec<u8>>> {
        self.get(&format!("{PART}{name}"))
    }

    fn put_part(&mut self, name: &str, contents: &mut dyn Read) -> Result<()> {
        let mut bytes = Vec::new();
        contents.read_to_end(&mut bytes)?;
        self.put(&format!("{PART}{name}"), &bytes)
    }

    fn keep_parts(&mut self, names: &[String]) {
        let kept: Vec<String> = names.iter().map(|name| format!("{PART}{name}")).collect();
        let forgot = self.0.change(|writing| {
            let mut table = writing.open_table(LEDGER).map_err(stored)?;
            table.retain(|name, _| name == WHOLE || kept.iter().any(|kept| kept == name)).map_err(stored)
        });
        drop(forgot); // parts that remain only take space
    }
}
