//! Cuts JSON text into objects: one per line, over several lines each, or the elements of an array.

use std::io::Read;

use super::super::blocks::{BlockReader, RecordBlock, count_lines, whole_lines};
use super::super::encoding::text_error;
use super::super::options::ReadOptions;
use evertally_declare::error::{InputError, Place, Result, Unreadable};

/// How objects follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::input) enum ObjectLayout {
    /// One object per line.
    Lines,
    /// Objects over several lines, or the elements of an array.
    Elements,
}

impl ObjectLayout {
    /// The layout of a text that begins like this; `None` if more of it is needed.
    fn of(text: &[u8]) -> Option<Self> {
        let text = text.trim_ascii_start();
        match text.first()? {
            b'[' => Some(ObjectLayout::Elements),
            b'{' => {
                let line = &text[..memchr::memchr(b'\n', text)?];
                let mut nesting = Nesting::default();
                let goes_on = nesting.end(line).is_none() && !nesting.is_in_text;
                Some(if goes_on { ObjectLayout::Elements } else { ObjectLayout::Lines })
            }
            _ => Some(ObjectLayout::Lines),
        }
    }
}

/// Whether a text begins as an array of objects does: with `[`, and then `{` or `]`.
pub(in crate::input) fn begins_array(text: &[u8]) -> bool {
    let inside = text.trim_ascii_start().strip_prefix(b"[").map(<[u8]>::trim_ascii_start);
    inside.is_some_and(|inside| matches!(inside.first(), Some(b'{' | b']')))
}

/// The position inside of a value, which may be any number of objects and arrays deep.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Nesting {
    depth: u64,
    is_in_text: bool,
    is_escaped: bool,
}

impl Nesting {
    /// The number of bytes up to the end of the value; `None` if it continues after these bytes. The parser checks what
    /// is inside.
    pub(super) fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        for (at, byte) in bytes.iter().enumerate() {
            if self.is_escaped {
                self.is_escaped = false;
            } else if self.is_in_text {
                match byte {
                    b'"' => self.is_in_text = false,
                    b'\\' => self.is_escaped = true,
                    _ => {}
                }
            } else {
                match byte {
                    b'"' => self.is_in_text = true,
                    b'{' | b'[' => self.depth += 1,
                    b'}' | b']' => {
                        self.depth = self.depth.saturating_sub(1);
                        if self.depth == 0 {
                            return Some(at + 1);
                        }
                    }
                    _ => {}
                }
            }
        }
        None
    }
}

/// What may come next between objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum NextToken {
    /// The first object, or `[`.
    #[default]
    Start,
    /// Another object; there is no array.
    Object,
    /// The first element of the array, or `]`.
    FirstElement,
    /// An element, after a comma.
    Element,
    /// A comma or `]`.
    Comma,
    /// Nothing.
    End,
}

/// Finds the objects in a text, in order.
#[derive(Default)]
struct Scanner {
    next: NextToken,
    /// Inside of an object.
    object: Option<Nesting>,
    /// Bytes of the object that were scanned before.
    scanned: usize,
    /// The offset of a byte that cannot be there, and why.
    fault: Option<(usize, &'static str)>,
}

impl Scanner {
    /// The number of bytes at the front that have no incomplete object. The next bytes are those that follow them. All
    /// bytes if there is a fault.
    fn whole(&mut self, text: &[u8]) -> usize {
        let (mut at, mut whole) = (std::mem::take(&mut self.scanned), 0);
        while at < text.len() {
            if let Some(nesting) = &mut self.object {
                let Some(length) = nesting.end(&text[at..]) else {
                    self.scanned = text.len() - whole;
                    return whole;
                };
                at += length;
                self.object = None;
            } else {
                match self.between(text[at]) {
                    Ok(true) => {
                        (self.object, whole) = (Some(Nesting::default()), at);
                        continue;
                    }
                    Ok(false) => at += 1,
                    Err(problem) => {
                        self.fault = Some((at, problem));
                        return text.len();
                    }
                }
            }
            whole = at;
        }
        whole
    }

    /// A byte between objects: whether it begins an object, or why it cannot be there.
    fn between(&mut self, byte: u8) -> Result<bool, &'static str> {
        use NextToken::*;
        self.next = match (self.next, byte) {
            (_, b' ' | b'\t' | b'\r' | b'\n') => return Ok(false),
            (Start | Object, b'{') => Object,
            (FirstElement | Element, b'{') => Comma,
            (Start, b'[') => FirstElement,
            (FirstElement | Comma, b']') => End,
            (Comma, b',') => Element,
            (End, _) => return Err("there is text after the end of the JSON array; remove it"),
            (Comma, b'{') => return Err("a comma is missing before this object of the JSON array"),
            (Comma, _) => return Err("after an object of the JSON array, there is neither a comma nor `]`"),
            (Object, _) => return Err("after a JSON object, there is text that is not an object; remove it"),
            (Element, b']') => return Err("the JSON array ends after a comma; remove the comma"),
            _ => return Err("this element of the JSON array is not an object; write each event as an object"),
        };
        Ok(byte == b'{')
    }

