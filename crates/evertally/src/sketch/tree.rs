//! Trees over keys, and the fewest nodes whose sum is a range of keys.
//!
//! A node of level `l` is a block of `b^l` keys; the root is the whole space (cut where the bits do not divide evenly).
//! The number of keys in a range is a sum of nodes with signs: a block minus two of its parts may need fewer nodes than
//! the other parts. Each node has independent noise, so with equal noise the fewest nodes have the smallest variance.
//!
//! **Fewest nodes.** Let a node inherit the sum `c` ∈ {0, 1} of the weights of its ancestors. A node inside the range
//! must end with 1 and one outside with 0: that takes one node with a sign if `c` is wrong, and nothing below. A node
//! that is cut by an end of the range may change `c` at the cost of one node, and its children inherit the result. So
//! the minimum numbers for both `c` follow from those of the children, and only the nodes on the paths to both ends are
//! cut. (Sums other than 0 and 1 need a change on every path below, inside and outside: they are never better.)
//!
//! **Which branching.** An event is in one node of each of `levels` levels, which multiplies the variance of Gaussian
//! noise by `levels`, and that of Laplace noise by `levels²`. A range has two ends, each with the nodes of a prefix. So
//! the chosen branching minimizes `levels^p · (mean number of nodes of a prefix)`; the mean over all keys is computed
//! exactly.

use crate::noise::Node;
use crate::number::power;
use crate::plan::NoiseKind;
use crate::{Error, Result};
use std::ops::{Bound, Range, RangeBounds};

/// A tree over the keys below `2^bits`, in which every node has `branching` children, a power of two.
///
/// ```
/// use evertally::plan::NoiseKind;
/// use evertally::sketch::KeyTree;
/// let tree = KeyTree::new(32, 16)?;
/// assert_eq!(tree.height(), 8);
/// assert_eq!(KeyTree::least_error(32, NoiseKind::Gaussian)?.branching(), 8);
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyTree {
    bits: u32,
    digit: u32,
}

/// Bits of the largest branching.
const MAX_DIGIT: u32 = 8;

impl KeyTree {
    /// The tree over keys of 1 to 64 bits with this branching: 2, 4, 8, … 256.
    ///
    /// # Errors
    /// If a number is out of range.
    pub fn new(bits: u32, branching: u64) -> Result<Self> {
        if !(1..=64).contains(&bits) {
            return Err(Error::invalid(format!("keys have 1 to 64 bits, got {bits}")));
        }
        if !branching.is_power_of_two() || !(2..=1 << MAX_DIGIT).contains(&branching) {
            return Err(Error::invalid(format!("a branching is a power of two from 2 to 256, got {branching}")));
        }
        Ok(Self { bits, digit: branching.trailing_zeros() })
    }

    /// The tree with the smallest error of range counts under this noise: it minimizes `levels^p` times
    /// [`mean_prefix_nodes`](Self::mean_prefix_nodes), with `p` = 1 for Gaussian noise and 2 for Laplace noise.
    ///
    /// # Errors
    /// If the number of bits is out of range.
    pub fn least_error(bits: u32, noise: NoiseKind) -> Result<Self> {
        let trees: Result<Vec<Self>> = (1..=MAX_DIGIT).map(|digit| Self::new(bits, 1 << digit)).collect();
        let exponent = if noise == NoiseKind::Gaussian { 1 } else { 2 };
        let error = |tree: &Self| power(f64::from(tree.height() + 1), exponent) * tree.mean_prefix_nodes();
        Ok(trees?.into_iter().min_by(|a, b| error(a).total_cmp(&error(b))).expect("there are eight"))
    }

    /// Bits of a key.
    pub fn bits(self) -> u32 {
        self.bits
    }

    /// Children of a node.
    pub fn branching(self) -> u64 {
        1 << self.digit
    }

    /// The level of the root; single keys have level 0.
    pub fn height(self) -> u32 {
        self.bits.div_ceil(self.digit)
    }

