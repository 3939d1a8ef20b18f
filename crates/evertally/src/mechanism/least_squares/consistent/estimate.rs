//! The estimation with weights in floating point, for single rows.

use super::ConsistentShape;
use crate::noise::Node;

impl ConsistentShape {
    /// The two passes in floating point, for any values of nodes. `O(T)`.
    pub(super) fn path(&self, draw: &mut dyn FnMut(Node) -> f64) -> Vec<f64> {
        let precision = |level| f64::from(self.weight_squared(level));
        let mut measured = |level: usize| -> Vec<f64> {
            let weight = self.weight(level).map(f64::from);
            let of = |index| weight.map_or(0.0, |weight| draw(Node { level: level as u32, index }) / weight);
            (0..self.blocks[level]).map(of).collect()
        };
        // For every level: the inside estimates of its blocks, their variance, and the sums over the children.
        let first = measured(0);
        let mut levels = vec![(first.clone(), vec![1.0 / precision(0); first.len()], first)];
        for level in 1..self.levels() {
            let (inside, variances, _) = &levels[level - 1];
            let over = |values: &[f64], index| -> f64 { self.children(level, index).map(|c| values[c as usize]).sum() };
            let sums: Vec<f64> = (0..self.blocks[level]).map(|index| over(inside, index)).collect();
            let of = |total: f64| total / (1.0 + total * precision(level));
            let variances: Vec<f64> = (0..self.blocks[level]).map(|index| of(over(variances, index))).collect();
            let own = measured(level).into_iter().zip(&sums).zip(&variances);
            let known = own.map(|((own, sum), variance)| sum + (own - sum) * variance * precision(level)).collect();
            levels.push((known, variances, sums));
        }
        for level in (1..self.levels()).rev() {
            let (below, above) = levels.split_at_mut(level);
            let ((totals, _, sums), (inside, variances, _)) = (&above[0], &mut below[level - 1]);
            for (index, (total, sum)) in (0..).zip(totals.iter().zip(sums)) {
                let children = self.children(level, index);
                let all: f64 = children.clone().map(|c| variances[c as usize]).sum();
                children.for_each(|c| inside[c as usize] += (total - sum) * variances[c as usize] / all);
            }
        }
        let mut noise = 0.0;
        levels[0]
            .0
            .iter()
            .map(|leaf| {
                noise += leaf;
                noise
            })
            .collect()
    }

    /// The weights of all measurements in the estimate of one prefix: the two passes run backwards, in floating point.
    ///
    /// Downwards the weight of a final estimate passes to the block's own inside estimate and to its parent's; upwards
    /// (here from the top) that of an inside estimate passes to the own measurement and the children's.
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
