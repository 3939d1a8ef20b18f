//! A χ² test of the law of the node variables themselves, if the releases determine them.
//!
//! With `L` square, `z = L⁻¹ r` is a sum of few releases for every node. All nodes of all paths are independent draws
//! of one law, so one table of frequencies holds them all.

use crate::law::NodeLaw;
use crate::linear::column;
use crate::privacy::sparse;
use crate::promise::Promise;
use crate::tails::chi_square_tail;
use evertally::number::power;

/// The minimum expected frequency of a cell.
const MIN_EXPECTED: f64 = 50.0;

/// Frequencies of recovered node variables.
#[derive(Debug)]
pub(crate) struct NodeTable {
    law: NodeLaw,
    nodes: Vec<Vec<(usize, f64)>>,
    /// Lower ends of the cells, except the first, which has none.
    edges: Vec<i64>,
    counts: Vec<u64>,
}

impl NodeTable {
    /// `None` unless the releases determine the nodes.
    pub(crate) fn new(promise: &Promise) -> Option<Self> {
        promise.reveals_nodes().then(|| {
            let nodes = 0..promise.l.shape().1;
            let nodes = nodes.map(|n| sparse(&promise.factor.solve(&column(&promise.l, n)), promise.unit)).collect();
            let width = (promise.law.deviation() / 16.0).floor().max(1.0) as i64;
            let edges: Vec<i64> = (-128..128).map(|i| i * width).collect();
            let counts = vec![0; edges.len() + 1];
            Self { law: promise.law, nodes, edges, counts }
        })
    }

    pub(crate) fn observe(&mut self, residual: &[f64]) {
        for node in &self.nodes {
            let z: f64 = node.iter().map(|&(t, v)| v * residual[t]).sum();
            self.counts[self.edges.partition_point(|&edge| edge as f64 <= z.round())] += 1;
        }
    }

    /// The p-value of χ², and the number of cells.
    pub(crate) fn p_value(&self) -> (f64, usize) {
        let total: u64 = self.counts.iter().sum();
        let expected = self.law.cells(&self.edges).into_iter().map(|p| p * total as f64);
        let mut cells: Vec<(f64, f64)> = Vec::new();
        let mut open = (0.0, 0.0);
        for (&count, expected) in self.counts.iter().zip(expected) {
            open = (open.0 + count as f64, open.1 + expected);
            if open.1 >= MIN_EXPECTED {
                cells.push(open);
                open = (0.0, 0.0);
            }
        }
        let Some(last) = cells.last_mut() else { return (1.0, 0) };
        *last = (last.0 + open.0, last.1 + open.1);
        let statistic: f64 = cells.iter().map(|(seen, expected)| power(seen - expected, 2) / expected).sum();
        let p = if cells.len() < 2 { 1.0 } else { chi_square_tail(statistic, (cells.len() - 1) as f64) };
        (p, cells.len())
    }
}
