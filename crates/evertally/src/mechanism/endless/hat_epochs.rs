//! The epochs with hats inside, for Laplace noise.
//!
//! Hats over an epoch are already accurate early in it, because coarse sums have more of the budget at early steps. So
//! an epoch can be 64 times as long as all before it, and still no step is far above its optimum if it were the last.
//! Few epochs add up few totals, and the last release of an epoch estimates its total well enough: a separate node for
//! it costs more than it gains (its best share is zero, by the same search). Hats end at 2^22 steps; trees with
//! subtraction follow, in epochs that are 15 times longer each and whose totals are sums of five nodes.
//!
//! **How good.** From step 16 to 2^22 no variance is above 2.35 times the least largest one of *any* family of the
//! planner over as many steps, and from there to 2^40 above 1.9 times that of the families without end (a test allows
//! 2.5). Levels are frozen; noise depends on them.
//!
//! The first release of an epoch draws the noise of all its steps, up to four million.

use super::epoch::{Epoch, Inner};
use super::grids::WEIGHT_BITS;
use crate::Result;
use crate::mechanism::{MAX_HORIZON, SearchWatch};
use std::sync::Arc;

/// The epochs of hats: last step, levels, and `‖L_t‖²` of the last step for columns that sum to 1.
const HATS: [(u64, &str, f64); 4] = [
    (1 << 6, "spacing=18,first=600,last=369", 19.470640094137792),
    (1 << 12, "spacing=11/113/1719,first=513/185/75,last=620/658/502", 81.65986446977087),
    (1 << 18, "spacing=15/213/2400/72991,first=483/329/205/62,last=578/446/514/407", 187.81600369253977),
    (
        1 << 22,
        "spacing=12/136/2700/60000/1375000,first=477/330/250/190/38,last=560/446/480/384/275",
        249.50873865511414,
    ),
];
/// The trees that follow have this arity.
const ARITY: u64 = 15;
/// An epoch of a tree is this many nodes of the topmost level: its total is their sum, and it has few errors.
const DIGIT: u64 = 5;
/// Levels below the topmost one of the first tree; each later tree has one level more than the previous one.
const LEAST_DEPTH: u32 = 6;

/// All epochs, up to 2^62 steps. `O(n)` for the hats of all of them.
pub(super) fn all(watch: SearchWatch<'_>) -> Result<Arc<[Epoch]>> {
    let mut epochs: Vec<Epoch> = vec![];
    for (last, levels, variance) in HATS {
        watch.check()?;
        let before = epochs.last().map_or(0, |epoch: &Epoch| epoch.last);
        let inner = Inner::hats(last - before, &levels.parse()?, variance)?;
        epochs.push(Epoch::after(epochs.last(), last, inner, 0)?);
    }
    for depth in LEAST_DEPTH.. {
        let before = epochs.last().map_or(0, |epoch| epoch.last);
        if before == MAX_HORIZON {
            break;
        }
        let last = ARITY.saturating_pow(depth).saturating_mul(DIGIT).saturating_add(before).min(MAX_HORIZON);
        let inner = Inner::tree(last - before, ARITY, |levels| f64::from(1 << WEIGHT_BITS) / levels)?;
        epochs.push(Epoch::after(epochs.last(), last, inner, 0)?);
    }
    Ok(epochs.into())
}
