//! Axes: from numbers to places, where their ticks stand and what they say.

mod spaced;
pub(crate) mod time;
mod value;

pub use spaced::{Axis, Spacing};
pub use time::TimeLabels;
pub use value::ValueAxis;
pub(crate) use value::with_air;
