//! JSON lines: one object a line, of which only the wanted keys are looked at.

use std::fmt;
use std::io::Read;
use std::ops::Range;

use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::lines::{LineLen, Lines, without_end};
use super::{BATCH_ROWS, InputFormat, Pass, header, text_field};
use evertally_publish::error::{Error, InputError, Place, Result, read_error};
use evertally_publish::event::{Cells, Field};
use evertally_publish::words::quoted;

/// The objects of one file.
pub(super) struct JsonRows<R> {
    file: String,
    lines: Lines<R>,
    object: Object,
    /// Lines seen, and whether there was an object among them.
    number: u64,
    any: bool,
}

impl<R: Read> JsonRows<R> {
    pub(super) fn open(file: &str, reader: R, wanted: &[String]) -> Self {
        JsonRows {
            file: file.to_owned(),
            lines: Lines::new(reader),
            object: Object::new(wanted),
            number: 0,
            any: false,
        }
    }

    /// Hands on the next objects; false at the end of the file.
    pub(super) fn batch<E: From<Error>>(&mut self, pass: &mut Pass<'_, E>) -> Result<bool, E> {
        let Self { file, lines, object, number, any } = self;
        for _ in 0..BATCH_ROWS {
            let len = match lines.line_len().map_err(|e| read_error(file, e))? {
                LineLen::Line(0) if *any => return Ok(object.require_seen(file).map(|()| false)?),
                // What a file of no event is, is said only where its format is declared: it may be anything.
                LineLen::Line(0) if pass.options.format == Some(InputFormat::JsonLines) => return Ok(false),
                LineLen::Line(0) => {
                    let problem = "the file is empty: it holds no object";
                    return Err(Error::from(InputError::of_file(&**file, problem)).into());
                }
                LineLen::Line(len) => len,
                LineLen::TooLong => {
                    let error = InputError::of_file(&**file, "this line is longer than 16 MiB; give one object a line");
                    return Err(Error::from(error.at(Place::Line(*number + 1))).into());
                }
            };
            *number += 1;
            let line = without_end(&lines.window()[..len]);
            if !line.trim_ascii().is_empty() {
                let error = |problem: &str| {
                    Error::from(InputError::of_file(&**file, problem.to_owned()).at(Place::Line(*number)))
                };
                let line = std::str::from_utf8(line)
                    .map_err(|_| error("this line is not UTF-8 text; convert the file (iconv -f LATIN1 -t UTF-8)"))?;
                object.parse(line).map_err(|fault| Error::from(fault.into_error(file, *number)))?;
                let row = Row { line, object, missing: &pass.options.missing };
                pass.emit(file, Place::Line(*number), &row)?;
                *any = true;
            }
            lines.consume(len);
        }
        Ok(true)
    }
}

/// One row: the line and what the object found in it.
struct Row<'r> {
    line: &'r str,
    object: &'r Object,
    missing: &'r [String],
}

impl Cells for Row<'_> {
    fn cell(&self, slot: usize) -> Field<'_> {
        match &self.object.slots[slot] {
            Slot::Absent | Slot::Null => Field::Missing,
            Slot::Text(range) => text_field(&self.line[range.clone()], self.missing),
            Slot::Unescaped => text_field(&self.object.unescaped[slot], self.missing),
        }
    }
}

/// Where the value of a wanted key is.
#[derive(Clone, PartialEq)]
enum Slot {
    Absent,
    Null,
    /// A range of the line: the text of a string without escapes, or a number, true or false as written.
    Text(Range<usize>),
    /// In [`Object::unescaped`].
    Unescaped,
}

/// The wanted values of one object at a time.
struct Object {
    names: Vec<String>,
    slots: Vec<Slot>,
    unescaped: Vec<String>,
    /// Which names some object had: a name that none has is a misspelt column, not a missing value.
    seen: Vec<bool>,
    /// The keys of the first object, for that error.
    first_keys: Option<Vec<String>>,
    fault: Option<Fault>,
}

/// What is wrong with a line.
struct Fault {
    column: Option<String>,
    problem: String,
}

impl Fault {
    fn into_error(self, file: &str, line: u64) -> InputError {
        let error = InputError::of_file(file, self.problem).at(Place::Line(line));
        match self.column {
            Some(column) => error.in_column(column),
            None => error,
        }
    }
}

impl Object {
    fn new(names: &[String]) -> Self {
        let count = names.len();
        Object {
            names: names.to_vec(),
            slots: vec![Slot::Absent; count],
            unescaped: vec![String::new(); count],
            seen: vec![false; count],
            first_keys: None,
            fault: None,
        }
    }

    fn parse(&mut self, line: &str) -> Result<(), Fault> {
        self.slots.fill(Slot::Absent);
        let mut parser = serde_json::Deserializer::from_str(line);
        let mut keys = self.first_keys.is_none().then(Vec::new);
        let outcome = ObjectSeed { object: self, line, keys: &mut keys }.deserialize(&mut parser);
        let outcome = outcome.and_then(|()| parser.end());
        if let Err(error) = outcome {
            return Err(self.fault.take().unwrap_or_else(|| syntax_fault(line, &error)));
        }
        self.first_keys = self.first_keys.take().or(keys);
        Ok(())
    }

    fn keep(&mut self, slot: usize, line: &str, raw: &RawValue) -> Result<(), Fault> {
        let fault = |problem: String| Fault { column: Some(self.names[slot].clone()), problem };
        if self.slots[slot] != Slot::Absent {
            return Err(fault("the object has this key twice; keep one of them".into()));
        }
        self.seen[slot] = true;
        let text = raw.get();
        // The raw value is a piece of the line, so that the distance of their beginnings is its place.
        let start = text.as_ptr() as usize - line.as_ptr() as usize;
        self.slots[slot] = match text.as_bytes()[0] {
            b'n' => Slot::Null,
            b'{' | b'[' => {
                let problem = format!("{} is a nested value; give a text, a number or null", quoted(text));
                return Err(fault(problem));
            }
            b'"' if text.contains('\\') => {
                self.unescaped[slot] =
                    serde_json::from_str(text).map_err(|_| fault(format!("{} has a broken escape", quoted(text))))?;
                Slot::Unescaped
            }
            b'"' => Slot::Text(start + 1..start + text.len() - 1),
            _ => Slot::Text(start..start + text.len()),
        };
        Ok(())
    }

    fn require_seen(&self, file: &str) -> Result<()> {
        match self.seen.iter().position(|seen| !seen) {
            None => Ok(()),
            Some(slot) => {
                let keys = self.first_keys.iter().flatten().map(String::as_str).collect::<Vec<_>>();
                Err(header::missing_column(file, &self.names[slot], &keys).into())
            }
        }
    }
}

fn syntax_fault(line: &str, error: &serde_json::Error) -> Fault {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or(&text);
    let problem = if line.trim_start().starts_with('{') {
        format!("this is not a JSON object ({what}, at character {}); give one whole object a line", error.column())
    } else {
        format!("{} is not a JSON object; give one whole object a line", quoted(line.trim()))
    };
    Fault { column: None, problem }
}

struct ObjectSeed<'s, 'l> {
    object: &'s mut Object,
    line: &'l str,
    keys: &'s mut Option<Vec<String>>,
}

impl<'de> DeserializeSeed<'de> for ObjectSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ObjectSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(slot) = map.next_key_seed(KeySeed { names: &self.object.names, keys: self.keys })? {
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

/// A key: its slot if it is wanted.
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
        if let Some(keys) = self.keys {
            keys.push(key.to_owned());
        }
        Ok(self.names.iter().position(|name| name == key))
    }
}
