//! `banded`: windows and decays by a banded Toeplitz matrix, for horizons without end.
//!
//! The release is `W x`, with `W` lower triangular and Toeplitz (a [`Workload`]), computed as `L (R x + z)` with
//! `W = L R` and `R` Toeplitz with finitely many bands.
//!
//! **Optimum.** Over a long horizon `2ρ · variance = (1/2π)∫|r|² dθ · (1/2π)∫|W/r|² dθ` for the symbols `r`, `W` on the
//! unit circle: by Cauchy and Schwarz never below `((1/2π)∫|W| dθ)²`, which `r = √W` reaches, and by Szegő's theorem no
//! factorization is below that at late steps. For a window that is the square of the Lebesgue constant. `√W` has no
//! finite memory; the coefficients of `R` here do, and are within 1 % of it. They are equal in some ten [pieces] an
//! octave, found by [descent](search), and rounded to whole multiples of `2^-20`.
//!
//! **Sensitivity.** `‖R̃ u‖² ≤ Σ_st u_s u_t g_|s-t|` with `g_d = Σ_j R̃_j R̃_(j+d)`, in integers (with equality except
//! for the last steps of a horizon). The coefficients are of both signs, and so is `g`. Let `ĝ_d` be the largest of 0
//! and `g_d, g_(d+1), …`: it falls, and `ĝ_0 = g_0`. A unit has `u ≥ 0`, at most `c` events in a step, `m` in all,
//! steps with events at least `b` apart. So `‖R̃ u‖² ≤ Σ_st u_s u_t ĝ_|s-t|`, which is convex along exchanges of events
//! between steps (`ĝ_0 ≥ ĝ_d`): largest if `⌊m/c⌋` steps have `c` of them and one has the rest. The `i`-th step from
//! another is at least `i b` away, and at most two steps are as near as `i b` to the step of the rest, so
//!
//! ```text
//! F = c² (n ĝ_0 + 2 Σ_{0<i<n} (n-i) ĝ_ib) + r² ĝ_0 + 2 r c Σ_{1≤i≤n} ĝ_(⌈i/2⌉b),      n = ⌊m/c⌋, r = m - n c.
//! ```
//!
//! * Values of both signs: the same with `|g|` instead of `g⁺`.
//! * Events that are exchanged, `u = p - n`: `‖R̃ u‖² = ‖R̃ p‖² + ‖R̃ n‖² - 2⟨R̃ p, R̃ n⟩`, and `-⟨R̃ p, R̃ n⟩` is at
//!   most `Σ_s p_s Σ_t n_t g⁻_|s-t|`. Of steps that are `b` apart the `i`-th nearest (from 0) to any `s` is at least
//!   `⌊i b/2⌋` away: `X = m c Σ_i ĝ⁻_⌊ib/2⌋` over `⌈m/c⌉` of them. So `‖R̃ u‖² ≤ 2 (F + X)`.
//! * Several groups: `Σ_g ‖R̃ u_g‖² ≤ Σ_st Σ_g u_g(s) u_g(t) ĝ_|s-t|`, and `Σ_g u_g` is within the same bounds: `F`
//!   holds for all groups together.

pub(in crate::mechanism) mod cursor;
mod mixed;
mod pieces;
mod search;
pub(crate) mod spectrum;
#[cfg(test)]
mod tests;

use super::name::parameters::Parameters;
use super::{
    ColumnNorms, Cost, Criterion, Cursor, DensePair, LaplaceShift, MAX_HORIZON, Matrix, MatrixDigest, Mechanism,
    MechanismName, Mix, Participation, RowLaw, SearchWatch, Workload, check_horizon,
};
use crate::noise::Node;
use crate::privacy::Spread;
use crate::{Error, Result};
use cursor::WorkloadCursor;
use pieces::{Distances, Pieces};
use std::fmt;
use std::sync::Arc;

/// The widest window and the longest half-life: some megabytes for every running sum.
const MAX_WIDTH: u64 = 1 << 16;
/// Largest sum of the inverse coefficients for which the cursor's numbers fit.
const MAX_INVERSE_SUM: f64 = 1024.0;

/// Likewise the largest sum of the contributions of one noise to the running sums: `2^(80+32+14)` fits.
const MAX_RESPONSE_SUM: f64 = 16384.0;

/// A factorization of a workload by finitely many bands; see the [module](self).
#[derive(Clone, Debug)]
pub struct Banded {
    horizon: u64,
    workload: Workload,
    name: MechanismName,
    pieces: Arc<Pieces>,
    distances: Arc<Distances>,
    /// `l_j`.
    left: Arc<[f64]>,
    /// `Σ_{i≤j} l_i²`.
    row_norms: Arc<[f64]>,
}

