//! The registry: one row for every family of mechanisms, pointing into its folder.
//!
//! Names, searches, programs and figures read what they know of families here; nothing else lists them. How to add a row is in
//! [docs/adding-a-mechanism.md](https://github.com/evertally/evertally/blob/main/docs/adding-a-mechanism.md).

mod family;
mod name;
mod parameters;
mod table;
#[cfg(test)]
mod tests;

pub use family::{Abilities, Cost, Dash, Family, Hue, Limits, Line, Mark, Reach, Vectors};
pub use name::names_that_stream;
pub(super) use parameters::Parameters;

use super::least_squares::{consistent, dense_pure, hats};
use super::optimum::{dense, optimal};
use super::toeplitz::{banded_inverse_sqrt, banded_sqrt, blt, normalized_blt, normalized_sqrt, sqrt};
use super::tree::{binary, honaker_online, kary, path_sum, smooth, subtract};
use super::trivial::{input, output};
use super::{BufferChoice, Criterion, HatChoice, LevelChoice, Mechanism, NoiseKind, Optimum};
use crate::Result;
use Cost::{Heavy, Light};
use NoiseKind::{Gaussian, Laplace};
use family::{equal, unchanged};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use table::registry;

registry! {
    /// Noise on every input.
    Input in input = Family {
        stem: "input",
        about: "noise on every input",
        examples: &["input"],
        open: Some(MechanismName::Input),
        reach: Reach::ANY,
        usual_law: Gaussian,
        competes: true,
        vectors: Vectors::Compete,
        abilities: Abilities::IN_ORDER,
        cost: Light,
        is_plain_noise: true,
        listed_open: false,
        limits: Limits::none,
        brief: unchanged,
        answers: equal,
        line: Line(Hue::Grey, Dash::Dashed, Mark::Up),
    };

    /// Noise on every output.
    Output in output = Family {
        stem: "output",
        about: "noise on every output",
        examples: &["output"],
        open: Some(MechanismName::Output),
        reach: Reach::ANY,
        usual_law: Gaussian,
        competes: true,
        vectors: Vectors::Compete,
        abilities: Abilities::EVERY_STEP,
        cost: Light,
        is_plain_noise: true,
        listed_open: false,
        limits: Limits::none,
        brief: unchanged,
        answers: equal,
        line: Line(Hue::Grey, Dash::Mixed, Mark::Down),
    };

    /// Binary tree, left children only.
    Binary in binary = Family {
        stem: "binary",
        about: "binary tree, left children only",
        examples: &["binary"],
        open: Some(MechanismName::Binary),
        reach: Reach::ANY,
        usual_law: Gaussian,
        competes: true,
        vectors: Vectors::Compete,
        abilities: Abilities::EVERY_STEP,
        cost: Light,
        is_plain_noise: false,
        listed_open: false,
        limits: binary::limits,
        brief: unchanged,
        answers: equal,
        line: Line(Hue::Black, Dash::Solid, Mark::Square),
    };

    /// Binary tree with estimation from below.
    HonakerOnline in honaker_online = Family {
        stem: "honaker-online",
        about: "binary tree with estimation from below",
        examples: &["honaker-online"],
        open: Some(MechanismName::HonakerOnline),
        reach: Reach::ANY,
        usual_law: Gaussian,
        competes: true,
        vectors: Vectors::Compete,
        abilities: Abilities::IN_ORDER,
        cost: Light,
        is_plain_noise: false,
        listed_open: false,
        limits: honaker_online::limits,
        brief: unchanged,
        answers: equal,
        line: Line(Hue::Black, Dash::Dashed, Mark::Diamond),
    };

    /// k-ary tree, additions only; `None` = best arity from 2 to 64.
    Kary(arity: Option<u64>) in kary = Family {
        stem: "kary",
        about: "k-ary tree, additions only",
        examples: &["kary(k=5)"],
        open: Some(MechanismName::Kary(None)),
        reach: Reach::ANY,
        usual_law: Gaussian,
        competes: true,
        vectors: Vectors::Compete,
        abilities: Abilities::EVERY_STEP,
        cost: Light,
        is_plain_noise: false,
        listed_open: false,
        limits: kary::limits,
        brief: unchanged,
        answers: equal,
        line: Line(Hue::Sky, Dash::Solid, Mark::Up),
    };

    /// k-ary tree with subtraction; `None` = best arity from 3 to 64.
    Subtract(arity: Option<u64>) in subtract = Family {
        stem: "subtract",
        about: "k-ary tree with subtraction",
        examples: &["subtract(k=19)"],
        open: Some(MechanismName::Subtract(None)),
        reach: Reach::ANY,
        usual_law: Gaussian,
        competes: true,
        vectors: Vectors::Compete,
        abilities: Abilities::EVERY_STEP,
        cost: Light,
        is_plain_noise: false,
        listed_open: false,
        limits: subtract::limits,
        brief: unchanged,
        answers: equal,
        line: Line(Hue::Sky, Dash::Dashed, Mark::Down),
    };

    /// Smooth binary tree, (height, zeros); `None` = best shape.
    Smooth(shape: Option<(u32, u32)>) in smooth = Family {
        stem: "smooth",
        about: "binary tree in which all steps have one error",
        examples: &["smooth", "smooth(h=6,zeros=3)"],
        open: Some(MechanismName::Smooth(None)),
        reach: Reach::ANY,
        usual_law: Gaussian,
        competes: true,
        vectors: Vectors::Compete,
        abilities: Abilities { exact_accounting: true, ..Abilities::EVERY_STEP },
        cost: Light,
        is_plain_noise: false,
        listed_open: true,
        limits: smooth::limits,
        brief: unchanged,
        answers: equal,
        line: Line(Hue::Blue, Dash::Solid, Mark::Circle),
    };

    /// Consistent tree: arity, or the best; level weights, or the best.
    Consistent(arity: Option<u64>, levels: LevelChoice) in consistent = Family {
        stem: "consistent",
        about: "k-ary tree, every prefix estimated from all blocks",
        examples: &["consistent", "consistent(k=12)"],
        open: Some(MechanismName::Consistent(None, LevelChoice::Best)),
        reach: Reach { laplace: Some(1 << 14), gaussian: Some(1 << 12) }, // for Gaussian noise others are far better
        usual_law: Laplace,
        competes: true,
        vectors: Vectors::No,
        abilities: Abilities::IN_ORDER,
        cost: Heavy,
        is_plain_noise: false,
        listed_open: false,
        limits: Limits::none,
        brief: unchanged,
        answers: equal,
        line: Line(Hue::Green, Dash::Solid, Mark::Diamond),
    };

    /// Path sums of a binary tree: level weights, or the best.
    PathSum(levels: LevelChoice) in path_sum = Family {
        stem: "path-sum",
        about: "binary tree, a release sums the path to its leaf",
        examples: &["path-sum"],
        open: Some(MechanismName::PathSum(LevelChoice::Best)),
        reach: Reach::ANY_GAUSSIAN,
        usual_law: Gaussian,
        competes: true,
        vectors: Vectors::Compete,
        abilities: Abilities { exact_accounting: true, ..Abilities::EVERY_STEP },
        cost: Light,
        is_plain_noise: false,
        listed_open: true,
        limits: Limits::none,
        brief: path_sum::brief,
        answers: equal,
        line: Line(Hue::Blue, Dash::Mixed, Mark::Square),
    };

    /// Single steps and overlapping hats.
    Hats(choice: HatChoice) in hats = Family {
        stem: "hats",
        about: "single steps and overlapping hats, estimated from all",
        examples: &["hats", "hats(spacing=12/150)"],
        open: Some(MechanismName::Hats(HatChoice::Best)),
        reach: Reach::laplace(1 << 22),
        usual_law: Laplace,
        competes: true,
        vectors: Vectors::No,
        abilities: Abilities::IN_ORDER,
        cost: Heavy,
        is_plain_noise: false,
        listed_open: false,
        limits: Limits::none,
        brief: hats::brief,
        answers: equal,
        line: Line(Hue::Green, Dash::Dashed, Mark::Up),
    };

    /// Square root of the prefix-sum matrix.
    Sqrt in sqrt = Family {
        stem: "sqrt",
        about: "square root of the prefix-sum matrix",
        examples: &["sqrt"],
        open: Some(MechanismName::Sqrt),
        reach: Reach::gaussian(1 << 20),
        usual_law: Gaussian,
        competes: true,
        vectors: Vectors::Compete,
        abilities: Abilities::IN_ORDER,
        cost: Heavy,
        is_plain_noise: false,
        listed_open: false,
        limits: sqrt::limits,
        brief: unchanged,
        answers: equal,
        line: Line(Hue::Vermilion, Dash::Dashed, Mark::Down),
    };

    /// The same with columns of one length.
    NormalizedSqrt in normalized_sqrt = Family {
        stem: "normalized-sqrt",
        about: "square root with columns of one length",
        examples: &["normalized-sqrt"],
        open: Some(MechanismName::NormalizedSqrt),
        reach: Reach::gaussian(1 << 14),
        usual_law: Gaussian,
        competes: true,
        vectors: Vectors::Compete,
        abilities: Abilities::IN_ORDER,
        cost: Heavy,
        is_plain_noise: false,
        listed_open: false,
        limits: sqrt::limits,
        brief: unchanged,
        answers: equal,
        line: Line(Hue::Vermilion, Dash::Solid, Mark::Square),
    };

    /// The first so many diagonals of the square root.
    BandedSqrt(bands: u64) in banded_sqrt = Family {
        stem: "banded-sqrt",
        about: "first diagonals of the square root",
        examples: &["banded-sqrt(bands=8)"],
        open: None,
        reach: Reach::gaussian(1 << 14),
        usual_law: Gaussian,
        competes: false,
        vectors: Vectors::Named,
        abilities: Abilities::IN_ORDER,
        cost: Heavy,
        is_plain_noise: false,
        listed_open: false,
        limits: Limits::none,
        brief: unchanged,
        answers: equal,
        line: Line(Hue::Green, Dash::Mixed, Mark::Down),
    };

    /// The inverse of the first so many diagonals of the inverse square root.
    BandedInverseSqrt(bands: u64) in banded_inverse_sqrt = Family {
        stem: "banded-inverse-sqrt",
        about: "inverse of the first diagonals of the inverse square root",
        examples: &["banded-inverse-sqrt(bands=8)"],
        open: None,
        reach: Reach::gaussian(1 << 14),
        usual_law: Gaussian,
        competes: false,
        vectors: Vectors::CompeteAs(banded_inverse_sqrt::competitors),
        abilities: Abilities::IN_ORDER,
        cost: Heavy,
        is_plain_noise: false,
        listed_open: false,
        limits: Limits::none,
        brief: unchanged,
        answers: equal,
        line: Line(Hue::Orange, Dash::Mixed, Mark::Down),
    };

    /// Buffered linear Toeplitz matrix.
    Blt(choice: BufferChoice) in blt = Family {
        stem: "blt",
        about: "buffered linear Toeplitz matrix",
        examples: &["blt", "blt(buffers=4)"],
        open: Some(MechanismName::Blt(BufferChoice::Best)),
        reach: Reach::ANY_GAUSSIAN,
        usual_law: Gaussian,
        competes: true,
        vectors: Vectors::Compete,
        abilities: Abilities { lazy: true, ..Abilities::IN_ORDER },
        cost: Light,
        is_plain_noise: false,
        listed_open: false,
        limits: Limits::none,
        brief: blt::brief,
        answers: equal,
        line: Line(Hue::Purple, Dash::Dashed, Mark::Diamond),
    };

    /// The same with columns of one length.
    NormalizedBlt(choice: BufferChoice) in normalized_blt = Family {
        stem: "normalized-blt",
        about: "buffered linear Toeplitz matrix with columns of one length",
        examples: &["normalized-blt"],
        open: Some(MechanismName::NormalizedBlt(BufferChoice::Best)),
        reach: Reach::ANY_GAUSSIAN,
        usual_law: Gaussian,
        competes: true,
        vectors: Vectors::Compete,
        abilities: Abilities { lazy: true, ..Abilities::IN_ORDER },
        cost: Light,
        is_plain_noise: false,
        listed_open: false,
        limits: Limits::none,
        brief: normalized_blt::brief,
        answers: equal,
        line: Line(Hue::Purple, Dash::Solid, Mark::Circle),
    };

    /// The optimum for Gaussian noise.
    Dense(optimum: Optimum) in dense = Family {
        stem: "dense",
        about: "the optimum of all, as a matrix",
        examples: &["dense"],
        open: Some(MechanismName::Dense(Optimum::OPEN)),
        reach: Reach::gaussian(1 << 11),
        usual_law: Gaussian,
        competes: true,
        vectors: Vectors::No,
        abilities: Abilities::IN_ORDER,
        cost: Heavy,
        is_plain_noise: false,
        listed_open: false,
        limits: Limits::none,
        brief: dense::brief,
        answers: dense::answers,
        line: Line(Hue::Orange, Dash::Solid, Mark::Up),
    };

    /// A filter close to the optimum for Gaussian noise: its number of states, or a good one.
    Optimal(states: Option<usize>, optimum: Optimum) in optimal = Family {
        stem: "optimal",
        about: "filter with few states, close to the optimum",
        examples: &["optimal", "optimal(states=8)"],
        open: Some(MechanismName::Optimal(None, Optimum::OPEN)),
        reach: Reach::gaussian(1 << 17),
        usual_law: Gaussian,
        competes: true,
        vectors: Vectors::No,
        abilities: Abilities::IN_ORDER,
        cost: Heavy,
        is_plain_noise: false,
        listed_open: false,
        limits: Limits::none,
        brief: optimal::brief,
        answers: equal,
        line: Line(Hue::Orange, Dash::Mixed, Mark::Square),
    };

    /// The best that a numeric search finds for Laplace noise.
    DensePure(optimum: Optimum) in dense_pure = Family {
        stem: "dense-pure",
        about: "the best that a numeric search finds",
        examples: &["dense-pure"],
        open: Some(MechanismName::DensePure(Optimum::OPEN)),
        reach: Reach::laplace(1 << 6),
        usual_law: Laplace,
        competes: false,
        vectors: Vectors::No,
        abilities: Abilities::IN_ORDER,
        cost: Heavy,
        is_plain_noise: false,
        listed_open: false,
        limits: Limits::none,
        brief: dense_pure::brief,
        answers: dense_pure::answers,
        line: Line(Hue::Orange, Dash::Dashed, Mark::Circle),
    };
}
