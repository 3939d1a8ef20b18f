//! The best ratio of own to common noise.
//!
//! For `k = d` groups in one step the least variance of a group is at `κ = √d`: `((√d + 1)/2)²` times that of a unit in
//! one group, instead of `d` times. Few groups of many need a larger `κ`. Smaller ones than 1 do not help single
//! groups.

use super::shift::Shift;
use super::{Correlation, GroupAim};

/// Ratio of two neighbouring ratios of the first search.
const COARSE: f64 = 1.3;

/// The ratio of least figure for some groups; `None` if independent noise is as good.
pub(in crate::plan) fn best(shift: &Shift, groups: u64, aim: GroupAim) -> Option<Correlation> {
    if groups < 2 || aim == GroupAim::Total || groups > Correlation::MAX_GROUPS {
        return None;
    }
    let of = |own_eighths: u64| {
        let correlation = Correlation::new(groups, own_eighths).ok()?;
        Some((shift.relative(correlation) / correlation.own_over_common() * correlation.figure(aim), correlation))
    };
    let mut ratios = vec![8u64];
    while let Some(last) = ratios.last().copied().filter(|last| *last < 64 * groups) {
        ratios.push(((last as f64 * COARSE) as u64).max(last + 1));
    }
    let least = |ratios: &mut dyn Iterator<Item = u64>| ratios.filter_map(of).min_by(|(a, _), (b, _)| a.total_cmp(b));
    let coarse = least(&mut ratios.into_iter())?.1.own_eighths;
    // Eight steps to each side.
    let step = ((coarse as f64 * (COARSE - 1.0) / 8.0) as u64).max(1);
    let mut near = (0..=16u64).filter_map(|number| (coarse + number * step).checked_sub(8 * step));
    let (figure, found) = least(&mut near)?;
    (figure < 1.0).then_some(found)
}
