//! Keyword arguments as the request for a plan of vectors.

use crate::error::OrRaise;
use crate::request::Options;
use crate::vector::words::cipher;
use evertally::mechanism::{MechanismName, Participation};
use evertally::plan::Objective;
use evertally::privacy::Neighbours;
use evertally::vector::{Cipher, Series, VectorRequest};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::BTreeMap;

/// What [`vector_plan`](super::plan::vector_plan) takes besides the horizon.
const NAMES: [&str; 14] = [
    "norm",
    "epsilon",
    "delta",
    "rho",
    "budget",
    "allow_weak_budget",
    "mechanism",
    "objective",
    "series",
    "participations",
    "separation",
    "neighbours",
    "cipher",
    "meaning",
];

/// The request that the keyword arguments make.
pub(crate) fn request(py: Python<'_>, horizon: u64, options: Option<&Bound<'_, PyDict>>) -> PyResult<VectorRequest> {
    let options = Options::of(py, options, &NAMES)?;
    let mechanism = options.get::<String>("mechanism")?;
    let (most, separation) = (options.get("participations")?, options.get("separation")?);
    Ok(VectorRequest::new(horizon, options.privacy()?, options.get("norm")?.unwrap_or(1.0))
        .with_neighbours(options.word("neighbours")?.unwrap_or(Neighbours::AddRemove))
        .with_participation(Participation::new(most.unwrap_or(1), separation.unwrap_or(1)).or_raise()?)
        .with_optional_mechanism(mechanism.as_deref().map(str::parse::<MechanismName>).transpose().or_raise()?)
        .with_objective(options.word("objective")?.unwrap_or(Objective::Max))
        .with_series(options.word("series")?.unwrap_or(Series::Increments))
        .with_cipher(options.get::<String>("cipher")?.map_or(Ok(Cipher::default()), |word| cipher(&word))?)
        .with_meanings(options.get::<BTreeMap<String, String>>("meaning")?.unwrap_or_default()))
}
