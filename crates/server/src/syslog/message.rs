//! Messages of syslog as rows: those of RFC 5424, and those that RFC 3164 describes, with their usual variations.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

/// The names of facilities, as rsyslog and syslog-ng write them.
const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp", "ntp",
    "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
];
/// The names of severities.
const SEVERITIES: [&str; 8] = ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];
/// The mark before a JSON object in a message.
const JSON_MARK: &str = "@cee:";

/// A message as a row of JSON, with its line end; `None` if it is not one. `now` is when it was received.
pub(super) fn row_of(message: &[u8], now: Timestamp, zone: &TimeZone) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(message);
    let mut row = MessageRow(Map::new());
    let rest = row.priority(text.trim_end_matches(['\r', '\n', '\0']))?;
    let (time, content) = match rest.strip_prefix("1 ") {
        Some(rest) => row.modern(rest)?,
        None => row.traditional(rest, now, zone),
    };
    row.set("_time", &time.unwrap_or(now).to_string());
    let content = content.trim_start_matches('\u{feff}');
    row.set("message", content);
    row.merge_json(content);
    let mut line = serde_json::to_vec(&row.0).ok()?;
    line.push(b'\n');
    Some(line)
}

/// A row that is being made.
struct MessageRow(Map<String, Value>);

impl MessageRow {
    fn set(&mut self, name: &str, value: &str) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// The same, unless the message has `-` for no value.
    fn set_some(&mut self, name: &str, value: &str) {
        if !matches!(value, "-" | "") {
            self.set(name, value);
        }
    }

    /// `<PRI>`: sets the facility and the severity.
    fn priority<'m>(&mut self, text: &'m str) -> Option<&'m str> {
        let (number, rest) = text.strip_prefix('<')?.split_once('>')?;
        if number.is_empty() || number.len() > 3 || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let number: usize = number.parse().ok()?;
        self.set("facility", FACILITIES.get(number / 8)?);
        self.set("severity", SEVERITIES[number % 8]);
        Some(rest)
    }

    /// RFC 5424, after its version. Returns the time and the message.
    fn modern<'m>(&mut self, rest: &'m str) -> Option<(Option<Timestamp>, &'m str)> {
        let mut parts = rest.splitn(6, ' ');
        let time = match parts.next()? {
            "-" => None,
            time => Some(time.parse().ok()?),
        };
        for name in ["host", "app", "process", "msgid"] {
            self.set_some(name, parts.next()?);
        }
        let rest = parts.next()?;
        let (data, rest) = match rest.strip_prefix('-') {
            Some(rest) => (Map::new(), rest),
            None => structured(rest)?,
        };
        if !data.is_empty() {
            self.0.insert("data".to_owned(), data.into());
        }
        match rest.strip_prefix(' ') {
            Some(message) => Some((time, message)),
            None => rest.is_empty().then_some((time, "")),
        }
    }

    /// RFC 3164, whose parts may all be missing. Returns the time and the message.
    fn traditional<'m>(&mut self, rest: &'m str, now: Timestamp, zone: &TimeZone) -> (Option<Timestamp>, &'m str) {
        let Some((time, rest)) = iso_time(rest).or_else(|| short_time(rest, now, zone)) else { return (None, rest) };
        let Some((host, rest)) = rest.split_once(' ') else { return (Some(time), rest) };
        self.set_some("host", host);
        let is_tag = |c: char| !matches!(c, '[' | ':' | ' ');
        let end = rest.find(|c| !is_tag(c)).unwrap_or(0);
        let (app, after) = rest.split_at(end);
        let (process, after) = match after.strip_prefix('[').and_then(|after| after.split_once(']')) {
            Some((process, after)) => (process, after),
            None => ("", after),
        };
        let Some(message) = after.strip_prefix(':') else { return (Some(time), rest) };
        self.set_some("app", app);
        self.set_some("process", process);
        (Some(time), message.strip_prefix(' ').unwrap_or(message))
    }

    /// Adds the members of a JSON object after `@cee:`, except those with the name of another column.
    fn merge_json(&mut self, message: &str) {
        let Some(json) = message.trim_start().strip_prefix(JSON_MARK) else { return };
        let Ok(members) = serde_json::from_str::<Map<String, Value>>(json) else { return };
        const OWN: [&str; 9] = ["_time", "facility", "severity", "host", "app", "process", "msgid", "message", "data"];
        for (name, value) in members {
            // A member with a name such as `data.origin.ip` would read like structured data.
            if !OWN.contains(&name.as_str()) && !name.starts_with("data.") && !name.starts_with("data[") {
                self.0.insert(name, value);
            }
        }
    }
}

