//! Common code of all families whose releases are least-squares estimates from all measurements.

/// The methods of a [`Mechanism`](crate::mechanism::Mechanism) with `L = A R⁺`, whose field `shape` solves all releases
/// [at once](super::at_once), and whose field `row_norms` is a table of `‖L_t‖²`.
macro_rules! solved_at_once {
    () => {
        /// `L = A R⁺`, so that `C⁻¹ = A⁻ᵀ RᵀR A⁻¹` and `a_iᵀ C⁻¹ a_i` is the column norm: exact accounting gains
        /// nothing.
        fn exact_l2_squared(&self) -> Option<f64> {
            Some(self.column_norms().l2_squared)
        }

        crate::mechanism::accounting::row_norms::row_norms_of_table!();

        fn fraction_bits(&self) -> u32 {
            crate::mechanism::rounding::FRACTION_BITS
        }

        fn cursor(&self) -> Box<dyn Cursor> {
            Box::new($crate::mechanism::least_squares::at_once::AtOnce::new(self.shape.clone()))
        }
    };
}
pub(super) use solved_at_once;
