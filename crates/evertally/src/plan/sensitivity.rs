//! How far a unit moves the nodes of a mechanism.

use crate::mechanism::{Mechanism, units};
use crate::privacy::Sensitivity;

impl Sensitivity {
    /// The largest distance that a unit's change moves the node sums of a mechanism, over all running sums: the squared
    /// L2 norm in squared units of `2^-noise_bits`. Infinite if that does not fit 128 bits, or if a mechanism has no
    /// integral node sums.
    ///
    /// ```
    /// use evertally::mechanism::Input;
    /// use evertally::privacy::{Neighbours, Sensitivity, Unit, Values};
    /// // Three events in each of two groups.
    /// let unit = Unit::person(6).per_group(3);
    /// let moved = Sensitivity::new(unit, Neighbours::AddRemove, Values::Count, 100)?;
    /// assert_eq!(moved.squared(&Input::new(100)?), 18.0);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn squared(&self, mechanism: &dyn Mechanism) -> f64 {
        match units::squared(mechanism, self.spread) {
            u128::MAX => f64::INFINITY,
            squared => self.event_squared as f64 * squared as f64,
        }
    }
}
