//! The bridge of discrete Laplace noise: differences of negative binomial processes.

use super::Bridge;
use crate::noise::{NegativeBinomial, Polya, RandomBits};
use crate::number::Ratio;
use crate::{Error, Result};

/// Discrete Laplace noise of scale s for every unit of length of a path, summed along it.
///
/// A discrete Laplace number is the difference of two independent [geometric](crate::noise::Geometric) ones of the same
/// scale: these have the generating functions (1 − q)/(1 − qz) and (1 − q)/(1 − q/z), and (1 − q)²/((1 − qz)(1 −
/// q/z)) = (1 − q)/(1 + q) · Σ q^|x| z^x. A value is the pair (G⁺, G⁻) of the sums of either kind. Beyond the last
/// known point each grows by a [`NegativeBinomial`] number whose shape is the length; the growth between two known
/// points is divided by the [`Polya`] law, whose shapes are the two distances.
///
/// ```
/// use evertally::noise::bridge::{Bridge, PolyaBridge};
/// use evertally::noise::{KeyedNoise, Node, Purpose, SecretKey};
/// use evertally::number::Ratio;
///
/// let bridge = PolyaBridge::new(Ratio::new(1000, 1)?)?;
/// let noise = KeyedNoise::unrecorded(&SecretKey::generate()?, &"visits".parse()?, &[0; 32], Purpose::Total);
/// let mut bits = noise.bits(Node { level: 0, index: 0 });
/// let end = bridge.extend(PolyaBridge::ORIGIN, 10, &mut bits);
/// let third = bridge.split(PolyaBridge::ORIGIN, end, 3, 7, &mut bits);
/// assert!(third[0] <= end[0] && third[1] <= end[1]);
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolyaBridge {
    scale: Ratio,
}

impl PolyaBridge {
    /// The greatest scale: 2⁵⁰, so that sums are below 2¹¹⁸ on all lengths, except with probability below exp(−1000).
    pub const MAX_SCALE: u128 = 1 << 50;

    /// Noise of this scale per unit of length.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the scale is above 2⁵⁰.
    ///
    /// ```
    /// # use evertally::noise::bridge::PolyaBridge;
    /// # use evertally::number::Ratio;
    /// assert!(PolyaBridge::new(Ratio::new(1 << 51, 1)?).is_err());
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn new(scale: Ratio) -> Result<Self> {
        if scale > Ratio::new(Self::MAX_SCALE, 1)? {
            return Err(Error::invalid(format!("the scale of a bridge may be at most 2^50, got {scale}")));
        }
        Ok(Self { scale })
    }

    /// The scale s of one unit of length.
    ///
    /// ```
    /// # use evertally::noise::bridge::PolyaBridge;
    /// # use evertally::number::Ratio;
    /// assert_eq!(PolyaBridge::new(Ratio::new(5, 2)?)?.scale(), Ratio::new(5, 2)?);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn scale(&self) -> Ratio {
        self.scale
    }
}

impl Bridge for PolyaBridge {
    const EXACT: bool = true;

    /// G⁺ and G⁻.
    type Value = [u128; 2];

    const ORIGIN: Self::Value = [0; 2];

    #[inline]
    fn extend(&self, from: Self::Value, length: u64, bits: &mut impl RandomBits) -> Self::Value {
        let law = NegativeBinomial::from_parts(length, self.scale);
        from.map(|sum| sum + law.sample(bits))
    }

    #[inline]
    fn split(
        &self,
        from: Self::Value,
        to: Self::Value,
        near: u64,
        far: u64,
        bits: &mut impl RandomBits,
    ) -> Self::Value {
        std::array::from_fn(|i| from[i] + Polya::from_parts(to[i] - from[i], near, far).sample(bits))
    }

    /// G⁺ − G⁻, in noise steps.
    #[inline]
    fn noise(&self, [up, down]: Self::Value) -> i128 {
        // Sums are below 2^127.
        up as i128 - down as i128
    }
}
