//! Parquet: only the wanted columns, a batch of rows at a time.
//!
//! A file of a few bytes can claim, or expand to, any amount of memory. So the footer is measured before it is read;
//! the pages of the wanted columns are measured by their headers before they are decompressed; batches have only as
//! many rows as fit into memory; and texts are views of their pages, never copied out of dictionaries.

mod delta;
mod excess;
mod inflate;
mod pages;
#[cfg(test)]
mod tests;
mod thrift;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::{RecordBatch, cast::AsArray};
use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, RowGroups};
use parquet::arrow::{ARROW_SCHEMA_META_KEY, FieldLevels, ProjectionMask, parquet_to_arrow_field_levels};
use parquet::basic::{ConvertedType, LogicalType, Type as PhysicalType};
use parquet::column::page::PageIterator;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::reader::ChunkReader;
use parquet::schema::types::ColumnDescriptor;

use super::batches::{EXTENSION, MAX_FIXED_BYTES, RowBatch, UUID, is_text, unreadable_type};
use super::columns::WantedColumn;
use super::opened::SeekableFile;
use super::options::ReadOptions;
use super::pass::BATCH_ROWS;
use super::{columns, frames};
use crate::progress::Progress;
use evertally_declare::declaration::Parameter;
use evertally_declare::error::{InputError, Place, Result, Unreadable};
use evertally_declare::problem::sentence;
use excess::TooLarge;
use pages::{ColumnPages, PageSource, Pages};

/// Row groups are read together until they have this many rows, so that small row groups do not produce small batches.
const STRIPE_ROWS: u64 = 4 * BATCH_ROWS as u64;

/// The rows of one file.
pub(super) struct ParquetRows {
    file: String,
    source: Arc<PageSource>,
    columns: Vec<WantedColumn>,
    /// The wanted leaves of the schema.
    leaves: BTreeSet<usize>,
    levels: FieldLevels,
    /// Columns whose texts have not been validated yet.
    unchecked: Vec<usize>,
    /// Batches that are in memory at once.
    batches_at_once: u64,
    /// The next row group.
    group: usize,
    batches: Option<ParquetRecordBatchReader>,
    /// Rows passed on so far, and in total.
    row: u64,
    total_rows: u64,
    /// Bytes reported as read so far, and in total.
    reported: u64,
    bytes_to_report: u64,
}

impl ParquetRows {
    /// Reads the schema.
    pub(super) fn open(file: &str, source: SeekableFile, options: &ReadOptions, wanted: &[String]) -> Result<Self> {
        let bytes_to_report = source.bytes_to_report;
        let opened = guarded(file, || read_footer(source.file, options.memory))?;
        let (source, schema) = opened.map_err(|e| unreadable(file, &e))?;
        let mut columns = columns::locate(file, wanted, &schema)?;
        if options.whole_rows {
            let is_readable =
                |column: &WantedColumn| views(file, &source.metadata, &schema, std::slice::from_ref(column)).is_ok();
            let others = columns::others(&columns, &schema).into_iter().filter(is_readable);
            columns.extend(others.collect::<Vec<_>>());
        }
        let views = views(file, &source.metadata, &schema, &columns)?;
        let descriptor = source.metadata.file_metadata().schema_descr();
        let mask = ProjectionMask::leaves(descriptor, views.leaves.iter().copied());
        let levels = guarded(file, || parquet_to_arrow_field_levels(descriptor, mask, Some(&views.fields)))?;
        let levels = levels.map_err(|e| unreadable(file, &e))?;
        let total_rows = u64::try_from(source.metadata.file_metadata().num_rows()).unwrap_or(0);
        Ok(ParquetRows {
            file: file.to_owned(),
            source: Arc::new(source),
            columns,
            leaves: views.leaves,
            levels,
            unchecked: views.unchecked,
            batches_at_once: options.pieces_at_once(),
            group: 0,
            batches: None,
            row: 0,
            total_rows,
            reported: 0,
            bytes_to_report,
        })
    }

