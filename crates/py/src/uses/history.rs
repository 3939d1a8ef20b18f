//! The steps that were issued, and for which data.

use std::collections::VecDeque;
use std::ops::Range;

/// The mark of a step that was issued for unknown data.
pub(crate) const UNKNOWN: u64 = 0;

/// Steps that were issued for data with this mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) mark: u64,
}

impl Span {
    /// A span of one step.
    pub(crate) fn of(step: u64, mark: u64) -> Self {
        Self { first: step, last: step, mark }
    }

    /// Whether `next` has the same mark and follows this span directly.
    pub(super) fn continues_with(&self, next: Span) -> bool {
        self.last + 1 == next.first && self.mark == next.mark
    }
}

/// Why a step is not issued again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// It was issued for other data.
    Other,
    /// It was issued, and nothing shows that it was for the same data.
    Unknown,
    /// It was issued for these coordinates, which overlap.
    Part(Range<u64>),
    /// The parent process of this fork may issue it.
    Forked,
}

/// A step that is not issued again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) step: u64,
    /// The last step that was issued.
    pub(crate) last: u64,
    pub(crate) why: Why,
}

/// The steps of one stream: disjoint spans in order.
#[derive(Debug, Default)]
pub(super) struct History {
    spans: VecDeque<Span>,
}

impl History {
    /// The last step; 0 if there is none.
    pub(super) fn last(&self) -> u64 {
        self.spans.back().map_or(0, |span| span.last)
    }

    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }

    pub(super) fn spans(&self) -> impl Iterator<Item = Span> {
        self.spans.iter().copied()
    }

    /// The spans that overlap this one.
    fn overlapping(&self, span: Span) -> impl Iterator<Item = &Span> {
        let from = if span.first > self.last() {
            self.spans.len() // the usual case
        } else {
            self.spans.partition_point(|other| other.last < span.first)
        };
        self.spans.range(from..).take_while(move |other| other.first <= span.last)
    }

    /// The first step of a span that was issued already.
    pub(super) fn given(&self, span: Span) -> Option<u64> {
        self.overlapping(span).next().map(|other| other.first.max(span.first))
    }

    /// The first step of a span that was issued for other, or possibly other, data.
    pub(super) fn refusal(&self, span: Span) -> Option<Refusal> {
        let same = |other: &&Span| span.mark != UNKNOWN && other.mark == span.mark;
        let other = self.overlapping(span).find(|other| !same(other))?;
        let why = if span.mark == UNKNOWN || other.mark == UNKNOWN { Why::Unknown } else { Why::Other };
        Some(Refusal { step: other.first.max(span.first), last: self.last(), why })
    }

    /// The steps of a span that were not issued before.
    pub(super) fn new_in(&self, span: Span) -> Vec<Span> {
        let mut from = span.first;
        let mut pieces = Vec::new();
        for other in self.overlapping(span) {
            if from < other.first {
                pieces.push(Span { first: from, last: other.first - 1, mark: span.mark });
            }
            from = other.last + 1; // fits: streams have fewer steps
        }
        if from <= span.last {
            pieces.push(Span { first: from, ..span });
        }
        pieces
    }

    /// Records the steps of a span that were not issued before.
    pub(super) fn insert(&mut self, span: Span) {
        if span.first > self.last() {
            match self.spans.back_mut() {
                Some(last) if last.continues_with(span) => last.last = span.last,
                _ => self.spans.push_back(span),
            }
        } else {
            self.new_in(span).into_iter().for_each(|piece| self.place(piece));
        }
    }

    /// Inserts a span at its place; it overlaps no other.
    fn place(&mut self, span: Span) {
        let at = self.spans.partition_point(|other| other.last < span.first);
        match at.checked_sub(1).map(|before| &mut self.spans[before]) {
            Some(before) if before.continues_with(span) => before.last = span.last,
            _ => self.spans.insert(at, span),
        }
    }

    /// Forgets what the oldest steps were issued for, until `most` spans are left.
    pub(super) fn shorten(&mut self, most: usize) {
        let Some(more) = self.spans.len().checked_sub(most.max(1)).filter(|more| *more > 0) else { return };
        let last = self.spans[more].last;
        let first = self.spans[0].first;
        self.spans.drain(..=more);
        self.spans.push_front(Span { first, last, mark: UNKNOWN });
    }
}

/// The histories of a vector's coordinate ranges under one identity.
#[derive(Debug)]
pub(super) struct Stream {
    parts: Vec<(Range<u64>, History)>,
    /// The process that started it.
    pub(super) process: u32,
}

impl Stream {
    pub(super) fn new() -> Self {
        Self { parts: vec![], process: std::process::id() }
    }

    /// Why some steps of some coordinates are refused, if they are.
    pub(super) fn refusal(&self, part: &Range<u64>, span: Span) -> Option<Refusal> {
        let refused = |(other, history): &(Range<u64>, History)| {
            if other == part {
                return history.refusal(span);
            }
            let apart = other.end <= part.start || part.end <= other.start;
            let step = if apart { None } else { history.given(span) }?;
            Some(Refusal { step, last: history.last(), why: Why::Part(other.clone()) })
        };
        self.parts.iter().find_map(refused)
    }

    /// The history of a range of coordinates.
    pub(super) fn of_part(&self, part: &Range<u64>) -> Option<&History> {
        self.parts.iter().find(|(other, _)| other == part).map(|(_, history)| history)
    }

    /// The same, mutable; created if missing.
    pub(super) fn part(&mut self, part: &Range<u64>) -> &mut History {
        let at = self.parts.iter().position(|(other, _)| other == part).unwrap_or_else(|| {
            self.parts.push((part.clone(), History::default()));
            self.parts.len() - 1
        });
        &mut self.parts[at].1
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = &(Range<u64>, History)> {
        self.parts.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(|(_, history)| history.len()).sum()
    }

    /// Applies [`History::shorten`] to each part.
    pub(super) fn shorten(&mut self, most: usize) {
        self.parts.iter_mut().for_each(|(_, history)| history.shorten(most));
    }
}
