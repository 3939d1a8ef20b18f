//! The number of bands in the names of banded square roots.

use crate::mechanism::name::parameters::Parameters;
use crate::{Error, Result};
use std::fmt;

/// From `bands`, which is required.
pub(super) fn parse(parameters: &mut Parameters<'_>) -> Result<u64> {
    let (bands, stem) = (parameters.number("bands")?, parameters.stem);
    bands.ok_or_else(|| Error::invalid(format!("`{stem}` needs a number of bands: {stem}(bands=8)")))
}

pub(in crate::mechanism) fn write(f: &mut fmt::Formatter<'_>, bands: u64) -> fmt::Result {
    write!(f, "(bands={bands})")
}
