//! The keys with events: names, sums, and each step's addition as long as it may have to be released.

use crate::state::damaged;
use crate::{Error, Result};
use hashbrown::{DefaultHashBuilder, HashTable};
use serde::{Deserialize, Serialize};
use std::hash::BuildHasher;

/// Marks a hidden key.
const HIDDEN: u32 = u32::MAX;

/// A table of keys by name. About 130 bytes per key with a short name and few steps with events.
#[derive(Default)]
pub(super) struct Keys {
    places: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// All names, concatenated.
    names: Vec<u8>,
    keys: Vec<DiscoveredKey>,
}

pub(super) struct DiscoveredKey {
    /// The end of its name in `names`.
    end: u64,
    /// Sum of the closed steps; of a hidden key only.
    sum: i64,
    /// Sum of the open step.
    open: i64,
    /// The last step of `past`.
    last: u64,
    past: Past,
    shown: u32,
    /// Whether it has events in the open step.
    is_touched: bool,
}

/// The sums of the steps with events, each as two LEB128 numbers: steps since the previous one, and the sum with its
/// sign in the lowest bit.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Past(Vec<u8>);

/// A hidden or shown key in a state.
#[derive(Serialize, Deserialize)]
pub(super) struct SavedKey {
    name: Vec<u8>,
    open: Option<i64>,
    past: Past,
}

impl Keys {
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The place of a key; inserts it if it is new.
    pub(super) fn place(&mut self, name: &[u8]) -> Result<u32> {
        let Self { places, hasher, names, keys } = self;
        let hash = hasher.hash_one(name);
        if let Some(place) = places.find(hash, |place| name_of(names, keys, *place) == name) {
            return Ok(*place);
        }
        let place = u32::try_from(keys.len()).ok().filter(|place| *place < HIDDEN);
        let place = place.ok_or_else(|| Error::overflow("there are more than 2^32 - 2 keys"))?;
        grow(names, name.len());
        grow(keys, 1);
        names.extend_from_slice(name);
        let end = names.len() as u64;
        let past = Past::default();
        keys.push(DiscoveredKey { end, sum: 0, open: 0, last: 0, past, shown: HIDDEN, is_touched: false });
        places.insert_unique(hash, place, |place| hasher.hash_one(name_of(names, keys, *place)));
        Ok(place)
    }

    pub(super) fn name(&self, place: u32) -> &[u8] {
        name_of(&self.names, &self.keys, place)
    }

    pub(super) fn get(&self, place: u32) -> &DiscoveredKey {
        &self.keys[place as usize]
    }

    pub(super) fn at(&mut self, place: u32) -> &mut DiscoveredKey {
        &mut self.keys[place as usize]
    }

    pub(super) fn with_open_events(&self) -> Vec<u32> {
        (0..self.keys.len() as u32).filter(|place| self.get(*place).is_touched).collect()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let past: usize = self.keys.iter().map(|key| key.past.0.capacity()).sum();
        self.places.allocation_size() + self.names.capacity() + self.keys.capacity() * size_of::<DiscoveredKey>() + past
    }

    /// All keys by name, and the place of each among them.
    pub(super) fn save(&self) -> (Vec<SavedKey>, Vec<u64>) {
        let mut order: Vec<u32> = (0..self.keys.len() as u32).collect();
        order.sort_unstable_by(|a, b| self.name(*a).cmp(self.name(*b)));
        let mut places = vec![0; order.len()];
        order.iter().zip(0..).for_each(|(key, place)| places[*key as usize] = place);
        let saved = |place: u32| {
            let key = self.get(place);
            SavedKey {
                name: self.name(place).to_vec(),
                open: key.is_touched.then_some(key.open),
                past: key.past.clone(),
            }
        };
        (order.into_iter().map(saved).collect(), places)
    }

