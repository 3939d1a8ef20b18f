//! Keystreams compared with published vectors and other implementations, and every instruction set with the others.

use ::aes::cipher::{BlockCipherEncrypt, KeyInit};
use chacha20::cipher::{KeyIvInit, StreamCipherCore};
use chacha20::{ChaChaCore, R8, R20, variants::Ietf};
use proptest::prelude::*;

use super::*;

/// A block of the cipher computed by another implementation, as little-endian words; `level` with its tail bit.
fn twin(cipher: Cipher, key: &[u8; 32], level: u8, index: u64, counter: u64) -> Vec<u32> {
    let name = (u128::from(index) | u128::from(counter) << 64 | u128::from(level) << 120).to_le_bytes();
    let bytes = match cipher {
        Cipher::Aes128Ctr => {
            let mut block = name.into();
            ::aes::Aes128::new(key[..16].try_into().unwrap()).encrypt_block(&mut block);
            block.to_vec()
        }
        Cipher::ChaCha8 | Cipher::ChaCha20 => {
            // RFC 8439: a counter of 32 bits, then a nonce of 96.
            let place = [&name[8..], &name[..8]].concat();
            let (start, nonce) = place.split_first_chunk::<4>().unwrap();
            let (start, nonce) = (u32::from_le_bytes(*start), nonce.try_into().unwrap());
            let mut block = [0; 64].into();
            if cipher == Cipher::ChaCha8 {
                let mut core = <ChaChaCore<R8, Ietf> as KeyIvInit>::new(key.into(), nonce);
                core.set_block_pos(start);
                core.write_keystream_block(&mut block);
            } else {
                let mut core = <ChaChaCore<R20, Ietf> as KeyIvInit>::new(key.into(), nonce);
                core.set_block_pos(start);
                core.write_keystream_block(&mut block);
            }
            block.to_vec()
        }
    };
    bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

#[test]
fn first_blocks_are_those_of_another_implementation() {
    let key = std::array::from_fn(|i| i as u8 ^ 0x5a);
    let words = std::array::from_fn(|i| u32::from_le_bytes(key[4 * i..][..4].try_into().unwrap()));
    let names = std::array::from_fn(|i| ((i as u32).wrapping_mul(0x0123_4567), u64::MAX / (i as u64 + 1)));
    for instructions in InstructionSet::available() {
        let mut blocks = FirstBlocks::default();
        blocks.compute(instructions, &words, &names);
        for (number, (level, index)) in names.iter().enumerate() {
            let place = [level.to_le_bytes().as_slice(), &index.to_le_bytes()].concat();
            let mut core = <ChaChaCore<R20, Ietf> as KeyIvInit>::new(&key.into(), place.as_slice().try_into().unwrap());
            let mut twin = [0; 64].into();
            core.write_keystream_block(&mut twin);
            assert_eq!(blocks.block(number).as_slice(), twin.as_slice(), "{instructions:?}");
            let halves = twin.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes));
            assert!((0..32).map(|place| blocks.half_word(number, place)).eq(halves));
        }
    }
}

/// Words as the start of a block, whose halves are often equal, and a block of every instruction set.
#[test]
fn descents_are_the_order_of_neighbours() {
    let twin = |numbers: [u16; FirstBlocks::COMPARED]| {
        let falls = (0..11).map(|i| u32::from(numbers[i + 1] < numbers[i]) << i).sum::<u32>();
        falls | u32::from((0..11).any(|i| numbers[i + 1] == numbers[i])) << 11
    };
    let edges = [0u16, 1, 0x7fff, 0x8000, 0xffff];
    let mut state = 1u64;
    for few in [2, 5, 1 << 16] {
        for _ in 0..2000 {
            let numbers = std::array::from_fn(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let random = (state >> 40) as usize % few;
                edges.get(random).copied().filter(|_| few <= edges.len()).unwrap_or(random as u16)
            });
            let words = std::array::from_fn(|i| u32::from(numbers[2 * i]) | u32::from(numbers[2 * i + 1]) << 16);
            assert_eq!(chacha::descents_of(words), twin(numbers), "{numbers:x?}");
        }
    }
    for instructions in InstructionSet::available() {
        for first in (0..1 << 12).step_by(16) {
            let mut blocks = FirstBlocks::default();
            blocks.compute(instructions, &[7; 8], &std::array::from_fn(|i| (3, first + i as u64)));
            for number in 0..16 {
                let numbers = std::array::from_fn(|i| blocks.half_word(number, i));
                assert_eq!(blocks.descents(number), twin(numbers), "{instructions:?}");
            }
        }
    }
}

