//! Keys, subkeys and the cipher.

use std::collections::HashSet;

use chacha20::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};
use chacha20::{ChaCha12, ChaCha20};
use proptest::prelude::*;

use super::super::{KeyId, KeyedNoise, Node, Purpose, RandomBits, SecretKey, StreamName, TestSeed, chacha, mac_key};
use super::{name, node, noise};

/// RFC 8439, section 2.3.2.
#[test]
fn block_is_the_one_of_the_rfc() {
    let key = std::array::from_fn(|i| u32::from_le_bytes(std::array::from_fn(|j| (4 * i + j) as u8)));
    // Nonce 00:00:00:09 00:00:00:4a:00:00:00:00.
    let block = chacha::block(&key, 1, Node { level: 0x0900_0000, index: 0x4a00_0000 });
    let expected = "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e\
                    d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e";
    assert_eq!(block.map(|byte| format!("{byte:02x}")).concat(), expected);
}

proptest! {
    #[test]
    fn block_is_the_one_of_the_crate(key: [u8; 32], counter: u32, level: u32, index: u64) {
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&level.to_le_bytes());
        nonce[4..].copy_from_slice(&index.to_le_bytes());
        let mut cipher = ChaCha20::new(&key.into(), &nonce.into());
        cipher.seek(u64::from(counter) * 64);
        let mut expected = [0; 64];
        // The crate rejects the last block.
        prop_assume!(cipher.try_apply_keystream(&mut expected).is_ok());
        let words = std::array::from_fn(|i| u32::from_le_bytes(std::array::from_fn(|j| key[4 * i + j])));
        prop_assert_eq!(chacha::block(&words, counter, Node { level, index }), expected);
        let mut cipher = ChaCha12::new(&key.into(), &nonce.into());
        cipher.seek(64 * u64::from(counter));
        let mut expected = [0; 64];
        cipher.apply_keystream(&mut expected);
        let node = Node { level, index };
        prop_assert_eq!(chacha::mixed(&words, counter, node, chacha::DoubleRounds::Twelve), expected);
    }

    /// However the bytes are read, they are the same stream.
    #[test]
    fn reads_of_all_lengths_walk_one_stream(lengths in prop::collection::vec(0..5u8, 1..60)) {
        let noise = noise(1);
        let all = noise.bits(node(3)).take::<1024>();
        let (mut bits, mut at) = (noise.bits(node(3)), 0);
        for length in lengths {
            let read = match length {
                0 => u128::from(bits.next_u8()),
                1 => u128::from(bits.next_u16()),
                2 => u128::from(bits.next_u32()),
                3 => u128::from(bits.next_u64()),
                _ => bits.next_u128(),
            };
            let n = 1 << length;
            let mut expected = [0; 16];
            expected[..n].copy_from_slice(&all[at..at + n]);
            prop_assert_eq!(read, u128::from_le_bytes(expected));
            at += n;
        }
    }
}

#[test]
fn a_node_runs_out_loudly() {
    let noise = noise(1);
    let mut bits = noise.bits(node(0));
    bits.skip_to_last_block();
    bits.take::<64>();
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| bits.next_u8()));
    assert!(panic.is_err());
}

/// A read has 2^16 separate blocks: the last one is not followed by those of the next sum.
#[test]
fn a_read_runs_out_loudly() {
    let noise = noise(1);
    let mut bits = noise.quick_bits_of_read(7, 9);
    let mut all = HashSet::new();
    for _ in 0..1 << 16 {
        assert!(all.insert(bits.take::<64>()));
    }
    assert!(!all.contains(&noise.quick_bits_of_read(8, 9).take::<64>()));
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| bits.next_u8()));
    assert!(panic.is_err());
}

