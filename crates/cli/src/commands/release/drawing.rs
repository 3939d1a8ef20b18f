//! Which groups the picture shows, and their points.

use super::setup::ReleaseSetup;
use crate::stream::Files;
use evertally_declare::groups::GroupTable;
use evertally_declare::line::GroupLine;
use evertally_plot::{Curve, MAX_SHOWN, MAX_SHOWN_AT_ONCE};

/// The maximum number of discovered groups whose points are kept, in order of discovery.
const MAX_KEPT_CURVES: usize = 1000;

/// A curve without points.
fn empty(name: String, line: &GroupLine) -> Curve {
    Curve { name, points: vec![], is_per_period: line.is_per_period, is_from_zero: line.is_from_zero }
}

/// The curves of a picture.
pub(super) enum ReleaseCurves {
    /// No picture is wanted.
    Off,
    /// Curves of groups that are known from the beginning.
    Declared {
        curves: Vec<Curve>,
        /// The curve of each group, if it is drawn.
        of_group: Vec<Option<usize>>,
        /// The names of the curves for readers.
        titles: Vec<String>,
    },
    /// Curves of groups in order of discovery.
    Discovered {
        curves: Vec<Curve>,
        /// The requested groups, in this order; by default the ones with the highest last values.
        named: Option<Vec<String>>,
        /// The maximum number of curves.
        most: usize,
        /// The line of each group.
        line: GroupLine,
    },
}

impl ReleaseCurves {
    pub(super) fn new(setup: &ReleaseSetup, files: &Files) -> Self {
        if !files.plot {
            return Self::Off;
        }
        let mut lines = setup.stream.lines();
        if setup.stream.plan.threshold().is_some() {
            let most = if setup.stream.last_row() == 1 { MAX_SHOWN_AT_ONCE } else { MAX_SHOWN };
            let line = lines.swap_remove(0);
            return Self::Discovered { curves: Vec::new(), named: setup.plot_groups.clone(), most, line };
        }
        let single = [vec![]];
        let tuples = setup.groups.as_ref().map_or(&single[..], GroupTable::tuples);
        // With measures, one curve for each measure of a group: as many complete groups as fit, or the first measures.
        let each = lines.len();
        let shown = each.min(MAX_SHOWN);
        let has_lines = setup.stream.measures.is_some();
        let drawn = if has_lines { setup.drawn.len().min(MAX_SHOWN / shown) } else { setup.drawn.len() };
        let mut of_group = vec![None; tuples.len() * each];
        let (mut curves, mut titles) = (Vec::new(), Vec::new());
        for group in &setup.drawn[..drawn] {
            for (place, line) in lines.iter().take(shown).enumerate() {
                let tuple = &tuples[*group];
                let named = |last: &String| {
                    let last = Some(last).filter(|last| !last.is_empty());
                    tuple.iter().chain(last).map(String::as_str).collect::<Vec<_>>().join(", ")
                };
                let since = setup.later.iter().find(|later| later.groups.contains(tuple));
                let since = since.map_or(String::new(), |later| format!(" (from {})", later.since));
                of_group[group * each + place] = Some(curves.len());
                titles.push(named(&line.title) + &since);
                curves.push(empty(named(&line.label), line));
            }
        }
        Self::Declared { curves, of_group, titles }
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
            Self::Declared { curves, of_group, .. } => of_group[group].map(|place| &mut curves[place]),
            Self::Discovered { curves, line, .. } => {
                if group == curves.len() {
                    curves.push(empty(names.join(", "), line));
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
            Self::Discovered { curves, line, .. } => {
                // Rows of a step are in order of discovery: usually the curve is the last one, or near it.
                let place = curves.iter().rposition(|curve| curve.name == name).unwrap_or_else(|| {
                    curves.push(empty(name.to_owned(), line));
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
            Self::Declared { mut curves, of_group, titles } => {
                curves.iter_mut().zip(titles).for_each(|(curve, title)| curve.name = title);
                (curves, of_group.len())
            }
            Self::Discovered { mut curves, named, most, .. } => {
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
