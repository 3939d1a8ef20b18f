//! The integer matrix of the hats, as straight pieces.

use crate::mechanism::name::hat_levels::{HatLevels, MAX_LEVELS, SHARE_UNITS};
use crate::privacy::Spread;
use crate::{Error, Result};

/// Hats over one step: two per level. Hat `i` of level `l` has slot `2 l + i mod 2`, and releases it before the hat two
/// later needs it.
pub(super) const SLOTS: usize = 2 * MAX_LEVELS;

/// The smallest part of a step's budget that its own weight may be.
const MAX_IDENTITY_DIVISOR: u64 = 256;
/// Minimum slope of a hat of the coarsest level, in units per step, for a share of 1 and before rounding.
const RESOLUTION_BITS: u32 = 8;
/// Minimum column sum.
const MIN_TOTAL: u64 = 1 << 12;

/// The matrix `R`: the weights of single steps and of hats, all integers, every column with the sum `total`.
#[derive(Clone, Debug)]
pub(super) struct HatShape {
    pub(super) horizon: u64,
    pub(super) levels: HatLevels,
    /// The sum of every column, a power of two, at most 2^32.
    pub(super) total: u64,
    hats: Vec<HatLevel>,
    /// The smallest of the largest entries of all rows.
    pub(super) least_height: u64,
    /// First steps of the straight pieces: 1 and every knot.
    starts: Vec<u64>,
}

/// The hats of one level. Their knots are `spacing` apart and end with `T + 1`, which has no hat: the last hat falls to
/// 0 there. The first hat is constant up to its knot.
#[derive(Clone, Debug)]
struct HatLevel {
    spacing: u64,
    first_knot: u64,
    /// Slope of every hat; its height is `slope · spacing`.
    slopes: Vec<u64>,
}

/// Steps over which every entry of `R` is a straight line.
pub(super) struct LinearPiece {
    /// The first step, from 1.
    pub(super) first: u64,
    /// Number of steps.
    pub(super) length: u64,
    /// The hat of every slot: its value at the first step and its slope; 0 for slots without a hat.
    pub(super) hats: [(i64, i64); SLOTS],
    /// The weight of the single step.
    pub(super) identity: (i64, i64),
}

impl HatLevel {
    /// The level with its first knot: at least a fifth of a spacing after step 1 if there is room for two hats.
    fn placed(horizon: u64, spacing: u64) -> Self {
        let count = ((5 * horizon - spacing) / (5 * spacing)).max(1);
        Self { spacing, first_knot: horizon + 1 - count * spacing, slopes: vec![0; count as usize] }
    }

    fn knot(&self, hat: usize) -> u64 {
        self.first_knot + hat as u64 * self.spacing
    }

    /// The falling hat of a step with value and slope, then the rising one, as the line that starts at this step.
    fn lines(&self, step: u64) -> [(usize, i64, i64); 2] {
        let slope = |hat: usize| self.slopes.get(hat).map_or(0, |slope| *slope as i64);
        if step < self.first_knot {
            return [(0, slope(0) * self.spacing as i64, 0), (1, 0, 0)];
        }
        let since = step - self.first_knot;
        let (hat, offset) = ((since / self.spacing) as usize, since % self.spacing);
        let (falling, rising) = (slope(hat), slope(hat + 1));
        [(hat, falling * (self.spacing - offset) as i64, -falling), (hat + 1, rising * offset as i64, rising)]
    }

    /// The budget of this level at a step.
    fn taken(&self, step: u64) -> u64 {
        self.lines(step).iter().map(|line| line.1 as u64).sum()
    }

    /// The steps over which a hat is not 0.
    fn support(&self, hat: usize) -> (u64, u64) {
        let first = if hat == 0 { 1 } else { self.knot(hat - 1) + 1 };
        (first, self.knot(hat + 1) - 1)
    }

