//! Values of flags that are kebab-case words.

/// Parses a kebab-case word through the type's own deserialisation.
pub(crate) fn kebab<T: for<'de> serde::Deserialize<'de>>(text: &str) -> Result<T, String> {
    let word = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(text);
    T::deserialize(word).map_err(|e| e.to_string())
}
