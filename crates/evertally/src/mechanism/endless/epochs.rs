//! All epochs of an endless mechanism.

use super::epoch::{Epoch, Inner, part, rest};
use super::grids::{LONGEST_BLT, WEIGHT_BITS};
use super::growing::{self, Growing};
use super::hat_epochs;
use super::shares::{ARITIES, ENDS, SHARES};
use crate::Result;
use crate::mechanism::{Blt, ColumnScaling, Inside, Objective, Participation, SearchWatch};
use crate::privacy::Spread;
use std::sync::Arc;

/// The longest horizon for which buffers are searched: parameters for longer ones exceed the available digits.
const LONGEST_SEARCH: u64 = 1 << 40;

/// All epochs, up to 2^62 steps.
pub(super) fn all(inside: Inside, watch: SearchWatch<'_>) -> Result<Arc<[Epoch]>> {
    if inside == Inside::Hats {
        return hat_epochs::all(watch);
    }
    let columns = if inside == Inside::Normalized { ColumnScaling::Normalized } else { ColumnScaling::Plain };
    let mut epochs: Vec<Epoch> = vec![];
    for (k, (last, own)) in ENDS.into_iter().zip(SHARES[inside as usize]).enumerate() {
        watch.check()?;
        let before = epochs.last().map_or(0, |epoch| epoch.last);
        let steps = last - before;
        let inner = match inside {
            Inside::Hats | Inside::Growing => unreachable!("they have separate epochs"),
            Inside::Trees => Inner::tree(steps, ARITIES[k], |levels| f64::from((1 << WEIGHT_BITS) - own) / levels)?,
            _ if last > LONGEST_BLT => Inner::tree(steps, ARITIES[k], |levels| f64::from(rest(own)) / levels.sqrt())?,
            _ => {
                let best = Blt::best_watched(steps.min(LONGEST_SEARCH), columns, (Objective::Max, watch))?;
                Inner::Filter(part(steps, columns, best.buffers(), own)?)
            }
        };
        epochs.push(Epoch::after(epochs.last(), last, inner, own)?);
    }
    Ok(epochs.into())
}

/// One growing filter up to step 2^44, for units with events in these steps. No stream reaches the trees that follow:
/// their columns are at most as long, for a whole pattern in one of them, as a pattern in the filter.
pub(super) fn growing(runs: Participation, watch: SearchWatch<'_>) -> Result<Arc<[Epoch]>> {
    let filter = Growing::new(growing::LONGEST, runs, watch)?;
    let spread = Spread { separation: runs.separation(), ..Spread::new(runs.most(), 1) };
    let length = filter.largest_squares(spread, &[runs.most()])[0].sqrt() / runs.most() as f64;
    let weight = |levels: f64| (f64::from(1 << WEIGHT_BITS) * length.min(1.0) / levels.sqrt()).max(2.0);
    let mut epochs = vec![Epoch::after(None, growing::LONGEST, Inner::Growing(Box::new(filter)), 0)?];
    for (last, arity) in ENDS.into_iter().zip(ARITIES).filter(|(last, _)| *last > growing::LONGEST) {
        let before = epochs[epochs.len() - 1].last;
        epochs.push(Epoch::after(epochs.last(), last, Inner::tree(last - before, arity, weight)?, 0)?);
    }
    Ok(epochs.into())
}
