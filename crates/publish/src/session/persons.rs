//! The contributions of each person: a table with 32 bytes per person and without names.

use crate::leb128::{push_number, read_number};
use evertally::privacy::contribution::{ContributionBound, Details, Kept, Offer, Pseudonym};
use evertally_declare::error::{Result, usage};
use evertally_kernels::prefetch;

/// Parts of the table; each grows separately, so that growing never needs much more memory than the table itself.
const PARTS: usize = 64;
/// The bits of a pseudonym that choose its part.
const PART_BITS: u32 = PARTS.trailing_zeros();
/// Out of this many places of a part ([`TablePart::homes`]), …
const PLACES_PER_GROUP: usize = 7;
/// … at most this many are taken. The part then grows by the same ratio: 36 bytes · (7/6)² are 49 per person.
const MAX_TAKEN: usize = 6;
/// The number of keys that are compared at once.
const KEYS_AT_ONCE: usize = 8;
/// The first byte that [`Persons::save`] writes.
const VERSION: u8 = 1;
/// Minimum size of a saved person in bytes: the pseudonym and three numbers.
const MIN_SAVED_BYTES: usize = 16 + 3;

/// The persons of a stream, by pseudonym, and the kept events of each in the current period.
///
/// Memory: at most 51 bytes per person beyond the first thousands, growth included; if groups or totals are bounded, as
/// much again, and 16 to 20 bytes for each group of a person. Persons without events in the period take no place.
///
/// The parts divide the pseudonyms by their first bits. A part is a table with open addressing. All entries are in the
/// order of their pseudonyms, each at its *home* (its share of the part's range, as that of the table) or after it,
/// without a gap between. Pseudonyms are uniform to everyone without the key, so no input makes the table slow. A key
/// of 4 bytes for each place finds an entry: the keys are few enough for the processor's caches, so a look-up waits for
/// the memory once, for the entry itself.
pub struct Persons {
    bound: ContributionBound,
    /// The first step of the current period; all persons in the table have an event in it.
    since: u64,
    parts: Vec<TablePart>,
}

#[derive(Clone, Copy, Default)]
#[repr(align(32))] // half a cache line each, never parts of two
struct PersonEntry {
    name: Pseudonym,
    /// If empty, the place is free: the first event of a person is always kept.
    kept: Kept,
}

const _: () = assert!(size_of::<PersonEntry>() == 32);

impl PersonEntry {
    #[inline]
    fn is_free(&self) -> bool {
        self.kept.total() == 0
    }
}

impl Persons {
    /// An empty table under these bounds.
    pub fn new(bound: ContributionBound) -> Self {
        let part = || TablePart { is_detailed: bound.needs_details(), ..TablePart::default() };
        Self { bound, since: 1, parts: (0..PARTS).map(|_| part()).collect() }
    }

    /// The number of persons.
    pub(super) fn count(&self) -> usize {
        self.parts.iter().map(|part| part.taken).sum()
    }

    /// The kept value of one more event of a person, according to [`ContributionBound::keep`]. The first event of a
    /// period removes all persons of earlier periods.
    ///
    /// # Panics
    /// If the step is before one that was offered for the same person, or belongs to an earlier period than one offered
    /// for anybody.
    #[inline]
    pub fn keep(&mut self, name: Pseudonym, offer: Offer) -> Option<i64> {
        if offer.since != self.since {
            self.begin_period(offer.since);
        }
        let (kept, details) = self.parts[part_of(name)].entry(name);
        match details {
            Some(details) => self.bound.keep(kept, details, offer),
            None => self.bound.keep(kept, &mut Details::default(), offer),
        }
    }

    /// Steps never go back, so everyone's last event is in an earlier period: all persons are removed at once.
    #[cold]
    fn begin_period(&mut self, since: u64) {
        assert!(since > self.since, "periods never go back: {since} after {}", self.since);
        self.since = since;
        for part in &mut self.parts {
            *part = TablePart { is_detailed: part.is_detailed, ..TablePart::default() };
        }
    }

