//! Wide cases declare more than running sums of declared groups: workloads, measures, publication widths, scales,
//! groups that join or are discovered, endless streams.

use evertally_declare::declaration::{Declaration, DeclaredGroups};

/// The additions of a wide case.
#[derive(Clone, Debug, Default)]
pub(super) struct Wide {
    /// Whether this is a wide case.
    pub(super) is_wide: bool,
    pub(super) workloads: &'static [&'static str],
    pub(super) publish: Option<&'static str>,
    pub(super) measures: &'static [&'static str],
    pub(super) scales: bool,
    pub(super) max_total: bool,
    pub(super) is_endless: bool,
    pub(super) discovers: bool,
    /// A group joins in the second run.
    pub(super) joins: bool,
    /// The planner chooses the mechanism.
    pub(super) chooses: bool,
}

impl Wide {
    /// Adds the declared parts.
    pub(super) fn declare(&self, declaration: Declaration, columns: usize) -> Declaration {
        if !self.is_wide {
            return declaration;
        }
        let mut declared = declaration;
        if !self.workloads.is_empty() {
            let workloads = self.workloads.iter().map(|text| text.parse().expect("a workload"));
            declared.workload = Some(evertally_declare::reading::Workloads(workloads.collect()));
        }
        declared.publish = self.publish.map(|width| width.parse().expect("a width"));
        if !self.measures.is_empty() {
            declared.measure = Some(self.measures.iter().map(|text| text.parse().expect("a measure")).collect());
        }
        if self.is_endless {
            (declared.steps, declared.unbounded) = (None, Some(true));
        }
        if self.chooses || self.is_endless {
            declared.mechanism = None;
        }
        if self.max_total && declared.value.is_some() {
            declared.max_total = Some("7".parse().expect("a number"));
        }
        if columns > 0 && self.discovers {
            (declared.groups, declared.rest) = (None, None);
            declared.discover_groups = Some(true);
            // Enough for the large groups to be found.
            (declared.rho, declared.epsilon, declared.delta) = (Some(2.0), None, None);
            declared.selection_delta = Some(1e-13);
            declared.select_every = Some(1);
        } else if columns > 0 && self.scales && declared.value.is_some() {
            let count = match &declared.groups {
                Some(DeclaredGroups::Tuples(tuples)) => tuples.len(),
                _ => 0,
            };
            let scales = ["1", "2.5", "0.5"].iter().take(count).map(|scale| scale.parse().expect("a scale"));
            declared.scales = Some(scales.collect());
            declared.rest_scale = declared.rest.as_ref().map(|_| "2".parse().expect("a scale"));
        }
        declared
    }

    /// Whether a run may continue another: the parts of an unfinished publication are kept for one figure only.
    pub(super) fn may_continue(&self) -> bool {
        self.publish.is_none() || (self.measures.is_empty() && self.workloads.len() < 2)
    }
}
