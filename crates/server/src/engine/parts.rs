//! The parts of a stream that was extended: itself, and the streams that continue it.

use super::core::Directory;
use super::info::StreamInfo;
use super::opening::next_name;
use std::sync::Arc;

impl Directory {
    /// A stream, and the streams that continue it, in their order.
    pub(super) fn parts_of(&self, name: &str) -> Vec<Arc<StreamInfo>> {
        let mut parts: Vec<Arc<StreamInfo>> = self.find(name).into_iter().collect();
        let after = |last: &Arc<StreamInfo>| {
            let next = self.find(next_name(last).ok()?.as_str())?;
            // Not a stream that somebody has given such a name.
            let continues = next.stream.follows.as_ref().is_some_and(|follows| follows.stream == last.name());
            continues.then_some(next)
        };
        while let Some(next) = parts.last().and_then(after) {
            parts.push(next);
        }
        parts
    }

    /// A part, and those that it continues, the last one first.
    pub(super) fn parts_through(&self, part: &Arc<StreamInfo>) -> Vec<Arc<StreamInfo>> {
        let mut parts = vec![Arc::clone(part)];
        let before = |part: &Arc<StreamInfo>| self.find(&part.stream.follows.as_ref()?.stream);
        while let Some(before) = parts.last().and_then(before) {
            parts.push(before);
        }
        parts
    }

    /// The parts with the positions of the sources that are sent to a stream, the last one first.
    pub(super) fn parts_with_positions(&self, name: &str) -> Vec<Arc<StreamInfo>> {
        self.parts_of(name).last().map_or(Vec::new(), |last| self.parts_through(last))
    }
}