    /// The bounds.
    pub(super) fn bound(&self) -> ContributionBound {
        self.bound
    }

    /// The record of a person in the period since `since`; empty for a person without kept events in it.
    #[inline]
    pub(super) fn record(&self, name: Pseudonym, since: u64) -> (Kept, Option<&Details>) {
        let found = if since == self.since { self.parts[part_of(name)].find(name) } else { None };
        found.map_or((Kept::default(), None), |(kept, details)| (*kept, details))
    }

    /// Begins to read the keys with which [`prefetch_entries`](Self::prefetch_entries) finds these persons. Changes
    /// nothing.
    pub(super) fn prefetch_keys(&self, names: impl Iterator<Item = Pseudonym>) {
        for name in names {
            let part = &self.parts[part_of(name)];
            let home = part.home(name);
            // The keys to compare may be in two cache lines.
            [home, home + KEYS_AT_ONCE - 1].iter().filter_map(|place| part.keys.get(*place)).for_each(prefetch);
        }
    }

    /// Begins to read the entries of these persons. Changes nothing.
    pub(super) fn prefetch_entries(&self, names: impl Iterator<Item = Pseudonym>) {
        for name in names {
            let part = &self.parts[part_of(name)];
            part.entries.get(part.first_from(part.home(name), key_of(name))).into_iter().for_each(prefetch);
        }
    }

    /// The saved form of the persons for a next step in the period since `since`, which [`restore`](Self::restore)
    /// reads: equal contents give equal bytes. If that period begins only then, no person is saved.
    ///
    /// A version byte; the number of persons in 8 bytes (little endian); and for each person, in the order of the
    /// pseudonyms, the pseudonym's 16 bytes, and as LEB128 numbers the last step, the number of kept events, and the
    /// number of events kept in the last step. About 21 bytes per person. If groups or totals are bounded, these
    /// follow: the sum of the sizes of the values, the number of groups, and for each group the difference from the
    /// previous group's number and its events. There is no check against damage: the enclosing file must have one.
    pub fn save(&self, since: u64) -> Vec<u8> {
        let count = if since > self.since { 0 } else { self.count() };
        let mut bytes = Vec::with_capacity(9 + count * (MIN_SAVED_BYTES + 2));
        bytes.push(VERSION);
        bytes.extend_from_slice(&(count as u64).to_le_bytes());
        if count == 0 {
            return bytes;
        }
        for (entry, details) in self.parts.iter().flat_map(TablePart::persons) {
            bytes.extend_from_slice(&entry.name.to_bytes());
            let kept = entry.kept;
            for number in [kept.step(), kept.total().into(), kept.in_step().into()] {
                push_number(&mut bytes, number);
            }
            if let Some(details) = details {
                push_number(&mut bytes, details.spent());
                push_number(&mut bytes, details.groups().len() as u64);
                let mut last = 0;
                for (group, events) in details.groups() {
                    push_number(&mut bytes, group - last);
                    push_number(&mut bytes, u64::from(*events));
                    last = *group;
                }
            }
        }
        bytes
    }

