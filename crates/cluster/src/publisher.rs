//! The driver of a stream that never ends: each closed step is recorded permanently, then released.
//!
//! Files in a [store](Once) with atomic create-if-absent, in a folder with the stream's name (in hexadecimal):
//!
//! | name | bytes |
//! |---|---|
//! | `stream` | text: the stream's name, the key's id, the plan; authenticated with the key; written once |
//! | `steps/000000000012` | a keyed digest of all sums through step 12, and of the persons counted; written once |
//! | `state/000000000012` | the exact running sums after step 12, authenticated; may be replaced by identical ones |
//! | `runs/ID` | of a query: its last batch with closed steps, and its first and last step |
//!
//! A step is released only if the digest of its sums and of all earlier ones equals the stored one. So a replay after a
//! failure gives the same bytes. Anything else (another checkpoint, other files, a second driver with other events, an
//! early or late version of a window) is refused, whichever comes first.

use super::digest::Digests;
use super::{ClusterJob, Digest, Once, RowKind, ShuffleRow};
use evertally::hex;
use evertally::noise::{Purpose, StreamName};
use evertally_declare::error::{PipelineError, Result, usage};
use evertally_ledger::ledger::{Ledger, StreamDigest, random_identity};
use evertally_publish::rows::ReleaseRow;
use evertally_publish::session::{Accumulator, GroupRef, RunningSums};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use zeroize::Zeroizing;

const VERSION: u32 = 1;

/// The driver's side of a stream.
pub struct Publisher {
    work: ClusterJob,
    once: Box<dyn Once>,
    key: Zeroizing<[u8; 32]>,
    folder: String,
    /// The last step that the store must hold, according to the key's own ledger.
    known: u64,
    /// The sums and digests after the last step, if in memory.
    head: Option<Head>,
}

struct Head {
    step: u64,
    chain: [u8; 32],
    sums: RunningSums,
}

/// The last batch that a query has closed.
#[derive(Serialize, Deserialize)]
struct ClosedBatch {
    version: u32,
    batch: u64,
    from: u64,
    through: u64,
}

/// The sums after a step.
#[derive(Serialize, Deserialize)]
struct PublishedSums {
    version: u32,
    step: u64,
    chain: [u8; 32],
    sums: Vec<u8>,
    views: Vec<(Vec<String>, evertally_publish::views::ViewValue)>,
}

impl Publisher {
    /// The driver's side of some work, with a ledger in this store; the key's own ledger delegates the stream to it.
    ///
    /// # Errors
    /// If the store holds a stream of this name under another key or plan, or cannot be written, or the key's own
    /// ledger does not delegate the stream to it.
    pub fn open(work: ClusterJob, once: Box<dyn Once>, ledger: &mut Ledger) -> Result<Self> {
        let key = work.mac_key(Purpose::Digests);
        let name = work.stream.name.to_string();
        let folder = hex(name.as_bytes());
        let fresh = random_identity()?;
        let identity = once.create("identity", fresh.as_bytes())?;
        let identity = identity.map_or(fresh, |there| String::from_utf8_lossy(&there).into_owned());
        let (known, chain) = ledger.delegate_to(&work.key, &work.stream, &identity, &once.shown())?;
        let publisher = Self { work, once, key, folder, known, head: None };
        if known > 0 && publisher.chain_at(known)?.map(|chain| hex(&chain)) != Some(chain) {
            return Err(publisher.lacks(known));
        }
        let stream = &publisher.work.stream;
        let text = format!("evertally 1 stream\n{name}\n{}\n{}", publisher.work.key.id(), stream.plan_text()?);
        if let Some(there) = publisher.once.create(&publisher.named("stream"), &publisher.sealed(text.as_bytes()))? {
            let there = publisher.opened(&there).map(|there| there == text.as_bytes());
            if there != Ok(true) {
                let place = publisher.once.shown();
                return Err(usage(format!(
                    "the ledger {place} holds a stream `{name}` under another key or plan; a changed plan is a new \
                     stream: give another name, checkpoint and sink (its budget then adds to the budget already spent)"
                )));
            }
        }
        Ok(publisher)
    }

    /// The digest of the steps through `step`, if it exists.
    fn chain_at(&self, step: u64) -> Result<Option<[u8; 32]>> {
        let there = self.once.read(&self.named(&format!("steps/{step:012}")))?;
        Ok(there.and_then(|there| there.try_into().ok()))
    }

