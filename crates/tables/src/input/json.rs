//! JSON lines: one object per line. Only the wanted keys are parsed.

use std::fmt;
use std::ops::Range;

use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::blocks::{RecordBlock, without_end};
use super::header;
use super::limits::{MAX_CELL_BYTES, mebibytes, refuse_long_cells};
use super::pass::{Pass, text_field};
use evertally_declare::error::{InputError, PipelineError, Place, Result};
use evertally_declare::event::{Cells, Field};
use evertally_declare::format::Format;
use evertally_declare::problem::Sentence;
use evertally_declare::words::quoted;

/// The properties of a file before it is read.
pub(super) struct JsonFile {
    name: String,
    wanted: Vec<String>,
    /// A file without objects is accepted only if its format is declared: otherwise it could be anything.
    may_be_empty: bool,
}

/// The maximum number of keys of the first object that are kept, for a message.
const MAX_KEYS_KEPT: usize = 1000;

/// Properties shared by the objects of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Findings {
    /// Which wanted names occurred in some object: one that never occurs is a misspelt column, not a missing value.
    seen: Vec<bool>,
    /// The first keys of the first object, for that error; `None` before there is one.
    first_keys: Option<Vec<String>>,
}

impl Findings {
    /// Adds the findings of the next objects of the file.
    pub(super) fn add(&mut self, next: Self) {
        self.seen.resize(self.seen.len().max(next.seen.len()), false);
        self.seen.iter_mut().zip(next.seen).for_each(|(seen, next)| *seen |= next);
        self.first_keys = self.first_keys.take().or(next.first_keys);
    }
}

impl JsonFile {
    pub(super) fn new(name: &str, wanted: &[String], declared: Option<Format>) -> Self {
        let may_be_empty = declared == Some(Format::JsonLines);
        JsonFile { name: name.to_owned(), wanted: wanted.to_vec(), may_be_empty }
    }

    /// The name of the file in messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Passes on the objects of a block, and returns their findings.
    pub(super) fn visit<E: From<PipelineError>>(
        &self,
        block: &RecordBlock,
        pass: &mut Pass<'_, E>,
    ) -> Result<Findings, E> {
        let mut object = Object::new(&self.wanted);
        let mut rest = block.bytes();
        let mut number = block.first_line;
        while !rest.is_empty() {
            let len = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
            let line = without_end(&rest[..len]);
            if !rest[..len].ends_with(b"\n") && !block.is_last {
                let longest = mebibytes(block.longest as u64);
                let problem = format!("this line is longer than {longest}; write one object per line");
                return Err(PipelineError::from(self.fault(number, problem)).into());
            }
            if !line.trim_ascii().is_empty() {
                self.visit_line(line, number, &mut object, pass)?;
            }
            rest = &rest[len..];
            number += 1;
        }
        Ok(object.findings)
    }

    /// Passes on the object of a line.
    fn visit_line<E: From<PipelineError>>(
        &self,
        line: &[u8],
        number: u64,
        object: &mut Object<'_>,
        pass: &mut Pass<'_, E>,
    ) -> Result<(), E> {
        let Ok(line) = std::str::from_utf8(line) else {
            let problem = "this line is not UTF-8 text; convert the file (iconv -f LATIN1 -t UTF-8)";
            return pass.refuse(self.fault(number, problem));
        };
        if let Err(fault) = object.parse(line) {
            return pass.refuse(fault.into_error(&self.name, number));
        }
        let row = JsonRow { line, object, missing: pass.missing };
        if line.len() > MAX_CELL_BYTES
            && let Err(fault) = refuse_long_cells(&self.name, Place::Line(number), pass.layout, &row)
        {
            return pass.refuse(fault);
        }
        pass.emit(&self.name, Place::Line(number), &row)
    }

    fn fault(&self, number: u64, problem: impl Into<Sentence>) -> InputError {
        InputError::in_file(&*self.name, problem).at(Place::Line(number))
    }

    /// The errors found in the file as a whole.
    pub(super) fn finish(&self, findings: &Findings) -> Result<()> {
        let Some(keys) = &findings.first_keys else {
            if self.may_be_empty {
                return Ok(());
            }
            return Err(InputError::in_file(&*self.name, "the file is empty: it contains no object").into());
        };
        match findings.seen.iter().position(|seen| !seen) {
            None => Ok(()),
            Some(slot) => {
                let keys = keys.iter().map(String::as_str).collect::<Vec<_>>();
                Err(header::missing_column(&self.name, &self.wanted[slot], &keys).into())
            }
        }
    }
}

/// One row: the line and what the object found in it.
struct JsonRow<'r> {
    line: &'r str,
    object: &'r Object<'r>,
    missing: &'r [String],
}