    /// The sum of a hat over its steps.
    fn mass(&self, hat: usize) -> u64 {
        let cell: u64 = self.spacing * (self.spacing + 1) / 2; // 1 + … + w
        let before = if hat == 0 { (self.first_knot - 1) * self.spacing } else { cell - self.spacing };
        self.slopes[hat] * (before + cell)
    }
}

impl HatShape {
    /// # Errors
    /// If a spacing exceeds the horizon or the levels leave a step less than 1/256 of its budget.
    pub(super) fn new(horizon: u64, levels: HatLevels) -> Result<Self> {
        let coarsest: u64 = levels.spacings().last().copied().unwrap_or(1).into();
        Self::with_total(horizon, levels, (coarsest.next_power_of_two() << RESOLUTION_BITS).max(MIN_TOTAL))
    }

    /// The same with this sum of every column, at least the one of [`new`](Self::new) and at most 2^32.
    pub(super) fn with_total(horizon: u64, levels: HatLevels, total: u64) -> Result<Self> {
        let coarsest: u64 = levels.spacings().last().copied().unwrap_or(1).into();
        if coarsest > horizon {
            return Err(Error::invalid(format!("hats {coarsest} steps apart do not fit a horizon of {horizon} steps")));
        }
        let mut hats: Vec<HatLevel> = Vec::new();
        for (level, spacing) in levels.spacings().iter().enumerate().rev() {
            let mut placed = HatLevel::placed(horizon, (*spacing).into());
            let shares = levels.shares().map(|shares| u64::from(shares[level]));
            for hat in 0..placed.slopes.len() {
                let knot = placed.knot(hat);
                let left = total.saturating_sub(hats.iter().map(|coarser| coarser.taken(knot)).sum());
                // fits: share < 2^10, horizon ≤ 2^22, left ≤ 2^32
                let share = shares[0] * (horizon - knot) + shares[1] * (knot - 1);
                let whole = u64::from(SHARE_UNITS) * (horizon - 1) * placed.spacing;
                let height = u128::from(left) * u128::from(share) / u128::from(whole);
                placed.slopes[hat] = (height as u64).max(1);
            }
            hats.push(placed);
        }
        hats.reverse();
        let mut starts: Vec<u64> = hats.iter().flat_map(|l| (0..l.slopes.len()).map(|hat| l.knot(hat))).collect();
        starts.push(1);
        starts.sort_unstable();
        starts.dedup();
        let mut shape = Self { horizon, levels, total, hats, least_height: 0, starts };
        shape.check_identity()?;
        shape.least_height = shape.least_row_entry();
        Ok(shape)
    }

