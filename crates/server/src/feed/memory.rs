//! The state file of a feeder: the position in every source, and the pending batch.

#![expect(clippy::disallowed_methods, reason = "removes a spool that was sent")]

use crate::store::random_name;
use evertally_declare::error::{Context, Result, failure, usage};
use evertally_ledger::disk::{Access, RealDisk, replace, sibling};
use evertally_ledger::lock::NameLock;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{Cursor, ErrorKind};
use std::path::{Path, PathBuf};

/// The name of standard input.
pub(super) const STDIN: &str = "-";

const VERSION: u32 = 1;

/// The position in a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SourcePosition {
    #[serde(skip)]
    pub(super) source: String,
    /// All bytes before it were accepted.
    pub(super) offset: u64,
    /// The line that begins there.
    pub(super) line: u64,
    /// The header line of CSV.
    pub(super) header: String,
    /// The fingerprint of the source: bytes at its beginning and before the offset.
    pub(super) windows: Vec<Fingerprint>,
}

/// Bytes from an offset, with their digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fingerprint {
    pub(super) from: u64,
    pub(super) len: u64,
    pub(super) digest: String,
}

/// The pending batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UnacknowledgedBatch {
    pub(super) source: String,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) line: u64,
    pub(super) digest: String,
    pub(super) format: String,
    pub(super) header: String,
    /// Lines with rows that the service has refused, and that are set aside.
    pub(super) left_out: Vec<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FeedContents {
    version: u32,
    name: String,
    /// A random word, which identifies standard input: nothing else distinguishes two pipes.
    word: String,
    /// The URL of the stream.
    target: String,
    pending: Option<UnacknowledgedBatch>,
    sources: BTreeMap<String, SourcePosition>,
}

/// A state file; locked while this value lives, so that two feeders cannot use it at the same time.
pub(super) struct FeedState {
    path: PathBuf,
    contents: FeedContents,
    _lock: NameLock,
}

impl FeedState {
    /// Opens it, or creates a new one.
    pub(super) fn open(path: &Path, name: Option<&str>, target: &str) -> Result<Self> {
        let lock = NameLock::now(path)?;
        let read = match std::fs::read_to_string(path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error).context(format_args!("cannot read {}", path.display())),
        };
        let is_new = read.is_none();
        let contents = match read {
            Some(text) => {
                let contents: FeedContents = serde_json::from_str(&text)
                    .map_err(|e| usage(format!("{} is not a feed state file: {e}", path.display())))?;
                if contents.version != VERSION {
                    return Err(usage(format!("{} belongs to another version of this program", path.display())));
                }
                contents
            }
            None => FeedContents {
                version: VERSION,
                name: name.map_or_else(machine, str::to_owned),
                word: random_name()?,
                target: target.to_owned(),
                pending: None,
                sources: BTreeMap::new(),
            },
        };
        if contents.target != target || name.is_some_and(|name| name != contents.name) {
            return Err(usage(format!(
                "{} is the state of feeder `{}` for {}; every feeder and stream needs its own state file",
                path.display(),
                contents.name,
                contents.target
            )));
        }
        let memory = Self { path: path.to_owned(), contents, _lock: lock };
        if is_new {
            memory.write()?; // a feeder that cannot store its state does not start
        }
        Ok(memory)
    }

    /// The id of a batch.
    pub(super) fn id_of(&self, pending: &UnacknowledgedBatch) -> String {
        // The two kinds cannot collide: a path is absolute, and a word has no slash.
        let place = if pending.source == STDIN { &self.contents.word } else { &pending.source };
        let whose = blake3::hash(format!("{}\0{place}", self.contents.name).as_bytes()).to_hex();
        format!("feed:{}:{}", &whose[..32], pending.from)
    }

    pub(super) fn pending(&self) -> Option<&UnacknowledgedBatch> {
        self.contents.pending.as_ref()
    }

    pub(super) fn mark(&self, source: &str) -> Option<&SourcePosition> {
        self.contents.sources.get(source)
    }

    pub(super) fn marks(&self) -> impl Iterator<Item = (&String, &SourcePosition)> {
        self.contents.sources.iter()
    }

    /// Records the pending batch, with its bytes if they cannot be read again.
    pub(super) fn store_pending(&mut self, pending: UnacknowledgedBatch, spool: Option<&[u8]>) -> Result<()> {
        if let Some(bytes) = spool {
            self.replace(&self.spool(), bytes)?;
        }
        self.contents.pending = Some(pending);
        self.write()
    }

    /// Records which of its lines are omitted.
    pub(super) fn store_left_out(&mut self, lines: &[u64]) -> Result<()> {
        if let Some(pending) = &mut self.contents.pending {
            pending.left_out = lines.to_vec();
        }
        self.write()
    }

    /// Deletes the pending batch: the service has refused it, and has nothing under its id. Standard input is kept,
    /// since it cannot be read again.
    pub(super) fn discard_pending(&mut self) -> Result<()> {
        self.contents.pending = self.contents.pending.take().filter(|pending| pending.source == STDIN);
        self.write()
    }

    /// Records that the pending batch was accepted.
    pub(super) fn done(&mut self, mark: SourcePosition) -> Result<()> {
        let was_spooled = mark.source == STDIN;
        self.contents.pending = None;
        self.contents.sources.insert(mark.source.clone(), mark);
        self.write()?;
        if was_spooled {
            let _ = std::fs::remove_file(self.spool()); // the next one replaces it
        }
        Ok(())
    }

    /// The bytes of the pending batch, if they were stored.
    pub(super) fn spooled(&self) -> Result<Option<Vec<u8>>> {
        let is_stdin = self.contents.pending.as_ref().is_some_and(|pending| pending.source == STDIN);
        if !is_stdin {
            return Ok(None);
        }
        std::fs::read(self.spool()).map(Some).context(format_args!("cannot read {}", self.spool().display()))
    }

    fn spool(&self) -> PathBuf {
        sibling(&self.path, "spool")
    }

    fn write(&self) -> Result<()> {
        let text = serde_json::to_vec_pretty(&self.contents).map_err(failure)?;
        self.replace(&self.path, &text)
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        replace(&RealDisk, path, &Access::Private, &mut Cursor::new(bytes))
            .context(format_args!("cannot write {}", path.display()))
    }
}

/// The name of this machine, from its file on Linux, and otherwise from the system: two machines must not share one.
fn machine() -> String {
    first_name([std::fs::read_to_string("/etc/hostname").ok(), node_name()])
}

/// The first name that is not empty.
fn first_name(names: [Option<String>; 2]) -> String {
    let mut names = names.into_iter().flatten().map(|name| name.trim().to_owned());
    names.find(|name| !name.is_empty()).unwrap_or_else(|| "feeder".to_owned())
}

#[cfg(unix)]
fn node_name() -> Option<String> {
    Some(rustix::system::uname().nodename().to_string_lossy().into_owned())
}

#[cfg(not(unix))]
fn node_name() -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_a_file_has_the_name_of_the_system() {
        let named = |file: Option<&str>, system: &str| first_name([file.map(str::to_owned), Some(system.to_owned())]);
        assert_eq!(named(Some("a\n"), "b"), "a");
        assert_eq!((named(None, "b"), named(Some(" \n"), "b")), ("b".to_owned(), "b".to_owned()));
        assert_eq!(named(None, ""), "feeder");
        #[cfg(unix)]
        assert!(node_name().is_some_and(|name| !name.is_empty()));
    }
}
