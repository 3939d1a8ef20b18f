//! The table of persons compared with a map that forgets nothing.

use super::*;
use evertally::noise::{GuardedKey, TestSeed};
use evertally::privacy::Unit;
use evertally::privacy::contribution::Pseudonyms;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn pseudonyms() -> Pseudonyms {
    let key = GuardedKey::insecure_from_test_seed(TestSeed(7));
    Pseudonyms::new(&key, &"persons".parse().unwrap(), &[0; 32])
}

fn unit() -> Unit {
    Unit::person(3).per_step(2)
}

/// Bounds that need details, and restart in each period.
fn detailed() -> Unit {
    Unit::person(5).per_group(2).in_groups(2).apart(2).with_max_total(9).per_period(PERIOD)
}

const PERIOD: u64 = 900;

fn bound(unit: Unit) -> ContributionBound {
    ContributionBound::new(unit).unwrap()
}

/// The first step of a step's period.
fn since(unit: Unit, step: u64) -> u64 {
    unit.bounds().unwrap().period.map_or(1, |steps| step - (step - 1) % steps)
}

/// A pseudonym whose leading bits collide more than anyone without the key could arrange.
fn crowded(number: u64) -> Pseudonym {
    let mut bytes = [0xff; 16];
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    bytes[0] = if number.is_multiple_of(3) { 0 } else { 0xff };
    Pseudonym::from_bytes(bytes)
}

type Map = BTreeMap<Pseudonym, (Kept, Details)>;

