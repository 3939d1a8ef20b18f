//! JSON: one object per line, objects over several lines, or an array of objects. Only the wanted values are parsed.

mod elements;
mod names;
mod paths;
mod records;
mod whole;

use std::fmt;
use std::ops::Range;

use serde::de::{self, DeserializeSeed, Deserializer as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::blocks::{RecordBlock, count_lines};
use super::encoding::not_utf8;
use super::header;
use super::limits::{MAX_CELL_BYTES, mebibytes, refuse_long_cells};
use super::lines::TextLines;
use super::pass::{Pass, text_field};
use elements::Nesting;
use evertally_declare::error::{InputError, Place, Result};
use evertally_declare::event::{Cells, Field, WholeRow};
use evertally_declare::format::Format;
use evertally_declare::problem::SentencePart;
use evertally_declare::words::quoted;
use paths::{KeyPaths, WantedKey};

pub(super) use elements::{JsonBlocks, ObjectLayout, begins_array};
pub(super) use names::names_of;
pub(super) use records::{arrays_of, objects_text};

/// The properties of a file before it is read.
pub(super) struct JsonFile {
    name: String,
    wanted: Vec<String>,
    paths: KeyPaths,
    /// A file without objects is accepted only if its format is declared, or if it is an empty array. Otherwise it
    /// could be anything.
    may_be_empty: bool,
}

/// Properties shared by the objects of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Findings {
    /// Which wanted names occurred in some object: one that never occurs is a misspelt column, not a missing value.
    seen: Vec<bool>,
    /// The names of the values in the first object, for that error; `None` before there is one.
    first_names: Option<Vec<String>>,
    /// Whether the text has an array, which may be empty.
    is_array: bool,
    /// Whether an object could not be read, and was set aside.
    has_refused: bool,
}

impl Findings {
    /// Adds the findings of the next objects of the file.
    pub(super) fn add(&mut self, next: Self) {
        self.seen.resize(self.seen.len().max(next.seen.len()), false);
        self.seen.iter_mut().zip(next.seen).for_each(|(seen, next)| *seen |= next);
        self.first_names = self.first_names.take().or(next.first_names);
        self.has_refused |= next.has_refused;
        self.is_array |= next.is_array;
    }
}

impl JsonFile {
    pub(super) fn new(name: &str, wanted: &[String], declared: Option<Format>) -> Self {
        let may_be_empty = declared == Some(Format::JsonLines);
        JsonFile { name: name.to_owned(), wanted: wanted.to_vec(), paths: KeyPaths::new(wanted), may_be_empty }
    }

    /// The name of the file in messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Passes on the objects of a block, and returns their findings.
    pub(super) fn visit(&self, layout: ObjectLayout, block: &RecordBlock, pass: &mut Pass<'_>) -> Result<Findings> {
        let mut object = Object::new(&self.wanted, &self.paths);
        object.begins_file = block.first_line == 1;
        match layout {
            ObjectLayout::Lines => self.visit_lines(block, &mut object, pass)?,
            ObjectLayout::Elements => self.visit_elements(block, &mut object, pass)?,
        }
        Ok(object.findings)
    }

    fn visit_lines(&self, block: &RecordBlock, object: &mut Object<'_>, pass: &mut Pass<'_>) -> Result<()> {
        for line in TextLines::new(&self.name, block, "object") {
            let (number, line) = line?;
            self.visit_object(line, number, object, pass)?;
        }
        Ok(())
    }

    /// Whatever is between the objects of the block was checked when it was cut.
    fn visit_elements(&self, block: &RecordBlock, object: &mut Object<'_>, pass: &mut Pass<'_>) -> Result<()> {
        object.findings.is_array = true;
        let (mut rest, mut number) = (block.bytes(), block.first_line);
        while let Some(start) = memchr::memchr(b'{', rest) {
            number += count_lines(&rest[..start]);
            rest = &rest[start..];
            let end = Nesting::default().end(rest);
            let text = &rest[..end.unwrap_or(rest.len())];
            if end.is_none() && !block.is_last && is_cut(text) {
                let longest = mebibytes(block.longest as u64);
                let problem = format!("this object is longer than {longest}");
                return Err(self.error(problem, number).remedy(records::declare_if_events()).into());
            }
            let object_text = std::str::from_utf8(text).map_err(|error| {
                let line = number + count_lines(&text[..error.valid_up_to()]);
                not_utf8(&self.name, line, "object", text)
            })?;
            self.visit_object(object_text, number, object, pass)?;
            number += count_lines(text);
            rest = &rest[text.len()..];
        }
        Ok(())
    }

