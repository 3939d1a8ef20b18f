//! The paths of the smooth binary mechanism: one stretch per one bit of a step's leaf number.

use crate::mechanism::tree::smooth::combinations::Binomials;
use crate::mechanism::walk::Walk;
use crate::noise::Node;

/// See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct LeafWalk {
    pub(super) height: u32,
    pub(super) ones: u32,
    pub(super) binomials: Binomials,
}

impl LeafWalk {
    fn leaf(&self, step: u64) -> u128 {
        let mut leaf = 0;
        self.binomials.unrank(step, self.height, self.ones, |position, _, _| leaf |= 1 << position);
        leaf
    }
}

impl Walk for LeafWalk {
    fn visit(&self, step: u64, visit: &mut dyn FnMut(Node, f64)) {
        self.binomials.unrank(step, self.height, self.ones, |level, _, index| visit(Node { level, index }, 1.0));
    }

    fn depth(&self, _step: u64) -> u32 {
        self.ones
    }

    /// The one bits above the highest bit that differs. `O(h)`.
    fn shared(&self, earlier: u64, later: u64) -> u32 {
        let (a, b) = (self.leaf(earlier), self.leaf(later));
        let highest = (a ^ b).ilog2(); // two steps have two leaves
        (a >> highest >> 1).count_ones()
    }
}