    /// The levels, from the keys up to the root.
    pub fn levels(self) -> impl Iterator<Item = u32> {
        0..=self.height()
    }

    /// Number of nodes of a level.
    pub fn nodes(self, level: u32) -> u128 {
        1 << (self.bits - self.shift(level))
    }

    /// Bits of a key that the nodes of a level do not distinguish.
    fn shift(self, level: u32) -> u32 {
        (level * self.digit).min(self.bits)
    }

    /// The number of nodes below a level. For trees of at most 63 bits.
    pub(super) fn first_node(self, level: u32) -> u64 {
        // fits: fewer than 2^(bits+1) nodes in all.
        (0..level).map(|below| self.nodes(below) as u64).sum()
    }

    /// The node of a level that a key lies in.
    pub(super) fn ancestor(self, key: u64, level: u32) -> Node {
        Node { level, index: key.checked_shr(self.shift(level)).unwrap_or(0) }
    }

    /// The children of a node above level 0.
    pub(super) fn children(self, node: Node) -> impl Iterator<Item = Node> {
        let (level, digit) = (node.level - 1, self.shift(node.level) - self.shift(node.level - 1));
        (0..1u64 << digit).map(move |child| Node { level, index: node.index << digit | child })
    }

    pub(super) fn root(self) -> Node {
        Node { level: self.height(), index: 0 }
    }

    /// Refuses a key beyond the space.
    pub(super) fn check_key(self, key: u64) -> Result<()> {
        if key.checked_shr(self.bits).unwrap_or(0) == 0 {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "the key {key} has more than {} bits; use a larger tree or shorter keys",
            self.bits
        )))
    }

    /// First key and the one after the last. Keys beyond the space do not count.
    pub(super) fn ends(self, range: impl RangeBounds<u64>) -> Range<u128> {
        let start = match range.start_bound() {
            Bound::Included(key) => u128::from(*key),
            Bound::Excluded(key) => u128::from(*key) + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(key) => u128::from(*key) + 1,
            Bound::Excluded(key) => u128::from(*key),
            Bound::Unbounded => u128::MAX,
        };
        let all = 1u128 << self.bits;
        start.min(all)..end.min(all)
    }

    /// The fewest nodes whose sum, with their weights +1 and -1, is the number of keys in a range. `O(b (log T)²)`.
    pub(super) fn cover(self, range: &Range<u128>) -> Vec<(Node, i32)> {
        let mut nodes = vec![];
        match self.relation(self.root(), range) {
            Relation::Inside => nodes.push((self.root(), 1)),
            Relation::Outside => {}
            Relation::Cut => self.emit(self.root(), range, 0, &mut nodes),
        }
        nodes
    }

    fn relation(self, node: Node, range: &Range<u128>) -> Relation {
        let width = 1u128 << self.shift(node.level);
        let start = u128::from(node.index) * width;
        if range.start <= start && start + width <= range.end {
            Relation::Inside
        } else if range.end <= start || start + width <= range.start || range.is_empty() {
            Relation::Outside
        } else {
            Relation::Cut
        }
    }

    /// Nodes needed below a cut node whose own weight and those of its ancestors sum to 0, and to 1.
    fn below(self, node: Node, range: &Range<u128>) -> [u64; 2] {
        let mut needed = [0; 2];
        for child in self.children(node) {
            let child = match self.relation(child, range) {
                Relation::Inside => [1, 0],
                Relation::Outside => [0, 1],
                Relation::Cut => with_own(self.below(child, range)),
            };
            (needed[0], needed[1]) = (needed[0] + child[0], needed[1] + child[1]);
        }
        needed
    }

    /// The nodes of a cut node's subtree, where the weights of its ancestors sum to `inherited`.
    fn emit(self, node: Node, range: &Range<u128>, inherited: usize, nodes: &mut Vec<(Node, i32)>) {
        let below = self.below(node, range);
        let changes = below[1 - inherited] + 1 < below[inherited];
        let sum = if changes { 1 - inherited } else { inherited };
        if changes {
            nodes.push((node, sum as i32 - inherited as i32));
        }
        for child in self.children(node) {
            match (self.relation(child, range), sum) {
                (Relation::Inside, 0) => nodes.push((child, 1)),
                (Relation::Outside, 1) => nodes.push((child, -1)),
                (Relation::Cut, _) => self.emit(child, range, sum, nodes),
                _ => {}
            }
        }
    }

    /// The mean number of nodes of the keys below `x`, over all `x` of the space.
    ///
    /// A prefix cuts one node per level. Let `x₀, x₁` be the numbers that this node and those below need, for both sums
    /// that it may inherit: they differ by at most one. Their difference, and the number added per level, depend on the
    /// digit of `x` and on the difference below: a chain of three states, with uniform digits.
    pub fn mean_prefix_nodes(self) -> f64 {
        // For the differences -1, 0, 1 of x₀ - x₁: probability, and mean of x₀ times that. Below the keys there is
        // nothing to cut; the key of the last digit is outside: x₀ = 0, x₁ = 1.
        let mut states = [(1.0, 0.0), (0.0, 0.0), (0.0, 0.0)];
        for level in 1..=self.height() {
            let branching = 1i64 << (self.shift(level) - self.shift(level - 1));
            let mut next = [(0.0, 0.0); 3];
            for ((probability, mean), below) in states.into_iter().zip(-1i64..) {
                for digit in 0..branching {
                    let difference = digit + below - (branching - 1 - digit);
                    // x₀ is the smaller of the number needed below for a sum of 0, and that for 1 plus one.
                    let added = digit + if difference > 1 { 1 - difference } else { 0 };
                    let state = &mut next[(difference.clamp(-1, 1) + 1) as usize];
                    state.0 += probability / branching as f64;
                    state.1 += (mean + probability * added as f64) / branching as f64;
                }
            }
            states = next;
        }
        states.iter().map(|(_, mean)| mean).sum()
    }
}

