//! The binary encoding of the same requests, which exporters of OpenTelemetry and clients of Loki send by default.
//!
//! Records are read and written one by one: only the attributes of one resource and one record, or the labels of one
//! stream and the metadata of one line, are in memory.

use super::labels::parse_labels;
use super::wire::{FieldContent, MalformedMessage, MessageFields};
use super::{LogLine, OBJECT_BYTES, ProblemAnswer, RecordRow, RowBuffer};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::collections::BTreeMap;

/// How deep values may be nested, about as deep as in JSON.
const MAX_DEPTH: u32 = 32;

/// The problem of a request.
enum RequestProblem {
    Malformed(MalformedMessage),
    Refused(ProblemAnswer),
}

impl From<MalformedMessage> for RequestProblem {
    fn from(malformed: MalformedMessage) -> Self {
        Self::Malformed(malformed)
    }
}

impl From<ProblemAnswer> for RequestProblem {
    fn from(refused: ProblemAnswer) -> Self {
        Self::Refused(refused)
    }
}

impl RequestProblem {
    fn of(self, request: &str) -> ProblemAnswer {
        match self {
            Self::Malformed(MalformedMessage(why)) => ProblemAnswer::bad(format!("the body is not {request}: {why}")),
            Self::Refused(refused) => refused,
        }
    }
}

/// The rows of a request to export logs, as from JSON.
pub(in super::super) fn from_otlp(body: &[u8], buffer: &mut RowBuffer<'_>) -> Result<(), ProblemAnswer> {
    let mut request = || {
        for field in MessageFields::new(body) {
            if let (1, of_resource) = field? {
                resource_logs(of_resource.message()?, buffer)?;
            }
        }
        Ok(())
    };
    request().map_err(|problem: RequestProblem| problem.of("an OTLP request for logs in protobuf"))
}

fn resource_logs(fields: MessageFields<'_>, buffer: &mut RowBuffer<'_>) -> Result<(), RequestProblem> {
    let mut values = ValueReader::new(buffer);
    let mut resource = Vec::new();
    for field in fields.clone() {
        if let (1, of_resource) = field? {
            for attribute in of_resource.message()? {
                if let (1, attribute) = attribute? {
                    resource.push(values.key_value(attribute.message()?, 0)?);
                }
            }
        }
    }
    let objects = values.objects;
    for field in fields {
        let (2, of_scope) = field? else { continue };
        let of_scope = of_scope.message()?;
        let mut scope = "";
        for field in of_scope.clone() {
            if let (1, of_scope) = field? {
                scope = last_text(of_scope.message()?, 1)?;
            }
        }
        for field in of_scope {
            if let (2, record) = field? {
                log_record(record.message()?, (scope, &resource), objects, buffer)?;
            }
        }
    }
    Ok(())
}

fn log_record<'b>(
    fields: MessageFields<'b>,
    (scope, resource): (&'b str, &[(&'b str, Value)]),
    objects: u64,
    buffer: &mut RowBuffer<'_>,
) -> Result<(), RequestProblem> {
    let (mut trace_id, mut span_id) = (String::new(), String::new());
    let mut row = RecordRow { scope, ..RecordRow::default() };
    let mut values = ValueReader { objects, buffer };
    for field in fields {
        let (number, content) = field?;
        match number {
            1 => row.time = Value::from(content.fixed64()?),
            2 => {
                let number = Some(content.varint()?).filter(|number| *number != 0);
                row.severity_number = number.map_or(Value::Null, integer);
            }
            3 => row.severity = content.text()?,
            5 => row.body = Some(values.any_value(content.message()?, 0)?),
            6 => row.attributes.push(values.key_value(content.message()?, 0)?),
            9 => trace_id = evertally::hex(content.bytes()?),
            10 => span_id = evertally::hex(content.bytes()?),
            11 => row.observed_time = Value::from(content.fixed64()?),
            12 => row.event_name = content.text()?,
            _ => {}
        }
    }
    let row = RecordRow { trace_id: &trace_id, span_id: &span_id, ..row };
    Ok(buffer.log_row(&row, resource)?)
}

/// Signed integers have variable length, too.
fn integer(bits: u64) -> Value {
    Value::from(bits.cast_signed())
}

/// The text of a field of a message; without that field, an empty one.
fn last_text(fields: MessageFields<'_>, number: u32) -> Result<&str, MalformedMessage> {
    let mut text = "";
    for field in fields {
        let (own, content) = field?;
        if own == number {
            text = content.text()?;
        }
    }
    Ok(text)
}

/// Reads values, and charges the memory of those that are in memory at the same time.
struct ValueReader<'r, 'm> {
    objects: u64,
    buffer: &'r mut RowBuffer<'m>,
}

impl<'r, 'm> ValueReader<'r, 'm> {
    fn new(buffer: &'r mut RowBuffer<'m>) -> Self {
        Self { objects: 0, buffer }
    }

