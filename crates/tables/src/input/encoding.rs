//! Character encodings of text inputs: declared, or shown by a byte order mark, and never guessed.

use std::fmt;
use std::io::{self, Read};
use std::ops::Range;

use encoding_rs::{Decoder, DecoderResult, Encoding, REPLACEMENT, UTF_8, UTF_16BE};
use evertally_declare::declaration::Parameter;
use evertally_declare::error::{InputError, PipelineError, Place, read_error};
use evertally_declare::problem::{Sentence, SentencePart, sentence};

use super::binary;

/// Bytes that are decoded at once.
const CHUNK: usize = 64 * 1024;

/// The byte order mark of UTF-32, which begins as that of UTF-16 does.
const UTF_32: &[u8] = &[0xff, 0xfe, 0, 0];

/// A declared encoding of text files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextEncoding {
    encoding: &'static Encoding,
    /// Whether the label leaves the byte order to the byte order mark.
    is_any_utf_16: bool,
}

impl TextEncoding {
    /// The encoding with this label in the [WHATWG standard](https://encoding.spec.whatwg.org/#names-and-labels):
    /// `latin1` means `windows-1252` there, and `utf-16` without a byte order mark means `utf-16le`. `None` if there is
    /// none. Python's `latin-1` is read as `latin1`.
    pub fn from_label(label: &str) -> Option<Self> {
        let known = if label.trim().eq_ignore_ascii_case("latin-1") { "latin1" } else { label };
        let encoding = Encoding::for_label(known.as_bytes()).filter(|encoding| *encoding != REPLACEMENT)?;
        Some(Self { encoding, is_any_utf_16: label.trim().eq_ignore_ascii_case("utf-16") })
    }
}

/// How a text is encoded.
pub(super) struct FoundEncoding {
    /// The encoding, unless it is UTF-8.
    pub(super) encoding: Option<&'static Encoding>,
    /// The length of the byte order mark.
    pub(super) mark: usize,
}

/// The encoding of a text with these first bytes.
pub(super) fn find(name: &str, head: &[u8], declared: Option<TextEncoding>) -> Result<FoundEncoding, InputError> {
    if head.starts_with(UTF_32) {
        let problem = "this is UTF-32 text; convert it to UTF-8 (iconv -f UTF-32 -t UTF-8)";
        return Err(InputError::in_file(name, problem));
    }
    let (encoding, mark) = match (declared, Encoding::for_bom(head)) {
        (None, None) => (UTF_8, 0),
        (None, Some(marked)) => marked,
        (Some(declared), None) => (declared.encoding, 0),
        (Some(declared), Some((marked, len))) => {
            let fits = declared.encoding == marked || (declared.is_any_utf_16 && marked == UTF_16BE);
            if !fits {
                let declared = (Parameter::Encoding, declared.encoding.name().to_ascii_lowercase());
                let problem = format!("it begins with the byte order mark of {}, but ", marked.name());
                let error = InputError::in_file(name, sentence![problem, declared, " was declared"]);
                return Err(error.remedy(sentence!["omit ", Parameter::Encoding]));
            }
            (marked, len)
        }
    };
    Ok(FoundEncoding { encoding: Some(encoding).filter(|encoding| *encoding != UTF_8), mark })
}

/// The error for a line or row that is not UTF-8 text.
pub(super) fn not_utf8(file: &str, line: u64, noun: &str, bytes: &[u8]) -> InputError {
    let at = Place::Line(line);
    if binary::has_control(bytes) {
        let problem = format!("this {noun} is binary data, not text; the file is damaged, or not a table of events");
        return InputError::in_file(file, problem).at(at);
    }
    let declare = sentence![
        "declare the encoding of the file, for example ",
        (Parameter::Encoding, "windows-1252"),
        " if it comes from Windows in Western Europe or America"
    ];
    let convert = Sentence::from("convert the file (iconv -f WINDOWS-1252 -t UTF-8)");
    let remedy = SentencePart::Where(Parameter::Encoding, declare, convert);
    InputError::in_file(file, format!("this {noun} is not UTF-8 text")).at(at).remedy(remedy)
}

/// An input in another encoding, as UTF-8.
pub(super) struct DecodedText<R> {
    inner: R,
    decoder: Decoder,
    /// Bytes that are not decoded yet.
    raw: Box<[u8]>,
    raw_range: Range<usize>,
    /// Text that is not read yet.
    text: Box<[u8]>,
    text_range: Range<usize>,
    /// The line ends in all text.
    lines: u64,
    /// Whether the input has ended.
    is_over: bool,
    stage: DecodingStage,
}

/// The continuation after the text in the buffer.
enum DecodingStage {
    More,
    End,
    Invalid,
}

impl<R: Read> DecodedText<R> {
    /// The rest of an input, after its byte order mark.
    pub(super) fn new(inner: R, encoding: &'static Encoding) -> Self {
        let buffer = || vec![0; CHUNK].into_boxed_slice();
        DecodedText {
            inner,
            decoder: encoding.new_decoder_without_bom_handling(),
            raw: buffer(),
            raw_range: 0..0,
            text: buffer(),
            text_range: 0..0,
            lines: 0,
            is_over: false,
            stage: DecodingStage::More,
        }
    }

    /// Fills the empty buffer of text.
    fn decode(&mut self) -> io::Result<()> {
        if self.raw_range.is_empty() && !self.is_over {
            let len = self.inner.read(&mut self.raw)?;
            (self.raw_range, self.is_over) = (0..len, len == 0);
        }
        let raw = &self.raw[self.raw_range.clone()];
        let (result, read, written) =
            self.decoder.decode_to_utf8_without_replacement(raw, &mut self.text, self.is_over);
        self.raw_range.start += read;
        self.text_range = 0..written;
        self.lines += memchr::memchr_iter(b'\n', &self.text[..written]).count() as u64;
        match result {
            DecoderResult::InputEmpty if self.is_over => self.stage = DecodingStage::End,
            DecoderResult::InputEmpty | DecoderResult::OutputFull => {}
            DecoderResult::Malformed(..) => self.stage = DecodingStage::Invalid,
        }
        Ok(())
    }

