//! Marks of data: equal for equal data, and different for different data except with probability 2⁻⁶³.
//!
//! A mark is a keyed hash, so the file that stores it reveals only whether data are equal. For vectors it has to be as
//! fast as memory. Each block of 1024 words of 32 bits goes through a [`UniversalHash`]: two blocks that differ have
//! equal values with probability at most 2⁻⁶⁴ over its secret. The values of all blocks and the length go through keyed
//! BLAKE3, of which 64 bits are kept: different values or lengths have equal marks with probability 2⁻⁶⁴.

use evertally::noise::{FloatSlice, SecretKey, StreamName};
use evertally::number::threads;
use evertally_kernels::{InstructionSet, Real, UniversalHash};
use siphasher::sip::SipHasher24;
use std::sync::{Mutex, OnceLock, PoisonError};
use zeroize::{Zeroize, Zeroizing};

/// Words of a block.
const BLOCK: usize = UniversalHash::BLOCK;
/// Blocks that a thread hashes in one piece.
const PIECE: usize = 64;

/// The values derived from a key for one stream of noise.
pub struct StreamSecrets {
    /// Identifies the stream in logs, and reveals nothing about it.
    pub identity: [u8; 16],
    /// Computes the marks of its data.
    pub marker: DataMarker,
}

/// Computes marks of data.
pub struct DataMarker {
    sip: (u64, u64),
    key: Zeroizing<[u8; 32]>,
    /// Derived for the first vector: millions of sums have markers, too.
    hash: OnceLock<UniversalHash>,
}

/// The mark of a vector, and what the same pass over it found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VectorMark {
    /// The mark.
    pub mark: u64,
    /// The sum of squares, see [`Real::squares`].
    pub squares: f64,
}

/// Bytes derived from a key and the fields, each prefixed with its length.
pub(super) fn derived(key: &SecretKey, fields: &[&[u8]], bytes: &mut [u8]) {
    let mut hasher = blake3::Hasher::new_keyed(key.expose_bytes());
    for field in fields {
        hasher.update(&(field.len() as u64).to_le_bytes()).update(field);
    }
    hasher.finalize_xof().fill(bytes);
    hasher.zeroize();
}

