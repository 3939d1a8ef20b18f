//! Buffered linear Toeplitz factorizations (BLT), plain and with columns of one length.
//!
//! `C` is the lower triangular Toeplitz matrix with coefficients `c_0 = 1`, `c_j = Σ_i ω_i θ_i^(j-1)`: a sum of a few
//! exponentials, so that `C x` and `C⁻¹ y` need one buffer for each of them (Dvijotham, McMahan, Pillutla, Steinke,
//! Thakurta 2024, arXiv 2404.16706; McMahan, Xu, Zhang 2024, arXiv 2408.08868).
//!
//! * `blt`: `R = C`, `L = A C⁻¹`;
//! * `normalized-blt`: `R = C D⁻¹` with `D` the column norms of `C`, `L = A D C⁻¹`. Here `1 / D` is a table of
//!   integers, constant on [segments] of steps. For units with events in several steps, `D` are the norms of the sums
//!   of the columns of a pattern ([runs]): `normalized-blt(run=100)`.
//!
//! With five buffers the plain one is within 1 % of the square root of `A` at `T = 2^20`, with `O(d)` time and memory
//! per step instead of `O(T)`. The normalized one is far below it.
//!
//! The parameters are frozen to multiples of `2^-62` ([`Buffers`]), and the norms are those of the frozen matrices:
//! closed forms ([response], [figures]). The exact release and the cost of its rounding are in [recurrence]; unlike
//! other cursors, this one sees the data: it protects the integers `n` that it computes from them. So a step depends on
//! all earlier steps, including empty ones, and a gap is crossed step by step. Continuous noise for the left factor
//! alone crosses it in a time that does not depend on its length: [lazy].

mod adjoint;
mod aim;
mod figures;
mod first_steps;
mod optimise;
mod participation;
mod patterns;
mod recurrence;
mod runs;
mod search;
mod units;

use crate::mechanism::accounting::truncation::{ROUNDING, in_noise_steps, noise_bits};
use crate::mechanism::name::parameters::Parameters;
use crate::mechanism::state_space::response::{self, Modes, PartialFractions};
use crate::mechanism::state_space::segments::{self, WEIGHT_BITS};
use crate::mechanism::toeplitz::filter::frame::filters_one_node_a_step;
use crate::mechanism::{
    BufferChoice, BufferSteps, Buffers, ColumnNorms, ColumnScaling, Cost, Criterion, Cursor, DensePair, Lazy, LazyBlt,
    MAX_BUFFERS, Matrix, Mechanism, MechanismName, Participation, SearchWatch, Streaming, TrainingLoop, check_horizon,
};
use crate::noise::Node;
use crate::privacy::Spread;
use crate::{Error, Result};
use figures::RowFigures;
use recurrence::{BltCursor, Constants, rounding_slack};
use std::fmt;
use std::sync::Arc;

/// Longest horizon.
const MAX_HORIZON: u64 = 1 << 40;

/// A buffered linear Toeplitz factorization, plain or with normalized columns.
#[doc(alias = "buffered linear Toeplitz")]
#[doc(alias = "Toeplitz")]
#[doc(alias = "DP-FTRL")]
#[doc(alias = "BLT-DP-FTRL")]
#[derive(Clone, Debug)]
pub struct Blt {
    scaling: Scaling,
    horizon: u64,
    buffers: Buffers,
    frame: BltGrid,
    constants: Arc<Constants>,
    figures: Arc<RowFigures>,
    columns: ColumnNorms,
}

/// The grid of the noise, and the integer that stands for a column weight of 1.
#[derive(Clone, Copy, Debug)]
struct BltGrid {
    /// Bits of the noise grid.
    noise_bits: u32,
    /// The weight 1 has this many bits.
    weight_bits: u32,
}

/// How the columns of `C` are weighted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scaling {
    /// Unweighted.
    Plain,
    /// So that patterns of this many columns are equally long; for a single one, the columns themselves.
    Equal(Participation),
    /// The same, of which only the first steps are left.
    Cut(Participation),
}

impl Scaling {
    fn new(columns: ColumnScaling) -> Self {
        if columns.are_normalized() { Self::Equal(Participation::ONCE) } else { Self::Plain }
    }