    /// The next rows; `None` at the end of the file.
    pub(super) fn next(&mut self, progress: &dyn Progress) -> Result<Option<RowBatch>> {
        let file = self.file.clone();
        let unreadable = |this: &Self, e: &ParquetError| unreadable(&this.file, e).at(Place::Row(this.row + 1));
        let batch = loop {
            if let Some(batches) = &mut self.batches
                && let Some(batch) = guarded(&file, || batches.next())?
            {
                break batch.map_err(|e| unreadable(self, &ParquetError::from(e)))?;
            }
            let next = guarded(&file, || self.next_stripe())?;
            self.batches = next.map_err(|e| unreadable(self, &e))?;
            if self.batches.is_none() {
                return Ok(None);
            }
        };
        let rows = RowBatch::new(&batch, &self.columns, self.row).map_err(ParquetError::from);
        let rows = rows.and_then(|rows| self.checked(rows)).map_err(|e| unreadable(self, &e))?;
        self.row += rows.batch.num_rows() as u64;
        let bytes = share(self.bytes_to_report, self.row, self.total_rows);
        progress.advance(bytes - self.reported);
        self.reported = bytes;
        Ok(Some(rows))
    }

    /// A reader of the next row groups; `None` if there are none left.
    fn next_stripe(&mut self) -> ParquetResult<Option<ParquetRecordBatchReader>> {
        let (metadata, first) = (&self.source.metadata, self.group);
        let mut rows = 0;
        while self.group < metadata.num_row_groups() && rows < STRIPE_ROWS {
            rows += u64::try_from(metadata.row_group(self.group).num_rows()).map_err(pages::damaged)?;
            self.group += 1;
        }
        if first == self.group {
            return Ok(None);
        }
        let stripe = Stripe { source: Arc::clone(&self.source), groups: first..self.group };
        let batch_rows = stripe.batch_rows(&self.leaves, self.batches_at_once)?;
        ParquetRecordBatchReader::try_new_with_row_groups(&self.levels, &stripe, batch_rows, None).map(Some)
    }

    /// Validates the texts of a batch: the library does not check those of every annotation.
    fn checked(&self, mut rows: RowBatch) -> ParquetResult<RowBatch> {
        if self.unchecked.is_empty() {
            return Ok(rows);
        }
        let mut columns = rows.batch.columns().to_vec();
        for place in &self.unchecked {
            let bytes = columns[*place].as_string_view_opt().map(|texts| texts.clone().to_binary_view());
            columns[*place] = bytes.map_or_else(|| Arc::clone(&columns[*place]), |bytes| Arc::new(bytes) as _);
        }
        let schema = rows.batch.schema();
        let named = schema.fields().iter().zip(&columns);
        let fields: Vec<_> =
            named.map(|(field, column)| field.as_ref().clone().with_data_type(column.data_type().clone())).collect();
        rows.batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?;
        Ok(rows)
    }
}

/// Row groups that are read together.
struct Stripe {
    source: Arc<PageSource>,
    groups: Range<usize>,
}

impl Stripe {
    /// The number of rows per batch, such that the pages of all concurrent batches fit into memory.
    fn batch_rows(&self, columns: &BTreeSet<usize>, batches_at_once: u64) -> ParquetResult<usize> {
        let sizes: Vec<Sizes> = columns.iter().map(|column| self.sizes(*column)).collect::<ParquetResult<_>>()?;
        let mut rows = BATCH_ROWS as u64;
        loop {
            let together = rows * batches_at_once;
            let bytes = sizes.iter().map(|sizes| sizes.most(together)).fold(0u64, u64::saturating_add);
            if bytes <= self.source.memory {
                return Ok(rows as usize); // fits: as many as a batch has at most
            }
            if rows == 1 {
                let too_large = TooLarge { bytes, most: self.source.memory };
                return Err(ParquetError::External(Box::new(too_large)));
            }
            rows /= 2;
        }
    }

