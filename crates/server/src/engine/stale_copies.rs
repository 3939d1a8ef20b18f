//! Detects stale copies of a folder, and other publishers, by comparing it with the witness.

use super::computing::next_head;
use super::core::Core;
use super::live::first_head;
use crate::standby::taken_over;
use crate::store::{CLOSED, ClosedRecord, RECOVERING, ROWS, RowBlock, WITNESSED, from_bytes, stored, to_bytes};
use crate::witness::{LastClosed, WitnessRecord};
use evertally::hex;
use evertally_declare::error::{PipelineError, Result, usage};
use std::time::{Duration, Instant as Monotonic};

/// A healthy witness answers in less time.
const SLOW_WITNESS: Duration = Duration::from_secs(1);

/// The note of the steps recorded at the witness, written at the last stop.
const ACKNOWLEDGED: &str = "acknowledged";

/// The message about a folder whose witness the configuration does not name.
pub(crate) fn no_witness() -> PipelineError {
    usage(
        "this folder has a witness, but the configuration names none: without it nobody can tell whether the folder is \
         the newest copy. Put [witness] back; to move the witness, copy its contents to the new place. If it is lost, \
         and this folder is certainly the newest, start once with --forget-witness",
    )
}

/// The message about the witness of another folder than this one.
pub(crate) fn of_another_folder(place: &str, other: &str, own: &str) -> PipelineError {
    usage(format!(
        "the witness {place} belongs to another folder ({other}, and this one is {own}); configure its own witness, or \
         a new place"
    ))
}

impl Core {
    /// Compares the folder with the witness's record when the service starts.
    ///
    /// # Errors
    /// If the witness belongs to another folder, or cannot be read.
    pub(super) fn read_witness(&mut self) -> Result<()> {
        self.load_acknowledged()?;
        self.compare_with_witness()?;
        let numbers: Vec<u32> = self.live.keys().copied().collect();
        for number in numbers {
            let mut live = self.live.remove(&number).expect("just seen");
            self.load_unpublished(&mut live)?;
            self.live.insert(number, live);
        }
        self.note_returning();
        Ok(())
    }

    /// Notes the publications that are due and wait for the witness, which has seen them: another machine, or an
    /// earlier start, may have shown them.
    fn note_returning(&self) {
        let Some((_, settling)) = &self.settling else { return };
        let now = self.clock.now().micros();
        for (name, seen) in settling {
            let Some(live) = self.find(name).and_then(|info| self.live.get(&info.number)) else { continue };
            let mut waiting = live.unseen.iter().rev();
            if let Some((_, last)) = waiting.find(|(step, record)| step <= seen && record.shown_at <= now) {
                live.info.set_returning(last.publications);
            }
        }
    }

    fn compare_with_witness(&mut self) -> Result<()> {
        let Some(witness) = &mut self.witness else {
            if self.was_witnessed()? {
                return Err(no_witness());
            }
            return Ok(());
        };
        let (witnessed, place) = (witness.ask()?, witness.place());
        self.has_witnessed = self.was_witnessed()?;
        let Some(witnessed) = witnessed else {
            if self.has_witnessed {
                self.read_only = Some(format!(
                    "the record of the witness {place} is gone, and nobody can tell whether this folder is the newest \
                     copy; restore it and start again. If it is lost, and this folder is certainly the newest, start \
                     once with --forget-witness. Until then nothing is accepted or published"
                ));
            }
            self.is_unrecorded = self.live.values().any(|live| live.closed() > 0);
            return Ok(());
        };
        if witnessed.folder != self.witnessed.folder {
            return Err(of_another_folder(&place, &witnessed.folder, &self.witnessed.folder));
        }
        if witnessed.primary != self.witnessed.primary {
            return Err(usage(taken_over(&place)));
        }
        let mut matching = Vec::new();
        for (name, seen) in &witnessed.streams {
            // A stream that is missing here can be opened with the same declaration: then it recovers.
            let Some(number) = self.find(name).map(|info| info.number) else { continue };
            let live = self.live.get_mut(&number).expect("all streams are loaded");
            if live.closed() < seen.closed {
                if live.ahead.replace(seen.clone()).as_ref() != Some(seen) {
                    self.store_recovering(number, seen)?;
                }
            } else if self.head_at(number, seen.closed)? != seen.head {
                self.read_only = Some(format!(
                    "stream `{name}` was published differently through step {} than the witness {place} has seen: \
                     another copy of this folder has been running. Stop it, and restore the newest backup of that \
                     copy",
                    seen.closed
                ));
            } else {
                matching.push((name.clone(), seen.closed));
            }
        }
        self.acknowledge_after_settling(matching);
        // A start without new publications writes nothing to the witness: of two copies, the first to publish wins.
        self.is_unrecorded = self.live.values().any(|live| {
            let seen = witnessed.streams.get(live.info.name());
            live.closed() > 0 && live.ahead.is_none() && seen.is_none_or(|seen| seen.closed != live.closed())
        });
        self.witnessed = witnessed;
        self.mark_witnessed()
    }

