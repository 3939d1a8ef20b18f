//! Factorizations with more nodes than steps: releases are least-squares estimates from all of them, solved at once.

mod at_once;
mod consistent;
mod dense_pure;
mod hats;

pub use consistent::{ConsistentTree, Levels};
pub use dense_pure::PureOptimum;
pub use hats::{HatLevels, Hats};
