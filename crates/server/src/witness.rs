//! What is kept outside the folder of a service, so that an old copy of it is known as one.
//!
//! Whoever publishes from an old copy of a folder publishes steps a second time, perhaps from other events, and the
//! difference of two releases with equal noise is exact. So every publication extends a chain of digests, and its last
//! links are told to a witness elsewhere before anybody sees the rows: a file on another disk, or whatever answers to
//! GET and PUT at an address. A folder that is behind its witness does not publish, and neither does one whose witness
//! somebody else has written: a copy of the folder runs somewhere.

use evertally_declare::error::{Context, Result, failure, usage};
use evertally_ledger::disk::{Access, Disk, RealDisk, replace};
use evertally_ledger::lock::NameLock;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{Cursor, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The version that is written.
const VERSION: u32 = 1;

/// No witness says more: 64 MiB.
const LONGEST: u64 = 64 << 20;

/// How long an answer over HTTP may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a witness says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Testimony {
    version: u32,
    /// The folder of which it says it.
    pub folder: String,
    /// How often it was told something.
    pub counter: u64,
    /// Who told it last: another name for each start of a service.
    pub writer: String,
    /// Of every stream with a closed step, the last.
    pub streams: BTreeMap<String, Seen>,
}

/// The last closed step of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seen {
    /// The step.
    pub closed: u64,
    /// The digest of all published rows, in hexadecimal.
    pub head: String,
    /// Keyed digest of all events, in hexadecimal.
    pub events: String,
}

impl Testimony {
    /// Of a folder of which nothing has been said.
    pub fn new(folder: &str) -> Self {
        Self {
            version: VERSION,
            folder: folder.to_owned(),
            counter: 0,
            writer: String::new(),
            streams: BTreeMap::new(),
        }
    }

    fn to_text(&self) -> Result<String> {
        serde_json::to_string_pretty(self).map_err(failure)
    }

    fn from_text(text: &str, place: &str) -> Result<Self> {
        let read: Self = serde_json::from_str(text)
            .map_err(|e| usage(format!("what the witness {place} says cannot be read: {e}; put back what it was")))?;
        if read.version != VERSION {
            return Err(usage(format!("the witness {place} was written by another version of this program")));
        }
        Ok(read)
    }
}

/// A place outside the folder that remembers.
pub trait Witness: Send {
    /// What it was told last; `None` where it was never told anything.
    ///
    /// # Errors
    /// If it cannot be asked, or says what makes no sense.
    fn ask(&mut self) -> Result<Option<Testimony>>;

    /// Tells it more, durably.
    ///
    /// # Errors
    /// If it cannot be told.
    fn tell(&mut self, testimony: &Testimony) -> Result<()>;

    /// How messages name it.
    fn place(&self) -> String;

    /// How long after it was told it must still say the same, before it is believed to have been told by nobody else: what
    /// nobody can hold for himself, two copies of a folder may tell in the same moment.
    fn settles_in(&self) -> Duration {
        Duration::ZERO
    }
}

/// A file, on another disk than the folder. One service uses it at a time: a lock beside it says so.
pub struct FileWitness {
    path: PathBuf,
    lock: Option<NameLock>,
}

impl FileWitness {
    /// In this file, which need not be there.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), lock: None }
    }

    /// Keeps others away from now on. A disk that knows no locks has none: then a copy is found at its first publication.
    fn lock(&mut self) -> Result<()> {
        if self.lock.is_some() || !self.has_folder() {
            return Ok(());
        }
        self.lock = match NameLock::now(&self.path) {
            Err(error) if error.is_usage() => {
                return Err(usage(format!(
                    "the witness {} cannot be had for this service alone: another one uses it, of this folder or of a copy; \
                     stop that one first ({error})",
                    self.place()
                )));
            }
            other => other.ok(),
        };
        Ok(())
    }

    fn has_folder(&self) -> bool {
        self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).is_none_or(Path::is_dir)
    }
}

