//! Trees over the steps: every block of a tree is a node, and a release is a signed or weighted sum of a few blocks.

mod digit_tree;
mod digits;
mod honaker_online;
mod path_sum;
mod smooth;

pub use digit_tree::DigitTree;
pub use honaker_online::HonakerOnline;
pub use path_sum::PathSum;
pub use smooth::Smooth;
