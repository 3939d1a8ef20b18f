//! The frozen parameters of a BLT: integers, small enough to be copied.

use super::parameters::Parameters;
use crate::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// Maximum number of buffers of a BLT.
pub const MAX_BUFFERS: usize = 8;
/// Bits of the fractions `θ = Θ / 2^62` and `ω = Ω / 2^62`.
pub(in crate::mechanism) const FRACTION_BITS: u32 = 62;
/// Decays are at most `1 - 2^-44`.
const MAX_DECAY: u64 = (1 << FRACTION_BITS) - (1 << (FRACTION_BITS - 44));
/// And at least `2^-40`: far above the smallest difference of `1 - θ` from 1 in floating point.
const MIN_DECAY: u64 = 1 << (FRACTION_BITS - 40);

/// The buffers of a BLT: `c_0 = 1`, `c_j = Σ_i ω_i θ_i^(j-1)` with `θ_i = decay_i / 2^62` and `ω_i = echo_i / 2^62`,
/// longest first. Written `decay=Θ1/Θ2,echo=Ω1/Ω2`, in hexadecimal.
///
/// ```
/// use evertally::mechanism::Buffers;
/// let buffers: Buffers = "decay=3c00000000000000/2000000000000000,echo=1000000000000000/800000000000000".parse()?;
/// assert_eq!(buffers.decays()[1], 1 << 61); // 1/2
/// assert!("decay=1/2,echo=1/1".parse::<Buffers>().is_err()); // not falling
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Buffers {
    decays: [u64; MAX_BUFFERS],
    echoes: [u64; MAX_BUFFERS],
    count: u8,
}

/// The buffers in the name of a BLT: `blt`, `blt(buffers=4)` or `blt(decay=…,echo=…)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BufferChoice {
    /// An optimised choice, with as many buffers as are worth their time.
    Best,
    /// This many, optimised.
    Count(usize),
    /// The given ones.
    Given(Buffers),
}

impl BufferChoice {
    /// The number of given buffers instead of the buffers themselves.
    pub(in crate::mechanism) fn brief(self) -> Self {
        match self {
            Self::Given(buffers) => Self::Count(buffers.decays().len()),
            other => other,
        }
    }

    /// From `buffers`, or `decay` and `echo`.
    pub(in crate::mechanism) fn parse(parameters: &mut Parameters<'_>) -> Result<Self> {
        match (parameters.number("buffers")?, parameters.take("decay"), parameters.take("echo")) {
            (None, None, None) => Ok(Self::Best),
            (Some(count), None, None) => Ok(Self::Count(count)),
            (None, Some(decay), Some(echo)) => Ok(Self::Given(format!("decay={decay},echo={echo}").parse()?)),
            _ => Err(Error::invalid(format!(
                "`{}` should have the parameter `buffers`, both of `decay` and `echo`, or none of them",
                parameters.text
            ))),
        }
    }
}

impl fmt::Display for BufferChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Best => Ok(()),
            Self::Count(count) => write!(f, "(buffers={count})"),
            Self::Given(buffers) => write!(f, "({buffers})"),
        }
    }
}

impl Buffers {
    /// The given integers.
    ///
    /// # Errors
    /// Unless there are 1 to 8 of each, the decays lie between `2^22` and `2^62 - 2^18` and fall, `1 - θ` growing each
    /// time by at least one part in 2^20, the echoes are at least 1, and `Σ ω_i / θ_i < 1`: then the coefficients `c_j`
    /// are positive and fall, those of the inverse are summable, and the closed forms of both keep their digits.
    pub fn new(decays: &[u64], echoes: &[u64]) -> Result<Self> {
        let count = decays.len();
        if count == 0 || count > MAX_BUFFERS || echoes.len() != count {
            return Err(Error::invalid(format!(
                "a BLT has 1 to {MAX_BUFFERS} decays and as many echoes, got {count} and {}",
                echoes.len()
            )));
        }
        let gap = |decay: u64| (1 << FRACTION_BITS) - decay;
        let apart = |pair: &[u64]| pair[0] > pair[1] && pair[0] - pair[1] > gap(pair[1]) >> 20;
        if decays[0] > MAX_DECAY || decays[count - 1] < MIN_DECAY || !decays.windows(2).all(apart) {
            return Err(Error::invalid(
                "the decays of a BLT must lie between 2^22 and 2^62 - 2^18 and fall, with 2^62 - decay growing by one \
                 part in 2^20 at least",
            ));
        }
        // Rounded up, so that a sum below 1 is certain.
        let loudness = |(decay, echo): (&u64, &u64)| (u128::from(*echo) << 64).div_ceil(u128::from(*decay));
        let total: u128 = decays.iter().zip(echoes).map(loudness).fold(0, u128::saturating_add);
        if echoes.contains(&0) || total >= 1 << 64 {
            return Err(Error::invalid("the echoes of a BLT must be at least 1, and the sum of echo/decay below 1"));
        }
        let mut buffers = Self { decays: [0; MAX_BUFFERS], echoes: [0; MAX_BUFFERS], count: count as u8 };
        buffers.decays[..count].copy_from_slice(decays);
        buffers.echoes[..count].copy_from_slice(echoes);
        Ok(buffers)
    }

    /// `2^62 θ_i`, falling.
    pub fn decays(&self) -> &[u64] {
        &self.decays[..usize::from(self.count)]
    }

    /// `2^62 ω_i`.
    pub fn echoes(&self) -> &[u64] {
        &self.echoes[..usize::from(self.count)]
    }
}

impl fmt::Display for Buffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |numbers: &[u64]| numbers.iter().map(|x| format!("{x:x}")).collect::<Vec<_>>().join("/");
        write!(f, "decay={},echo={}", list(self.decays()), list(self.echoes()))
    }
}

impl fmt::Debug for Buffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffers({self})")
    }
}

impl FromStr for Buffers {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let malformed = || Error::invalid(format!("buffers are written decay=Θ1/Θ2,echo=Ω1/Ω2, got {text:?}"));
        let list = |part: &str, key: &str| -> Option<Vec<u64>> {
            let (name, numbers) = part.split_once('=')?;
            let number = |x: &str| u64::from_str_radix(x.trim(), 16).ok();
            (name.trim() == key).then(|| numbers.split('/').map(number).collect())?
        };
        let (decays, echoes) = text.split_once(',').ok_or_else(malformed)?;
        let (decays, echoes) = (list(decays, "decay"), list(echoes, "echo"));
        Self::new(&decays.ok_or_else(malformed)?, &echoes.ok_or_else(malformed)?)
    }
}
