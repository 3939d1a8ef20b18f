//! The record of the noise that a key has issued.
//!
//! Noise is a pure function of key, stream name, plan and purpose. If it is issued twice, for data that differ, it
//! cancels: the difference of the two releases is exact. So everything that issues noise takes a [`GuardedKey`], a
//! secret key together with the record of the noise issued with it, and first claims its noise there. A [`NoiseRecord`]
//! decides how the record is stored and how long it lasts: this library has one in memory; `evertally-ledger` keeps
//! one next to the key file, shared by the program, the service and the Python package.

use super::step_record::{StepGuard, StepRecord};
use super::{KeyId, Purpose, SecretKey, StreamName, TestSeed};
use crate::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::{Arc, Mutex, PoisonError};

/// The [part](NoiseClaim::part) that contains all others.
pub const ALL: Range<u64> = 0..u64::MAX;

/// The noise that an object is about to issue.
///
/// ```
/// use evertally::noise::{ALL, NoiseClaim, Purpose};
///
/// let name = "visits".parse()?;
/// let plan_digest = &[0; 32];
/// let claim = NoiseClaim { name: &name, plan_digest, purpose: Purpose::Total, part: ALL, is_resumed: false };
/// assert_eq!(claim.name.as_str(), "visits");
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct NoiseClaim<'a> {
    /// The stream that the noise belongs to.
    pub name: &'a StreamName,
    /// The digest of the plan.
    pub plan_digest: &'a [u8; 32],
    /// The kind of noise of the stream; for groups [`Purpose::Group`] without a name.
    pub purpose: Purpose<'a>,
    /// The coordinates of a vector, or the groups, by a hash of their names; [`ALL`] if there is only one, or all are
    /// meant.
    pub part: Range<u64>,
    /// Whether the object resumes from a saved state, which records the issued steps.
    pub is_resumed: bool,
}

/// A record of issued noise: recorded noise is issued again only by the object that resumes it.
pub trait NoiseRecord: Send + Sync {
    /// Records that an object issues this noise, as durably as the record is, or returns an error. Called before any of
    /// the noise is issued.
    ///
    /// # Errors
    /// [`ErrorKind::NoiseIssued`] if the noise may have been issued for other data; others if the record cannot be read
    /// or written.
    fn claim(&self, claim: &NoiseClaim<'_>) -> Result<()>;

    /// The record of the steps of this noise, for an object that claims each step together with its data; `None` if
    /// this record knows objects only, which is the default. The object then [claims](Self::claim) its noise as a
    /// whole.
    ///
    /// # Errors
    /// If this noise must not be issued at all.
    fn steps(&self, _claim: &NoiseClaim<'_>) -> Result<Option<Arc<dyn StepRecord>>> {
        Ok(None)
    }
}

/// A secret key together with the record of the noise that was issued with it.
///
/// Everything that issues noise takes one of these. So a program states once, where it obtains its key, how reuse is
/// prevented:
///
/// | constructor | record |
/// |---|---|
/// | [`new`](Self::new) | a record that outlives the program, such as the ledger next to a key file |
/// | [`published_nothing`](Self::published_nothing) | memory, for a key that has issued nothing yet |
/// | [`allow_noise_reuse`](Self::allow_noise_reuse) | none |
/// | [`insecure_from_test_seed`](Self::insecure_from_test_seed) | none: anyone can compute the noise |
///
/// Clones share the record. It dereferences to its [`SecretKey`].
///
/// ```
/// use evertally::{Budget, Epsilon, GuardedKey, PlanRequest, RunningSum, SecretKey};
///
/// # fn main() -> evertally::Result<()> {
/// let plan = PlanRequest::count(7, Budget::Pure(Epsilon::new(1.0)?)).plan()?;
/// let key = GuardedKey::published_nothing(SecretKey::generate()?);
/// let visits = RunningSum::new(plan.clone(), &key, "visits".parse()?)?;
/// // Other data under the same name would reveal the exact difference.
/// assert!(RunningSum::new(plan, &key, "visits".parse()?).unwrap_err().is_noise_issued());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct GuardedKey {
    key: Arc<SecretKey>,
    record: Option<Arc<dyn NoiseRecord>>,
}

