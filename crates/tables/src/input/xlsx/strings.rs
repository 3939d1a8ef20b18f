//! The texts that the cells of a workbook share.

use std::borrow::Cow;
use std::sync::atomic::AtomicBool;

use quick_xml::events::Event as XmlEvent;

use super::super::limits::mebibytes;
use super::workbook::Workbook;
use evertally_declare::declaration::Parameter;
use evertally_declare::error::{InputError, Result, Unreadable};
use evertally_declare::problem::sentence;

/// Texts in one piece of memory.
#[derive(Default)]
pub(super) struct SharedStrings {
    text: String,
    ends: Vec<usize>,
}

impl SharedStrings {
    /// Reads the texts of a workbook. They may use half of the memory for reading: a vector that grows is in memory
    /// twice. The number that the file states is ignored.
    ///
    /// # Errors
    /// If they are damaged, or need more memory.
    pub(super) fn read(file: &str, workbook: &Workbook, memory: u64, cancelled: &AtomicBool) -> Result<Self> {
        let (mut strings, mut buffer, mut one) = (Self::default(), Vec::new(), String::new());
        let Some(part) = &workbook.strings else { return Ok(strings) };
        let mut xml = workbook.part(part)?;
        let (mut is_phonetic, mut is_text) = (false, false);
        loop {
            match xml.next_or_cancelled(&mut buffer, cancelled)? {
                XmlEvent::Start(tag) => match tag.local_name().as_ref() {
                    "si" => one.clear(),
                    "rPh" => is_phonetic = true,
                    "t" => is_text = !is_phonetic,
                    _ => {}
                },
                XmlEvent::End(tag) => match tag.local_name().as_ref() {
                    "si" => strings.push(file, &one, memory)?,
                    "rPh" => is_phonetic = false,
                    "t" => is_text = false,
                    _ => {}
                },
                XmlEvent::Eof => return Ok(strings),
                event if is_text => xml.push_text(&event, &mut one)?,
                _ => {}
            }
        }
    }

    fn push(&mut self, file: &str, text: &str, memory: u64) -> Result<()> {
        self.text.push_str(&unescaped(text));
        self.ends.push(self.text.len());
        let bytes = self.text.len() + size_of::<usize>() * self.ends.len();
        if bytes as u64 > memory / 2 {
            let allowed = mebibytes(memory / 2);
            let problem = format!("the texts of this workbook need more than {allowed} of memory");
            let remedy = sentence!["save the sheet with the events as CSV, or raise ", Parameter::ReadMemory];
            let error = InputError::in_file(file, problem).remedy(remedy);
            return Err(error.as_unreadable(Unreadable::TooLarge).into());
        }
        Ok(())
    }

    /// The text with this number.
    pub(super) fn get(&self, index: usize) -> Option<&str> {
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.text[start..end])
    }
}

/// A text with its escapes replaced: `_x000D_` is a carriage return, which XML would change.
pub(super) fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains("_x") {
        return Cow::Borrowed(text);
    }
    let (mut plain, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find("_x") {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let decoded = code_unit(rest).and_then(|first| match char::from_u32(first.into()) {
            Some(character) => Some((character, ESCAPE_BYTES)),
            None => {
                let units = [first, code_unit(&rest[ESCAPE_BYTES..])?];
                let character = char::decode_utf16(units).next()?.ok()?;
                Some((character, 2 * ESCAPE_BYTES))
            }
        });
        let (character, length) = decoded.unwrap_or(('_', 1));
        plain.push(character);
        rest = &rest[length..];
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// The length of `_x000D_`.
const ESCAPE_BYTES: usize = 7;

/// The UTF-16 code unit of an escape at the beginning of a text.
fn code_unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("_x")?.get(..4)?;
    let is_escape =
        text.as_bytes().get(ESCAPE_BYTES - 1) == Some(&b'_') && digits.bytes().all(|b| b.is_ascii_hexdigit());
    u16::from_str_radix(digits, 16).ok().filter(|_| is_escape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_replaced_once() {
        for (escaped, plain) in [
            ("a_x000D_b", "a\rb"),
            ("_x005F_x000D_", "_x000D_"),
            ("_xD83D__xDE00_!", "😀!"),
            ("_xD83D_", "_xD83D_"),
            ("_x00e9_", "é"),
            ("_x12_ _xyzzy_ _x", "_x12_ _xyzzy_ _x"),
            ("snake_x", "snake_x"),
            ("_x00é", "_x00é"),
        ] {
            assert_eq!(unescaped(escaped), plain, "{escaped}");
        }
    }
}
