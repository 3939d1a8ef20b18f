//! When tokens were last used: so that an operator finds those that nobody needs.
//!
//! Uses are counted in memory and saved from time to time, in a file next to the tokens: a request never waits for it.

use evertally_declare::error::{Context, Result, failure};
use evertally_ledger::disk::{Access, RealDisk, replace};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

pub(super) struct LastUses {
    path: PathBuf,
    uses: Mutex<(BTreeMap<String, Timestamp>, bool)>,
}

impl LastUses {
    /// The last saved uses; none if they cannot be read.
    pub(super) fn from_folder(folder: &Path) -> Self {
        let path = folder.join("tokens-used.json");
        let saved = std::fs::read_to_string(&path).ok().and_then(|text| serde_json::from_str(&text).ok());
        Self { path, uses: Mutex::new((saved.unwrap_or_default(), false)) }
    }

    /// Notes that a token was used.
    pub(super) fn note(&self, id: &str, now: Timestamp) {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        match uses.0.get_mut(id) {
            Some(last) => *last = now,
            None => drop(uses.0.insert(id.to_owned(), now)),
        }
        uses.1 = true;
    }

    pub(super) fn all(&self) -> BTreeMap<String, Timestamp> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Saves the uses if there were any since the last time.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn save(&self) -> Result<()> {
        let text = {
            let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
            if !std::mem::take(&mut uses.1) {
                return Ok(());
            }
            serde_json::to_string(&uses.0).map_err(failure)?
        };
        replace(&RealDisk, &self.path, &Access::Private, &mut Cursor::new(text))
            .context(format_args!("cannot write {}", self.path.display()))
    }
}
