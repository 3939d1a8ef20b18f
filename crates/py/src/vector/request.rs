//! Keyword arguments as the request for a plan of vectors.

use crate::error::OrRaise;
use crate::options::Options;
use crate::request::{budget, meaning, mechanism};
use crate::vector::words::cipher;
use crate::whole::Whole;
use evertally::mechanism::Participation;
use evertally::plan::Objective;
use evertally::privacy::Neighbours;
use evertally::vector::{Cipher, Series, VectorRequest};
use pyo3::prelude::*;

/// The request that the keyword arguments make.
pub(crate) fn request(options: &Options<'_>) -> PyResult<VectorRequest> {
    let Whole(horizon) = options.needed("horizon")?;
    let Whole(most) = options.take("participations")?.unwrap_or(Whole(1));
    let Whole(separation) = options.take("separation")?.unwrap_or(Whole(1));
    Ok(VectorRequest::new(horizon, budget(options)?, options.take("norm")?.unwrap_or(1.0))
        .with_neighbours(options.word("neighbours")?.unwrap_or(Neighbours::AddRemove))
        .with_participation(Participation::new(most, separation).or_raise()?)
        .with_optional_mechanism(mechanism(options)?)
        .with_objective(options.word("objective")?.unwrap_or(Objective::Max))
        .with_series(options.word("series")?.unwrap_or(Series::Increments))
        .with_cipher(options.take::<String>("cipher")?.map_or(Ok(Cipher::default()), |word| cipher(&word))?)
        .with_meanings(meaning(options)?))
}
