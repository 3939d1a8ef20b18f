//! Running counts without an end: epochs of growing length.
//!
//! Epoch `k` ends at step `16^k`. Inside an epoch a mechanism for its length releases the sum of the epoch so far. The
//! total of every earlier epoch enters as an estimate, made once, when that epoch is over.
//!
//! **Two estimates of a total.** The last release of an epoch is one estimate of its total. A separate node for the
//! total itself gives the other: a share `U²` of the squared length of every column goes to that node, and the rest,
//! `1 - U²`, to the mechanism inside. With variances `v` and `1/U²` (times that of a node) the best mean of both has
//! `1/(U² + 1/v)`. So
//!
//! ```text
//! ‖L_t‖² = Σ_{j<k} ((1-m_j)² v_j + m_j² / U_j²) + ‖inner row of t - 16^(k-1)‖²
//! ```
//!
//! with fixed `m_j` near `v U² / (1 + v U²)`. Epochs share no columns: as a step lies in one epoch, `s2²` is the
//! largest over the epochs, each within 1. This combines the hybrid mechanism (Chan, Shi, Song 2011, doi
//! 10.1145/2043621.2043626), which has only the nodes of totals, and chained epochs, which have only the last releases:
//! the first spends the long-run budget on the totals, the second accumulates errors.
//!
//! **How good.** The shares minimise the largest ratio to the best variance of any mechanism with horizon `t`, over all
//! `t` up to `2^40`: below 2.3 from the first step on ([`shares`]).
//!
//! **Inside** is one [filter whose memory grows](growing) up to step `2^44`, which needs no other epoch, or one BLT for
//! each epoch: [normalized](super::Blt), or plain ones, whose worst patterns are known exactly. Beyond are exact trees,
//! which no stream reaches. The least error for the unit at some steps decides. Under Laplace noise
//! there are k-ary trees with subtraction (`inside=trees`), and shares are of the L1 norm: `U` for the total and `(1 -
//! U) / h` for each of the `h` levels of a tree; or [hats](super::Hats) up to step `2^22` (`inside=hats`), with far
//! fewer and longer epochs and no nodes of totals ([`hat_epochs`]).
//!
//! **Exact release.** All nodes have one noise law on a grid `2^-32`, and column weights are integers. The protected
//! integers of an epoch are those of its mechanism ([`Blt`](super::Blt)), and `2^18 U` times its total, exactly. The
//! release is computed from them in integers ([cursor]). State: that of one filter and four numbers.
//!
//! **Units.** `‖R u‖²` is a sum over the epochs, so that its largest value is at most that of the best division of the
//! events among the epochs ([units]).

mod cursor;
mod epoch;
mod epochs;
mod grids;
mod growing;
mod hat_epochs;
mod shares;
mod units;

use super::accounting::truncation::in_noise_steps;
use super::name::parameters::Parameters;
use super::rounding::FRACTION_BITS;
use super::{
    ColumnNorms, Cost, Criterion, Cursor, DensePair, EndlessChoice, Inside, LaplaceShift, MAX_HORIZON, MatrixDigest,
    Mechanism, MechanismName, NoiseKind, Participation, Reach, RowLaw, SearchWatch, SearchedOnce, Steps, check_horizon,
};
use crate::noise::Node;
use crate::privacy::Spread;
use crate::{Error, Result};
use cursor::EpochCursor;
use epoch::Epoch;
use grids::NOISE_BITS;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The steps whose errors decide which mechanism is inside, if the horizon includes them.
const REFERENCE_STEPS: [u64; 4] = [16, 1000, 1_000_000, 1 << 40];

/// Epochs of growing length, each with its own mechanism and two estimates of its total: for running counts that never
/// end.
#[doc(alias = "hybrid mechanism")]
#[doc(alias = "unbounded")]
#[doc(alias = "infinite horizon")]
#[derive(Clone, Debug)]
pub struct Endless {
    horizon: u64,
    inside: Inside,
    /// The steps of the unit that growing buffers are for.
    runs: Option<Participation>,
    epochs: Arc<[Epoch]>,
    digest: MatrixDigest,
}

