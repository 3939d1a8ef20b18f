//! Access logs of web servers, in the common and the combined format of Apache and nginx.
//!
//! ```text
//! host ident user [time] "request" status bytes "referer" "agent"
//! ```
//!
//! Texts stay as the server wrote them, escapes included. The reader is strict: a line of another form is an error.

use super::blocks::RecordBlock;
use super::header;
use super::limits::{MAX_CELL_BYTES, refuse_long_cells};
use super::lines::TextLines;
use super::pass::{Pass, text_field};
use evertally_declare::declaration::Parameter;
use evertally_declare::error::{InputError, Place, Result};
use evertally_declare::event::{Cells, Field, WholeRow};
use evertally_declare::format::Format;
use evertally_declare::problem::{Sentence, SentencePart, sentence};
use evertally_declare::words::quoted;

/// The columns of the combined format; the common format lacks the last two.
const COLUMNS: [&str; 11] =
    ["host", "ident", "user", "time", "method", "path", "protocol", "status", "bytes", "referer", "agent"];

/// The number of columns of the common format.
const COMMON: usize = 9;

/// A log, and its wanted columns.
pub(super) struct LogFile {
    name: String,
    format: Format,
    /// The positions of the wanted columns.
    slots: Vec<usize>,
}

impl LogFile {
    /// A log of this format.
    pub(super) fn new(name: &str, format: Format, wanted: &[String]) -> Result<Self, InputError> {
        let slots = header::locate(name, wanted, columns_of(format))?;
        Ok(LogFile { name: name.to_owned(), format, slots })
    }

    /// The name of the file in messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Passes on the lines of a block.
    pub(super) fn visit(&self, block: &RecordBlock, pass: &mut Pass<'_>) -> Result<()> {
        for line in TextLines::new(&self.name, block, "request") {
            let (number, line) = line?;
            let place = Place::Line(number);
            let Some(cells) = parse(line, self.format) else {
                pass.refuse(self.misfit(line).at(place), || line.to_owned())?;
                continue;
            };
            let row = LogRow { line, file: self, cells: &cells, missing: pass.missing };
            if line.len() > MAX_CELL_BYTES {
                refuse_long_cells(&self.name, place, pass.layout, &row)?;
            }
            pass.emit(&self.name, place, &row)?;
        }
        Ok(())
    }

    /// The error for a line of another form.
    fn misfit(&self, line: &str) -> InputError {
        let problem = format!("{} is not a line of a {}", quoted(line.trim()), self.format);
        let remedy = match format_of(line) {
            Some(other) => declare(other),
            None => "each line is host ident user [time] \"request\" status bytes, and in the combined format \
                     \"referer\" \"agent\"; convert other logs to CSV or JSON lines"
                .into(),
        };
        InputError::in_file(&*self.name, problem).remedy(remedy)
    }
}

/// The columns of a format.
pub(super) fn columns_of(format: Format) -> &'static [&'static str] {
    if format == Format::CombinedLog { &COLUMNS } else { &COLUMNS[..COMMON] }
}

/// The format of a log with this line, if it is one.
pub(super) fn format_of(line: &str) -> Option<Format> {
    [Format::CombinedLog, Format::CommonLog].into_iter().find(|format| parse(line, *format).is_some())
}

/// The advice to declare a format of logs.
pub(super) fn declare(format: Format) -> Sentence {
    let declare = sentence!["declare ", (Parameter::InputFormat, format.word())];
    let send = format!("send it as {}", format.media_type());
    SentencePart::Where(Parameter::InputFormat, declare, send.into()).into()
}

/// One line.
struct LogRow<'r> {
    file: &'r LogFile,
    line: &'r str,
    cells: &'r [&'r str; COLUMNS.len()],
    missing: &'r [String],
}

impl Cells for LogRow<'_> {
    fn cell(&self, slot: usize) -> Field<'_> {
        match self.cells[self.file.slots[slot]] {
            "-" => Field::Missing,
            text => text_field(text, self.missing),
        }
    }

    fn whole(&self) -> WholeRow {
        let names = columns_of(self.file.format).iter().map(|name| (*name).to_owned());
        let cells = names.zip(self.cells.iter().map(|cell| (*cell).to_owned())).collect();
        WholeRow { cells, text: self.line.to_owned() }
    }
}

