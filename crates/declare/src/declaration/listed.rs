//! Values of files and of JSON, in which the only item of a list may stand for the list: `group-by = "hall"`.

use super::value::{Value, ValueKind};
use serde::de::value::SeqDeserializer;
use serde::de::{Deserializer, Error, IntoDeserializer, SeqAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};
use std::fmt;

/// A value as files write it.
pub(super) struct Listed<T>(pub(super) T);

/// The value of a field, if it is given.
pub(super) fn read<'de, T: Value, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    Ok(Option::<Listed<T>>::deserialize(deserializer)?.map(|listed| listed.0))
}

impl<'de, T: Value> Deserialize<'de> for Listed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let has_commas = match T::KIND {
            ValueKind::Texts | ValueKind::Groups | ValueKind::Scales | ValueKind::Decimals => false,
            // A path may contain a comma, and so may a measure: `histogram(10,20)`.
            ValueKind::Measures | ValueKind::Paths => true,
            _ => return T::deserialize(deserializer).map(Self),
        };
        T::deserialize(ListOf { inner: deserializer, has_commas }).map(Self)
    }
}

/// A list, or its only item.
struct ListOf<D> {
    inner: D,
    /// Whether an item may contain a comma. Otherwise a comma shows that several items were meant, as in a flag.
    has_commas: bool,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for ListOf<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_any(ListVisitor { visitor, has_commas: self.has_commas })
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, D::Error> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct seq
        tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct ListVisitor<V> {
    visitor: V,
    has_commas: bool,
}

impl<'de, V: Visitor<'de>> ListVisitor<V> {
    fn only<E: Error>(self, item: impl IntoDeserializer<'de, E>) -> Result<V::Value, E> {
        self.visitor.visit_seq(SeqDeserializer::new(std::iter::once(item)))
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for ListVisitor<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<V::Value, E> {
        if text.contains(',') && !self.has_commas {
            let items: Vec<String> = text.split(',').map(|item| format!("{:?}", item.trim())).collect();
            return Err(E::custom(format!("{text:?} is one text; write several as a list, [{}]", items.join(", "))));
        }
        self.only(text.to_owned())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<V::Value, E> {
        self.only(number)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<V::Value, E> {
        self.only(number)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<V::Value, E> {
        self.only(number)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_seq(items)
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{Declaration, Written};

    #[test]
    fn the_only_item_stands_for_its_list() {
        let one = "group-by = 'hall'\ngroups = 'North'\nmissing-text = 'NA'\nview = 'non-negative'\n\
                   measure = 'histogram(1,2)'\nscales = 2.5\nnormalise-ids = 'trim'\n";
        let list = "group-by = ['hall']\ngroups = ['North']\nmissing-text = ['NA']\nview = ['non-negative']\n\
                    measure = ['histogram(1,2)']\nscales = [2.5]\nnormalise-ids = ['trim']\n";
        let read = |text: &str| toml::from_str::<Declaration>(text).unwrap();
        assert_eq!(read(one), read(list));
        let written: Written = toml::from_str(&format!("{one}input = 'a,b.csv'\nplot-groups = 'North'")).unwrap();
        assert_eq!(written.declaration, read(list));
        assert_eq!(written.files.input.unwrap().0, [std::path::PathBuf::from("a,b.csv")]);
        assert_eq!(written.files.plot_groups.unwrap(), ["North"]);
        let json = r#"{"group-by": "hall", "groups": "North", "scales": 2.5, "missing-text": null}"#;
        let declared = Declaration::from_json(json).unwrap();
        assert_eq!((declared.group_by.unwrap(), declared.missing_text), (vec!["hall".to_owned()], None));
    }

    /// A text with a comma is not split, and is not one item either.
    #[test]
    fn several_items_are_a_list() {
        for text in ["groups = 'North, Park'", "group-by = 'hall,day'", "bounds = '0,100'"] {
            let problem = toml::from_str::<Written>(text).unwrap_err().to_string();
            assert!(problem.contains("write several as a list, [\""), "{problem}");
        }
        assert!(toml::from_str::<Written>("group-by = true").is_err());
        assert!(Declaration::from_json(r#"{"group-by": {"a": 1}}"#).is_err());
    }
}