impl Endless {
    /// The first `horizon` steps, 1 ..= 2^62; 2^62 means no end. The release at a step does not depend on the horizon.
    /// Growing buffers are those for single events.
    /// Takes a second at the first call in a program, then `O(1)`.
    ///
    /// # Errors
    /// If the horizon is out of range.
    ///
    /// ```
    /// use evertally::mechanism::{Endless, Inside, MAX_HORIZON, Mechanism};
    /// let endless = Endless::new(MAX_HORIZON, Inside::Normalized)?;
    /// assert!(endless.column_norms().l2_squared <= 1.0);
    /// // The optimum for 1000 steps has 8.7, and its variance is the same at all of them.
    /// assert!(endless.row_norm_squared(10) < 6.0 && endless.row_norm_squared(1000) < 20.0);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn new(horizon: u64, inside: Inside) -> Result<Self> {
        Self::searched(horizon, inside, SearchWatch::NONE)
    }

    /// The same in a search that a watch may cancel.
    fn searched(horizon: u64, inside: Inside, watch: SearchWatch<'_>) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "endless")?;
        if inside == Inside::Growing {
            return Self::growing_searched(horizon, Participation::ONCE, watch);
        }
        static BUILT: [SearchedOnce<Arc<[Epoch]>>; Inside::COUNT] = [const { SearchedOnce::new() }; Inside::COUNT];
        let built = BUILT[inside as usize].get(watch, |watch| epochs::all(inside, watch))?;
        Ok(Self::from_epochs(horizon, inside, None, built.clone()))
    }

    /// With buffers whose memory grows, for units with events in these steps, over 1 ..= 2^62 steps. Takes up to a
    /// second at the first call for a unit in a program, then `O(1)`.
    ///
    /// # Errors
    /// If the horizon is out of range, or a pattern of the unit takes more than 2^32 steps.
    ///
    /// ```
    /// use evertally::mechanism::{Endless, Inside, MAX_HORIZON, Mechanism, Participation};
    /// use evertally::privacy::Spread;
    /// let growing = Endless::growing(MAX_HORIZON, Participation::new(100, 1)?)?;
    /// let epochs = Endless::new(MAX_HORIZON, Inside::Normalized)?;
    /// // The variance at the millionth step for persons with at most 100 events, one a step.
    /// let variance = |mechanism: &Endless| {
    ///     let steps = 2.0f64.powi(mechanism.noise_bits() as i32);
    ///     let sensitivity_squared = mechanism.spread_squared(Spread::new(100, 1)) as f64 / (steps * steps);
    ///     sensitivity_squared * mechanism.row_norm_squared(1_000_000)
    /// };
    /// assert!(variance(&growing) < 0.7 * variance(&epochs));
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn growing(horizon: u64, runs: Participation) -> Result<Self> {
        Self::growing_searched(horizon, runs, SearchWatch::NONE)
    }

    /// The same in a search that a watch may cancel.
    fn growing_searched(horizon: u64, runs: Participation, watch: SearchWatch<'_>) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "endless")?;
        static BUILT: Mutex<Option<HashMap<Participation, Arc<[Epoch]>>>> = Mutex::new(None);
        let known = |built: &Option<HashMap<_, _>>| built.as_ref().and_then(|all| all.get(&runs).cloned());
        let mut epochs = known(&BUILT.lock().unwrap_or_else(PoisonError::into_inner));
        if epochs.is_none() {
            let built = watch.complete(|watch| epochs::growing(runs, watch))?;
            let mut all = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
            all.get_or_insert_with(HashMap::new).insert(runs, built.clone());
            epochs = Some(built);
        }
        Ok(Self::from_epochs(horizon, Inside::Growing, Some(runs), epochs.expect("built above")))
    }

    fn from_epochs(horizon: u64, inside: Inside, runs: Option<Participation>, epochs: Arc<[Epoch]>) -> Self {
        let digest = epoch::digest(&epochs);
        Self { horizon, inside, runs, epochs, digest }
    }

    /// With the digest of a plan.
    ///
    /// # Errors
    /// As [`Endless::new`], or if this version of the library has another mechanism.
    pub fn with_digest(horizon: u64, inside: Inside, digest: MatrixDigest) -> Result<Self> {
        Self::new(horizon, inside)?.checked(Some(digest))
    }

    /// The same mechanism, if it has this digest.
    fn checked(self, digest: Option<MatrixDigest>) -> Result<Self> {
        self.digest.check(digest, "the endless mechanism")?;
        Ok(self)
    }

    /// The epoch of a step from 1.
    fn place(&self, step: u64) -> usize {
        self.epochs.partition_point(|epoch| epoch.last < step)
    }

    /// The epochs that some step needs.
    fn begun(&self) -> &[Epoch] {
        &self.epochs[..=self.place(self.horizon)]
    }

    /// The largest excess, over the matrix's value, of the L2 distance between the protected integers of two streams
    /// that differ in one step.
    fn slack(&self) -> f64 {
        libm::sqrt(self.begun().iter().map(|epoch| epoch.slack() * epoch.slack()).sum())
    }

    /// The largest and the sum of `‖L_t‖²`.
    fn row_norm_totals(&self) -> (f64, f64) {
        let (mut largest, mut sum) = (0.0f64, 0.0);
        for epoch in self.begun() {
            let steps = epoch.last.min(self.horizon) - epoch.before;
            let (max, mean) = epoch.inner_norms(steps);
            largest = largest.max(epoch.base + max);
            sum += steps as f64 * (epoch.base + mean);
        }
        (largest, sum)
    }
}

