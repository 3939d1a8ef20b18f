//! Items of a sketch: whole numbers, texts and bytes.

use crate::arrays::{naturals, numpy};
use crate::error::invalid;
use evertally::sketch::Item;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyString};

/// An item that can be used without the GIL.
#[derive(Clone)]
pub(crate) enum Owned {
    Number(u64),
    Bytes(Vec<u8>),
}

impl<'a> From<&'a Owned> for Item<'a> {
    fn from(item: &'a Owned) -> Self {
        match item {
            Owned::Number(number) => Self::from(*number),
            Owned::Bytes(bytes) => Self::from(bytes.as_slice()),
        }
    }
}

/// One item, or the elements of an array, a column or any iterable.
pub(crate) enum ItemArgument {
    One(Owned),
    Many(Vec<Owned>),
}

impl ItemArgument {
    pub(crate) fn new(items: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Some(item) = one(items)? {
            return Ok(Self::One(item));
        }
        if !items.hasattr("__array__")? {
            return many(items).map(Self::Many);
        }
        let array = numpy(items.py())?.call_method1("asarray", (items,))?;
        let kind: String = array.getattr("dtype")?.getattr("kind")?.extract()?;
        if kind == "i" || kind == "u" {
            return Ok(Self::Many(naturals(&array)?.into_iter().map(Owned::Number).collect()));
        }
        many(&array.call_method0("tolist")?).map(Self::Many)
    }

    /// The items, in order.
    pub(crate) fn as_slice(&self) -> &[Owned] {
        match self {
            Self::One(item) => std::slice::from_ref(item),
            Self::Many(items) => items,
        }
    }
}

fn many(items: &Bound<'_, PyAny>) -> PyResult<Vec<Owned>> {
    items
        .try_iter()
        .map_err(|_| refusal(items))?
        .map(|item| {
            let item = item?;
            one(&item)?.ok_or_else(|| refusal(&item))
        })
        .collect()
}

fn one(item: &Bound<'_, PyAny>) -> PyResult<Option<Owned>> {
    if let Ok(text) = item.cast::<PyString>() {
        return Ok(Some(Owned::Bytes(text.to_str()?.as_bytes().to_vec())));
    }
    if let Ok(bytes) = item.cast::<PyBytes>() {
        return Ok(Some(Owned::Bytes(bytes.as_bytes().to_vec())));
    }
    let is_number = item.is_instance_of::<PyInt>() || (item.hasattr("__index__")? && !item.hasattr("__len__")?);
    if is_number {
        return item.extract().map(|number| Some(Owned::Number(number))).map_err(|_| refusal(item));
    }
    Ok(None)
}

fn refusal(item: &Bound<'_, PyAny>) -> PyErr {
    let shown = item.repr().map_or_else(|_| "this".into(), |text| text.to_string());
    invalid(format!("{shown} is not an item: items are whole numbers from 0 to 2^64 - 1, str or bytes"))
}
