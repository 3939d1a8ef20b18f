//! Records the noise that one object issues, and words the refusals.

use crate::error::{OrRaise, invalid, state};
use crate::key::PySecretKey;
use crate::running::cancellable;
use evertally::noise::{GuardedKey, SecretKey, StreamName};
use evertally_declare::error::PipelineError;
use evertally_declare::problem::Wording;
use evertally_ledger::ledger::{Issuer, recorded};
use evertally_ledger::noise_log::{
    DataMarker, LogFileError, NoiseLog, RefusalReason, SpanClaim, StepRefusal, StepSpan, StreamSecrets,
};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The end of every refusal.
const REUSE: &str = "(If no real data are involved: evertally.allow_noise_reuse)";

/// The number of open code blocks that allow noise to be issued again.
static ALLOWED: AtomicUsize = AtomicUsize::new(0);

/// Begins or ends a block in which nothing is refused. Called by `evertally.allow_noise_reuse`.
#[pyfunction]
#[pyo3(name = "_allow_noise_reuse")]
pub(crate) fn allow_noise_reuse(begins: bool) {
    if begins {
        ALLOWED.fetch_add(1, Ordering::Relaxed);
    } else {
        ALLOWED.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The kinds of objects that issue noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Counter,
    LazyVector,
    CountSketch,
    VectorNoise,
    RowNoise,
    /// `release_sums` and `release_steps`.
    Sums,
}

impl Class {
    /// The name in messages.
    fn name(self) -> &'static str {
        match self {
            Self::Counter => "Counter",
            Self::LazyVector => "LazyVector",
            Self::CountSketch => "CountSketch",
            Self::VectorNoise => "VectorNoise",
            Self::RowNoise => "RowNoise",
            Self::Sums => "stream of sums",
        }
    }

    /// The name in the ledger.
    fn issuer(self) -> Issuer {
        match self {
            Self::Counter => Issuer::Counter,
            Self::LazyVector => Issuer::LazyVector,
            Self::CountSketch => Issuer::CountSketch,
            Self::Sums => Issuer::Sums,
            Self::VectorNoise | Self::RowNoise => Issuer::Training,
        }
    }
}

/// Watches the noise that an object issues.
pub(crate) struct Watch {
    class: Class,
    name: StreamName,
    key: PySecretKey,
    /// The key for the object's noise.
    guarded: GuardedKey,
    /// `None` for a key that everybody can compute.
    of_key: Option<(NoiseLog, StreamSecrets)>,
    /// Whether the ledger of the key contains the name.
    is_registered: AtomicBool,
    part: Range<u64>,
    /// The step of the state that the object was restored from; 0 for a new object.
    resumed_from: u64,
}

impl Watch {
    /// Watches noise that depends on a key, a name, the digest of a plan, and a purpose.
    pub(crate) fn new(class: Class, key: &PySecretKey, name: &StreamName, digest: &[u8; 32], purpose: &[u8]) -> Self {
        let secrets = || StreamSecrets::new(key.inner(), name, digest, purpose);
        let of_key = key.noise_log().map(|log| (log.clone(), secrets()));
        let guarded = recorded(key.inner(), name);
        let (name, key, is_registered) = (name.clone(), key.clone(), AtomicBool::new(false));
        Self { class, name, key, guarded, of_key, is_registered, part: 0..1, resumed_from: 0 }
    }

    /// The secret key.
    pub(crate) fn secret(&self) -> &Arc<SecretKey> {
        self.key.inner()
    }

    /// The key for the noise that this watches.
    pub(crate) fn key(&self) -> &GuardedKey {
        &self.guarded
    }

    /// Restricts the watch to these coordinates.
    pub(crate) fn of_part(self, part: Range<u64>) -> Self {
        Self { part, ..self }
    }

    /// For a restored object: the steps up to this one were issued before.
    pub(crate) fn since(self, step: u64) -> Self {
        Self { resumed_from: step, ..self }
    }

    /// Computes marks of data; `None` if nothing is watched.
    pub(crate) fn marker(&self) -> Option<&DataMarker> {
        self.of_key.as_ref().map(|(_, secrets)| &secrets.marker)
    }

    /// Refuses what [`give`](Self::give) would refuse, before anything is done.
    pub(crate) fn check(&self, spans: &[StepSpan]) -> PyResult<()> {
        let Some((log, claim)) = self.claim(spans, self.resumed_from) else { return Ok(()) };
        if ALLOWED.load(Ordering::Relaxed) > 0 {
            return Ok(());
        }
        log.check(&claim).or_else(|error| self.raise(error))
    }

    /// Records that steps are issued, or refuses this and records nothing. **Before their noise is drawn**: an object
    /// that has drawn it could show it by another way.
    pub(crate) fn give(&self, py: Python<'_>, spans: &[StepSpan]) -> PyResult<()> {
        self.give_since(py, spans, self.resumed_from)
    }

    /// The same for an object that was restored from a state after this step.
    pub(crate) fn give_since(&self, py: Python<'_>, spans: &[StepSpan], resumed_from: u64) -> PyResult<()> {
        let Some((log, claim)) = self.claim(spans, resumed_from) else { return Ok(()) };
        let allowed = ALLOWED.load(Ordering::Relaxed) > 0;
        match self.register(py, log) {
            // Nothing is refused here. If the record fails, the noise is not recorded. Ctrl-C is not an `Exception`,
            // and is raised.
            Err(error) if allowed && error.is_instance_of::<PyException>(py) => return Ok(()),
            registered => registered?,
        }
        let record = || if allowed { log.claim_with_reuse(&claim) } else { log.claim(&claim) };
        let recorded = if log.is_in_file() { py.detach(record) } else { record() };
        recorded.or_else(|error| self.raise(error))
    }

