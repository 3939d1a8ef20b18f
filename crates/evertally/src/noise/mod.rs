//! Keyed noise: secret keys, seekable bits, and exact discrete laws (one law a file).

mod node;

pub use node::Node;