/// `[ID NAME="VALUE" …]…`: the values of each element. Of two elements or values with the same name, the first counts.
fn structured(mut rest: &str) -> Option<(Map<String, Value>, &str)> {
    let mut all = Map::new();
    while let Some(inner) = rest.strip_prefix('[') {
        let end = inner.find([' ', ']'])?;
        let (id, mut inner) = inner.split_at(end);
        let mut values = Map::new();
        rest = loop {
            if let Some(after) = inner.strip_prefix(']') {
                break after;
            }
            let (name, value) = inner.trim_start_matches(' ').split_once("=\"")?;
            if name.is_empty() || name.contains([' ', ']', '"']) {
                return None;
            }
            let (value, after) = quoted(value)?;
            values.entry(name).or_insert_with(|| value.into());
            inner = after;
        };
        if id.is_empty() {
            return None;
        }
        all.entry(id).or_insert_with(|| values.into());
    }
    (!all.is_empty()).then_some((all, rest))
}

/// A value up to its quotation mark, without escapes, and the rest.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((place, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[place + 1..])),
            '\\' => match characters.next()?.1 {
                escaped @ ('"' | '\\' | ']') => value.push(escaped),
                other => value.extend(['\\', other]),
            },
            other => value.push(other),
        }
    }
    None
}

/// A time with its date and zone, as `RSYSLOG_ForwardFormat` has it, and the rest.
fn iso_time(rest: &str) -> Option<(Timestamp, &str)> {
    let (time, rest) = rest.split_once(' ')?;
    Some((time.parse().ok()?, rest))
}

