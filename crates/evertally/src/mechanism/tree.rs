//! Trees over the steps: every block of a tree is a node, and a release is a signed or weighted sum of a few blocks.

mod arity;
pub(in crate::mechanism) mod binary;
mod digit_tree;
mod digits;
pub(in crate::mechanism) mod honaker_online;
pub(in crate::mechanism) mod kary;
pub(in crate::mechanism) mod path_sum;
pub(in crate::mechanism) mod smooth;
pub(in crate::mechanism) mod subtract;

pub use digit_tree::DigitTree;
pub use honaker_online::HonakerOnline;
pub use path_sum::PathSum;
pub use smooth::Smooth;
