//! A bound of the shifts of a unit over a long horizon that is fast for each unit.
//!
//! The exact `max_i Σ_n R_ni c_n` (see [`HatShape::capped_column`]) visits all pieces for every unit. Here pieces are
//! joined into blocks. A block keeps the largest weight of a single step, and for every level the maximum contribution
//! to a step and the largest height and mass of its hats. With these instead of the values of each step the sum is no
//! smaller, and as shares change slowly along the steps, hardly larger.

use super::shape::HatShape;
use crate::privacy::Spread;

/// Ends of pieces in a block.
const ENDS: usize = 64;

/// Ends of the last pieces, each of which is its own block.
const LAST: usize = 128;

/// Summary of the pieces of a shape.
#[derive(Clone, Debug)]
pub(super) struct ShapeSummary {
    blocks: Vec<PieceBlock>,
    /// The largest sum of squares of a column.
    squares: u128,
}

#[derive(Clone, Debug, Default)]
struct PieceBlock {
    identity: u64,
    levels: Vec<LevelMaxima>,
}

/// The maxima of a level in a block.
#[derive(Clone, Copy, Debug, Default)]
struct LevelMaxima {
    taken: u64,
    height: u64,
    mass: u64,
}

impl ShapeSummary {
    /// `O(n l)` for `n` hats on `l` levels.
    pub(super) fn new(shape: &HatShape) -> Self {
        // All entries are straight along pieces, and the summed function is convex: it is largest at their ends.
        let ends: Vec<u64> = shape.ends().collect();
        let of_block = |ends: &[u64]| {
            let mut block = PieceBlock { identity: 0, levels: vec![LevelMaxima::default(); shape.level_count()] };
            for &step in ends {
                block.identity = block.identity.max(shape.identity(step));
                let mut taken = vec![0; block.levels.len()];
                for (level, hat, entry) in shape.over(step) {
                    taken[level] += entry;
                    let widest = &mut block.levels[level];
                    widest.height = widest.height.max(shape.height(level, hat));
                    widest.mass = widest.mass.max(shape.mass(level, hat));
                }
                block.levels.iter_mut().zip(taken).for_each(|(widest, taken)| widest.taken = widest.taken.max(taken));
            }
            block
        };
        // Towards the end hats fall to 0 and single steps take the remainder: there every end is a block.
        let (most, last) = ends.split_at(ends.len().saturating_sub(LAST));
        let blocks = most.chunks(ENDS).chain(last.chunks(1)).map(of_block).collect();
        Self { blocks, squares: shape.column_squares() }
    }

    /// At least the smaller of `max_i Σ_n R_ni c_n` and the shift of all events in one column.
    pub(super) fn capped_column(&self, spread: Spread) -> u128 {
        let (total, per_step) = (u128::from(spread.total), u128::from(spread.per_step));
        let of_level = |level: &LevelMaxima| {
            let cap = (total * u128::from(level.height)).min(per_step * u128::from(level.mass));
            u128::from(level.taken).saturating_mul(cap)
        };
        let of_block = |block: &PieceBlock| {
            let own = u128::from(block.identity);
            let levels = block.levels.iter().map(of_level).fold(0, u128::saturating_add);
            (own * own).saturating_mul(total.min(per_step)).saturating_add(levels)
        };
        let capped = self.blocks.iter().map(of_block).max().unwrap_or(0);
        capped.min(total.saturating_mul(self.squares))
    }
}

#[cfg(test)]
mod tests {
    use crate::mechanism::{Hats, Mechanism};
    use crate::privacy::Spread;

    #[test]
    fn no_unit_is_below_its_exact_bound_or_far_above() {
        for (horizon, levels) in [
            (300, "spacing=12/150,first=480/417,last=516/257"),
            (50_000, "spacing=15/213/2400,first=483/329/205,last=578/446/514"),
            (1 << 18, "spacing=15/213/2400/72991,first=483/329/205/62,last=578/446/514/407"),
        ] {
            let hats = Hats::new(horizon, &levels.parse().unwrap()).unwrap();
            for total in [1, 2, 7, 35, 400, 1 << 40] {
                for per_step in [1, 3, total] {
                    let spread = Spread::new(total, per_step.min(total));
                    let (exact, bound) = (hats.spread_squared(spread), hats.spread_squared_by_blocks(spread));
                    assert!(bound >= exact, "{horizon} {total} {per_step}");
                    assert!(bound as f64 <= 1.1 * exact as f64, "{horizon} {total} {per_step}: {bound} {exact}");
                }
            }
        }
    }
}