impl Banded {
    /// The bands with the least error for a window or a decay over `horizon` steps (1 ..= 2^62), for units whose events
    /// follow `runs`.
    ///
    /// # Errors
    /// If the horizon is out of range, or the workload is neither a window nor a decay, or longer than 2^16 steps.
    ///
    /// ```
    /// use evertally::mechanism::{Banded, Mechanism, Participation, Workload};
    /// let week = Banded::new(1 << 40, Workload::Window(7), Participation::ONCE)?;
    /// let error = week.column_norms().l2_squared * week.max_row_norm_squared();
    /// assert!(error > 3.162 && error < 3.162 * 1.01);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn new(horizon: u64, workload: Workload, runs: Participation) -> Result<Self> {
        Self::searched(horizon, workload, runs, SearchWatch::NONE)
    }

    /// The same in a search that a watch may cancel.
    fn searched(horizon: u64, workload: Workload, runs: Participation, watch: SearchWatch<'_>) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "banded")?;
        check_width(workload)?;
        let found = search::search(workload, runs, watch).filter(|found| found.response.inverse_sum < MAX_INVERSE_SUM);
        watch.check()?;
        let found = found.ok_or_else(|| Error::invalid(format!("`banded` does not factorize `{workload}`")))?;
        let name = MechanismName::Banded(runs, Some(digest(&workload.to_string(), &found.pieces)));
        Ok(Self::from_pieces(horizon, workload, name, found.pieces, found.response.left))
    }

    /// One of several workloads that are read from one release over `horizon` steps (1 ..= 2^62; 2^16 if the running
    /// sum is among them). The bands are the same for all of them: those with the least weighted sum of their largest
    /// variances, for units whose events follow `runs`.
    ///
    /// # Errors
    /// If the horizon is out of range, a workload is longer than 2^16 steps, or this one is not among them.
    ///
    /// ```
    /// use evertally::mechanism::{Banded, Mechanism, Mix, Participation, Workload};
    /// let mix = Mix::new(&[(Workload::Sum, 0.12), (Workload::Window(7), 0.32)])?;
    /// let read = |workload| Banded::from_mix(365, workload, &mix, Participation::ONCE).unwrap();
    /// let (sum, week) = (read(Workload::Sum), read(Workload::Window(7)));
    /// assert_eq!(sum.name(), week.name());
    /// let figure = |read: &Banded| read.column_norms().l2_squared * read.max_row_norm_squared();
    /// // A budget for each of them would give twice 7.9 and twice 3.16.
    /// assert!(figure(&sum) < 11.5 && figure(&week) < 4.4);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn from_mix(horizon: u64, reading: Workload, mix: &Mix, runs: Participation) -> Result<Self> {
        Self::mix_searched(horizon, reading, (mix, runs), SearchWatch::NONE)
    }

    /// The same in a search that a watch may cancel.
    fn mix_searched(
        horizon: u64,
        reading: Workload,
        (mix, runs): (&Mix, Participation),
        watch: SearchWatch<'_>,
    ) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "banded")?;
        let (mix, reading) = (mix.over(horizon, |_| 1.0), reading.over(horizon));
        mix.workloads().try_for_each(check_width)?;
        if !mix.workloads().any(|own| own == reading) {
            return Err(Error::invalid(format!("`{reading}` is not one of the workloads of this release")));
        }
        let has_sum = mix.workloads().any(Workload::is_sum);
        if has_sum && horizon > MAX_WIDTH {
            return Err(Error::invalid(format!(
                "the running sum can share a release with other workloads over at most {MAX_WIDTH} steps; use longer \
                 steps, or publish the running sum as a separate stream"
            )));
        }
        let found = mixed::factor(horizon, &mix, runs, watch)?;
        let found = found.and_then(|pieces| {
            let response = mixed::response(&pieces, reading, has_sum.then_some(horizon), watch)?;
            Some((pieces, response))
        });
        watch.check()?;
        let Some((pieces, response)) = found else {
            return Err(Error::invalid("`banded` does not factorize these workloads together"));
        };
        let texts: Vec<String> = mix.workloads().map(|own| own.to_string()).collect();
        let name = MechanismName::Banded(runs, Some(digest(&texts.join(" "), &pieces)));
        Ok(Self::from_pieces(horizon, reading, name, pieces, response.left))
    }

    /// `R = I`, noise on each step, for both noise distributions.
    pub(super) fn for_steps(horizon: u64, workload: Workload) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "input")?;
        check_width(workload)?;
        let pieces = Pieces::identity();
        let response = pieces.response(workload).expect("the published response fades");
        Ok(Self::from_pieces(horizon, workload, MechanismName::Input, pieces, response.left))
    }

    fn from_pieces(horizon: u64, workload: Workload, name: MechanismName, pieces: Pieces, left: Vec<f64>) -> Self {
        let row_norms = left.iter().scan(0.0, |sum, entry| {
            *sum += entry * entry;
            Some(*sum)
        });
        Self {
            horizon,
            workload,
            name,
            row_norms: row_norms.collect(),
            distances: Arc::new(Distances::new(&pieces.autocorrelation())),
            pieces: Arc::new(pieces),
            left: left.into(),
        }
    }

    fn is_of_steps(&self) -> bool {
        self.pieces.bits == 0
    }

    /// `R_j` in units of the data's grid.
    fn unit(&self) -> f64 {
        libm::exp2(-f64::from(self.pieces.bits))
    }
}