impl Witness for FileWitness {
    fn ask(&mut self) -> Result<Option<Testimony>> {
        self.lock()?;
        match std::fs::read_to_string(&self.path) {
            Ok(text) => Testimony::from_text(&text, &self.place()).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                // A disk that is not there is no witness that was never told anything.
                match self.has_folder() {
                    true => Ok(None),
                    false => {
                        Err(usage(format!("the folder of the witness {} is not there; mount its disk", self.place())))
                    }
                }
            }
            Err(error) => Err(error).context(format_args!("the witness {} cannot be read", self.place())),
        }
    }

    fn tell(&mut self, testimony: &Testimony) -> Result<()> {
        self.lock()?;
        let text = testimony.to_text()?;
        replace(&RealDisk as &dyn Disk, &self.path, &Access::Private, &mut Cursor::new(text))
            .context(format_args!("the witness {} cannot be written", self.place()))
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }
}

/// Whatever answers to GET and PUT at an address; 404 says that it was never told anything.
pub struct HttpWitness {
    agent: ureq::Agent,
    address: String,
    authorization: Option<String>,
    /// The entity tag of what it said last, where it gave one: a witness that knows preconditions is told nothing over what
    /// somebody else told it in between.
    tag: Option<String>,
    /// Whether it said that it was never told anything.
    is_empty: bool,
}

impl HttpWitness {
    /// At an address, with the value of an `Authorization` header where one is needed.
    pub fn new(address: &str, authorization: Option<String>) -> Self {
        let config = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).http_status_as_error(false).build();
        Self { agent: config.into(), address: address.to_owned(), authorization, tag: None, is_empty: false }
    }

    fn cannot(&self, what: &str, why: impl std::fmt::Display) -> evertally_declare::error::Error {
        failure(format!("the witness {} cannot be {what}: {why}", self.address))
    }
}

impl Witness for HttpWitness {
    fn ask(&mut self) -> Result<Option<Testimony>> {
        let mut request = self.agent.get(&self.address);
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        let mut answer = request.call().map_err(|e| self.cannot("asked", e))?;
        self.tag = answer.headers().get("etag").and_then(|tag| tag.to_str().ok()).map(str::to_owned);
        self.is_empty = answer.status() == 404;
        match answer.status().as_u16() {
            404 => Ok(None),
            200 => {
                let text = answer.body_mut().with_config().limit(LONGEST).read_to_string();
                Testimony::from_text(&text.map_err(|e| self.cannot("asked", e))?, &self.address).map(Some)
            }
            status => Err(self.cannot("asked", format_args!("it answers with status {status}"))),
        }
    }

    fn tell(&mut self, testimony: &Testimony) -> Result<()> {
        let text = testimony.to_text()?;
        let mut request = self.agent.put(&self.address).header("content-type", "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        if let Some(tag) = &self.tag {
            request = request.header("if-match", tag);
        } else if self.is_empty {
            request = request.header("if-none-match", "*");
        }
        let answer = request.send(&text).map_err(|e| self.cannot("told", e))?;
        match answer.status().as_u16() {
            200..=299 => Ok(()),
            412 => Err(self.cannot("told", "somebody else has told it something")),
            status => Err(self.cannot("told", format_args!("it answers with status {status}"))),
        }
    }

    fn place(&self) -> String {
        self.address.clone()
    }

    // Longer than anything that was sent before can be on its way.
    fn settles_in(&self) -> Duration {
        PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_remembers() {
        let folder = tempfile::tempdir().unwrap();
        let mut witness = FileWitness::new(&folder.path().join("witness.json"));
        assert_eq!(witness.ask().unwrap(), None);
        let mut said = Testimony::new("f00d");
        said.streams.insert("a".into(), Seen { closed: 3, head: "aa".into(), events: "bb".into() });
        witness.tell(&said).unwrap();
        assert_eq!(witness.ask().unwrap(), Some(said));
        std::fs::write(folder.path().join("witness.json"), "{}").unwrap();
        assert!(witness.ask().unwrap_err().to_string().contains("cannot be read"));
        let second = FileWitness::new(&folder.path().join("witness.json")).ask().unwrap_err().to_string();
        assert!(second.contains("another one uses it"), "{second}");
        let mut gone = FileWitness::new(&folder.path().join("unmounted/witness.json"));
        assert!(gone.ask().unwrap_err().to_string().contains("is not there"));
    }
}
