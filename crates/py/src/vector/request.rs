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
    Ok(VectorRequest {
        neighbours: options.word("neighbours")?.unwrap_or(Neighbours::AddRemove),
        participation: Participation::new(most, separation).or_raise()?,
        mechanism: mechanism(options)?,
        objective: options.word("objective")?.unwrap_or(Objective::Max),
        series: options.word("series")?.unwrap_or(Series::Increments),
        cipher: options.take::<String>("cipher")?.map_or(Ok(Cipher::default()), |word| cipher(&word))?,
        meaning: meaning(options)?,
        ..VectorRequest::new(horizon, budget(options)?, options.take("norm")?.unwrap_or(1.0))
    })
}
