//! Why a picture cannot be drawn.

use std::fmt;

/// Why a picture cannot be drawn.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// There is nothing to draw: no group has a release.
    NoRelease,
    /// A time, value or bound of a group is not a finite number.
    GroupNotFinite {
        /// The group's name, cut where it is long.
        group: String,
    },
    /// The releases of a group are not in order of time.
    OutOfOrder {
        /// The group's name, cut where it is long.
        group: String,
    },
    /// The value or bound of an item is not a finite number.
    ItemNotFinite {
        /// The item's name, cut where it is long.
        item: String,
    },
    /// A picture of so many pixels is not made.
    PictureSize {
        /// Pixels to the unit that were asked for.
        scale: f32,
        /// Pixels from left to right.
        width: f32,
        /// Pixels from top to bottom.
        height: f32,
        /// The most pixels a side.
        most: f32,
    },
    /// The rasteriser does not take the picture.
    Raster {
        /// What failed.
        problem: &'static str,
        /// What it says itself.
        cause: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRelease => f.write_str("nothing to plot: no group has a release"),
            Self::GroupNotFinite { group } => {
                write!(f, "cannot plot group {group:?}: a time, value or bound is not a finite number")
            }
            Self::OutOfOrder { group } => {
                write!(f, "cannot plot group {group:?}: its releases are not in order of time")
            }
            Self::ItemNotFinite { item } => {
                write!(f, "cannot plot {item:?}: its value or bound is not a finite number")
            }
            Self::PictureSize { scale, width, height, most } => write!(
                f,
                "a scale of {scale} makes a picture of {width} by {height} pixels; from 1 to {most} a side can be made"
            ),
            Self::Raster { problem, cause } if cause.is_empty() => f.write_str(problem),
            Self::Raster { problem, cause } => write!(f, "{problem}: {cause}"),
        }
    }
}

impl std::error::Error for Error {}
