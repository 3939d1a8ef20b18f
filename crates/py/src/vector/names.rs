//! Names of the options of plans and streams of vectors.

use crate::error::invalid;
use evertally::plan::Objective;
use evertally::privacy::Neighbours;
use evertally_training::{Cipher, Memory, SamplingScheme, Series};
use pyo3::prelude::*;

/// The ciphers, by their names in the literature.
const CIPHERS: [(&str, Cipher); 3] =
    [("aes-128-ctr", Cipher::Aes128Ctr), ("chacha8", Cipher::ChaCha8), ("chacha20", Cipher::ChaCha20)];
const MEMORIES: [(&str, Memory); 2] = [("keep", Memory::Keep), ("recompute", Memory::Recompute)];

/// Parses the name of a cipher.
pub(crate) fn cipher(name: &str) -> PyResult<Cipher> {
    choice("cipher", name, &CIPHERS)
}

/// The name of a cipher.
pub(crate) fn cipher_name(cipher: Cipher) -> &'static str {
    CIPHERS.iter().find(|(_, other)| *other == cipher).expect("every cipher has a name").0
}

/// Parses the name of a memory mode.
pub(crate) fn memory(name: &str) -> PyResult<Memory> {
    choice("memory", name, &MEMORIES)
}

/// Parses the name of a sampling scheme.
pub(crate) fn sampling_scheme(name: &str) -> PyResult<SamplingScheme> {
    choice("sampling", name, &SamplingScheme::ALL.map(|scheme| (scheme.name(), scheme)))
}

/// The name of a series.
pub(crate) fn series_name(series: Series) -> &'static str {
    match series {
        Series::RunningSums => "running-sums",
        Series::Increments => "increments",
    }
}

/// The name of an objective.
pub(crate) fn objective_name(objective: Objective) -> &'static str {
    match objective {
        Objective::Max => "max",
        Objective::Mean => "mean",
    }
}

/// The name of a neighbouring relation.
pub(crate) fn neighbours_name(neighbours: Neighbours) -> &'static str {
    match neighbours {
        Neighbours::AddRemove => "add-remove",
        Neighbours::ReplaceOne => "replace-one",
    }
}

fn choice<T: Copy>(argument: &str, text: &str, known: &[(&str, T)]) -> PyResult<T> {
    let found = known.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let names: Vec<String> = known.iter().map(|(name, _)| format!("{name:?}")).collect();
        invalid(format!("{argument} must be one of {}, got {text:?}", names.join(", ")))
    })
}
