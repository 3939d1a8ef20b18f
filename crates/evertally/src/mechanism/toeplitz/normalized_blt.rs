//! `normalized-blt`: the buffered linear Toeplitz matrix with columns of one length.

use super::blt::{best_in_loop, build_with};
use super::{Blt, ColumnScaling};
use crate::Result;
use crate::mechanism::BufferChoice;
use crate::mechanism::name::parameters::Parameters;
use crate::mechanism::{Criterion, Mechanism, MechanismName, Participation, TrainingLoop};
use std::fmt;
use std::sync::Arc;

pub(in crate::mechanism) fn parse(parameters: &mut Parameters<'_>) -> Result<MechanismName> {
    let (run, gap) = (parameters.number("run")?, parameters.number("gap")?);
    let runs = Participation::new(run.unwrap_or(1), gap.unwrap_or(1))?;
    Ok(MechanismName::NormalizedBlt(BufferChoice::parse(parameters)?, runs))
}

pub(in crate::mechanism) fn write(
    f: &mut fmt::Formatter<'_>,
    choice: BufferChoice,
    runs: Participation,
) -> fmt::Result {
    let mut parts = choice.to_string().trim_matches(['(', ')']).to_owned();
    let mut add = |key: &str, number: u64| {
        if number > 1 {
            let comma = if parts.is_empty() { "" } else { "," };
            parts = format!("{parts}{comma}{key}={number}");
        }
    };
    add("run", runs.most());
    add("gap", runs.separation());
    if parts.is_empty() { Ok(()) } else { write!(f, "({parts})") }
}

pub(in crate::mechanism) fn build(
    horizon: u64,
    criterion: &Criterion,
    choice: BufferChoice,
    runs: Participation,
) -> Result<Arc<dyn Mechanism>> {
    let aim = (criterion.objective(), criterion.watch());
    match choice {
        _ if runs == Participation::ONCE => build_with(horizon, ColumnScaling::Normalized, choice, criterion),
        BufferChoice::Given(buffers) => Ok(Arc::new(Blt::for_runs(horizon, runs, buffers)?)),
        BufferChoice::Best => Ok(Arc::new(Blt::best_count_for_runs(horizon, runs, aim)?)),
        BufferChoice::Count(count) => Ok(Arc::new(Blt::up_to_for_runs(horizon, runs, count, aim)?)),
    }
}

/// The mechanism of a name with open buffers, optimised for a training loop.
pub(in crate::mechanism) fn for_loop(
    name: MechanismName,
    training: &TrainingLoop<'_>,
) -> Option<Result<Arc<dyn Mechanism>>> {
    match name {
        MechanismName::NormalizedBlt(choice, Participation::ONCE) => {
            best_in_loop(ColumnScaling::Normalized, choice, training)
        }
        _ => None,
    }
}

pub(in crate::mechanism) fn brief(name: MechanismName) -> MechanismName {
    match name {
        MechanismName::NormalizedBlt(choice, runs) => MechanismName::NormalizedBlt(choice.brief(), runs),
        other => other,
    }
}
