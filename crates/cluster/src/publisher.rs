//! The driver of a stream that never ends: what is closed is recorded once and for ever, then released.
//!
//! In a [place](Once) with an atomic create-if-absent stand, below the name of the stream (in hexadecimal):
//!
//! | name | bytes |
//! |---|---|
//! | `stream` | text: the stream's name, the key's id, the plan, all under a code of the key; written once |
//! | `steps/000000000012` | a keyed digest of all sums of all steps through 12, and of whose events they are; written once |
//! | `state/000000000012` | the exact running sums after step 12, under a code of the key; may be replaced by the same |
//! | `runs/ID` | of a query: its last batch with closed steps, from which and through which |
//!
//! A step is released only while the digest of its sums and of all before it is what stands there. So a replay after a
//! failure gives the same bytes, and anything else (another checkpoint, other files, a second driver with other events, an
//! early or late version of a window) is refused, whoever comes first.

use super::digest::Digests;
use super::{Digest, Once, Row, Rows, Work};
use evertally::noise::{Purpose, StreamName};
use evertally_declare::error::{Error, Result, usage};
use evertally_declare::hex::hex;
use evertally_ledger::ledger::{Ledger, StreamDigest, drawn_identity};
use evertally_publish::rows::ReleaseRow;
use evertally_publish::session::{GroupLabel, RunningSums, Tally};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use zeroize::Zeroizing;

const VERSION: u32 = 1;

/// The driver's part of a stream.
pub struct Publisher {
    work: Work,
    once: Box<dyn Once>,
    key: Zeroizing<[u8; 32]>,
    folder: String,
    /// The last step that must be in the place, says the key's own ledger.
    known: u64,
    /// The sums and digests after the last step, where they are at hand.
    head: Option<Head>,
}

struct Head {
    step: u64,
    chain: [u8; 32],
    sums: RunningSums,
}

/// What a query has closed last.
#[derive(Serialize, Deserialize)]
struct Run {
    version: u32,
    batch: u64,
    from: u64,
    through: u64,
}

/// The sums after a step.
#[derive(Serialize, Deserialize)]
struct State {
    version: u32,
    step: u64,
    chain: [u8; 32],
    sums: Vec<u8>,
    views: Vec<(Vec<String>, evertally_publish::views::Viewed)>,
}

impl Publisher {
    /// The driver's part of some work, under a ledger in this place; that of the key leaves the stream to it.
    ///
    /// # Errors
    /// If the place holds a stream of this name under another key or plan, or cannot be written, or the key's own ledger
    /// does not leave the stream to it.
    pub fn open(work: Work, once: Box<dyn Once>, ledger: &mut Ledger) -> Result<Self> {
        work.check_closes()?;
        let key = work.mac_key(Purpose::Digests);
        let name = work.stream.name.to_string();
        let folder: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
        let fresh = drawn_identity()?;
        let identity = once.create("identity", fresh.as_bytes())?;
        let identity = identity.map_or(fresh, |there| String::from_utf8_lossy(&there).into_owned());
        let (known, chain) = ledger.leave_to(&work.key, &work.stream, &identity, &once.shown())?;
        let publisher = Self { work, once, key, folder, known, head: None };
        if known > 0 && publisher.chain_at(known)?.map(hex) != Some(chain) {
            return Err(publisher.lacks(known));
        }
        let stream = &publisher.work.stream;
        let text = format!("evertally 1 stream\n{name}\n{}\n{}", publisher.work.key.id(), stream.plan_text()?);
        if let Some(there) = publisher.once.create(&publisher.named("stream"), &publisher.sealed(text.as_bytes()))? {
            let there = publisher.opened(&there).map(|there| there == text.as_bytes());
            if there != Ok(true) {
                let place = publisher.once.shown();
                return Err(usage(format!(
                    "the ledger {place} holds a stream `{name}` under another key or plan; a changed plan is a new stream: \
                     give another name, checkpoint and sink (its budget then adds to what is already spent)"
                )));
            }
        }
        Ok(publisher)
    }

    /// The digest of the steps through one, if it is there.
    fn chain_at(&self, step: u64) -> Result<Option<[u8; 32]>> {
        let there = self.once.read(&self.named(&format!("steps/{step:012}")))?;
        Ok(there.and_then(|there| there.try_into().ok()))
    }

    fn lacks(&self, step: u64) -> Error {
        usage(format!(
            "the ledger {} lacks step {step}, which was released: it is an older copy, or a part of it is gone. Restore it whole, or \
             give another name, checkpoint and sink (its budget then adds to what is already spent)",
            self.once.shown()
        ))
    }

    /// The last step that this process has closed, and the digest of all through there: for the key's own ledger.
    pub fn head(&self) -> Option<(u64, String)> {
        self.head.as_ref().map(|head| (head.step, hex(head.chain)))
    }

    /// The stream's name.
    pub fn name(&self) -> &StreamName {
        &self.work.stream.name
    }

