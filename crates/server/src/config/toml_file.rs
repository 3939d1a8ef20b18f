//! Reads a configuration file. Errors are for the person who wrote it: the line, the setting, and the expected value.

use evertally_declare::declaration::near;
use evertally_declare::error::{Result, usage};
use serde::de::{DeserializeOwned, Deserializer, Visitor};
use std::fmt;
use std::path::Path;

/// Tables of which a file may have several.
const SEVERAL: [&str; 7] = ["stream", "client", "webhook", "feed", "syslog", "identity", "sink"];
/// Tables that a file has once.
const ONCE: [&str; 10] =
    ["public", "private", "witness", "steps", "limits", "backup-schedule", "standby", "retention", "clock", "sources"];
/// Settings of the whole file, which precede all tables.
const OF_FILE: [&str; 4] = ["folder", "key", "passphrase", "backups"];

/// Examples of settings, by their names; those of a table come before those of any.
const EXAMPLES: [(&str, &str); 20] = [
    ("folder", "folder = \"/var/lib/evertally\""),
    ("key", "key = \"/etc/evertally/serve.key\""),
    ("passphrase", "passphrase = \"/run/credentials/passphrase\""),
    ("backups", "backups = \"/mnt/other-disk/evertally\""),
    ("public", "[public], and listen = \"127.0.0.1:8800\" on the next line"),
    ("private", "[private], and listen = \"127.0.0.1:8801\" on the next line"),
    ("witness", "[witness], and file = \"/mnt/other-disk/witness.json\" on the next line"),
    ("standby", "[standby], and folder = \"/mnt/shared/evertally\" on the next line"),
    ("sources", "[sources], and shop = \"shop.budget\" on the next line"),
    ("listen", "listen = \"127.0.0.1:8800\""),
    ("trusted-proxies", "trusted-proxies = [\"10.0.0.7\"]"),
    ("socket-mode", "socket-mode = \"0660\""),
    ("syslog.from", "from = [\"10.0.0.0/8\"]"),
    ("identity.roles", "roles = [{ claim = \"groups\", value = \"admins\", role = \"operate\" }]"),
    ("client.roles", "roles = [\"write:visits\"]"),
    ("clients", "clients = [\"shop.example\"]"),
    ("streams", "streams = [\"visits\"]"),
    ("command", "command = [\"timedatectl\", \"show\"]"),
    ("body-bytes", "body-bytes = 33554432"),
    ("stream", "stream = \"visits\""),
];

/// Reads a file, and returns its text, too.
///
/// # Errors
/// If it cannot be read or is invalid; the message names the line and the setting.
pub(super) fn read_toml<T: DeserializeOwned>(path: &Path) -> Result<(T, String)> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| usage(format!("cannot read {shown}: {error}")))?;
    match toml::from_str(&text) {
        Ok(read) => Ok((read, text)),
        Err(error) => {
            let line = line_at(&text, error.span().map_or(0, |span| span.start));
            Err(usage(format!("{shown}:{line}: {}", TomlFault::new(&text, line, error.message()).explained())))
        }
    }
}

/// The number of the line with a byte.
pub(super) fn line_at(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}

/// Reads a text; `expected` is its form with an example, for a value of another type.
pub(super) fn text_of<'de, D: Deserializer<'de>>(from: D, expected: &'static str) -> Result<String, D::Error> {
    struct Text(&'static str);
    impl Visitor<'_> for Text {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }

        fn visit_str<E>(self, text: &str) -> Result<String, E> {
            Ok(text.to_owned())
        }
    }
    from.deserialize_str(Text(expected))
}

/// An error of the reader at a line.
struct TomlFault<'t> {
    message: &'t str,
    /// The name of the table that the line begins or is in; empty at the top of the file.
    table: &'t str,
    /// Whether that is a table of which there may be several, as it is written.
    is_several: bool,
    /// The setting, unless the line begins a table.
    key: Option<&'t str>,
}

