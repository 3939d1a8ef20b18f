//! The record of earlier runs of a stream, so that its declaration continues under the plan with which it began.

use crate::follows::Follows;
use crate::groups::Joined;
use evertally::noise::StreamName;

/// The record of earlier runs under one key.
pub trait Records {
    /// The text of the plan with which a stream began; `None` for an unknown name.
    fn plan_text(&self, name: &StreamName) -> Option<&str>;

    /// The groups that joined a stream since, in order.
    fn joined(&self, name: &StreamName) -> &[Joined];

    /// The stream whose rows this one continues, if any.
    fn follows(&self, name: &StreamName) -> Option<&Follows>;

    /// The last published step; 0 if there is none.
    fn last_published(&self, name: &StreamName) -> u64;
}
