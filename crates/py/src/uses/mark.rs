//! Marks of data: equal for equal data, and different for different data except with probability 2⁻⁶⁴.
//!
//! A mark is a keyed hash, so the file that stores it reveals only whether data are equal. For vectors it has to be as
//! fast as memory. Each block of 256 words of 32 bits goes through NH (Black, Halevi, Krawczyk, Krovetz, Rogaway 1999),
//! the sum of products of words to which secret words were added: two blocks that differ have equal sums with
//! probability 2⁻³² over the secret. This is done twice, with the second secret being the first one shifted by four
//! words, for 2⁻⁶⁴. The sums of all blocks go through BLAKE3.

use evertally::noise::{SecretKey, StreamName};
use evertally_training::Real;
use siphasher::sip::SipHasher24;
use zeroize::{Zeroize, Zeroizing};

/// Words of a block.
const BLOCK: usize = 256;
/// The shift of the secret in the second pass, in words.
const SHIFT: usize = 4;
/// From this number of words on, threads share the work.
const WORTH_THREADS: usize = 1 << 20;

/// The values derived from a key for a stream.
pub(crate) struct Secrets {
    /// Identifies the stream in tables and files, and reveals nothing about it.
    pub(crate) identity: [u8; 16],
    pub(crate) marker: Marker,
}

/// Computes marks.
pub(crate) struct Marker {
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

impl Secrets {
    /// The secrets of noise that depends on a key, a name, the digest of a plan, and a purpose.
    pub(crate) fn new(key: &SecretKey, name: &StreamName, digest: &[u8; 32], purpose: &[u8]) -> Self {
        let mut bytes = Zeroizing::new([0; 16 + 16 + 32 + 4 * (BLOCK + SHIFT)]);
        derived(key, &[b"evertally 1 uses", name.as_str().as_bytes(), digest, purpose], &mut *bytes);
        let (head, rest) = bytes.split_at(64);
        let mut words = Zeroizing::new([0; BLOCK + SHIFT]);
        for (word, bytes) in words.iter_mut().zip(rest.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        let key = Zeroizing::new(head[32..].try_into().expect("32 bytes"));
        let identity = head[..16].try_into().expect("16 bytes");
        Self { identity, marker: Marker { sip: sip_key(&head[16..]), key, words } }
    }
}

/// Floating-point numbers as words of 32 bits.
pub(crate) trait Words: Real {
    /// Words per number.
    const EACH: usize;
    /// Writes the bits of numbers into words.
    fn write(numbers: &[Self], words: &mut [u32; BLOCK]);
}

impl Words for f32 {
    const EACH: usize = 1;
    fn write(numbers: &[Self], words: &mut [u32; BLOCK]) {
        words.iter_mut().zip(numbers).for_each(|(word, number)| *word = number.to_bits());
    }
}

impl Words for f64 {
    const EACH: usize = 2;
    fn write(numbers: &[Self], words: &mut [u32; BLOCK]) {
        for (words, number) in words.as_chunks_mut::<2>().0.iter_mut().zip(numbers) {
            let bits = number.to_bits();
            *words = [bits as u32, (bits >> 32) as u32];
        }
    }
}

impl Marker {
    /// The mark of an integer sum.
    pub(crate) fn sum(&self, sum: i64) -> u64 {
        sip(self.sip, &sum.to_le_bytes()).max(1)
    }

    /// The mark of the numbers that noise is added to in a step.
    pub(crate) fn numbers<F: Words>(&self, step: u64, numbers: &[F], threads: usize) -> u64 {
        let each = BLOCK / F::EACH;
        self.marked(step, size_of_val(numbers), numbers.chunks(each).len(), threads, |block, words| {
            F::write(&numbers[block * each..numbers.len().min((block + 1) * each)], words);
        })
    }

    /// The mark of the bytes that identify the data of a step. It equals that of the [numbers](Self::numbers) if the
    /// bytes are theirs.
    pub(crate) fn bytes(&self, step: u64, bytes: &[u8]) -> u64 {
        self.marked(step, bytes.len(), bytes.len().div_ceil(4 * BLOCK), 1, |block, words| {
            let bytes = &bytes[4 * BLOCK * block..bytes.len().min(4 * BLOCK * (block + 1))];
            for (word, four) in words.iter_mut().zip(bytes.chunks(4)) {
                let mut whole = [0; 4];
                whole[..four.len()].copy_from_slice(four);
                *word = u32::from_le_bytes(whole);
            }
        })
    }

    fn marked(
        &self,
        step: u64,
        len: usize,
        blocks: usize,
        threads: usize,
        fill: impl Fn(usize, &mut [u32; BLOCK]) + Sync,
    ) -> u64 {
        let worth = match threads {
            _ if blocks * BLOCK < WORTH_THREADS => 1,
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads.min(blocks),
        };
        let share = blocks.div_ceil(worth).max(1);
        let shares = |from: usize| self.sums(from..blocks.min(from + share), &fill);
        let sums: Vec<Vec<u8>> = if worth == 1 {
            vec![shares(0)]
        } else {
            let shares = &shares;
            std::thread::scope(|scope| {
                let each = (0..blocks).step_by(share).map(|from| scope.spawn(move || shares(from)));
                let each: Vec<_> = each.collect();
                each.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
            })
        };
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&step.to_le_bytes()).update(&(len as u64).to_le_bytes());
        for sums in sums {
            hasher.update(&sums);
        }
        let mark = word(hasher.finalize().as_bytes(), 0).max(1);
        hasher.zeroize();
        mark
    }

    /// The sums of the blocks.
    fn sums(&self, blocks: std::ops::Range<usize>, fill: &impl Fn(usize, &mut [u32; BLOCK])) -> Vec<u8> {
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
