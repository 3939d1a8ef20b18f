//! One array of objects inside of a JSON text, as a text with nothing else.

use std::io::{self, Read};

use serde::de::IgnoredAny;

use super::super::encoding::FaultyText;
use super::super::limits::max_record_bytes;
use super::super::options::ReadOptions;
use super::elements::Nesting;
use evertally_declare::declaration::Parameter;
use evertally_declare::problem::{SentencePart, sentence};
use evertally_declare::words::quoted;

/// Bytes that are read at once.
const CHUNK: usize = 64 * 1024;

/// The maximum number of arrays that a message lists, and that are kept.
const MAX_LISTED: usize = 10;
const MAX_ARRAYS: usize = 100;

/// The text with the objects of a file: all of it, or the declared array.
pub(in crate::input) fn objects_text<'o>(
    reader: Box<dyn Read + Send + 'o>,
    options: &ReadOptions,
) -> Box<dyn Read + Send + 'o> {
    match &options.json_records {
        None => reader,
        Some(path) => Box::new(RecordArray::new(reader, path, max_record_bytes(options.memory))),
    }
}

/// The path to an array whose first element has all wanted values, by the names of the values in the object around it.
pub(super) fn array_with<'n>(wanted: &[String], names: &'n [String]) -> Option<&'n str> {
    let inside = |name: &'n String| name.split_once("[0].");
    let paths = names.iter().filter_map(inside).filter(|(path, _)| !path.contains('['));
    let paths = paths.filter(|(_, rest)| wanted.first().is_some_and(|first| first == rest));
    let has_all = |path: &str| wanted.iter().all(|wanted| names.contains(&format!("{path}[0].{wanted}")));
    paths.map(|(path, _)| path).find(|path| has_all(path))
}

/// What to do if the objects are in this array.
pub(super) fn declare(path: &str) -> SentencePart {
    // Other names need quotes, or may do harm in a shell.
    let is_plain = path.chars().all(|c| c.is_alphanumeric() || "._-".contains(c)) && !path.is_empty();
    let declare = match is_plain {
        true => sentence!["declare ", (Parameter::JsonRecords, path.to_owned())],
        false => sentence!["declare its keys with ", SentencePart::Example(Parameter::JsonRecords)],
    };
    let alone = sentence!["write its elements to a file"];
    SentencePart::Where(Parameter::JsonRecords, declare, alone)
}

/// What to do if the objects may be in an array.
pub(super) fn declare_if_events() -> SentencePart {
    let events = "if the events are the elements of an array, ";
    let declare = sentence![events, "declare its path, such as ", SentencePart::Example(Parameter::JsonRecords)];
    let alone = sentence![events, "write them to a file (jq -c '.NAME[]')"];
    SentencePart::Where(Parameter::JsonRecords, declare, alone)
}

/// Passes on the array at a path of keys, and of the text around it the line ends: lines keep their numbers.
struct RecordArray<R> {
    inner: R,
    wanted: String,
    /// Bytes that were read, and those to pass on.
    chunk: Vec<u8>,
    text: Vec<u8>,
    passed: usize,
    scan: ArrayScan,
}

impl<R: Read> RecordArray<R> {
    /// The array at a path such as `features` or `data.items`; the text around it has at most `longest` bytes.
    fn new(inner: R, path: &str, longest: usize) -> Self {
        let scan = ArrayScan { longest, line: 1, ..ArrayScan::default() };
        RecordArray { inner, wanted: path.to_owned(), chunk: vec![0; CHUNK], text: Vec::new(), passed: 0, scan }
    }
}

impl<R: Read> Read for RecordArray<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.passed == self.text.len() {
            let read = self.inner.read(&mut self.chunk)?;
            (self.passed, self.text) = (0, std::mem::take(&mut self.text));
            self.text.clear();
            let outcome = match read {
                0 => self.scan.end(&self.wanted),
                read => self.scan.pass(&self.chunk[..read], &self.wanted, &mut self.text),
            };
            outcome.map_err(|problem| io::Error::other(FaultyText { line: self.scan.line, problem, remedy: None }))?;
            if read == 0 {
                return Ok(0);
            }
        }
        let length = buffer.len().min(self.text.len() - self.passed);
        buffer[..length].copy_from_slice(&self.text[self.passed..self.passed + length]);
        self.passed += length;
        Ok(length)
    }
}