impl<'t> TomlFault<'t> {
    fn new(text: &'t str, line: usize, message: &'t str) -> Self {
        let lines: Vec<&str> = text.lines().take(line).collect();
        let header = lines.iter().rposition(|line| header_of(line).is_some());
        let (table, is_several) = header.and_then(|at| header_of(lines[at])).unwrap_or(("", false));
        // A value may be on lines after its key.
        let own = &lines[header.map_or(0, |at| at + 1)..];
        let key = own.iter().rev().find_map(|line| key_of(line));
        Self { message, table, is_several, key }
    }

    fn explained(&self) -> String {
        self.of_header()
            .or_else(|| self.of_name())
            .or_else(|| self.of_syntax())
            .or_else(|| self.of_type())
            .unwrap_or_else(|| match self.key {
                Some(key) => format!("`{key}`{}: {}", self.place(), self.message),
                None => format!("{}: {}", self.shown_table(), self.message),
            })
    }

    /// The table, as it is written; empty for the top of the file.
    fn shown_table(&self) -> String {
        match (self.table, self.is_several) {
            ("", _) => "the configuration".to_owned(),
            (table, true) => format!("[[{table}]]"),
            (table, false) => format!("[{table}]"),
        }
    }

    fn place(&self) -> String {
        if self.table.is_empty() { String::new() } else { format!(" of {}", self.shown_table()) }
    }

    /// A table with the wrong number of brackets, or a setting that is written as a table.
    fn of_header(&self) -> Option<String> {
        if self.key.is_some() {
            return None;
        }
        let table = self.table;
        if !self.is_several && SEVERAL.contains(&table) {
            return Some(format!("a file may have several of these tables: write [[{table}]], with two brackets"));
        }
        if self.is_several && ONCE.contains(&table) {
            return Some(format!("a file has this table once: write [{table}], with one bracket"));
        }
        if OF_FILE.contains(&table) {
            let example = example("", table).unwrap_or_default();
            return Some(format!("`{table}` is a setting, not a table: write {example} above the first table"));
        }
        (self.message == "duplicate key").then(|| format!("there are two [{table}]: write all of its settings in one"))
    }

    /// A name that is missing, unknown, or not one of several words.
    fn of_name(&self) -> Option<String> {
        let (message, place) = (self.message, self.shown_table());
        if let Some(name) = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
            // The position of such an error is that of the table.
            let table = if self.key.is_some() && self.table.is_empty() { "" } else { self.table };
            let add = example(table, name).map_or(String::new(), |example| format!("; add {example}"));
            return Some(format!("{place} lacks `{name}`{add}"));
        }
        if let Some(rest) = message.strip_prefix("unknown field `") {
            let (name, known) = rest.split_once('`')?;
            if OF_FILE.contains(&name) && !self.table.is_empty() {
                return Some(format!(
                    "{place} has no `{name}`, which is a setting of the file: move it above all tables"
                ));
            }
            return Some(format!("{place} has no `{name}`{}", choice(name, known)));
        }
        let (name, known) = message.strip_prefix("unknown variant `")?.split_once('`')?;
        Some(format!(
            "`{}`{}: `{name}` is not a choice{}",
            self.key.unwrap_or_default(),
            self.place(),
            choice(name, known)
        ))
    }

    /// Something that is not TOML.
    fn of_syntax(&self) -> Option<String> {
        let key = self.key.unwrap_or("KEY");
        let message = match self.message {
            "duplicate key" => return Some(format!("`{key}`{} is set twice: remove one of them", self.place())),
            message if message.starts_with("string values must be quoted") => {
                "a text needs quotes, as in key = \"serve.key\""
            }
            message if message.starts_with("invalid basic string") => "a text has no closing quote",
            message if message.starts_with("key with no value") => "a setting is written KEY = VALUE, with `=`",
            message if message.starts_with("invalid boolean") => "write true or false, in small letters",
            _ => return None,
        };
        Some(message.to_owned())
    }

    /// A value of another type. Values are not repeated unless they are numbers: a text may be a secret.
    fn of_type(&self) -> Option<String> {
        let (found, expected) = type_fault(self.message)?;
        let key = self.key.unwrap_or(self.table);
        let table = if self.key.is_some() { self.table } else { "" };
        // A setting may have the name of a table.
        let has_example = table.is_empty() || expected == "a table" || !ONCE.contains(&key);
        let example = example(table, key).filter(|_| has_example);
        let such_as = example.map_or(String::new(), |example| format!(", such as {example}"));
        let place = if self.key.is_some() { self.place() } else { String::new() };
        Some(format!("`{key}`{place}: expected {expected}{such_as}; found {found}"))
    }
}

