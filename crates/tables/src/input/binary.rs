//! Recognises files that are not text, by their first bytes, so that a message can name their kind.

use evertally_declare::declaration::Parameter;
use evertally_declare::problem::{Sentence, SentencePart, sentence};

/// Signatures of common files, what the files are, and the remedy.
const KINDS: &[(&[u8], &str)] = &[
    (b"%PDF-", "this is a PDF document; export its table as CSV"),
    (b"\x89PNG\r\n\x1a\n", "this is a picture (PNG), not a table of events; give the file with the events"),
    (b"\xff\xd8\xff", "this is a picture (JPEG), not a table of events; give the file with the events"),
    (b"GIF87a", "this is a picture (GIF), not a table of events; give the file with the events"),
    (b"GIF89a", "this is a picture (GIF), not a table of events; give the file with the events"),
    (b"SQLite format 3\0", "this is an SQLite database; export the table as CSV (sqlite3 -header -csv)"),
    (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        "this is an old document of Microsoft Office (.xls), or a workbook with a password; save it as .xlsx without a \
         password, or as CSV",
    ),
    (b"7z\xbc\xaf\x27\x1c", "this is a 7z archive; unpack it first"),
    (b"Rar!\x1a\x07", "this is a RAR archive; unpack it first"),
    (b"Obj\x01", "this is an Avro file; convert it to Parquet, CSV or JSON lines"),
    (b"\x89HDF\r\n\x1a\n", "this is an HDF5 file; convert it to Parquet, CSV or JSON lines"),
];

/// The kind of a file that is certainly not a text, with the remedy.
pub(super) fn kind(head: &[u8]) -> Option<&'static str> {
    KINDS.iter().find(|(signature, _)| head.starts_with(signature)).map(|(_, problem)| *problem)
}

/// Why a file of no known encoding is not text, if it is not: text has no control characters other than white space,
/// or only a few.
pub(super) fn problem(head: &[u8]) -> Option<Sentence> {
    if let Some(label) = utf16_without_mark(head) {
        let declare = sentence!["; declare ", (Parameter::Encoding, label)];
        let convert = Sentence::from("; convert it to UTF-8");
        let remedy = SentencePart::Where(Parameter::Encoding, declare, convert);
        return Some(sentence!["this looks like UTF-16 text without a byte order mark", remedy]);
    }
    let controls = head.iter().filter(|byte| is_control(**byte)).count();
    // A character may be cut off at the end.
    let is_utf8 = std::str::from_utf8(head).map_or_else(|error| error.error_len().is_none(), |_| true);
    let is_binary = controls > 0 && (!is_utf8 || controls > head.len() / 10);
    is_binary.then(|| "this is binary data in no format that is read; give a table of events as text or Parquet".into())
}

/// Whether some bytes have a control character that text does not have.
pub(super) fn has_control(bytes: &[u8]) -> bool {
    bytes.iter().copied().any(is_control)
}

fn is_control(byte: u8) -> bool {
    const ESCAPE: u8 = 0x1b;
    byte.is_ascii_control() && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0b | 0x0c | ESCAPE)
}

/// The label of UTF-16 if every other byte is zero in most pairs, as in Western texts.
fn utf16_without_mark(head: &[u8]) -> Option<&'static str> {
    let pairs = head.chunks_exact(2).len();
    let zeros = |place: usize| head.chunks_exact(2).filter(|pair| pair[place] == 0).count();
    let (first, second) = (zeros(0), zeros(1));
    let is_most = |count: usize, other: usize| count > pairs / 2 && other <= pairs / 10;
    match pairs {
        0 => None,
        _ if is_most(second, first) => Some("utf-16le"),
        _ if is_most(first, second) => Some("utf-16be"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_not_binary() {
        let latin1 = b"time,city\n2024-01-01,Z\xfcrich\n";
        let cut = &"time,city\n2024-01-01,Zü".as_bytes()[..23];
        let coloured = b"time\n\x1b[31m2024\x1b[0m\n";
        let one_zero = b"time,name\n2024-01-01,a\0b\n";
        for text in [&b""[..], b"time\r\n", latin1, cut, coloured, one_zero] {
            assert!(kind(text).is_none() && problem(text).is_none(), "{text:?}");
        }
    }

    #[test]
    fn other_bytes_are_called_what_they_are() {
        let says = |bytes: &[u8]| problem(bytes).map(|problem| problem.to_string()).unwrap_or_default();
        assert!(says(b"\x01\x02\x03\xff\xfe\x80abc").contains("binary data"));
        assert!(says(b"\0\0\0\0time\0\0\0\0").contains("binary data"));
        assert!(says(b"t\0i\0m\0e\0\n\0").contains("declare --encoding utf-16le"));
        assert!(says(b"\0t\0i\0m\0e\0\n").contains("declare --encoding utf-16be"));
        assert!(kind(b"%PDF-1.7\n").unwrap().contains("PDF"));
        assert!(kind(b"SQLite format 3\0\x10\0").unwrap().contains("SQLite"));
    }
}
