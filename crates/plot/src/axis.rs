//! Axes: they map numbers to positions, and place and label ticks.

mod spaced;
pub(crate) mod time;
mod value;

pub use spaced::{Axis, Spacing};
pub use time::TimeLabels;
pub use value::ValueAxis;
pub(crate) use value::with_padding;
