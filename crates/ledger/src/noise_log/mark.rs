//! Marks of data: equal for equal data, and different for different data except with probability 2⁻⁶⁴.
//!
//! A mark is a keyed hash, so the file that stores it reveals only whether data are equal. For vectors it has to be as
//! fast as memory. Each block of 256 words of 32 bits goes through NH (Black, Halevi, Krawczyk, Krovetz, Rogaway 1999),
//! the sum of products of words to which secret words were added: two blocks that differ have equal sums with
//! probability 2⁻³² over the secret. This is done twice, with the second secret being the first one shifted by four
//! words, for 2⁻⁶⁴. The sums of all blocks go through BLAKE3.

use evertally::noise::{FloatSlice, SecretKey, StreamName};
use siphasher::sip::SipHasher24;
use std::ops::Range;
use zeroize::{Zeroize, Zeroizing};

/// Words of a block.
const BLOCK: usize = 256;
/// Double-precision numbers of a block.
const BLOCK_DOUBLES: usize = BLOCK / 2;
/// The shift of the secret in the second pass, in words.
const SHIFT: usize = 4;
/// From this number of words on, threads share the work.
const MIN_WORDS_FOR_THREADS: usize = 1 << 20;

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
    words: Zeroizing<[u32; BLOCK + SHIFT]>,
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
        let mut bytes = Zeroizing::new([0; 16 + 16 + 32 + 4 * (BLOCK + SHIFT)]);
        derived(key, &[b"evertally 1 uses", name.as_str().as_bytes(), plan_digest, purpose], &mut *bytes);
        let (head, rest) = bytes.split_at(64);
        let mut words = Zeroizing::new([0; BLOCK + SHIFT]);
        for (word, bytes) in words.iter_mut().zip(rest.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        let key = Zeroizing::new(head[32..].try_into().expect("32 bytes"));
        let identity = head[..16].try_into().expect("16 bytes");
        Self { identity, marker: DataMarker { sip: sip_key(&head[16..]), key, words } }
    }
}

impl DataMarker {
    /// The mark of an integer sum.
    pub fn sum(&self, sum: i64) -> u64 {
        sip(self.sip, &sum.to_le_bytes()).max(1)
    }

    /// The mark of the numbers that noise is added to in a step. `threads` may read them; 0: one per processor.
    pub fn numbers(&self, step: u64, numbers: FloatSlice<'_>, threads: usize) -> u64 {
        match numbers {
            FloatSlice::Single(numbers) => {
                let blocks = numbers.len().div_ceil(BLOCK);
                self.mark(step, size_of_val(numbers), blocks, threads, |block, words| {
                    let numbers = &numbers[block * BLOCK..numbers.len().min((block + 1) * BLOCK)];
                    words.iter_mut().zip(numbers).for_each(|(word, number)| *word = number.to_bits());
                })
            }
            FloatSlice::Double(numbers) => {
                let blocks = numbers.len().div_ceil(BLOCK_DOUBLES);
                self.mark(step, size_of_val(numbers), blocks, threads, |block, words| {
                    let numbers = &numbers[block * BLOCK_DOUBLES..numbers.len().min((block + 1) * BLOCK_DOUBLES)];
                    for (words, number) in words.as_chunks_mut::<2>().0.iter_mut().zip(numbers) {
                        let bits = number.to_bits();
                        *words = [bits as u32, (bits >> 32) as u32];
                    }
                })
            }
        }
    }

    /// The mark of the bytes that identify the data of a step. It equals that of the [numbers](Self::numbers) if the
    /// bytes are theirs, least significant byte first.
    pub fn bytes(&self, step: u64, bytes: &[u8]) -> u64 {
        self.mark(step, bytes.len(), bytes.len().div_ceil(4 * BLOCK), 1, |block, words| {
            let bytes = &bytes[4 * BLOCK * block..bytes.len().min(4 * BLOCK * (block + 1))];
            for (word, four) in words.iter_mut().zip(bytes.chunks(4)) {
                let mut whole = [0; 4];
                whole[..four.len()].copy_from_slice(four);
                *word = u32::from_le_bytes(whole);
            }
        })
    }

