//! Pages of column chunks, whose headers are checked before they are used.
//!
//! The Parquet library allocates memory for the sizes in a header, and for any output of a decompressor. These readers
//! allocate only what the limits allow, and refuse everything else.

use super::super::batches::MAX_FIXED_BYTES;
use super::delta;
use super::excess::TooLarge;
use super::inflate::Inflate;
use super::thrift::{PageHeader, PageKind};
use bytes::Bytes;
use parquet::basic::{Encoding, Type};
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::reader::ChunkReader;
use std::fs::File;
use std::sync::Arc;

/// Bytes of a page header that are read first, and at most.
const HEADER: usize = 256;
const MAX_HEADER_BYTES: usize = 16 << 20;

const PLAIN: i64 = 0;
const PLAIN_DICTIONARY: i64 = 2;
const DELTA_LENGTH_BYTE_ARRAY: i64 = 6;
const DELTA_BYTE_ARRAY: i64 = 7;
const RLE_DICTIONARY: i64 = 8;

/// The maximum length of a value in a column of decimals.
const MAX_DECIMAL_BYTES: usize = 32;

/// The file, and its memory limit.
pub(super) struct PageSource {
    pub(super) file: File,
    pub(super) bytes: u64,
    pub(super) metadata: Arc<ParquetMetaData>,
    /// The memory limit of the pages of all columns together, in bytes.
    pub(super) memory: u64,
}

pub(super) fn damaged(problem: impl std::fmt::Display) -> ParquetError {
    ParquetError::General(problem.to_string())
}

/// The pages of a column chunk, one after the other.
pub(super) struct Pages {
    source: Arc<PageSource>,
    at: u64,
    left: u64,
    values_left: u64,
    kind: Type,
    /// The size of a value in bytes, if it is fixed.
    width: Option<u64>,
    /// Bits of a definition level.
    level_bits: usize,
    /// Whether each value must be as short as a decimal.
    is_decimal: bool,
    inflate: Inflate,
    /// The header of the next page, once read, and the offset of the page's bytes.
    next: Option<(PageHeader, u64)>,
}

impl Pages {
    /// The pages of one leaf column in one row group.
    pub(super) fn open(source: &Arc<PageSource>, group: usize, column: usize) -> Result<Self> {
        let chunk: &ColumnChunkMetaData = source.metadata.row_group(group).column(column);
        let start = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
        let (at, left) = (u64::try_from(start), u64::try_from(chunk.compressed_size()));
        let (Ok(at), Ok(left)) = (at, left) else { return Err(damaged("a column begins before the file")) };
        if at.checked_add(left).is_none_or(|end| end > source.bytes) {
            return Err(damaged("a column ends after the file"));
        }
        let (kind, described) = (chunk.column_type(), chunk.column_descr());
        let width = match kind {
            Type::BOOLEAN | Type::BYTE_ARRAY => None,
            Type::INT32 | Type::FLOAT => Some(4),
            Type::INT64 | Type::DOUBLE => Some(8),
            Type::INT96 => Some(12),
            Type::FIXED_LEN_BYTE_ARRAY => Some(u64::try_from(described.type_length()).unwrap_or(0)),
        };
        let is_decimal = described.converted_type() == parquet::basic::ConvertedType::DECIMAL;
        let most = if is_decimal { MAX_DECIMAL_BYTES as u64 } else { MAX_FIXED_BYTES.unsigned_abs().into() };
        if width.is_some_and(|width| width == 0 || width > most) {
            return Err(damaged(format!("values of {} bytes each", width.unwrap_or(0))));
        }
        Ok(Pages {
            source: Arc::clone(source),
            at,
            left,
            values_left: u64::try_from(chunk.num_values()).map_err(damaged)?,
            kind,
            width,
            level_bits: described.max_def_level().checked_ilog2().map_or(0, |bits| bits as usize + 1),
            is_decimal,
            inflate: Inflate::new(chunk.compression()),
            next: None,
        })
    }

    /// The header of the next page that has values, and the offset of its bytes.
    fn peek(&mut self) -> Result<Option<(PageHeader, u64)>> {
        while self.next.is_none() && self.values_left > 0 && self.left > 0 {
            let (header, length) = self.read_header()?;
            self.pass(length as u64)?;
            let at = self.at;
            self.pass(u64::from(header.compressed))?;
            if header.kind == PageKind::Other {
                continue; // an index, which is not needed
            }
            if header.is_data() {
                self.values_left = self.values_left.saturating_sub(u64::from(header.values));
            }
            self.check(&header)?;
            self.next = Some((header, at));
        }
        Ok(self.next)
    }