    fn is_plain(self) -> bool {
        self == Self::Plain
    }

    /// The name without parameters.
    fn stem(self) -> &'static str {
        if self.is_plain() { "blt" } else { "normalized-blt" }
    }
}

impl Blt {
    /// With the given parameters, over 1 ..= 2^40 steps. `O(d² log T)`.
    ///
    /// # Errors
    /// If the horizon is out of range, or the floating-point norms are not finite.
    pub fn new(horizon: u64, columns: ColumnScaling, buffers: Buffers) -> Result<Self> {
        Self::scaled(horizon, Scaling::new(columns), buffers)
    }

    /// The normalized one with columns weighted so that the worst patterns of a unit that has events in these steps are
    /// equally long, over 1 ..= 2^40 steps. `O(T d)` up to 2^20 steps, `O(d² log T)` beyond.
    ///
    /// # Errors
    /// As [`Blt::new`].
    pub fn for_runs(horizon: u64, runs: Participation, buffers: Buffers) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "normalized-blt(run=…)")?;
        Self::scaled(horizon, Scaling::Equal(runs.over(horizon)), buffers)
    }

    fn scaled(horizon: u64, scaling: Scaling, buffers: Buffers) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, scaling.stem())?;
        let weight_bits = if scaling.is_plain() { 0 } else { WEIGHT_BITS };
        let frame = BltGrid { noise_bits: noise_bits(horizon), weight_bits };
        Self::framed(horizon, scaling, buffers, frame, 1 << weight_bits)
    }

    /// A part of a longer mechanism, over any number of steps up to 2^62, on the noise grid of the whole: its columns
    /// have a squared length of at most `(share / 2^14)²`.
    pub(in crate::mechanism) fn part(
        steps: u64,
        columns: ColumnScaling,
        buffers: Buffers,
        share: u32,
        noise_bits: u32,
    ) -> Result<Self> {
        let frame = BltGrid { noise_bits, weight_bits: WEIGHT_BITS };
        Self::framed(steps, Scaling::new(columns), buffers, frame, share)
    }

    /// All weights are multiplied by `share`, where `2^weight_bits` is the whole; the first column of a plain one is
    /// then divided by its norm, if weights have bits for it.
    fn framed(horizon: u64, scaling: Scaling, buffers: Buffers, frame: BltGrid, share: u32) -> Result<Self> {
        let response = PartialFractions::from_buffers(&buffers);
        let segments = match scaling {
            Scaling::Plain if frame.weight_bits == 0 => segments::plain(horizon),
            Scaling::Plain => segments::of_one_weight(&response, horizon),
            Scaling::Equal(Participation::ONCE) => segments::normalized(&response, horizon),
            Scaling::Equal(runs) | Scaling::Cut(runs) => runs::segments(&response, horizon, runs),
        };
        let segments = segments::shared(segments, share, frame.weight_bits);
        Self::with_segments(horizon, (scaling, share), buffers, frame, segments)
    }

    fn with_segments(
        horizon: u64,
        (scaling, share): (Scaling, u32),
        buffers: Buffers,
        frame: BltGrid,
        segments: Vec<segments::Segment>,
    ) -> Result<Self> {
        let response = PartialFractions::from_buffers(&buffers);
        let BltGrid { noise_bits, weight_bits } = frame;
        let norms = column_norms(&response, &segments, horizon, weight_bits);
        // The first column has an entry 1 times a weight; comparisons with NaN fail.
        let least = f64::from(share) / libm::exp2(f64::from(weight_bits)) / 2.0;
        let sensible = norms.l1 >= least && norms.l2_squared >= least * least && segments.iter().all(|s| s.weight > 0);
        if !sensible || !norms.l1.is_finite() || !norms.l2_squared.is_finite() {
            return Err(Error::invalid(format!("the sensitivity of a BLT with {buffers} cannot be computed")));
        }
        let constants = Constants::new(&buffers, segments, noise_bits - weight_bits);
        let figures = RowFigures::new(response, constants.segments(), weight_bits);
        Ok(Self {
            scaling,
            horizon,
            buffers,
            frame,
            constants: constants.into(),
            figures: figures.into(),
            columns: norms,
        })
    }

    /// The last step of every segment of columns, and their weight.
    pub(in crate::mechanism) fn column_weights(&self) -> Vec<(u64, u32)> {
        self.constants.segments().iter().map(|segment| (segment.last, segment.weight)).collect()
    }

    /// `R_ts` of the steps `s ≤ t`, from 1.
    pub(in crate::mechanism) fn entry(&self, row: u64, column: u64) -> f64 {
        let Modes { weights, poles, .. } = &self.figures.response().direct;
        let term = |(pole, echo): (&response::Pole, &f64)| echo * libm::exp(-((row - column - 1) as f64) * pole.a);
        let coefficient = if row == column { 1.0 } else { poles.iter().zip(weights).map(term).sum() };
        coefficient / self.figures.scale(column)
    }

    /// The largest and the mean `‖L_t‖²` of the first `steps` steps. `O(d² S)` for `S` segments.
    pub(in crate::mechanism) fn norms_through(&self, steps: u64) -> (f64, f64) {
        let (response, segments) = (self.figures.response().clone(), self.constants.segments());
        let cut = |segment: &segments::Segment| segments::Segment { last: segment.last.min(steps), ..*segment };
        let begun = segments.partition_point(|segment| segment.last < steps);
        let segments: Vec<_> = segments[..=begun].iter().map(cut).collect();
        let figures = RowFigures::new(response, &segments, self.frame.weight_bits);
        (figures.max(), figures.mean())
    }

    /// The parameters.
    pub fn buffers(&self) -> Buffers {
        self.buffers
    }

    /// The noise of single steps, moving forwards, at a cost that does not depend on the gaps. `O(d² S log S)` time and
    /// `O(d S log S)` memory for `S = O(log T)` segments: at most a few milliseconds and 3 MB, for normalized columns.
    pub fn lazy(&self) -> LazyBlt {
        LazyBlt::new(self.figures.response(), self.constants.segments(), self.frame.weight_bits)
    }

    /// The largest excess, over the matrix's value, of the L2 distance between the protected integers of two streams:
    /// `E √T`.
    pub(in crate::mechanism) fn slack(&self) -> f64 {
        let Modes { weights, poles, .. } = &self.figures.response().direct;
        let echo_sum: f64 = poles.iter().zip(weights).map(|(pole, echo)| echo / pole.q).sum();
        let bits = self.frame.noise_bits - self.frame.weight_bits;
        rounding_slack(bits, poles.len(), echo_sum) * libm::sqrt(self.horizon as f64) * (1.0 + ROUNDING)
    }
}

