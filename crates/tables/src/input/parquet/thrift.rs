//! The part of Thrift's compact protocol that is needed to check a footer and page headers before they are trusted.
//!
//! [Protocol](https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md),
//! [structures](https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift).

/// The maximum nesting depth of structures.
const MAX_DEPTH: u32 = 24;

const STOP: u8 = 0;
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;

/// Bytes that encode Thrift values. Methods return `None` if the bytes end too early or are invalid.
pub(super) struct Compact<'b> {
    rest: &'b [u8],
}

impl<'b> Compact<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Compact { rest: bytes }
    }

    /// The number of remaining bytes.
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    /// The next bytes.
    pub(super) fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn pass(&mut self, count: u64) -> Option<()> {
        self.rest = self.rest.get(usize::try_from(count).ok()?..)?;
        Some(())
    }

    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    pub(super) fn zigzag(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Number and type of the next field; the inner `None` at the end of the structure.
    fn field(&mut self, last: &mut i64) -> Option<Option<(i64, u8)>> {
        let head = self.byte()?;
        if head == STOP {
            return Some(None);
        }
        *last = match head >> 4 {
            0 => self.zigzag()?,
            delta => last.checked_add(i64::from(delta))?,
        };
        Some(Some((*last, head & 0x0f)))
    }

    /// Number and type of the elements of a list. Each takes at least one byte.
    fn list(&mut self) -> Option<(u64, u8)> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.varint()?,
            count => u64::from(count),
        };
        (count <= self.left() as u64).then_some((count, head & 0x0f))
    }

    /// Moves past a value, and adds the elements of its lists to a measure.
    fn skip(&mut self, kind: u8, in_list: bool, depth: u32, measure: &mut FooterMemory) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        match kind {
            TRUE | FALSE if in_list => self.pass(1),
            TRUE | FALSE => Some(()),
            BYTE => self.pass(1),
            4..=6 => self.varint().map(|_| ()),
            DOUBLE => self.pass(8),
            BINARY => {
                let length = self.varint()?;
                measure.bytes = measure.bytes.saturating_add(2 * length.min(self.left() as u64));
                self.pass(length)
            }
            LIST | SET => {
                let (count, kind) = self.list()?;
                measure.add_list(count, kind, depth);
                (0..count).try_for_each(|_| self.skip(kind, true, depth + 1, measure))
            }
            MAP => {
                let count = self.varint()?;
                if count == 0 {
                    return Some(());
                }
                let kinds = self.byte()?;
                measure.add_list(count.min(self.left() as u64), STRUCT, depth);
                (0..count).try_for_each(|_| {
                    self.skip(kinds >> 4, true, depth + 1, measure)?;
                    self.skip(kinds & 0x0f, true, depth + 1, measure)
                })
            }
            STRUCT => {
                let mut last = 0;
                while let Some((_, kind)) = self.field(&mut last)? {
                    self.skip(kind, false, depth + 1, measure)?;
                }
                Some(())
            }
            _ => None,
        }
    }
}

/// An upper bound on the memory of the structures that a footer describes.
#[derive(Default)]
struct FooterMemory {
    bytes: u64,
}

impl FooterMemory {
    fn add_list(&mut self, count: u64, kind: u8, depth: u32) {
        // Columns of row groups are the largest structures; the structures inside them are small.
        let each = match (kind, depth) {
            (STRUCT, 0..=3) => 1024,
            (STRUCT, _) => 64,
            _ => 32,
        };
        self.bytes = self.bytes.saturating_add(count * each); // fits: as many as there are bytes
    }
}

/// An upper bound on the memory of a parsed footer (`FileMetaData`); `None` if it is damaged.
pub(super) fn memory_of_footer(bytes: &[u8]) -> Option<u64> {
    let (mut from, mut last, mut measure) = (Compact::new(bytes), 0, FooterMemory::default());
    while let Some((number, kind)) = from.field(&mut last)? {
        match (number, kind) {
            (2, LIST) => schema(&mut from, &mut measure)?,
            _ => from.skip(kind, false, 1, &mut measure)?,
        }
    }
    Some(measure.bytes)
}