    /// Records that a stream lags its witness. Until it has caught up, steps that are not recorded at the witness are
    /// not shown, even if the witness changes.
    fn store_recovering(&self, number: u32, seen: &LastClosed) -> Result<()> {
        self.store.change(|writing| {
            let mut table = writing.open_table(RECOVERING).map_err(stored)?;
            table.insert(number, to_bytes(seen)?.as_slice()).map_err(stored)?;
            Ok(())
        })
    }

    /// The recorded lag, unless the stream has caught up.
    pub(super) fn recovering(&self, live: &super::live::RunningStream) -> Result<Option<LastClosed>> {
        let table = self.store.look()?.open_table(RECOVERING).map_err(stored)?;
        let Some(bytes) = table.get(live.info.number).map_err(stored)? else { return Ok(None) };
        let seen: LastClosed = from_bytes(bytes.value(), "a witness record")?;
        let is_good = live.closed() >= seen.closed && self.head_at(live.info.number, seen.closed)? == seen.head;
        if is_good {
            self.recovered(live.info.number)?;
            return Ok(None);
        }
        Ok(Some(seen))
    }

    /// Removes the record: the stream has reproduced the steps that its witness has seen.
    pub(super) fn recovered(&self, number: u32) -> Result<()> {
        self.store.change(|writing| {
            writing.open_table(RECOVERING).map_err(stored)?.remove(number).map_err(stored)?;
            Ok(())
        })
    }

    /// The head of a stream after a closed step, in hexadecimal; empty if the step has no record.
    fn head_at(&self, number: u32, step: u64) -> Result<String> {
        let table = self.store.look()?.open_table(CLOSED).map_err(stored)?;
        let Some(bytes) = table.get((number, step)).map_err(stored)? else { return Ok(String::new()) };
        Ok(hex(&from_bytes::<ClosedRecord>(bytes.value(), "a closed step")?.head))
    }

    /// Records for every stream the last step recorded at the witness, for a start at which the witness cannot tell.
    pub(super) fn store_acknowledged(&self) -> Result<()> {
        let acknowledged: Vec<(u32, u64)> =
            self.live.values().map(|live| (live.info.number, live.acknowledged)).collect();
        if self.witness.is_none() {
            return Ok(());
        }
        self.store.note(ACKNOWLEDGED, &to_bytes(&acknowledged)?)
    }

    /// Restores the recorded steps.
    fn load_acknowledged(&mut self) -> Result<()> {
        let Some(bytes) = self.store.noted(ACKNOWLEDGED)? else { return Ok(()) };
        for (number, step) in from_bytes::<Vec<(u32, u64)>>(&bytes, "the steps recorded at the witness")? {
            if let Some(live) = self.live.get_mut(&number) {
                live.acknowledged = live.acknowledged.max(step);
            }
        }
        Ok(())
    }

    fn was_witnessed(&self) -> Result<bool> {
        Ok(self.store.noted(WITNESSED)?.is_some())
    }

