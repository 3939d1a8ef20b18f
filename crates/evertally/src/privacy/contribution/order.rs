//! The order of one person's events at one instant.

use super::Pseudonym;
use super::pseudonym::siphash_2_4_128;
use crate::noise::{Purpose, SecretKey, StreamName, mac_key};
use std::fmt;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Ranks the events of one person at one instant, by a keyed hash of everything that is counted: person, time, value
/// and label (the group or item).
///
/// Events of a person are kept in order of time. Many data have coarse times (days, hours), so time alone does not
/// decide, and the order of rows in a file must not: a file that is downloaded again, or sorted differently, would give
/// another release. The rank makes the kept events a function of the *set* of a person's events. Two events with equal
/// rank are, except with probability 2⁻⁶⁴, equal in everything that is counted; it does not matter which one is kept.
///
/// **Privacy does not depend on the hash.** A person's rank order depends on this person's events only, so any order
/// keeps the sensitivity. The key hides from an author of the data which of several events will be kept.
///
/// **Hash.** The first word of SipHash-2-4-128 over the pseudonym (16 bytes), the time (8 bytes, little endian), the
/// value (8 bytes, little endian) and the label. Its key is the first half of the key of [`mac_key`] for
/// [`Purpose::Order`], under the stream's name and its plan's digest. The key is overwritten when this is dropped.
///
/// ```
/// use evertally::{noise::SecretKey, privacy::contribution::{EventOrder, Pseudonym}};
/// let mut order = EventOrder::new(&SecretKey::generate()?, &"visits".parse()?, &[0; 32]);
/// let (ada, noon) = (Pseudonym::default(), 43_200_000_000);
/// assert_eq!(order.rank(ada, noon, 1, b"north"), order.rank(ada, noon, 1, b"north"));
/// assert_ne!(order.rank(ada, noon, 1, b"north"), order.rank(ada, noon, 1, b"south"));
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct EventOrder {
    key: [u64; 2],
    bytes: Vec<u8>,
}

impl EventOrder {
    /// The order of events in a stream under the plan with this digest.
    pub fn new(key: &SecretKey, name: &StreamName, plan_digest: &[u8; 32]) -> Self {
        let subkey = mac_key(key, name, plan_digest, Purpose::Order);
        let (words, _) = subkey.as_chunks::<8>();
        Self { key: [u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])], bytes: Vec::new() }
    }

    /// The rank of an event among the person's events at this time (microseconds since 1970). About 30 ns.
    pub fn rank(&mut self, person: Pseudonym, time: i64, value: i64, label: &[u8]) -> u64 {
        self.bytes.clear();
        self.bytes.extend_from_slice(&person.to_bytes());
        self.bytes.extend_from_slice(&time.to_le_bytes());
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self.bytes.extend_from_slice(label);
        siphash_2_4_128(self.key, &self.bytes)[0]
    }
}

impl fmt::Debug for EventOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventOrder").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::TestSeed;

    /// A rank depends on everything that is counted, and on key, stream and plan.
    #[test]
    fn ranks_depend_on_what_is_counted() {
        let [key, other] = [1, 2].map(|seed| SecretKey::insecure_from_test_seed(TestSeed(seed)));
        let name: StreamName = "a".parse().unwrap();
        let person = |first| Pseudonym::from_bytes([first; 16]);
        let mut order = EventOrder::new(&key, &name, &[0; 32]);
        let mut ranks = vec![
            order.rank(person(0), 0, 0, b"x"),
            order.rank(person(1), 0, 0, b"x"),
            order.rank(person(0), 1, 0, b"x"),
            order.rank(person(0), 0, 1, b"x"),
            order.rank(person(0), 0, 0, b"y"),
            order.rank(person(0), 0, 0, b""),
        ];
        for mut order in [
            EventOrder::new(&other, &name, &[0; 32]),
            EventOrder::new(&key, &"b".parse().unwrap(), &[0; 32]),
            EventOrder::new(&key, &name, &[1; 32]),
        ] {
            ranks.push(order.rank(person(0), 0, 0, b"x"));
        }
        let count = ranks.len();
        ranks.sort_unstable();
        ranks.dedup();
        assert_eq!(ranks.len(), count);
        assert_eq!(format!("{order:?}"), "EventOrder { .. }");
    }
}