/// Moves past the schema, a tree written depth first. Readers recurse for each level.
fn schema(from: &mut Compact<'_>, measure: &mut FooterMemory) -> Option<()> {
    let (count, kind) = from.list()?;
    measure.add_list(count, kind, 1);
    // The number of remaining children of each enclosing group.
    let mut open: Vec<u64> = Vec::new();
    for _ in 0..count {
        let children = schema_element(from, measure)?;
        if let Some(left) = open.last_mut() {
            *left = left.checked_sub(1)?;
        }
        if children > 0 {
            open.push(children);
        }
        while open.last() == Some(&0) {
            open.pop();
        }
        if open.len() > MAX_DEPTH as usize {
            return None;
        }
    }
    open.is_empty().then_some(())
}

/// Moves past an element of the schema; returns its number of children.
fn schema_element(from: &mut Compact<'_>, measure: &mut FooterMemory) -> Option<u64> {
    let (mut last, mut children) = (0, 0);
    while let Some((number, kind)) = from.field(&mut last)? {
        match (number, kind) {
            (5, 4..=6) => children = u64::try_from(from.zigzag()?).ok()?,
            _ => from.skip(kind, false, 2, measure)?,
        }
    }
    Some(children)
}

/// The kind of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PageKind {
    #[default]
    Other,
    Dictionary,
    /// A data page of the first version.
    Data,
    /// A data page of the second version.
    DataV2,
}

/// The header of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PageHeader {
    pub(super) kind: PageKind,
    /// Size of the page in the file, and after decompression.
    pub(super) compressed: u32,
    pub(super) uncompressed: u32,
    pub(super) values: u32,
    pub(super) encoding: i64,
    pub(super) definition_encoding: i64,
    pub(super) repetition_encoding: i64,
    pub(super) nulls: u32,
    pub(super) rows: u32,
    pub(super) definition_bytes: u32,
    pub(super) repetition_bytes: u32,
    pub(super) is_uncompressed: bool,
    pub(super) is_sorted: bool,
}

impl PageHeader {
    /// The header at the front of some bytes, and its length; `None` if it is damaged or incomplete.
    pub(super) fn read(bytes: &[u8]) -> Option<(Self, usize)> {
        let (mut from, mut last, mut header) = (Compact::new(bytes), 0, Self::default());
        while let Some((number, kind)) = from.field(&mut last)? {
            match (number, kind) {
                (1, 4..=6) => header.kind = page_kind(from.zigzag()?),
                (2, 4..=6) => header.uncompressed = count(from.zigzag()?)?,
                (3, 4..=6) => header.compressed = count(from.zigzag()?)?,
                (5 | 7 | 8, STRUCT) => header.describe(number, &mut from)?,
                _ => from.skip(kind, false, 1, &mut FooterMemory::default())?,
            }
        }
        Some((header, bytes.len() - from.left()))
    }

    /// Reads `DataPageHeader` (5), `DictionaryPageHeader` (7) or `DataPageHeaderV2` (8).
    fn describe(&mut self, which: i64, from: &mut Compact<'_>) -> Option<()> {
        let mut last = 0;
        while let Some((number, kind)) = from.field(&mut last)? {
            match (which, number, kind) {
                (_, 1, 4..=6) => self.values = count(from.zigzag()?)?,
                (5 | 7, 2, 4..=6) => self.encoding = from.zigzag()?,
                (5, 3, 4..=6) => self.definition_encoding = from.zigzag()?,
                (5, 4, 4..=6) => self.repetition_encoding = from.zigzag()?,
                (7, 3, TRUE | FALSE) => self.is_sorted = kind == TRUE,
                (8, 2, 4..=6) => self.nulls = count(from.zigzag()?)?,
                (8, 3, 4..=6) => self.rows = count(from.zigzag()?)?,
                (8, 4, 4..=6) => self.encoding = from.zigzag()?,
                (8, 5, 4..=6) => self.definition_bytes = count(from.zigzag()?)?,
                (8, 6, 4..=6) => self.repetition_bytes = count(from.zigzag()?)?,
                (8, 7, TRUE | FALSE) => self.is_uncompressed = kind == FALSE,
                _ => from.skip(kind, false, 2, &mut FooterMemory::default())?,
            }
        }
        Some(())
    }

    pub(super) fn is_data(&self) -> bool {
        matches!(self.kind, PageKind::Data | PageKind::DataV2)
    }
}

fn page_kind(number: i64) -> PageKind {
    match number {
        0 => PageKind::Data,
        2 => PageKind::Dictionary,
        3 => PageKind::DataV2,
        _ => PageKind::Other,
    }
}

/// A nonnegative number of 31 bits.
fn count(number: i64) -> Option<u32> {
    i32::try_from(number).ok().and_then(|number| u32::try_from(number).ok())
}