impl Mechanism for Endless {
    fn name(&self) -> MechanismName {
        MechanismName::Endless(EndlessChoice { inside: Some(self.inside), runs: self.runs, digest: Some(self.digest) })
    }

    fn horizon(&self) -> u64 {
        self.horizon
    }

    fn through(&self, steps: u64) -> Option<Arc<dyn Mechanism>> {
        Some(Arc::new(Self { horizon: steps, ..self.clone() }))
    }

    /// The norms of the longest columns of all epochs that have begun.
    fn column_norms(&self) -> ColumnNorms {
        let norms = self.begun().iter().map(Epoch::column_norms);
        norms.fold(ColumnNorms { l1: 0.0, l2_squared: 0.0 }, |largest, norms| ColumnNorms {
            l1: largest.l1.max(norms.l1),
            l2_squared: largest.l2_squared.max(norms.l2_squared),
        })
    }

    fn noise_bits(&self) -> u32 {
        NOISE_BITS
    }

    /// An upper bound, which includes the rounding of the protected integers, as for a [`Blt`](super::Blt). `O(K d² m)`
    /// for `m` steps with events, of which no more than 2^20 count, and `K` epochs.
    fn spread_squared(&self, spread: Spread) -> u128 {
        self.spreads_squared(spread, &[spread.total])[0]
    }

    fn spreads_squared_watched(&self, spread: Spread, events: &[u64], watch: SearchWatch<'_>) -> Result<Vec<u128>> {
        let slack = self.slack();
        let in_steps =
            |(events, squared): (&u64, f64)| in_noise_steps(squared, 2, NOISE_BITS, slack * libm::sqrt(*events as f64));
        let squares = units::largest_squares(self.begun(), spread, events, watch)?;
        Ok(events.iter().zip(squares).map(in_steps).collect())
    }

    fn is_causal(&self) -> bool {
        self.begun().iter().all(|epoch| epoch.inner.is_causal())
    }

    /// `O(d² + log t)`.
    fn row_norm_squared(&self, step: u64) -> f64 {
        let epoch = &self.epochs[self.place(step)];
        epoch.base + epoch.inner_norm(step - epoch.before)
    }

    /// `O(d² + log t)`. Steps of different epochs share the totals before the earlier one's epoch, and the mechanism
    /// inside that epoch.
    fn row_product(&self, earlier: u64, later: u64) -> f64 {
        let (place, epoch) = (self.place(earlier), &self.epochs[self.place(earlier)]);
        let inside = earlier - epoch.before;
        epoch.base
            + if self.place(later) == place {
                epoch.inner_product(inside, later - epoch.before)
            } else {
                (1.0 - epoch.mix()) * epoch.inner_product(inside, epoch.last - epoch.before)
            }
    }

