//! Old copies of a folder, and folders of which somebody else publishes: found by what the witness has seen.

use super::closing::{hex, next_head};
use super::core::Core;
use super::live::first_head;
use crate::store::{CLOSED, ClosedRecord, RECOVERING, ROWS, RowBlock, WITNESSED, from_bytes, stored, to_bytes};
use crate::witness::Seen;
use evertally_declare::error::{Error, Result, usage};
use std::time::{Duration, Instant as Monotonic};

/// No answer takes a witness so long that is well.
const LONG: Duration = Duration::from_secs(1);

/// Where it says through which steps, since the last stop.
const TOLD: &str = "told";

impl Core {
    /// Holds what the witness has seen against the folder, when the service starts.
    ///
    /// # Errors
    /// If it speaks of another folder, or cannot be asked.
    pub(super) fn hear_witness(&mut self) -> Result<()> {
        self.recall_told()?;
        self.hear()?;
        let numbers: Vec<u32> = self.live.keys().copied().collect();
        for number in numbers {
            let mut live = self.live.remove(&number).expect("just seen");
            self.unshown(&mut live)?;
            self.live.insert(number, live);
        }
        Ok(())
    }

    fn hear(&mut self) -> Result<()> {
        let Some(witness) = &mut self.witness else {
            if self.was_witnessed()? {
                return Err(usage(
                    "this folder has a witness, and the configuration names none: without it nobody can say whether the \
                     folder is the newest copy. Put [witness] back; to move it, copy what it holds to the new place. If it is gone for \
                     good, and this folder is certainly the newest, start once with --forget-witness",
                ));
            }
            return Ok(());
        };
        let (said, place) = (witness.ask()?, witness.place());
        self.has_witnessed = self.was_witnessed()?;
        let Some(said) = said else {
            if self.has_witnessed {
                self.read_only = Some(format!(
                    "the witness {place} is gone, and nobody can say whether this folder is the newest copy; put the witness \
                     back, and start again. If it is gone for good, and this folder is certainly the newest, start once with \
                     --forget-witness. Until then nothing is taken in or published"
                ));
            }
            self.is_unsaid = self.live.values().any(|live| live.closed() > 0);
            return Ok(());
        };
        if said.folder != self.said.folder {
            return Err(usage(format!(
                "the witness {place} is that of another folder ({}, and this one is {}); name its own, or a new place",
                said.folder, self.said.folder
            )));
        }
        let mut heard = Vec::new();
        for (name, seen) in &said.streams {
            // One that is not here can be opened as it was: then it recovers.
            let Some(number) = self.find(name).map(|info| info.number) else { continue };
            let live = self.live.get_mut(&number).expect("all streams are loaded");
            if live.closed() < seen.closed {
                if live.ahead.replace(seen.clone()).as_ref() != Some(seen) {
                    self.remember_recovering(number, seen)?;
                }
            } else if self.head_at(number, seen.closed)? != seen.head {
                self.read_only = Some(format!(
                    "stream `{name}` was published otherwise through step {} than the witness {place} has seen: another copy \
                     of this folder has been running. Stop it, and restore the newest backup of that one",
                    seen.closed
                ));
            } else {
                heard.push((name.clone(), seen.closed));
            }
        }
        self.told_all(heard);
        // A start that has nothing new to say says nothing: of two copies the one that publishes first goes on.
        self.is_unsaid = self.live.values().any(|live| {
            let seen = said.streams.get(live.info.name());
            live.closed() > 0 && live.ahead.is_none() && seen.is_none_or(|seen| seen.closed != live.closed())
        });
        self.said = said;
        self.mark_witnessed()
    }

    /// Notes that a stream is behind its witness: for as long as that is not made good, whatever becomes of the witness,
    /// nothing that was not told is shown.
    fn remember_recovering(&self, number: u32, seen: &Seen) -> Result<()> {
        self.store.change(|writing| {
            let mut table = writing.open_table(RECOVERING).map_err(stored)?;
            table.insert(number, to_bytes(seen)?.as_slice()).map_err(stored)?;
            Ok(())
        })
    }

    /// What was noted, unless it has been made good.
    pub(super) fn recovering(&self, live: &super::live::Live) -> Result<Option<Seen>> {
        let table = self.store.look()?.open_table(RECOVERING).map_err(stored)?;
        let Some(bytes) = table.get(live.info.number).map_err(stored)? else { return Ok(None) };
        let seen: Seen = from_bytes(bytes.value(), "what the witness has seen")?;
        let is_good = live.closed() >= seen.closed && self.head_at(live.info.number, seen.closed)? == seen.head;
        if is_good {
            self.recovered(live.info.number)?;
            return Ok(None);
        }
        Ok(Some(seen))
    }

