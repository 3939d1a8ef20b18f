//! The noise of one running sum.

use crate::noise::{DiscreteLaw, KeyedNoise, Node, Purpose, SecretKey, StreamName};
use crate::plan::Plan;

/// The noise of one running sum: separate noise and, if the plan correlates the noise of groups, that of all groups.
#[derive(Clone)]
pub(super) struct SumNoise {
    own: KeyedNoise,
    law: DiscreteLaw,
    common: Option<(KeyedNoise, DiscreteLaw)>,
}

impl SumNoise {
    pub(super) fn new(plan: &Plan, own: KeyedNoise, key: &SecretKey, name: &StreamName) -> Self {
        let of_all = || KeyedNoise::unrecorded(key, name, &plan.digest(), Purpose::AllGroups);
        Self { own, law: *plan.law(), common: plan.common_law().map(|law| (of_all(), *law)) }
    }

    /// For a plan without correlated groups.
    pub(super) fn independent(plan: &Plan, own: KeyedNoise) -> Self {
        debug_assert!(plan.common_law().is_none(), "the common noise of groups is missing");
        Self { own, law: *plan.law(), common: None }
    }

    /// The same with the own noise of another name.
    pub(super) fn with_own(&self, own: KeyedNoise) -> Self {
        Self { own, ..self.clone() }
    }

    /// The separate noise.
    pub(super) fn own(&self) -> &KeyedNoise {
        &self.own
    }

    /// The value of a node, always the same.
    #[inline]
    pub(super) fn draw(&self, node: Node) -> i128 {
        let own = self.law.sample(&mut self.own.bits(node));
        match &self.common {
            None => own,
            // fits: the scales of both together are at most that of a single law, see `plan/calibrate.rs`
            Some((noise, law)) => own + law.sample(&mut noise.bits(node)),
        }
    }
}