/// A keyed hash of 64 bits.
pub(super) fn sip((k0, k1): (u64, u64), bytes: &[u8]) -> u64 {
    SipHasher24::new_with_keys(k0, k1).hash(bytes)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

/// The key of [`sip`] in bytes.
pub(super) fn sip_key(bytes: &[u8]) -> (u64, u64) {
    (word(bytes, 0), word(bytes, 8))
}

impl StreamSecrets {
    /// The secrets of noise that depends on a key, a name, the digest of a plan, and a purpose.
    ///
    /// Purposes are labels that separate kinds of noise: `sum`, `vector 32`, …, see `docs/formats.md`.
    pub fn new(key: &SecretKey, name: &StreamName, plan_digest: &[u8; 32], purpose: &[u8]) -> Self {
        let mut bytes = Zeroizing::new([0; 16 + 16 + 32]);
        derived(key, &[b"evertally 1 uses", name.as_str().as_bytes(), plan_digest, purpose], &mut *bytes);
        let key = Zeroizing::new(bytes[32..].try_into().expect("32 bytes"));
        let identity = bytes[..16].try_into().expect("16 bytes");
        Self { identity, marker: DataMarker { sip: sip_key(&bytes[16..]), key, hash: OnceLock::new() } }
    }
}

impl DataMarker {
    /// The mark of an integer sum.
    pub fn sum(&self, sum: i64) -> u64 {
        sip(self.sip, &sum.to_le_bytes()).max(1)
    }

    /// The mark of the numbers that noise is added to in a step. `threads` may read them; 0: one per processor.
    pub fn numbers(&self, step: u64, numbers: FloatSlice<'_>, threads: usize) -> VectorMark {
        match numbers {
            FloatSlice::Single(numbers) => self.numbers_of(step, numbers, threads),
            FloatSlice::Double(numbers) => self.numbers_of(step, numbers, threads),
        }
    }

    fn numbers_of<F: Real>(&self, step: u64, numbers: &[F], threads: usize) -> VectorMark {
        let (hash, block) = (self.hash(), BLOCK * size_of::<u32>() / size_of::<F>());
        let mut values = vec![[0; 2]; numbers.len().div_ceil(block)];
        let squares = Mutex::new(0.0);
        let pieces = numbers.chunks(block * PIECE).zip(values.chunks_mut(PIECE));
        threads::share(threads::helpful(threads, numbers.len()), pieces, |pieces| {
            let mut own = 0.0;
            for (numbers, values) in pieces {
                for (numbers, value) in numbers.chunks(block).zip(values) {
                    own += F::squares(hash.instructions(), numbers);
                    *value = hash.block(&F::words(numbers));
                }
            }
            *squares.lock().unwrap_or_else(PoisonError::into_inner) += own;
        });
        let squares = squares.into_inner().unwrap_or_else(PoisonError::into_inner);
        VectorMark { mark: self.mark(step, size_of_val(numbers), &values), squares }
    }

    /// The mark of the bytes that identify the data of a step. It equals that of the [numbers](Self::numbers) if the
    /// bytes are theirs, least significant byte first.
    pub fn bytes(&self, step: u64, bytes: &[u8]) -> u64 {
        let value = |bytes: &[u8]| {
            let mut words = [0; BLOCK];
            for (word, four) in words.iter_mut().zip(bytes.chunks(4)) {
                let mut whole = [0; 4];
                whole[..four.len()].copy_from_slice(four);
                *word = u32::from_le_bytes(whole);
            }
            self.hash().block(&words)
        };
        self.mark(step, bytes.len(), &bytes.chunks(4 * BLOCK).map(value).collect::<Vec<_>>())
    }

    /// The mark of `len` bytes, the blocks of which have these values. The last block is padded with 0.
    fn mark(&self, step: u64, len: usize, values: &[[u64; 2]]) -> u64 {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&step.to_le_bytes()).update(&(len as u64).to_le_bytes());
        let mut bytes = Zeroizing::new([0; 16 * PIECE]);
        for values in values.chunks(PIECE) {
            for (bytes, value) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(values.as_flattened()) {
                *bytes = value.to_le_bytes();
            }
            hasher.update(&bytes[..16 * values.len()]);
        }
        let mark = word(hasher.finalize().as_bytes(), 0).max(1);
        hasher.zeroize();
        mark
    }

    fn hash(&self) -> &UniversalHash {
        self.hash.get_or_init(|| {
            let mut bytes = Zeroizing::new([0; 4 * UniversalHash::SECRET]);
            // Eleven bytes: all that is hashed with this key elsewhere has 16 or more.
            let mut hasher = blake3::Hasher::new_keyed(&self.key);
            hasher.update(b"block words").finalize_xof().fill(&mut *bytes);
            hasher.zeroize();
            let mut words = Zeroizing::new([0; UniversalHash::SECRET]);
            for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *word = u32::from_le_bytes(*bytes);
            }
            UniversalHash::new(&words, InstructionSet::best())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evertally::noise::TestSeed;

    fn marker(key: &SecretKey, name: &str) -> DataMarker {
        StreamSecrets::new(key, &name.parse().unwrap(), &[1; 32], b"vector 32").marker
    }

    #[test]
    fn equal_data_have_equal_marks_and_other_data_others() {
        let key = SecretKey::insecure_from_test_seed(TestSeed(1));
        let marker = marker(&key, "run");
        let numbers: Vec<f32> = (0..3000).map(|i| i as f32).collect();
        let mark = |numbers: &[f32]| marker.numbers(1, FloatSlice::Single(numbers), 1).mark;
        let own = mark(&numbers);
        assert_eq!(own, mark(&numbers.clone()));
        for changed in [0, 1023, 1024, 2999] {
            let mut other = numbers.clone();
            other[changed] = -other[changed] - 1.0;
            assert_ne!(own, mark(&other), "element {changed}");
        }
        assert_ne!(own, mark(&numbers[..2999]));
        assert_ne!(mark(&[0.0; 3]), mark(&[0.0; 4]), "the padding of a block is not data");
        assert_ne!(mark(&[0.0]), mark(&[-0.0]));
        assert_ne!(own, marker.numbers(2, FloatSlice::Single(&numbers), 1).mark);
        assert_ne!(own, super::tests::marker(&key, "other").numbers(1, FloatSlice::Single(&numbers), 1).mark);
        assert_ne!(marker.sum(1), marker.sum(2));
        assert_eq!(marker.sum(-5), marker.sum(-5));
    }

    #[test]
    fn numbers_have_the_mark_of_their_bytes_whatever_the_number_of_threads() {
        let key = SecretKey::insecure_from_test_seed(TestSeed(1));
        let marker = marker(&key, "run");
        let singles: Vec<f32> = (0..(1 << 18) + 300).map(|i| i as f32 / 300.0).collect();
        let bytes: Vec<u8> = singles.iter().flat_map(|number| number.to_le_bytes()).collect();
        let doubles: Vec<f64> = bytes.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
        let mark = marker.bytes(7, &bytes);
        let squares: f64 = singles.iter().map(|number| f64::from(*number).powi(2)).sum();
        for threads in [0, 1, 3] {
            let found = marker.numbers(7, FloatSlice::Single(&singles), threads);
            assert_eq!(found.mark, mark, "{threads} threads");
            assert!((found.squares / squares - 1.0).abs() < 1e-4);
            assert_eq!(marker.numbers(7, FloatSlice::Double(&doubles), threads).mark, mark, "{threads} threads");
        }
    }

    /// The derivation, as an independent program computes it from the description in `docs/formats.md`: logs hold it.
    #[test]
    fn marks_of_stored_logs_stay_the_same() {
        let key = SecretKey::from_bytes([7; 32]).unwrap();
        let secrets = StreamSecrets::new(&key, &"visits".parse().unwrap(), &[1; 32], b"sum");
        let mark = secrets.marker.numbers(1, FloatSlice::Single(&[1.0, 2.0]), 1).mark;
        assert_eq!(evertally::hex(&secrets.identity), "d64d1e0136d98006101e774bbea6bdd3");
        assert_eq!((secrets.marker.sum(3), mark), (14227880317084094278, 7248833546775158164));
    }
}