    fn lacks(&self, step: u64) -> PipelineError {
        usage(format!(
            "the ledger {} lacks step {step}, which was released: it is an older copy, or a part is missing. \
             Restore all of it, or give another name, checkpoint and sink (its budget then adds to what is already \
             spent)",
            self.once.shown()
        ))
    }

    /// The last step that this process has closed, and the digest of all steps through it: for the key's own ledger.
    pub fn head(&self) -> Option<(u64, String)> {
        self.head.as_ref().map(|head| (head.step, hex(&head.chain)))
    }

    /// The stream's name.
    pub fn name(&self) -> &StreamName {
        &self.work.stream.name
    }

    fn named(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    /// Bytes preceded by an authentication code of the key.
    fn sealed(&self, bytes: &[u8]) -> Vec<u8> {
        [blake3::keyed_hash(&self.key, bytes).as_bytes().as_slice(), bytes].concat()
    }

    fn opened<'b>(&self, sealed: &'b [u8]) -> std::result::Result<&'b [u8], ()> {
        let (code, bytes) = sealed.split_first_chunk::<32>().ok_or(())?;
        // Compared in constant time.
        if blake3::keyed_hash(&self.key, bytes) == *code { Ok(bytes) } else { Err(()) }
    }

    fn damaged(&self, what: &str) -> PipelineError {
        let place = self.once.shown();
        usage(format!(
            "{what} in the ledger {place} is damaged, or was changed by another program; restore it from a copy"
        ))
    }

    /// Closes steps for a batch of a query: those after the last closed one, through `through`, with the sums of this
    /// batch. Visits their rows in order; they may be shown once this returns. A retried batch gives the same rows.
    ///
    /// # Errors
    /// If the sums differ from those that were released before, an earlier step is missing from the ledger, or the
    /// ledger cannot be read or written. Nothing may be shown then.
    pub fn close(
        &mut self,
        query: &str,
        batch: u64,
        through: u64,
        rows: &[ShuffleRow],
        mut visit: impl FnMut(u64, &ReleaseRow<'_>) -> Result<()>,
    ) -> Result<()> {
        let run = self.run_of(query)?;
        let from = match &run {
            None => 0,
            Some(run) if batch == run.batch => run.from,
            Some(run) if batch > run.batch => run.through,
            Some(run) => {
                let last = run.batch;
                return Err(usage(format!(
                    "batch {batch} comes after batch {last} of the same query: its checkpoint is older than the ledger \
                     {}. Restore the checkpoint, or begin with a new one from the first event: it will repeat what was \
                     released",
                    self.once.shown()
                )));
            }
        };
        if through <= from {
            return if rows.is_empty() { Ok(()) } else { Err(self.too_early(from)) };
        }
        let mut by_step: BTreeMap<u64, Vec<&ShuffleRow>> = BTreeMap::new();
        for row in rows {
            if row.step <= from || row.step > through {
                return Err(self.too_early(from));
            }
            by_step.entry(row.step).or_default().push(row);
        }
        let mut head = self.head_at(from)?;
        // Everything is recorded first; if a later step is refused, no earlier one of the batch has been shown.
        let mut digesting = self.work.digesting();
        for step in from + 1..=through {
            let rows = by_step.remove(&step).unwrap_or_default();
            let mut digests = Digests::default();
            rows.iter().for_each(|row| digests.add_step(step, digesting.of_row(row)));
            let digest = digests.steps().next().map_or(Digest::default(), |(_, digest)| digest);
            head.chain = self.link(&head.chain, step, digest);
            self.record(step, &head.chain)?;
            for row in rows {
                let label = match ShuffleRow::says(&row.label)? {
                    RowKind::Place(place) => GroupRef::Place(place as usize),
                    RowKind::Name(name) => head.sums.label_of(name),
                    RowKind::Cell(place, cell) => {
                        head.sums.add_to_cell(place as usize, cell as usize, row.sum)?;
                        continue;
                    }
                    RowKind::Refused(why) => return Err(usage(why.to_owned())),
                    RowKind::Shard(_) | RowKind::Kept(_) => continue,
                };
                head.sums.add_sum(&label, row.sum)?;
            }
            let mut closed = head.sums.close(&self.work.stream, step, &mut StreamDigest::unrecorded())?;
            head.step = step;
            closed.for_each_row(|_, row| visit(step, row))?;
        }
        self.put_state(&head)?;
        let next = ClosedBatch { version: VERSION, batch, from, through };
        let bytes = postcard::to_allocvec(&next).map_err(evertally_declare::error::failure)?;
        self.once.replace(&self.named(&format!("runs/{query}")), &self.sealed(&bytes))?;
        if let Some(run) = run.filter(|run| run.from < from && run.from > 0) {
            self.once.forget(&self.named(&state_of(run.from)));
        }
        self.known = self.known.max(through);
        self.head = Some(head);
        Ok(())
    }

    fn too_early(&self, from: u64) -> PipelineError {
        usage(format!(
            "the batch has sums of steps that are already closed (through {from}) or still open; nothing is released"
        ))
    }

    fn link(&self, chain: &[u8; 32], step: u64, digest: Digest) -> [u8; 32] {
        let mut link = blake3::Hasher::new_keyed(&self.key);
        link.update(b"step").update(chain).update(&step.to_le_bytes()).update(&digest.to_bytes());
        *link.finalize().as_bytes()
    }

    /// Records the digest of a step, permanently.
    fn record(&self, step: u64, chain: &[u8; 32]) -> Result<()> {
        if step <= self.known && self.chain_at(step)?.is_none() {
            return Err(self.lacks(step));
        }
        match self.once.create(&self.named(&format!("steps/{step:012}")), chain)? {
            Some(there) if there != chain => Err(usage(format!(
                "step {step} of stream `{}` has already been released from different data, according to the ledger {}; \
                 releasing it again with the same noise would reveal the difference exactly. Restore the events and \
                 the checkpoint, or give another name, checkpoint and sink (its budget then adds to what is already \
                 spent)",
                self.work.stream.name,
                self.once.shown()
            ))),
            _ => Ok(()),
        }
    }

    fn run_of(&self, query: &str) -> Result<Option<ClosedBatch>> {
        let name = self.named(&format!("runs/{query}"));
        let Some(sealed) = self.once.read(&name)? else { return Ok(None) };
        let run = self.opened(&sealed).ok().and_then(|bytes| postcard::from_bytes::<ClosedBatch>(bytes).ok());
        run.filter(|run| run.version == VERSION).map(Some).ok_or_else(|| self.damaged(&name))
    }

    /// The sums after a step.
    fn head_at(&mut self, step: u64) -> Result<Head> {
        if let Some(head) = self.head.take().filter(|head| head.step == step) {
            return Ok(head);
        }
        let (stream, key) = (&self.work.stream, self.work.noise_key());
        let groups = self.work.groups.as_deref().cloned();
        if step == 0 {
            return Ok(Head { step: 0, chain: [0; 32], sums: RunningSums::new(stream, groups, &key)? });
        }
        let name = self.named(&state_of(step));
        let Some(sealed) = self.once.read(&name)? else {
            return Err(usage(format!(
                "the ledger {} does not have the sums after step {step}, from which this query continues; begin \
                 it again from the first event with a new checkpoint: it will repeat what was released",
                self.once.shown()
            )));
        };
        let state = self.opened(&sealed).ok().and_then(|bytes| postcard::from_bytes::<PublishedSums>(bytes).ok());
        let state =
            state.filter(|state| state.version == VERSION && state.step == step).ok_or_else(|| self.damaged(&name))?;
        let recorded = self.once.read(&self.named(&format!("steps/{step:012}")))?;
        if recorded.as_deref() != Some(&state.chain) {
            return Err(self.damaged(&name));
        }
        let mut sums = RunningSums::restore(stream, groups, &key, (step, &state.sums))?;
        state.views.into_iter().for_each(|(group, shown)| sums.restore_view(group, shown));
        Ok(Head { step, chain: state.chain, sums })
    }

    fn put_state(&self, head: &Head) -> Result<()> {
        let views = head.sums.saved_views();
        let state =
            PublishedSums { version: VERSION, step: head.step, chain: head.chain, sums: head.sums.save(), views };
        let bytes = Zeroizing::new(postcard::to_allocvec(&state).map_err(evertally_declare::error::failure)?);
        self.once.replace(&self.named(&state_of(head.step)), &self.sealed(&bytes))
    }
}

fn state_of(step: u64) -> String {
    format!("state/{step:012}")
}