    /// The sizes of a column's pages.
    fn sizes(&self, column: usize) -> ParquetResult<Sizes> {
        let mut sizes = Sizes::default();
        for group in self.groups.clone() {
            let mut pages = Pages::open(&self.source, group, column)?;
            while let Some(page) = pages.measure()? {
                if page.is_dictionary {
                    sizes.dictionary = sizes.dictionary.max(page.bytes);
                }
                sizes.add(page.rows, page.bytes);
            }
        }
        Ok(sizes)
    }
}

/// Rows and bytes of the pages of a column, in order.
#[derive(Default)]
struct Sizes {
    dictionary: u64,
    /// Small pages are joined, so that pages without rows or bytes do not fill the list.
    pages: Vec<(u64, u64)>,
}

/// Pages with fewer rows and bytes than these are joined.
const SMALL_ROWS: u64 = 64;
const SMALL_BYTES: u64 = 1 << 20;

/// Bytes of a row in a column, in addition to its page.
const ROW_BYTES: u64 = 40;

impl Sizes {
    fn add(&mut self, rows: u64, bytes: u64) {
        match self.pages.last_mut() {
            Some(last) if last.0 < SMALL_ROWS && last.1 + bytes < SMALL_BYTES => {
                *last = (last.0 + rows, last.1 + bytes);
            }
            _ => self.pages.push((rows, bytes)),
        }
    }

    /// The maximum number of bytes in any `rows` consecutive rows.
    fn most(&self, rows: u64) -> u64 {
        let (mut end, mut inside, mut bytes, mut most) = (0, 0u64, 0u64, 0u64);
        for (start, (first_rows, first_bytes)) in self.pages.iter().enumerate() {
            // A window that begins at the last row of a page reaches as far as windows that begin in the next pages.
            if end == start {
                (end, bytes) = (start + 1, *first_bytes);
            } else {
                inside -= first_rows;
            }
            while end < self.pages.len() && inside < rows {
                inside = inside.saturating_add(self.pages[end].0);
                bytes = bytes.saturating_add(self.pages[end].1);
                end += 1;
            }
            most = most.max(bytes);
            bytes -= first_bytes;
        }
        most.saturating_add(self.dictionary).saturating_add(rows.min(self.rows()).saturating_mul(ROW_BYTES))
    }

    fn rows(&self) -> u64 {
        self.pages.iter().fold(0, |sum, page| sum.saturating_add(page.0))
    }
}

impl RowGroups for Stripe {
    fn num_rows(&self) -> usize {
        self.row_groups().map(|group| usize::try_from(group.num_rows()).unwrap_or(0)).fold(0, usize::saturating_add)
    }

    fn column_chunks(&self, column: usize) -> ParquetResult<Box<dyn PageIterator>> {
        Ok(Box::new(ColumnPages { source: Arc::clone(&self.source), groups: self.groups.clone(), column }))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(self.source.metadata.row_groups()[self.groups.clone()].iter())
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.source.metadata
    }
}

/// Reads the footer, after its memory use has been estimated.
fn read_footer(file: std::fs::File, memory: u64) -> ParquetResult<(PageSource, Fields)> {
    let bytes = file.metadata()?.len();
    let end = bytes.checked_sub(8).ok_or_else(|| pages::damaged("it is too short"))?;
    let tail = file.get_bytes(end, 8)?;
    let length = u64::from(u32::from_le_bytes(tail[..4].try_into().expect("four bytes")));
    match &tail[4..] {
        b"PAR1" => {}
        b"PARE" => return Err(pages::damaged("its footer is encrypted")),
        _ => return Err(pages::damaged("it does not end as a Parquet file does")),
    }
    let start = end.checked_sub(length).ok_or_else(|| pages::damaged("its footer is longer than the file"))?;
    let refuse_above = |bytes: u64, most: u64| match bytes > most {
        true => Err(ParquetError::External(Box::new(TooLarge { bytes, most }))),
        false => Ok(()),
    };
    refuse_above(length, memory / 8)?;
    let footer = file.get_bytes(start, length as usize)?; // fits: 32 bits
    let takes = thrift::memory_of_footer(&footer).ok_or_else(|| pages::damaged("its footer is damaged"))?;
    refuse_above(takes, memory / 4)?;
    let metadata = Arc::new(ParquetMetaDataReader::decode_metadata(&footer)?);
    drop(footer);
    check_arrow_schema(&metadata)?;
    let schema = ArrowReaderMetadata::try_new(Arc::clone(&metadata), ArrowReaderOptions::new())?.schema().clone();
    Ok((PageSource { file, bytes, metadata, memory: memory / 2 }, schema.fields().clone()))
}

