//! One partition: the records that were fetched and not yet returned, in order.

use super::OffsetGap;
use super::messages::Fetched;
use super::records::{BatchRecords, Header, headers};
use super::wire::TopicId;
use crate::SourceOutcome;
use crate::time::rfc3339;
use crate::{BatchLimits, Origins, RowWriter, Rows, SourceError, SourcePosition};
use bytes::Bytes;
use evertally_declare::error::usage;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::time::Instant;

/// Whether the offset is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OffsetState {
    /// The first or the last offset is to be found.
    Beginning,
    /// The broker does not have the offset.
    OutOfRange,
    Known,
}

/// A partition that was sought.
pub(super) struct Partition {
    pub(super) number: i32,
    /// The position of the service.
    after: Option<SourcePosition>,
    /// The offset of the next record to return.
    pub(super) next: i64,
    /// The offset of the next record to fetch.
    pub(super) fetch: i64,
    pub(super) state: OffsetState,
    /// Answers to requests before the last seek are not used.
    pub(super) generation: u64,
    pub(super) trouble: Option<Trouble>,
    /// A batch without rows fixes the position.
    pub(super) is_pinned: bool,
    fetched: VecDeque<FetchedRecords>,
    /// Bytes in `fetched`.
    pub(super) bytes: usize,
    open: Option<BatchRecords>,
    /// The record that was read from `open` and did not fit.
    has_record: bool,
    /// Producers of aborted transactions.
    aborted: BTreeSet<i64>,
    /// Why it cannot be read, until it is sought again.
    fault: Option<String>,
    gap: Option<OffsetGap>,
}

/// Why a partition cannot be read.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    pub(super) since: Instant,
    pub(super) why: String,
    /// Whether it was met after the last seek.
    pub(super) is_present: bool,
}

/// The records of one answer.
struct FetchedRecords {
    records: Bytes,
    aborted: VecDeque<(i64, i64)>,
}

impl Partition {
    pub(super) fn new(number: i32, generation: u64, after: Option<SourcePosition>, offset: Option<i64>) -> Self {
        let next = offset.unwrap_or(0);
        Self {
            number,
            after,
            next,
            fetch: next,
            state: if offset.is_some() { OffsetState::Known } else { OffsetState::Beginning },
            generation,
            trouble: None,
            is_pinned: false,
            fetched: VecDeque::new(),
            bytes: 0,
            open: None,
            has_record: false,
            aborted: BTreeSet::new(),
            fault: None,
            gap: None,
        }
    }

    /// Continues at another offset.
    pub(super) fn move_to(&mut self, offset: i64) {
        (self.next, self.fetch, self.state) = (offset, offset, OffsetState::Known);
        (self.bytes, self.open, self.has_record) = (0, None, false);
        self.fetched.clear();
        self.aborted.clear();
    }

    /// Takes in an answer to a fetch.
    pub(super) fn push(&mut self, fetched: Fetched) {
        let headers = headers(&fetched.records);
        let Some(last) = headers.last() else {
            if !fetched.records.is_empty() {
                self.fault = Some(self.unreadable(self.fetch, "it is not whole, and larger than a fetch may be"));
            }
            return;
        };
        self.fetch = self.fetch.max(last.last_offset.saturating_add(1));
        let mut aborted = fetched.aborted;
        aborted.sort_unstable_by_key(|(_, first)| *first);
        self.bytes += fetched.records.len();
        self.fetched.push_back(FetchedRecords { records: fetched.records, aborted: aborted.into() });
    }

    /// Whether something can be returned.
    pub(super) fn is_ready(&self) -> bool {
        self.is_pinned || self.open.is_some() || !self.fetched.is_empty() || self.fault.is_some()
    }

    /// Offsets without records since the last call.
    pub(super) fn take_gap(&mut self) -> Option<OffsetGap> {
        self.gap.take()
    }

    /// The rows up to the limits: position before them, position after them, rows. `None` if nothing was passed.
    pub(super) fn take(
        &mut self,
        limits: BatchLimits,
        topic: Option<&str>,
        id: TopicId,
    ) -> SourceOutcome<Option<(Option<SourcePosition>, SourcePosition, Rows)>> {
        if let Some(fault) = &self.fault {
            return Err(SourceError::Fault(usage(fault.clone())));
        }
        let before = self.next;
        let (mut writer, mut numbers) = (RowWriter::default(), Vec::new());
        if let Err(error) = self.fill(&mut writer, &mut numbers, limits, topic) {
            let offset = self.open.take().map_or(self.next, |records| records.header.first_offset);
            let fault = self.unreadable(offset, &error.to_string());
            self.fault = Some(fault.clone());
            // The rows before it are returned first.
            if self.next == before {
                return Err(SourceError::Fault(usage(fault)));
            }
        }
        if self.next == before && !self.is_pinned {
            return Ok(None);
        }
        self.is_pinned = false;
        let position = position_of(id, self.next);
        let after = self.after.replace(position.clone());
        let rows = if writer.is_empty() { Rows::none() } else { writer.finish(Origins::Numbers("offset", numbers)) };
        Ok(Some((after, position, rows)))
    }