    /// Restores the persons from [`save`](Self::save), under the same bounds, for the same period.
    ///
    /// # Errors
    /// If `bytes` are not a possible output of `save` under these bounds.
    pub fn restore(bound: ContributionBound, since: u64, bytes: &[u8]) -> Result<Self> {
        let mut persons = Self { since, ..Self::new(bound) };
        let is_detailed = persons.bound.needs_details();
        let (&version, rest) = bytes.split_first().ok_or_else(damaged)?;
        if version != VERSION {
            return Err(usage(format!("the saved counts of persons have version {version}, not {VERSION}")));
        }
        let (count, mut rest) = rest.split_first_chunk().ok_or_else(damaged)?;
        let count = u64::from_le_bytes(*count);
        if count > (rest.len() / MIN_SAVED_BYTES) as u64 {
            return Err(damaged());
        }
        let mut parts: Vec<(Vec<PersonEntry>, Vec<Details>)> = vec![Default::default(); PARTS];
        let mut last = None;
        for _ in 0..count {
            let (name, tail) = rest.split_first_chunk().ok_or_else(damaged)?;
            rest = tail;
            let name = Pseudonym::from_bytes(*name);
            if last.replace(name).is_some_and(|last| last >= name) {
                return Err(damaged());
            }
            let mut number = || read_number(&mut rest).ok_or_else(damaged);
            let (step, total, in_step) = (number()?, narrow(number()?)?, narrow(number()?)?);
            if step < since {
                return Err(damaged());
            }
            let kept = persons.bound.restore(step, total, in_step)?;
            let (entries, details) = &mut parts[part_of(name)];
            entries.push(PersonEntry { name, kept });
            if is_detailed {
                let spent = number()?;
                details.push(persons.bound.restore_details(kept, spent, read_groups(&mut rest)?)?);
            }
        }
        if !rest.is_empty() {
            return Err(damaged());
        }
        for (part, (entries, details)) in persons.parts.iter_mut().zip(parts) {
            let homes = room_for(entries.len());
            part.rebuild(entries, details, homes);
        }
        Ok(persons)
    }
}

/// The events in each group, by increasing number of the group.
fn read_groups(rest: &mut &[u8]) -> Result<Vec<(u64, u32)>> {
    let mut number = || read_number(rest).ok_or_else(damaged);
    let (count, mut last) = (number()?, 0u64);
    let of_next = |_| {
        last = last.checked_add(number()?).ok_or_else(damaged)?;
        Ok((last, narrow(number()?)?))
    };
    (0..count).map(of_next).collect()
}

fn narrow(number: u64) -> Result<u32> {
    u32::try_from(number).map_err(|_| damaged())
}

fn damaged() -> evertally_declare::error::PipelineError {
    usage("the saved counts of persons are damaged; restore an undamaged copy, or rebuild them from the raw data")
}

#[inline]
fn part_of(name: Pseudonym) -> usize {
    (name.leading() >> (u64::BITS - PART_BITS)) as usize
}

/// The key of a person in their part: it rises with the pseudonym, and is not that of a free place.
#[inline]
fn key_of(name: Pseudonym) -> u32 {
    // fits: the upper half of 64 bits
    ((name.leading() << PART_BITS >> (u64::BITS - u32::BITS)) as u32).max(FREE + 1)
}

/// The number of homes in a part that leaves room for more than this many persons.
fn room_for(persons: usize) -> usize {
    persons + persons / 2 + 8
}

/// The key of a free place.
const FREE: u32 = 0;

/// A part of the table.
#[derive(Default)]
struct TablePart {
    entries: Vec<PersonEntry>,
    /// The key of each entry, and after them [`KEYS_AT_ONCE`] free places.
    keys: Vec<u32>,
    /// The details of each entry if they are needed; otherwise empty.
    details: Vec<Details>,
    is_detailed: bool,
    /// The number of home entries; those after them are for persons pushed beyond the last.
    homes: usize,
    taken: usize,
}

impl TablePart {
    #[inline]
    fn home(&self, name: Pseudonym) -> usize {
        let share = name.leading() << PART_BITS;
        ((u128::from(share) * self.homes as u128) >> u64::BITS) as usize // fits: below `homes`
    }

    /// The first place from a home on that is free or has at least this key.
    #[inline]
    fn first_from(&self, home: usize, key: u32) -> usize {
        let mut place = home;
        while let Some(keys) = self.keys.get(place..).and_then(|keys| keys.first_chunk::<KEYS_AT_ONCE>()) {
            // Keys rise up to the next free place, and after it none is below that of a person whose home is before it:
            // so the places before the one in question can be counted, without a branch.
            let before =
                keys.iter().map(|other| u32::from(other.wrapping_sub(FREE + 1) < key - (FREE + 1))).sum::<u32>();
            place += before as usize;
            if before < KEYS_AT_ONCE as u32 {
                break;
            }
        }
        place
    }

