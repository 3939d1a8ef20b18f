use super::*;

fn words<const N: usize>(seed: u32) -> [u32; N] {
    let mut state = seed;
    std::array::from_fn(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state ^ state >> 15
    })
}

/// The definition, with one product after the other in 128 bits.
fn dense(words: &[u32; BLOCK], secret: &[u32]) -> u64 {
    let sums: Vec<u128> =
        words.iter().zip(secret).map(|(m, k)| (u128::from(*m) + u128::from(*k)) % (1 << 32)).collect();
    (sums.chunks(2).map(|pair| pair[0] * pair[1]).sum::<u128>() % (1 << 64)) as u64
}

#[test]
fn every_instruction_set_has_the_sums_of_the_definition() {
    for (block, secret) in [
        (words(1), words(2)),
        (words(3), [u32::MAX; UniversalHash::SECRET]),
        ([u32::MAX; BLOCK], [0; UniversalHash::SECRET]),
        ([u32::MAX; BLOCK], [u32::MAX; UniversalHash::SECRET]),
    ] {
        let expected = [dense(&block, &secret), dense(&block, &secret[SHIFT..])];
        for instructions in InstructionSet::available() {
            assert_eq!(UniversalHash::new(&secret, instructions).block(&block), expected, "{instructions:?}");
        }
    }
}

#[test]
fn every_word_counts() {
    let hash = UniversalHash::new(&words(5), InstructionSet::best());
    let block = words(6);
    let own = hash.block(&block);
    for place in 0..BLOCK {
        for bit in [0, 31] {
            let mut other = block;
            other[place] ^= 1 << bit;
            let sums = hash.block(&other);
            assert!(sums[0] != own[0] && sums[1] != own[1], "bit {bit} of word {place}");
        }
    }
    // A sum of products that ignores the order of pairs would not notice this.
    let mut swapped = block;
    swapped.swap(0, 2);
    swapped.swap(1, 3);
    assert_ne!(hash.block(&swapped), own);
}

/// The bound of the proof with words of w bits, over all secrets: NH modulo 2^2w of two pairs, and the second sum with
/// the secret shifted by one pair.
#[test]
fn small_blocks_collide_as_seldom_as_proven() {
    const BITS: u32 = 2;
    let (size, modulus) = (1_u32 << BITS, 1_u32 << (2 * BITS));
    let nh = |block: u32, secret: u32| {
        let word = |all: u32, place: u32| all >> (BITS * place) & (size - 1);
        let sum = |place| (word(block, place) + word(secret, place)) % size;
        (sum(0) * sum(1) + sum(2) * sum(3)) % modulus
    };
    // A block of two pairs, and secrets of three.
    let (blocks, secrets) = (1_u32 << (4 * BITS), 1_u32 << (6 * BITS));
    let values: Vec<Vec<[u32; 2]>> = (0..blocks)
        .map(|block| (0..secrets).map(|secret| [nh(block, secret), nh(block, secret >> (2 * BITS))]).collect())
        .collect();
    for first in (0..values.len()).step_by(5) {
        for second in 0..first {
            let pairs = || values[first].iter().zip(&values[second]);
            let once = pairs().filter(|(one, other)| one[0] == other[0]).count();
            let twice = pairs().filter(|(one, other)| one == other).count();
            assert!(once as u32 * size <= secrets && twice as u32 * size * size <= secrets, "{first} and {second}");
        }
    }
}