    fn max_row_norm_squared(&self) -> f64 {
        self.row_norm_totals().0
    }

    fn mean_row_norm_squared(&self) -> f64 {
        self.row_norm_totals().1 / self.horizon as f64
    }

    /// `O(t)`.
    fn visit_row(&self, step: u64, visit: &mut dyn FnMut(Node, f64)) {
        let place = self.place(step);
        for (number, epoch) in self.epochs[..place].iter().enumerate() {
            let inside = 1.0 - epoch.mix();
            epoch.visit_inner(epoch.last - epoch.before, &mut |node, entry| {
                visit(epoch::inside(number, node), inside * entry);
            });
            if epoch.has_own() {
                visit(epoch::own(number), epoch.own_weight());
            }
        }
        let epoch = &self.epochs[place];
        epoch.visit_inner(step - epoch.before, &mut |node, entry| visit(epoch::inside(place, node), entry));
    }

    fn node_span(&self, node: Node) -> (u64, u64) {
        let (number, inner) = epoch::parts(node);
        let epoch = &self.epochs[number];
        let (first, last) = inner.map_or((1, epoch.last - epoch.before), |inner| epoch.inner.node_span(inner));
        (epoch.before + first, epoch.before.saturating_add(last).min(epoch.last))
    }

    fn fraction_bits(&self) -> u32 {
        FRACTION_BITS
    }

    /// Under Laplace noise, the number of equal terms with the same fourth moment; under Gaussian noise it does not
    /// matter.
    fn row_law(&self, step: u64) -> RowLaw {
        let epoch = &self.epochs[self.place(step)];
        let norm_squared = self.row_norm_squared(step);
        let fourth = epoch.base_fourth + epoch.inner_fourth(step - epoch.before);
        // At most, rounded down: fewer terms have heavier tails.
        let terms = if self.inside.is_laplace() { norm_squared * norm_squared / fourth * (1.0 - 1e-9) } else { 1.0 };
        RowLaw::Like { norm_squared, terms: (terms as u64).max(1) }
    }

    /// All entries of a column are of one class.
    fn laplace(&self) -> std::result::Result<LaplaceShift, &'static str> {
        if !self.inside.is_laplace() {
            return Err(super::GROWING_L1);
        }
        let largest = self.begun().iter().map(Epoch::column_steps).max().unwrap_or(0);
        Ok(LaplaceShift::together(largest))
    }

    fn cost(&self) -> Cost {
        let costs = self.begun().iter().map(|epoch| epoch.inner.cost());
        let (draws, words) =
            costs.fold((1.0f64, 0), |(d, w), cost| (d.max(cost.draws_per_step), w.max(cost.memory_words)));
        Cost::from_draws(draws, words + 10)
    }

    fn cursor(&self) -> Box<dyn Cursor> {
        Box::new(EpochCursor::new(self.epochs.clone()))
    }

    fn dense(&self) -> DensePair {
        let mut pair = crate::mechanism::factorization::dense_pair(self);
        for (row, node) in pair.nodes.clone().into_iter().enumerate() {
            let (number, inner) = epoch::parts(node);
            let epoch = &self.epochs[number];
            for step in epoch.before + 1..=epoch.last.min(self.horizon) {
                let entry = match inner {
                    Some(inner) => epoch.inner_entry(inner, step - epoch.before),
                    None => epoch.own_entry(),
                };
                pair.r.set(row, step as usize - 1, entry);
            }
        }
        pair
    }
}

pub(in crate::mechanism) fn parse(parameters: &mut Parameters<'_>) -> Result<MechanismName> {
    Ok(MechanismName::Endless(EndlessChoice::parse(parameters)?))
}

pub(in crate::mechanism) fn write(f: &mut fmt::Formatter<'_>, choice: EndlessChoice) -> fmt::Result {
    write!(f, "{choice}")
}

