//! A service for readers alone: it shows copies of the streams of another one.

use super::copies::{ProgressCopy, StreamCopy, StreamFacts};
use super::core::{Directory, Notice};
use super::decoding::Decoding;
use super::info::{Parts, StreamInfo, StreamProgress};
use super::live::first_head;
use super::reporting::Reporting;
use super::resolved::{Resolved, table_of};
use super::service::{Intake, Service};
use crate::clock::Clock;
use crate::config::RetentionConfig;
use crate::store::{CLOSED, ClosedRecord, NAMES, ROWS, STREAMS, Store, StreamRecord, from_bytes, stored, to_bytes};
use evertally_declare::error::{Context, Result, usage};
use redb::ReadableTable;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The key of the note of the service whose streams are shown.
const ORIGIN: &str = "replica of";
/// The key of the note of the budgets of sources, as an answer.
const SOURCES: &str = "replica sources";

/// The record of a copied stream, next to its publications.
#[derive(Serialize, Deserialize)]
struct CopyRecord {
    facts: StreamFacts,
    progress: ProgressCopy,
    /// The step of the last publication.
    step: u64,
    lines: u32,
}

fn note_of(number: u32) -> String {
    format!("replica {number}")
}

/// The identity of a service: of its key, and of its ledger.
fn origin_of(facts: &StreamFacts) -> String {
    format!("{} {}", facts.key_id, facts.ledger.identity)
}

