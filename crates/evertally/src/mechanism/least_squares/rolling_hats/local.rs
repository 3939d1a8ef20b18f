//! Least squares around one period: the estimates of its steps from measurements up to two periods away.
//!
//! With `D` = `1/W²` for the weight `W` of single steps, the estimates are corrected by `D Hᵀ M⁻¹ r` with
//! `M = I + D H Hᵀ`, as in `hats`, where `H` are the hats that lie in the five surrounding periods. Ordered by their
//! ends, the later neighbours of a hat overlap each other already, so elimination causes no fill-in.

use super::shape::RollingHatShape;

/// Periods before and after the one that is estimated. Measurements farther away contribute so little that the variance
/// of a window is within 1 % of that with all hats; one period costs 5 to 25 %.
pub(super) const REACH: u64 = 2;
/// Periods that are used.
pub(super) const AROUND: u64 = 2 * REACH + 1;

/// A hat in the five periods: its number is counted from their beginning.
#[derive(Clone, Copy, Debug)]
pub(super) struct RollingHat {
    pub(super) level: usize,
    pub(super) number: u64,
}

/// The result of eliminating one hat.
#[derive(Debug)]
struct RollingElimination {
    pivot: f64,
    /// Later hats with their multipliers.
    multipliers: Vec<(usize, f64)>,
}

/// `M = K Δ Kᵀ` for the hats of five periods.
#[derive(Debug)]
pub(super) struct Local {
    /// In the order of elimination.
    hats: Vec<RollingHat>,
    /// Indices of the hats of a level in that order; the first is that of number 1.
    places: Vec<Vec<usize>>,
    columns: Vec<RollingElimination>,
}

/// The weight of every measurement in an estimate.
pub(super) struct MeasurementWeights {
    /// For the single steps of five periods.
    pub(super) singles: Vec<f64>,
    /// For the hats, in their order.
    pub(super) hats: Vec<f64>,
}

impl Local {
    /// `O(p l²)` for a period `p` and `l` levels.
    pub(super) fn new(shape: &RollingHatShape) -> Self {
        let length = AROUND * shape.period();
        let mut hats: Vec<RollingHat> = (0..shape.level_count())
            .flat_map(|level| (1..length / shape.spacing(level)).map(move |number| RollingHat { level, number }))
            .collect();
        hats.sort_by_key(|hat| ((hat.number + 1) * shape.spacing(hat.level), hat.level));
        let mut places: Vec<Vec<usize>> = vec![vec![]; shape.level_count()];
        hats.iter().enumerate().for_each(|(place, hat)| places[hat.level].push(place));
        let mut local = Self { hats, places, columns: vec![] };
        local.columns = local.eliminated(shape);
        local
    }

    pub(super) fn hats(&self) -> &[RollingHat] {
        &self.hats
    }

    /// The index of a hat, `None` for hats that reach beyond the five periods.
    fn place(&self, level: usize, number: u64) -> Option<usize> {
        self.places[level].get((number as usize).checked_sub(1)?).copied()
    }

    /// Positions over which a hat is not 0.
    fn support(shape: &RollingHatShape, hat: RollingHat) -> std::ops::Range<u64> {
        let spacing = shape.spacing(hat.level);
        (hat.number - 1) * spacing + 1..(hat.number + 1) * spacing
    }

    fn entry(shape: &RollingHatShape, hat: RollingHat, position: u64) -> u64 {
        shape.entry(hat.level, position.abs_diff(hat.number * shape.spacing(hat.level)))
    }

    /// The part of a row of `M` that belongs to the hat and later ones.
    fn row(&self, shape: &RollingHatShape, place: usize) -> (f64, Vec<(usize, f64)>) {
        let variance = 1.0 / (shape.single as f64 * shape.single as f64);
        let hat = self.hats[place];
        let support = Self::support(shape, hat);
        let dot = |other: RollingHat| {
            let theirs = Self::support(shape, other);
            let both = support.start.max(theirs.start)..support.end.min(theirs.end);
            // fits: 2^16 products below 2^46
            both.map(|position| Self::entry(shape, hat, position) * Self::entry(shape, other, position)).sum::<u64>()
        };
        // For each level, the hats whose knots are less than the sum of both spacings away.
        let mut later = vec![];
        for level in 0..shape.level_count() {
            let (spacing, knot) = (shape.spacing(level), hat.number * shape.spacing(hat.level));
            let reach = spacing + shape.spacing(hat.level);
            let numbers = (knot + 1).saturating_sub(reach).div_ceil(spacing)..=(knot + reach) / spacing;
            let places = numbers.filter_map(|number| self.place(level, number)).filter(|other| *other > place);
            later.extend(places.map(|other| (other, dot(self.hats[other]))));
        }
        later.retain(|(_, dot)| *dot > 0);
        later.sort_unstable_by_key(|(other, _)| *other);
        let later = later.into_iter().map(|(other, dot)| (other, dot as f64 * variance)).collect();
        (1.0 + dot(hat) as f64 * variance, later)
    }

