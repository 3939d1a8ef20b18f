//! The names of the dense optima: for one event, and for units with events in several steps.

use super::dense_runs::is_searched;
use super::{Dense, DenseRuns};
use crate::Result;
use crate::mechanism::name::parameters::Parameters;
use crate::mechanism::{Criterion, Mechanism, MechanismName, Objective, Optimum, Participation};
use std::fmt;
use std::sync::Arc;

pub(in crate::mechanism) fn parse(parameters: &mut Parameters<'_>) -> Result<MechanismName> {
    let (run, gap) = (parameters.number("run")?, parameters.number("gap")?);
    let runs = Participation::new(run.unwrap_or(1), gap.unwrap_or(1))?;
    Ok(MechanismName::Dense(Optimum::parse(parameters)?, runs))
}

pub(in crate::mechanism) fn write(f: &mut fmt::Formatter<'_>, optimum: Optimum, runs: Participation) -> fmt::Result {
    if runs == Participation::ONCE {
        return write!(f, "{optimum}");
    }
    write!(f, "(run={},gap={}", runs.most(), runs.separation())?;
    match optimum.to_string().strip_prefix('(') {
        Some(rest) => write!(f, ",{rest}"),
        None => f.write_str(")"),
    }
}

/// For the unit of the name; with an open name over a short horizon, for the unit of the criterion.
pub(in crate::mechanism) fn build(
    horizon: u64,
    criterion: &Criterion,
    optimum: Optimum,
    runs: Participation,
) -> Result<Arc<dyn Mechanism>> {
    let objective = optimum.objective.unwrap_or(criterion.objective());
    let is_open = runs == Participation::ONCE && optimum.digest.is_none();
    let unit = Some(criterion.unit().over(horizon)).filter(|unit| is_open && is_searched(horizon, *unit));
    let runs = unit.unwrap_or(runs);
    let aim = (objective, criterion.watch());
    Ok(match runs {
        Participation::ONCE => Arc::new(Dense::searched(horizon, aim)?.checked(optimum.digest)?),
        _ => Arc::new(DenseRuns::searched(horizon, runs, aim)?.checked(optimum.digest)?),
    })
}

pub(in crate::mechanism) fn brief(name: MechanismName) -> MechanismName {
    match name {
        MechanismName::Dense(optimum, runs) => MechanismName::Dense(optimum.brief(), runs),
        other => other,
    }
}

pub(in crate::mechanism) fn answers(asked: MechanismName, built: MechanismName, objective: Objective) -> bool {
    match (asked, built) {
        (MechanismName::Dense(asked, unit), MechanismName::Dense(built, runs)) => {
            asked.matches_request(built, objective) && (unit == runs || unit == Participation::ONCE)
        }
        _ => false,
    }
}
