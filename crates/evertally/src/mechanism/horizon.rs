//! The range of horizons.

use crate::{Error, Result};

/// The longest horizon any mechanism accepts, `2^62` steps.
pub const MAX_HORIZON: u64 = 1 << 62;

/// Rejects horizons that no mechanism supports, before any search computes with them.
pub fn check_steps(horizon: u64) -> Result<()> {
    if horizon > MAX_HORIZON {
        return Err(Error::invalid(format!("the horizon must be at most 2^62 steps, got {horizon}")));
    }
    check_horizon(horizon, MAX_HORIZON, "plan").map(drop)
}

/// Checks a horizon against the range of one mechanism.
pub(super) fn check_horizon(horizon: u64, max: u64, mechanism: &str) -> Result<u64> {
    if horizon == 0 {
        return Err(Error::invalid("the horizon must be at least 1 step, got 0"));
    }
    if horizon > max {
        return Err(Error::invalid(format!("the horizon of `{mechanism}` must be at most {max} steps, got {horizon}")));
    }
    Ok(horizon)
}
