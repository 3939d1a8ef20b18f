//! The registry: one row per family of mechanisms, pointing into its folder.
//!
//! Names, searches, programs and figures take their data about families from here; nothing else lists them.
//! `docs/adding-a-mechanism.md` describes how to add one.

mod family;
mod name;
mod parameters;
mod table;
#[cfg(test)]
mod tests;

pub use family::{Abilities, Dash, Family, Hue, Limits, Line, Mark, Reach, Steps, Vectors};
pub use name::names_that_stream;
pub(super) use parameters::Parameters;

use super::{
    BufferChoice, Criterion, EndlessChoice, Exponent, HatChoice, LevelChoice, MAX_HORIZON, MatrixDigest, Mechanism,
    NoiseKind, Optimum, Participation, RollingLevels, Sharpness,
};
use super::{banded, endless, least_squares, optimum, toeplitz, tree, trivial};
use crate::Result;
use NoiseKind::{Gaussian, Laplace};
use Steps::{Heavy, Light};
use family::{equal, unchanged};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use table::registry;

registry! {
    /// Noise on every input.
    Input in trivial::input = Family {
        stem: "input",
        about: "noise on every input",
        examples: &["input"],
        open: Some(MechanismName::Input),
        reach: Reach::ANY,
        usual_law: Gaussian,
        competes: true,
        endless: false,
        vectors: Vectors::Compete,
        abilities: Abilities::IN_ORDER,
        steps: Light,
        is_plain_noise: true,
        listed_open: false,
        limits: Limits::none,
        brief: unchanged,
        answers: equal,
        line: Line(Hue::Grey, Dash::Dashed, Mark::Up),
    };

    /// Noise on every output.
    Output in trivial::output = Family {
        stem: "output",
        about: "noise on every output",
        examples: &["output"],
        open: Some(MechanismName::Output),
        reach: Reach::ANY,
        usual_law: Gaussian,
        competes: true,
        endless: false,
        vectors: Vectors::Compete,
        abilities: Abilities::EVERY_STEP,
        steps: Light,
        is_plain_noise: true,
        listed_open: false,
        limits: Limits::none,
        brief: unchanged,
        answers: equal,
        line: Line(Hue::Grey, Dash::Mixed, Mark::Down),
    };

    /// Binary tree, left children only.
    Binary in tree::binary = Family {
        stem: "binary",
        about: "binary tree, left children only",
        examples: &["binary"],
        open: Some(MechanismName::Binary),
        reach: Reach::ANY,
        usual_law: Gaussian,
        competes: true,
        endless: false,
        vectors: Vectors::Compete,
        abilities: Abilities::EVERY_STEP,
        steps: Light,
        is_plain_noise: false,
        listed_open: false,
        limits: tree::binary::limits,
        brief: unchanged,
        answers: equal,
        line: Line(Hue::Black, Dash::Solid, Mark::Square),
    };

    /// Binary tree with estimation from below.
    HonakerOnline in tree::honaker_online = Family {
        stem: "honaker-online",
        about: "binary tree with estimation from below",
        examples: &["honaker-online"],
        open: Some(MechanismName::HonakerOnline),
        reach: Reach::ANY,
        usual_law: Gaussian,
        competes: true,
        endless: false,
        vectors: Vectors::Compete,
        abilities: Abilities::IN_ORDER,
        steps: Light,
        is_plain_noise: false,
        listed_open: false,
        limits: tree::honaker_online::limits,
        brief: unchanged,
        answers: equal,
        line: Line(Hue::Black, Dash::Dashed, Mark::Diamond),
    };

    /// k-ary tree, additions only; `None` = best arity from 2 to 64.
    Kary(arity: Option<u64>) in tree::kary = Family {
        stem: "kary",
        about: "k-ary tree, additions only",
        examples: &["kary(k=5)"],
        open: Some(MechanismName::Kary(None)),
        reach: Reach::ANY,
        usual_law: Gaussian,
        competes: true,
        endless: false,
        vectors: Vectors::Compete,
        abilities: Abilities::EVERY_STEP,
        steps: Light,
        is_plain_noise: false,
        listed_open: false,
        limits: tree::kary::limits,
        brief: unchanged,
        answers: equal,
        line: Line(Hue::Sky, Dash::Solid, Mark::Up),
    };

    /// k-ary tree with subtraction; `None` = best arity from 3 to 64.
    Subtract(arity: Option<u64>) in tree::subtract = Family {
        stem: "subtract",
        about: "k-ary tree with subtraction",
        examples: &["subtract(k=19)"],
        open: Some(MechanismName::Subtract(None)),
        reach: Reach::ANY,
        usual_law: Gaussian,
        competes: true,
        endless: false,
        vectors: Vectors::Compete,
        abilities: Abilities::EVERY_STEP,
        steps: Light,
        is_plain_noise: false,
        listed_open: false,
        limits: tree::subtract::limits,
        brief: unchanged,
        answers: equal,
        line: Line(Hue::Sky, Dash::Dashed, Mark::Down),
    };

    /// Smooth binary tree, (height, zeros); `None` = best shape.
    Smooth(shape: Option<(u32, u32)>) in tree::smooth = Family {
        stem: "smooth",
        about: "binary tree with the same error at all steps",
        examples: &["smooth", "smooth(h=6,zeros=3)"],
        open: Some(MechanismName::Smooth(None)),
        reach: Reach::ANY,
        usual_law: Gaussian,
        competes: true,
        endless: false,
        vectors: Vectors::Compete,
        abilities: Abilities { exact_accounting: true, ..Abilities::EVERY_STEP },
        steps: Light,
        is_plain_noise: false,
        listed_open: true,
        limits: tree::smooth::limits,
        brief: unchanged,
        answers: equal,
        line: Line(Hue::Blue, Dash::Solid, Mark::Circle),
    };

    /// Consistent tree: arity, or the best; level weights, or the best.
    Consistent(arity: Option<u64>, levels: LevelChoice) in least_squares::consistent = Family {
        stem: "consistent",
        about: "k-ary tree, every prefix estimated from all blocks",
        examples: &["consistent", "consistent(k=12)"],
        open: Some(MechanismName::Consistent(None, LevelChoice::Best)),
        reach: Reach { laplace: Some(1 << 14), gaussian: Some(1 << 12) }, // others are far better for Gaussian noise
        usual_law: Laplace,
        competes: true,
        endless: false,
        vectors: Vectors::No,
        abilities: Abilities::IN_ORDER,
        steps: Heavy,
        is_plain_noise: false,
        listed_open: false,
        limits: Limits::none,
        brief: unchanged,
        answers: equal,
        line: Line(Hue::Green, Dash::Solid, Mark::Diamond),
    };

    /// Path sums of a binary tree: level weights, or the best.
    PathSum(levels: LevelChoice) in tree::path_sum = Family {
        stem: "path-sum",
        about: "binary tree, a release sums the path to its leaf",
        examples: &["path-sum"],
        open: Some(MechanismName::PathSum(LevelChoice::Best)),
        reach: Reach::ANY_GAUSSIAN,
        usual_law: Gaussian,
        competes: true,
        endless: false,
        vectors: Vectors::Compete,
        abilities: Abilities { exact_accounting: true, ..Abilities::EVERY_STEP },
        steps: Light,
        is_plain_noise: false,
        listed_open: true,
        limits: Limits::none,
        brief: tree::path_sum::brief,
        answers: equal,
        line: Line(Hue::Blue, Dash::Mixed, Mark::Square),
    };

    /// Single steps and overlapping hats.
    Hats(choice: HatChoice) in least_squares::hats = Family {
        stem: "hats",
        about: "single steps and overlapping hats, estimated from all",
        examples: &["hats", "hats(spacing=12/150)"],
        open: Some(MechanismName::Hats(HatChoice::Best)),
        reach: Reach::laplace(1 << 22),
        usual_law: Laplace,
        competes: true,
        endless: false,
        vectors: Vectors::No,
        abilities: Abilities::IN_ORDER,
        steps: Heavy,
        is_plain_noise: false,
        listed_open: false,
        limits: Limits::none,
        brief: least_squares::hats::brief,
        answers: equal,
        line: Line(Hue::Green, Dash::Dashed, Mark::Up),
    };

    /// Square root of the prefix-sum matrix.
    Sqrt in toeplitz::sqrt = Family {
        stem: "sqrt",
        about: "square root of the prefix-sum matrix",
        examples: &["sqrt"],
        open: Some(MechanismName::Sqrt),
        reach: Reach::gaussian(1 << 20),
        usual_law: Gaussian,
        competes: true,
        endless: false,
        vectors: Vectors::Compete,
        abilities: Abilities::IN_ORDER,
        steps: Heavy,
        is_plain_noise: false,
        listed_open: false,
        limits: toeplitz::sqrt::limits,
        brief: unchanged,
        answers: equal,
        line: Line(Hue::Vermilion, Dash::Dashed, Mark::Down),
    };

    /// The same with columns of one length.
    NormalizedSqrt in toeplitz::normalized_sqrt = Family {
        stem: "normalized-sqrt",
        about: "square root with columns of one length",
        examples: &["normalized-sqrt"],
        open: Some(MechanismName::NormalizedSqrt),
        reach: Reach::gaussian(1 << 14),
        usual_law: Gaussian,
        competes: true,
        endless: false,
        vectors: Vectors::Compete,
        abilities: Abilities::IN_ORDER,
        steps: Heavy,
        is_plain_noise: false,
        listed_open: false,
        limits: toeplitz::sqrt::limits,
        brief: unchanged,
        answers: equal,
        line: Line(Hue::Vermilion, Dash::Solid, Mark::Square),
    };

    /// The first diagonals of the square root; the parameter is their number.
    BandedSqrt(bands: u64) in toeplitz::banded_sqrt = Family {
        stem: "banded-sqrt",
        about: "first diagonals of the square root",
        examples: &["banded-sqrt(bands=8)"],
        open: None,
        reach: Reach::gaussian(1 << 14),
        usual_law: Gaussian,
        competes: false,
        endless: false,
        vectors: Vectors::Named,
        abilities: Abilities::IN_ORDER,
        steps: Heavy,
        is_plain_noise: false,
        listed_open: false,
        limits: Limits::none,
        brief: unchanged,
        answers: equal,
        line: Line(Hue::Green, Dash::Mixed, Mark::Down),
    };

    /// Bands with columns whose lengths change from epoch to epoch: the number of bands; the participation of units;
    /// how sharply sampling separates epochs; the digest of the matrix.
    EpochBands(bands: u64, runs: Participation, sharpness: Sharpness, digest: Option<MatrixDigest>) in toeplitz::epoch_bands = Family {
        stem: "epoch-bands",
        about: "best bands, with columns scaled per epoch",
        examples: &["epoch-bands(bands=8)"],
        open: None,
        reach: Reach::gaussian(1 << 12),
        usual_law: Gaussian,
        competes: false,
        endless: false,
        vectors: Vectors::CompeteAs(toeplitz::epoch_bands::competitors),
        abilities: Abilities::IN_ORDER,
        steps: Heavy,
        is_plain_noise: false,
        listed_open: false,
        limits: Limits::none,
        brief: toeplitz::epoch_bands::brief,
        answers: equal,
        line: Line(Hue::Green, Dash::Dashed, Mark::Square),
    };

    /// The inverse of the first diagonals of the inverse square root; the parameter is their number.
    BandedInverseSqrt(bands: u64) in toeplitz::banded_inverse_sqrt = Family {
        stem: "banded-inverse-sqrt",
        about: "inverse of the first diagonals of the inverse square root",
        examples: &["banded-inverse-sqrt(bands=8)"],
        open: None,
        reach: Reach::gaussian(1 << 14),
        usual_law: Gaussian,
        competes: false,
        endless: false,
        vectors: Vectors::Named,
        abilities: Abilities::IN_ORDER,
        steps: Heavy,
        is_plain_noise: false,
        listed_open: false,
        limits: Limits::none,
        brief: unchanged,
        answers: equal,
        line: Line(Hue::Orange, Dash::Mixed, Mark::Down),
    };

    /// The inverse of the first diagonals of a power of the differences; `None` = the best power.
    BandedInverse(bands: u64, exponent: Option<Exponent>) in toeplitz::banded_inverse = Family {
        stem: "banded-inverse",
        about: "inverse of the first diagonals of a power of the differences",
        examples: &["banded-inverse(bands=2)", "banded-inverse(bands=8,exponent=0.75)"],
        open: None,
        reach: Reach::gaussian(1 << 14),
        usual_law: Gaussian,
        competes: false,
        endless: false,
        vectors: Vectors::CompeteAs(toeplitz::banded_inverse::competitors),
        abilities: Abilities::IN_ORDER,
        steps: Heavy,
        is_plain_noise: false,
        listed_open: false,
        limits: Limits::none,
        brief: toeplitz::banded_inverse::brief,
        answers: equal,
        line: Line(Hue::Orange, Dash::Solid, Mark::Diamond),
    };

    /// Buffered linear Toeplitz matrix.
    Blt(choice: BufferChoice) in toeplitz::blt = Family {
        stem: "blt",
        about: "buffered linear Toeplitz matrix",
        examples: &["blt", "blt(buffers=4)"],
        open: Some(MechanismName::Blt(BufferChoice::Best)),
        reach: Reach::ANY_GAUSSIAN,
        usual_law: Gaussian,
        competes: true,
        endless: false,
        vectors: Vectors::Compete,
        abilities: Abilities { lazy: true, ..Abilities::IN_ORDER },
        steps: Light,
        is_plain_noise: false,
        listed_open: false,
        limits: Limits::none,
        brief: toeplitz::blt::brief,
        answers: equal,
        line: Line(Hue::Purple, Dash::Dashed, Mark::Diamond),
    };

    /// The same with columns of one length, or patterns of columns for units with events in several steps.
    NormalizedBlt(choice: BufferChoice, runs: Participation) in toeplitz::normalized_blt = Family {
        stem: "normalized-blt",
        about: "buffered linear Toeplitz matrix with columns of one length",
        examples: &["normalized-blt"],
        open: Some(MechanismName::NormalizedBlt(BufferChoice::Best, Participation::ONCE)),
        reach: Reach::ANY_GAUSSIAN,
        usual_law: Gaussian,
        competes: true,
        endless: false,
        vectors: Vectors::Compete,
        abilities: Abilities { lazy: true, ..Abilities::IN_ORDER },
        steps: Light,
        is_plain_noise: false,
        listed_open: false,
        limits: Limits::none,
        brief: toeplitz::normalized_blt::brief,
        answers: equal,
        line: Line(Hue::Purple, Dash::Solid, Mark::Circle),
    };

    /// The optimum for Gaussian noise.
    Dense(optimum: Optimum) in optimum::dense = Family {
        stem: "dense",
        about: "the optimal factorization, as a dense matrix",
        examples: &["dense"],
        open: Some(MechanismName::Dense(Optimum::OPEN)),
        reach: Reach::gaussian(1 << 11),
        usual_law: Gaussian,
        competes: true,
        endless: false,
        vectors: Vectors::No,
        abilities: Abilities::IN_ORDER,
        steps: Heavy,
        is_plain_noise: false,
        listed_open: false,
        limits: Limits::none,
        brief: optimum::dense::brief,
        answers: optimum::dense::answers,
        line: Line(Hue::Orange, Dash::Solid, Mark::Up),
    };

    /// A filter close to the optimum for Gaussian noise: its number of states, or a good default.
    Optimal(states: Option<usize>, optimum: Optimum) in optimum::optimal = Family {
        stem: "optimal",
        about: "filter with few states, close to the optimum",
        examples: &["optimal", "optimal(states=8)"],
        open: Some(MechanismName::Optimal(None, Optimum::OPEN)),
        reach: Reach::gaussian(1 << 17),
        usual_law: Gaussian,
        competes: true,
        endless: false,
        vectors: Vectors::No,
        abilities: Abilities::IN_ORDER,
        steps: Heavy,
        is_plain_noise: false,
        listed_open: false,
        limits: Limits::none,
        brief: optimum::optimal::brief,
        answers: equal,
        line: Line(Hue::Orange, Dash::Mixed, Mark::Square),
    };

    /// The best factorization that a numerical search finds for Laplace noise.
    DensePure(optimum: Optimum) in least_squares::dense_pure = Family {
        stem: "dense-pure",
        about: "the best factorization found by numerical search",
        examples: &["dense-pure"],
        open: Some(MechanismName::DensePure(Optimum::OPEN)),
        reach: Reach::laplace(1 << 6),
        usual_law: Laplace,
        competes: false,
        endless: false,
        vectors: Vectors::No,
        abilities: Abilities::IN_ORDER,
        steps: Heavy,
        is_plain_noise: false,
        listed_open: false,
        limits: Limits::none,
        brief: least_squares::dense_pure::brief,
        answers: least_squares::dense_pure::answers,
        line: Line(Hue::Orange, Dash::Dashed, Mark::Circle),
    };

    /// Finitely many bands for windows and decays: the participation of units with events in several steps, and the
    /// digest of the bands.
    Banded(runs: Participation, digest: Option<MatrixDigest>) in banded = Family {
        stem: "banded",
        about: "piecewise constant bands, for endless windows and decays",
        examples: &["banded"],
        open: Some(MechanismName::Banded(Participation::ONCE, None)),
        reach: Reach::ANY_GAUSSIAN,
        usual_law: Gaussian,
        competes: false, // for running sums; see `Criterion::workload`
        endless: false,
        vectors: Vectors::No,
        abilities: Abilities::IN_ORDER,
        steps: Light,
        is_plain_noise: false,
        listed_open: false,
        limits: Limits::none,
        brief: banded::brief,
        answers: banded::answers,
        line: Line(Hue::Purple, Dash::Mixed, Mark::Square),
    };

    /// Single steps and endless hats for windows: spacings and shares, or the best.
    RollingHats(levels: Option<RollingLevels>) in least_squares::rolling_hats = Family {
        stem: "rolling-hats",
        about: "single steps and endless overlapping hats, for windows",
        examples: &["rolling-hats", "rolling-hats(spacing=11/110,share=303/370)"],
        open: Some(MechanismName::RollingHats(None)),
        reach: Reach::laplace(MAX_HORIZON),
        usual_law: Laplace,
        competes: false, // for running sums; see `Criterion::workload`
        endless: false,
        vectors: Vectors::No,
        abilities: Abilities::IN_ORDER,
        steps: Light,
        is_plain_noise: false,
        listed_open: false,
        limits: Limits::none,
        brief: least_squares::rolling_hats::brief,
        answers: equal,
        line: Line(Hue::Green, Dash::Mixed, Mark::Up),
    };

    /// Epochs of growing length, for running counts that never end.
    Endless(choice: EndlessChoice) in endless = Family {
        stem: "endless",
        about: "epochs of growing length, for a count that never ends",
        examples: &["endless"],
        open: Some(MechanismName::Endless(EndlessChoice::OPEN)),
        reach: Reach::ANY_GAUSSIAN,
        usual_law: Gaussian,
        competes: false,
        endless: true,
        vectors: Vectors::No,
        abilities: Abilities::IN_ORDER,
        steps: Light,
        is_plain_noise: false,
        listed_open: false,
        limits: Limits::none,
        brief: endless::brief,
        answers: equal,
        line: Line(Hue::Vermilion, Dash::Mixed, Mark::Circle),
    };

    /// The same with trees inside, for Laplace noise.
    EndlessTrees(digest: Option<MatrixDigest>) in endless::trees = Family {
        stem: "endless-trees",
        about: "the same with trees, for Laplace noise",
        examples: &["endless-trees"],
        open: Some(MechanismName::EndlessTrees(None)),
        reach: Reach::laplace(MAX_HORIZON),
        usual_law: Laplace,
        competes: false,
        endless: true,
        vectors: Vectors::No,
        abilities: Abilities::IN_ORDER,
        steps: Light,
        is_plain_noise: false,
        listed_open: false,
        limits: Limits::none,
        brief: endless::trees::brief,
        answers: equal,
        line: Line(Hue::Green, Dash::Mixed, Mark::Circle),
    };

    /// The same with hats inside, for Laplace noise.
    EndlessHats(digest: Option<MatrixDigest>) in endless::hats = Family {
        stem: "endless-hats",
        about: "the same with hats, for Laplace noise",
        examples: &["endless-hats"],
        open: Some(MechanismName::EndlessHats(None)),
        reach: Reach::laplace(MAX_HORIZON),
        usual_law: Laplace,
        competes: false,
        endless: true,
        vectors: Vectors::No,
        abilities: Abilities::IN_ORDER,
        steps: Heavy,
        is_plain_noise: false,
        listed_open: false,
        limits: Limits::none,
        brief: endless::hats::brief,
        answers: equal,
        line: Line(Hue::Green, Dash::Solid, Mark::Down),
    };
}
