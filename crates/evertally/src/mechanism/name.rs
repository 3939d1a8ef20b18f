//! Names of mechanisms, and the parameters in them.
//!
//! What a family can do, and how its names are read and written, is in the [registry](super::registry).

pub(super) mod buffers;
pub(super) mod endless;
pub(super) mod exponent;
pub(super) mod hat_levels;
pub(super) mod levels;
pub(super) mod nested_levels;
pub(super) mod optimum;
pub(super) mod parameters;
pub(super) mod rolling_levels;
pub(super) mod rows;
pub(super) mod shape;
pub(super) mod sharpness;

use super::accounting::Participation;
use buffers::BufferChoice;
use endless::EndlessChoice;
use exponent::Exponent;
use hat_levels::HatChoice;
use levels::LevelChoice;
use nested_levels::NestedLevels;
use optimum::{MatrixDigest, Optimum};
use rolling_levels::RollingLevels;
use rows::mechanism_rows;
use serde::{Deserialize, Serialize};
use shape::ShapeChoice;
use sharpness::Sharpness;

macro_rules! names {
    ($(
        $(#[$doc:meta])*
        $variant:ident $( ( $($field:ident : $type:ty),+ ) )? in $($folder:ident)::+ = $row:expr;
    )+) => {
        /// A mechanism as a user names it; omitted parameters are chosen when it is built for a horizon.
        ///
        /// ```
        /// use evertally::mechanism::{Criterion, MechanismName, NoiseKind, Objective};
        /// let name: MechanismName = "subtract(k=19)".parse()?;
        /// let mechanism = name.build(1000, &Criterion::new(NoiseKind::Gaussian, Objective::Max))?;
        /// assert_eq!(mechanism.column_norms().l2_squared, 3.0);
        /// assert_eq!(mechanism.max_row_norm_squared(), 21.0);
        /// # Ok::<(), evertally::Error>(())
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        #[non_exhaustive]
        pub enum MechanismName {
            $( $(#[$doc])* $variant $( ( $($type),+ ) )?, )+
        }
    };
}
mechanism_rows!(names);
