//! Which groups the picture shows, and their points.

use super::setup::ReleaseSetup;
use crate::stream::Files;
use evertally_declare::groups::GroupTable;
use evertally_plot::{Curve, MAX_SHOWN, MAX_SHOWN_AT_ONCE};

/// The maximum number of discovered groups whose points are kept, in order of discovery.
const MAX_KEPT_CURVES: usize = 1000;

/// The curves of a picture.
pub(super) enum ReleaseCurves {
    /// No picture is wanted.
    Off,
    /// Curves of groups that are known from the beginning.
    Declared {
        curves: Vec<Curve>,
        /// The curve of each group, if it is drawn.
        of_group: Vec<Option<usize>>,
    },
    /// Curves of groups in order of discovery.
    Discovered {
        curves: Vec<Curve>,
        /// The requested groups, in this order; by default the ones with the highest last values.
        named: Option<Vec<String>>,
        /// The maximum number of curves.
        most: usize,
    },
}

impl ReleaseCurves {
    pub(super) fn new(setup: &ReleaseSetup, files: &Files) -> Self {
        if !files.plot {
            return Self::Off;
        }
        if setup.stream.plan.threshold().is_some() {
            let most = if setup.stream.last_row() == 1 { MAX_SHOWN_AT_ONCE } else { MAX_SHOWN };
            return Self::Discovered { curves: Vec::new(), named: setup.plot_groups.clone(), most };
        }
        let single = [vec![]];
        let tuples = setup.groups.as_ref().map_or(&single[..], GroupTable::tuples);
        // With measures, one curve for each measure of a group: as many complete groups as fit, or the first measures.
        let labels = setup.stream.measures.as_ref().map_or(Vec::new(), |bundle| bundle.labels());
        let each = labels.len().max(1);
        let shown = each.min(MAX_SHOWN);
        let drawn = if labels.is_empty() { setup.drawn.len() } else { setup.drawn.len().min(MAX_SHOWN / shown) };
        let mut of_group = vec![None; tuples.len() * each];
        let mut curves = Vec::new();
        for group in &setup.drawn[..drawn] {
            for place in 0..shown {
                of_group[group * each + place] = Some(curves.len());
                let name: Vec<&str> = tuples[*group].iter().chain(labels.get(place)).map(String::as_str).collect();
                curves.push(Curve { name: name.join(", "), points: vec![] });
            }
        }
        Self::Declared { curves, of_group }
    }

    pub(super) fn is_off(&self) -> bool {
        match self {
            Self::Off => true,
            Self::Declared { curves, .. } => curves.is_empty(),
            Self::Discovered { .. } => false,
        }
    }

    /// The curve of a group, if it is drawn or may be drawn. Discovered groups must first be requested in order of
    /// discovery.
    pub(super) fn curve_of(&mut self, group: usize, names: &[&str]) -> Option<&mut Curve> {
        match self {
            Self::Off => None,
            Self::Declared { curves, of_group } => of_group[group].map(|place| &mut curves[place]),
            Self::Discovered { curves, .. } => {
                if group == curves.len() {
                    curves.push(Curve { name: names.join(", "), points: vec![] });
                }
                curves.get_mut(group).filter(|_| group < MAX_KEPT_CURVES)
            }
        }
    }

    /// The curve of a group by name, for rows written by an earlier run.
    pub(super) fn curve_named(&mut self, name: &str) -> Option<&mut Curve> {
        match self {
            Self::Off => None,
            Self::Declared { curves, .. } => curves.iter_mut().find(|curve| curve.name == name),
            Self::Discovered { curves, .. } => {
                // Rows of a step are in order of discovery: usually the curve is the last one, or near it.
                let place = curves.iter().rposition(|curve| curve.name == name).unwrap_or_else(|| {
                    curves.push(Curve { name: name.to_owned(), points: vec![] });
                    curves.len() - 1
                });
                Some(&mut curves[place]).filter(|_| place < MAX_KEPT_CURVES)
            }
        }
    }

    /// The curves to be drawn, and how many groups there are.
    pub(super) fn finish(self) -> (Vec<Curve>, usize) {
        match self {
            Self::Off => (Vec::new(), 0),
            Self::Declared { curves, of_group } => (curves, of_group.len()),
            Self::Discovered { mut curves, named, most } => {
                let total = curves.len();
                let last = |curve: &Curve| curve.points.last().map_or(f64::NEG_INFINITY, |point| point.value);
                match named {
                    Some(names) => {
                        let place =
                            |curve: &Curve| names.iter().position(|name| curve.name.replace(", ", "/") == *name);
                        curves.retain(|curve| place(curve).is_some());
                        curves.sort_by_key(place);
                    }
                    None => curves.sort_by(|a, b| last(b).total_cmp(&last(a))),
                }
                curves.truncate(most);
                (curves, total)
            }
        }
    }
}
