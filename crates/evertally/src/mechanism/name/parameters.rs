//! The parameters of a name, consumed one by one.

use crate::{Error, Result};
use std::str::FromStr;

/// The parts of `stem(key=value,…)`.
pub(in crate::mechanism) struct Parameters<'a> {
    pub(in crate::mechanism) text: &'a str,
    pub(in crate::mechanism) stem: &'a str,
    rest: Vec<(&'a str, &'a str)>,
}

impl<'a> Parameters<'a> {
    pub(in crate::mechanism) fn split(text: &'a str) -> Result<Self> {
        let malformed = || Error::invalid(format!("malformed mechanism `{text}`; write it like `smooth(h=6,zeros=3)`"));
        let Some((stem, rest)) = text.trim().split_once('(') else {
            return Ok(Self { text, stem: text.trim(), rest: vec![] });
        };
        let inner = rest.strip_suffix(')').ok_or_else(malformed)?;
        let pair = |part: &'a str| part.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
        let rest = inner.split(',').map(|part| pair(part).ok_or_else(malformed)).collect::<Result<Vec<_>>>()?;
        let given_before = |place: usize| rest[..place].iter().any(|(key, _)| *key == rest[place].0);
        if let Some(place) = (0..rest.len()).find(|place| given_before(*place)) {
            return Err(Error::invalid(format!("`{}` is given twice in `{text}`; give it once", rest[place].0)));
        }
        Ok(Self { text, stem: stem.trim(), rest })
    }

    /// The value of a key, if present.
    pub(in crate::mechanism) fn take(&mut self, key: &str) -> Option<&'a str> {
        let place = self.rest.iter().position(|(name, _)| *name == key)?;
        Some(self.rest.remove(place).1)
    }

    /// The same as a whole number.
    pub(in crate::mechanism) fn number<N: FromStr>(&mut self, key: &str) -> Result<Option<N>> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let refuse = |_| Error::invalid(format!("`{key}` of `{}` should be a whole number, got `{value}`", self.text));
        value.parse().map(Some).map_err(refuse)
    }

    pub(in crate::mechanism) fn none_left(&self) -> Result<()> {
        match self.rest.first() {
            None => Ok(()),
            Some((key, _)) => {
                Err(Error::invalid(format!("`{}` has no parameter `{key}`, in `{}`", self.stem, self.text)))
            }
        }
    }
}

/// Numbers with slashes between them.
pub(super) fn list<N: FromStr>(text: &str) -> Option<Vec<N>> {
    text.split('/').map(|number| number.trim().parse().ok()).collect()
}

/// The text that [`list`] reads.
pub(super) fn joined<N: ToString>(list: &[N]) -> String {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join("/")
}

/// The lists of `spacing=…,first=…,last=…`; `None` for any other text.
pub(super) fn spacings_and_shares<N: FromStr>(text: &str) -> Option<(Vec<N>, Vec<u16>, Vec<u16>)> {
    let mut parts = text.split(',');
    let mut next = |key: &str| parts.next()?.trim().strip_prefix(key);
    let (spacings, first, last) = (next("spacing=")?, next("first=")?, next("last=")?);
    parts.next().is_none().then_some(())?;
    Some((list(spacings)?, list(first)?, list(last)?))
}