/// The position of a node: the range holds all of its keys, none, or some.
enum Relation {
    Inside,
    Outside,
    Cut,
}

/// The same where the node itself may change the sum.
fn with_own(below: [u64; 2]) -> [u64; 2] {
    [below[0].min(below[1] + 1), below[1].min(below[0] + 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trees() -> impl Iterator<Item = KeyTree> {
        [(1, 2), (3, 2), (4, 4), (5, 4), (6, 8), (5, 8), (6, 2), (3, 256)]
            .into_iter()
            .map(|(b, k)| KeyTree::new(b, k).unwrap())
    }

    fn keys_of(tree: KeyTree, node: Node) -> Range<u64> {
        let width = 1u64 << tree.shift(node.level);
        node.index * width..(node.index + 1) * width
    }

    /// Every cover of every range counts each of its keys once and no others.
    #[test]
    fn covers_sum_to_their_ranges() {
        for tree in trees() {
            let all = 1u64 << tree.bits();
            for start in 0..=all {
                for end in 0..=all {
                    let range = tree.ends(start..end);
                    let mut sums = vec![0; all as usize];
                    for (node, weight) in tree.cover(&range) {
                        keys_of(tree, node).for_each(|key| sums[key as usize] += weight);
                    }
                    let right = |(key, sum): (usize, &i32)| *sum == i32::from((start..end).contains(&(key as u64)));
                    assert!(sums.iter().enumerate().all(right), "{tree:?} {start}..{end}");
                }
            }
        }
    }

    /// No sum of fewer nodes, with any small weights, is the same range, by enumeration of all such sums.
    #[test]
    fn no_cover_has_fewer_nodes() {
        for tree in [KeyTree::new(3, 2).unwrap(), KeyTree::new(4, 4).unwrap(), KeyTree::new(3, 8).unwrap()] {
            let keys = 1usize << tree.bits();
            let all: Vec<Node> = tree
                .levels()
                .flat_map(|level| (0..tree.nodes(level) as u64).map(move |index| Node { level, index }))
                .collect();
            // The vectors that `n` nodes can make, for n from 0.
            let mut reached = std::collections::HashMap::from([(vec![0i8; keys], 0usize)]);
            for nodes in 1..4 {
                for sum in reached.keys().cloned().collect::<Vec<_>>() {
                    for (node, weight) in all.iter().flat_map(|node| [-2, -1, 1, 2].map(|weight| (node, weight))) {
                        let mut sum = sum.clone();
                        keys_of(tree, *node).for_each(|key| sum[key as usize] += weight);
                        reached.entry(sum).or_insert(nodes);
                    }
                }
            }
            for start in 0..keys as u64 {
                for end in start..=keys as u64 {
                    let wanted: Vec<i8> = (0..keys as u64).map(|key| i8::from((start..end).contains(&key))).collect();
                    let found = tree.cover(&tree.ends(start..end)).len();
                    let least = reached.get(&wanted).copied().unwrap_or(4);
                    assert!(found == least || least == 4 && found > 3, "{tree:?} {start}..{end}: {found} {least}");
                }
            }
        }
    }

    #[test]
    fn mean_number_of_nodes_is_that_of_all_prefixes() {
        for tree in trees() {
            let all = 1u64 << tree.bits();
            let nodes: usize = (0..all).map(|end| tree.cover(&tree.ends(..end)).len()).sum();
            assert!((tree.mean_prefix_nodes() - nodes as f64 / all as f64).abs() < 1e-12, "{tree:?}");
        }
    }

    /// Keys of 64 bits: ends, ancestors and covers at the edges.
    #[test]
    fn the_largest_space_has_no_overflow() {
        for branching in [2, 16, 128, 256] {
            let tree = KeyTree::new(64, branching).unwrap();
            assert_eq!(tree.cover(&tree.ends(..)), [(tree.root(), 1)]);
            assert_eq!(tree.ancestor(u64::MAX, tree.height()), tree.root());
            assert_eq!(tree.cover(&tree.ends(u64::MAX..)), [(Node { level: 0, index: u64::MAX }, 1)]);
            assert_eq!(tree.cover(&tree.ends(..u64::MAX)).len(), 2);
            assert!(tree.cover(&tree.ends(5..5)).is_empty() && tree.check_key(u64::MAX).is_ok());
            let width = 1u128 << 64;
            assert_eq!(tree.ends(..=u64::MAX), 0..width);
            let third = u64::MAX / 3;
            let sum: i128 = tree
                .cover(&tree.ends(third..2 * third))
                .iter()
                .map(|(node, weight)| i128::from(*weight) << tree.shift(node.level))
                .sum();
            assert_eq!(sum, i128::from(third), "{branching}");
        }
    }

    #[test]
    fn least_error_is_the_least_of_the_formula() {
        for bits in [1, 10, 32, 39, 64] {
            for (noise, power) in [(NoiseKind::Gaussian, 1), (NoiseKind::Laplace, 2)] {
                let best = KeyTree::least_error(bits, noise).unwrap();
                let error = |t: KeyTree| f64::from(t.height() + 1).powi(power) * t.mean_prefix_nodes();
                for digit in 1..=8 {
                    assert!(error(best) <= error(KeyTree::new(bits, 1 << digit).unwrap()), "{bits} {digit}");
                }
            }
        }
    }

    #[test]
    fn senseless_trees_are_refused() {
        for (bits, branching, word) in
            [(0, 2, "bits"), (65, 2, "bits"), (9, 3, "power"), (9, 1, "power"), (9, 512, "256")]
        {
            assert!(KeyTree::new(bits, branching).unwrap_err().to_string().contains(word));
        }
        let tree = KeyTree::new(10, 4).unwrap();
        assert!(tree.check_key(1023).is_ok());
        assert!(tree.check_key(1024).unwrap_err().to_string().contains("more than 10 bits"));
    }
}