    /// Records the progress of all streams at the witness, unless another writer has changed it since.
    pub(super) fn write_witness(&mut self, seen: Vec<(String, LastClosed)>) {
        let Some(witness) = &mut self.witness else {
            self.is_unrecorded = false;
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
        if let Some(own) = before.as_ref().filter(|before| before.writer == self.writer) {
            // A write of this start arrived, perhaps late; its answer was lost.
            self.witnessed = own.clone();
        }
        match before {
            None if self.witnessed.counter == 0 => {}
            None => {
                self.witness_problem = Some(gone(&place));
                return;
            }
            Some(before) if before == self.witnessed => {}
            Some(before) => {
                self.read_only = Some(self.replaced_by(&before, &place));
                return;
            }
        }
        let mut witnessed = self.witnessed.clone();
        witnessed.counter += 1;
        witnessed.writer.clone_from(&self.writer);
        let acknowledged: Vec<(String, u64)> = seen.iter().map(|(name, seen)| (name.clone(), seen.closed)).collect();
        for (name, seen) in seen {
            // Steps published elsewhere stay recorded: nothing that the witness has seen is taken back.
            if witnessed.streams.get(&name).is_none_or(|before| before.closed <= seen.closed) {
                witnessed.streams.insert(name, seen);
            }
        }
        let written = witness.write(&witnessed);
        match written.and_then(|()| self.mark_witnessed()) {
            Ok(()) => {
                self.witnessed = witnessed;
                self.acknowledge_after_settling(acknowledged);
                (self.is_unrecorded, self.witness_problem) = (false, None);
            }
            Err(error) => self.witness_problem = Some(format!("{error}; nothing is shown until it can be written")),
        }
    }

    /// Whether committed publications wait until they were shipped to another machine, which then lacks none of them.
    pub(super) fn waits_for_shipping(&mut self) -> bool {
        let Some(hold) = self.store.hold() else { return false };
        let (mark, since) = *self.held.get_or_insert_with(|| (hold.journal.mark(), Monotonic::now()));
        if !hold.journal.is_shipped(mark) && since.elapsed() < hold.limit {
            return true;
        }
        self.held = None;
        false
    }

    /// Steps recorded at the witness may be shown once the record has settled.
    fn acknowledge_after_settling(&mut self, acknowledged: Vec<(String, u64)>) {
        let Some(witness) = &self.witness else { return };
        let settles_in = witness.settles_in();
        if !settles_in.is_zero() {
            self.settling = (!acknowledged.is_empty()).then(|| (Monotonic::now() + settles_in, acknowledged));
            return;
        }
        self.set_acknowledged(acknowledged);
    }

    fn set_acknowledged(&mut self, acknowledged: Vec<(String, u64)>) {
        for (name, step) in acknowledged {
            let number = self.find(&name).map(|info| info.number);
            if let Some(live) = number.and_then(|number| self.live.get_mut(&number)) {
                live.acknowledged = live.acknowledged.max(step);
            }
        }
    }

    /// Once the last record has settled, checks that the witness still holds it.
    pub(super) fn check_settled(&mut self) {
        let is_due = self.settling.as_ref().is_some_and(|(at, _)| Monotonic::now() >= *at);
        if !is_due || self.ask_again.is_some_and(|again| Monotonic::now() < again) {
            return;
        }
        let Some(witness) = &mut self.witness else { return };
        let (place, began) = (witness.place(), Monotonic::now());
        match witness.ask() {
            Ok(Some(witnessed)) if witnessed == self.witnessed => {
                self.witness_problem = None;
                if let Some((_, acknowledged)) = self.settling.take() {
                    self.set_acknowledged(acknowledged);
                }
            }
            Ok(Some(record)) => self.read_only = Some(self.replaced_by(&record, &place)),
            Ok(None) => {
                self.witness_problem = Some(gone(&place));
            }
            Err(error) => self.cannot_ask(&error, began),
        }
    }

    /// Why a record of the witness that another writer has changed ends this one.
    fn replaced_by(&self, record: &WitnessRecord, place: &str) -> String {
        if record.primary == self.witnessed.primary { other_writer_error(place) } else { taken_over(place) }
    }

    fn cannot_ask(&mut self, error: &PipelineError, began: Monotonic) {
        self.witness_problem = Some(format!("{error}; nothing is shown until it can be read"));
        // A witness that is slow to fail is not asked again for a while: batches wait meanwhile.
        self.ask_again = (began.elapsed() > SLOW_WITNESS).then(|| Monotonic::now() + 10 * SLOW_WITNESS);
    }

    /// Records that the folder has a witness: before anything recorded there is shown, but not before the first record,
    /// since an empty witness would then be taken for a lost one.
    fn mark_witnessed(&mut self) -> Result<()> {
        if self.has_witnessed {
            return Ok(());
        }
        self.store.note(WITNESSED, &[1])?;
        self.has_witnessed = true;
        Ok(())
    }

    /// Follows the hash chain of every stream from its beginning: all published rows exist and match the heads. Steps
    /// after the last checkpoint were computed again when the folder was opened.
    ///
    /// # Errors
    /// If a row or a step is missing or was changed.
    pub fn verify(&self) -> Result<Vec<String>> {
        let read_txn = self.store.look()?;
        let (closed, rows) = (read_txn.open_table(CLOSED).map_err(stored)?, read_txn.open_table(ROWS).map_err(stored)?);
        let mut found = Vec::new();
        for live in self.live.values() {
            let (info, number) = (&live.info, live.info.number);
            let (mut head, mut step, mut known) = (first_head(info.name()), 0, known_at_first(info));
            let damaged = |step: u64, what: &str| {
                usage(format!(
                    "stream `{}`, step {step}: {what}; the data folder is corrupt or was changed: restore it from a \
                     backup",
                    info.name()
                ))
            };
            for entry in closed.range((number, 0)..=(number, u64::MAX)).map_err(stored)? {
                let (key, bytes) = entry.map_err(stored)?;
                let record: ClosedRecord = from_bytes(bytes.value(), "a closed step")?;
                step += 1;
                if key.value().1 != step {
                    return Err(damaged(step, "its record is missing"));
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
                    return Err(damaged(step, "its rows differ from the published ones"));
                }
            }
            if step != live.closed() {
                return Err(damaged(step + 1, "its record is missing"));
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
    format!("the record of the witness {place} is gone: restore its previous contents; nothing is shown until then")
}

fn other_writer_error(place: &str) -> String {
    format!(
        "another writer has changed the witness {place}: a copy of this folder is running somewhere, or the witness \
         was lost. Nothing is accepted or published here; stop the other copy, then start this one again"
    )
}

/// The number of lines that a stream had before its first event.
fn known_at_first(info: &super::StreamInfo) -> u32 {
    if info.stream.plan.threshold().is_some() { 0 } else { info.all_lines() as u32 } // fits: places do
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::engine::{Opening, Setting};
    use crate::store::{ClosedBy, Store};
    use crate::witness::Witness;
    use evertally::noise::SecretKey;
    use evertally_declare::steps::Instant;
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};

    /// A witness whose record settles after a time.
    struct SettlingWitness {
        record: Arc<Mutex<Option<WitnessRecord>>>,
        settles_in: Duration,
    }

    impl Witness for SettlingWitness {
        fn ask(&mut self) -> Result<Option<WitnessRecord>> {
            Ok(self.record.lock().unwrap().clone())
        }

        fn write(&mut self, testimony: &WitnessRecord) -> Result<()> {
            *self.record.lock().unwrap() = Some(testimony.clone());
            Ok(())
        }

        fn place(&self) -> String {
            "elsewhere".to_owned()
        }

        fn settles_in(&self) -> Duration {
            self.settles_in
        }
    }

    /// Readers of a service that says that it is ready must see all rows that they have seen before.
    #[test]
    fn a_start_knows_which_publications_are_to_be_shown_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("store.redb")).unwrap();
        let (key, record) = (SecretKey::generate().unwrap(), Arc::<Mutex<Option<WitnessRecord>>>::default());
        let start = |settles_in| {
            let setting = Setting {
                store: store.clone(),
                key: SecretKey::from_bytes(*key.expose_bytes()).unwrap(),
                clock: Arc::new(ManualClock::at(Instant::from_micros(0))),
                witness: Some(Box::new(SettlingWitness { record: Arc::clone(&record), settles_in })),
                sources: BTreeMap::new(),
                ahead: 0,
                decoding: Arc::default(),
                catch_up: 0,
                retention: crate::config::RetentionConfig::default(),
            };
            Core::open(setting, Arc::new(|_| ())).unwrap()
        };
        let mut first = start(Duration::ZERO);
        let declaration = r#"{"stream":"a","start":"2026-01-01","every":"1h","steps":4,"rho":1}"#.to_owned();
        let opening = Opening { declaration, public: true, source: None, closing: ClosedBy::Operator, id: None };
        first.open_stream(Core::plan(opening).unwrap()).unwrap();
        first.close_through("a", 2).unwrap();
        assert_eq!(first.find("a").unwrap().progress().publications, 2);
        drop(first);
        let mut second = start(Duration::from_secs(3600));
        let info = second.find("a").unwrap();
        assert!(info.is_returning() && info.progress().publications < 2);
        second.settling.as_mut().unwrap().0 = Monotonic::now();
        second.tick().unwrap();
        assert!(!info.is_returning());
        assert_eq!(info.progress().publications, 2);
    }
}
