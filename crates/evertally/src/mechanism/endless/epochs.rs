//! All epochs of an endless mechanism.

use super::epoch::{Epoch, Inner, part, rest};
use super::grids::{LONGEST_BLT, WEIGHT_BITS};
use super::hat_epochs;
use super::shares::{ARITIES, ENDS, SHARES};
use crate::Result;
use crate::mechanism::{Blt, ColumnScaling, Inside, Objective};
use std::sync::Arc;

/// The longest horizon for which buffers are searched: parameters for longer ones exceed the available digits.
const LONGEST_SEARCH: u64 = 1 << 40;

/// All epochs, up to 2^62 steps.
pub(super) fn all(inside: Inside) -> Result<Arc<[Epoch]>> {
    if inside == Inside::Hats {
        return hat_epochs::all();
    }
    let columns = if inside == Inside::Normalized { ColumnScaling::Normalized } else { ColumnScaling::Plain };
    let mut epochs: Vec<Epoch> = vec![];
    for (k, (last, own)) in ENDS.into_iter().zip(SHARES[inside as usize]).enumerate() {
        let before = epochs.last().map_or(0, |epoch| epoch.last);
        let steps = last - before;
        let inner = match inside {
            Inside::Hats => unreachable!("hats have separate epochs"),
            Inside::Trees => Inner::tree(steps, ARITIES[k], |levels| f64::from((1 << WEIGHT_BITS) - own) / levels)?,
            _ if last > LONGEST_BLT => Inner::tree(steps, ARITIES[k], |levels| f64::from(rest(own)) / levels.sqrt())?,
            _ => {
                let buffers = Blt::best(steps.min(LONGEST_SEARCH), columns, Objective::Max)?.buffers();
                Inner::Filter(part(steps, columns, buffers, own)?)
            }
        };
        epochs.push(Epoch::after(epochs.last(), last, inner, own)?);
    }
    Ok(epochs.into())
}