    fn pass(&mut self, bytes: u64) -> Result<()> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| damaged("a page is longer than its column"))?;
        self.at += bytes; // fits: inside of the file
        Ok(())
    }

    fn read_header(&self) -> Result<(PageHeader, usize)> {
        let most = usize::try_from(self.left).unwrap_or(MAX_HEADER_BYTES).min(MAX_HEADER_BYTES);
        let mut size = HEADER;
        loop {
            let bytes = self.source.file.get_bytes(self.at, size.min(most))?;
            match PageHeader::read(&bytes) {
                Some(found) => return Ok(found),
                None if size >= most => return Err(damaged("the header of a page is damaged")),
                None => size *= 4,
            }
        }
    }

    /// Refuses a header with impossible sizes, or with sizes beyond the memory limit.
    fn check(&self, header: &PageHeader) -> Result<()> {
        let bytes = self.bytes_of(header);
        let most = self.source.memory;
        if bytes > most || u64::from(header.compressed) > most {
            return Err(too_large(bytes.max(header.compressed.into()), most));
        }
        if header.kind == PageKind::Dictionary {
            // Memory is allocated for the declared number of values.
            let least = self.width.unwrap_or(4);
            if u64::from(header.values) * least > bytes {
                return Err(damaged("a dictionary claims more values than it has bytes for"));
            }
        }
        if header.kind == PageKind::DataV2
            && u64::from(header.definition_bytes) + u64::from(header.repetition_bytes) > bytes
        {
            return Err(damaged("a page claims more levels than it has bytes for"));
        }
        Ok(())
    }

    /// The decompressed size of a page.
    fn bytes_of(&self, header: &PageHeader) -> u64 {
        let is_packed = self.inflate.is_needed() && !header.is_uncompressed;
        u64::from(if is_packed { header.uncompressed } else { header.compressed })
    }

    /// The bytes of a page, decompressed.
    fn load(&mut self, header: &PageHeader, at: u64) -> Result<Bytes> {
        let raw = self.source.file.get_bytes(at, header.compressed as usize)?;
        if !self.inflate.is_needed() || header.is_uncompressed {
            return Ok(raw);
        }
        // Levels of the second version are never compressed.
        let levels = match header.kind {
            PageKind::DataV2 => (header.definition_bytes + header.repetition_bytes) as usize, // fits: checked
            _ => 0,
        };
        let whole = header.uncompressed as usize;
        let (Some(packed), Some(size)) = (raw.get(levels..), whole.checked_sub(levels)) else {
            return Err(damaged("a page is shorter than its levels"));
        };
        let mut bytes = Vec::with_capacity(whole);
        bytes.extend_from_slice(&raw[..levels]);
        if size > 0 {
            self.inflate.append(packed, size, &mut bytes).map_err(damaged)?;
        }
        Ok(bytes.into())
    }

    /// The offset of the values of a data page, after its levels. Columns are not repeated, so there is one kind of
    /// levels.
    fn values_at(&self, header: &PageHeader, page: &[u8]) -> Option<usize> {
        match header.kind {
            PageKind::DataV2 => Some((header.definition_bytes + header.repetition_bytes) as usize),
            _ if self.level_bits == 0 => Some(0),
            // Bit-packed, an encoding that writers stopped using long ago.
            _ if header.definition_encoding == 4 => Some((header.values as usize * self.level_bits).div_ceil(8)),
            _ => {
                let length = u32::from_le_bytes(*page.first_chunk::<4>()?);
                usize::try_from(length).ok()?.checked_add(4)
            }
        }
    }

    /// The memory of a page after decoding, in addition to its bytes; also checks the lengths that it declares.
    fn expansion(&self, header: &PageHeader, page: &[u8]) -> Result<u64> {
        if header.kind == PageKind::Dictionary {
            if self.is_decimal && self.kind == Type::BYTE_ARRAY {
                check_short(page)?;
            }
            return Ok(u64::from(header.values) * 32);
        }
        if !is_delta_of_bytes(header) {
            return Ok(0);
        }
        let values = self.values_at(header, page).and_then(|at| page.get(at..));
        let has_prefixes = header.encoding == DELTA_BYTE_ARRAY;
        let lengths = values.and_then(|values| delta::lengths(values, has_prefixes, u64::from(header.values)));
        let bytes = lengths.ok_or_else(|| damaged("the lengths of the values of a page are damaged"))?;
        let all = bytes.saturating_add(u64::from(header.values) * 16);
        if all > self.source.memory {
            return Err(too_large(all, self.source.memory));
        }
        Ok(all)
    }

    /// The page in the type of the library.
    fn page(&mut self, header: PageHeader, at: u64) -> Result<Page> {
        let buf = self.load(&header, at)?;
        self.expansion(&header, &buf)?;
        let encoding = encoding(header.encoding)?;
        Ok(match header.kind {
            PageKind::Dictionary => {
                Page::DictionaryPage { buf, num_values: header.values, encoding, is_sorted: header.is_sorted }
            }
            PageKind::Data => Page::DataPage {
                buf,
                num_values: header.values,
                encoding,
                def_level_encoding: self::encoding(header.definition_encoding)?,
                rep_level_encoding: self::encoding(header.repetition_encoding)?,
                statistics: None,
            },
            PageKind::DataV2 => Page::DataPageV2 {
                buf,
                num_values: header.values,
                encoding,
                num_nulls: header.nulls,
                num_rows: header.rows,
                def_levels_byte_len: header.definition_bytes,
                rep_levels_byte_len: header.repetition_bytes,
                is_compressed: !header.is_uncompressed,
                statistics: None,
            },
            PageKind::Other => unreachable!("passed over"),
        })
    }

    /// Rows and memory of the next page, and whether it is a dictionary; `None` at the end. Its bytes are read only if
    /// the header is not sufficient.
    pub(super) fn measure(&mut self) -> Result<Option<Measured>> {
        let Some((header, at)) = self.peek()? else { return Ok(None) };
        self.next = None;
        let bytes = self.bytes_of(&header);
        let expanded = if is_delta_of_bytes(&header) {
            let page = self.load(&header, at)?;
            self.expansion(&header, &page)?
        } else if header.kind == PageKind::Dictionary {
            u64::from(header.values) * 32
        } else {
            0
        };
        let rows = if header.is_data() { u64::from(header.values) } else { 0 };
        Ok(Some(Measured { rows, bytes: bytes + expanded, is_dictionary: header.kind == PageKind::Dictionary }))
    }
}