    /// The mark of `len` bytes in this number of blocks, each of which `fill` writes into words.
    fn mark(
        &self,
        step: u64,
        len: usize,
        blocks: usize,
        threads: usize,
        fill: impl Fn(usize, &mut [u32; BLOCK]) + Sync,
    ) -> u64 {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&step.to_le_bytes()).update(&(len as u64).to_le_bytes());
        for sums in self.sums_by_threads(blocks, threads, &fill) {
            hasher.update(&sums);
        }
        let mark = word(hasher.finalize().as_bytes(), 0).max(1);
        hasher.zeroize();
        mark
    }

    /// The sums of all blocks, in pieces, in order.
    fn sums_by_threads(
        &self,
        blocks: usize,
        threads: usize,
        fill: &(impl Fn(usize, &mut [u32; BLOCK]) + Sync),
    ) -> Vec<Vec<u8>> {
        let threads = match threads {
            _ if blocks * BLOCK < MIN_WORDS_FOR_THREADS => 1,
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads.min(blocks),
        };
        if threads == 1 {
            return vec![self.sums(0..blocks, fill)];
        }
        let share = blocks.div_ceil(threads).max(1);
        std::thread::scope(|scope| {
            let start = |from: usize| scope.spawn(move || self.sums(from..blocks.min(from + share), fill));
            let running: Vec<_> = (0..blocks).step_by(share).map(start).collect();
            running.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
        })
    }

    /// The sums of some blocks.
    fn sums(&self, blocks: Range<usize>, fill: &impl Fn(usize, &mut [u32; BLOCK])) -> Vec<u8> {
        let mut sums = Vec::with_capacity(16 * blocks.len());
        for block in blocks {
            // A short last block is padded with 0: the length is hashed, too.
            let mut words = [0; BLOCK];
            fill(block, &mut words);
            for shift in [0, SHIFT] {
                sums.extend(nh(&words, self.words[shift..shift + BLOCK].try_into().expect("a block")).to_le_bytes());
            }
        }
        sums
    }
}

/// The sum over pairs of words, four apart, of the product of both with their secrets added.
fn nh(words: &[u32; BLOCK], secret: &[u32; BLOCK]) -> u64 {
    let mut sums = [0_u64; 4];
    for (words, secret) in words.as_chunks::<8>().0.iter().zip(secret.as_chunks::<8>().0) {
        for (lane, sum) in sums.iter_mut().enumerate() {
            let left = u64::from(words[lane].wrapping_add(secret[lane]));
            let right = u64::from(words[lane + 4].wrapping_add(secret[lane + 4]));
            *sum = sum.wrapping_add(left.wrapping_mul(right));
        }
    }
    sums.into_iter().fold(0, u64::wrapping_add)
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
        let numbers: Vec<f32> = (0..1000).map(|i| i as f32).collect();
        let mark = |numbers: &[f32]| marker.numbers(1, FloatSlice::Single(numbers), 1);
        let own = mark(&numbers);
        assert_eq!(own, mark(&numbers.clone()));
        for changed in [0, 255, 256, 999] {
            let mut other = numbers.clone();
            other[changed] = -other[changed] - 1.0;
            assert_ne!(own, mark(&other), "element {changed}");
        }
        assert_ne!(own, mark(&numbers[..999]));
        assert_ne!(mark(&[0.0; 3]), mark(&[0.0; 4]), "the padding of a block is not data");
        assert_ne!(mark(&[0.0]), mark(&[-0.0]));
        assert_ne!(own, marker.numbers(2, FloatSlice::Single(&numbers), 1));
        assert_ne!(own, super::tests::marker(&key, "other").numbers(1, FloatSlice::Single(&numbers), 1));
        assert_ne!(marker.sum(1), marker.sum(2));
        assert_eq!(marker.sum(-5), marker.sum(-5));
    }

    #[test]
    fn numbers_have_the_mark_of_their_bytes_whatever_the_number_of_threads() {
        let key = SecretKey::insecure_from_test_seed(TestSeed(1));
        let marker = marker(&key, "run");
        let singles: Vec<f32> = (0..MIN_WORDS_FOR_THREADS + 300).map(|i| i as f32).collect();
        let bytes: Vec<u8> = singles.iter().flat_map(|number| number.to_le_bytes()).collect();
        let doubles: Vec<f64> = bytes.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
        let mark = marker.bytes(7, &bytes);
        for threads in [0, 1, 3] {
            assert_eq!(marker.numbers(7, FloatSlice::Single(&singles), threads), mark, "{threads} threads");
            assert_eq!(marker.numbers(7, FloatSlice::Double(&doubles), threads), mark, "{threads} threads");
        }
    }

    /// The derivation, as an independent program computes it from the description in `docs/formats.md`: logs hold it.
    #[test]
    fn marks_of_stored_logs_stay_the_same() {
        let key = SecretKey::from_bytes([7; 32]).unwrap();
        let secrets = StreamSecrets::new(&key, &"visits".parse().unwrap(), &[1; 32], b"sum");
        let mark = secrets.marker.numbers(1, FloatSlice::Single(&[1.0, 2.0]), 1);
        assert_eq!(evertally::hex(&secrets.identity), "d64d1e0136d98006101e774bbea6bdd3");
        assert_eq!((secrets.marker.sum(3), mark), (14227880317084094278, 4014421228555846947));
    }
}
