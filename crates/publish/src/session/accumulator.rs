//! What a session adds events to.

use super::open_step::OpenStep;
use super::placer::LabelAssigner;
use evertally::privacy::contribution::Pseudonym;
use evertally_declare::error::Result;
use evertally_declare::stream::Stream;
use evertally_ledger::ledger::StreamDigest;

/// The accumulator of a session: running sums of groups, items in a sketch, or keys in a tree.
pub trait Accumulator {
    /// The label of an event: its group or its item.
    type Label: Send + Ord;

    /// Assigns labels to events.
    type Labels: LabelAssigner<Label = Self::Label>;

    /// The results of closed steps.
    type Closed<'a>
    where
        Self: 'a;

    /// Assigns labels to events, for one thread.
    fn labels(&self) -> Self::Labels;

    /// A number for the group of a label, for bounds on a person's groups.
    fn group_of(label: &Self::Label) -> u64;

    /// Appends bytes that identify a label, the same in every process and run.
    fn push_label(label: &Self::Label, bytes: &mut Vec<u8>);

    /// Reads the bytes of [`push_label`](Self::push_label); `None` for any others.
    fn read_label(&self, bytes: &[u8]) -> Option<Self::Label>;

    /// The last closed step, 0 before the first.
    fn step(&self) -> u64;

    /// Adds the kept part of an event to the open step.
    fn add(&mut self, label: &Self::Label, kept: KeptEvent) -> Result<()>;

    /// Adds the kept events of the open step of the period since `since`. Each implementation calls
    /// `open.close(step, since, …)` in a function that is not generic, so that it is compiled in this crate, which is
    /// optimised for speed, and not in the front ends, which are optimised for size.
    #[doc(hidden)]
    fn add_kept(&mut self, open: &mut OpenStep<Self>, step: u64, since: u64) -> Result<()>
    where
        Self: Sized;

    /// Closes the open step, and possibly empty ones after it, at most through `through`. Their sums go into the digest
    /// first, which refuses data that differ from those published before.
    fn close<'a>(&'a mut self, stream: &'a Stream, through: u64, digest: &mut StreamDigest)
    -> Result<Self::Closed<'a>>;
}

/// The kept part of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptEvent {
    /// Its value, or the part of it that fits the person's bounds, in multiples of the grid.
    pub value: i64,
    /// The person; the same for all events if single events are protected.
    pub person: Pseudonym,
    /// The first step of the event's period.
    pub since: u64,
}
