//! The pieces that serve several workloads from one release, in closed form.
//!
//! The objective is to minimise `F(r) · Σ_i c_i (1/2π)∫|W_i/r|² dθ`: with `N = Σ_i c_i |W_i|²`, and by Cauchy and
//! Schwarz as for one workload, `|r|⁴ = N` for single events, and the value `((1/2π)∫√N dθ)²`. That is never more than
//! with separate releases that split the budget, `(Σ_i √c_i (1/2π)∫|W_i| dθ)²`, by the triangle inequality. For units
//! with events in several steps `∫|r|² q dθ` replaces `∫|r|² dθ`, and `|r|⁴ = N/q`. `F` is a maximum over their
//! patterns, not such an integral; `q` is that of events in a row, without the zeros between its lobes ([`Envelope`]).
//! Of a few candidates for `q`, the one whose `r` has the least product under the exact `F` is used.
//!
//! `r` is the power series with that absolute value and no zeros inside the circle ([`outer`]), its coefficients
//! averaged over pieces: within half a per cent of the optimum. If the running count is among the workloads, `N` has a
//! pole at 1, and the horizon `T` is finite: the circle's radius is `e^(-0.3/T)`, and there are as many bands as steps.

use super::pieces::{BandedResponse, Pieces};
use super::spectrum::squared_symbol_at;
use super::{MAX_INVERSE_SUM, MAX_RESPONSE_SUM};
use crate::Result;
use crate::mechanism::{Mix, Participation, SearchWatch, Workload, cancellation};
use crate::number::fourier::outer;
use crate::privacy::Spread;

/// Minimum number of points of the circle per band.
const OVERSAMPLED: u64 = 16;
/// The logarithm at a point counts as this many operations.
const POINT_OPERATIONS: u64 = 32;
/// Number of multiples of a window, where coefficients jump, that the pieces follow.
const FOLLOWED: u64 = 3;
/// This many pieces of one band; each next piece is longer by this share of the bands before it in its stretch.
const SINGLE_BANDS: u64 = 4;
const GROWTH: f64 = 0.25;

/// The best pieces; `None` if no pieces with a fading inverse were found.
///
/// # Errors
/// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) if the watch cancels the search.
pub(super) fn factor(horizon: u64, mix: &Mix, runs: Participation, watch: SearchWatch<'_>) -> Result<Option<Pieces>> {
    let circle = Circle::new(horizon, mix);
    let edges = edges(mix, circle.bands);
    let mut best: Option<(f64, Pieces)> = None;
    for envelope in Envelope::for_participation(runs) {
        watch.check()?;
        let pieces = averaged(&edges, &circle.coefficients(mix, envelope, watch)?);
        let product = product(&pieces, mix, (runs, circle.ends), watch);
        watch.check()?;
        if let Some(product) = product.filter(|product| best.as_ref().is_none_or(|(least, _)| product < least)) {
            best = Some((product, pieces));
        }
    }
    Ok(best.map(|(_, pieces)| pieces))
}

/// The weight of a unit's events in `k` steps at a frequency: `q = k²/(1 + (k sin(bθ/2)/f)²)`, which is
/// `|Σ_j e^(ijbθ)|²` without its zeros for `f` near 1. For events far apart, anywhere in that period of time:
/// `k²/(1 + (k b sin(θ/2)/f)²) + k`.
#[derive(Clone, Copy)]
struct Envelope {
    steps: f64,
    apart: f64,
    /// `f`.
    width: f64,
    falls_anywhere: bool,
}

impl Envelope {
    fn for_participation(runs: Participation) -> Vec<Self> {
        let (steps, apart) = (runs.most() as f64, runs.separation() as f64);
        let own = |width, falls_anywhere| Self { steps, apart, width, falls_anywhere };
        if runs.most() <= 1 {
            return vec![own(1.0, false)];
        }
        let mut all: Vec<Self> = [0.5, 1.0, 2.0].map(|width| own(width, false)).to_vec();
        if runs.separation() > 1 {
            all.extend([0.5, 1.0, 2.0].map(|width| own(width, true)));
        }
        all
    }

    fn at(self, angle: f64) -> f64 {
        if self.steps <= 1.0 {
            return 1.0;
        }
        let (sine, least) = if self.falls_anywhere {
            (self.apart * libm::sin(angle / 2.0), self.steps)
        } else {
            (libm::sin(angle * self.apart / 2.0), 0.0)
        };
        let ratio = self.steps * sine / self.width;
        self.steps * self.steps / (1.0 + ratio * ratio) + least
    }
}

/// The points at which the symbols are evaluated.
struct Circle {
    radius: f64,
    bands: u64,
    /// The horizon, if the running count is among the workloads.
    ends: Option<u64>,
}

