//! Gaussian noise for high-dimensional vectors: plans and noise streams for machine learning.

pub(crate) mod ahead;
pub(crate) mod arguments;
pub(crate) mod array;
pub(crate) mod batches;
pub(crate) mod candidate;
pub(crate) mod device;
pub(crate) mod evidence;
pub(crate) mod guarantee;
pub(crate) mod names;
pub(crate) mod noise;
pub(crate) mod plan;
pub(crate) mod request;
pub(crate) mod rows;
mod stream;
pub(crate) mod training;
