//! The order of the rows, and the smallest buffer that sorts them.

use serde::Serialize;

/// A larger sort buffer than this is not recommended: sorting all events takes no more memory.
const MOST_BUFFERED: usize = 1 << 18;

/// The size of a chunk of keys.
const CHUNK: usize = 1024;

/// The order of the rows by their steps, or by their times if no steps are declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "order")]
pub(super) enum RowOrder {
    Sorted,
    /// The newest row first.
    NewestFirst,
    /// A buffer of `buffer` events sorts them; `None` if only a sort of all events does.
    Unsorted {
        #[serde(rename = "sort_buffer")]
        buffer: Option<u64>,
    },
}

/// Finds the order of keys that arrive one by one.
///
/// An event needs a buffer as large as the number of earlier events with a greater key: with a smaller one, one of
/// those has left the buffer before it arrives. So only the greatest keys so far have to be known.
#[derive(Default)]
pub(super) struct OrderFinder {
    last: Option<i64>,
    rises: bool,
    falls: bool,
    greatest: GreatestKeys,
    /// The smallest sufficient buffer; `None` if it is too large.
    buffer: Option<usize>,
    has_begun: bool,
}

impl OrderFinder {
    pub(super) fn push(&mut self, key: i64) {
        if let Some(last) = self.last {
            self.rises |= key > last;
            self.falls |= key < last;
        }
        if !self.has_begun {
            (self.has_begun, self.buffer) = (true, Some(0));
        }
        self.last = Some(key);
        let Some(buffer) = self.buffer else { return };
        let above = self.greatest.insert(key);
        self.buffer = Some(buffer.max(above)).filter(|buffer| *buffer <= MOST_BUFFERED);
        if self.buffer.is_none() {
            self.greatest = GreatestKeys::default();
        }
    }

    pub(super) fn order(&self) -> RowOrder {
        match (self.rises, self.falls) {
            (_, false) => RowOrder::Sorted,
            (false, true) => RowOrder::NewestFirst,
            (true, true) => RowOrder::Unsorted { buffer: self.buffer.map(|events| events as u64) },
        }
    }
}

/// The greatest keys so far, a little more than [`MOST_BUFFERED`], in increasing order and in chunks.
#[derive(Default)]
struct GreatestKeys {
    chunks: std::collections::VecDeque<Vec<i64>>,
    count: usize,
}

impl GreatestKeys {
    /// Inserts a key; the number of greater ones, or more than [`MOST_BUFFERED`].
    fn insert(&mut self, key: i64) -> usize {
        // From the end, where nearly sorted keys arrive.
        let (mut place, mut above) = (self.chunks.len(), 0);
        while place > 0 && self.chunks[place - 1].first().is_some_and(|first| *first > key) {
            place -= 1;
            above += self.chunks[place].len();
        }
        let place = place.saturating_sub(1);
        if self.chunks.is_empty() {
            self.chunks.push_back(Vec::with_capacity(CHUNK));
        }
        let chunk = &mut self.chunks[place];
        let within = chunk.partition_point(|other| *other <= key);
        // Before the first chunk, all keys were counted already.
        if above < self.count {
            above += chunk.len() - within;
        }
        chunk.insert(within, key);
        self.count += 1;
        if chunk.len() == 2 * CHUNK {
            let upper = chunk.split_off(CHUNK);
            self.chunks.insert(place + 1, upper);
        }
        if self.count > MOST_BUFFERED + 2 * CHUNK {
            self.count -= self.chunks.pop_front().map_or(0, |chunk| chunk.len());
        }
        above
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(keys: impl IntoIterator<Item = i64>) -> RowOrder {
        let mut finder = OrderFinder::default();
        keys.into_iter().for_each(|key| finder.push(key));
        finder.order()
    }

    #[test]
    fn buffers_are_the_smallest_that_sort() {
        let unsorted = |buffer: u64| RowOrder::Unsorted { buffer: Some(buffer) };
        assert_eq!(order([]), RowOrder::Sorted);
        assert_eq!(order([1, 1, 2, 9]), RowOrder::Sorted);
        assert_eq!(order([9, 9, 2, 1]), RowOrder::NewestFirst);
        assert_eq!(order([1, 3, 2, 4]), unsorted(1));
        assert_eq!(order([1, 3, 3, 2, 4, 5, 4]), unsorted(2));
        // Against the definition, over several chunks.
        let keys: Vec<i64> = (0..6000).map(|i: i64| i + (i * i * 7919 + i) % 3000).collect();
        let above = |(place, key): (usize, &i64)| keys[..place].iter().filter(|earlier| *earlier > key).count();
        let wanted = keys.iter().enumerate().map(above).max().unwrap();
        assert_eq!(order(keys.iter().copied()), unsorted(wanted as u64));
    }

    #[test]
    fn far_rows_need_a_sort_of_all() {
        let far = MOST_BUFFERED as i64 + 5000;
        assert_eq!(order((1..far).chain([0, far])), RowOrder::Unsorted { buffer: None });
        let last = (1..far).chain([far - MOST_BUFFERED as i64 - 1]);
        assert_eq!(order(last), RowOrder::Unsorted { buffer: Some(MOST_BUFFERED as u64) });
    }
}