    /// The error of bytes that are not text in the encoding.
    fn invalid(&self) -> FaultyText {
        let problem = format!("this line is not {} text", self.decoder.encoding().name());
        let another = sentence!["repair the line, or declare another ", Parameter::Encoding];
        let remedy = SentencePart::Where(Parameter::Encoding, another, "convert the file to UTF-8".into());
        FaultyText { line: self.lines + 1, problem, remedy: Some(remedy) }
    }
}

impl<R: Read> Read for DecodedText<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.text_range.is_empty() {
            match self.stage {
                DecodingStage::More => self.decode()?,
                DecodingStage::End => return Ok(0),
                DecodingStage::Invalid => {
                    return Err(io::Error::other(self.invalid()));
                }
            }
        }
        let len = self.text_range.len().min(buf.len());
        let from = self.text_range.start;
        buf[..len].copy_from_slice(&self.text[from..from + len]);
        self.text_range.start += len;
        Ok(len)
    }
}

/// A text that is not as it was declared, from this line on.
#[derive(Debug)]
pub(super) struct FaultyText {
    pub(super) line: u64,
    pub(super) problem: String,
    pub(super) remedy: Option<SentencePart>,
}

impl fmt::Display for FaultyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

impl std::error::Error for FaultyText {}

/// An error of reading a text, which may have invalid bytes, or lack the array with its objects.
pub(super) fn text_error(name: &str, error: io::Error) -> PipelineError {
    let Some(FaultyText { line, problem, remedy }) = error.get_ref().and_then(|error| error.downcast_ref()) else {
        return read_error(name, error);
    };
    let error = InputError::in_file(name, problem.clone()).at(Place::Line(*line));
    match remedy {
        Some(remedy) => error.remedy(remedy.clone()).into(),
        None => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a text in a few bytes at a time.
    fn decoded(label: &str, bytes: &[u8]) -> Result<String, String> {
        let encoding = TextEncoding::from_label(label).unwrap().encoding;
        let mut text = Vec::new();
        let read = DecodedText::new(bytes, encoding).read_to_end(&mut text);
        let text = String::from_utf8(text).expect("UTF-8");
        read.map(|_| text).map_err(|error| text_error("f", error).to_string())
    }

    #[test]
    fn labels_are_those_of_the_standard() {
        let name = |label| TextEncoding::from_label(label).map(|found| found.encoding.name());
        assert_eq!(name("latin-1"), name("latin1"));
        assert_eq!(name("latin1"), Some("windows-1252"));
        assert_eq!(name(" UTF-16 "), Some("UTF-16LE"));
        assert_eq!(name("Shift_JIS"), Some("Shift_JIS"));
        assert_eq!((name("iso-2022-kr"), name("latin-one"), name("")), (None, None, None));
    }

    #[test]
    fn texts_are_decoded_and_invalid_bytes_name_their_line() {
        assert_eq!(decoded("latin1", b"Z\xfcrich\n\x80"), Ok("Zürich\n€".into()));
        assert_eq!(decoded("shift_jis", b"\x83e\x83X\x83g\n"), Ok("テスト\n".into()));
        let long = "é\n".repeat(100_000);
        assert_eq!(decoded("latin1", &b"\xe9\n".repeat(100_000)), Ok(long));
        let error = decoded("shift_jis", b"a\nb\n\x83\n").unwrap_err();
        assert!(error.contains("f, line 3: this line is not Shift_JIS text; repair the line, or"), "{error}");
        // Half a character at the end, and a lone surrogate.
        assert!(decoded("utf-16le", b"a\0\n\0b").unwrap_err().contains("line 2"));
        assert!(decoded("utf-16be", b"\0a\xd8\0\0b").unwrap_err().contains("line 1"));
    }

    #[test]
    fn a_byte_order_mark_must_not_contradict_the_declaration() {
        let find = |head: &[u8], label: Option<&str>| {
            let declared = label.map(|label| TextEncoding::from_label(label).unwrap());
            let found = find("f", head, declared).map_err(|error| error.to_string());
            found.map(|found| (found.encoding.map_or("UTF-8", Encoding::name), found.mark))
        };
        let (le, be, utf8): (&[u8], &[u8], &[u8]) = (b"\xff\xfea\0", b"\xfe\xff\0a", b"\xef\xbb\xbfa");
        assert_eq!(find(b"a", None), Ok(("UTF-8", 0)));
        assert_eq!((find(le, None), find(be, None)), (Ok(("UTF-16LE", 2)), Ok(("UTF-16BE", 2))));
        assert_eq!((find(le, Some("utf-16")), find(be, Some("utf-16"))), (find(le, None), find(be, None)));
        assert_eq!(find(b"a", Some("latin1")), Ok(("windows-1252", 0)));
        assert_eq!(find(utf8, Some("utf8")), Ok(("UTF-8", 3)));
        for (head, label) in [(be, "utf-16le"), (le, "utf-8"), (utf8, "latin1"), (le, "latin1")] {
            let error = find(head, Some(label)).unwrap_err();
            assert!(error.contains("byte order mark of UTF-") && error.contains("omit --encoding"), "{error}");
        }
        assert!(find(b"\xff\xfe\0\0a\0\0\0", None).unwrap_err().contains("UTF-32"));
    }
}