/// The found and the expected value of an error of types, in words.
fn type_fault(message: &str) -> Option<(&str, &str)> {
    let rest = ["invalid type: ", "invalid value: "].iter().find_map(|start| message.strip_prefix(start))?;
    // A text that was found may hold these words.
    let (found, expected) = rest.rsplit_once(", expected ")?;
    let (kind, value) = found.split_once(' ').unwrap_or((found, ""));
    let found = match kind {
        "integer" | "floating" | "boolean" => value.trim_start_matches("point ").trim_matches('`'),
        "string" => "a text",
        "map" => "a table",
        "sequence" => "a list",
        _ => "a value of another kind",
    };
    let expected = match expected {
        "a string" => "a text in quotes",
        "path string" => "a path in quotes",
        "a sequence" => "a list in brackets",
        "a map" => "a table",
        "a boolean" => "true or false, without quotes",
        "f64" | "f32" => "a number, without quotes",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0, without quotes",
        number if number.starts_with("a nonzero") => "a whole number from 1, without quotes",
        other if other.starts_with("struct ") => "a table",
        other => other,
    };
    Some((found, expected))
}

/// A problem of a declaration with an error of types in it, in the same words.
pub(super) fn type_in_words(problem: &str) -> Option<String> {
    let (name, message) = problem.split_once(": ")?;
    let (found, expected) = type_fault(message)?;
    Some(format!("{name}: expected {expected}; found {found}"))
}

/// The nearest of the known names, or all of them; `rest` is the end of a message with those in backquotes.
fn choice(name: &str, rest: &str) -> String {
    let known: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
    match near(name, known.iter().copied()) {
        Some(near) => format!("; did you mean `{near}`?"),
        None if known.is_empty() => String::new(),
        None => format!("; choose {}", known.join(", ")),
    }
}

fn example(table: &str, key: &str) -> Option<&'static str> {
    let own = format!("{table}.{key}");
    let found = EXAMPLES.iter().find(|(name, _)| *name == own);
    found.or_else(|| EXAMPLES.iter().find(|(name, _)| *name == key)).map(|(_, example)| *example)
}

/// The name of the table that a line begins, and whether it is written with two brackets.
fn header_of(line: &str) -> Option<(&str, bool)> {
    let line = line.trim_start().strip_prefix('[')?;
    let (inner, is_several) = line.strip_prefix('[').map_or((line, false), |inner| (inner, true));
    let (name, rest) = inner.split_once(']')?;
    let rest = if is_several { rest.strip_prefix(']')? } else { rest };
    let is_name =
        !name.trim().is_empty() && name.trim().bytes().all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(&c));
    let ends = rest.trim_start().is_empty() || rest.trim_start().starts_with('#');
    (is_name && ends).then_some((name.trim(), is_several))
}

