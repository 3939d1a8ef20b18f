//! The names of the values in an object, for messages.

use std::fmt;

use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The maximum number of names.
const MAX_NAMES: usize = 1000;

/// The maximum depth at which values have names. Deeper values are part of the object around them.
const MAX_DEPTH: u32 = 8;

/// The names under which the values of an object can be columns, with those inside of objects and of the first element
/// of arrays.
pub(in crate::input) fn names_of(object: &str) -> Vec<String> {
    let mut names = Vec::new();
    // Text that is not an object has no names; another error has been reported for it.
    let _ = collect(object, "", 0, &mut names);
    names
}

fn collect(value: &str, prefix: &str, depth: u32, names: &mut Vec<String>) -> serde_json::Result<()> {
    let mut parser = serde_json::Deserializer::from_str(value);
    NameCollector { prefix, depth, names }.deserialize(&mut parser)
}

struct NameCollector<'n> {
    prefix: &'n str,
    depth: u32,
    names: &'n mut Vec<String>,
}

impl NameCollector<'_> {
    fn add(&mut self, name: String, value: &RawValue) {
        if self.names.len() >= MAX_NAMES {
            return;
        }
        let before = self.names.len();
        if value.get().starts_with(['{', '[']) && self.depth < MAX_DEPTH {
            let _ = collect(value.get(), &name, self.depth + 1, self.names);
        }
        if self.names.len() == before {
            self.names.push(name);
        }
    }
}

impl<'de> DeserializeSeed<'de> for NameCollector<'_> {
    type Value = ();

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for NameCollector<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some((key, value)) = map.next_entry::<String, &'de RawValue>()? {
            let name = if self.prefix.is_empty() { key } else { format!("{}.{key}", self.prefix) };
            self.add(name, value);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<(), A::Error> {
        if let Some(first) = elements.next_element::<&'de RawValue>()? {
            self.add(format!("{}[0]", self.prefix), first);
        }
        while elements.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_inside_of_objects_have_names() {
        let object = r#"{"time":1,"actor":{"login":"a","tags":[]},"items":[{"id":[2]},3],"e":{}}"#;
        assert_eq!(names_of(object), ["time", "actor.login", "actor.tags", "items[0].id[0]", "e"]);
        assert!(names_of("3").is_empty());
        let deep = format!("{}1{}", "{\"a\":".repeat(100), "}".repeat(100));
        assert_eq!(names_of(&deep), [["a"; 9].join(".")]);
        let wide = format!("{{{}\"z\":1}}", (0..2000).map(|i| format!("\"k{i}\":1,")).collect::<String>());
        assert_eq!(names_of(&wide).len(), MAX_NAMES);
    }
}
