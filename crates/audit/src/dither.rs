//! Randomness for the audit itself.

/// Standard normal numbers for the audit itself (SplitMix64 and the polar transform): they must be independent of the
/// releases, not secret.
pub(crate) struct Dither(pub(crate) u64);

impl Dither {
    pub(crate) fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) >> 11) as f64 * libm::exp2(-53.0)
    }

    pub(crate) fn next(&mut self) -> f64 {
        let radius = (-2.0 * libm::log(1.0 - self.uniform())).sqrt();
        radius * libm::cos(2.0 * std::f64::consts::PI * self.uniform())
    }
}