    /// All persons, in the order of their pseudonyms.
    fn persons(&self) -> impl Iterator<Item = (&PersonEntry, Option<&Details>)> {
        let taken = self.entries.iter().enumerate().filter(|(_, entry)| !entry.is_free());
        taken.map(|(place, entry)| (entry, self.details.get(place)))
    }

    /// The place of a person, or the place at which a new person would be added.
    #[inline]
    fn place(&self, name: Pseudonym) -> usize {
        let key = key_of(name);
        let mut place = self.first_from(self.home(name), key);
        while self.keys.get(place) == Some(&key) && self.entries[place].name < name {
            place += 1;
        }
        place
    }

    /// The kept events of a person; `None` for a new person.
    #[inline]
    fn find(&self, name: Pseudonym) -> Option<(&Kept, Option<&Details>)> {
        let place = self.place(name);
        let entry = self.entries.get(place).filter(|entry| entry.name == name && self.keys[place] != FREE)?;
        Some((&entry.kept, self.details.get(place)))
    }

    /// The kept events of a person, who is added if new.
    #[inline]
    fn entry(&mut self, name: Pseudonym) -> (&mut Kept, Option<&mut Details>) {
        let place = self.place(name);
        let place = match self.entries.get(place) {
            Some(entry) if entry.name == name && self.keys[place] != FREE => place,
            _ => self.enter(name, place),
        };
        (&mut self.entries[place].kept, self.details.get_mut(place))
    }

    /// Adds a new person at a place, which shifts others or grows the part; returns the place.
    #[cold]
    fn enter(&mut self, name: Pseudonym, place: usize) -> usize {
        let free = self.keys[..self.entries.len()].iter().skip(place).position(|key| *key == FREE);
        let has_room = (self.taken + 1) * PLACES_PER_GROUP <= self.homes * MAX_TAKEN;
        let Some(pushed) = free.filter(|_| has_room) else {
            self.grow();
            return self.enter(name, self.place(name));
        };
        self.entries.copy_within(place..place + pushed, place + 1);
        self.entries[place] = PersonEntry { name, kept: Kept::default() };
        self.keys.copy_within(place..place + pushed, place + 1);
        self.keys[place] = key_of(name);
        if self.is_detailed {
            self.details[place..=place + pushed].rotate_right(1);
            self.details[place] = Details::default();
        }
        self.taken += 1;
        place
    }

    fn grow(&mut self) {
        let (entries, details) = (std::mem::take(&mut self.entries), std::mem::take(&mut self.details));
        self.rebuild(entries, details, self.homes + self.homes / MAX_TAKEN + 8);
    }

    /// Puts persons, in the order of their pseudonyms, into a table of at least this many homes.
    fn rebuild(&mut self, entries: Vec<PersonEntry>, mut details: Vec<Details>, homes: usize) {
        self.homes = homes;
        self.entries = vec![PersonEntry::default(); homes + homes / 128 + 8];
        self.keys = vec![FREE; self.entries.len() + KEYS_AT_ONCE];
        self.taken = 0;
        let (mut next, mut places) = (0, Vec::new());
        for (from, entry) in entries.iter().enumerate().filter(|(_, entry)| !entry.is_free()) {
            let place = self.home(entry.name).max(next);
            let Some(free) = self.entries.get_mut(place) else {
                return self.rebuild(entries, details, homes + homes / MAX_TAKEN + 8); // crowded at the end: very rare
            };
            *free = *entry;
            self.keys[place] = key_of(entry.name);
            next = place + 1;
            self.taken += 1;
            if self.is_detailed {
                places.push((from, place));
            }
        }
        if self.is_detailed {
            self.details = vec![Details::default(); self.entries.len()];
            places.iter().for_each(|(from, to)| self.details[*to] = std::mem::take(&mut details[*from]));
        }
    }
}

#[cfg(test)]
mod tests;
