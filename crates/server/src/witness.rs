//! A record outside the folder of a service that reveals old copies of the folder.
//!
//! A service that runs on an old copy of a folder publishes steps a second time, perhaps from other events, and the
//! difference of two releases with equal noise is exact. Therefore every publication extends a hash chain, and its last
//! links are recorded at a witness elsewhere before anybody sees the rows: a file on another disk, or a URL that
//! answers GET and PUT. A folder that lags its witness does not publish. Neither does a folder if another writer has
//! changed its witness: a copy of the folder is running somewhere.

use evertally_declare::error::{Context, Result, failure, usage};
use evertally_declare::url::without_secrets;
use evertally_ledger::disk::{Access, Disk, RealDisk, replace};
use evertally_ledger::lock::NameLock;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{Cursor, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The version of the format.
const VERSION: u32 = 1;

/// The size limit of a record: 64 MiB.
const MAX_RECORD_BYTES: u64 = 64 << 20;

/// How long an answer over HTTP may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// The record at a witness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WitnessRecord {
    version: u32,
    /// The identity of the folder.
    pub folder: String,
    /// How often it was updated.
    pub counter: u64,
    /// The last writer: every start of a service has a new name.
    pub writer: String,
    /// The copy of the folder that may write, if another machine has taken over: every takeover has a new name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub primary: String,
    /// The last closed step of every stream that has one.
    pub streams: BTreeMap<String, LastClosed>,
}

/// The last closed step of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastClosed {
    /// The step.
    pub closed: u64,
    /// The digest of all published rows, in hexadecimal.
    pub head: String,
    /// Keyed digest of all events, in hexadecimal.
    pub events: String,
}

impl WitnessRecord {
    /// The empty record of a folder.
    pub fn new(folder: &str) -> Self {
        Self {
            version: VERSION,
            folder: folder.to_owned(),
            counter: 0,
            writer: String::new(),
            primary: String::new(),
            streams: BTreeMap::new(),
        }
    }

    /// The same record with another copy that may write.
    pub(crate) fn with_primary(mut self, name: &str) -> Self {
        name.clone_into(&mut self.primary);
        self
    }

    fn to_text(&self) -> Result<String> {
        serde_json::to_string_pretty(self).map_err(failure)
    }

    fn from_text(text: &str, place: &str) -> Result<Self> {
        let read: Self = serde_json::from_str(text)
            .map_err(|e| usage(format!("cannot read the witness record at {place}: {e}; restore its contents")))?;
        if read.version != VERSION {
            return Err(usage(format!("the witness {place} was written by another version of this program")));
        }
        Ok(read)
    }
}

/// A store for a record outside the folder.
pub trait Witness: Send {
    /// The last record; `None` if there was never one.
    ///
    /// # Errors
    /// If the witness cannot be reached, or the record is invalid.
    fn ask(&mut self) -> Result<Option<WitnessRecord>>;

    /// Reads the record without locking it: for those who do not write.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    fn peek(&mut self) -> Result<Option<WitnessRecord>> {
        self.ask()
    }

    /// Replaces the record, durably.
    ///
    /// # Errors
    /// If it cannot be written.
    fn write(&mut self, testimony: &WitnessRecord) -> Result<()>;

    /// How messages name it.
    fn place(&self) -> String;

    /// How long the record must stay unchanged before it counts. Without locks or preconditions, two copies of a folder
    /// may write in the same moment; the delay reveals that.
    fn settles_in(&self) -> Duration {
        Duration::ZERO
    }
}

/// A file on another disk than the folder. A lock next to it ensures that only one service uses it at a time.
pub struct FileWitness {
    path: PathBuf,
    lock: Option<NameLock>,
}