/// Refuses an Arrow schema in the metadata that would take much more memory than it has bytes.
fn check_arrow_schema(metadata: &ParquetMetaData) -> ParquetResult<()> {
    use base64::Engine;
    let pairs = metadata.file_metadata().key_value_metadata().into_iter().flatten();
    for pair in pairs.filter(|pair| pair.key == ARROW_SCHEMA_META_KEY) {
        let text = pair.value.as_deref().unwrap_or_default();
        let bytes = base64::prelude::BASE64_STANDARD.decode(text).map_err(pages::damaged)?;
        let message = if bytes.starts_with(&[0xff; 4]) { bytes.get(8..) } else { Some(&bytes[..]) };
        if message.and_then(frames::message_of).is_none() {
            return Err(pages::damaged("its Arrow schema is damaged or too large"));
        }
    }
    Ok(())
}

/// The columns of a file in their order, each with the reason why it cannot be read as cells, if there is one.
pub(super) fn columns(file: &str, source: std::fs::File, memory: u64) -> Result<Vec<(String, Option<String>)>> {
    let opened = guarded(file, || read_footer(source, memory))?;
    let (source, schema) = opened.map_err(|e| unreadable(file, &e))?;
    let problem = |name: &String| {
        let located = columns::locate(file, std::slice::from_ref(name), &schema);
        let viewed = located.and_then(|column| views(file, &source.metadata, &schema, &column));
        let extension = viewed.as_ref().ok().and_then(|views| unsupported_extension(&views.fields, name));
        viewed.err().map(|error| error.problem().to_string()).or(extension)
    };
    Ok(columns::names_of(&schema).into_iter().map(|name| (name.clone(), problem(&name))).collect())
}

/// Why a top-level column of an extension type cannot be read.
fn unsupported_extension(fields: &Fields, name: &str) -> Option<String> {
    let extension = fields.find(name)?.1.metadata().get(EXTENSION).filter(|extension| *extension != UUID)?;
    Some(format!("it has the unsupported extension type {extension}"))
}

/// How to read the wanted columns.
struct ColumnViews {
    /// All columns; the wanted ones have types that avoid copies.
    fields: Fields,
    /// The wanted leaves of the schema.
    leaves: BTreeSet<usize>,
    /// Indices of wanted columns whose texts the library does not validate.
    unchecked: Vec<usize>,
}

fn views(
    file: &str,
    metadata: &ParquetMetaData,
    schema: &Fields,
    columns: &[WantedColumn],
) -> Result<ColumnViews, InputError> {
    let descriptor = metadata.file_metadata().schema_descr();
    let mut views = ColumnViews { fields: schema.clone(), leaves: BTreeSet::new(), unchecked: Vec::new() };
    for (index, column) in columns.iter().enumerate() {
        let is_leaf = |leaf: &usize| {
            descriptor.get_column_root_idx(*leaf) == column.places[0]
                && descriptor.column(*leaf).path().parts() == column.keys
        };
        let refused = |problem| InputError::in_file(file, problem).in_column(column.name.clone());
        let leaf = (0..descriptor.num_columns()).find(is_leaf);
        let view = |field: &Field| {
            // A column of several leaves, or of repeated values, has another type than its values.
            let leaf = descriptor.column(leaf.ok_or_else(|| refused(unreadable_type(field.data_type())))?);
            let (view, is_checked) = view(field, &leaf).map_err(refused)?;
            if !is_checked {
                views.unchecked.push(index);
            }
            Ok(view)
        };
        views.fields = with_view(&views.fields, &column.places, view)?;
        views.leaves.extend(leaf);
    }
    Ok(views)
}

