//! All keys of an object, in their order.

use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The keys and values of an object that was read before: strings without quotes, null as no text, and other values as
/// they are written.
pub(super) fn cells_of(line: &str) -> Vec<(String, String)> {
    serde_json::Deserializer::from_str(line).deserialize_map(CellsVisitor).unwrap_or_default()
}

struct CellsVisitor;

impl<'de> Visitor<'de> for CellsVisitor {
    type Value = Vec<(String, String)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut cells = Vec::new();
        while let Some((key, value)) = map.next_entry::<String, &'de RawValue>()? {
            let text = match value.get() {
                "null" => String::new(),
                text => serde_json::from_str(text).unwrap_or_else(|_| text.to_owned()),
            };
            cells.push((key, text));
        }
        Ok(cells)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_key_is_a_cell() {
        let cells = super::cells_of(r#" {"a": "x\"y", "b": 1.50, "c": null, "d": {"e": [1]}, "f": true} "#);
        let texts: Vec<(&str, &str)> = cells.iter().map(|(key, text)| (key.as_str(), text.as_str())).collect();
        assert_eq!(texts, [("a", "x\"y"), ("b", "1.50"), ("c", ""), ("d", r#"{"e": [1]}"#), ("f", "true")]);
    }
}