    /// A stream has come out as its witness has seen it.
    pub(super) fn recovered(&self, number: u32) -> Result<()> {
        self.store.change(|writing| {
            writing.open_table(RECOVERING).map_err(stored)?.remove(number).map_err(stored)?;
            Ok(())
        })
    }

    /// The head of a stream after a closed step, in hexadecimal; empty where it is not on record.
    fn head_at(&self, number: u32, step: u64) -> Result<String> {
        let table = self.store.look()?.open_table(CLOSED).map_err(stored)?;
        let Some(bytes) = table.get((number, step)).map_err(stored)? else { return Ok(String::new()) };
        Ok(hex(&from_bytes::<ClosedRecord>(bytes.value(), "what was closed")?.head))
    }

    /// Notes of every stream through which step the witness was told, for a start at which it cannot say so.
    pub(super) fn remember_told(&self) -> Result<()> {
        let told: Vec<(u32, u64)> = self.live.values().map(|live| (live.info.number, live.told)).collect();
        if self.witness.is_none() {
            return Ok(());
        }
        self.store.note(TOLD, &to_bytes(&told)?)
    }

    /// Takes up what was noted.
    fn recall_told(&mut self) -> Result<()> {
        let Some(bytes) = self.store.noted(TOLD)? else { return Ok(()) };
        for (number, step) in from_bytes::<Vec<(u32, u64)>>(&bytes, "what the witness was told")? {
            if let Some(live) = self.live.get_mut(&number) {
                live.told = live.told.max(step);
            }
        }
        Ok(())
    }

    fn was_witnessed(&self) -> Result<bool> {
        Ok(self.store.noted(WITNESSED)?.is_some())
    }

    /// Tells the witness how far all streams are, unless somebody else has told it something since.
    pub(super) fn say(&mut self, seen: Vec<(String, Seen)>) {
        let Some(witness) = &mut self.witness else {
            self.is_unsaid = false;
            return;
        };
        if self.settling.is_some() || self.ask_again.is_some_and(|again| Monotonic::now() < again) {
            return;
        }
        let (place, began) = (witness.place(), Monotonic::now());
        let before = match witness.ask() {
            Ok(before) => before,
            Err(error) => {
                self.cannot_ask(&error, began);
                return;
            }
        };
        if before.is_some() && before == self.saying {
            // It was told, and its answer got lost.
            self.said = self.saying.take().expect("just compared");
        }
        match before {
            None if self.said.counter == 0 => {}
            None => {
                self.witness_problem = Some(gone(&place));
                return;
            }
            Some(before) if before == self.said => {}
            Some(_) => {
                self.read_only = Some(somebody_else(&place));
                return;
            }
        }
        let mut said = self.said.clone();
        said.counter += 1;
        said.writer.clone_from(&self.writer);
        let told: Vec<(String, u64)> = seen.iter().map(|(name, seen)| (name.clone(), seen.closed)).collect();
        for (name, seen) in seen {
            // What was published elsewhere stays published: nothing that it has seen is taken back.
            if said.streams.get(&name).is_none_or(|before| before.closed <= seen.closed) {
                said.streams.insert(name, seen);
            }
        }
        self.saying = Some(said.clone());
        let told_it = witness.tell(&said);
        match told_it.and_then(|()| self.mark_witnessed()) {
            Ok(()) => {
                (self.said, self.saying) = (said, None);
                self.told_all(told);
                (self.is_unsaid, self.witness_problem) = (false, None);
            }
            Err(error) => self.witness_problem = Some(format!("{error}; nothing is shown until it can be told")),
        }
    }

    /// What the witness was told counts once it has settled.
    fn told_all(&mut self, told: Vec<(String, u64)>) {
        let Some(witness) = &self.witness else { return };
        let settles_in = witness.settles_in();
        if !settles_in.is_zero() {
            self.settling = (!told.is_empty()).then(|| (Monotonic::now() + settles_in, told));
            return;
        }
        self.may_show(told);
    }

    fn may_show(&mut self, told: Vec<(String, u64)>) {
        for (name, step) in told {
            let number = self.find(&name).map(|info| info.number);
            if let Some(live) = number.and_then(|number| self.live.get_mut(&number)) {
                live.told = live.told.max(step);
            }
        }
    }

