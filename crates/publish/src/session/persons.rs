//! How many events of every person were kept: a table of 32 bytes a person in which none of them has a name.

use crate::error::{Result, usage};
use evertally::privacy::Unit;
use evertally::privacy::contribution::{ContributionBound, Kept, Pseudonym};

/// Parts of the table; each grows by itself, so that growing never takes much more than what is there.
const PARTS: usize = 64;
/// The bits of a pseudonym that choose its part.
const PART_BITS: u32 = PARTS.trailing_zeros();
/// Of so many places of a part ([`Part::homes`]), …
const PLACES: usize = 5;
/// … so many are taken at most. It then grows by the same ratio: 32 bytes · (5/4)² are 50 a person.
const TAKEN: usize = 4;
/// The first byte of what [`Persons::save`] writes.
const VERSION: u8 = 1;
/// Bytes of a saved person at least: the pseudonym and three numbers.
const LEAST_SAVED: usize = 16 + 3;

/// The persons of a stream, by pseudonym, and what was kept of each.
///
/// Memory: at most 51 bytes a person beyond the first thousands, growth included.
///
/// The parts divide the pseudonyms by their first bits. A part is a table with open addressing in which all entries
/// stand in the order of their pseudonyms, each at its *home* (its share of the part's range, as that of the table) or
/// behind it, without a gap between. Pseudonyms are uniform to everybody without the key, so that no input makes the
/// table slow.
pub(super) struct Persons {
    bound: ContributionBound,
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Default)]
#[repr(align(32))] // half a cache line each, never parts of two
struct Entry {
    name: Pseudonym,
    /// Nothing kept: the place is free. The first event of a person is kept.
    kept: Kept,
}

const _: () = assert!(size_of::<Entry>() == 32);

impl Entry {
    #[inline]
    fn is_free(&self) -> bool {
        self.kept.total() == 0
    }
}

impl Persons {
    /// Nobody yet, under the bounds of a unit.
    ///
    /// # Errors
    /// If a bound is 0.
    pub(super) fn new(unit: Unit) -> Result<Self> {
        let parts = (0..PARTS).map(|_| Part::default()).collect();
        Ok(Self { bound: ContributionBound::new(unit)?, parts })
    }

    /// How many persons there are.
    pub(super) fn count(&self) -> usize {
        self.parts.iter().map(|part| part.taken).sum()
    }

    /// Whether one more event of a person is kept, as [`ContributionBound::keep`] says.
    ///
    /// # Panics
    /// If the step is before one that was offered for the same person.
    #[inline]
    pub(super) fn keep(&mut self, name: Pseudonym, step: u64) -> bool {
        let kept = self.parts[part_of(name)].entry(name);
        self.bound.keep(kept, step)
    }

    /// Looks at the places of persons whose turn comes soon, all at once: memory brings them while others are waited
    /// for. Changes nothing.
    pub(super) fn look_ahead(&self, names: impl Iterator<Item = Pseudonym>) {
        let seen = names.fold(0, |seen, name| seen ^ self.parts[part_of(name)].look(name));
        std::hint::black_box(seen);
    }

    /// All that is remembered, in a form that [`restore`](Self::restore) reads: equal memories give equal bytes.
    ///
    /// A version byte, the number of persons in 8 bytes (little endian), and of each, in the order of their pseudonyms,
    /// the pseudonym's 16 bytes, and as LEB128 numbers the last step, the number of events kept, and that of those kept
    /// in the last step. Some 21 bytes a person. There is no check against damage: that is up to what it is part of.
    pub(super) fn save(&self) -> Vec<u8> {
        let count = self.count();
        let mut bytes = Vec::with_capacity(9 + count * (LEAST_SAVED + 2));
        bytes.push(VERSION);
        bytes.extend_from_slice(&(count as u64).to_le_bytes());
        for entry in self.parts.iter().flat_map(|part| &part.entries).filter(|entry| !entry.is_free()) {
            bytes.extend_from_slice(&entry.name.to_bytes());
            let kept = entry.kept;
            for number in [kept.step(), kept.total().into(), kept.in_step().into()] {
                push_number(&mut bytes, number);
            }
        }
        bytes
    }