/// The current position outside of the wanted array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ScanPosition {
    /// Before a key, or the end of the object.
    #[default]
    Key,
    /// After a key.
    Named,
    /// Before a value.
    Value,
    /// After a value.
    After,
}

/// Where a scan of the text is.
#[derive(Default)]
struct ArrayScan {
    line: u64,
    /// The text around all arrays: it is checked at the end.
    around: Vec<u8>,
    longest: usize,
    /// The lengths of the paths of the objects around the position. Arrays are passed over as wholes.
    open: Vec<usize>,
    has_ended: bool,
    position: ScanPosition,
    path: String,
    /// The start of the current string in the text around the arrays.
    string: Option<usize>,
    is_escaped: bool,
    /// Inside of an array, and whether it is the wanted one.
    array: Option<(Nesting, bool)>,
    has_found: bool,
    /// The first other arrays.
    others: Vec<OtherArray>,
}

/// An array that is not wanted.
struct OtherArray {
    path: String,
    bytes: usize,
    /// What begins its first element, or ends the array.
    first: Option<u8>,
}

impl OtherArray {
    fn add(&mut self, text: &[u8]) {
        let inside = if self.bytes == 0 { text.get(1..).unwrap_or_default() } else { text };
        self.first = self.first.or_else(|| inside.trim_ascii_start().first().copied());
        self.bytes += text.len();
    }
}

/// The arrays of objects in the only object of a text, which may be cut short: their paths, the longest array first.
pub(in crate::input) fn arrays_of(text: &[u8]) -> Vec<String> {
    let mut scan = ArrayScan { longest: text.len(), ..ArrayScan::default() };
    // There is no array without a name.
    if scan.pass(text, "", &mut Vec::new()).is_err() {
        return Vec::new();
    }
    scan.others.retain(|array| array.first == Some(b'{'));
    scan.others.sort_by_key(|array| std::cmp::Reverse(array.bytes));
    scan.others.into_iter().map(|array| array.path).collect()
}

impl ArrayScan {
    /// Reads the next bytes of the text, and adds those of the wanted array to `out`.
    fn pass(&mut self, text: &[u8], wanted: &str, out: &mut Vec<u8>) -> Result<(), String> {
        let mut at = 0;
        while at < text.len() {
            if let Some((nesting, is_wanted)) = &mut self.array {
                let length = nesting.end(&text[at..]);
                let inside = &text[at..at + length.unwrap_or(text.len() - at)];
                match is_wanted {
                    true => out.extend(inside),
                    false => {
                        out.extend(inside.iter().filter(|byte| **byte == b'\n'));
                        self.others.last_mut().into_iter().for_each(|array| array.add(inside));
                    }
                }
                self.line += memchr::memchr_iter(b'\n', inside).count() as u64;
                if length.is_some() {
                    self.array = None;
                }
                at += inside.len();
                continue;
            }
            let byte = text[at];
            if byte == b'[' && self.string.is_none() && self.begin_array(wanted)? {
                self.around.extend(b"[]");
                continue;
            }
            if byte == b'\n' {
                out.push(byte);
                self.line += 1;
            }
            self.outside(byte, wanted, out)?;
            at += 1;
        }
        Ok(())
    }

    /// Before an array: whether it is passed over or passed on as a whole. In an array around everything there is no
    /// key, so it is left to the check at the end.
    fn begin_array(&mut self, wanted: &str) -> Result<bool, String> {
        if self.open.is_empty() || self.position != ScanPosition::Value {
            return Ok(false);
        }
        let is_wanted = self.path == wanted;
        if is_wanted {
            self.find(wanted)?;
        } else {
            // The last of too many stands for the rest.
            self.others.truncate(MAX_ARRAYS);
            self.others.push(OtherArray { path: self.path.clone(), bytes: 0, first: None });
        }
        (self.array, self.position) = (Some((Nesting::default(), is_wanted)), ScanPosition::After);
        Ok(true)
    }