    fn named(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    /// Bytes behind a code of the key.
    fn sealed(&self, bytes: &[u8]) -> Vec<u8> {
        [blake3::keyed_hash(&self.key, bytes).as_bytes().as_slice(), bytes].concat()
    }

    fn opened<'b>(&self, sealed: &'b [u8]) -> std::result::Result<&'b [u8], ()> {
        let (code, bytes) = sealed.split_first_chunk::<32>().ok_or(())?;
        // Compared in constant time.
        if blake3::keyed_hash(&self.key, bytes) == *code { Ok(bytes) } else { Err(()) }
    }

    fn damaged(&self, what: &str) -> Error {
        let place = self.once.shown();
        usage(format!(
            "{what} in the ledger {place} is damaged, or was changed by another program; restore it from a copy"
        ))
    }

    /// Closes steps for a batch of a query: those behind the last that it has closed, through this one, with the sums that
    /// this batch has brought. Their rows come out, in order, and may be seen once this returns. A batch that is tried again
    /// gives the same.
    ///
    /// # Errors
    /// If the sums are others than those that were released before, a step before them is not in the ledger, or that cannot
    /// be read or written. Nothing may be seen then.
    pub fn close(
        &mut self,
        query: &str,
        batch: u64,
        through: u64,
        rows: &[Row],
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
                    "batch {batch} comes after batch {last} of the same query: its checkpoint is older than the ledger {}. \
                     Restore the checkpoint, or begin with a new one from the first event: it will repeat what was released",
                    self.once.shown()
                )));
            }
        };
        if through <= from {
            return if rows.is_empty() { Ok(()) } else { Err(self.too_early(from)) };
        }
        let mut by_step: BTreeMap<u64, Vec<&Row>> = BTreeMap::new();
        for row in rows {
            if row.step <= from || row.step > through {
                return Err(self.too_early(from));
            }
            by_step.entry(row.step).or_default().push(row);
        }
        let mut head = self.head_at(from)?;
        // First everything is recorded; what a later step refuses, no earlier one of the batch has shown.
        let mut digesting = self.work.digesting();
        for step in from + 1..=through {
            let rows = by_step.remove(&step).unwrap_or_default();
            let mut digests = Digests::default();
            rows.iter().for_each(|row| digests.add_step(step, digesting.of_row(row)));
            let digest = digests.steps().next().map_or(Digest::default(), |(_, digest)| digest);
            head.chain = self.link(&head.chain, step, digest);
            self.record(step, &head.chain)?;
            for row in rows {
                let label = match Row::says(&row.label)? {
                    Rows::Place(place) => GroupLabel::Place(place as usize),
                    Rows::Name(name) => head.sums.label_of(name),
                    Rows::Cell(..) => return Err(usage("a sum came that is of no stream of steps")),
                    Rows::Refused(why) => return Err(usage(why.to_owned())),
                    Rows::Shard(_) | Rows::Kept(_) => continue,
                };
                head.sums.add_sum(&label, row.sum)?;
            }
            let mut closed = head.sums.close(&self.work.stream, step, &mut StreamDigest::unrecorded())?;
            head.step = step;
            closed.for_each_row(|_, row| visit(step, row))?;
        }
        self.put_state(&head)?;
        let next = Run { version: VERSION, batch, from, through };
        let bytes = postcard::to_allocvec(&next).map_err(evertally_declare::error::failure)?;
        self.once.replace(&self.named(&format!("runs/{query}")), &self.sealed(&bytes))?;
        if let Some(run) = run.filter(|run| run.from < from && run.from > 0) {
            self.once.forget(&self.named(&state_of(run.from)));
        }
        self.known = self.known.max(through);
        self.head = Some(head);
        Ok(())
    }

    fn too_early(&self, from: u64) -> Error {
        usage(format!(
            "sums of steps came that are closed already (through {from}), or are not closed yet: nothing is released"
        ))
    }

    fn link(&self, chain: &[u8; 32], step: u64, digest: Digest) -> [u8; 32] {
        let mut link = blake3::Hasher::new_keyed(&self.key);
        link.update(b"step").update(chain).update(&step.to_le_bytes()).update(&digest.to_bytes());
        *link.finalize().as_bytes()
    }

    /// Writes down what a step has added, once and for ever.
    fn record(&self, step: u64, chain: &[u8; 32]) -> Result<()> {
        if step <= self.known && self.chain_at(step)?.is_none() {
            return Err(self.lacks(step));
        }
        match self.once.create(&self.named(&format!("steps/{step:012}")), chain)? {
            Some(there) if there != chain => Err(usage(format!(
                "step {step} of stream `{}` has already been released from different data, says the ledger {}; releasing it \
                 again with the same noise would reveal the difference exactly. Restore the events and the checkpoint, or \
                 give another name, checkpoint and sink (its budget then adds to what is already spent)",
                self.work.stream.name,
                self.once.shown()
            ))),
            _ => Ok(()),
        }
    }

    fn run_of(&self, query: &str) -> Result<Option<Run>> {
        let name = self.named(&format!("runs/{query}"));
        let Some(sealed) = self.once.read(&name)? else { return Ok(None) };
        let run = self.opened(&sealed).ok().and_then(|bytes| postcard::from_bytes::<Run>(bytes).ok());
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
                "the ledger {} does not have the sums after step {step}, with which this query goes on; begin it again from the \
                 first event with a new checkpoint: it will repeat what was released",
                self.once.shown()
            )));
        };
        let state = self.opened(&sealed).ok().and_then(|bytes| postcard::from_bytes::<State>(bytes).ok());
        let state =
            state.filter(|state| state.version == VERSION && state.step == step).ok_or_else(|| self.damaged(&name))?;
        let recorded = self.once.read(&self.named(&format!("steps/{step:012}")))?;
        if recorded.as_deref() != Some(&state.chain) {
            return Err(self.damaged(&name));
        }
        let mut sums = RunningSums::restore(stream, groups, &key, (step, &state.sums))?;
        state.views.into_iter().for_each(|(group, shown)| sums.recall_view(group, shown));
        Ok(Head { step, chain: state.chain, sums })
    }

    fn put_state(&self, head: &Head) -> Result<()> {
        let views = head.sums.shown_views();
        let state = State { version: VERSION, step: head.step, chain: head.chain, sums: head.sums.save(), views };
        let bytes = Zeroizing::new(postcard::to_allocvec(&state).map_err(evertally_declare::error::failure)?);
        self.once.replace(&self.named(&state_of(head.step)), &self.sealed(&bytes))
    }
}

fn state_of(step: u64) -> String {
    format!("state/{step:012}")
}