    fn visit_object(&self, text: &str, line: u64, object: &mut Object<'_>, pass: &mut Pass<'_>) -> Result<()> {
        let place = Place::Line(line);
        if let Err(fault) = object.parse(text) {
            if fault.is_of_file {
                return Err(fault.into_error(&self.name, line).into());
            }
            object.findings.has_refused = true;
            return pass.refuse(fault.into_error(&self.name, line), || text.to_owned());
        }
        let row = JsonRow { text, object, missing: pass.missing };
        if text.len() > MAX_CELL_BYTES {
            refuse_long_cells(&self.name, place, pass.layout, &row)?;
        }
        pass.emit(&self.name, place, &row)
    }

    fn error(&self, problem: String, line: u64) -> InputError {
        InputError::in_file(&*self.name, problem).at(Place::Line(line))
    }

    /// The errors found in the file as a whole.
    pub(super) fn finish(&self, findings: &Findings) -> Result<()> {
        let Some(names) = &findings.first_names else {
            if self.may_be_empty || findings.is_array {
                return Ok(());
            }
            let problem = match findings.has_refused {
                true => "none of its objects can be read",
                false => "the file is empty: it contains no object",
            };
            return Err(InputError::in_file(&*self.name, problem).into());
        };
        match findings.seen.iter().position(|seen| !seen) {
            None => Ok(()),
            Some(slot) => {
                let names = names.iter().map(String::as_str).collect::<Vec<_>>();
                Err(header::missing_column(&self.name, &self.wanted[slot], &names).into())
            }
        }
    }
}

/// The complete objects of a text, in either layout.
pub(super) fn objects(text: &[u8]) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let start = memchr::memchr(b'{', rest)?;
        let end = start + Nesting::default().end(&rest[start..])?;
        let object = std::str::from_utf8(&rest[start..end]).unwrap_or_default();
        rest = &rest[end..];
        Some(object)
    })
}

/// Whether a text ends inside of an object that has no fault up to there.
fn is_cut(text: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(text).is_err_and(|error| error.is_eof())
}

/// One row: the text of the object, and the values found in it.
struct JsonRow<'r> {
    text: &'r str,
    object: &'r Object<'r>,
    missing: &'r [String],
}

impl Cells for JsonRow<'_> {
    fn cell(&self, slot: usize) -> Field<'_> {
        match &self.object.slots[slot] {
            ValueLocation::Absent | ValueLocation::Null | ValueLocation::Blocked(_) => Field::Missing,
            ValueLocation::Text(range) => text_field(&self.text[range.clone()], self.missing),
            ValueLocation::Number(range) => match text_field(&self.text[range.clone()], self.missing) {
                Field::Text(number) => Field::Number(number),
                other => other,
            },
            ValueLocation::Unescaped => text_field(&self.object.unescaped[slot], self.missing),
        }
    }

    fn whole(&self) -> WholeRow {
        let cells = whole::cells_of(self.text);
        WholeRow { cells, text: self.text.to_owned() }
    }
}

/// The location of a wanted value.
#[derive(Clone, PartialEq)]
enum ValueLocation {
    Absent,
    Null,
    /// A range of the text: a string without escapes, or true or false.
    Text(Range<usize>),
    /// A range of the text: a number as written.
    Number(Range<usize>),
    /// In [`Object::unescaped`].
    Unescaped,
    /// There is no such value, because the value in this range is on its path, and has no values inside.
    Blocked(Range<usize>),
}

/// The wanted values of one object at a time.
struct Object<'n> {
    names: &'n [String],
    paths: &'n KeyPaths,
    slots: Vec<ValueLocation>,
    unescaped: Vec<String>,
    /// The levels of paths that were found in this object.
    entered: Vec<bool>,
    /// Whether the next objects are the first of the file.
    begins_file: bool,
    findings: Findings,
    fault: Option<Fault>,
}

/// An error in an object.
struct Fault {
    /// The number of lines of the object before the error.
    lines: u64,
    column: Option<String>,
    problem: String,
    remedy: Option<SentencePart>,
    /// Whether the file is read in a wrong way, so that no row of it can be set aside.
    is_of_file: bool,
}

impl Fault {
    fn new(column: Option<&str>, problem: String) -> Self {
        Fault { lines: 0, column: column.map(String::from), problem, remedy: None, is_of_file: false }
    }