    fn add_object(&mut self) -> Result<(), ProblemAnswer> {
        self.objects += 1;
        self.buffer.charge_objects(self.objects)
    }

    fn key_value<'b>(&mut self, fields: MessageFields<'b>, depth: u32) -> Result<(&'b str, Value), RequestProblem> {
        let (mut key, mut value) = ("", Value::Null);
        for field in fields {
            match field? {
                (1, content) => key = content.text()?,
                (2, content) => value = self.any_value(content.message()?, depth)?,
                _ => {}
            }
        }
        self.add_object()?;
        Ok((key, value))
    }

    /// A value; the last of several fields counts.
    fn any_value(&mut self, fields: MessageFields<'_>, depth: u32) -> Result<Value, RequestProblem> {
        if depth == MAX_DEPTH {
            return Err(MalformedMessage("values are nested too deep").into());
        }
        self.add_object()?;
        let mut value = Value::Null;
        for field in fields {
            let (number, content) = field?;
            value = match number {
                1 => Value::from(content.text()?),
                2 => Value::from(content.varint()? != 0),
                3 => integer(content.varint()?),
                4 => double(f64::from_bits(content.fixed64()?)),
                5 => Value::Array(self.values(content, |own, fields| own.any_value(fields, depth + 1))?),
                6 => {
                    let entry = |own: &mut Self, fields| own.key_value(fields, depth + 1);
                    let entries = self.values(content, entry)?;
                    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
                }
                7 => Value::from(STANDARD.encode(content.bytes()?)),
                _ => continue,
            };
        }
        Ok(value)
    }

    /// The values of a list.
    fn values<'b, T>(
        &mut self,
        list: FieldContent<'b>,
        mut read: impl FnMut(&mut Self, MessageFields<'b>) -> Result<T, RequestProblem>,
    ) -> Result<Vec<T>, RequestProblem> {
        let mut values = Vec::new();
        for field in list.message()? {
            if let (1, one) = field? {
                values.push(read(self, one.message()?)?);
            }
        }
        Ok(values)
    }
}

/// JSON has no such numbers, and its encoding of protocol buffers has texts for them.
fn double(number: f64) -> Value {
    match number {
        number if number.is_nan() => Value::from("NaN"),
        f64::INFINITY => Value::from("Infinity"),
        f64::NEG_INFINITY => Value::from("-Infinity"),
        number => Value::from(number),
    }
}

/// The rows of a push request of Loki, as from JSON. The body is decompressed already.
pub(in super::super) fn from_loki(body: &[u8], buffer: &mut RowBuffer<'_>) -> Result<(), ProblemAnswer> {
    let mut request = || {
        for field in MessageFields::new(body) {
            if let (1, stream) = field? {
                labelled_stream(stream.message()?, buffer)?;
            }
        }
        Ok(())
    };
    request().map_err(|problem: RequestProblem| problem.of("a push request of Loki in protobuf"))
}

fn labelled_stream(fields: MessageFields<'_>, buffer: &mut RowBuffer<'_>) -> Result<(), RequestProblem> {
    let mut text = last_text(fields.clone(), 1)?;
    if text.is_empty() {
        text = "{}";
    }
    // Each label takes at least an equals sign.
    let objects = text.bytes().filter(|byte| *byte == b'=').count() as u64;
    buffer.charge_objects(objects)?;
    let labels = parse_labels(text)?;
    for field in fields {
        let (2, entry) = field? else { continue };
        let (mut line, mut nanos, mut metadata) = ("", 0, BTreeMap::new());
        for field in entry.message()? {
            let (number, content) = field?;
            match number {
                1 => nanos = timestamp(content.message()?)?,
                2 => line = content.text()?,
                3 => {
                    let pair = content.message()?;
                    metadata.insert(last_text(pair.clone(), 1)?, last_text(pair, 2)?);
                    buffer.charge_objects(objects + metadata.len() as u64)?;
                }
                _ => {}
            }
        }
        let time = Value::from(nanos.to_string());
        let labels = labels.iter().map(|(name, value)| (name.as_str(), value));
        buffer.line_row(&LogLine { time: &time, line }, labels, metadata)?;
    }
    Ok(())
}

/// A timestamp in nanoseconds since 1970.
fn timestamp(fields: MessageFields<'_>) -> Result<i128, MalformedMessage> {
    let mut nanos = 0;
    for field in fields {
        match field? {
            (1, seconds) => nanos += i128::from(seconds.varint()?.cast_signed()) * 1_000_000_000,
            (2, more) => nanos += i128::from(more.varint()?.cast_signed()),
            _ => {}
        }
    }
    Ok(nanos)
}

const _: () = assert!(OBJECT_BYTES >= 256, "a value with its key takes less");

#[cfg(test)]
mod tests;