impl Service {
    /// Shows the copies in a database.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn replica(store: Store, clock: Arc<dyn Clock>) -> Result<Self> {
        let intake = Intake {
            sources: BTreeMap::new(),
            ahead: 0,
            decoding: Arc::<Decoding>::default(),
            retention: RetentionConfig::default(),
        };
        let service = Self::without_counting(store, clock, intake, Directory::default())?;
        let numbers: Vec<u32> = {
            let table = service.store.look()?.open_table(STREAMS).map_err(stored)?;
            let entries = table.iter().map_err(stored)?;
            entries.map(|entry| Ok(entry.map_err(stored)?.0.value())).collect::<Result<_>>()?
        };
        for number in numbers {
            let record: CopyRecord = service.copied(number)?;
            let name = record.facts.record.name.clone();
            let info = service.info_of(number, &record).context(format_args!("stream `{name}`"))?;
            service.directory.put(info);
        }
        Ok(service)
    }

    fn copied(&self, number: u32) -> Result<CopyRecord> {
        let bytes = self.store.noted(&note_of(number))?.unwrap_or_default();
        from_bytes(&bytes, "the copy of a stream")
    }

    /// The number of publications and of names that are known of a stream.
    pub fn known_of(&self, name: &str) -> (u64, usize) {
        self.stream(name).map_or((0, 0), |info| (info.progress().publications, info.all_lines()))
    }

    /// Stores a copy, and shows it. Returns whether it was the last part for now.
    ///
    /// # Errors
    /// If it does not continue the publications that were shown here, or cannot be stored; then nothing changes.
    pub fn take_copy(&self, copy: StreamCopy) -> Result<bool> {
        let name = copy.name().to_owned();
        self.taken(copy).context(format_args!("stream `{name}`"))
    }

    fn taken(&self, copy: StreamCopy) -> Result<bool> {
        let origin = origin_of(&copy.facts);
        if let Some(known) = self.store.noted(ORIGIN)?
            && known != origin.as_bytes()
        {
            return Err(usage("it belongs to another service than the streams in the folder; use another folder"));
        }
        let known = self.stream(copy.name());
        let before = known.as_ref().map(|info| self.copied(info.number)).transpose()?;
        let progress = known.as_ref().map(|info| info.progress());
        let (last, head) = progress.as_ref().map_or((0, None), |own| (own.publications, Some(own.head)));
        if known.as_ref().is_some_and(|info| info.number != copy.number) || copy.progress.publications < last {
            return Err(usage(
                "the other end has published fewer steps than were shown here: it is not the same service, or an old \
                 copy of it. The shown publications stay",
            ));
        }
        copy.check(last, head)?;
        let last = copy.publications.last();
        let reached = last.map_or(progress.as_ref().map_or(0, |own| own.publications), |last| last.publication);
        let is_whole = reached == copy.progress.publications;
        let step = last.map_or(before.as_ref().map_or(0, |before| before.step), |last| last.step);
        let lines = last.map_or(before.as_ref().map_or(0, |before| before.lines), |last| last.lines);
        let head = last.map_or(head.unwrap_or_else(|| first_head(copy.name())), |last| last.head);
        if is_whole && head != copy.progress.head {
            return Err(usage("the digest of its publications differs from those that were shown here"));
        }
        let progress = copy.progress.reached(reached, head);
        let record = CopyRecord { facts: copy.facts.clone(), progress, step, lines };
        self.store_copy(&copy, &record, &origin)?;
        let info = match known.filter(|_| before.is_some_and(|before| before.facts == record.facts)) {
            Some(info) => {
                let first = info.all_lines();
                info.add_names(self.names_from(copy.number, first)?);
                info
            }
            None => self.info_of(copy.number, &record)?,
        };
        self.show(&info, &record);
        Ok(is_whole)
    }

    fn store_copy(&self, copy: &StreamCopy, record: &CopyRecord, origin: &str) -> Result<()> {
        let (number, first) = (copy.number, self.known_of(copy.name()).1 as u32); // fits: places do
        let note = to_bytes(record)?;
        self.store.change(|writing| {
            let mut streams = writing.open_table(STREAMS).map_err(stored)?;
            streams.insert(number, to_bytes(&copy.facts.record)?.as_slice()).map_err(stored)?;
            let mut names = writing.open_table(NAMES).map_err(stored)?;
            let discovered =
                copy.publications.iter().flat_map(|own| own.names.iter().map(|(place, name)| (*place, name)));
            for (place, name) in (first..).zip(&copy.names).chain(discovered) {
                names.insert((number, place), to_bytes(name)?.as_slice()).map_err(stored)?;
            }
            let mut rows = writing.open_table(ROWS).map_err(stored)?;
            let mut closed = writing.open_table(CLOSED).map_err(stored)?;
            for own in &copy.publications {
                for (block, bytes) in &own.blocks {
                    rows.insert((number, own.publication, *block), bytes.as_slice()).map_err(stored)?;
                }
                let record = ClosedRecord {
                    publications: own.publication,
                    head: own.head,
                    events: [0; 32],
                    shown_at: 0,
                    batches: 0,
                    acknowledged: own.step,
                    lines: own.lines,
                };
                closed.insert((number, own.step), to_bytes(&record)?.as_slice()).map_err(stored)?;
            }
            let mut meta = writing.open_table(crate::store::META).map_err(stored)?;
            meta.insert(note_of(number).as_str(), note.as_slice()).map_err(stored)?;
            meta.insert(ORIGIN, origin.as_bytes()).map_err(stored)?;
            Ok(())
        })
    }

    /// Makes a stored copy known, and reports the changes.
    fn show(&self, info: &Arc<StreamInfo>, record: &CopyRecord) {
        let progress = record.progress.progress(record.step);
        let before = self.stream(info.name()).map(|before| before.progress());
        info.show_lines(record.lines);
        *info.locked() = progress.clone();
        self.directory.put(Arc::clone(info));
        let (shown, state) = before.map_or((0, None), |before| (before.publications, Some(before.state)));
        for publication in shown + 1..=progress.publications {
            self.notify(Notice::Published(Arc::clone(info), publication));
        }
        if state != Some(progress.state) {
            self.notify(Notice::Changed(Arc::clone(info)));
        }
    }

    /// Shows a stream to nobody any more: it is not public now.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn hide(&self, info: &StreamInfo) -> Result<()> {
        let mut copied = self.copied(info.number)?;
        copied.facts.record.public = false;
        self.store.note(&note_of(info.number), &to_bytes(&copied)?)?;
        info.set_record(StreamRecord { public: false, ..info.record() });
        Ok(())
    }

    /// The budgets of sources for readers, as the other end answers.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn copied_sources(&self) -> Result<Option<Vec<u8>>> {
        self.store.noted(SOURCES)
    }

    /// Stores the budgets of sources.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn take_sources(&self, body: &[u8]) -> Result<()> {
        if self.copied_sources()?.as_deref() == Some(body) { Ok(()) } else { self.store.note(SOURCES, body) }
    }

    fn names_from(&self, number: u32, first: usize) -> Result<Vec<Vec<String>>> {
        let table = self.store.look()?.open_table(NAMES).map_err(stored)?;
        let first = first as u32; // fits: places do
        let entries = table.range((number, first)..=(number, u32::MAX)).map_err(stored)?;
        entries.map(|entry| from_bytes(entry.map_err(stored)?.1.value(), "the names of a stream")).collect()
    }

    /// A stream from its stored copy: its plan is computed again, and must be the same.
    fn info_of(&self, number: u32, copied: &CopyRecord) -> Result<Arc<StreamInfo>> {
        let facts = &copied.facts;
        let resolved = Resolved::new(&facts.record.declaration, Some(&facts.records()?), facts.follows.clone())?;
        let stream = Arc::new(resolved.stream);
        if stream.plan_digest() != facts.plan_digest {
            return Err(usage("its plan differs from that of the other end: run the same version there and here"));
        }
        let reporting = Reporting::from_facts(Arc::clone(&stream), facts.key_id.clone(), facts.ledger.clone());
        let progress: StreamProgress = copied.progress.progress(copied.step);
        let info = StreamInfo::new(Parts {
            number,
            table: table_of(&stream)?,
            plan: stream.plan_text()?,
            groups: resolved.groups,
            joined: Vec::new(),
            reporting,
            placer: None,
            digest_key: [0; 32],
            progress,
            stream,
            record: facts.record.clone(),
        });
        info.add_names(self.names_from(number, 0)?);
        info.show_lines(copied.lines);
        Ok(Arc::new(info))
    }
}