    fn into_error(self, file: &str, line: u64) -> InputError {
        let error = InputError::in_file(file, self.problem).at(Place::Line(line + self.lines));
        let error = match self.remedy {
            Some(remedy) => error.remedy(remedy),
            None => error,
        };
        match self.column {
            Some(column) => error.in_column(column),
            None => error,
        }
    }
}

impl<'n> Object<'n> {
    fn new(names: &'n [String], paths: &'n KeyPaths) -> Self {
        let count = names.len();
        Object {
            names,
            paths,
            slots: vec![ValueLocation::Absent; count],
            unescaped: vec![String::new(); count],
            entered: vec![false; paths.depth()],
            begins_file: false,
            findings: Findings { seen: vec![false; count], ..Findings::default() },
            fault: None,
        }
    }

    fn parse(&mut self, text: &str) -> Result<(), Fault> {
        self.slots.fill(ValueLocation::Absent);
        self.entered.fill(false);
        let mut parser = serde_json::Deserializer::from_str(text);
        let outcome = parser.deserialize_map(LevelVisitor { object: self, text, level: 0 });
        if let Err(error) = outcome.and_then(|()| parser.end()) {
            return Err(self.fault.take().unwrap_or_else(|| syntax_fault(text, &error)));
        }
        if self.paths.depth() > 1 {
            self.refuse_blocked(text)?;
        }
        if self.findings.first_names.is_none() {
            let names = names::names_of(text);
            self.refuse_array_around(&names)?;
            self.findings.first_names = Some(names);
        }
        Ok(())
    }

    /// Refuses the first object of a file if it has no wanted value, but an array of objects that have them all.
    fn refuse_array_around(&self, names: &[String]) -> Result<(), Fault> {
        let has_none = self.slots.iter().all(|value| *value == ValueLocation::Absent);
        match records::array_with(self.names, names).filter(|_| self.begins_file && has_none) {
            None => Ok(()),
            Some(array) => {
                let problem = format!("this object has no event, but its array {} has", quoted(array));
                let remedy = Some(records::declare(array));
                Err(Fault { remedy, is_of_file: true, ..Fault::new(None, problem) })
            }
        }
    }

    /// Notes a wanted value, and those inside of it.
    fn note(&mut self, wanted: &WantedKey, text: &str, raw: &RawValue) -> Result<(), Fault> {
        if let Some(slot) = wanted.slot {
            self.keep(slot, text, raw)?;
        }
        match wanted.inner {
            Some(inner) => self.enter(wanted, inner, text, raw),
            None => Ok(()),
        }
    }

    fn keep(&mut self, slot: usize, text: &str, raw: &RawValue) -> Result<(), Fault> {
        let fault = |problem: String| Fault::new(Some(&self.names[slot]), problem);
        if !matches!(self.slots[slot], ValueLocation::Absent | ValueLocation::Blocked(_)) {
            let problem = match self.paths.depth() {
                1 => "the object has this key twice; keep one of them",
                _ => {
                    "the object has this column twice, such as under a key of this name and under a path; keep one of \
                      them"
                }
            };
            return Err(fault(problem.into()));
        }
        self.findings.seen[slot] = true;
        let (value, range) = (raw.get(), range_of(raw, text));
        self.slots[slot] = match value.as_bytes()[0] {
            b'n' => ValueLocation::Null,
            b'{' | b'[' => {
                let name = &self.names[slot];
                let problem = match names::names_of(value).first() {
                    Some(inside) if value.starts_with('{') => {
                        let path = quoted(&format!("{name}.{inside}"));
                        format!("{} is an object; name a value in it, such as {path}", quoted(value))
                    }
                    _ => format!("{} is a nested value; write a text, a number or null", quoted(value)),
                };
                return Err(fault(problem));
            }
            b'"' if value.contains('\\') => {
                self.unescaped[slot] = serde_json::from_str(value)
                    .map_err(|_| fault(format!("{} has an invalid escape", quoted(value))))?;
                ValueLocation::Unescaped
            }
            b'"' => ValueLocation::Text(range.start + 1..range.end - 1),
            b't' | b'f' => ValueLocation::Text(range),
            _ => ValueLocation::Number(range),
        };
        Ok(())
    }

