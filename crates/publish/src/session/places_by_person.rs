//! The order of events by person, without moving or comparing most of them.

use evertally::privacy::contribution::Pseudonym;

/// At most this many bits of a pseudonym choose a bucket, so that the buckets take a megabyte at most.
const MAX_BUCKET_BITS: u32 = 18;

/// Places of events, sorted by person. Its memory is kept for the next step: 4 bytes per event, and the buckets.
///
/// A distribution sort: the first bits of the pseudonym choose one of as many buckets as there are events, or somewhat
/// fewer. Pseudonyms are uniform to everyone without the key, so a bucket has one or two persons, whatever the input;
/// comparisons sort only these.
#[derive(Default)]
pub(super) struct PlacesByPerson {
    places: Vec<u32>,
    /// Where the next event of each bucket is put, from the end; finally the start of the bucket.
    starts: Vec<u32>,
}

impl PlacesByPerson {
    /// Sorts events by person; the order of one person's events is arbitrary.
    ///
    /// # Panics
    /// From 2^32 events, which take 200 GiB.
    pub(super) fn sort<E>(&mut self, events: &[E], person: impl Fn(&E) -> Pseudonym) {
        let count = u32::try_from(events.len()).expect("memory ends before four billion events");
        let bits = count.max(2).ilog2().min(MAX_BUCKET_BITS);
        let bucket = |event: &E| (person(event).leading() >> (u64::BITS - bits)) as usize; // fits: below 2^18
        let Self { places, starts } = self;
        starts.clear();
        starts.resize(1 << bits, 0);
        events.iter().for_each(|event| starts[bucket(event)] += 1);
        let mut end = 0;
        for start in starts.iter_mut() {
            end += *start;
            *start = end;
        }
        places.clear();
        places.resize(events.len(), 0);
        for (place, event) in (0..count).zip(events) {
            let start = &mut starts[bucket(event)];
            *start -= 1;
            places[*start as usize] = place;
        }
        let mut end = events.len();
        for start in starts.iter().rev().map(|start| *start as usize) {
            let person = |place: &u32| person(&events[*place as usize]);
            match &mut places[start..end] {
                [] | [_] => {}
                [first, second] if person(first) <= person(second) => {}
                [first, second] => std::mem::swap(first, second),
                more => more.sort_unstable_by_key(person),
            }
            end = start;
        }
    }

    /// The places of the events that were sorted last.
    pub(super) fn places_mut(&mut self) -> &mut [u32] {
        &mut self.places
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Every event has one place, in order of persons: also if many share the first bits, or are one person.
        #[test]
        fn places_are_sorted_by_person(
            persons in prop::collection::vec((0..4u64, any::<u64>(), 0..3u64), 0..400),
            shift in prop::sample::select(vec![0, 30, 62]),
        ) {
            let bytes = |(first, second): (u64, u64)| (u128::from(first) << 64 | u128::from(second)).to_be_bytes();
            let persons: Vec<_> = persons.into_iter().map(|(high, low, last)| {
                Pseudonym::from_bytes(bytes((high << 62 | low >> 2 >> shift, last)))
            }).collect();
            let mut order = PlacesByPerson::default();
            for events in [&persons[..], &persons[..persons.len() / 2]] {
                order.sort(events, |person| *person);
                let mut places = order.places_mut().to_vec();
                prop_assert!(places.is_sorted_by_key(|place| events[*place as usize]));
                places.sort_unstable();
                prop_assert!(places.iter().copied().eq(0..events.len() as u32));
            }
        }
    }
}