impl GuardedKey {
    /// A key whose noise is recorded in `record`.
    ///
    /// ```
    /// use evertally::noise::{GuardedKey, NoiseClaim, NoiseRecord, SecretKey};
    ///
    /// struct Printed;
    /// impl NoiseRecord for Printed {
    ///     fn claim(&self, claim: &NoiseClaim<'_>) -> evertally::Result<()> {
    ///         println!("{} is issued", claim.name);
    ///         Ok(())
    ///     }
    /// }
    /// let key = GuardedKey::new(SecretKey::generate()?, Printed);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn new(key: impl Into<Arc<SecretKey>>, record: impl NoiseRecord + 'static) -> Self {
        Self { key: key.into(), record: Some(Arc::new(record)) }
    }

    /// A key that has never issued noise anywhere. Noise that it issues from now on is recorded in memory.
    ///
    /// After a restart, a program has no record of the noise it issued before: it must save the states of its streams,
    /// and restore them.
    ///
    /// ```
    /// use evertally::noise::{GuardedKey, SecretKey};
    ///
    /// let key = GuardedKey::published_nothing(SecretKey::generate()?);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn published_nothing(key: impl Into<Arc<SecretKey>>) -> Self {
        Self::new(key, InMemory::default())
    }

    /// A key without a record: **the same noise may be used for different data, and their difference is then exact.**
    ///
    /// For simulations, and if another process keeps the record.
    ///
    /// ```
    /// use evertally::noise::{GuardedKey, SecretKey};
    ///
    /// let key = GuardedKey::allow_noise_reuse(SecretKey::generate()?);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn allow_noise_reuse(key: impl Into<Arc<SecretKey>>) -> Self {
        Self { key: key.into(), record: None }
    }

    /// A key that **anyone can compute**, see [`SecretKey::insecure_from_test_seed`]. Nothing is recorded.
    ///
    /// ```
    /// use evertally::noise::{GuardedKey, TestSeed};
    ///
    /// let key = || GuardedKey::insecure_from_test_seed(TestSeed(1));
    /// assert_eq!(key().id(), key().id());
    /// ```
    pub fn insecure_from_test_seed(seed: TestSeed) -> Self {
        Self::allow_noise_reuse(SecretKey::insecure_from_test_seed(seed))
    }

    /// The key alone.
    ///
    /// ```
    /// # use evertally::noise::{GuardedKey, TestSeed};
    /// let key = GuardedKey::insecure_from_test_seed(TestSeed(1));
    /// assert_eq!(key.secret().id(), key.id());
    /// ```
    pub fn secret(&self) -> &Arc<SecretKey> {
        &self.key
    }

    /// Claims noise for an object that issues it from its first step on.
    pub fn begin(&self, name: &StreamName, plan_digest: &[u8; 32], purpose: Purpose<'_>) -> Result<&SecretKey> {
        self.claim(NoiseClaim { name, plan_digest, purpose, part: ALL, is_resumed: false })
    }

    /// Claims noise for an object that resumes from a saved state.
    pub fn resume(&self, name: &StreamName, plan_digest: &[u8; 32], purpose: Purpose<'_>) -> Result<&SecretKey> {
        self.claim(NoiseClaim { name, plan_digest, purpose, part: ALL, is_resumed: true })
    }

    /// Claims the noise of one group for an object that issues it from its first step on.
    pub(crate) fn begin_group(&self, name: &StreamName, plan_digest: &[u8; 32], group: &[u8]) -> Result<&SecretKey> {
        let hash = blake3::hash(group);
        let first = u64::from_le_bytes(*hash.as_bytes().first_chunk().expect("32 bytes")).min(u64::MAX - 1);
        let (purpose, part) = (Purpose::Group(b""), first..first + 1);
        self.claim(NoiseClaim { name, plan_digest, purpose, part, is_resumed: false })
    }

    /// Claims noise for an object.
    pub fn claim(&self, claim: NoiseClaim<'_>) -> Result<&SecretKey> {
        self.record.as_ref().map_or(Ok(()), |record| record.claim(&claim))?;
        Ok(&self.key)
    }

    /// Claims noise for an object that will claim each of its steps, too, with the guard returned here. If the record
    /// does not know steps, this is [`claim`](Self::claim).
    pub fn claim_by_steps(&self, claim: NoiseClaim<'_>) -> Result<(&SecretKey, StepGuard)> {
        let steps = match &self.record {
            Some(record) => record.steps(&claim)?,
            None => None,
        };
        if steps.is_none() {
            self.claim(claim)?;
        }
        Ok((&self.key, StepGuard::new(steps)))
    }
}

impl Deref for GuardedKey {
    type Target = SecretKey;

    fn deref(&self) -> &SecretKey {
        &self.key
    }
}

impl fmt::Debug for GuardedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id: KeyId = self.key.id();
        write!(f, "GuardedKey({id})")
    }
}

/// Identifies noise of a key: name, plan digest, tag and bytes of the purpose.
type NoiseIdentity = (String, [u8; 32], u8, Vec<u8>);