    /// Notes the wanted values inside of a value.
    fn enter(&mut self, wanted: &WantedKey, inner: usize, text: &str, raw: &RawValue) -> Result<(), Fault> {
        if std::mem::replace(&mut self.entered[inner], true) {
            let problem = format!("the object has the key {} twice; keep one of them", quoted(&wanted.key));
            return Err(Fault::new(None, problem));
        }
        match raw.get().as_bytes()[0] {
            b'n' => self.paths.each_slot(inner, &mut |slot| self.findings.seen[slot] = true),
            b'[' if !self.paths.has_elements(inner) => self.block(inner, &range_of(raw, text)),
            b'{' | b'[' => {
                let mut parser = serde_json::Deserializer::from_str(raw.get());
                if let Err(error) = parser.deserialize_any(LevelVisitor { object: self, text, level: inner }) {
                    let problem = || format!("{} cannot be read ({error})", quoted(raw.get()));
                    return Err(self.fault.take().unwrap_or_else(|| Fault::new(None, problem())));
                }
            }
            _ => self.block(inner, &range_of(raw, text)),
        }
        Ok(())
    }

    /// Notes that the values of a level cannot be there. They may still be under other keys.
    fn block(&mut self, level: usize, range: &Range<usize>) {
        let slots = &mut self.slots;
        self.paths.each_slot(level, &mut |slot| {
            if slots[slot] == ValueLocation::Absent {
                slots[slot] = ValueLocation::Blocked(range.clone());
            }
        });
    }

    fn refuse_blocked(&self, text: &str) -> Result<(), Fault> {
        for (name, slot) in self.names.iter().zip(&self.slots) {
            let ValueLocation::Blocked(range) = slot else { continue };
            let value = &text[range.clone()];
            let fault = |problem: &str| Fault::new(Some(name), format!("{} on its path {problem}", quoted(value)));
            return Err(match value.starts_with('[') {
                true => Fault {
                    remedy: Some(records::declare_if_events()),
                    ..fault("is an array; name an element of it, as in `items[0].id`")
                },
                false => fault("is not an object; write an object or null"),
            });
        }
        Ok(())
    }
}

/// The position of a value in the text from which it was parsed.
fn range_of(raw: &RawValue, text: &str) -> Range<usize> {
    // The raw value is a slice of the text, so the difference of their start addresses is its offset.
    let start = raw.get().as_ptr() as usize - text.as_ptr() as usize;
    start..start + raw.get().len()
}

fn syntax_fault(text: &str, error: &serde_json::Error) -> Fault {
    let shown = error.to_string();
    let what = shown.split(" at line ").next().unwrap_or(&shown);
    let problem = if text.trim_start().starts_with('{') {
        format!("this is not a JSON object ({what}, at character {}); write one object per line", error.column())
    } else {
        format!("{} is not a JSON object; write one object per line", quoted(text.trim()))
    };
    Fault { lines: error.line().saturating_sub(1) as u64, ..Fault::new(None, problem) }
}

/// Reads the object of a row, or an object or array inside of it.
struct LevelVisitor<'s, 'n, 't> {
    object: &'s mut Object<'n>,
    text: &'t str,
    level: usize,
}

impl LevelVisitor<'_, '_, '_> {
    fn note<E: de::Error>(&mut self, wanted: &WantedKey, raw: &RawValue) -> Result<(), E> {
        self.object.note(wanted, self.text, raw).map_err(|fault| {
            self.object.fault = Some(fault);
            E::custom("refused")
        })
    }
}

impl<'de> Visitor<'de> for LevelVisitor<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let level = self.object.paths.level(self.level);
        while let Some(wanted) = map.next_key_seed(KeySeed { level })? {
            match wanted {
                Some(wanted) => {
                    let raw: &'de RawValue = map.next_value()?;
                    self.note(wanted, raw)?;
                }
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<(), A::Error> {
        let level = self.object.paths.level(self.level);
        for place in 0.. {
            let has_more = match level.iter().find(|wanted| wanted.place == Some(place)) {
                Some(wanted) => match elements.next_element::<&'de RawValue>()? {
                    Some(raw) => self.note(wanted, raw).map(|()| true)?,
                    None => false,
                },
                None => elements.next_element::<IgnoredAny>()?.is_some(),
            };
            if !has_more {
                break;
            }
        }
        Ok(())
    }
}

/// A key, if it is wanted.
struct KeySeed<'n> {
    level: &'n [WantedKey],
}

impl<'de, 'n> DeserializeSeed<'de> for KeySeed<'n> {
    type Value = Option<&'n WantedKey>;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'n> Visitor<'_> for KeySeed<'n> {
    type Value = Option<&'n WantedKey>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: de::Error>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.level.iter().find(|wanted| wanted.key == key))
    }
}
