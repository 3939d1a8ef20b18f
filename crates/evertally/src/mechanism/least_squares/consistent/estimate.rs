//! The estimation with weights in floating point, for single rows.

use super::Shape;
use crate::noise::Node;

impl Shape {
    /// The weights of all measurements in the estimate of one prefix: the two passes run backwards, in floating point.
    ///
    /// Downwards the weight of a final estimate is handed on to the block's own inside estimate and to its parent's;
    /// upwards (here from the top) that of an inside estimate to the own measurement and the children's.
    pub(super) fn visit_row(&self, step: u64, visit: &mut dyn FnMut(Node, f64)) {
        let precision = |level| f64::from(self.weight_squared(level));
        let levels = self.levels();
        let mut variances: Vec<Vec<f64>> = vec![vec![1.0 / precision(0); self.horizon as usize]];
        for level in 1..levels {
            let total = |index| self.children(level, index).map(|c| variances[level - 1][c as usize]).sum::<f64>();
            let of = |index| total(index) / (1.0 + total(index) * precision(level));
            let next = (0..self.blocks[level]).map(of).collect();
            variances.push(next);
        }
        // `outer[l][i]`: weight of the final estimate of a block; `inner[l][i]`: weight of its inside estimate.
        let mut outer: Vec<f64> = (1..=self.horizon).map(|t| f64::from(u8::from(t <= step))).collect();
        let mut inner: Vec<Vec<f64>> = vec![outer.clone()];
        for level in 1..levels {
            let mut next = Vec::new();
            for index in 0..self.blocks[level] {
                let children = self.children(level, index);
                let total: f64 = children.clone().map(|c| variances[level - 1][c as usize]).sum();
                let share: f64 =
                    children.clone().map(|c| outer[c as usize] * variances[level - 1][c as usize] / total).sum();
                children.for_each(|c| inner[level - 1][c as usize] -= share);
                next.push(share);
            }
            inner.push(next.clone());
            outer = next;
        }
        for level in (0..levels).rev() {
            for index in 0..self.blocks[level] {
                let weight = inner[level][index as usize];
                let own = if level == 0 { 1.0 } else { precision(level) * variances[level][index as usize] };
                if let Some(measured) = self.weight(level) {
                    visit(Node { level: level as u32, index }, weight * own / f64::from(measured));
                }
                if level > 0 {
                    self.children(level, index).for_each(|c| inner[level - 1][c as usize] += weight * (1.0 - own));
                }
            }
        }
    }
}
