//! How the noise of a step follows from that of the steps before it: the interface for samplers of many coordinates.
//!
//! All forms give `(L z)_t`, or its increment `(L z)_t - (L z)_{t-1}`: from a few nodes and a few stored vectors, or as
//! a convolution, which Fourier transforms compute for many steps at once. Nodes without a level are `(0, t-1)` for
//! step `t`.

use super::Walk;
use std::sync::Arc;

/// Maximum memory or fresh noise of a step of a constant-memory mechanism, in copies of the vector.
pub const MAX_CONSTANT_MEMORY: u64 = 64;

/// How a mechanism's noise is drawn step by step.
#[derive(Debug)]
pub enum Streaming {
    /// A sum along the path of a step; the walk says which part steps share.
    Paths(Box<dyn Walk>),
    /// Step `t` permanently adds node `(0, t-1)` to the noise.
    Inputs,
    /// The prefix is the sum of the complete dyadic blocks of its binary digits. The estimate of a block of height `j`
    /// is `(2^j own + (2^j - 1)(left + right)) / (2^(j+1) - 1)` with the estimates of its halves; nodes are
    /// `(height, number of the block)`.
    Estimates,
    /// Increments `D_t (C⁻¹ z)_t` for a buffered Toeplitz matrix `C`.
    Buffers(Arc<BufferSteps>),
    /// Increments `u_t = z_t - Σ_j c_j u_{t-j}`; these are `c_1, c_2, …`.
    Outputs(Arc<[f64]>),
    /// Increments `v_t / d_t`, `v_t = z_t - Σ_j c_j v_{t-j}`.
    Bands(BandSteps),
    /// Increments `u_t = (z_t - Σ_j C_tj u_j) / C_tt` for any lower triangular matrix `C`.
    Triangular(TriangularSteps),
    /// Increments `u_t = Σ_j r_j z_{t-j}`; these are `r_0, r_1, …`.
    Innovations(Arc<[f64]>),
    /// A sum over all innovations so far.
    Convolution(Convolution),
}

impl Streaming {
    /// Memory or fresh noise of a step, in copies of the vector; 0 if it grows at most with the logarithm of the
    /// horizon.
    pub fn memory(&self) -> u64 {
        let copies = match self {
            Self::Paths(_) | Self::Inputs | Self::Estimates | Self::Buffers(_) => 0,
            Self::Outputs(past) | Self::Bands(BandSteps { past, .. }) => past.len() + 1,
            Self::Triangular(steps) => steps.bands(),
            Self::Innovations(weights) => weights.len(),
            Self::Convolution(steps) => steps.increments.len(),
        };
        copies as u64
    }

    /// Whether a step needs at most 64 copies of the vector as memory or fresh noise, for every horizon.
    pub fn has_constant_memory(&self) -> bool {
        self.memory() <= MAX_CONSTANT_MEMORY
    }
}

/// The recurrence of a banded matrix whose columns have individual lengths; nodes are `(0, t-1)`.
#[derive(Clone, Debug, PartialEq)]
pub struct BandSteps {
    /// `c_1, c_2, …`
    pub past: Arc<[f64]>,
    /// `1 / d_1, 1 / d_2, …`, one per step.
    pub scales: Arc<[f64]>,
    /// `r_0, r_1, …`, one per step: `v_t = Σ_j r_j z_{t-j}`.
    pub inverse: Arc<[f64]>,
}

/// The recurrence of a lower triangular matrix without negative entries; nodes are `(0, t-1)`.
#[derive(Clone, Debug, PartialEq)]
pub struct TriangularSteps {
    /// Its rows one after the other.
    matrix: Arc<[u32]>,
    /// The integer that stands for 1.
    unit: f64,
    bands: usize,
}

impl TriangularSteps {
    /// From the rows of a matrix of `T` steps, and the integer that stands for 1; no entry of the diagonal is 0.
    /// `O(T²)`.
    pub(in crate::mechanism) fn new(matrix: Arc<[u32]>, steps: usize, unit: f64) -> Self {
        let reach = |t: usize| {
            let row = &matrix[row_of(t)];
            row.len() - row.iter().position(|entry| *entry != 0).unwrap_or(t)
        };
        let bands = (0..steps).map(reach).max().unwrap_or(1);
        Self { matrix, unit, bands }
    }

    /// Entries of a row from the first that is not 0 to the diagonal, at most.
    pub fn bands(&self) -> usize {
        self.bands
    }

    /// `1 / C_tt` for a step from 1 to the horizon.
    pub fn fresh(&self, step: u64) -> f64 {
        self.unit / f64::from(self.row(step)[step as usize - 1])
    }

    /// `C_tj / C_tt` for `j = t-1, t-2, …`, as many as are within the bands and the horizon.
    pub fn past(&self, step: u64) -> impl Iterator<Item = f64> + '_ {
        let row = self.row(step);
        let own = f64::from(row[row.len() - 1]);
        row.iter().rev().skip(1).take(self.bands - 1).map(move |entry| f64::from(*entry) / own)
    }

    fn row(&self, step: u64) -> &[u32] {
        &self.matrix[row_of(step as usize - 1)] // fits: at most 1024
    }
}

/// The places of row `t`, from 0, of a packed triangle.
fn row_of(t: usize) -> std::ops::Range<usize> {
    let start = t * (t + 1) / 2;
    start..start + t + 1
}

/// Increments `D_t Σ_j r_j z_{t-j}` over all steps so far; nodes are `(0, t-1)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Convolution {
    /// `r_0, r_1, …`, one per step.
    pub increments: Vec<f64>,
    /// `D_1, D_2, …`, if they are not all 1.
    pub scales: Option<Vec<f64>>,
    /// `l_0, l_1, …`, if the running sums of the increments are `Σ_j l_j z_{t-j}`.
    pub sums: Option<Vec<f64>>,
}

/// The recurrence of a BLT: `u = z - Σ ω_i B_i`, `B_i ← (1 - gap_i) B_i + u`, and the increment is `D u`.
#[derive(Clone, Debug, PartialEq)]
pub struct BufferSteps {
    /// `1 - θ_i`.
    pub gaps: Vec<f64>,
    /// `ω_i`.
    pub echoes: Vec<f64>,
    /// Last steps of segments, and `D` in them; the last segment ends at the horizon.
    pub segments: Vec<(u64, f64)>,
}

impl BufferSteps {
    /// `D` of a step from 1 to the horizon.
    pub fn scale(&self, step: u64) -> f64 {
        self.segments[self.segments.partition_point(|(last, _)| *last < step)].1
    }
}