/// The largest column norms of `C W / 2^weight_bits`, rounded up. The longest column of a segment is its first.
fn column_norms(
    response: &PartialFractions,
    segments: &[segments::Segment],
    horizon: u64,
    weight_bits: u32,
) -> ColumnNorms {
    let unit = libm::exp2(-f64::from(weight_bits));
    let mut largest = ColumnNorms { l1: 0.0, l2_squared: 0.0 };
    let mut before = 0;
    for segment in segments {
        let (weight, entries) = (f64::from(segment.weight) * unit, (horizon - before) as f64);
        largest.l1 = largest.l1.max(weight * response.column_sum(entries));
        largest.l2_squared = largest.l2_squared.max(weight * weight * response.column_norm_squared(entries));
        before = segment.last;
    }
    ColumnNorms { l1: largest.l1 * (1.0 + 1e-12), l2_squared: largest.l2_squared * (1.0 + 1e-12) }
}

impl Blt {
    /// The largest L1 norm of a column of the integer matrix that is protected: an upper bound, which includes its
    /// rounding.
    pub fn l1_column_sum(&self) -> u128 {
        let slack = self.slack() * libm::sqrt(self.horizon as f64);
        in_noise_steps(self.columns.l1, 1, self.noise_bits(), slack)
    }
}

impl Mechanism for Blt {
    fn name(&self) -> MechanismName {
        let choice = BufferChoice::Given(self.buffers);
        match self.scaling {
            Scaling::Plain => MechanismName::Blt(choice),
            Scaling::Equal(runs) | Scaling::Cut(runs) => MechanismName::NormalizedBlt(choice, runs),
        }
    }

    fn horizon(&self) -> u64 {
        self.horizon
    }

