//! Old copies of a folder, and folders of which somebody else publishes: found by what the witness has seen.

use super::closing::hex;
use super::core::Core;
use crate::store::{CLOSED, ClosedRecord, META, from_bytes, stored};
use crate::witness::Seen;
use evertally_publish::error::{Result, usage};

/// Where the database says that a witness was told something.
const WITNESSED: &str = "witnessed";

impl Core {
    /// Holds what the witness has seen against the folder, when the service starts.
    ///
    /// # Errors
    /// If it speaks of another folder, or cannot be asked.
    pub(super) fn hear_witness(&mut self) -> Result<()> {
        let Some(witness) = &mut self.witness else { return Ok(()) };
        let (said, place) = (witness.ask()?, witness.place());
        let has_closed = self.live.values().any(|live| live.closed() > 0);
        let Some(said) = said else {
            if self.was_witnessed()? {
                self.read_only = Some(format!(
                    "the witness {place} is gone, and nobody can say whether this folder is the newest copy; put the witness \
                     back. Until then nothing is taken in or published"
                ));
            }
            self.is_unsaid = has_closed;
            return Ok(());
        };
        if said.folder != self.said.folder {
            return Err(usage(format!(
                "the witness {place} is that of another folder ({}, and this one is {}); name its own, or a new place",
                said.folder, self.said.folder
            )));
        }
        for (name, seen) in &said.streams {
            let Some(number) = self.find(name).map(|info| info.number) else {
                self.read_only = Some(format!(
                    "stream `{name}`, of which the witness {place} has seen step {}, is not in this folder: it is an old copy. \
                     Restore the newest backup",
                    seen.closed
                ));
                continue;
            };
            let live = self.live.get_mut(&number).expect("all streams are loaded");
            if live.closed() < seen.closed {
                live.ahead = Some(seen.clone());
                live.tell(None);
            } else if self.head_at(number, seen.closed)? != seen.head {
                self.read_only = Some(format!(
                    "stream `{name}` was published otherwise through step {} than the witness {place} has seen: another copy \
                     of this folder has been running. Stop it, and restore the newest backup of that one",
                    seen.closed
                ));
            }
        }
        self.said = said;
        self.is_unsaid = has_closed;
        Ok(())
    }

    /// The head of a stream after a closed step, in hexadecimal; empty where it is not on record.
    fn head_at(&self, number: u32, step: u64) -> Result<String> {
        let table = self.store.look()?.open_table(CLOSED).map_err(stored)?;
        let Some(bytes) = table.get((number, step)).map_err(stored)? else { return Ok(String::new()) };
        Ok(hex(&from_bytes::<ClosedRecord>(bytes.value(), "what was closed")?.head))
    }

    fn was_witnessed(&self) -> Result<bool> {
        let table = self.store.look()?.open_table(META).map_err(stored)?;
        Ok(table.get(WITNESSED).map_err(stored)?.is_some())
    }

    /// Tells the witness how far all streams are, unless somebody else has told it something since.
    pub(super) fn say(&mut self, seen: Vec<(String, Seen)>) {
        let Some(witness) = &mut self.witness else {
            self.is_unsaid = false;
            return;
        };
        let place = witness.place();
        let before = match witness.ask() {
            Ok(before) => before,
            Err(error) => {
                self.witness_problem = Some(format!("{error}; nothing is shown until it can be asked"));
                return;
            }
        };
        if before.is_some() && before == self.saying {
            // It was told, and its answer got lost.
            self.said = self.saying.take().expect("just compared");
        }
        let is_first = self.said.counter == 0;
        if before.as_ref().is_none_or(|before| *before != self.said) && !(before.is_none() && is_first) {
            self.read_only = Some(format!(
                "somebody else has written the witness {place}: a copy of this folder is running somewhere, or the witness was \
                 lost. Nothing is taken in or published here; stop the other, then start this one again"
            ));
            return;
        }
        let mut said = self.said.clone();
        said.counter += 1;
        said.streams.extend(seen);
        let told = match is_first {
            // From here on a witness that says nothing is one that is lost.
            true => self.mark_witnessed(),
            false => Ok(()),
        };
        let witness = self.witness.as_mut().expect("just asked");
        self.saying = Some(said.clone());
        match told.and_then(|()| witness.tell(&said)) {
            Ok(()) => {
                (self.said, self.saying) = (said, None);
                (self.is_unsaid, self.witness_problem) = (false, None);
            }
            Err(error) => self.witness_problem = Some(format!("{error}; nothing is shown until it can be told")),
        }
    }

    fn mark_witnessed(&self) -> Result<()> {
        self.store.change(|writing| {
            writing.open_table(META).map_err(stored)?.insert(WITNESSED, &[1][..]).map_err(stored)?;
            Ok(())
        })
    }
}