/// The memory use of a page.
pub(super) struct Measured {
    pub(super) rows: u64,
    pub(super) bytes: u64,
    pub(super) is_dictionary: bool,
}

fn is_delta_of_bytes(header: &PageHeader) -> bool {
    header.is_data() && matches!(header.encoding, DELTA_LENGTH_BYTE_ARRAY | DELTA_BYTE_ARRAY)
}

fn too_large(bytes: u64, most: u64) -> ParquetError {
    ParquetError::External(Box::new(TooLarge { bytes, most }))
}

/// Refuses a dictionary with decimals beyond the maximum length: each is copied for every row that refers to it.
fn check_short(mut values: &[u8]) -> Result<()> {
    while let Some((length, rest)) = values.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        if length > MAX_DECIMAL_BYTES {
            return Err(damaged(format!("a decimal of {length} bytes")));
        }
        values = rest.get(length..).ok_or_else(|| damaged("a dictionary ends in the middle of a value"))?;
    }
    Ok(())
}

fn encoding(number: i64) -> Result<Encoding> {
    Ok(match number {
        PLAIN => Encoding::PLAIN,
        PLAIN_DICTIONARY => Encoding::PLAIN_DICTIONARY,
        3 => Encoding::RLE,
        #[allow(deprecated, reason = "old files use it")]
        4 => Encoding::BIT_PACKED,
        5 => Encoding::DELTA_BINARY_PACKED,
        DELTA_LENGTH_BYTE_ARRAY => Encoding::DELTA_LENGTH_BYTE_ARRAY,
        DELTA_BYTE_ARRAY => Encoding::DELTA_BYTE_ARRAY,
        RLE_DICTIONARY => Encoding::RLE_DICTIONARY,
        9 => Encoding::BYTE_STREAM_SPLIT,
        other => return Err(damaged(format!("unknown encoding {other}"))),
    })
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let Some((header, at)) = self.peek()? else { return Ok(None) };
        self.next = None;
        self.page(header, at).map(Some)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        Ok(self.peek()?.map(|(header, _)| PageMetadata {
            num_rows: (header.kind == PageKind::DataV2).then_some(header.rows as usize),
            num_levels: header.is_data().then_some(header.values as usize),
            is_dict: header.kind == PageKind::Dictionary,
        }))
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.peek()?;
        self.next = None;
        Ok(())
    }
}

/// The pages of one column in some row groups.
pub(super) struct ColumnPages {
    pub(super) source: Arc<PageSource>,
    pub(super) groups: std::ops::Range<usize>,
    pub(super) column: usize,
}

impl Iterator for ColumnPages {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        let group = self.groups.next()?;
        Some(Pages::open(&self.source, group, self.column).map(|pages| Box::new(pages) as Box<dyn PageReader>))
    }
}

impl PageIterator for ColumnPages {}