impl FileWitness {
    /// The witness in this file, which need not exist.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), lock: None }
    }

    /// Locks out other services from now on. A disk without locks has none: then a copy is found at its first
    /// publication.
    fn lock(&mut self) -> Result<()> {
        if self.lock.is_some() || !self.has_folder() {
            return Ok(());
        }
        self.lock = match NameLock::now(&self.path) {
            Err(error) if error.is_usage() => {
                return Err(usage(format!(
                    "cannot lock the witness {} for this service: another service uses it, for this folder or a copy \
                     of it. If that is the primary now, start this one with --follow; otherwise stop the other one \
                     first ({error})",
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
    fn ask(&mut self) -> Result<Option<WitnessRecord>> {
        self.lock()?;
        self.peek()
    }

    fn peek(&mut self) -> Result<Option<WitnessRecord>> {
        match std::fs::read_to_string(&self.path) {
            Ok(text) => WitnessRecord::from_text(&text, &self.place()).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                // A disk that is not mounted is not an empty witness.
                match self.has_folder() {
                    true => Ok(None),
                    false => {
                        Err(usage(format!("the folder of the witness {} does not exist; mount its disk", self.place())))
                    }
                }
            }
            Err(error) => Err(error).context(format_args!("the witness {} cannot be read", self.place())),
        }
    }

    fn write(&mut self, testimony: &WitnessRecord) -> Result<()> {
        self.lock()?;
        let text = testimony.to_text()?;
        replace(&RealDisk as &dyn Disk, &self.path, &Access::Private, &mut Cursor::new(text))
            .context(format_args!("the witness {} cannot be written", self.place()))
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }
}

/// A URL that answers GET and PUT; 404 means that there is no record yet.
pub struct HttpWitness {
    agent: ureq::Agent,
    address: String,
    authorization: Option<String>,
    /// The last entity tag received, if any: a witness that supports preconditions refuses to overwrite the record of
    /// another writer.
    tag: Option<String>,
    /// Whether it answered that there is no record.
    is_empty: bool,
}

impl HttpWitness {
    /// A witness at a URL, with the value of an `Authorization` header if required.
    pub fn new(address: &str, authorization: Option<String>) -> Self {
        let config =
            ureq::Agent::config_builder().timeout_global(Some(ANSWER_TIMEOUT)).http_status_as_error(false).build();
        Self { agent: config.into(), address: address.to_owned(), authorization, tag: None, is_empty: false }
    }

    fn cannot(&self, what: &str, why: impl std::fmt::Display) -> evertally_declare::error::PipelineError {
        let place = self.place();
        // Some errors contain the address.
        let why = why.to_string().replace(&self.address, &place);
        failure(format!("the witness {place} cannot be {what}: {why}"))
    }
}

impl Witness for HttpWitness {
    fn ask(&mut self) -> Result<Option<WitnessRecord>> {
        let mut request = self.agent.get(&self.address);
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        let mut answer = request.call().map_err(|e| self.cannot("read", e))?;
        self.tag = answer.headers().get("etag").and_then(|tag| tag.to_str().ok()).map(str::to_owned);
        self.is_empty = answer.status() == 404;
        match answer.status().as_u16() {
            404 => Ok(None),
            200 => {
                let text = answer.body_mut().with_config().limit(MAX_RECORD_BYTES).read_to_string();
                WitnessRecord::from_text(&text.map_err(|e| self.cannot("read", e))?, &self.place()).map(Some)
            }
            status => Err(self.cannot("read", format_args!("it answered with status {status}"))),
        }
    }

    fn write(&mut self, testimony: &WitnessRecord) -> Result<()> {
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
        let answer = request.send(&text).map_err(|e| self.cannot("written", e))?;
        match answer.status().as_u16() {
            200..=299 => Ok(()),
            412 => Err(self.cannot("written", "another writer has changed its record")),
            status => Err(self.cannot("written", format_args!("it answered with status {status}"))),
        }
    }

    fn place(&self) -> String {
        without_secrets(Path::new(&self.address))
    }

    // Longer than any earlier request can still be under way.
    fn settles_in(&self) -> Duration {
        ANSWER_TIMEOUT
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
        let mut record = WitnessRecord::new("f00d");
        record.streams.insert("a".into(), LastClosed { closed: 3, head: "aa".into(), events: "bb".into() });
        witness.write(&record).unwrap();
        assert_eq!(witness.ask().unwrap(), Some(record));
        std::fs::write(folder.path().join("witness.json"), "{}").unwrap();
        assert!(witness.ask().unwrap_err().to_string().contains("cannot read"));
        let second = FileWitness::new(&folder.path().join("witness.json")).ask().unwrap_err().to_string();
        assert!(second.contains("another service uses it"), "{second}");
        let mut gone = FileWitness::new(&folder.path().join("unmounted/witness.json"));
        assert!(gone.ask().unwrap_err().to_string().contains("does not exist"));
    }

    #[test]
    fn secrets_in_its_url_are_not_shown() {
        let mut witness = HttpWitness::new("http://user:SECRET@127.0.0.1:1/w.json?sig=SECRET", None);
        assert_eq!(witness.place(), "http://127.0.0.1:1/w.json?...");
        let record = WitnessRecord::new("f00d");
        for problem in [witness.ask().unwrap_err(), witness.write(&record).unwrap_err()] {
            let problem = problem.to_string();
            assert!(problem.contains("127.0.0.1:1/w.json") && !problem.contains("SECRET"), "{problem}");
        }
    }
}