    /// What [`save`](Self::save) gave, under the bounds of the same unit.
    ///
    /// # Errors
    /// If `bytes` are anything that `save` does not give under these bounds.
    pub(super) fn restore(unit: Unit, bytes: &[u8]) -> Result<Self> {
        let mut persons = Self::new(unit)?;
        let (&version, rest) = bytes.split_first().ok_or_else(damaged)?;
        if version != VERSION {
            return Err(usage(format!("the saved counts of persons are of version {version}, not {VERSION}")));
        }
        let (count, mut rest) = rest.split_first_chunk().ok_or_else(damaged)?;
        let count = u64::from_le_bytes(*count);
        if count > (rest.len() / LEAST_SAVED) as u64 {
            return Err(damaged());
        }
        let mut entries: Vec<Vec<Entry>> = vec![Vec::new(); PARTS];
        let mut last = None;
        for _ in 0..count {
            let (name, behind) = rest.split_first_chunk().ok_or_else(damaged)?;
            rest = behind;
            let name = Pseudonym::from_bytes(*name);
            if last.replace(name).is_some_and(|last| last >= name) {
                return Err(damaged());
            }
            let mut number = || take_number(&mut rest).ok_or_else(damaged);
            let narrow = |number: u64| u32::try_from(number).map_err(|_| damaged());
            let (step, total, in_step) = (number()?, narrow(number()?)?, narrow(number()?)?);
            let kept = persons.bound.restore(step, total, in_step)?;
            entries[part_of(name)].push(Entry { name, kept });
        }
        if !rest.is_empty() {
            return Err(damaged());
        }
        for (part, entries) in persons.parts.iter_mut().zip(entries) {
            part.rebuild(&entries, room_for(entries.len()));
        }
        Ok(persons)
    }
}

fn damaged() -> crate::error::Error {
    usage("the saved counts of persons are damaged; restore an undamaged copy, or make them again from the raw data")
}

#[inline]
fn part_of(name: Pseudonym) -> usize {
    (name.leading() >> (u64::BITS - PART_BITS)) as usize
}

/// Homes of a part in which so many persons leave room for more.
fn room_for(persons: usize) -> usize {
    persons + persons / 2 + 8
}

/// A part of the table.
#[derive(Default)]
struct Part {
    entries: Vec<Entry>,
    /// How many entries are some person's home; those behind are for who is pushed beyond the last.
    homes: usize,
    taken: usize,
}

impl Part {
    #[inline]
    fn home(&self, name: Pseudonym) -> usize {
        let share = name.leading() << PART_BITS;
        ((u128::from(share) * self.homes as u128) >> u64::BITS) as usize // fits: below `homes`
    }

    #[inline]
    fn look(&self, name: Pseudonym) -> u64 {
        self.entries.get(self.home(name)).map_or(0, |entry| entry.name.leading())
    }

    /// What was kept of a person, who is entered if new.
    #[inline]
    fn entry(&mut self, name: Pseudonym) -> &mut Kept {
        let mut place = self.home(name);
        while self.entries.get(place).is_some_and(|entry| entry.name < name && !entry.is_free()) {
            place += 1;
        }
        match self.entries.get(place) {
            Some(entry) if entry.name == name && !entry.is_free() => &mut self.entries[place].kept,
            _ => self.enter(name, place),
        }
    }

    /// Enters a new person at a place, which pushes others on, or grows.
    #[cold]
    fn enter(&mut self, name: Pseudonym, place: usize) -> &mut Kept {
        let free = self.entries.iter().skip(place).position(Entry::is_free);
        let has_room = (self.taken + 1) * PLACES <= self.homes * TAKEN;
        let Some(pushed) = free.filter(|_| has_room) else {
            self.grow();
            return self.entry(name);
        };
        self.entries.copy_within(place..place + pushed, place + 1);
        self.entries[place] = Entry { name, kept: Kept::default() };
        self.taken += 1;
        &mut self.entries[place].kept
    }

    fn grow(&mut self) {
        let entries = std::mem::take(&mut self.entries);
        self.rebuild(&entries, self.homes + self.homes / TAKEN + 8);
    }

    /// Puts persons, in the order of their pseudonyms, into a table of so many homes or more.
    fn rebuild(&mut self, entries: &[Entry], homes: usize) {
        self.homes = homes;
        self.entries = vec![Entry::default(); homes + homes / 128 + 8];
        self.taken = 0;
        let mut next = 0;
        for entry in entries.iter().filter(|entry| !entry.is_free()) {
            let place = self.home(entry.name).max(next);
            let Some(free) = self.entries.get_mut(place) else {
                return self.rebuild(entries, homes + homes / TAKEN + 8); // crowded at the end, once in ages
            };
            *free = *entry;
            next = place + 1;
            self.taken += 1;
        }
    }
}

/// Appends a number as LEB128.
fn push_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Takes a LEB128 number from the front; `None` unless it is whole, fits and is as short as can be.
fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        if part << shift >> shift != part {
            return None;
        }
        number |= part << shift;
        if byte < 0x80 {
            return (byte != 0 || shift == 0).then_some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests;