/// A word of the layout, from one block of the twin.
fn twin_word(cipher: Cipher, key: &[u8; 32], node: BlockName, word: u64) -> u32 {
    let (counter, place) = match cipher {
        Cipher::Aes128Ctr => (word / 4, word % 4),
        Cipher::ChaCha8 | Cipher::ChaCha20 => (word / 256 * 16 + word % 16, word % 256 / 16),
    };
    twin(cipher, key, node.level, node.index, counter)[place as usize]
}

fn filled(stream: &Keystream, node: BlockName, first: u64, length: usize) -> Vec<u32> {
    let mut words = vec![0xdead_beef; length];
    stream.fill(node, first, &mut words);
    words
}

/// The first word beyond every keystream.
fn end(cipher: Cipher) -> u64 {
    match cipher {
        Cipher::Aes128Ctr => 1 << 58,
        Cipher::ChaCha8 | Cipher::ChaCha20 => 1 << 60,
    }
}

fn ciphers() -> impl Strategy<Value = Cipher> {
    prop::sample::select(Cipher::ALL.to_vec())
}

fn nodes() -> impl Strategy<Value = BlockName> {
    (0..128u8, any::<u64>()).prop_map(|(level, index)| BlockName { level, index })
}

/// Where a range starts and how long it is: near the beginning, near the point where the counter needs more than 32
/// bits, up to the end, or anywhere.
fn ranges(cipher: Cipher) -> impl Strategy<Value = (u64, usize)> {
    let end = end(cipher);
    let first = prop_oneof![0..2000u64, (end >> 24) - 2000..(end >> 24) + 500, end - 2000..=end, 0..end];
    (first, prop_oneof![0..40usize, 0..2000usize]).prop_map(move |(first, length)| {
        let left = end - first;
        (first, length.min(left.try_into().unwrap_or(usize::MAX)))
    })
}

proptest! {
    #[test]
    fn every_path_gives_the_words_of_the_portable_one(
        key: [u8; 32],
        node in nodes(),
        (cipher, (first, length)) in ciphers().prop_flat_map(|cipher| (Just(cipher), ranges(cipher))),
    ) {
        let expected = filled(&Keystream::new(cipher, &key, InstructionSet::PORTABLE), node, first, length);
        for instructions in InstructionSet::available() {
            let words = filled(&Keystream::new(cipher, &key, instructions), node, first, length);
            prop_assert_eq!(&words, &expected, "{:?}", instructions);
        }
    }

    #[test]
    fn words_and_tails_are_those_of_other_implementations(
        key: [u8; 32],
        node in nodes(),
        (cipher, (first, length)) in ciphers().prop_flat_map(|cipher| (Just(cipher), ranges(cipher))),
        coordinate in prop_oneof![
            0..100u64, (1u64 << 32) - 100..(1 << 32) + 100, COUNTERS - 100..COUNTERS, 0..COUNTERS,
        ],
    ) {
        let bits = twin(cipher, &key, node.level | 0x80, node.index, coordinate);
        let tail = (0..4).map(|i| u128::from(bits[i]) << (32 * i)).sum::<u128>();
        for instructions in InstructionSet::available() {
            let stream = Keystream::new(cipher, &key, instructions);
            let words = filled(&stream, node, first, length);
            for at in (0..length).step_by(37) {
                let expected = twin_word(cipher, &key, node, first + at as u64);
                prop_assert_eq!(words[at], expected, "{:?}, word {}", instructions, at);
            }
            prop_assert_eq!(stream.tail(node, coordinate), tail, "{:?}", instructions);
        }
    }

    #[test]
    fn pieces_of_any_lengths_make_the_whole(
        key: [u8; 32],
        node in nodes(),
        (cipher, (first, length)) in ciphers().prop_flat_map(|cipher| (Just(cipher), ranges(cipher))),
        pieces in prop::collection::vec(prop_oneof![0..20usize, 0..700usize], 1..10),
    ) {
        for instructions in InstructionSet::available() {
            let stream = Keystream::new(cipher, &key, instructions);
            let mut words = vec![0; length];
            let (mut rest, mut at) = (&mut words[..], first);
            for piece in pieces.iter().copied().chain([usize::MAX]) {
                let (piece, after) = rest.split_at_mut(piece.min(rest.len()));
                stream.fill(node, at, piece);
                (rest, at) = (after, at + piece.len() as u64);
            }
            prop_assert_eq!(words, filled(&stream, node, first, length), "{:?}", instructions);
        }
    }
}