    fn eliminated(&self, shape: &RollingHatShape) -> Vec<RollingElimination> {
        let mut rows: Vec<(f64, Vec<(usize, f64)>)> =
            (0..self.hats.len()).map(|place| self.row(shape, place)).collect();
        let mut columns = Vec::with_capacity(rows.len());
        for place in 0..rows.len() {
            let (pivot, later) = std::mem::take(&mut rows[place]);
            for (index, (first, factor)) in later.iter().enumerate() {
                let (own, theirs) = &mut rows[*first];
                *own -= factor * factor / pivot;
                for (second, entry) in &later[index + 1..] {
                    let change = factor * entry / pivot;
                    match theirs.binary_search_by_key(second, |(other, _)| *other) {
                        Ok(found) => theirs[found].1 -= change,
                        Err(gap) => theirs.insert(gap, (*second, -change)),
                    }
                }
            }
            let multipliers = later.into_iter().map(|(other, entry)| (other, entry / pivot)).collect();
            columns.push(RollingElimination { pivot, multipliers });
        }
        columns
    }

    /// `M⁻¹` of a vector.
    pub(super) fn solve(&self, mut vector: Vec<f64>) -> Vec<f64> {
        for (place, column) in self.columns.iter().enumerate() {
            let value = vector[place];
            column.multipliers.iter().for_each(|(later, multiplier)| vector[*later] -= multiplier * value);
        }
        for (place, column) in self.columns.iter().enumerate().rev() {
            let known: f64 = column.multipliers.iter().map(|(later, multiplier)| multiplier * vector[*later]).sum();
            vector[place] = vector[place] / column.pivot - known;
        }
        vector
    }

    /// The indices of the hats over a position of the five periods, with their entries.
    pub(super) fn over<'a>(
        &'a self,
        shape: &'a RollingHatShape,
        position: u64,
    ) -> impl Iterator<Item = (usize, u64)> + 'a {
        shape.over(position).filter_map(|(level, number, entry)| Some((self.place(level, number)?, entry)))
    }

    /// `D Hᵀ μ` at the steps of the middle period.
    pub(super) fn corrections(&self, shape: &RollingHatShape, solution: &[f64]) -> Vec<f64> {
        let variance = 1.0 / (shape.single as f64 * shape.single as f64);
        let first = REACH * shape.period();
        let at = |position| {
            let hats = self.over(shape, position).map(|(place, entry)| entry as f64 * solution[place]);
            variance * hats.sum::<f64>()
        };
        (first..first + shape.period()).map(at).collect()
    }

    /// How the sum of the estimates of some steps of the middle period depends on the measurements. `O(p l)`.
    pub(super) fn weights(&self, shape: &RollingHatShape, steps: std::ops::Range<u64>) -> MeasurementWeights {
        let single = shape.single as f64;
        let middle = REACH * shape.period();
        let steps = middle + steps.start..middle + steps.end;
        let mut covered = vec![0.0; self.hats.len()];
        for position in steps.clone() {
            for (place, entry) in self.over(shape, position) {
                covered[place] += entry as f64 / (single * single);
            }
        }
        let hats = self.solve(covered);
        let mut singles: Vec<f64> =
            (0..AROUND * shape.period()).map(|position| f64::from(u8::from(steps.contains(&position)))).collect();
        for (hat, weight) in self.hats.iter().zip(&hats) {
            for position in Self::support(shape, *hat) {
                singles[position as usize] -= weight * Self::entry(shape, *hat, position) as f64;
            }
        }
        singles.iter_mut().for_each(|weight| *weight /= single);
        MeasurementWeights { singles, hats }
    }

    /// Number of stored numbers.
    pub(super) fn words(&self) -> u64 {
        self.columns.iter().map(|column| 8 + 2 * column.multipliers.len() as u64).sum()
    }
}
