//! A cursor for mechanisms whose estimates need the noise of all steps: everything is computed at the first step.

use crate::mechanism::Cursor;
use crate::noise::Node;
use std::sync::Arc;

/// Computes the noise of all releases together.
pub(super) trait Solve: Send + Sync {
    /// The noise of every release, in units of `2^-fraction_bits` of the noise grid. Each node is drawn once.
    fn releases(&self, draw: &mut dyn FnMut(Node) -> i128) -> Vec<i128>;
}

/// The releases of all steps, computed on first use.
pub(super) struct AtOnce<S> {
    solver: Arc<S>,
    step: u64,
    releases: Vec<i128>,
}

impl<S> AtOnce<S> {
    pub(super) fn new(solver: Arc<S>) -> Self {
        Self { solver, step: 0, releases: Vec::new() }
    }
}

impl<S: Solve> Cursor for AtOnce<S> {
    fn step(&self) -> u64 {
        self.step
    }

    /// The first step draws all noise and solves.
    fn advance(&mut self, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        self.seek(self.step + 1, draw)
    }

    fn seek(&mut self, step: u64, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        self.step = step;
        if step == 0 {
            return 0;
        }
        if self.releases.is_empty() {
            self.releases = self.solver.releases(draw);
        }
        self.releases[step as usize - 1]
    }
}
