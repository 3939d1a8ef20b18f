//! The table of persons against a map that forgets nothing.

use super::*;
use evertally::noise::{SecretKey, TestSeed};
use evertally::privacy::contribution::Pseudonyms;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn pseudonyms() -> Pseudonyms {
    let key = SecretKey::insecure_from_test_seed(TestSeed(7));
    Pseudonyms::new(&key, &"persons".parse().unwrap(), &[0; 32])
}

fn unit() -> Unit {
    Unit::person(3).per_step(2)
}

/// A pseudonym whose leading bits are as crowded as nobody without the key could make them.
fn crowded(number: u64) -> Pseudonym {
    let mut bytes = [0xff; 16];
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    bytes[0] = if number.is_multiple_of(3) { 0 } else { 0xff };
    Pseudonym::from_bytes(bytes)
}

/// Offers events to a table and to a map, and holds every answer of the one against that of the other.
fn offer(persons: &mut Persons, map: &mut BTreeMap<Pseudonym, Kept>, events: impl Iterator<Item = (Pseudonym, u64)>) {
    let bound = ContributionBound::new(unit()).unwrap();
    for (name, step) in events {
        persons.look_ahead([name].into_iter());
        assert_eq!(persons.keep(name, step), bound.keep(map.entry(name).or_default(), step));
    }
    assert_eq!(persons.count(), map.len());
    let entries = persons.parts.iter().flat_map(|part| &part.entries).filter(|entry| !entry.is_free());
    assert!(entries.map(|entry| (&entry.name, &entry.kept)).eq(map.iter()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// As a map, before and after a pause, however crowded; and what is saved is a function of what is remembered.
    #[test]
    fn as_a_map(
        offers in prop::collection::vec((0..400u64, any::<bool>()), 0..1500),
        pause in 0..1500usize,
        is_crowded in any::<bool>(),
    ) {
        let pseudonyms = pseudonyms();
        let name = |number: u64| if is_crowded { crowded(number % 50) } else { pseudonyms.of(&number.to_string()) };
        let mut step = 1;
        let events: Vec<_> = offers.iter().map(|(number, closes)| {
            step += u64::from(*closes) * 300;
            (name(*number), step)
        }).collect();
        let (before, after) = events.split_at(pause.min(events.len()));
        let (mut persons, mut map) = (Persons::new(unit()).unwrap(), BTreeMap::new());
        offer(&mut persons, &mut map, before.iter().copied());
        let saved = persons.save();
        let mut restored = Persons::restore(unit(), &saved).unwrap();
        prop_assert_eq!(restored.save(), saved);
        let mut same = map.clone();
        offer(&mut restored, &mut same, after.iter().copied());
        offer(&mut persons, &mut map, after.iter().copied());
        prop_assert_eq!(persons.save(), restored.save());
    }

    #[test]
    fn numbers_come_back(number in any::<u64>(), shift in 0..64u32) {
        let (mut bytes, number) = (Vec::new(), number >> shift);
        push_number(&mut bytes, number);
        let mut rest = &bytes[..];
        prop_assert_eq!(take_number(&mut rest), Some(number));
        prop_assert!(rest.is_empty());
    }
}

/// However many there are, and whenever it is looked: at most 51 bytes a person, and 32 a person at least.
#[test]
fn memory_is_bounded() {
    let pseudonyms = pseudonyms();
    let mut persons = Persons::new(unit()).unwrap();
    for number in 1..=100_000u64 {
        assert!(persons.keep(pseudonyms.of(&number.to_string()), 1));
        if number >= 20_000 && number.is_multiple_of(500) {
            let entries: usize = persons.parts.iter().map(|part| part.entries.capacity()).sum();
            let largest = persons.parts.iter().map(|part| part.entries.capacity()).max().unwrap();
            // While a part grows, it is there twice.
            let bytes = (entries + largest) * size_of::<Entry>();
            assert!(bytes <= 53 * number as usize, "{bytes} bytes, {number} persons");
        }
    }
    assert_eq!(persons.count(), 100_000);
}

/// Nothing but what `save` gives is read back: no damage is taken for counts.
#[test]
fn damage_is_refused() {
    let mut persons = Persons::new(unit()).unwrap();
    for number in 0..40u64 {
        persons.keep(crowded(number), 1 + number * 7);
    }
    let saved = persons.save();
    let read = |bytes: &[u8]| Persons::restore(unit(), bytes).map(|persons| persons.save());
    assert_eq!(read(&saved).unwrap(), saved);
    for len in 0..saved.len() {
        assert!(read(&saved[..len]).is_err(), "{len} bytes");
    }
    for at in 0..saved.len() {
        for bit in 0..8 {
            let mut bytes = saved.clone();
            bytes[at] ^= 1 << bit;
            // Another person or step is not seen, but whatever is read is saved as it was.
            assert!(read(&bytes).is_ok_and(|again| again == bytes) || read(&bytes).is_err(), "byte {at}");
        }
    }
    assert!(read(&[&saved[..], &[0]].concat()).is_err());
    assert!(read(&[2]).unwrap_err().to_string().contains("version 2"));
    let strict = Persons::restore(Unit::person(1).per_step(1), &{
        let mut two = Persons::new(unit()).unwrap();
        two.keep(crowded(1), 1);
        two.keep(crowded(1), 2);
        two.save()
    });
    assert!(strict.is_err(), "more kept than the bounds allow");
}