    /// Why the text cannot end here.
    fn unfinished(&self) -> Option<&'static str> {
        let is_in_array = matches!(self.next, NextToken::FirstElement | NextToken::Element | NextToken::Comma);
        is_in_array.then_some("the JSON array is not closed with `]`; the file may be cut short")
    }
}

/// The blocks of a JSON text, each with whole objects.
pub(in crate::input) struct JsonBlocks<R> {
    blocks: BlockReader<R>,
    /// Not yet known before the first lines are read.
    layout: Option<ObjectLayout>,
    scanner: Scanner,
    /// Why the text after the last block cannot be read.
    fault: Option<InputError>,
}

impl<R: Read> JsonBlocks<R> {
    /// A text with these options.
    pub(in crate::input) fn new(inner: R, options: &ReadOptions) -> Self {
        let blocks = BlockReader::new(inner, options);
        JsonBlocks { blocks, layout: None, scanner: Scanner::default(), fault: None }
    }

    /// Fills a block, and returns how the objects in it follow each other; `None` at the end of the text.
    pub(in crate::input) fn next(&mut self, name: &str, block: &mut RecordBlock) -> Result<Option<ObjectLayout>> {
        if let Some(fault) = self.fault.take() {
            return Err(fault.into());
        }
        let JsonBlocks { blocks, layout, scanner, .. } = self;
        let whole = |text: &[u8]| {
            *layout = layout.or_else(|| ObjectLayout::of(text));
            match layout {
                None => 0,
                Some(ObjectLayout::Lines) => whole_lines(text),
                Some(ObjectLayout::Elements) => scanner.whole(text),
            }
        };
        let has_more = blocks.next(block, whole).map_err(|e| text_error(name, e))?;
        // The only line of a text may have no end.
        let layout = layout.unwrap_or(ObjectLayout::Lines);
        if let Some((offset, problem)) = scanner.fault.take() {
            let line = block.first_line + count_lines(&block.bytes()[..offset]);
            self.fault = Some(InputError::in_file(name, problem.to_owned()).at(Place::Line(line)));
            block.truncate(offset);
            return Ok(Some(layout));
        }
        if !has_more && let Some(problem) = scanner.unfinished() {
            return Err(InputError::in_file(name, problem.to_owned()).as_unreadable(Unreadable::Damaged).into());
        }
        Ok(has_more.then_some(layout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_told_by_the_first_line() {
        for (text, layout) in [
            ("{\"a\":1}\n{", Some(ObjectLayout::Lines)),
            (" \n{\"a\":\"{\"}\n", Some(ObjectLayout::Lines)),
            ("{\"a\":1}", None),
            ("  ", None),
            ("{\n", Some(ObjectLayout::Elements)),
            ("{ \"a\": [\n", Some(ObjectLayout::Elements)),
            ("{\"a\":\"cut\n", Some(ObjectLayout::Lines)),
            ("\n [", Some(ObjectLayout::Elements)),
            ("3\n", Some(ObjectLayout::Lines)),
        ] {
            assert_eq!(ObjectLayout::of(text.as_bytes()), layout, "{text}");
        }
        assert!([" [ {", "[]", "[\n\n{\"a\":1}]"].iter().all(|text| begins_array(text.as_bytes())));
        assert!(!["[", "{", "[1]", "[Sun Dec 04]", "[\"a\"]"].iter().any(|text| begins_array(text.as_bytes())));
    }

    #[test]
    fn objects_are_cut_at_any_byte() {
        let text = br#" [ {"a":"}]\"{"} ,{"b":[{}]}, {}
            ] "#;
        let ends = |step: usize| {
            let (mut scanner, mut start, mut cuts) = (Scanner::default(), 0, Vec::new());
            for end in (step..text.len()).step_by(step).chain([text.len()]) {
                let whole = scanner.whole(&text[start..end]);
                start += whole;
                cuts.extend((whole > 0).then_some(start));
            }
            assert_eq!((scanner.fault, scanner.unfinished(), start), (None, None, text.len()));
            cuts
        };
        assert_eq!(ends(text.len()), [text.len()]);
        let inside = |cut: &usize| (4..16).contains(cut) || (19..28).contains(cut);
        for step in 1..10 {
            assert!(!ends(step).iter().any(inside), "{:?}", ends(step));
        }
    }
}
