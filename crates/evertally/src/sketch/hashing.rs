//! Keyed hash functions: the place of an item in every row of a table, and its sign.

use super::Table;
use crate::noise::{Purpose, SecretKey, StreamName, mac_key};
use std::fmt;
use zeroize::Zeroizing;

/// An item, as the bytes that name it. Different items must have different bytes: if fields vary in length, include
/// their lengths. A `u64` is its 8 bytes, little endian.
///
/// ```
/// use evertally::sketch::Item;
/// assert_eq!(Item::from(258u64).as_bytes(), [2, 1, 0, 0, 0, 0, 0, 0]);
/// assert_eq!(Item::from("zebra").as_bytes(), b"zebra");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a>(Name<'a>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name<'a> {
    Bytes(&'a [u8]),
    Number([u8; 8]),
}

impl Item<'_> {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Name::Bytes(bytes) => bytes,
            Name::Number(bytes) => bytes,
        }
    }
}

impl<'a> From<&'a [u8]> for Item<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self(Name::Bytes(bytes))
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Item<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self(Name::Bytes(bytes))
    }
}

impl<'a> From<&'a str> for Item<'a> {
    fn from(text: &'a str) -> Self {
        Self(Name::Bytes(text.as_bytes()))
    }
}

impl From<u64> for Item<'_> {
    fn from(number: u64) -> Self {
        Self(Name::Number(number.to_le_bytes()))
    }
}

/// The hash functions of a table.
///
/// **Key.** The message authentication key of [`mac_key`] for [`Purpose::Hashing`] under a *hash name* and 32 zero
/// bytes instead of a plan's digest. Neither the plan nor the shape enters the key: sketches of other budgets or
/// horizons have the same functions if key and hash name are the same, which products and sums of sketches need.
///
/// **Functions.** BLAKE3 keyed with that, over the item's bytes, extended as far as needed: 8 bytes, little endian, per
/// row, so that one call serves 8 rows. Of such a word `u` the bucket is `⌊u w / 2^64⌋`, and the lowest bit gives the
/// sign. A bucket's probability is off by less than `2^-64`, so that all together are off by at most `w/2^64`; given a
/// bucket, the sign is off by as much as the bucket's probability, relatively at most `w/2^64 ≤ 2^-32`.
///
/// ```
/// use evertally::noise::SecretKey;
/// use evertally::sketch::{Hashing, Table};
/// let hashing = Hashing::new(&SecretKey::generate()?, &"visits".parse()?, Table::new(5, 1000)?);
/// let mut rows = 0;
/// hashing.each_place(b"zebra", |row, bucket, sign| {
///     assert!(row == rows && bucket < 1000 && sign.abs() == 1);
///     rows += 1;
/// });
/// assert_eq!(rows, 5);
/// # Ok::<(), evertally::Error>(())
/// ```
pub struct Hashing {
    key: Zeroizing<[u8; 32]>,
    table: Table,
}

/// Bytes of one output block of BLAKE3, and of one row's word.
const BLOCK: usize = 64;
const WORD: usize = 8;

impl Hashing {
    /// The functions of this hash name for a table.
    pub fn new(key: &SecretKey, hash_name: &StreamName, table: Table) -> Self {
        Self { key: mac_key(key, hash_name, &[0; 32], Purpose::Hashing), table }
    }

    /// The table.
    pub fn table(&self) -> Table {
        self.table
    }

    /// Visits each row in order: (row, bucket below the width, sign +1 or -1).
    pub fn each_place(&self, item: &[u8], mut visit: impl FnMut(u32, u64, i64)) {
        let rows = self.table.rows();
        let width = u128::from(self.table.width());
        let mut place = |row: u32, word: u64| {
            // fits: the upper half of a product of 64 bits is below the width.
            let bucket = ((u128::from(word) * width) >> 64) as u64;
            visit(row, bucket, if word & 1 == 0 { 1 } else { -1 });
        };
        let word =
            |block: &[u8], row: usize| u64::from_le_bytes(block[row * WORD..][..WORD].try_into().expect("8 bytes"));
        let per_block = (BLOCK / WORD) as u32;
        if rows <= BLOCK as u32 / WORD as u32 / 2 {
            let hash = blake3::keyed_hash(&self.key, item);
            (0..rows).for_each(|row| place(row, word(hash.as_bytes(), row as usize)));
            return;
        }
        let mut reader = blake3::Hasher::new_keyed(&self.key).update(item).finalize_xof();
        let mut block = [0; BLOCK];
        for row in 0..rows {
            if row % per_block == 0 {
                reader.fill(&mut block);
            }
            place(row, word(&block, (row % per_block) as usize));
        }
    }
}

impl fmt::Debug for Hashing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hashing").field("table", &self.table).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first places of two items, computed by a second implementation of BLAKE3 and of the text above. Frozen:
    /// other functions would make saved tables useless.
    #[test]
    fn places_are_those_of_a_second_implementation() {
        let places = |width, item: Item<'_>| {
            let key = SecretKey::from_bytes([9; 32]).unwrap();
            let hashing = Hashing::new(&key, &"hash".parse().unwrap(), Table::new(11, width).unwrap());
            let mut places = vec![];
            hashing.each_place(item.as_bytes(), |_, bucket, sign| places.push((bucket, sign)));
            places
        };
        #[rustfmt::skip]
        let zebra = [
            (983, -1), (258, -1), (318, 1), (141, 1), (220, 1), (979, 1), (753, 1), (582, 1), (805, -1), (162, -1),
            (828, -1),
        ];
        assert_eq!(places(1000, "zebra".into()), zebra);
        #[rustfmt::skip]
        let number = [
            (3186032333, 1), (3728217612, -1), (3858879187, 1), (117123744, -1), (3301233132, -1), (2651845182, 1),
            (1849215993, -1), (2814488623, -1), (2475714188, -1), (3240787542, 1), (1891724482, -1),
        ];
        assert_eq!(places(Table::MAX_WIDTH, 258u64.into()), number);
    }
}
