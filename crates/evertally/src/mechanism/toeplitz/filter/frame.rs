//! Common code of all families whose releases filter one node per step.

/// The methods of a [`Mechanism`](crate::mechanism::Mechanism) with a square `L`: node `t` is read from step `t` on,
/// and sums all steps up to it. Its L1 norms grow, so it supports only Gaussian noise.
macro_rules! filters_one_node_a_step {
    () => {
        /// `L` is square: the releases reveal as much as the nodes.
        fn exact_l2_squared(&self) -> Option<f64> {
            Some(self.column_norms().l2_squared)
        }

        fn is_causal(&self) -> bool {
            true
        }

        fn laplace(&self) -> std::result::Result<$crate::mechanism::LaplaceShift, &'static str> {
            Err($crate::mechanism::GROWING_L1)
        }

        /// Under Gaussian noise, the only supported one, the number of terms does not matter.
        fn row_law(&self, step: u64) -> $crate::mechanism::RowLaw {
            let norm_squared = self.row_norm_squared(step) * self.row_growth();
            $crate::mechanism::RowLaw::Like { norm_squared, terms: 1 }
        }

        fn node_span(&self, node: Node) -> (u64, u64) {
            (1, node.index + 1)
        }

        fn fraction_bits(&self) -> u32 {
            $crate::mechanism::rounding::FRACTION_BITS
        }
    };
}
pub(in crate::mechanism) use filters_one_node_a_step;