    /// Restores the output of [`save`](Self::save) at this step.
    pub(super) fn restore(saved: Vec<SavedKey>, step: u64) -> Result<Self> {
        let mut keys = Self::default();
        for (number, saved) in saved.into_iter().enumerate() {
            let place = keys.place(&saved.name)?;
            if place as usize != number {
                return Err(damaged()); // duplicate name
            }
            let key = keys.at(place);
            for (at, sum) in saved.past.checked()? {
                key.sum = key.sum.checked_add(sum).ok_or_else(damaged)?;
                key.last = at;
            }
            if key.last > step {
                return Err(damaged());
            }
            (key.past, key.open, key.is_touched) = (saved.past, saved.open.unwrap_or(0), saved.open.is_some());
            key.check_room(0).map_err(|_| damaged())?;
        }
        Ok(keys)
    }
}

fn name_of<'n>(names: &'n [u8], keys: &[DiscoveredKey], place: u32) -> &'n [u8] {
    let start = if place == 0 { 0 } else { keys[place as usize - 1].end };
    &names[start as usize..keys[place as usize].end as usize]
}

/// Reserves a quarter of the present capacity: doubling would take twice the memory.
fn grow<T>(items: &mut Vec<T>, more: usize) {
    if items.capacity() - items.len() < more {
        items.reserve_exact(more.max(items.len() / 4));
    }
}

impl DiscoveredKey {
    pub(super) fn sum(&self) -> i64 {
        self.sum
    }

    pub(super) fn open(&self) -> i64 {
        self.open
    }

    pub(super) fn past(&self) -> &Past {
        &self.past
    }

    /// Its number among the shown keys.
    pub(super) fn shown(&self) -> Option<usize> {
        (self.shown != HIDDEN).then_some(self.shown as usize)
    }

    /// Shows it under this number; false if it was already shown.
    pub(super) fn show(&mut self, number: usize) -> bool {
        let was_hidden = self.shown == HIDDEN;
        (self.shown, self.sum) = (number as u32, 0); // fits: at most all keys are shown
        was_hidden
    }

    /// Removes and returns its past.
    pub(super) fn remove_past(&mut self) -> Past {
        std::mem::take(&mut self.past)
    }

    /// Whether the sum over all steps still fits if this value is added to the open step.
    pub(super) fn check_room(&self, value: i64) -> Result<()> {
        let open = self.open.checked_add(value);
        open.and_then(|open| self.sum.checked_add(open)).map(|_| ()).ok_or_else(|| {
            Error::overflow("the running sum leaves the range of 64-bit multiples of the grid; use a coarser grid")
        })
    }

    /// Adds a value that fits to the open step; true for the key's first event there.
    pub(super) fn add(&mut self, value: i64) -> bool {
        self.open += value;
        !std::mem::replace(&mut self.is_touched, true)
    }

    /// Closes the open step, `step`.
    pub(super) fn close(&mut self, step: u64) {
        let open = std::mem::take(&mut self.open);
        self.is_touched = false;
        if self.shown == HIDDEN && open != 0 {
            self.past.push(step - self.last, open);
            self.sum += open; // fits: checked by every `add`
            self.last = step;
        }
    }
}

impl Past {
    fn push(&mut self, steps: u64, sum: i64) {
        let sign = ((sum << 1) ^ (sum >> 63)) as u64;
        for mut number in [steps, sign] {
            while number >= 0x80 {
                self.0.push(number as u8 | 0x80);
                number >>= 7;
            }
            self.0.push(number as u8);
        }
    }

    /// Steps, ascending, and their sums.
    pub(super) fn events(&self) -> impl Iterator<Item = (u64, i64)> {
        let (mut rest, mut step) = (self.0.as_slice(), 0u64);
        std::iter::from_fn(move || {
            step = step.checked_add(number(&mut rest)?)?;
            let sign = number(&mut rest)?;
            Some((step, (sign >> 1) as i64 ^ -((sign & 1) as i64)))
        })
    }

    /// The same for bytes that may be damaged.
    fn checked(&self) -> Result<Vec<(u64, i64)>> {
        let mut whole = Self::default();
        let (events, mut last) = (self.events().collect::<Vec<_>>(), 0);
        for (step, sum) in &events {
            if *step <= last || *sum == 0 {
                return Err(damaged());
            }
            whole.push(step - last, *sum);
            last = *step;
        }
        if whole.0 == self.0 { Ok(events) } else { Err(damaged()) }
    }
}

/// Reads a LEB128 number from the front; `None` if there is none.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..u64::BITS).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}