    /// Not for a part of another mechanism, whose columns have a share of its weights.
    fn through(&self, steps: u64) -> Option<Arc<dyn Mechanism>> {
        let is_part = self.scaling.is_plain() && self.frame.weight_bits > 0;
        if is_part { None } else { Some(Arc::new(self.cut(steps).ok()?)) }
    }

    fn column_norms(&self) -> ColumnNorms {
        self.columns
    }

    fn noise_bits(&self) -> u32 {
        self.frame.noise_bits
    }

    /// An upper bound, which includes the rounding of the protected integers: `(√largest + E √(T total))²`. The second
    /// term is the rounding of as many groups as a unit's change can touch: `total` of them, or twice as many if events
    /// are replaced, and then one event counts at least twice.
    fn spread_squared(&self, spread: Spread) -> u128 {
        self.spreads_squared(spread, &[spread.total])[0]
    }

    fn spreads_squared_watched(&self, spread: Spread, events: &[u64], watch: SearchWatch<'_>) -> Result<Vec<u128>> {
        let in_steps = |(events, squared): (&u64, f64)| {
            let slack = self.slack() * libm::sqrt(*events as f64);
            in_noise_steps(squared, 2, self.noise_bits(), slack)
        };
        let squares = self.largest_squares(spread, events, watch)?;
        Ok(events.iter().zip(squares).map(in_steps).collect())
    }

    /// Exact for the plain one, and but for the rounding of weights for columns of one length; by chains or pairs for
    /// other weights. `O(d² min(k, 2^16))`, or `O(d T k)` if that is at most 2^22 d.
    fn participation_squared(&self, participation: Participation) -> f64 {
        self.participation_squared_watched(participation, SearchWatch::NONE).expect("nothing cancels it")
    }

    fn participation_squared_watched(&self, participation: Participation, watch: SearchWatch<'_>) -> Result<f64> {
        self.squared_of_steps(participation, watch)
    }

    fn lazy(&self) -> Option<Lazy> {
        Some(Lazy::States(Box::new(Blt::lazy(self))))
    }

    fn streaming(&self) -> Option<Streaming> {
        Some(Streaming::Buffers(Arc::new(BufferSteps {
            gaps: self.figures.response().direct.poles.iter().map(|pole| pole.q).collect(),
            echoes: self.figures.response().direct.weights[..self.buffers.echoes().len()].to_vec(),
            segments: self.figures.scales().collect(),
        })))
    }

    fn row_norm_squared(&self, step: u64) -> f64 {
        self.figures.at(step)
    }

    /// `O(d² + d log T)`.
    fn row_product(&self, earlier: u64, later: u64) -> f64 {
        self.figures.product(earlier, later)
    }

    fn max_row_norm_squared(&self) -> f64 {
        self.figures.max()
    }

    fn mean_row_norm_squared(&self) -> f64 {
        self.figures.mean()
    }

    filters_one_node_a_step!();

    /// `u = z - Σ ω_i B_i`, `B_i ← θ_i B_i + u`, and the release grows by `D u`. `O(T d)`.
    fn noise_path(&self, draw: &mut dyn FnMut(Node) -> f64) -> Vec<f64> {
        let Modes { weights, poles, .. } = &self.figures.response().direct;
        let (mut buffers, mut noise) = ([0.0; MAX_BUFFERS], 0.0);
        let mut path = Vec::with_capacity(self.horizon as usize);
        let mut index = 0;
        for (last, scale) in self.figures.scales() {
            while index < last {
                let echo: f64 = weights.iter().zip(&buffers).map(|(weight, buffer)| weight * buffer).sum();
                let innovation = draw(Node { level: 0, index }) - echo;
                for (buffer, pole) in buffers.iter_mut().zip(poles) {
                    *buffer += innovation - pole.q * *buffer;
                }
                noise += scale * innovation;
                path.push(noise);
                index += 1;
            }
        }
        path
    }