    /// Asks the witness whether it still says what it was told, once that has settled.
    pub(super) fn settle(&mut self) {
        let is_due = self.settling.as_ref().is_some_and(|(at, _)| Monotonic::now() >= *at);
        if !is_due || self.ask_again.is_some_and(|again| Monotonic::now() < again) {
            return;
        }
        let Some(witness) = &mut self.witness else { return };
        let (place, began) = (witness.place(), Monotonic::now());
        match witness.ask() {
            Ok(Some(said)) if said == self.said => {
                self.witness_problem = None;
                if let Some((_, told)) = self.settling.take() {
                    self.may_show(told);
                }
            }
            Ok(Some(_)) => self.read_only = Some(somebody_else(&place)),
            Ok(None) => {
                self.witness_problem = Some(gone(&place));
            }
            Err(error) => self.cannot_ask(&error, began),
        }
    }

    fn cannot_ask(&mut self, error: &Error, began: Monotonic) {
        self.witness_problem = Some(format!("{error}; nothing is shown until it can be asked"));
        // One that takes long to say nothing is left alone for a while: batches wait meanwhile.
        self.ask_again = (began.elapsed() > LONG).then(|| Monotonic::now() + 10 * LONG);
    }

    /// Notes that there is a witness: before anything is shown of which it was told, and not before it was told, since
    /// one that never was would be taken for one that is lost.
    fn mark_witnessed(&mut self) -> Result<()> {
        if self.has_witnessed {
            return Ok(());
        }
        self.store.note(WITNESSED, &[1])?;
        self.has_witnessed = true;
        Ok(())
    }

    /// Follows the chain of every stream from its beginning: all published rows are there, and are those that the heads
    /// stand for. What was behind the last state has been computed again when the folder was opened.
    ///
    /// # Errors
    /// If a row or a step is missing, or was changed.
    pub fn verify(&self) -> Result<Vec<String>> {
        let looking = self.store.look()?;
        let (closed, rows) = (looking.open_table(CLOSED).map_err(stored)?, looking.open_table(ROWS).map_err(stored)?);
        let mut found = Vec::new();
        for live in self.live.values() {
            let (info, number) = (&live.info, live.info.number);
            let (mut head, mut step, mut known) = (first_head(info.name()), 0, known_at_first(info));
            let damaged = |step: u64, what: &str| {
                usage(format!(
                    "stream `{}`, step {step}: {what}; the folder is damaged or was changed: restore it from a backup",
                    info.name()
                ))
            };
            for entry in closed.range((number, 0)..=(number, u64::MAX)).map_err(stored)? {
                let (key, bytes) = entry.map_err(stored)?;
                let record: ClosedRecord = from_bytes(bytes.value(), "what was closed")?;
                step += 1;
                if key.value().1 != step {
                    return Err(damaged(step, "it is not on record"));
                }
                let publication = info.stream.rows_through(step);
                if publication > info.stream.rows_through(step - 1) {
                    let (mut blocks, mut most) = (Vec::new(), known);
                    let range = (number, publication, 0)..=(number, publication, u32::MAX);
                    for entry in rows.range(range).map_err(stored)? {
                        let (key, bytes) = entry.map_err(stored)?;
                        let block: RowBlock = from_bytes(bytes.value(), "released rows")?;
                        most = block.rows.iter().map(|row| row.place + 1).fold(most, u32::max);
                        blocks.push((key.value().2, bytes.value().to_vec()));
                    }
                    let new = known..most;
                    let names = new.map(|place| (place, info.names_of(place).unwrap_or_default().to_vec()));
                    head = next_head(&head, step, &names.collect::<Vec<_>>(), &blocks);
                    known = most;
                }
                if head != record.head {
                    return Err(damaged(step, "its rows are not those that were published"));
                }
            }
            if step != live.closed() {
                return Err(damaged(step + 1, "it is not on record"));
            }
            found.push(format!(
                "stream `{}`: {step} closed steps, {} publications",
                info.name(),
                live.last.publications
            ));
        }
        Ok(found)
    }
}

fn gone(place: &str) -> String {
    format!("the witness {place} is gone: put it back as it was; nothing is shown until then")
}

fn somebody_else(place: &str) -> String {
    format!(
        "somebody else has written the witness {place}: a copy of this folder is running somewhere, or the witness was lost. \
         Nothing is taken in or published here; stop the other, then start this one again"
    )
}

/// How many lines a stream had before its first event.
fn known_at_first(info: &super::StreamInfo) -> u32 {
    if info.stream.plan.threshold().is_some() { 0 } else { info.all_lines() as u32 } // fits: places do
}