impl Circle {
    fn new(horizon: u64, mix: &Mix) -> Self {
        if mix.workloads().any(Workload::is_sum) {
            return Self { radius: libm::exp(-0.3 / horizon as f64), bands: horizon, ends: Some(horizon) };
        }
        let bands = |workload| match workload {
            Workload::Window(width) => (5 * width).div_ceil(2),
            Workload::Decay(half_life) => 4 * half_life,
            Workload::Sum | Workload::Increments => 1,
        };
        let most = mix.workloads().map(bands).max().expect("two workloads at least");
        // Windows have zeros on the circle, but none slightly inside it.
        Self { radius: 1.0 - 1e-6, bands: most.max(4).min(horizon), ends: None }
    }

    /// The coefficients of `r`.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) if the watch cancels the computation.
    fn coefficients(&self, mix: &Mix, envelope: Envelope, watch: SearchWatch<'_>) -> Result<Vec<f64>> {
        let points = (OVERSAMPLED * self.bands).next_power_of_two().max(1 << 12);
        let unit = std::f64::consts::TAU / points as f64;
        let logarithm = |place: u64| {
            // Symmetric around π.
            let angle = unit * place.min(points - place) as f64;
            let of = |(workload, weight): &(Workload, f64)| weight * squared_symbol_at(*workload, self.radius, angle);
            let published: f64 = mix.readings().iter().map(of).sum();
            0.25 * libm::log(published / envelope.at(angle))
        };
        let mut paced = watch.paced();
        let watched = |place: u64| paced.check_before(POINT_OPERATIONS).map(|()| logarithm(place));
        let logarithms: Vec<f64> = (0..points).map(watched).collect::<Result<_>>()?;
        let mut grown = 1.0;
        // fits: at most 2^18 bands
        let own = outer(&logarithms, self.bands as usize, &|| watch.is_cancelled());
        let mut own = own.ok_or_else(cancellation)?;
        for coefficient in &mut own {
            *coefficient *= grown;
            grown /= self.radius;
        }
        Ok(own)
    }
}

/// First bands of pieces, and the number of bands: short pieces after every position where a coefficient may jump.
fn edges(mix: &Mix, bands: u64) -> Vec<u64> {
    let mut starts = vec![(0, bands)];
    for workload in mix.workloads() {
        if let Workload::Window(width) = workload {
            starts.extend((0..FOLLOWED).map(|times| (times * width, width)));
        }
    }
    let mut edges = vec![0, bands];
    for (first, stretch) in starts.into_iter().filter(|(first, _)| *first < bands) {
        let (mut at, end) = (first, (first + stretch).min(bands));
        while at < end {
            edges.push(at);
            let long = libm::round((at - first) as f64 * GROWTH) as u64;
            at += if at - first < SINGLE_BANDS { 1 } else { long.max(1) };
        }
        edges.push(end);
    }
    edges.sort_unstable();
    edges.dedup();
    edges
}

fn averaged(edges: &[u64], coefficients: &[f64]) -> Pieces {
    let mean = |ends: &[u64]| {
        let own = &coefficients[ends[0] as usize..ends[1] as usize];
        own.iter().sum::<f64>() / own.len() as f64
    };
    Pieces::rounded(edges, &edges.windows(2).map(mean).collect::<Vec<_>>())
}

/// `F · Σ_i c_i ‖L_i‖²`; `None` if numbers would grow too large, or if the watch cancels the computation.
fn product(
    pieces: &Pieces,
    mix: &Mix,
    (runs, ends): (Participation, Option<u64>),
    watch: SearchWatch<'_>,
) -> Option<f64> {
    let first = pieces.values[0];
    if pieces.values.iter().any(|value| value.abs() > first) {
        return None;
    }
    let published = mix.readings().iter().map(|(workload, weight)| {
        let response = response(pieces, *workload, ends, watch)?;
        Some(weight * response.left.iter().map(|entry| entry * entry).sum::<f64>())
    });
    let published = published.sum::<Option<f64>>()?;
    let spread = Spread { separation: runs.separation(), ..Spread::new(runs.most(), 1) };
    let moved = super::Distances::new(&pieces.autocorrelation()).spread_squared(spread)?;
    Some(moved as f64 * published)
}

/// The noise of a published workload, if the cursor's numbers fit, and the watch does not cancel the computation.
pub(super) fn response(
    pieces: &Pieces,
    workload: Workload,
    ends: Option<u64>,
    watch: SearchWatch<'_>,
) -> Option<BandedResponse> {
    let response = pieces.response_watched(workload, ends, watch)?;
    let sum = response.left.iter().map(|entry| entry.abs()).sum::<f64>();
    let fits = response.inverse_sum < MAX_INVERSE_SUM && (!workload.is_sum() || sum < MAX_RESPONSE_SUM);
    fits.then_some(response)
}