fn check_width(workload: Workload) -> Result<()> {
    let width = match workload {
        Workload::Window(width) => width,
        Workload::Decay(half_life) => half_life,
        Workload::Sum | Workload::Increments => 1,
    };
    if width > MAX_WIDTH {
        return Err(Error::invalid(format!(
            "`{workload}` is longer than {MAX_WIDTH} steps, the maximum for per-step noise and bands; use longer steps"
        )));
    }
    Ok(())
}

fn digest(workload: &str, pieces: &Pieces) -> MatrixDigest {
    let mut hasher = blake3::Hasher::new_derive_key("evertally 1 bands");
    hasher.update(workload.as_bytes()).update(&[0, pieces.bits as u8]);
    pieces.edges.iter().for_each(|edge| _ = hasher.update(&edge.to_le_bytes()));
    pieces.values.iter().for_each(|value| _ = hasher.update(&value.to_le_bytes()));
    MatrixDigest::new(&hasher.finalize())
}

impl Mechanism for Banded {
    fn name(&self) -> MechanismName {
        self.name
    }

    fn horizon(&self) -> u64 {
        self.horizon
    }

    fn workload(&self) -> Workload {
        self.workload
    }

    /// Exact in the squares.
    fn column_norms(&self) -> ColumnNorms {
        let unit = self.unit();
        ColumnNorms {
            l1: self.pieces.absolute_sum() as f64 * unit,
            l2_squared: self.pieces.square(self.horizon) as f64 * unit * unit,
        }
    }

    fn noise_bits(&self) -> u32 {
        self.pieces.bits
    }

    fn has_negative_entries(&self) -> bool {
        true
    }

    fn spread_squared(&self, spread: Spread) -> u128 {
        self.distances.spread_squared(spread).unwrap_or(u128::MAX)
    }

    /// `L` is square: the releases reveal as much as the nodes.
    fn exact_l2_squared(&self) -> Option<f64> {
        Some(self.column_norms().l2_squared)
    }

    fn is_causal(&self) -> bool {
        true
    }

    /// Noise on each step: the nodes of a window are those of its steps.
    fn has_random_access(&self) -> bool {
        self.fraction_bits() == 0
    }

    fn row_norm_squared(&self, step: u64) -> f64 {
        self.row_norms[(step as usize).min(self.row_norms.len()) - 1]
    }

    /// They grow from step to step.
    fn max_row_norm_squared(&self) -> f64 {
        self.row_norm_squared(self.horizon)
    }

    fn mean_row_norm_squared(&self) -> f64 {
        let known = (self.row_norms.len() as u64).min(self.horizon);
        let sum: f64 = self.row_norms[..known as usize].iter().sum();
        (sum + (self.horizon - known) as f64 * self.max_row_norm_squared()) / self.horizon as f64
    }

    /// `O(bands)`, a few dozen of them.
    fn row_product(&self, earlier: u64, later: u64) -> f64 {
        let apart = usize::try_from(later - earlier).unwrap_or(usize::MAX);
        let shifted = self.left.get(apart..).unwrap_or_default();
        // fits: rows have few entries that are not 0
        shifted.iter().zip(&*self.left).take(earlier.min(1 << 40) as usize).map(|(a, b)| a * b).sum()
    }

    fn visit_row(&self, step: u64, visit: &mut dyn FnMut(Node, f64)) {
        for (index, entry) in (0..step).rev().zip(&*self.left) {
            visit(Node { level: 0, index }, *entry);
        }
    }

