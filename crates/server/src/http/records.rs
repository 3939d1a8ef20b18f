//! Log records of OpenTelemetry and Loki as rows of JSON lines: every field of a record is a column.

mod labels;
pub(super) mod protobuf;
mod wire;

use super::problem::ProblemAnswer;
use crate::engine::Share;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Display;

/// Makes rows from the body of a request, within the limits of a buffer.
pub(super) type ToRows = fn(&[u8], &mut RowBuffer<'_>) -> Result<(), ProblemAnswer>;

/// The most bytes of the rows of a request. Each row has all attributes of its resource, so a small request could stand
/// for any number of bytes.
const MAX_ROW_BYTES: usize = 32 << 20;

/// About the memory of a parsed object, in addition to its texts.
const OBJECT_BYTES: u64 = 512;

/// About the memory to parse a request, in bytes per byte of it.
const MEMORY_PER_BYTE: u64 = 8;

/// The most memory to parse a request: more is not a matter of waiting.
const MAX_PARSED_BYTES: u64 = 256 << 20;

/// Charges the memory to parse a request.
///
/// # Errors
/// If it would take too much even without other requests, or these use the memory.
pub(super) fn charge_parsing(body: &[u8], memory: &mut Share) -> Result<(), ProblemAnswer> {
    let objects = body.iter().filter(|byte| **byte == b'{').count() as u64;
    let bytes = objects * OBJECT_BYTES + body.len() as u64 * MEMORY_PER_BYTE; // fits: a body has at most 8 MiB
    if bytes > MAX_PARSED_BYTES || !memory.could_use(bytes) {
        return Err(ProblemAnswer::too_large("the request has too many records; send fewer at a time"));
    }
    Ok(memory.use_more(bytes)?)
}

/// Rows that are being written, as JSON lines.
pub(super) struct RowBuffer<'m> {
    rows: Vec<u8>,
    charged: usize,
    objects: u64,
    memory: &'m mut Share,
}

impl<'m> RowBuffer<'m> {
    pub(super) fn new(memory: &'m mut Share) -> Self {
        Self { rows: Vec::new(), charged: 0, objects: 0, memory }
    }

    /// The rows. The memory for everything else is given back.
    pub(super) fn into_rows(mut self) -> Vec<u8> {
        self.rows.shrink_to_fit();
        self.memory.shrink_to(self.rows.len() as u64);
        self.rows
    }

    /// Charges the memory of objects that are parsed one record at a time, if more than ever before are in memory.
    fn charge_objects(&mut self, objects: u64) -> Result<(), ProblemAnswer> {
        if objects > self.objects {
            let more = (objects - self.objects) * OBJECT_BYTES;
            if objects * OBJECT_BYTES > MAX_PARSED_BYTES || !self.memory.could_use(more) {
                return Err(ProblemAnswer::too_large("a record has too many values; send smaller records"));
            }
            self.memory.use_more(more)?;
            self.objects = objects;
        }
        Ok(())
    }

    /// Writes a record of OpenTelemetry with the attributes of its resource.
    fn log_row(&mut self, record: &RecordRow<'_>, resource: &[(&str, Value)]) -> Result<(), ProblemAnswer> {
        let (time, observed) = (time_of(&record.time), time_of(&record.observed_time));
        let mut row = RowWriter::new(&mut self.rows);
        row.cell("time", time.as_ref().or(observed.as_ref()));
        row.cell("observed_time", observed.as_ref());
        row.cell("severity", non_empty(record.severity));
        row.cell("severity_number", Some(&record.severity_number).filter(|number| !number.is_null()));
        row.cell("event_name", non_empty(record.event_name));
        row.cell("body", record.body.as_ref());
        row.cell("trace_id", non_empty(record.trace_id));
        row.cell("span_id", non_empty(record.span_id));
        row.cell("scope", non_empty(record.scope));
        for (prefix, attributes) in [("attributes", &record.attributes[..]), ("resource", resource)] {
            for (key, value) in attributes {
                row.cell(&format!("{prefix}.{key}"), Some(value));
            }
        }
        row.end();
        self.charge()
    }

    /// Writes a line of Loki with its labels and metadata.
    fn line_row<L: Display, M: Display>(
        &mut self,
        line: &LogLine<'_>,
        labels: impl IntoIterator<Item = (L, impl Serialize)>,
        metadata: impl IntoIterator<Item = (M, impl Serialize)>,
    ) -> Result<(), ProblemAnswer> {
        let mut row = RowWriter::new(&mut self.rows);
        row.cell("time", time_of(line.time));
        row.cell("line", Some(line.line));
        for (label, value) in labels {
            row.cell(&format!("labels.{label}"), Some(value));
        }
        for (name, value) in metadata {
            row.cell(&format!("metadata.{name}"), Some(value));
        }
        row.end();
        self.charge()
    }

