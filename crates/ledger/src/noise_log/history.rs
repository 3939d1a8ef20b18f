//! The steps that were issued, and for which data.

use super::refusal::{RefusalReason, StepRefusal};
use std::collections::VecDeque;
use std::ops::Range;

/// The mark of a step that was issued for unknown data.
pub const UNKNOWN: u64 = 0;

/// Steps that were issued for data with this mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepSpan {
    /// The first step.
    pub first: u64,
    /// The last step.
    pub last: u64,
    /// The mark of the data; [`UNKNOWN`] if nothing identifies them.
    pub mark: u64,
}

impl StepSpan {
    /// A span of one step.
    pub fn from_step(step: u64, mark: u64) -> Self {
        Self { first: step, last: step, mark }
    }

    /// Whether `next` has the same mark and follows this span directly.
    pub(super) fn continues_with(&self, next: Self) -> bool {
        self.last + 1 == next.first && self.mark == next.mark
    }
}

/// The issued steps of one range of coordinates: disjoint spans in order.
#[derive(Debug, Default)]
pub(super) struct StepHistory {
    spans: VecDeque<StepSpan>,
}

impl StepHistory {
    /// The last step; 0 if there is none.
    pub(super) fn last(&self) -> u64 {
        self.spans.back().map_or(0, |span| span.last)
    }

    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }

    pub(super) fn spans(&self) -> impl Iterator<Item = StepSpan> {
        self.spans.iter().copied()
    }

    /// The recorded spans that overlap this one.
    fn overlapping(&self, span: StepSpan) -> impl Iterator<Item = &StepSpan> {
        let from = if span.first > self.last() {
            self.spans.len() // the usual case
        } else {
            self.spans.partition_point(|other| other.last < span.first)
        };
        self.spans.range(from..).take_while(move |other| other.first <= span.last)
    }

    /// The first step of a span that was issued already.
    fn first_issued(&self, span: StepSpan) -> Option<u64> {
        self.overlapping(span).next().map(|other| other.first.max(span.first))
    }

    /// Refuses a span if one of its steps was issued for other, or possibly other, data.
    fn refusal(&self, span: StepSpan) -> Option<StepRefusal> {
        let same = |other: &&StepSpan| span.mark != UNKNOWN && other.mark == span.mark;
        let other = self.overlapping(span).find(|other| !same(other))?;
        let is_unknown = span.mark == UNKNOWN || other.mark == UNKNOWN;
        let reason = if is_unknown { RefusalReason::UnknownData } else { RefusalReason::OtherData };
        Some(StepRefusal { step: other.first.max(span.first), last: self.last(), reason })
    }

    /// The steps of a span that were not issued before.
    pub(super) fn missing_in(&self, span: StepSpan) -> Vec<StepSpan> {
        let mut from = span.first;
        let mut pieces = Vec::new();
        for other in self.overlapping(span) {
            if from < other.first {
                pieces.push(StepSpan { first: from, last: other.first - 1, mark: span.mark });
            }
            let Some(next) = other.last.checked_add(1) else { return pieces };
            from = next;
        }
        if from <= span.last {
            pieces.push(StepSpan { first: from, ..span });
        }
        pieces
    }

    /// Records the steps of a span that were not issued before.
    pub(super) fn insert(&mut self, span: StepSpan) {
        if span.first > self.last() {
            match self.spans.back_mut() {
                Some(last) if last.continues_with(span) => last.last = span.last,
                _ => self.spans.push_back(span),
            }
        } else {
            self.missing_in(span).into_iter().for_each(|piece| self.insert_between(piece));
        }
    }

    /// Inserts a span that overlaps no other.
    fn insert_between(&mut self, span: StepSpan) {
        let at = self.spans.partition_point(|other| other.last < span.first);
        match at.checked_sub(1).map(|before| &mut self.spans[before]) {
            Some(before) if before.continues_with(span) => before.last = span.last,
            _ => self.spans.insert(at, span),
        }
    }

    /// Forgets what the oldest steps were issued for, until `max_spans` spans are left. Those steps count as issued for
    /// unknown data, so they are never issued again.
    pub(super) fn shorten(&mut self, max_spans: usize) {
        let Some(excess) = self.spans.len().checked_sub(max_spans.max(1)).filter(|excess| *excess > 0) else { return };
        let last = self.spans[excess].last;
        let first = self.spans[0].first;
        self.spans.drain(..=excess);
        self.spans.push_front(StepSpan { first, last, mark: UNKNOWN });
    }
}

/// The issued steps of one stream of noise, by range of coordinates.
#[derive(Debug)]
pub(super) struct StreamHistory {
    parts: Vec<(Range<u64>, StepHistory)>,
    /// The process that issued the first step.
    pub(super) process: u32,
}

impl StreamHistory {
    pub(super) fn new() -> Self {
        Self { parts: vec![], process: std::process::id() }
    }

    /// Refuses some steps of some coordinates, if they were issued for other data.
    pub(super) fn refusal(&self, part: &Range<u64>, span: StepSpan) -> Option<StepRefusal> {
        let refused = |(other, history): &(Range<u64>, StepHistory)| {
            if other == part {
                return history.refusal(span);
            }
            let apart = other.end <= part.start || part.end <= other.start;
            let step = if apart { None } else { history.first_issued(span) }?;
            Some(StepRefusal { step, last: history.last(), reason: RefusalReason::Overlap(other.clone()) })
        };
        self.parts.iter().find_map(refused)
    }

    /// The history of a range of coordinates.
    pub(super) fn of_part(&self, part: &Range<u64>) -> Option<&StepHistory> {
        self.parts.iter().find(|(other, _)| other == part).map(|(_, history)| history)
    }

    /// The same, mutable; created if missing.
    pub(super) fn of_part_mut(&mut self, part: &Range<u64>) -> &mut StepHistory {
        let at = self.parts.iter().position(|(other, _)| other == part).unwrap_or_else(|| {
            self.parts.push((part.clone(), StepHistory::default()));
            self.parts.len() - 1
        });
        &mut self.parts[at].1
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = &(Range<u64>, StepHistory)> {
        self.parts.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(|(_, history)| history.len()).sum()
    }

    /// Applies [`StepHistory::shorten`] to each part.
    pub(super) fn shorten(&mut self, max_spans: usize) {
        self.parts.iter_mut().for_each(|(_, history)| history.shorten(max_spans));
    }
}