    fn node_span(&self, node: Node) -> (u64, u64) {
        ((node.index + 2).saturating_sub(self.pieces.bands()).max(1), node.index + 1)
    }

    fn fraction_bits(&self) -> u32 {
        cursor::fraction_bits(&self.pieces, self.workload)
    }

    fn row_law(&self, step: u64) -> RowLaw {
        match self.workload {
            Workload::Window(width) if self.is_of_steps() => RowLaw::Sum(vec![(1.0, width.min(step))]),
            Workload::Increments if self.is_of_steps() => RowLaw::Sum(vec![(1.0, 1)]),
            // A decay with Laplace noise on each step: its tails are no heavier than those of one variable of the whole
            // variance.
            _ => RowLaw::Like { norm_squared: self.row_norm_squared(step), terms: 1 },
        }
    }

    fn cursor(&self) -> Box<dyn Cursor> {
        Box::new(WorkloadCursor::new(self.pieces.clone(), self.workload))
    }

    fn cost(&self) -> Cost {
        let reach = self.workload.reach(if self.is_of_steps() { 1 } else { self.pieces.bands() });
        Cost {
            draws_per_step: 1.0,
            work_per_step: self.pieces.values.len() as f64,
            memory_words: 2 * self.pieces.bands().max(reach) + 2,
        }
    }

    fn laplace(&self) -> std::result::Result<LaplaceShift, &'static str> {
        if self.is_of_steps() {
            return Ok(LaplaceShift::from_single_nodes(1));
        }
        Err("its L1 sensitivity is far above its L2 sensitivity")
    }

    fn dense(&self) -> DensePair {
        let mut pair = crate::mechanism::factorization::dense_pair(self);
        let steps = self.horizon as usize;
        pair.r = Matrix::zeros(steps, steps);
        let pieces = self.pieces.edges.windows(2).zip(&self.pieces.values);
        for (ends, value) in pieces {
            for j in ends[0] as usize..(ends[1] as usize).min(steps) {
                (j..steps).for_each(|t| pair.r.set(t, t - j, *value as f64 * self.unit()));
            }
        }
        pair
    }
}

pub(super) fn parse(parameters: &mut Parameters<'_>) -> Result<MechanismName> {
    let (run, gap) = (parameters.number("run")?, parameters.number("gap")?);
    let runs = Participation::new(run.unwrap_or(1), gap.unwrap_or(1))?;
    let digest = parameters.take("digest").map(str::parse).transpose()?;
    Ok(MechanismName::Banded(runs, digest))
}

pub(super) fn write(f: &mut fmt::Formatter<'_>, runs: Participation, digest: Option<MatrixDigest>) -> fmt::Result {
    let more_than_one = |key: &str, number: u64| (number > 1).then(|| format!("{key}={number}"));
    let digest = digest.map(|digest| format!("digest={digest}"));
    let parts = [more_than_one("run", runs.most()), more_than_one("gap", runs.separation()), digest];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { Ok(()) } else { write!(f, "({})", parts.join(",")) }
}

pub(super) fn build(
    horizon: u64,
    criterion: &Criterion,
    runs: Participation,
    wanted: Option<MatrixDigest>,
) -> Result<Arc<dyn Mechanism>> {
    let built = match criterion.mix() {
        Some(mix) => Banded::mix_searched(horizon, criterion.workload(), (&mix, runs), criterion.watch())?,
        None => Banded::searched(horizon, criterion.workload(), runs, criterion.watch())?,
    };
    if let MechanismName::Banded(_, Some(found)) = built.name {
        found.check(wanted, "the `banded` matrix")?;
    }
    Ok(Arc::new(built))
}

/// Bands for single events and, if a unit has events in several steps, for the unit.
pub(super) fn readings(criterion: &Criterion) -> Vec<MechanismName> {
    let runs = [Some(Participation::ONCE), criterion.runs()];
    runs.into_iter().flatten().map(|runs| MechanismName::Banded(runs, None)).collect()
}

pub(super) fn brief(name: MechanismName) -> MechanismName {
    match name {
        MechanismName::Banded(runs, _) => MechanismName::Banded(runs, None),
        other => other,
    }
}

pub(super) fn answers(asked: MechanismName, built: MechanismName, _: super::Objective) -> bool {
    match (asked, built) {
        (MechanismName::Banded(asked, None), MechanismName::Banded(built, _)) => asked == built,
        _ => asked == built,
    }
}