    /// From the last node back: `L_tj = D_j - Σ_i λ_i q̂_i a_i(j)` with `a_i(j) = Σ_{j<k≤t} D_k θ̂_i^(k-j-1)`.
    fn visit_row(&self, step: u64, visit: &mut dyn FnMut(Node, f64)) {
        let Modes { weights, poles, .. } = &self.figures.response().inverse;
        let mut ahead = [0.0; MAX_BUFFERS];
        for j in (1..=step).rev() {
            let scale = self.figures.scale(j);
            let known = poles.iter().zip(weights).zip(&ahead).map(|((pole, lambda), ahead)| lambda * pole.q * ahead);
            visit(Node { level: 0, index: j - 1 }, scale - known.sum::<f64>());
            for (ahead, pole) in ahead.iter_mut().zip(poles) {
                *ahead += scale - pole.q * *ahead;
            }
        }
    }

    fn cost(&self) -> Cost {
        Cost::from_draws(1.0, 8 * self.buffers.decays().len() as u64 + 9)
    }

    fn cursor(&self) -> Box<dyn Cursor> {
        Box::new(BltCursor::new(self.constants.clone()))
    }

    fn dense(&self) -> DensePair {
        let mut pair = crate::mechanism::factorization::dense_pair(self);
        let steps = self.horizon as usize;
        pair.r = Matrix::zeros(steps, steps);
        for t in 0..steps {
            for j in 0..=t {
                pair.r.set(t, j, self.entry(t as u64 + 1, j as u64 + 1));
            }
        }
        pair
    }
}

pub(in crate::mechanism) fn parse(parameters: &mut Parameters<'_>) -> Result<MechanismName> {
    Ok(MechanismName::Blt(BufferChoice::parse(parameters)?))
}

pub(in crate::mechanism) fn write(f: &mut fmt::Formatter<'_>, choice: BufferChoice) -> fmt::Result {
    write!(f, "{choice}")
}

pub(in crate::mechanism) fn build(
    horizon: u64,
    criterion: &Criterion,
    choice: BufferChoice,
) -> Result<Arc<dyn Mechanism>> {
    build_with(horizon, ColumnScaling::Plain, choice, criterion)
}

/// The mechanism of a name with open buffers, optimised for a training loop.
pub(in crate::mechanism) fn for_loop(
    name: MechanismName,
    training: &TrainingLoop<'_>,
) -> Option<Result<Arc<dyn Mechanism>>> {
    match name {
        MechanismName::Blt(choice) => best_in_loop(ColumnScaling::Plain, choice, training),
        _ => None,
    }
}

/// The search for buffers under any criterion, that of a training loop.
struct LoopSearch<'a> {
    horizon: u64,
    columns: ColumnScaling,
    /// As many buffers as it says.
    choice: BufferChoice,
    /// The criterion; `None` if it does not apply.
    figure: &'a dyn Fn(&Blt) -> Option<f64>,
}

/// The best buffers for a training loop, as many as a choice says; `None` if they are given.
pub(super) fn best_in_loop(
    columns: ColumnScaling,
    choice: BufferChoice,
    training: &TrainingLoop<'_>,
) -> Option<Result<Arc<dyn Mechanism>>> {
    if matches!(choice, BufferChoice::Given(_)) {
        return None;
    }
    let figure = |blt: &Blt| (training.squared_error)(blt);
    let problem = LoopSearch { horizon: training.horizon(), columns, choice, figure: &figure };
    let aim = (training.criterion.objective(), training.criterion.watch());
    let found = problem.best(aim, training.participation);
    Some(found.map(|blt| Arc::new(blt) as Arc<dyn Mechanism>))
}

/// With the columns of the family; for units with events in several steps, open parameters are optimised for them.
pub(super) fn build_with(
    horizon: u64,
    columns: ColumnScaling,
    choice: BufferChoice,
    criterion: &Criterion,
) -> Result<Arc<dyn Mechanism>> {
    let returns = criterion.unit().within(horizon) > 1;
    Ok(Arc::new(match choice {
        BufferChoice::Best | BufferChoice::Count(_) if returns => {
            Blt::best_of_unit(horizon, columns, choice, criterion)?
        }
        _ => Blt::chosen_watched(horizon, columns, choice, (criterion.objective(), criterion.watch()))?,
    }))
}

pub(in crate::mechanism) fn brief(name: MechanismName) -> MechanismName {
    match name {
        MechanismName::Blt(choice) => MechanismName::Blt(choice.brief()),
        other => other,
    }
}

#[cfg(test)]
pub(in crate::mechanism) mod tests;