    /// Charges the memory of a row that is complete.
    fn charge(&mut self) -> Result<(), ProblemAnswer> {
        if self.rows.len() > MAX_ROW_BYTES {
            return Err(ProblemAnswer::too_large(format!(
                "the records take more than {MAX_ROW_BYTES} bytes as rows, each with all attributes of its resource or \
                 stream; send fewer at a time"
            )));
        }
        // A vector that grows has up to twice its length.
        let more = 2 * (self.rows.len() - self.charged) as u64;
        if !self.memory.could_use(more) {
            return Err(ProblemAnswer::too_large("the records take too much memory as rows; send fewer at a time"));
        }
        self.memory.use_more(more)?;
        self.charged = self.rows.len();
        Ok(())
    }
}

/// A record of OpenTelemetry in any encoding. Times are in nanoseconds since 1970.
#[derive(Default)]
struct RecordRow<'r> {
    time: Value,
    observed_time: Value,
    severity: &'r str,
    severity_number: Value,
    event_name: &'r str,
    body: Option<Value>,
    trace_id: &'r str,
    span_id: &'r str,
    scope: &'r str,
    attributes: Vec<(&'r str, Value)>,
}

/// A line of Loki in any encoding. Its time is in nanoseconds since 1970.
struct LogLine<'r> {
    time: &'r Value,
    line: &'r str,
}

/// A field that is absent or null has its default, as in every encoding of protocol buffers.
fn nullable<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Option::<T>::deserialize(from).map(Option::unwrap_or_default)
}

/// A request to export logs (OTLP 1, JSON encoding). Unknown fields are ignored, as the protocol requires.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExportRequest<'b> {
    #[serde(borrow, deserialize_with = "nullable")]
    resource_logs: Vec<ResourceLogs<'b>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct ResourceLogs<'b> {
    #[serde(borrow, deserialize_with = "nullable")]
    resource: Attributes<'b>,
    #[serde(borrow, deserialize_with = "nullable")]
    scope_logs: Vec<ScopeLogs<'b>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Attributes<'b> {
    #[serde(borrow, deserialize_with = "nullable")]
    attributes: Vec<KeyValue<'b>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ScopeLogs<'b> {
    #[serde(borrow, deserialize_with = "nullable")]
    scope: Scope<'b>,
    #[serde(borrow, deserialize_with = "nullable")]
    log_records: Vec<LogRecord<'b>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Scope<'b> {
    #[serde(borrow, deserialize_with = "nullable")]
    name: Cow<'b, str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LogRecord<'b> {
    time_unix_nano: Value,
    observed_time_unix_nano: Value,
    severity_number: Value,
    #[serde(borrow, deserialize_with = "nullable")]
    severity_text: Cow<'b, str>,
    #[serde(borrow, deserialize_with = "nullable")]
    event_name: Cow<'b, str>,
    #[serde(borrow)]
    body: Option<AnyValue<'b>>,
    #[serde(borrow, deserialize_with = "nullable")]
    attributes: Vec<KeyValue<'b>>,
    #[serde(borrow, deserialize_with = "nullable")]
    trace_id: Cow<'b, str>,
    #[serde(borrow, deserialize_with = "nullable")]
    span_id: Cow<'b, str>,
}

#[derive(Deserialize)]
struct KeyValue<'b> {
    #[serde(borrow)]
    key: Cow<'b, str>,
    #[serde(borrow, default)]
    value: Option<AnyValue<'b>>,
}

/// A value, in one of these fields.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AnyValue<'b> {
    #[serde(borrow)]
    string_value: Option<Cow<'b, str>>,
    bool_value: Option<bool>,
    int_value: Value,
    double_value: Value,
    #[serde(borrow)]
    array_value: Option<AnyValueList<AnyValue<'b>>>,
    #[serde(borrow)]
    kvlist_value: Option<AnyValueList<KeyValue<'b>>>,
    #[serde(borrow)]
    bytes_value: Option<Cow<'b, str>>,
}

#[derive(Deserialize)]
struct AnyValueList<T> {
    #[serde(default = "Vec::new")]
    values: Vec<T>,
}

impl AnyValue<'_> {
    fn to_json(&self) -> Value {
        if let Some(text) = self.string_value.as_ref().or(self.bytes_value.as_ref()) {
            return Value::from(text.as_ref());
        }
        if let Some(is) = self.bool_value {
            return Value::from(is);
        }
        if let Some(array) = &self.array_value {
            return array.values.iter().map(Self::to_json).collect();
        }
        if let Some(list) = &self.kvlist_value {
            let entry = |one: &KeyValue<'_>| (one.key.to_string(), one.to_json());
            return list.values.iter().map(entry).collect();
        }
        match (&self.int_value, &self.double_value) {
            (Value::Null, double) => double.clone(),
            // 64-bit integers are texts in this encoding. Any other text is kept, so that its row is refused by it.
            (Value::String(digits), _) => {
                digits.parse::<i64>().map_or_else(|_| Value::from(digits.as_str()), Value::from)
            }
            (number, _) => number.clone(),
        }
    }
}

impl KeyValue<'_> {
    fn to_json(&self) -> Value {
        self.value.as_ref().map_or(Value::Null, AnyValue::to_json)
    }

    fn to_cell(&self) -> (&str, Value) {
        (&self.key, self.to_json())
    }
}

