//! The witness and the standby folder that the machines share, and how each machine reaches them.

use super::*;

/// A write that arrives later, if nobody has written since.
pub(super) struct Late {
    pub(super) version: u64,
    pub(super) record: WitnessRecord,
}

#[derive(Default)]
pub(super) struct SharedRecord {
    pub(super) record: Option<WitnessRecord>,
    pub(super) version: u64,
    pub(super) late: Vec<Late>,
}

impl SharedRecord {
    /// A write with a precondition, as with `If-Match`.
    pub(super) fn write(&mut self, version: u64, record: WitnessRecord) -> bool {
        if version == self.version {
            (self.record, self.version) = (Some(record), version + 1);
            return true;
        }
        false
    }
}

/// How a machine reaches something that both share.
#[derive(Default)]
pub(super) struct Way {
    pub(super) is_away: bool,
    /// The next write arrives, and its answer is lost.
    pub(super) loses_answer: bool,
    /// The next write arrives later, and has no answer.
    pub(super) is_late: bool,
    /// The next write arrives twice.
    pub(super) is_repeated: bool,
    /// Writes that are late arrive just before the next one, after the read that it depends on.
    pub(super) is_overtaken: bool,
}

#[derive(Clone, Default)]
pub(super) struct SharedWitness {
    pub(super) shared: Arc<Mutex<SharedRecord>>,
    pub(super) way: Arc<Mutex<Way>>,
    pub(super) read: u64,
}

impl Witness for SharedWitness {
    fn ask(&mut self) -> Result<Option<WitnessRecord>, PipelineError> {
        if self.way.lock().unwrap().is_away {
            return Err(away());
        }
        let shared = self.shared.lock().unwrap();
        self.read = shared.version;
        Ok(shared.record.clone())
    }

    fn write(&mut self, record: &WitnessRecord) -> Result<(), PipelineError> {
        let (mut way, mut shared) = (self.way.lock().unwrap(), self.shared.lock().unwrap());
        if way.is_away {
            return Err(away());
        }
        if std::mem::take(&mut way.is_late) {
            shared.late.push(Late { version: self.read, record: record.clone() });
            return Err(away());
        }
        if std::mem::take(&mut way.is_overtaken) {
            for late in std::mem::take(&mut shared.late) {
                shared.write(late.version, late.record);
            }
        }
        let is_written = shared.write(self.read, record.clone());
        if std::mem::take(&mut way.is_repeated) {
            shared.late.push(Late { version: self.read, record: record.clone() });
        }
        if !is_written || std::mem::take(&mut way.loses_answer) {
            return Err(away());
        }
        self.read = shared.version;
        Ok(())
    }

    fn place(&self) -> String {
        "far".into()
    }
}

type Files = BTreeMap<String, Vec<u8>>;

#[derive(Clone, Default)]
pub(super) struct SharedFolder {
    pub(super) files: Arc<Mutex<Files>>,
    pub(super) way: Arc<Mutex<Way>>,
}

impl Target for SharedFolder {
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), PipelineError> {
        let mut way = self.way.lock().unwrap();
        if way.is_away {
            return Err(away());
        }
        self.files.lock().unwrap().insert(name.to_owned(), bytes.to_vec());
        if std::mem::take(&mut way.loses_answer) { Err(away()) } else { Ok(()) }
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<bool, PipelineError> {
        match self.get(name)? {
            Some(existing) => Ok(existing == bytes),
            None => self.put(name, bytes).map(|()| true),
        }
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, PipelineError> {
        if self.way.lock().unwrap().is_away {
            return Err(away());
        }
        Ok(self.files.lock().unwrap().get(name).cloned())
    }

    fn list(&self, _: &str) -> Result<Vec<String>, PipelineError> {
        unreachable!("nobody lists")
    }

    fn remove(&self, _: &str) -> Result<(), PipelineError> {
        unreachable!("nobody removes")
    }

    fn place(&self) -> String {
        "between".into()
    }
}
