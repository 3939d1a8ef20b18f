//! Factorizations with more nodes than steps: releases are least-squares estimates from all of them.

mod at_once;
pub(super) mod consistent;
pub(super) mod dense_pure;
mod frame;
pub(super) mod hats;
pub(super) mod nested_hats;
pub(super) mod rolling_hats;

pub use consistent::Consistent;
pub use dense_pure::DensePure;
pub use hats::Hats;
pub use nested_hats::NestedHats;
pub use rolling_hats::RollingHats;

#[cfg(test)]
mod test_noise {
    use crate::noise::Node;

    /// A value for every node, up to 2^bits in size.
    pub(super) fn of_node(node: Node, bits: u32) -> i128 {
        let mix = |x: u64| (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = mix(mix((node.index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (u64::from(node.level) << 40)));
        let wide = i128::from(x as i64) << 64 | i128::from(mix(x));
        wide >> (127 - bits)
    }
}
