//! Keyed noise: secret keys, seekable bits, and exact discrete distributions (*laws*), one per file.
//!
//! A noise variable is a **pure function** of a [`SecretKey`], a [`StreamName`], the digest of a plan, a [`Purpose`]
//! and a [`Node`]. Drawing it twice gives the same value, nothing is stored, and any worker can compute any variable.
//!
//! ```text
//! SecretKey ─┐
//! StreamName ├─ BLAKE3 keyed hash ─▶ subkey ─┐
//! plan digest│                               ├─ ChaCha20 ─▶ NodeBits ─▶ law ─▶ i128
//! Purpose ───┘                         Node ─┘
//! ```
//!
//! The laws are exact: the probability of every outcome is the stated one, without rounding (see [`DiscreteLaplace`]
//! and [`DiscreteGaussian`] for the algorithms and their proofs). The laws of counts, [`Poisson`], [`Binomial`],
//! [`NegativeBinomial`] and [`Polya`], decide by floating-point bounds if these are certain, and by big integers
//! otherwise; the other laws use no floating-point numbers.
//!
//! ```
//! use evertally::noise::{DiscreteGaussian, KeyedNoise, Node, Purpose, SecretKey, StreamName};
//! use evertally::number::Ratio;
//!
//! # fn main() -> evertally::Result<()> {
//! let key = SecretKey::generate()?;
//! let name: StreamName = "visits 2026".parse()?;
//! let noise = KeyedNoise::unrecorded(&key, &name, &[7; 32], Purpose::Total);
//! let law = DiscreteGaussian::new(Ratio::new(200, 1)?)?;
//! let node = Node { level: 0, index: 42 };
//! let once = law.sample(&mut noise.bits(node));
//! let again = law.sample(&mut noise.bits(node));
//! assert_eq!(once, again);
//! # Ok(())
//! # }
//! ```

#![cfg_attr(not(test), deny(clippy::cast_precision_loss, clippy::float_arithmetic))] // none between data and noise

mod ahead;
mod bernoulli;
#[expect(clippy::cast_precision_loss, clippy::float_arithmetic, reason = "bounds of acceptance; whole numbers decide")]
mod binomial;
mod bits;
pub mod bridge;
mod chacha;
mod derive;
#[expect(clippy::float_arithmetic, reason = "the variance, for plans")]
mod gaussian;
mod geometric;
#[expect(clippy::cast_precision_loss, clippy::float_arithmetic, reason = "bounds of acceptance; whole numbers decide")]
mod hat;
mod key;
mod keyed;
#[expect(clippy::float_arithmetic, reason = "the variance, for plans")]
mod laplace;
mod law;
mod lazy;
mod name;
#[expect(clippy::cast_precision_loss, clippy::float_arithmetic, reason = "bounds of acceptance; whole numbers decide")]
mod negative_binomial;
mod node;
#[expect(clippy::cast_precision_loss, clippy::float_arithmetic, reason = "noise in doubles, then rounded to units")]
mod normal;
#[expect(clippy::cast_precision_loss, clippy::float_arithmetic, reason = "bounds of acceptance; whole numbers decide")]
mod poisson;
#[expect(clippy::cast_precision_loss, clippy::float_arithmetic, reason = "bounds of acceptance; whole numbers decide")]
mod polya;
mod real;
mod record;
mod step_record;
#[expect(clippy::cast_precision_loss, clippy::float_arithmetic, reason = "bounds of acceptance; whole numbers decide")]
mod stirling;
mod uniform;
mod units;

#[cfg(test)]
mod tests;

pub(crate) use ahead::NodeDrawCache;
pub use bernoulli::BernoulliExp;
pub use binomial::Binomial;
pub use bits::{RandomBits, ScriptedBits};
pub use evertally_kernels::FloatSlice;
pub use gaussian::DiscreteGaussian;
pub use geometric::Geometric;
pub use key::{KeyId, SecretKey, TestSeed};
pub(crate) use keyed::GroupNoise;
pub use keyed::{KeyedNoise, NodeBits, Purpose, mac_key, subkey};
pub use laplace::DiscreteLaplace;
pub use law::DiscreteLaw;
pub use name::{StreamName, check_name};
pub use negative_binomial::NegativeBinomial;
pub use node::Node;
pub(crate) use normal::standard_exponential;
pub use normal::standard_normal;
pub use poisson::Poisson;
pub use polya::Polya;
pub use record::{ALL, GuardedKey, NoiseClaim, NoiseRecord};
pub use step_record::{StepClaim, StepData, StepGuard, StepRecord};
pub use uniform::uniform_below;
pub(crate) use units::{FRACTION_BITS, rounded, whole_units};