/// A record that lasts as long as the program.
#[derive(Default)]
struct InMemory {
    issued: Mutex<HashMap<NoiseIdentity, Vec<Range<u64>>>>,
}

impl NoiseRecord for InMemory {
    fn claim(&self, claim: &NoiseClaim<'_>) -> Result<()> {
        let (tag, bytes) = claim.purpose.encoding();
        let noise = (claim.name.to_string(), *claim.plan_digest, tag, bytes.to_vec());
        let mut issued = self.issued.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = issued.entry(noise).or_default();
        let part = &claim.part;
        // A state is authenticated under the key and lists the issued steps: it is the record of its stream.
        if !claim.is_resumed && parts.iter().any(|other| other.start < part.end && part.start < other.end) {
            return Err(already_issued_error(claim.name));
        }
        if !parts.contains(part) {
            parts.push(part.clone());
        }
        Ok(())
    }
}

/// The error of a claim on noise that was already issued.
fn already_issued_error(name: &StreamName) -> Error {
    Error::new(
        ErrorKind::NoiseIssued,
        format!(
            "the noise of stream `{name}` under this plan was already issued, and reusing it for other data would \
             reveal their exact difference: use the object that issued it, restore its last state, or choose another \
             name (its budget adds to the budget already spent)"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_begun_once_and_resumed_from_states() {
        let key = GuardedKey::published_nothing(SecretKey::insecure_from_test_seed(TestSeed(1)));
        let (name, other) = ("a".parse().unwrap(), "b".parse().unwrap());
        key.begin(&name, &[1; 32], Purpose::Total).unwrap();
        assert!(key.begin(&name, &[1; 32], Purpose::Total).unwrap_err().is_noise_issued());
        assert!(key.clone().begin(&name, &[1; 32], Purpose::Total).unwrap_err().to_string().contains("stream `a`"));
        // Different noise: another name, plan, purpose or precision.
        key.begin(&other, &[1; 32], Purpose::Total).unwrap();
        key.begin(&name, &[2; 32], Purpose::Total).unwrap();
        key.begin(&name, &[1; 32], Purpose::Vector(32)).unwrap();
        key.begin(&name, &[1; 32], Purpose::Vector(64)).unwrap();
        key.resume(&name, &[1; 32], Purpose::Total).unwrap();
        key.resume(&name, &[3; 32], Purpose::Total).unwrap();
        assert!(
            key.begin(&name, &[3; 32], Purpose::Total).unwrap_err().is_noise_issued(),
            "a resumed object issued it"
        );
    }

    #[test]
    fn ranges_of_coordinates_that_overlap_are_refused() {
        let key = GuardedKey::published_nothing(SecretKey::insecure_from_test_seed(TestSeed(1)));
        let name = "a".parse().unwrap();
        let claimed = |part: Range<u64>, is_resumed| {
            let (plan_digest, purpose) = (&[1; 32], Purpose::Vector(32));
            key.claim(NoiseClaim { name: &name, plan_digest, purpose, part, is_resumed }).is_ok()
        };
        assert!(claimed(0..10, false) && claimed(10..20, false) && claimed(30..40, false));
        assert!(
            !claimed(0..10, false) && !claimed(19..21, false) && !claimed(0..100, false) && !claimed(35..36, false)
        );
        assert!(claimed(20..30, false) && claimed(0..10, true));
    }

    #[test]
    fn a_group_is_one_of_all_groups() {
        let key = GuardedKey::published_nothing(SecretKey::insecure_from_test_seed(TestSeed(1)));
        let (name, other) = ("a".parse().unwrap(), "b".parse().unwrap());
        key.begin_group(&name, &[1; 32], b"north").unwrap();
        key.begin_group(&name, &[1; 32], b"").unwrap();
        assert!(key.begin_group(&name, &[1; 32], b"north").unwrap_err().is_noise_issued());
        assert!(key.begin(&name, &[1; 32], Purpose::Group(b"")).unwrap_err().is_noise_issued());
        key.begin(&other, &[1; 32], Purpose::Group(b"")).unwrap();
        assert!(key.begin_group(&other, &[1; 32], b"north").unwrap_err().is_noise_issued());
    }

    #[test]
    fn keys_without_a_record_say_so() {
        let key = GuardedKey::allow_noise_reuse(SecretKey::insecure_from_test_seed(TestSeed(1)));
        let name = "a".parse().unwrap();
        for _ in 0..2 {
            key.begin(&name, &[1; 32], Purpose::Total).unwrap();
        }
        assert_eq!(format!("{key:?}"), format!("GuardedKey({})", key.id()));
    }
}