    fn find(&mut self, wanted: &str) -> Result<(), String> {
        match std::mem::replace(&mut self.has_found, true) {
            true => Err(format!("the text has {} twice; keep one of them", quoted(wanted))),
            false => Ok(()),
        }
    }

    /// A byte outside of all arrays.
    fn outside(&mut self, byte: u8, wanted: &str, out: &mut Vec<u8>) -> Result<(), String> {
        if self.around.len() == self.longest {
            return Err(format!("the text around the array {} is too long", quoted(wanted)));
        }
        self.around.push(byte);
        if self.string.is_some() {
            return self.in_string(byte);
        }
        if byte.is_ascii_whitespace() {
            return Ok(());
        }
        if self.open.is_empty() && byte != b'{' {
            let problem = match byte {
                b'[' => "the text is an array itself; omit --json-records",
                _ => "this is not a JSON object with an array in it",
            };
            return Err(problem.to_owned());
        }
        if self.position == ScanPosition::Value && self.path == wanted {
            self.find(wanted)?;
            // Programs write null for a list without elements.
            match byte {
                b'n' => out.extend(b"[]"),
                _ => return Err(format!("{} is not an array", quoted(wanted))),
            }
        }
        match byte {
            b'"' => self.string = Some(self.around.len() - 1),
            b'{' => {
                if self.has_ended {
                    let problem = "there is another object after the first; write their arrays to one file of objects";
                    return Err(format!("{problem} (jq -c '.{wanted}[]')"));
                }
                self.open.push(self.path.len());
                self.position = ScanPosition::Key;
            }
            b'}' | b']' => {
                self.path.truncate(self.open.pop().unwrap_or(0));
                self.has_ended = self.open.is_empty();
                self.position = ScanPosition::After;
            }
            b':' if self.position == ScanPosition::Named => self.position = ScanPosition::Value,
            b',' => self.position = ScanPosition::Key,
            _ => self.position = ScanPosition::After,
        }
        Ok(())
    }

    fn in_string(&mut self, byte: u8) -> Result<(), String> {
        if std::mem::take(&mut self.is_escaped) {
            return Ok(());
        }
        match byte {
            b'\\' => self.is_escaped = true,
            b'"' => {
                let start = self.string.take().expect("inside of a string");
                let object = self.open.last().filter(|_| self.position == ScanPosition::Key);
                self.position = ScanPosition::After;
                if let Some(object) = object {
                    let key: String = serde_json::from_slice(&self.around[start..])
                        .map_err(|error| format!("a key cannot be read ({error})"))?;
                    self.path.truncate(*object);
                    if !self.path.is_empty() {
                        self.path.push('.');
                    }
                    self.path.push_str(&key);
                    self.position = ScanPosition::Named;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks the text as a whole at its end.
    fn end(&self, wanted: &str) -> Result<(), String> {
        const CUT_SHORT: &str = "the JSON text ends too early; the file may be cut short";
        match self.array {
            Some((_, true)) => return Ok(()), // reported by the reader of the array
            Some((_, false)) => return Err(CUT_SHORT.into()),
            None => {}
        }
        if std::str::from_utf8(&self.around).is_err() {
            return Err("the text around the arrays is not UTF-8".into());
        }
        match serde_json::from_slice::<IgnoredAny>(&self.around) {
            Err(error) if error.is_eof() => {
                return Err(CUT_SHORT.into());
            }
            Err(error) => return Err(format!("the text around the arrays is not JSON ({error})")),
            Ok(_) if self.has_found => return Ok(()),
            Ok(_) => {}
        }
        let shown: Vec<String> = self.others.iter().take(MAX_LISTED).map(|array| quoted(&array.path)).collect();
        let (list, more) = (shown.join(", "), if self.others.len() > MAX_LISTED { " and more" } else { "" });
        Err(match self.others.is_empty() {
            true => format!("there is no array {}, and no other", quoted(wanted)),
            false => format!("there is no array {}; there is {list}{more}", quoted(wanted)),
        })
    }
}

#[cfg(test)]
mod tests;
