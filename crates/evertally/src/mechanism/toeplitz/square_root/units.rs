//! How far a unit moves the nodes: with its events in integers, and with its vectors.

use super::{Kind, SquareRoot, columns};
use crate::Result;
use crate::mechanism::accounting::chain::{self, Pattern};
use crate::mechanism::accounting::participation::rounded_up;
use crate::mechanism::{Mechanism, Participation, SearchWatch};
use crate::privacy::Spread;

impl SquareRoot {
    /// [`Mechanism::spread_squared`] in a computation that a watch may cancel.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) if the watch cancels it, here and below.
    pub(super) fn squared(&self, spread: Spread, watch: SearchWatch<'_>) -> Result<u128> {
        watch.check()?;
        let total = u128::from(spread.total);
        let together = total.saturating_mul(total).saturating_mul(self.largest_column(2, |f| f * f));
        if spread.per_step >= spread.total {
            return Ok(together);
        }
        if self.is_normalized() {
            let pattern = Pattern::new(spread);
            if pattern.full.saturating_mul(self.horizon()) > chain::MAX_ADDITIONS {
                return Ok(together);
            }
            let squared = rounded_up(chain::largest_watched(self, pattern, watch), 8 * self.horizon() + 256);
            watch.check()?;
            return Ok(together.min(libm::ceil(squared) as u128));
        }
        Ok(self.packed(spread).unwrap_or(together).min(together))
    }

    /// `Σ y_t²` for the packed pattern of a spread, `y_t = c Σ_{i<n} F_{t-ib} + r F_{t-nb}`; `None` if it does not fit.
    /// `O(T)`.
    fn packed(&self, spread: Spread) -> Option<u128> {
        let (number, rest) = (spread.total / spread.per_step, spread.total % spread.per_step);
        let separation = usize::try_from(spread.separation).unwrap_or(usize::MAX);
        let over = usize::try_from(number).unwrap_or(usize::MAX).saturating_mul(separation);
        let delayed = |values: &[u64], t: usize, delay: usize| t.checked_sub(delay).map_or(0, |t| values[t]);
        let mut combs: Vec<u64> = Vec::with_capacity(self.rounded.len());
        let mut sum = 0u128;
        for (t, f) in self.rounded.iter().enumerate() {
            combs.push(u64::from(*f) + delayed(&combs, t, separation)); // fits: 2^16 · 2^20
            let last = t.checked_sub(over).map_or(0, |t| u64::from(self.rounded[t]));
            let whole = u128::from(combs[t] - delayed(&combs, t, over)).checked_mul(spread.per_step.into())?;
            let node = whole.checked_add(u128::from(last).checked_mul(rest.into())?)?;
            sum = sum.checked_add(node.checked_mul(node)?)?;
        }
        Some(sum)
    }

    /// [`Mechanism::participation_squared`] in a computation that a watch may cancel.
    pub(super) fn squared_of_steps(&self, participation: Participation, watch: SearchWatch<'_>) -> Result<f64> {
        watch.check()?;
        // Positive numbers: a coefficient takes two roundings per step, that of a reciprocal series an additional sum.
        let steps = self.horizon();
        let operations = match self.kind {
            Kind::BandedInverse(bands) | Kind::BandedInversePower(bands, _) => steps * (bands + 2),
            Kind::Plain | Kind::Normalized | Kind::Banded(_) => 2 * steps,
        };
        if !self.is_normalized() {
            return Ok(participation.of_toeplitz(&self.coefficients, operations));
        }
        if participation.within(steps).saturating_mul(steps) <= chain::MAX_ADDITIONS {
            let (columns, cost) = (columns::Unrounded(self), (chain::MAX_ADDITIONS, 2 * operations + steps));
            let squared = chain::of_steps_watched(&columns, participation, cost, watch);
            return watch.check().map(|()| squared);
        }
        let pairs = participation.of_pairs(steps, |distance| self.closest_pair(distance as usize));
        Ok(rounded_up(pairs, 2 * operations + steps))
    }

    /// The largest inner product of two columns at this distance.
    pub(super) fn closest_pair(&self, distance: usize) -> f64 {
        // Column j of the later ones has T - j coefficients, the first ones; scales fall with the column.
        let products = self.coefficients.iter().zip(&self.coefficients[distance..]).scan(0.0, |sum, (a, b)| {
            *sum += a * b;
            Some(*sum)
        });
        let scales = self.scales[distance..].iter().rev().zip(self.scales[..self.scales.len() - distance].iter().rev());
        products.zip(scales).map(|(product, (later, earlier))| product / (later * earlier)).fold(0.0, f64::max)
    }
}
