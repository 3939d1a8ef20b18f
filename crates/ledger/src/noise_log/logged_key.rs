//! Keys of Rust programs whose noise is logged step by step.

use super::{NoiseLog, SpanClaim, StepSpan, StreamSecrets, UNKNOWN, noise_log_path};
use crate::keyfile;
use crate::ledger::{Issuer, OpenKey};
use evertally::noise::{
    ALL, GuardedKey, NoiseClaim, NoiseRecord, Purpose, SecretKey, StepClaim, StepData, StepRecord, StreamName,
};
use evertally::{Error as NoiseError, ErrorKind};
use evertally_declare::error::{PipelineError, Result, usage};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The longest wait for a ledger that another program holds, while a name is registered.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// A key from a file, with a log of the noise that was issued with it, for a program that embeds the library.
///
/// The log is next to the key file, and all programs that open the key share it. Objects made with
/// [`guarded`](Self::guarded) claim each step before they issue it, and are refused ([`ErrorKind::NoiseIssued`]) if the
/// step was issued for other data. So a program that lost its state, restored an old one, or runs twice gets the same
/// releases for the same data, and no noise for other data. [The module](super) has an example.
///
/// | object | its steps |
/// |---|---|
/// | `RunningSum` of `evertally` | issued again for the same sums |
/// | `VectorNoise` of `evertally-training`, `add_next` | issued again for the same numbers |
/// | the same, `next_into` | issued once: nothing shows what their noise is added to |
/// | `LazyVector` and sketches of `evertally` | their reads are made once: noise depends on all earlier reads |
/// | all others, such as `GroupedSums` or `RowNoise` | refused: they do not claim steps. Use [`OpenKey::guarded`] |
///
/// Unlike [`OpenKey::guarded`] this does not keep the ledger locked: it is opened when the first step of a name is
/// issued. A name belongs to what first issued noise under it; the ledger refuses all others.
pub struct LoggedKey {
    key: Arc<SecretKey>,
    path: PathBuf,
    log: NoiseLog,
}

impl LoggedKey {
    /// Opens a key file. Its log is `KEYFILE.uses`, created with the first noise.
    ///
    /// # Errors
    /// If the key file is missing, damaged or readable by others, or the log cannot be used.
    pub fn open(key_file: &Path) -> Result<Self> {
        let key = Arc::new(keyfile::read(key_file)?);
        Self::with_key(key, key_file, &noise_log_path(&std::fs::canonicalize(key_file)?))
    }

    /// Opens a key file whose log is elsewhere, for a key in a read-only folder. The ledger of the key accepts only the
    /// log with which it began, or a copy of it: never use a copy, which does not know the steps of the other.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with_log(key_file: &Path, log: &Path) -> Result<Self> {
        Self::with_key(Arc::new(keyfile::read(key_file)?), key_file, log)
    }

    fn with_key(key: Arc<SecretKey>, key_file: &Path, log_file: &Path) -> Result<Self> {
        let log = NoiseLog::from_key(&key);
        log.write_to(log_file, None)?;
        Ok(Self { key, path: std::path::absolute(key_file)?, log })
    }

    /// The key for the objects of the library.
    pub fn guarded(self) -> GuardedKey {
        GuardedKey::new(Arc::clone(&self.key), LoggedKeyRecord(Arc::new(self)))
    }

    /// Records in the ledger of the key that this program issues the noise of a name, once per process.
    fn register(&self, name: &StreamName, by: Issuer) -> Result<()> {
        if self.log.is_registered(name, by) {
            return Ok(());
        }
        let mut open = OpenKey::from_file_within(&self.path, MAX_WAIT)?;
        if open.key != *self.key {
            return Err(usage(format!("the key file {} now holds another key; open it again", self.path.display())));
        }
        self.log.register(&mut open.ledger, name, by)
    }
}

/// The record of a guarded key.
struct LoggedKeyRecord(Arc<LoggedKey>);

impl NoiseRecord for LoggedKeyRecord {
    fn claim(&self, claim: &NoiseClaim<'_>) -> evertally::Result<()> {
        let name = claim.name;
        Err(NoiseError::new(
            ErrorKind::NoiseIssued,
            format!(
                "the noise of stream `{name}` cannot be logged step by step, because its object does not claim its \
                 steps: open the key with `OpenKey::from_file(…)?.guarded()`, which records objects, and give the \
                 stream its own name"
            ),
        ))
    }

    fn steps(&self, claim: &NoiseClaim<'_>) -> evertally::Result<Option<Arc<dyn StepRecord>>> {
        // See `docs/formats.md`.
        let (label, by) = match claim.purpose {
            Purpose::Total => ("sum".to_owned(), Issuer::LoggedProgram),
            Purpose::Sums => ("reads of nodes".to_owned(), Issuer::LoggedProgram),
            Purpose::Reads(tag) => (format!("reads {tag}"), Issuer::LoggedProgram),
            Purpose::Vector(bits) => (format!("vector {bits}"), Issuer::Training),
            _ => return Ok(None),
        };
        let part = if claim.part == ALL { 0..1 } else { claim.part.clone() };
        Ok(Some(Arc::new(LoggedStream {
            key: Arc::clone(&self.0),
            name: claim.name.clone(),
            by,
            secrets: StreamSecrets::new(&self.0.key, claim.name, claim.plan_digest, label.as_bytes()),
            part,
            is_registered: AtomicBool::new(false),
        })))
    }
}

/// The noise of one object.
struct LoggedStream {
    key: Arc<LoggedKey>,
    name: StreamName,
    by: Issuer,
    secrets: StreamSecrets,
    part: Range<u64>,
    /// Whether the ledger of the key contains the name.
    is_registered: AtomicBool,
}

impl LoggedStream {
    fn log(&self, claim: &StepClaim<'_>) -> Result<()> {
        if !self.is_registered.load(Ordering::Relaxed) {
            self.key.register(&self.name, self.by)?;
            self.is_registered.store(true, Ordering::Relaxed);
        }
        let (first, last) = (*claim.steps.start(), *claim.steps.end());
        let mark = match claim.data {
            StepData::Sum(sum) => self.secrets.marker.sum(sum),
            StepData::Vector { numbers, threads } => self.secrets.marker.numbers(first, numbers, threads).mark,
            _ => UNKNOWN,
        };
        self.key.log.claim(&SpanClaim {
            identity: self.secrets.identity,
            part: &self.part,
            resumed_from: claim.resumed_from,
            spans: &[StepSpan { first, last, mark }],
        })
    }
}

impl StepRecord for LoggedStream {
    fn claim(&self, claim: &StepClaim<'_>) -> evertally::Result<()> {
        self.log(claim).map_err(|error| self.noise_error(&error))
    }
}

impl LoggedStream {
    fn noise_error(&self, error: &PipelineError) -> NoiseError {
        let text = format!("the noise of stream `{}` is not issued: {error}", self.name);
        NoiseError::new(ErrorKind::NoiseIssued, text)
    }
}
