//! All issued steps of a key, within bounds of memory.

use super::file::LogEntry;
use super::history::{StepHistory, StepSpan, StreamHistory, UNKNOWN};
use super::refusal::{RefusalReason, StepRefusal};
use std::collections::HashMap;
use std::ops::Range;

/// The number of spans of steps per stream for which the data are remembered.
const MAX_SPANS_PER_STREAM: usize = 1 << 16;
/// The same for all streams of a key together. Beyond it, each stream remembers fewer, but at least the number below.
const MAX_TOTAL_SPANS: usize = 1 << 20;
const MIN_SPANS: usize = 16;

/// Steps that are about to be issued.
#[derive(Clone, Copy, Debug)]
pub struct SpanClaim<'a> {
    /// Identifies the stream of noise: [`StreamSecrets::identity`](super::StreamSecrets::identity).
    pub identity: [u8; 16],
    /// The coordinates; `0..1` if there is only one.
    pub part: &'a Range<u64>,
    /// The step that the claiming object resumed from: its noise through this step may have been issued for data
    /// unknown to this log.
    pub resumed_from: u64,
    /// The steps with the marks of their data, in order.
    pub spans: &'a [StepSpan],
}

/// The issued noise of all streams of a key.
pub(super) struct IssuedSteps {
    streams: HashMap<[u8; 16], StreamHistory>,
    /// The maximum number of spans per stream.
    max_spans: usize,
    /// The number of spans.
    spans: usize,
}

impl IssuedSteps {
    pub(super) fn new() -> Self {
        Self { streams: HashMap::new(), max_spans: MAX_SPANS_PER_STREAM, spans: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// The number of spans.
    pub(super) fn len(&self) -> usize {
        self.spans
    }

    /// Refuses a claim if one of its steps was issued for other, or possibly other, data. `in_file` tells whether other
    /// processes record their steps in the same file.
    pub(super) fn refusal(&self, claim: &SpanClaim<'_>, in_file: bool) -> Option<StepRefusal> {
        let first = claim.spans.first()?.first;
        let stream = self.streams.get(&claim.identity);
        let last = stream.and_then(|stream| stream.of_part(claim.part)).map_or(0, StepHistory::last);
        // Steps between the record and the restored state were issued where this record cannot see it.
        let unseen = last.saturating_add(1)..=claim.resumed_from;
        let in_unseen = |span: &StepSpan| span.first.max(*unseen.start()) <= span.last.min(*unseen.end());
        if let Some(span) = claim.spans.iter().find(|span| in_unseen(span)) {
            let step = span.first.max(*unseen.start());
            return Some(StepRefusal { step, last: claim.resumed_from, reason: RefusalReason::UnknownData });
        }
        let stream = stream?;
        if !in_file && stream.process != std::process::id() {
            return Some(StepRefusal { step: first, last, reason: RefusalReason::Forked });
        }
        claim.spans.iter().find_map(|span| stream.refusal(claim.part, *span))
    }

    /// The spans that a claim adds to the record.
    pub(super) fn new_spans(&self, claim: &SpanClaim<'_>) -> Vec<StepSpan> {
        let history = self.streams.get(&claim.identity).and_then(|stream| stream.of_part(claim.part));
        let last = history.map_or(0, StepHistory::last);
        let mut new: Vec<StepSpan> = Vec::with_capacity(claim.spans.len() + 1);
        if last < claim.resumed_from {
            new.push(StepSpan { first: last + 1, last: claim.resumed_from, mark: UNKNOWN });
        }
        for span in claim.spans {
            match (history, new.last_mut()) {
                (Some(history), _) if span.first <= last => new.extend(history.missing_in(*span)),
                (_, Some(before)) if before.continues_with(*span) => before.last = span.last,
                _ => new.push(*span),
            }
        }
        new
    }

    pub(super) fn insert(&mut self, identity: [u8; 16], part: &Range<u64>, spans: &[StepSpan]) {
        let history = self.streams.entry(identity).or_insert_with(StreamHistory::new).of_part_mut(part);
        let before = history.len();
        for span in spans {
            history.insert(*span);
            if history.len() > self.max_spans + self.max_spans / 4 {
                history.shorten(self.max_spans);
            }
        }
        self.spans = (self.spans + history.len()).saturating_sub(before);
        if self.spans > MAX_TOTAL_SPANS && self.max_spans > MIN_SPANS {
            self.max_spans /= 2;
            self.streams.values_mut().for_each(|stream| stream.shorten(self.max_spans));
            self.spans = self.streams.values().map(StreamHistory::len).sum();
        }
    }

    pub(super) fn insert_all(&mut self, entries: &[LogEntry]) {
        entries.iter().for_each(|LogEntry { identity, part, span }| self.insert(*identity, part, &[*span]));
    }

    /// Entries for a log file, from which all this can be read again.
    pub(super) fn entries(&self) -> Vec<LogEntry> {
        let mut entries = Vec::with_capacity(self.spans);
        for (identity, stream) in &self.streams {
            for (part, history) in stream.parts() {
                let entry = |span| LogEntry { identity: *identity, part: part.clone(), span };
                entries.extend(history.spans().map(entry));
            }
        }
        entries
    }
}
