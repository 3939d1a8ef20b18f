//! Factorizations with more nodes than steps: releases are least-squares estimates from all of them, solved at once.

mod at_once;
mod consistent;
mod dense_pure;
mod hats;

pub use consistent::{Consistent, Levels};
pub use dense_pure::DensePure;
pub use hats::{HatLevels, Hats};