    /// Records in the ledger of the key, once, that this class issues the noise of this name.
    fn register(&self, py: Python<'_>, log: &NoiseLog) -> PyResult<()> {
        let by = self.class.issuer();
        if self.is_registered.load(Ordering::Relaxed) {
            return Ok(());
        }
        if !log.is_registered(&self.name, by) {
            let registered = cancellable(py, |cancelled| {
                self.key.with_ledger(None, cancelled, |ledger| Ok(log.register(ledger, &self.name, by)))
            })?;
            registered.or_raise()?.or_else(|error| {
                if error.library().is_some() || error.other_as::<LogFileError>().is_some() {
                    return Err(error).or_raise();
                }
                Err(state(format!("{}. {REUSE}", error.worded(Wording::Keywords))))
            })?;
        }
        self.is_registered.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn claim<'a>(&'a self, spans: &'a [StepSpan], resumed_from: u64) -> Option<(&'a NoiseLog, SpanClaim<'a>)> {
        let (log, secrets) = self.of_key.as_ref()?;
        let claim = SpanClaim { identity: secrets.identity, part: &self.part, resumed_from, spans };
        (!spans.is_empty()).then_some((log, claim))
    }

    /// Raises an error of the log: a refusal in the words of this object.
    fn raise<T>(&self, error: PipelineError) -> PyResult<T> {
        match error.other_as::<StepRefusal>() {
            Some(refusal) => Err(self.refused(refusal)),
            None => Err(error).or_raise(),
        }
    }

    fn refused(&self, StepRefusal { step, last, reason }: &StepRefusal) -> PyErr {
        let (class, name) = (self.class, self.name.as_str());
        let reads = matches!(class, Class::LazyVector | Class::CountSketch);
        let shown = class.name();
        let of = format!("of the {shown} {name:?}");
        let what = if class == Class::RowNoise { "call" } else { "step" };
        let remedy = match class {
            Class::VectorNoise => format!(
                "Another run needs a separate name. To continue this one, restore its last state (step {last}), or use \
                 the same data again. Ranks of one run each take a range of coordinates, or add the noise to the sum \
                 of all"
            ),
            Class::Counter => format!(
                "Other data need another name. To continue this one, restore its last state (step {last}), or pass the \
                 same totals again"
            ),
            Class::RowNoise => format!(
                "Another run needs a separate name. To continue this one, restore its last state (of {last} calls) and \
                 the table as it was then, and use the same data again"
            ),
            Class::Sums => "Other data need another name. A step of a group can have only one sum".to_owned(),
            Class::LazyVector | Class::CountSketch => format!(
                "Continue with the object that made the read, or restore its last state (of {last} reads); other data \
                 need another name"
            ),
        };
        let said = match reason {
            RefusalReason::OtherData => format!(
                "{what} {step} {of} was issued for other data; with the same noise, the two releases would show their \
                 exact difference. {remedy}"
            ),
            RefusalReason::UnknownData if reads => format!(
                "read {step} {of} was made already, by another object in the same state: the same noise would hide \
                 two sums. {remedy}"
            ),
            RefusalReason::UnknownData => format!(
                "step {step} {of} was issued already, and nothing shows that it was for the same data. {remedy}{}",
                if class == Class::VectorNoise { ", with `of=` if the noise is added elsewhere" } else { "" }
            ),
            RefusalReason::Overlap(part) => format!(
                "step {step} {of} was issued for the coordinates {} to {}, which overlap with {} to {}. Give workers \
                 ranges that do not overlap, and keep them for the whole run",
                part.start,
                part.end - 1,
                self.part.start,
                self.part.end - 1
            ),
            RefusalReason::Forked => format!(
                "the {shown} {name:?} was used by the parent process of this fork, and neither process knows what the \
                 other issues. Use another name here, or load the key from its file: then all processes know"
            ),
        };
        state(format!("{said}. {REUSE}"))
    }
}

/// The bytes that identify the data that noise is added to.
pub(crate) fn bytes_of(of: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    use numpy::{PyArray1, PyArrayMethods};
    use pyo3::types::{PyBytes, PyInt};
    if let Ok(bytes) = of.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().to_vec());
    }
    if of.is_instance_of::<PyInt>() {
        return Ok(format!("number {}", of.str()?).into_bytes());
    }
    let numpy = crate::arrays::numpy(of.py())?;
    let whole = || -> PyResult<Vec<u8>> {
        let array = numpy.call_method1("ascontiguousarray", (of,))?;
        let kind: String = array.getattr("dtype")?.getattr("kind")?.extract()?;
        if !"biufcV".contains(&kind) {
            return Err(invalid("the array has no numbers"));
        }
        let bytes = array.call_method1("reshape", (-1,))?.call_method1("view", ("u1",))?;
        Ok(bytes.cast::<PyArray1<u8>>()?.try_readonly()?.as_slice()?.to_vec())
    };
    whole().map_err(|_| {
        let class = of.get_type().name().map_or_else(|_| "another type".into(), |name| name.to_string());
        invalid(format!(
            "`of` identifies the data that the noise is added to: bytes, an array of numbers or a whole number, got \
             {class}"
        ))
    })
}