impl Cells for JsonRow<'_> {
    fn cell(&self, slot: usize) -> Field<'_> {
        match &self.object.slots[slot] {
            ValueLocation::Absent | ValueLocation::Null => Field::Missing,
            ValueLocation::Text(range) => text_field(&self.line[range.clone()], self.missing),
            ValueLocation::Unescaped => text_field(&self.object.unescaped[slot], self.missing),
        }
    }
}

/// The location of a wanted key's value.
#[derive(Clone, PartialEq)]
enum ValueLocation {
    Absent,
    Null,
    /// A range of the line: a string without escapes, or a number, true or false as written.
    Text(Range<usize>),
    /// In [`Object::unescaped`].
    Unescaped,
}

/// The wanted values of one object at a time.
struct Object<'n> {
    names: &'n [String],
    slots: Vec<ValueLocation>,
    unescaped: Vec<String>,
    findings: Findings,
    fault: Option<Fault>,
}

/// An error in a line.
struct Fault {
    column: Option<String>,
    problem: String,
}

impl Fault {
    fn into_error(self, file: &str, line: u64) -> InputError {
        let error = InputError::in_file(file, self.problem).at(Place::Line(line));
        match self.column {
            Some(column) => error.in_column(column),
            None => error,
        }
    }
}

impl<'n> Object<'n> {
    fn new(names: &'n [String]) -> Self {
        let count = names.len();
        Object {
            names,
            slots: vec![ValueLocation::Absent; count],
            unescaped: vec![String::new(); count],
            findings: Findings { seen: vec![false; count], first_keys: None },
            fault: None,
        }
    }

    fn parse(&mut self, line: &str) -> Result<(), Fault> {
        self.slots.fill(ValueLocation::Absent);
        let mut parser = serde_json::Deserializer::from_str(line);
        let mut keys = self.findings.first_keys.is_none().then(Vec::new);
        let outcome = ObjectSeed { object: self, line, keys: &mut keys }.deserialize(&mut parser);
        let outcome = outcome.and_then(|()| parser.end());
        if let Err(error) = outcome {
            return Err(self.fault.take().unwrap_or_else(|| syntax_fault(line, &error)));
        }
        self.findings.first_keys = self.findings.first_keys.take().or(keys);
        Ok(())
    }

    fn keep(&mut self, slot: usize, line: &str, raw: &RawValue) -> Result<(), Fault> {
        let fault = |problem: String| Fault { column: Some(self.names[slot].clone()), problem };
        if self.slots[slot] != ValueLocation::Absent {
            return Err(fault("the object has this key twice; keep one of them".into()));
        }
        self.findings.seen[slot] = true;
        let text = raw.get();
        // The raw value is a slice of the line, so the difference of their start addresses is its offset.
        let start = text.as_ptr() as usize - line.as_ptr() as usize;
        self.slots[slot] = match text.as_bytes()[0] {
            b'n' => ValueLocation::Null,
            b'{' | b'[' => {
                let problem = format!("{} is a nested value; write a text, a number or null", quoted(text));
                return Err(fault(problem));
            }
            b'"' if text.contains('\\') => {
                self.unescaped[slot] =
                    serde_json::from_str(text).map_err(|_| fault(format!("{} has an invalid escape", quoted(text))))?;
                ValueLocation::Unescaped
            }
            b'"' => ValueLocation::Text(start + 1..start + text.len() - 1),
            _ => ValueLocation::Text(start..start + text.len()),
        };
        Ok(())
    }
}

fn syntax_fault(line: &str, error: &serde_json::Error) -> Fault {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or(&text);
    let problem = if line.trim_start().starts_with('{') {
        format!("this is not a JSON object ({what}, at character {}); write one object per line", error.column())
    } else {
        format!("{} is not a JSON object; write one object per line", quoted(line.trim()))
    };
    Fault { column: None, problem }
}

struct ObjectSeed<'s, 'n, 'l> {
    object: &'s mut Object<'n>,
    line: &'l str,
    keys: &'s mut Option<Vec<String>>,
}

impl<'de> DeserializeSeed<'de> for ObjectSeed<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ObjectSeed<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(slot) = map.next_key_seed(KeySeed { names: self.object.names, keys: self.keys })? {
            let Some(slot) = slot else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let raw: &'de RawValue = map.next_value()?;
            if let Err(fault) = self.object.keep(slot, self.line, raw) {
                self.object.fault = Some(fault);
                return Err(de::Error::custom("refused"));
            }
        }
        Ok(())
    }
}

/// A key, mapped to its slot if it is wanted.
struct KeySeed<'s> {
    names: &'s [String],
    keys: &'s mut Option<Vec<String>>,
}

impl<'de> DeserializeSeed<'de> for KeySeed<'_> {
    type Value = Option<usize>;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Option<usize>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: de::Error>(self, key: &str) -> Result<Option<usize>, E> {
        if let Some(keys) = self.keys
            && keys.len() < MAX_KEYS_KEPT
        {
            keys.push(key.to_owned());
        }
        Ok(self.names.iter().position(|name| name == key))
    }
}