/// The blocks of one node, one after the other, as the ciphers' own specifications number their bytes.
fn block(stream: &Keystream, node: BlockName, counter: u64) -> Vec<u8> {
    let words = match stream.cipher() {
        Cipher::Aes128Ctr => filled(stream, node, 4 * counter, 4),
        Cipher::ChaCha8 | Cipher::ChaCha20 => {
            let group = filled(stream, node, counter / 16 * 256, 256);
            (0..16).map(|row| group[16 * row + (counter % 16) as usize]).collect()
        }
    };
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits = hexadecimal.as_bytes().as_chunks::<2>().0;
    digits.iter().map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

/// FIPS 197, appendix B and C.1, and NIST SP 800-38A, F.5.1: input blocks are names, so a last byte of 128 or more
/// marks a tail.
#[test]
fn aes_gives_the_vectors_of_nist() {
    for instructions in InstructionSet::available() {
        for (key, input, output) in [
            (
                "2b7e151628aed2a6abf7158809cf4f3c",
                "3243f6a8885a308d313198a2e0370734",
                "3925841d02dc09fbdc118597196a0b32",
            ),
            (
                "000102030405060708090a0b0c0d0e0f",
                "00112233445566778899aabbccddeeff",
                "69c4e0d86a7b0430d8cdb78070b4c55a",
            ),
            (
                "2b7e151628aed2a6abf7158809cf4f3c",
                "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
                "ec8cdf7398607cb0f2d21675ea9ea1e4",
            ),
            (
                "2b7e151628aed2a6abf7158809cf4f3c",
                "f0f1f2f3f4f5f6f7f8f9fafbfcfdff00",
                "362b7c3c6773516318a077d7fc5073ae",
            ),
            (
                "2b7e151628aed2a6abf7158809cf4f3c",
                "f0f1f2f3f4f5f6f7f8f9fafbfcfdff01",
                "6a2cc3787889374fbeb4c81b17ba6c44",
            ),
            (
                "2b7e151628aed2a6abf7158809cf4f3c",
                "f0f1f2f3f4f5f6f7f8f9fafbfcfdff02",
                "e89c399ff0f198c6d40a31db156cabfe",
            ),
        ] {
            // The second half of the key must not matter.
            let key = [bytes(key), vec![0x5a; 16]].concat();
            let stream = Keystream::new(Cipher::Aes128Ctr, key[..].try_into().unwrap(), instructions);
            let input = bytes(input);
            let index = u64::from_le_bytes(input[..8].try_into().unwrap());
            let upper = u64::from_le_bytes(input[8..].try_into().unwrap());
            let (level, counter) = ((upper >> 56) as u8, upper % COUNTERS);
            let node = BlockName { level: level & 0x7f, index };
            let got = match level {
                0..128 => block(&stream, node, counter),
                128.. => stream.tail(node, counter).to_le_bytes().to_vec(),
            };
            assert_eq!(got, bytes(output), "{instructions:?}");
        }
    }
}

/// RFC 8439, 2.3.2 (its nonce read as level and index), and the vector of ChaCha8 with zeros for key, counter and
/// nonce.
#[test]
fn chacha_gives_published_vectors() {
    let counting = std::array::from_fn(|i| i as u8);
    for instructions in InstructionSet::available() {
        let stream = Keystream::new(Cipher::ChaCha20, &counting, instructions);
        let expected = "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e\
                        d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e";
        assert_eq!(block(&stream, BlockName { level: 9, index: 0x4a00_0000 }, 1), bytes(expected), "{instructions:?}");

        let stream = Keystream::new(Cipher::ChaCha8, &[0; 32], instructions);
        let expected = "3e00ef2f895f40d67f5bb8e81f09a5a12c840ec3ce9a7f3b181be188ef711a1e\
                        984ce172b9216f419f445367456d5619314a42a3da86b001387bfdb80e0cfe42";
        assert_eq!(block(&stream, BlockName { level: 0, index: 0 }, 0), bytes(expected), "{instructions:?}");
    }
}

/// Saved states are continued with these bits: they must never change. Rows printed by `golden.py`.
#[test]
fn the_words_are_frozen() {
    let key = std::array::from_fn(|i| 3 * i as u8 + 1);
    let node = BlockName { level: 5, index: 0x0123_4567_89ab_cdef };
    for instructions in InstructionSet::available() {
        for (cipher, first, far, tail) in [
            (
                Cipher::Aes128Ctr,
                [0x26e0_6883, 0x682e_f2eb, 0xa4c1_7b80, 0x7bfe_6bdb],
                [0x5151_643a, 0x044a_a00a, 0x1d5a_0e02, 0xdfc6_3421],
                0xf34a_c38c_59f7_0b0f_621e_0b2d_341b_9ade,
            ),
            (
                Cipher::ChaCha8,
                [0xba73_ecea, 0x69ed_df21, 0x6ae7_a40b, 0x380b_a487],
                [0x7331_7f75, 0x2b3c_bd78, 0x67ee_bf56, 0x5fee_c5b2],
                0x331d_d170_d817_a327_26e0_8708_c271_2151,
            ),
            (
                Cipher::ChaCha20,
                [0xba31_6892, 0xb17e_ef6e, 0xfbea_aa87, 0xedc4_1061],
                [0xcf72_a36f, 0x2771_6c05, 0xa2ac_8bd9, 0xebab_974a],
                0xd849_1c9d_f5db_85a0_eaa4_8b67_32f5_8fe9,
            ),
        ] {
            let stream = Keystream::new(cipher, &key, instructions);
            assert_eq!(filled(&stream, node, 0, 4), first, "{cipher} {instructions:?}");
            assert_eq!(filled(&stream, node, (1 << 40) + 254, 4), far, "{cipher} {instructions:?}");
            assert_eq!(stream.tail(node, 1_000_003), tail, "{cipher} {instructions:?}");
        }
    }
}

#[test]
fn names_are_read_as_they_are_written() {
    for cipher in Cipher::ALL {
        assert_eq!(cipher.to_string().parse(), Ok(cipher));
    }
    let error = "aes".parse::<Cipher>().unwrap_err().to_string();
    assert_eq!(error, "unknown cipher \"aes\": use one of aes-128-ctr, chacha8, chacha20");
}

/// An invalid range is rejected before anything is written.
#[test]
fn names_that_do_not_exist_are_refused() {
    let refused = |call: &dyn Fn(&Keystream), cipher| {
        let stream = Keystream::new(cipher, &[1; 32], InstructionSet::PORTABLE);
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| call(&stream))).is_err()
    };
    let (node, high) = (BlockName { level: 127, index: 0 }, BlockName { level: 128, index: 0 });
    for cipher in Cipher::ALL {
        let end = end(cipher);
        assert!(!refused(&|stream| stream.fill(node, end - 1, &mut [0]), cipher));
        assert!(!refused(&|stream| stream.fill(node, end, &mut []), cipher));
        assert!(!refused(&|stream| _ = stream.tail(node, COUNTERS - 1), cipher));
        assert!(refused(&|stream| stream.fill(node, end - 1, &mut [0; 2]), cipher));
        assert!(refused(&|stream| stream.fill(node, u64::MAX, &mut [0; 2]), cipher));
        assert!(refused(&|stream| stream.fill(high, 0, &mut [0]), cipher));
        assert!(refused(&|stream| _ = stream.tail(node, COUNTERS), cipher));
        assert!(refused(&|stream| _ = stream.tail(high, 0), cipher));
    }
}

#[test]
fn nothing_secret_is_shown_and_keys_are_overwritten() {
    fn overwritten<T: zeroize::ZeroizeOnDrop>() {}
    fn shared<T: Send + Sync>() {}
    overwritten::<::aes::Aes128Enc>(); // only with its feature `zeroize`
    overwritten::<chacha::ChaChaKey>();
    #[cfg(target_arch = "x86_64")]
    overwritten::<super::aes::x86::AesRoundKeys>();
    shared::<Keystream>();
    let stream = Keystream::new(Cipher::ChaCha20, &[0x55; 32], InstructionSet::PORTABLE);
    assert_eq!(format!("{stream:?}"), "Keystream { cipher: ChaCha20, instructions: portable, .. }");
}