/// Offers events to a table and to a map that forgets nobody, and compares all answers.
fn offer(unit: Unit, persons: &mut Persons, map: &mut Map, events: &[(Pseudonym, u64)]) {
    let bound = bound(unit);
    for (place, (name, step)) in events.iter().enumerate() {
        persons.prefetch_keys([*name].into_iter());
        persons.prefetch_entries([*name].into_iter());
        let [group, value] = [place as u64 % 3 * 1000, place as u64 % 5].map(|number| number + 1);
        let offer = Offer { step: *step, since: since(unit, *step), group, value: value as i64 - 3 };
        let (kept, details) = map.entry(*name).or_default();
        assert_eq!(persons.keep(*name, offer), bound.keep(kept, details, offer));
    }
    // No person is in the table without an event in the period.
    let is_there = |(kept, _): &&(Kept, Details)| kept.step() >= persons.since;
    assert_eq!(persons.count(), map.values().filter(is_there).count());
    let there = map.iter().filter(|(_, kept)| is_there(kept));
    let entries = persons.parts.iter().flat_map(TablePart::persons);
    let none = Details::default();
    let told = entries.map(|(entry, details)| (entry.name, (entry.kept, details.unwrap_or(&none).clone())));
    assert!(told.eq(there.map(|(name, kept)| (*name, kept.clone()))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Equal to a map, before and after a pause, however crowded; and the saved bytes depend only on the contents.
    #[test]
    fn as_a_map(
        offers in prop::collection::vec((0..400u64, any::<bool>()), 0..1500),
        pause in 0..1500usize,
        is_crowded in any::<bool>(),
        is_detailed in any::<bool>(),
    ) {
        let unit = if is_detailed { detailed() } else { unit() };
        let pseudonyms = pseudonyms();
        let name = |number: u64| if is_crowded { crowded(number % 50) } else { pseudonyms.of(&number.to_string()) };
        let mut step = 1;
        let events: Vec<_> = offers.iter().map(|(number, closes)| {
            step += u64::from(*closes) * 300;
            (name(*number), step)
        }).collect();
        let (before, after) = events.split_at(pause.min(events.len()));
        let (mut persons, mut map) = (Persons::new(bound(unit)), BTreeMap::new());
        offer(unit, &mut persons, &mut map, before);
        // The pause comes before the next event's step, which may be in another period.
        let next = since(unit, after.first().map_or(step, |(_, step)| *step));
        let saved = persons.save(next);
        let mut restored = Persons::restore(bound(unit), next, &saved).unwrap();
        prop_assert_eq!(restored.save(next), saved);
        let mut same = map.clone();
        offer(unit, &mut restored, &mut same, after);
        offer(unit, &mut persons, &mut map, after);
        let next = since(unit, step);
        prop_assert_eq!(persons.save(next), restored.save(next));
    }

    #[test]
    fn numbers_come_back(number in any::<u64>(), shift in 0..64u32) {
        let (mut bytes, number) = (Vec::new(), number >> shift);
        push_number(&mut bytes, number);
        let mut rest = &bytes[..];
        prop_assert_eq!(read_number(&mut rest), Some(number));
        prop_assert!(rest.is_empty());
    }
}

/// For any number of persons, at any time: at most 51 bytes per person, and at least 32.
#[test]
fn memory_is_bounded() {
    let pseudonyms = pseudonyms();
    let mut persons = Persons::new(bound(unit()));
    for number in 1..=100_000u64 {
        assert!(persons.keep(pseudonyms.of(&number.to_string()), Offer::in_step(1)).is_some());
        if number >= 20_000 && number.is_multiple_of(500) {
            let entries: usize = persons.parts.iter().map(|part| part.entries.capacity()).sum();
            let largest = persons.parts.iter().map(|part| part.entries.capacity()).max().unwrap();
            // While a part grows, it exists twice.
            let bytes = (entries + largest) * (size_of::<PersonEntry>() + size_of::<u32>());
            assert!(bytes <= 53 * number as usize, "{bytes} bytes, {number} persons");
        }
    }
    assert_eq!(persons.count(), 100_000);
}

/// Only bytes that `save` returns are restored: no damage is mistaken for counts.
#[test]
fn damage_is_refused() {
    let mut persons = Persons::new(bound(unit()));
    for number in 0..40u64 {
        persons.keep(crowded(number), Offer::in_step(1 + number * 7));
    }
    damage(unit(), 1, &persons.save(1));
    let (mut persons, from) = (Persons::new(bound(detailed())), PERIOD + 1);
    for number in 0..60u64 {
        let offer = Offer::in_step(from + number * 7).with_period_start(from).in_group(number % 3 * 200);
        persons.keep(crowded(number % 20), offer);
    }
    damage(detailed(), from, &persons.save(from));
    let strict = Persons::restore(bound(Unit::person(1).per_step(1)), 1, &{
        let mut two = Persons::new(bound(unit()));
        two.keep(crowded(1), Offer::in_step(1));
        two.keep(crowded(1), Offer::in_step(2));
        two.save(1)
    });
    assert!(strict.is_err(), "more kept than the bounds allow");
}

fn damage(unit: Unit, since: u64, saved: &[u8]) {
    let read = |bytes: &[u8]| Persons::restore(bound(unit), since, bytes).map(|persons| persons.save(since));
    assert_eq!(read(saved).unwrap(), saved);
    for len in 0..saved.len() {
        assert!(read(&saved[..len]).is_err(), "{len} bytes");
    }
    for at in 0..saved.len() {
        for bit in 0..8 {
            let mut bytes = saved.to_vec();
            bytes[at] ^= 1 << bit;
            // A changed person or step is not detected, but whatever is read is saved unchanged.
            assert!(read(&bytes).is_ok_and(|again| again == bytes) || read(&bytes).is_err(), "byte {at}");
        }
    }
    assert!(read(&[saved, &[0]].concat()).is_err());
    assert!(read(&[3]).unwrap_err().to_string().contains("version 3"));
    // Persons of an earlier period have no place.
    assert!(Persons::restore(bound(unit), since + PERIOD, saved).is_err());
}

/// Persons without events in a period are removed with all their memory, from its first event on.
#[test]
fn periods_forget() {
    for unit in [unit().per_period(PERIOD), detailed()] {
        let (mut persons, pseudonyms) = (Persons::new(bound(unit)), pseudonyms());
        for number in 0..5000u64 {
            persons.keep(pseudonyms.of(&number.to_string()), Offer::in_step(9));
        }
        assert_eq!((persons.count(), persons.save(1).len() > 5000 * MIN_SAVED_BYTES), (5000, true));
        assert_eq!(persons.save(PERIOD + 1).len(), 9);
        let offer = Offer::in_step(PERIOD + 1).with_period_start(PERIOD + 1);
        assert!(persons.keep(pseudonyms.of("9"), offer).is_some());
        let places: usize = persons.parts.iter().map(|part| part.entries.capacity() + part.details.capacity()).sum();
        assert!(persons.count() == 1 && places < 100, "{places}");
    }
}
