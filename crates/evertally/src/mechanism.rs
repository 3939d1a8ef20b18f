//! Factorizations of the prefix-sum matrix, one per file.
//!
//! Let `A` be the lower triangular matrix of ones. A mechanism is a pair `A = L R`: every row of `R` is a **node**,
//! a sum of steps that is protected by one noise variable; row `t` of `L` says how the nodes (and their noise) are
//! combined into the release of step `t`. The release is `A x + L z` with independent `z`, so
//!
//! * privacy depends on the columns of `R` only ([`ColumnNorms`]),
//! * the variance at step `t` is `Var(z) · ‖L_t‖²` ([`Mechanism::row_norm_squared`]).
//!
//! Mechanisms are independent of noise distributions: a [`Cursor`] asks its caller for the value of a node.

mod accounting;
pub(crate) mod banded;
mod column_norms;
mod criterion;
mod dense_twin;
mod differences;
mod endless;
mod factorization;
mod horizon;
mod laplace_distance;
mod lazy;
mod least_squares;
mod limits;
mod long_search;
mod mix;
mod name;
mod objective;
mod optimum;
mod reach;
mod registry;
mod rounding;
mod search_watch;
mod searched_once;
mod state_space;
mod streaming;
mod toeplitz;
mod training_loop;
mod tree;
mod trivial;
pub(crate) mod units;
mod walk;
mod workload;

pub use accounting::{GaussianShift, LaplaceShift, Participation};
pub use banded::Banded;
pub use column_norms::ColumnNorms;
pub use criterion::Criterion;
pub use dense_twin::{DensePair, Matrix};
pub use endless::Endless;
use factorization::replay;
pub use factorization::{Bands, Cost, Cursor, Mechanism, RowLaw};
use horizon::check_horizon;
pub use horizon::{MAX_HORIZON, check_steps};
pub use laplace_distance::LaplaceDistance;
pub use lazy::Lazy;
pub use least_squares::{Consistent, DensePure, Hats, NestedHats, RollingHats};
pub use limits::Limits;
pub use long_search::{LongSearch, SearchedMechanism};
pub use mix::Mix;
pub use name::MechanismName;
pub use name::buffers::{BufferChoice, Buffers, MAX_BUFFERS};
pub use name::endless::{EndlessChoice, Inside};
pub use name::exponent::Exponent;
pub use name::hat_levels::{HatChoice, HatLevels};
pub use name::levels::{LevelChoice, Levels};
pub use name::nested_levels::NestedLevels;
pub use name::optimum::{MatrixDigest, Optimum};
pub use name::rolling_levels::RollingLevels;
pub use name::shape::ShapeChoice;
pub use name::sharpness::Sharpness;
pub use objective::{NoiseKind, Objective};
pub use optimum::{Certificate, Dense, DenseRuns, Optimal};
pub(crate) use optimum::{certified_bound, weighted_gram};
pub use reach::{Reach, Steps};
pub use registry::{Abilities, Competes, Family, LoopBuilder, Publishes, SampledUse, Vectors, streaming_names};
pub use search_watch::SearchWatch;
pub(crate) use search_watch::cancellation;
pub(crate) use searched_once::SearchedOnce;
pub use state_space::LazyBlt;
pub use streaming::{BandSteps, BufferSteps, Convolution, MAX_CONSTANT_MEMORY, Streaming, TriangularSteps};
pub use toeplitz::{Blt, ColumnScaling, EpochBands, SquareRoot};
pub use training_loop::{BandedFamily, Recursion, TrainingLoop};
pub use tree::{DigitTree, HonakerOnline, PathSum, Smooth};
pub use trivial::{Input, Output};
pub use walk::Walk;
pub use workload::Workload;

/// Why the square-root mechanisms, and those derived from them, do not support Laplace noise.
const GROWING_L1: &str = "its L1 sensitivity grows with the square root of the horizon";

#[cfg(test)]
mod tests;
