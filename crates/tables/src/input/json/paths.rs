//! Names of wanted values: a key of the object, or a path to a value inside the objects and arrays in it.
//!
//! `actor.login` is the key `actor.login`, or the key `login` of the object under `actor`. `items[0].id` and
//! `items.0.id` are the key `id` of the first element of the array under `items`. At every level, the rest of the name
//! may also be one key: in `labels.app.example/name`, the object under `labels` may have the key `app.example/name`.

/// A key of an object, or an element of an array, that is wanted itself or has wanted values inside.
#[derive(Debug)]
pub(super) struct WantedKey {
    pub(super) key: String,
    /// The element of an array that it names.
    pub(super) place: Option<usize>,
    /// The slot of this value.
    pub(super) slot: Option<usize>,
    /// The number of the level inside this value.
    pub(super) inner: Option<usize>,
}

/// The wanted keys at each level; level 0 is the object of a row. Every other level is inside exactly one key.
#[derive(Debug)]
pub(super) struct KeyPaths {
    levels: Vec<Vec<WantedKey>>,
}

impl KeyPaths {
    /// The slot of each name is its position.
    pub(super) fn new(names: &[String]) -> Self {
        let mut paths = KeyPaths { levels: vec![Vec::new()] };
        for (slot, name) in names.iter().enumerate() {
            paths.key(0, name).slot = Some(slot);
            let mut level = 0;
            let keys = keys_of(name);
            for (before, after) in keys.iter().zip(keys.iter().skip(1)) {
                level = paths.level_inside(level, before.1);
                paths.key(level, &name[after.0..]).slot = Some(slot);
            }
            if let Some(last) = keys.last() {
                paths.key(level, last.1).slot = Some(slot);
            }
        }
        paths
    }

    /// The wanted keys at a level.
    #[inline]
    pub(super) fn level(&self, number: usize) -> &[WantedKey] {
        &self.levels[number]
    }

    /// The number of levels.
    pub(super) fn depth(&self) -> usize {
        self.levels.len()
    }

    /// Whether a level has elements of an array.
    pub(super) fn has_elements(&self, number: usize) -> bool {
        self.level(number).iter().any(|wanted| wanted.place.is_some())
    }

    /// Calls `each` for every slot at a level and inside of it.
    pub(super) fn each_slot(&self, number: usize, each: &mut dyn FnMut(usize)) {
        for wanted in self.level(number) {
            if let Some(slot) = wanted.slot {
                each(slot);
            }
            if let Some(inner) = wanted.inner {
                self.each_slot(inner, each);
            }
        }
    }

    fn key(&mut self, level: usize, key: &str) -> &mut WantedKey {
        let level = &mut self.levels[level];
        let known = level.iter().position(|wanted| wanted.key == key).unwrap_or_else(|| {
            level.push(WantedKey { key: key.to_owned(), place: place_of(key), slot: None, inner: None });
            level.len() - 1
        });
        &mut level[known]
    }

    fn level_inside(&mut self, level: usize, key: &str) -> usize {
        let next = self.levels.len();
        let inner = *self.key(level, key).inner.get_or_insert(next);
        if inner == next {
            self.levels.push(Vec::new());
        }
        inner
    }
}

/// The element of an array that a key names, if it is written as a number.
fn place_of(key: &str) -> Option<usize> {
    key.parse().ok().filter(|place: &usize| place.to_string() == key)
}

/// The keys of a path, each with its start in the name; none if the name is a single key.
fn keys_of(name: &str) -> Vec<(usize, &str)> {
    let (mut keys, mut start) = (Vec::new(), 0);
    for part in name.split('.') {
        let (key, places) = without_places(part);
        if key.is_empty() {
            return Vec::new();
        }
        keys.push((start, key));
        let mut at = start + key.len();
        for place in places.split_inclusive(']') {
            keys.push((at, &place[1..place.len() - 1]));
            at += place.len();
        }
        start += part.len() + 1;
    }
    if keys.len() > 1 { keys } else { Vec::new() }
}

/// Splits `items[0][1]` into `items` and `[0][1]`. Other brackets belong to the key.
fn without_places(part: &str) -> (&str, &str) {
    let (key, places) = part.split_at(part.find('[').unwrap_or(part.len()));
    let is_place = |place: &str| {
        let digits = place.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        digits.is_some_and(|digits| place_of(digits).is_some())
    };
    if places.split_inclusive(']').all(is_place) { (key, places) } else { (part, "") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_keys_and_paths() {
        let keys = |name| keys_of(name).into_iter().map(|(start, key)| format!("{start}:{key}")).collect::<Vec<_>>();
        assert_eq!(keys("actor.login"), ["0:actor", "6:login"]);
        assert_eq!(keys("items[0].id"), ["0:items", "5:0", "9:id"]);
        assert_eq!(keys("a[1][20]"), ["0:a", "1:1", "4:20"]);
        for single in ["time", "", ".", "a.", ".a", "a..b", "a[x]", "[0]", "a[01]", "concept:name"] {
            assert!(keys_of(single).is_empty(), "{single}");
        }
        assert_eq!(keys("a[x].b"), ["0:a[x]", "5:b"]);
    }

    #[test]
    fn levels_are_shared_by_names_with_the_same_beginning() {
        let names = ["time", "actor.login", "actor.id", "items[0].id"].map(String::from);
        let paths = KeyPaths::new(&names);
        let keys = |level| paths.level(level).iter().map(|wanted| &*wanted.key).collect::<Vec<_>>();
        assert_eq!(keys(0), ["time", "actor.login", "actor", "actor.id", "items[0].id", "items"]);
        assert_eq!((keys(1), keys(2), keys(3)), (vec!["login", "id"], vec!["[0].id", "0"], vec!["id"]));
        assert!(paths.has_elements(2) && !paths.has_elements(1));
        let mut slots = Vec::new();
        paths.each_slot(1, &mut |slot| slots.push(slot));
        assert_eq!(slots, [1, 2]);
    }
}
