//! A stream of noise of either element type.

use evertally_training::VectorNoise as Inner;

/// A stream of one element type.
pub(super) enum TypedStream {
    Single(Inner<f32>),
    Double(Inner<f64>),
}

/// Runs the same code with either type of stream.
macro_rules! either {
    ($stream:expr, $noise:ident => $result:expr) => {
        match $stream {
            TypedStream::Single($noise) => $result,
            TypedStream::Double($noise) => $result,
        }
    };
}

pub(super) use either;

impl TypedStream {
    pub(super) fn draw_ahead(&mut self) {
        either!(self, noise => noise.draw_ahead());
    }
}