/// The rows of a request to export logs. Columns: `time`, `observed_time`, `severity`, `severity_number`, `event_name`,
/// `body`, `trace_id`, `span_id`, `scope`, and `attributes.KEY` and `resource.KEY` for each attribute.
pub(super) fn from_otlp(body: &[u8], buffer: &mut RowBuffer<'_>) -> Result<(), ProblemAnswer> {
    let request: ExportRequest<'_> = serde_json::from_slice(body).map_err(|error| {
        ProblemAnswer::bad(format!("the body is not an OTLP request for logs (`resourceLogs`) in JSON: {error}"))
    })?;
    for of_resource in &request.resource_logs {
        let resource: Vec<_> = of_resource.resource.attributes.iter().map(KeyValue::to_cell).collect();
        for of_scope in &of_resource.scope_logs {
            for record in &of_scope.log_records {
                let row = RecordRow {
                    time: record.time_unix_nano.clone(),
                    observed_time: record.observed_time_unix_nano.clone(),
                    severity: &record.severity_text,
                    severity_number: record.severity_number.clone(),
                    event_name: &record.event_name,
                    body: record.body.as_ref().map(AnyValue::to_json),
                    trace_id: &record.trace_id,
                    span_id: &record.span_id,
                    scope: &of_scope.scope.name,
                    attributes: record.attributes.iter().map(KeyValue::to_cell).collect(),
                };
                buffer.log_row(&row, &resource)?;
            }
        }
    }
    Ok(())
}

/// A request to push logs (Loki, JSON encoding).
#[derive(Deserialize)]
struct PushRequest<'b> {
    #[serde(borrow)]
    streams: Vec<LabelledStream<'b>>,
}

#[derive(Deserialize)]
struct LabelledStream<'b> {
    #[serde(borrow, default)]
    stream: BTreeMap<Cow<'b, str>, Value>,
    #[serde(borrow)]
    values: Vec<LoggedLine<'b>>,
}

/// Nanoseconds since 1970, the line, and its structured metadata.
#[derive(Deserialize)]
#[serde(untagged)]
enum LoggedLine<'b> {
    Line(Cow<'b, str>, Cow<'b, str>),
    WithMetadata(Cow<'b, str>, Cow<'b, str>, BTreeMap<Cow<'b, str>, Value>),
}

/// The rows of a request to push logs. Columns: `time`, `line`, and `labels.KEY` and `metadata.KEY` for each label and
/// each part of the structured metadata.
pub(super) fn from_loki(body: &[u8], buffer: &mut RowBuffer<'_>) -> Result<(), ProblemAnswer> {
    let request: PushRequest<'_> = serde_json::from_slice(body).map_err(|error| {
        ProblemAnswer::bad(format!("the body is not a push request of Loki (`streams`) in JSON: {error}"))
    })?;
    for stream in &request.streams {
        for entry in &stream.values {
            let (time, line, metadata) = match entry {
                LoggedLine::Line(time, line) => (time, line, None),
                LoggedLine::WithMetadata(time, line, metadata) => (time, line, Some(metadata)),
            };
            let time = Value::from(time.as_ref());
            buffer.line_row(&LogLine { time: &time, line }, &stream.stream, metadata.into_iter().flatten())?;
        }
    }
    Ok(())
}

fn non_empty(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// A time in nanoseconds since 1970, as a text or a number, in RFC 3339; `None` for 0. Any other text is kept, so that
/// its row is refused by its own text.
fn time_of(nanos: &Value) -> Option<String> {
    let text = match nanos {
        Value::String(text) => text.clone(),
        Value::Null => return None,
        other => other.to_string(),
    };
    match text.parse::<i64>() {
        Ok(0) => None,
        Ok(nanos) => Some(jiff::Timestamp::from_nanosecond(i128::from(nanos)).map_or(text, |time| time.to_string())),
        Err(_) => Some(text),
    }
}

/// A row that is being written: a line with one object.
struct RowWriter<'r> {
    rows: &'r mut Vec<u8>,
    is_empty: bool,
}

impl<'r> RowWriter<'r> {
    fn new(rows: &'r mut Vec<u8>) -> Self {
        rows.push(b'{');
        Self { rows, is_empty: true }
    }

    /// Writes a cell, unless there is none.
    fn cell(&mut self, column: &str, cell: Option<impl Serialize>) {
        let Some(cell) = cell else { return };
        if !std::mem::replace(&mut self.is_empty, false) {
            self.rows.push(b',');
        }
        serde_json::to_writer(&mut *self.rows, column).expect("memory accepts every write");
        self.rows.push(b':');
        serde_json::to_writer(&mut *self.rows, &cell).expect("memory accepts every write, and keys are texts");
    }

    fn end(self) {
        self.rows.extend(b"}\n");
    }
}

#[cfg(test)]
mod tests;