    fn fill(
        &mut self,
        writer: &mut RowWriter,
        numbers: &mut Vec<u64>,
        limits: BatchLimits,
        topic: Option<&str>,
    ) -> io::Result<()> {
        while writer.rows() < limits.rows.max(1) {
            let Some(records) = &mut self.open else {
                if !self.open_batch()? {
                    break;
                }
                continue;
            };
            if !self.has_record && !records.advance()? {
                let end = records.header.last_offset.saturating_add(1);
                self.open = None;
                self.pass(end, true);
                continue;
            }
            self.has_record = true;
            let record = records.current()?;
            if record.offset >= self.next {
                let value = record.value.unwrap_or_default();
                if !writer.is_empty() && writer.len() + value.len() > limits.bytes {
                    break;
                }
                if !value.is_empty() {
                    let rows = match topic {
                        None => writer.push(value, &[]),
                        Some(topic) => {
                            let time = time_of(record.time);
                            let key = record.key.map(String::from_utf8_lossy);
                            let mut fields = vec![("_topic", topic)];
                            fields.extend(time.as_deref().map(|time| ("_time", time)));
                            fields.extend(key.as_deref().map(|key| ("_key", key)));
                            writer.push(value, &fields)
                        }
                    };
                    numbers.extend(std::iter::repeat_n(record.offset as u64, rows));
                }
                let offset = record.offset;
                self.pass(offset, true);
                self.next = offset.saturating_add(1);
            }
            self.has_record = false;
        }
        Ok(())
    }

    /// Opens the next batch that has records to return; `false` if there is none.
    fn open_batch(&mut self) -> io::Result<bool> {
        let Some(chunk) = self.fetched.front_mut() else { return Ok(false) };
        let Some(header) = Header::parse(&chunk.records) else {
            // The part of a batch at the end of an answer is fetched again.
            self.bytes -= chunk.records.len();
            self.fetched.pop_front();
            // The next answer lists its own aborted transactions.
            self.aborted.clear();
            return Ok(self.fetched.front().is_some());
        };
        let batch = chunk.records.split_to(header.bytes);
        self.bytes -= header.bytes;
        while let Some((producer, first)) = chunk.aborted.front().copied()
            && first <= header.last_offset
        {
            self.aborted.insert(producer);
            chunk.aborted.pop_front();
        }
        let end = header.last_offset.saturating_add(1);
        if header.is_control() {
            if BatchRecords::open(header, &batch)?.aborts()? {
                self.aborted.remove(&header.producer);
            }
            self.pass(header.first_offset, true);
            self.pass(end, false);
        } else if header.is_transactional() && self.aborted.contains(&header.producer) {
            self.pass(header.first_offset, true);
            self.pass(end, false);
        } else if end > self.next {
            self.open = Some(BatchRecords::open(header, &batch)?);
        }
        Ok(true)
    }

    /// Passes over offsets without records.
    fn pass(&mut self, end: i64, is_gap: bool) {
        if end <= self.next {
            return;
        }
        if is_gap {
            let gap = self.gap.get_or_insert(OffsetGap { offsets: 0, first: self.next, last: end });
            gap.offsets += end - self.next;
            gap.last = end - 1;
        }
        self.next = end;
    }

    fn unreadable(&self, offset: i64, why: &str) -> String {
        format!(
            "the records at offset {offset} of partition {} cannot be read: {why}; to leave them out, delete the \
             records of the partition up to them with kafka-delete-records",
            self.number
        )
    }
}

/// The position before an offset.
pub(super) fn position_of(id: TopicId, offset: i64) -> SourcePosition {
    if id == 0 { offset.to_string() } else { format!("{id:032x}:{offset}") }
}

/// The topic and the offset of a position.
pub(super) fn parse_position(position: &str) -> Option<(TopicId, i64)> {
    let (id, offset) = match position.split_once(':') {
        Some((id, offset)) => (TopicId::from_str_radix(id, 16).ok()?, offset),
        None => (0, position),
    };
    Some((id, offset.parse().ok().filter(|offset| *offset >= 0)?))
}

fn time_of(millis: i64) -> Option<String> {
    rfc3339(millis.checked_mul(1000).filter(|_| millis >= 0)?)
}

#[cfg(test)]
mod tests {
    use super::super::records::tests::batch;
    use super::*;
    use std::time::Duration;

    const TRANSACTIONAL: i16 = 0x10;
    const CONTROL: i16 = 0x30;
    const LIMITS: BatchLimits = BatchLimits { rows: 1000, bytes: 1 << 20, wait: Duration::ZERO };

    fn fetched(aborted: Vec<(i64, i64)>, batches: &[Vec<u8>]) -> Fetched {
        Fetched { partition: 0, error: 0, aborted, records: batches.concat().into() }
    }

    fn offsets(partition: &mut Partition, limits: BatchLimits) -> Vec<u64> {
        match partition.take(limits, None, 0).expect("readable") {
            Some((_, _, Rows { origins: Origins::Numbers("offset", numbers), .. })) => numbers,
            _ => Vec::new(),
        }
    }