#[test]
fn every_part_of_the_address_matters() {
    let keys = [1, 2].map(|seed| SecretKey::insecure_from_test_seed(TestSeed(seed)));
    let names = ["a", "ab", "b"].map(name);
    let purposes = [
        Purpose::Total,
        Purpose::Group(b""),
        Purpose::Group(b"a"),
        Purpose::Group(b"a\0"),
        Purpose::State,
        Purpose::Ledger,
        Purpose::Sums,
        Purpose::Reads(1),
        Purpose::Reads(2),
        Purpose::Hashing,
        Purpose::Persons,
        Purpose::Batches,
        Purpose::Rows(32),
        Purpose::Vector(32),
    ];
    let mut seen = HashSet::new();
    let mut count = 0;
    for key in &keys {
        for name in &names {
            for digest in [[0; 32], [1; 32]] {
                for purpose in purposes {
                    seen.insert(*mac_key(key, name, &digest, purpose));
                    let noise = KeyedNoise::unrecorded(key, name, &digest, purpose);
                    for (level, index) in [(0, 0), (0, 1), (1, 0), (0, 1 << 32), (1 << 31, 0)] {
                        seen.insert(noise.bits(Node { level, index }).take());
                    }
                    for (sum, step) in [(0, 0), (1, 0), (1 << 16, 0), (1 << 47, 0), (0, 1), (0, 1 << 63)] {
                        seen.insert(noise.bits_of_read(sum, step).take());
                        seen.insert(noise.quick_bits_of_read(sum, step).take());
                        seen.insert(noise.of_sum(sum).bits(Node { level: 5, index: step }).take());
                    }
                    // Four of these reads use the same blocks as four of those nodes: a key of one purpose is used for
                    // only one of the two.
                    count += 6 + 18 - 4;
                }
            }
        }
    }
    assert_eq!(seen.len(), count);
}

#[test]
fn keys_keep_their_secret() {
    let key = SecretKey::from_bytes([0xab; 32]).unwrap();
    let shown = format!("{key:?} {:?} {:?}", noise(1), noise(1).bits(node(0)));
    assert!(!shown.contains("abab") && !shown.contains("171"), "{shown}");
    assert!(SecretKey::from_bytes([0; 32]).unwrap_err().is_invalid());
    assert_eq!(SecretKey::from_bytes(*key.expose_bytes()).unwrap(), key);
    assert_ne!(SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
}

#[test]
fn key_ids_read_back_and_reject_everything_else() {
    let id = SecretKey::insecure_from_test_seed(TestSeed(7)).id();
    assert_eq!(id.to_string().parse::<KeyId>().unwrap(), id);
    let json = serde_json::to_string(&id).unwrap();
    assert_eq!(json, format!("\"{id}\""));
    assert_eq!(serde_json::from_str::<KeyId>(&json).unwrap(), id);
    for bad in ["", "00", &"0".repeat(31), &"0".repeat(33), &"A".repeat(32), &"+".repeat(32), &"é".repeat(16)] {
        assert!(bad.parse::<KeyId>().unwrap_err().is_invalid(), "{bad}");
        assert!(serde_json::from_str::<KeyId>(&format!("{bad:?}")).is_err());
    }
    // Leading zeros are kept.
    let zeros = format!("{:032x}", 5);
    assert_eq!(zeros.parse::<KeyId>().unwrap().to_string(), zeros);
}

#[test]
fn stream_names_are_validated_everywhere() {
    let longest = "x".repeat(StreamName::MAX_BYTES);
    for good in ["a", "Straße / 日本", longest.as_str()] {
        let name = name(good);
        let json = serde_json::to_string(&name).unwrap();
        assert_eq!(serde_json::from_str::<StreamName>(&json).unwrap(), name);
        assert_eq!(name.as_str(), good);
    }
    let long = "é".repeat(101);
    for bad in ["", "tab\t", "nul\0", "del\u{7f}", "c1\u{85}", long.as_str()] {
        assert!(StreamName::new(bad).unwrap_err().is_invalid(), "{bad:?}");
        assert!(serde_json::from_str::<StreamName>(&serde_json::to_string(bad).unwrap()).is_err());
    }
}
