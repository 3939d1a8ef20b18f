//! How far a unit moves the nodes, with its events and with its vectors: the bound for each scaling of the columns.

use super::participation::{self, Packing};
use super::{Blt, Scaling, WEIGHT_BITS, patterns, runs};
use crate::Result;
use crate::mechanism::accounting::participation::rounded_up;
use crate::mechanism::{Participation, SearchWatch};
use crate::number::power;
use crate::privacy::Spread;

impl Blt {
    /// [`participation_squared`](crate::mechanism::Mechanism::participation_squared) in a computation that a watch may
    /// cancel.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) if the watch cancels it, here and below.
    pub(super) fn squared_of_steps(&self, participation: Participation, watch: SearchWatch<'_>) -> Result<f64> {
        watch.check()?;
        let response = self.figures.response();
        let segments = self.constants.segments();
        let columns = (response, segments);
        let squared = match self.scaling {
            Scaling::Plain => participation::plain(response, self.horizon, participation),
            Scaling::Equal(Participation::ONCE) => {
                let of_pairs = participation::normalized(columns, WEIGHT_BITS, (self.horizon, participation), watch);
                watch.check()?;
                // No column is longer than the longest, and inner products of columns of one length are known.
                let spread = Spread {
                    separation: participation.separation(),
                    ..Spread::new(participation.within(self.horizon), 1)
                };
                if spread.total > participation::MAX_PATTERN_STEPS {
                    of_pairs
                } else {
                    let packing = Packing::new(spread);
                    let packed = patterns::normalized(response, self.horizon, &packing, &[spread.total], watch);
                    of_pairs.min(rounded_up(self.columns.l2_squared * packed[0], 8))
                }
            }
            Scaling::Cut(_) if self.horizon > runs::MAX_TABLE_STEPS => {
                participation.of_any(self.horizon, rounded_up(self.columns.l2_squared, 8))
            }
            Scaling::Equal(_) if self.horizon > runs::MAX_TABLE_STEPS => {
                let pattern = (participation.within(self.horizon), 0.0);
                let columns = runs::SegmentColumns::new(response, segments, WEIGHT_BITS);
                columns.largest(1.0, participation.separation(), &[pattern])[0]
            }
            Scaling::Equal(_) | Scaling::Cut(_) => {
                participation::weighted(columns, WEIGHT_BITS, (self.horizon, participation), watch)
            }
        };
        watch.check()?;
        Ok(squared)
    }

    /// Whether a unit can have events in more steps than are computed one by one.
    fn has_many_steps(&self, spread: Spread) -> bool {
        let (full, _) = Packing::new(spread).pattern(spread.total, self.horizon);
        full > runs::MAX_TABLE_STEPS
    }

    /// The largest `‖R u‖²` over the counts `u` of a unit in one running sum, rounded up, for several numbers of events
    /// in non-decreasing order. Plain and normalized: exactly that of the packed pattern from the first step on
    /// ([`participation`](crate::mechanism::accounting::participation), [`patterns`]); for columns with weights for
    /// runs, and for very many steps, by [chains](crate::mechanism::accounting::chain). Never more than the value with
    /// all events in the longest column. `O(d² k)` for `k` steps with events.
    pub(in crate::mechanism) fn largest_squares(
        &self,
        spread: Spread,
        events: &[u64],
        watch: SearchWatch<'_>,
    ) -> Result<Vec<f64>> {
        let together = |events: u64| power(events as f64, 2) * self.columns.l2_squared;
        let spread_out = &events[events.partition_point(|events| *events <= spread.per_step)..];
        let response = self.figures.response();
        let squares = match self.scaling {
            _ if spread_out.is_empty() => vec![],
            Scaling::Plain => {
                let weight = 1.0 / self.figures.scale(1); // of all columns; not rounded, as weights have few bits
                let packed = participation::packed(response, self.horizon, &Packing::new(spread), spread_out);
                packed.into_iter().map(|squared| weight * weight * squared).collect()
            }
            Scaling::Equal(Participation::ONCE) if !self.has_many_steps(spread) => {
                patterns::normalized(response, self.horizon, &Packing::new(spread), spread_out, watch)
            }
            Scaling::Equal(runs) => {
                let packing = Packing::new(spread);
                let packed = |events: &u64| (*events, packing.pattern(*events, self.horizon));
                let packed: Vec<_> = spread_out.iter().map(packed).collect();
                runs::largest_squares((response, self.constants.segments()), runs, (spread, &packed), watch)?
            }
            Scaling::Cut(_) if self.horizon > runs::MAX_TABLE_STEPS => vec![f64::INFINITY; spread_out.len()],
            Scaling::Cut(_) => {
                let weights =
                    participation::rising_weights(self.constants.segments(), self.frame.weight_bits, self.horizon);
                let columns = runs::WeightedColumns::new(response, weights);
                let squared = |events: &u64| runs::chain_squared(&columns, spread, *events, watch);
                spread_out.iter().map(squared).collect::<Result<_>>()?
            }
        };
        watch.check()?;
        let first = events.len() - squares.len();
        let squared = |(place, events): (usize, &u64)| {
            place.checked_sub(first).map_or(together(*events), |place| together(*events).min(squares[place]))
        };
        Ok(events.iter().enumerate().map(squared).collect())
    }
}