/// The setting that a line begins with.
fn key_of(line: &str) -> Option<&str> {
    let key = line.split(['=', ':']).next().filter(|key| key.len() < line.len())?.trim();
    let is_name = !key.is_empty() && key.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(&c));
    is_name.then_some(key)
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    const FILE: &str = r#"folder = "data"
key = "serve.key"
[public]
listen = "127.0.0.1:8800"
[[stream]]
stream = "visits"
start = 2027-01-01
every = "1h"
steps = 24
rho = 0.3
"#;

    fn refused(from: &str, to: &str) -> String {
        assert!(from.is_empty() || FILE.contains(from), "{from}");
        let text = if from.is_empty() { format!("{FILE}{to}") } else { FILE.replace(from, to) };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serve.toml");
        std::fs::write(&path, text).unwrap();
        let refused = Config::read(&path).map(drop).unwrap_err().to_string();
        refused.split_once("serve.toml").unwrap().1.to_owned()
    }

    #[test]
    fn errors_name_the_line_the_setting_and_what_is_expected() {
        for (from, to, problem) in [
            ("[[stream]]", "[stream]", ":5: a file may have several of these tables: write [[stream]]"),
            ("[public]", "[[public]]", ":3: a file has this table once: write [public]"),
            ("", "[backups]\nfolder = \"b\"", ":11: `backups` is a setting, not a table: write backups = \""),
            ("", "[public]\nlisten = \"127.0.0.1:1\"", ":11: there are two [public]"),
            ("key = \"serve.key\"\n", "", ":1: the configuration lacks `key`; add key = \"/etc"),
            ("key =", "keys =", ":2: the configuration has no `keys`; did you mean `key`?"),
            ("\"serve.key\"", "5", ":2: `key`: expected a path in quotes, such as key = \"/etc/evertally"),
            ("\"serve.key\"", "serve.key", ":2: a text needs quotes"),
            ("\"serve.key\"", "\"serve.key", ":2: a text has no closing quote"),
            ("key =", "key:", ":2: a setting is written KEY = VALUE"),
            ("key =", "key = \"a\"\nkey =", ":3: `key` is set twice"),
            ("\"127.0.0.1:8800\"", "8800", ":4: `listen` of [public]: expected an address in quotes"),
            ("listen", "port", ":4: [public] has no `port`; choose listen, socket-mode"),
            ("folder =", "witness = \"w.json\"\nfolder =", ":1: `witness`: expected a table, such as [witness], and"),
            ("", "[steps]\ngrace = 60", ":12: `grace` of [steps]: expected a duration in quotes, such as \"90s\""),
            ("", "[steps]\nbackups = \"b\"", ":12: [steps] has no `backups`, which is a setting of the file: move it"),
            ("", "[limits]\nbody-bytes = \"32M\"", ":12: `body-bytes` of [limits]: expected a whole number from 0"),
            ("", "[limits]\nconnections = -1", "expected a whole number from 0, without quotes; found -1"),
            ("", "grace = 60", ":11: `grace` of [[stream]]: expected a duration in quotes"),
            (
                "",
                "public = \"yes\"",
                ":11: `public` of [[stream]]: expected true or false, without quotes; found a text",
            ),
            ("", "public = True", ":11: write true or false"),
            ("", "extend = 3", ":11: `extend` of [[stream]]: write extend = \"automatic\", or extend = { times = 11 }"),
            ("", "closing = \"operatr\"", ":11: `closing` of [[stream]]: `operatr` is not a choice; did you mean"),
            ("stream = \"visits\"", "name = \"visits\"", ":5: [[stream]]: a stream needs a name, as in stream ="),
            (
                "",
                "[[webhook]]\nurl = \"https://a.example\"\nstreams = \"a\"",
                ":13: `streams` of [[webhook]]: expected a list",
            ),
            ("", "[[client]]\nname = \"a\"\nroles = \"operate\"", "such as roles = [\"write:visits\"]; found a text"),
            (
                "",
                "[[client]]\nname = \"a\"\nroles = [\n\"rd:visits\"\n]",
                "`roles` of [[client]]: `rd:visits` is not a role",
            ),
        ] {
            let text = refused(from, to);
            assert!(text.contains(problem), "{to}: {text}");
            assert!(!text.contains('\n'), "{text}");
        }
    }
}
