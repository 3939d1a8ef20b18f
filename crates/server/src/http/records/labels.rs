//! The labels of a stream of Loki as text: `{app="shop", host="a"}`, with texts quoted as in Go.

use super::wire::MalformedMessage;
use std::collections::BTreeMap;

const INVALID: MalformedMessage = MalformedMessage("labels are not written as {name=\"value\", ...}");

/// The labels in a text.
pub(super) fn parse_labels(text: &str) -> Result<BTreeMap<String, String>, MalformedMessage> {
    let inner = text.trim().strip_prefix('{').and_then(|text| text.strip_suffix('}')).ok_or(INVALID)?;
    let (mut labels, mut rest) = (BTreeMap::new(), inner.trim_start());
    while !rest.is_empty() {
        let name;
        (name, rest) = match rest.strip_prefix(['"', '`']) {
            Some(_) => quoted(rest)?,
            None => {
                let (name, _) = rest.split_once('=').ok_or(INVALID)?;
                let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "_:.".contains(letter);
                let bare = name.trim_end();
                if bare.is_empty() || !bare.chars().all(is_letter) {
                    return Err(INVALID);
                }
                (bare.to_owned(), &rest[name.len()..])
            }
        };
        let value;
        (value, rest) = quoted(rest.trim_start().strip_prefix('=').ok_or(INVALID)?.trim_start())?;
        labels.insert(name, value);
        rest = rest.trim_start();
        rest = match rest.strip_prefix(',') {
            Some(more) => more.trim_start(),
            None if rest.is_empty() => rest,
            None => return Err(INVALID),
        };
    }
    Ok(labels)
}

/// A quoted text at the beginning, and the rest.
fn quoted(text: &str) -> Result<(String, &str), MalformedMessage> {
    if let Some(raw) = text.strip_prefix('`') {
        let (raw, rest) = raw.split_once('`').ok_or(INVALID)?;
        return Ok((raw.to_owned(), rest));
    }
    let bytes = text.strip_prefix('"').ok_or(INVALID)?.as_bytes();
    let (mut unquoted, mut place) = (Vec::new(), 0);
    loop {
        match *bytes.get(place).ok_or(INVALID)? {
            b'"' => break,
            b'\\' => place += 1 + escape(bytes.get(place + 1..).ok_or(INVALID)?, &mut unquoted)?,
            byte => {
                unquoted.push(byte);
                place += 1;
            }
        }
    }
    let unquoted = String::from_utf8(unquoted).map_err(|_| MalformedMessage("a label is not UTF-8"))?;
    Ok((unquoted, &text[place + 2..])) // both quotes are single bytes
}

/// Writes what an escape means, which begins after its backslash; returns its length.
fn escape(bytes: &[u8], unquoted: &mut Vec<u8>) -> Result<usize, MalformedMessage> {
    let digits = |count: usize, from: usize, base: u32| {
        let digits = bytes.get(from..from + count).filter(|digits| digits.iter().all(u8::is_ascii_alphanumeric));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok()).ok_or(INVALID)?;
        u32::from_str_radix(digits, base).map_err(|_| INVALID)
    };
    let first = *bytes.first().ok_or(INVALID)?;
    let (byte, length) = match first {
        b'a' => (0x07, 1),
        b'b' => (0x08, 1),
        b'f' => (0x0c, 1),
        b'n' => (b'\n', 1),
        b'r' => (b'\r', 1),
        b't' => (b'\t', 1),
        b'v' => (0x0b, 1),
        b'\\' | b'"' => (first, 1),
        b'x' => (u8::try_from(digits(2, 1, 16)?).map_err(|_| INVALID)?, 3),
        b'0'..=b'3' => (u8::try_from(digits(3, 0, 8)?).map_err(|_| INVALID)?, 3),
        b'u' | b'U' => {
            let count = if first == b'u' { 4 } else { 8 };
            let letter = char::from_u32(digits(count, 1, 16)?).ok_or(INVALID)?;
            unquoted.extend(letter.encode_utf8(&mut [0; 4]).as_bytes());
            return Ok(1 + count);
        }
        _ => return Err(INVALID),
    };
    unquoted.push(byte);
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_written_as_in_go() {
        for (text, labels) in [
            ("{}", &[][..]),
            (r#"{app="shop", host="a"}"#, &[("app", "shop"), ("host", "a")]),
            (r#" { app = "a}=\",{" ,"b.c"=`d\`, } "#, &[("app", "a}=\",{"), ("b.c", "d\\")]),
            (r#"{a="\a\b\f\n\r\t\v\\\x41\101\u00fc\U0001F600ü"}"#, &[("a", "\x07\x08\x0c\n\r\t\x0b\\AAü😀ü")]),
            (r#"{a="\xc3\xbc"}"#, &[("a", "ü")]),
            (r#"{a="1", a="2"}"#, &[("a", "2")]),
        ] {
            let expected = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            assert_eq!(parse_labels(text), Ok(expected), "{text}");
        }
        for wrong in [
            "",
            "{",
            "}",
            "app",
            "{app}",
            "{app=}",
            "{app=shop}",
            "{=\"a\"}",
            "{a=\"b}",
            "{a=\"b\\",
            "{a=\"b\\\"}",
            "{a=\"b\" c=\"d\"}",
            "{a=\"\\x4\"}",
            "{a=\"\\xff\"}",
            "{a=\"\\q\"}",
            "{a=\"\\ud800\"}",
            "{a=\"\\400\"}",
            "{a=`b}",
            "{ä=\"b\"}",
            "{a=\"\\u+041\"}",
        ] {
            assert!(parse_labels(wrong).is_err(), "{wrong}");
        }
    }
}