    fn mark(offset: i64, producer: i64, commits: bool) -> Vec<u8> {
        let key = [0, 0, 0, u8::from(commits)];
        batch((offset, offset), CONTROL, producer, &[(offset, Some(&key), Some(&[0; 6]))])
    }

    fn row(offset: i64) -> (i64, Option<&'static [u8]>, Option<&'static [u8]>) {
        (offset, None, Some(b"{}"))
    }

    #[test]
    fn rows_of_aborted_transactions_are_not_returned() {
        // Producer 7 aborts 0 and 2, then commits 6; producer 8 commits 1 and 4; 9 is outside transactions.
        let batches = [
            batch((0, 0), TRANSACTIONAL, 7, &[row(0)]),
            batch((1, 1), TRANSACTIONAL, 8, &[row(1)]),
            batch((2, 2), TRANSACTIONAL, 7, &[row(2)]),
            mark(3, 7, false),
            batch((4, 4), TRANSACTIONAL, 8, &[row(4)]),
            mark(5, 8, true),
            batch((6, 6), TRANSACTIONAL, 7, &[row(6)]),
            mark(7, 7, true),
            batch((8, 8), TRANSACTIONAL, 7, &[row(8)]),
            batch((9, 9), 0, -1, &[row(9)]),
            mark(10, 7, false),
        ];
        let aborted = vec![(7, 8), (7, 0)];
        let mut partition = Partition::new(0, 0, None, Some(0));
        partition.push(fetched(aborted.clone(), &batches));
        assert_eq!(offsets(&mut partition, LIMITS), [1, 4, 6, 9]);
        assert_eq!((partition.next, partition.take_gap()), (11, None));
        // The same from the middle of the transaction, in two answers, one row at a time.
        let mut partition = Partition::new(0, 0, None, Some(2));
        partition.push(fetched(vec![(7, 0)], &batches[2..7]));
        partition.push(fetched(vec![(7, 8)], &batches[7..]));
        let one = BatchLimits { rows: 1, ..LIMITS };
        let returned: Vec<u64> = (0..6).flat_map(|_| offsets(&mut partition, one)).collect();
        assert_eq!(returned, [4, 6, 9]);
        assert_eq!((partition.next, partition.bytes), (11, 0));
    }

    #[test]
    fn compaction_moves_the_position_and_is_counted() {
        let mut partition = Partition::new(0, 0, None, Some(3));
        let tombstone = (8, Some(&b"key"[..]), None);
        partition.push(fetched(vec![], &[batch((2, 9), 0, -1, &[row(2), row(5), tombstone])]));
        partition.push(fetched(vec![], &[batch((20, 29), 0, -1, &[])]));
        let (after, position, rows) = partition.take(LIMITS, None, 5).expect("readable").expect("rows");
        assert_eq!((after, position.as_str()), (None, "00000000000000000000000000000005:30"));
        assert_eq!(rows.origins, Origins::Numbers("offset", vec![5]));
        // 3, 4, 6, 7, 9, and 10 to 29.
        assert_eq!(partition.take_gap(), Some(OffsetGap { offsets: 25, first: 3, last: 29 }));
        assert_eq!(parse_position(&position), Some((5, 30)));
    }

    #[test]
    fn limits_are_kept() {
        let mut partition = Partition::new(0, 0, None, Some(0));
        let rows: Vec<_> = (0..10).map(row).collect();
        partition.push(fetched(vec![], &[batch((0, 9), 4, -1, &rows)]));
        assert_eq!(offsets(&mut partition, BatchLimits { rows: 2, ..LIMITS }), [0, 1]);
        assert_eq!(offsets(&mut partition, BatchLimits { bytes: 9, ..LIMITS }), [2, 3, 4]);
        assert_eq!(offsets(&mut partition, BatchLimits { bytes: 1, ..LIMITS }), [5]);
        assert_eq!(offsets(&mut partition, LIMITS), [6, 7, 8, 9]);
        assert!(partition.take(LIMITS, None, 0).expect("readable").is_none());
    }

    #[test]
    fn a_damaged_batch_stops_after_the_rows_before_it() {
        let mut damaged = batch((1, 1), 0, -1, &[row(1)]);
        *damaged.last_mut().expect("bytes") ^= 1;
        let mut partition = Partition::new(4, 0, None, Some(0));
        partition.push(fetched(vec![], &[batch((0, 0), 0, -1, &[row(0)]), damaged]));
        assert_eq!(offsets(&mut partition, LIMITS), [0]);
        let Err(SourceError::Fault(error)) = partition.take(LIMITS, None, 0) else { panic!("it is damaged") };
        assert!(error.to_string().contains("offset 1 of partition 4"), "{error}");
    }

    #[test]
    fn times_are_rfc_3339() {
        assert_eq!(time_of(1_700_000_000_123).as_deref(), Some("2023-11-14T22:13:20.123000Z"));
        assert_eq!(time_of(-1), None);
    }
}