    /// First and last steps of all pieces: a function that is straight or convex along pieces is largest there, and one
    /// that is straight or concave is smallest there.
    pub(super) fn ends(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.pieces()).flat_map(|piece| [self.starts[piece], self.last_step(piece)])
    }

    /// The weight of a single step is smallest at an end of a piece.
    fn check_identity(&self) -> Result<()> {
        let taken = |step: u64| self.hats.iter().map(|level| level.taken(step)).sum::<u64>();
        let enough = |step: &u64| taken(*step) + self.total / MAX_IDENTITY_DIVISOR <= self.total;
        match self.ends().find(|step| !enough(step)) {
            None => Ok(()),
            Some(step) => Err(Error::invalid(format!(
                "the shares of hats `{}` leave step {step} less than 1/{MAX_IDENTITY_DIVISOR} of its budget; lower \
                 them",
                self.levels
            ))),
        }
    }

    /// Number of straight pieces.
    pub(super) fn pieces(&self) -> usize {
        self.starts.len()
    }

    /// The last step of a piece.
    fn last_step(&self, piece: usize) -> u64 {
        self.starts.get(piece + 1).map_or(self.horizon, |next| next - 1)
    }

    /// A piece by its number.
    pub(super) fn piece(&self, index: usize) -> LinearPiece {
        let first = self.starts[index];
        let mut hats = [(0, 0); SLOTS];
        let mut identity = (self.total as i64, 0);
        for (level, placed) in self.hats.iter().enumerate() {
            for (hat, value, slope) in placed.lines(first) {
                hats[2 * level + hat % 2] = (value, slope);
                identity = (identity.0 - value, identity.1 - slope);
            }
        }
        LinearPiece { first, length: self.last_step(index) + 1 - first, hats, identity }
    }

    /// The hats that end with a piece, as (level, number), finest first.
    pub(super) fn closing(&self, piece: usize) -> impl DoubleEndedIterator<Item = (usize, usize)> + '_ {
        let next = self.last_step(piece) + 1;
        self.hats.iter().enumerate().filter_map(move |(level, placed)| {
            let since = next.checked_sub(placed.first_knot).filter(|since| *since > 0)?;
            (since % placed.spacing == 0).then(|| (level, (since / placed.spacing) as usize - 1))
        })
    }

    /// Number of hats.
    pub(super) fn hat_count(&self) -> usize {
        self.hats.iter().map(|level| level.slopes.len()).sum()
    }

    /// Steps of a hat, first and last.
    pub(super) fn support(&self, level: usize, hat: usize) -> (u64, u64) {
        self.hats[level].support(hat)
    }

    /// The largest entry of a hat.
    pub(super) fn height(&self, level: usize, hat: usize) -> u64 {
        self.hats[level].slopes[hat] * self.hats[level].spacing
    }

    /// Number of levels of hats.
    pub(super) fn level_count(&self) -> usize {
        self.hats.len()
    }

    /// The sum of a hat over its steps.
    pub(super) fn mass(&self, level: usize, hat: usize) -> u64 {
        self.hats[level].mass(hat)
    }

    /// The weight of a single step.
    pub(super) fn identity(&self, step: u64) -> u64 {
        self.total - self.hats.iter().map(|level| level.taken(step)).sum::<u64>()
    }

    /// The hats over a step with their entries, as (level, number, entry); hats with entry 0 may be among them.
    pub(super) fn over(&self, step: u64) -> impl Iterator<Item = (usize, usize, u64)> + '_ {
        let lines = move |(level, placed): (usize, &HatLevel)| {
            let exists = placed.slopes.len();
            placed
                .lines(step)
                .into_iter()
                .filter(move |line| line.0 < exists)
                .map(move |line| (level, line.0, line.1 as u64))
        };
        self.hats.iter().enumerate().flat_map(lines)
    }

    /// The smallest of the largest entries of all rows.
    fn least_row_entry(&self) -> u64 {
        let hats = self.hats.iter().flat_map(|level| level.slopes.iter().map(|slope| slope * level.spacing));
        let steps = self.ends().map(|step| self.identity(step));
        hats.chain(steps).min().expect("there is a first step")
    }

    /// The largest value over all columns of a function of a column that is convex along pieces.
    fn largest(&self, of_column: impl Fn(u64) -> u128) -> u128 {
        self.ends().map(of_column).max().expect("there is a first step")
    }

    /// The largest sum of squares of a column. Exact: squares of straight lines are convex.
    pub(super) fn column_squares(&self) -> u128 {
        let square = |x: u64| u128::from(x) * u128::from(x);
        self.largest(|step| square(self.identity(step)) + self.over(step).map(|hat| square(hat.2)).sum::<u128>())
    }

    /// `max_i Σ_n R_ni · c_n` with `c_n` the most that a unit's events add to node `n` (see the mechanism's
    /// documentation).
    pub(super) fn capped_column(&self, spread: Spread) -> u128 {
        let (total, per_step) = (u128::from(spread.total), u128::from(spread.per_step));
        let cap = |height: u64, mass: u64| (total * u128::from(height)).min(per_step * u128::from(mass));
        self.largest(|step| {
            let own = u128::from(self.identity(step));
            let hats = self.over(step).map(|(level, hat, entry)| {
                u128::from(entry).saturating_mul(cap(self.height(level, hat), self.hats[level].mass(hat)))
            });
            (own * own).saturating_mul(total.min(per_step)).saturating_add(hats.fold(0, u128::saturating_add))
        })
    }
}
