//! The sharpness of sampling in the name of `epoch-bands`.

/// How much faster than proportionally the cost of an epoch grows with its weight, in hundredths: 0 without sampling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sharpness(pub(in crate::mechanism) u16);

impl Sharpness {
    /// The nearest representable sharpness.
    pub fn near(sharpness: f64) -> Self {
        // Casts saturate.
        Self((sharpness * 100.0).round().min(1e4) as u16)
    }

    /// As a number.
    pub fn get(self) -> f64 {
        f64::from(self.0) / 100.0
    }
}