/// The fields, with another one at a position inside of structs.
fn with_view(
    fields: &Fields,
    places: &[usize],
    view: impl FnOnce(&Field) -> Result<Field, InputError>,
) -> Result<Fields, InputError> {
    let Some((place, inner)) = places.split_first() else { return Ok(fields.clone()) };
    let field = &fields[*place];
    let wanted = match field.data_type() {
        DataType::Struct(children) if !inner.is_empty() => {
            let children = with_view(children, inner, view)?;
            field.as_ref().clone().with_data_type(DataType::Struct(children))
        }
        _ => view(field)?,
    };
    let replaced = fields.iter().enumerate().map(|(at, field)| match at == *place {
        true => Arc::new(wanted.clone()),
        false => Arc::clone(field),
    });
    Ok(replaced.collect())
}

/// A column in a type that avoids copies, and whether the library validates its texts.
fn view(field: &Field, leaf: &ColumnDescriptor) -> Result<(Field, bool), String> {
    let mut kind = field.data_type();
    while let DataType::Dictionary(_, values) = kind {
        kind = values;
    }
    if leaf.max_rep_level() > 0 || !is_readable(kind) {
        return Err(unreadable_type(kind));
    }
    let mut is_checked = true;
    let kind = match is_text(kind) {
        true if leaf.converted_type() == ConvertedType::UTF8 => DataType::Utf8View,
        // The library treats it as text, and does not validate it.
        true if leaf.converted_type() == ConvertedType::JSON => {
            is_checked = false;
            DataType::Utf8View
        }
        true => DataType::BinaryView,
        // Spark, Hive and Impala write instants in UTC. Nanoseconds would end in the year 2262.
        false if leaf.physical_type() == PhysicalType::INT96 => {
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
        }
        false => kind.clone(),
    };
    let mut wanted = field.clone().with_data_type(kind);
    if leaf.logical_type_ref() == Some(&LogicalType::Uuid) {
        wanted.metadata_mut().insert(EXTENSION.to_owned(), UUID.to_owned());
    }
    Ok((wanted, is_checked))
}

/// Whether a type can be read as cells.
fn is_readable(kind: &DataType) -> bool {
    use DataType::*;
    let is_number = kind.is_integer() || kind.is_floating() || kind.is_decimal();
    let is_fixed = matches!(kind, FixedSizeBinary(1..=MAX_FIXED_BYTES));
    let is_time = matches!(kind, Timestamp(..) | Date32 | Date64 | Time32(_) | Time64(_));
    is_text(kind) || is_number || is_fixed || is_time || matches!(kind, Boolean | Null)
}

/// Calls a part of the Parquet library, which panics on some damaged files instead of returning an error.
fn guarded<T>(file: &str, read: impl FnOnce() -> T) -> Result<T, InputError> {
    // Values interrupted by a panic are not used again: the error ends the reading.
    catch_unwind(AssertUnwindSafe(read)).map_err(|_| damaged(file, &"its reader gave up"))
}

/// Why a file cannot be read.
fn unreadable(file: &str, error: &ParquetError) -> InputError {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = source {
        if let Some(too_large) = error.downcast_ref::<TooLarge>() {
            let remedy = sentence!["write it with smaller pages, or allow more with ", Parameter::ReadMemory];
            let error = InputError::in_file(file, too_large.to_string()).remedy(remedy);
            return error.as_unreadable(Unreadable::TooLarge);
        }
        source = error.source();
    }
    damaged(file, error)
}

fn damaged(file: &str, problem: &dyn fmt::Display) -> InputError {
    let problem = format!("this Parquet file cannot be read ({problem}); it may be cut short or damaged");
    InputError::in_file(file, problem).as_unreadable(Unreadable::Damaged)
}

fn share(bytes: u64, part: u64, whole: u64) -> u64 {
    if whole == 0 { bytes } else { (u128::from(bytes) * u128::from(part.min(whole)) / u128::from(whole)) as u64 }
}