/// The cells of a line, by column; `None` if it has another form.
fn parse(line: &str, format: Format) -> Option<[&str; COLUMNS.len()]> {
    let (host, rest) = line.split_once(' ')?;
    let (ident, rest) = rest.split_once(' ')?;
    let (user, rest) = rest.split_once(" [")?;
    // Names of users may have blanks. But in a log that begins with another column, such as the virtual host, the two
    // columns before the time would be taken for one.
    if host.is_empty() || user.is_empty() || (user.contains(' ') && ident != "-") {
        return None;
    }
    let (time, rest) = rest.split_once("] ")?;
    let (request, rest) = quoted_text(rest)?;
    let (status, rest) = rest.strip_prefix(' ')?.split_once(' ')?;
    let end = rest.find(' ').unwrap_or(rest.len());
    let (bytes, rest) = rest.split_at(end);
    let is_number = |text: &str| text == "-" || (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()));
    if !is_number(status) || !is_number(bytes) {
        return None;
    }
    let (referer, agent, rest) = match format {
        Format::CombinedLog => {
            let (referer, rest) = quoted_text(rest.strip_prefix(' ')?)?;
            let (agent, rest) = quoted_text(rest.strip_prefix(' ')?)?;
            (referer, agent, rest)
        }
        _ => ("", "", rest),
    };
    let (method, path, protocol) = request_parts(request);
    rest.is_empty().then_some([host, ident, user, time, method, path, protocol, status, bytes, referer, agent])
}

/// Method, path and protocol. If a request is not three words, all of it is the path.
fn request_parts(request: &str) -> (&str, &str, &str) {
    let mut words = request.split(' ');
    match (words.next(), words.next(), words.next(), words.next()) {
        (Some(method), Some(path), Some(protocol), None) if ![method, path, protocol].contains(&"") => {
            (method, path, protocol)
        }
        _ => ("", request, ""),
    }
}

/// The text between quotes at the front, and the rest after them. A backslash escapes the next character.
fn quoted_text(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix('"')?;
    let bytes = inner.as_bytes();
    let mut at = 0;
    loop {
        at += memchr::memchr2(b'"', b'\\', &bytes[at..])?;
        if bytes[at] == b'"' {
            return Some((&inner[..at], &inner[at + 1..]));
        }
        at += 2;
        if at > bytes.len() {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"192.0.2.9 - ann [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 2326"#;

    #[test]
    fn cells_of_a_line() {
        let cells = parse(LINE, Format::CommonLog).unwrap();
        let time = "17/May/2015:10:05:03 +0000";
        assert_eq!(cells, ["192.0.2.9", "-", "ann", time, "GET", "/a", "HTTP/1.1", "200", "2326", "", ""]);
        let combined = format!(r#"{LINE} "-" "a \"b\" \\""#);
        let cells = parse(&combined, Format::CombinedLog).unwrap();
        assert_eq!(cells[9..], ["-", r#"a \"b\" \\"#]);
        let spaced = LINE.replace("ann", "ann lee");
        assert_eq!(parse(&spaced, Format::CommonLog).unwrap()[2], "ann lee");
    }

    #[test]
    fn malformed_requests_are_paths() {
        for (request, parts) in [
            (r#"GET /"x\" y" HTTP/1.1"#, None),
            (r#"GET /\"x\" HTTP/1.1"#, Some(["GET", r#"/\"x\""#, "HTTP/1.1"])),
            ("GET /a b HTTP/1.1", Some(["", "GET /a b HTTP/1.1", ""])),
            ("GET /", Some(["", "GET /", ""])),
            (r"\x16\x03\x01", Some(["", r"\x16\x03\x01", ""])),
            ("GET  HTTP/1.1", Some(["", "GET  HTTP/1.1", ""])),
            ("-", Some(["", "-", ""])),
            ("", Some(["", "", ""])),
        ] {
            let line = LINE.replace("GET /a HTTP/1.1", request);
            let found = parse(&line, Format::CommonLog).map(|cells| [cells[4], cells[5], cells[6]]);
            assert_eq!(found, parts, "{request}");
        }
    }

    #[test]
    fn other_lines_are_refused() {
        let combined = format!(r#"{LINE} "-" "x""#);
        assert_eq!((format_of(LINE), format_of(&combined)), (Some(Format::CommonLog), Some(Format::CombinedLog)));
        for line in [
            "",
            "time,hall",
            "[Sun Dec 04 04:47:44 2005] [notice] workerEnv.init() ok",
            &format!("{LINE} extra"),
            &format!("{LINE} \"-\""),
            &format!("{combined} \"more\""),
            &format!(r#"{LINE} "-" "open"#),
            &format!(r#"{LINE} "-" "open\"#),
            &LINE.replace("200", "OK"),
            &LINE.replace("2326", ""),
            &LINE.replace(" [", " "),
            // The virtual host first.
            &LINE.replace("192.0.2.9 - ann", "example.org:443 192.0.2.9 - ann"),
            &LINE.replace("192.0.2.9 - ann", "example.org:443 192.0.2.9 - -"),
        ] {
            assert_eq!(format_of(line), None, "{line}");
        }
    }
}
