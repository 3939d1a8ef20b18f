//! Errors that prevent a picture.

use std::fmt;

/// An error that prevents a picture.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PlotError {
    /// There is nothing to draw: no group has a release.
    NoRelease,
    /// A time, value or bound of a group is not a finite number.
    GroupNotFinite {
        /// The group's name, truncated if it is long.
        group: String,
    },
    /// The releases of a group are not in order of time.
    OutOfOrder {
        /// The group's name, truncated if it is long.
        group: String,
    },
    /// The value or bound of an item is not a finite number.
    ItemNotFinite {
        /// The item's name, truncated if it is long.
        item: String,
    },
    /// A picture of this size is not supported.
    PictureSize {
        /// The requested number of pixels per unit.
        scale: f32,
        /// Pixels from left to right.
        width: f32,
        /// Pixels from top to bottom.
        height: f32,
        /// The maximum number of pixels per side.
        most: f32,
    },
    /// The rasteriser refuses the picture.
    Raster {
        /// The failed operation.
        problem: &'static str,
        /// The rasteriser's own message.
        cause: String,
    },
}

impl fmt::Display for PlotError {
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
                "a scale of {scale} makes a picture of {width} by {height} pixels; each side must have 1 to {most} \
                 pixels"
            ),
            Self::Raster { problem, cause } if cause.is_empty() => f.write_str(problem),
            Self::Raster { problem, cause } => write!(f, "{problem}: {cause}"),
        }
    }
}

impl std::error::Error for PlotError {}