pub(in crate::mechanism) fn build(
    horizon: u64,
    criterion: &Criterion,
    choice: EndlessChoice,
) -> Result<Arc<dyn Mechanism>> {
    let runs = choice.runs.or_else(|| criterion.runs()).unwrap_or(Participation::ONCE);
    let watch = criterion.watch();
    let endless = match (choice.inside, criterion.law()) {
        (Some(Inside::Growing), _) => Endless::growing_searched(horizon, runs, watch)?,
        (Some(inside), _) => Endless::searched(horizon, inside, watch)?,
        (None, NoiseKind::Laplace) => Endless::searched(horizon, Inside::Hats, watch)?,
        (None, NoiseKind::Gaussian) => {
            best_for(horizon, criterion.spread_over_steps().unwrap_or(Spread::new(1, 1)), runs, watch)?
        }
    };
    Ok(Arc::new(endless.checked(choice.digest)?))
}

/// The mechanism inside that a name gives; `None` if it is open.
fn inside(name: MechanismName) -> Option<Inside> {
    match name {
        MechanismName::Endless(choice) => choice.inside,
        _ => None,
    }
}

/// Each mechanism inside is for one noise distribution.
pub(in crate::mechanism) fn reach(name: MechanismName) -> Reach {
    match inside(name) {
        Some(inside) if inside.is_laplace() => Reach::laplace(MAX_HORIZON),
        Some(_) => Reach::ANY_GAUSSIAN,
        None => Reach::ANY,
    }
}

pub(in crate::mechanism) fn usual_law(name: MechanismName) -> NoiseKind {
    if inside(name).is_some_and(Inside::is_laplace) { NoiseKind::Laplace } else { NoiseKind::Gaussian }
}

/// The first release of an epoch of hats draws the noise of all its steps.
pub(in crate::mechanism) fn steps(name: MechanismName) -> Steps {
    if inside(name) == Some(Inside::Hats) { Steps::Linear } else { Steps::Logarithmic }
}

/// Under Laplace noise trees compete with hats, because they take less memory.
pub(in crate::mechanism) fn competitors(law: NoiseKind) -> &'static [MechanismName] {
    const FOR_LAPLACE: [MechanismName; 2] = [
        MechanismName::Endless(EndlessChoice::with(Inside::Trees)),
        MechanismName::Endless(EndlessChoice::with(Inside::Hats)),
    ];
    match law {
        NoiseKind::Gaussian => &[MechanismName::Endless(EndlessChoice::OPEN)],
        NoiseKind::Laplace => &FOR_LAPLACE,
    }
}

/// The one with the least mean logarithm of the variance for a unit, over some steps.
fn best_for(horizon: u64, spread: Spread, runs: Participation, watch: SearchWatch<'_>) -> Result<Endless> {
    let figure = |endless: &Endless| {
        let squared = super::units::squared_watched(endless, spread, watch)? as f64;
        let variance = |step: u64| libm::log(squared * endless.row_norm_squared(step.min(horizon)));
        Ok::<_, Error>(REFERENCE_STEPS.map(variance).iter().sum::<f64>())
    };
    let mut best: Option<(f64, Endless)> = None;
    for inside in [Inside::Plain, Inside::Normalized, Inside::Growing] {
        let built = match inside {
            Inside::Growing => Endless::growing_searched(horizon, runs, watch),
            _ => Endless::searched(horizon, inside, watch),
        };
        let endless = match built {
            Err(error) if error.is_cancelled() => return Err(error),
            // Patterns may be too long for growing buffers.
            Err(_) => continue,
            Ok(endless) => endless,
        };
        let figure = figure(&endless)?;
        if best.as_ref().is_none_or(|(least, _)| figure.total_cmp(least).is_lt()) {
            best = Some((figure, endless));
        }
    }
    best.map(|(_, endless)| endless).ok_or_else(|| Error::invalid("no endless mechanism could be built"))
}

pub(in crate::mechanism) fn brief(name: MechanismName) -> MechanismName {
    match name {
        MechanismName::Endless(choice) => MechanismName::Endless(EndlessChoice { digest: None, ..choice }),
        other => other,
    }
}

#[cfg(test)]
mod tests;
