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