/// `Jan  2 03:04:05`, in the year that is nearest to `now`, and the rest.
fn short_time<'m>(rest: &'m str, now: Timestamp, zone: &TimeZone) -> Option<(Timestamp, &'m str)> {
    let (time, rest) = rest.split_at_checked(15)?;
    let this_year = now.to_zoned(zone.clone()).year();
    let in_year = |year: i16| {
        let time = DateTime::strptime("%Y %b %e %H:%M:%S", format!("{year} {time}")).ok()?;
        Some(zone.to_zoned(time).ok()?.timestamp())
    };
    let years = [this_year - 1, this_year, this_year + 1];
    let nearest = years.into_iter().filter_map(in_year).min_by_key(|time| time.duration_since(now).abs())?;
    Some((nearest, rest.strip_prefix(' ').unwrap_or(rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T00:10:00Z";

    fn row(message: &str, zone: &str) -> Option<Value> {
        let line = row_of(message.as_bytes(), NOW.parse().unwrap(), &TimeZone::get(zone).unwrap())?;
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1, "one line");
        Some(serde_json::from_slice(&line).unwrap())
    }

    #[test]
    fn messages_of_rfc_5424() {
        let text = "<165>1 2025-12-31T22:14:15.003+01:00 host.example app 42 ID47 [ex@32473 iut=\"3\" t=\"a \\\"]\\] \
                    b\"][two][ex@32473 iut=\"4\"] \u{feff}A message";
        let expected = serde_json::json!({
            "facility": "local4", "severity": "notice", "_time": "2025-12-31T21:14:15.003Z", "host": "host.example",
            "app": "app", "process": "42", "msgid": "ID47", "message": "A message",
            "data": {"ex@32473": {"iut": "3", "t": "a \"]] b"}, "two": {}},
        });
        // An escape is `\]`, and a bracket in quotation marks needs none.
        assert_eq!(row(text, "UTC"), Some(expected));
        let expected = serde_json::json!({"facility": "kern", "severity": "emerg", "_time": NOW, "message": ""});
        assert_eq!(row("<0>1 - - - - - -", "UTC"), Some(expected));
        let json = "<14>1 - h a - - - @cee: {\"user\": \"u1\", \"n\": {\"x\": 2}, \"host\": \"false\", \"_time\": 1}";
        let json = row(json, "UTC").unwrap();
        assert_eq!(
            (&json["user"], &json["n"]["x"], &json["host"], &json["_time"]),
            (&"u1".into(), &2.into(), &"h".into(), &NOW.into())
        );
        let json =
            row("<14>1 - h a - m1 - @cee: {\"data.a.b\": 1, \"data[0]\": 1, \"msgid\": 2, \"id\": 3}", "UTC").unwrap();
        assert_eq!((json.get("data.a.b"), json.get("data[0]")), (None, None));
        assert_eq!((&json["msgid"], &json["id"]), (&"m1".into(), &3.into()));
        for broken in ["@cee: {\"user\": ", "@cee: [1]", "cee: {\"user\": 1}"] {
            let row = row(&format!("<14>1 - h a - - - {broken}"), "UTC").unwrap();
            assert_eq!((row["message"].as_str(), row.get("user")), (Some(broken), None));
        }
    }

    #[test]
    fn messages_of_rfc_3164() {
        for (text, zone, time, host, app, process, message) in [
            (
                "<34>Oct 11 22:14:15 mymachine su: 'su root'",
                "UTC",
                "2025-10-11T22:14:15Z",
                "mymachine",
                "su",
                "",
                "'su root'",
            ),
            ("<34>Jan  1 00:09:00 h app[7]: x: y", "UTC", "2026-01-01T00:09:00Z", "h", "app", "7", "x: y"),
            ("<34>Jan  1 01:09:00 h app[7]:x", "Europe/Berlin", "2026-01-01T00:09:00Z", "h", "app", "7", "x"),
            ("<34>Dec 31 23:59:00 h no tag here", "UTC", "2025-12-31T23:59:00Z", "h", "", "", "no tag here"),
            ("<34>2026-01-01T01:00:00.5+01:00 h a-b.c[x]: m", "UTC", "2026-01-01T00:00:00.5Z", "h", "a-b.c", "x", "m"),
            ("<34>no time: at all", "UTC", NOW, "", "", "", "no time: at all"),
            ("<34>Feb 30 00:00:00 h a: m", "UTC", NOW, "", "", "", "Feb 30 00:00:00 h a: m"),
            ("<34>", "UTC", NOW, "", "", "", ""),
        ] {
            let row = row(text, zone).unwrap();
            let own = ["_time", "host", "app", "process", "message"].map(|name| row[name].as_str().unwrap_or(""));
            assert_eq!(own, [time, host, app, process, message], "{text}");
            assert_eq!((row["facility"].as_str(), row["severity"].as_str()), (Some("auth"), Some("crit")));
        }
    }

    #[test]
    fn anything_else_is_no_message() {
        for text in [
            "",
            "x",
            "<",
            "<>",
            "<192>x",
            "<1234>x",
            "<+1>x",
            "<1",
            "GET / HTTP/1.1",
            "<14>1 yesterday h a - - - m",
            "<14>1 - h a",
            "<14>1 - h a - - [x m",
            "<14>1 - h a - - [x y=\"z] m",
            "<14>1 - h a - - [] m",
            "<14>1 - h a - - [x y=z] m",
            "<14>1 - h a - - m",
            "<14>1 - h a - - -m",
        ] {
            assert_eq!(row(text, "UTC"), None, "{text}");
        }
        let bytes = row_of(b"<14>1 - h a - - - \xff\n\x01", NOW.parse().unwrap(), &TimeZone::UTC).unwrap();
        assert!(String::from_utf8(bytes).unwrap().contains("\u{fffd}\\n\\u0001"));
    }
}
