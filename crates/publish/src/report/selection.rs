//! The report's facts on the selection of discovered groups.

use evertally_declare::stream::Stream;
use serde::{Deserialize, Serialize};

/// How discovered groups are selected: all of it is known before any event is read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SelectionFacts {
    /// The columns that name the group.
    pub columns: Vec<String>,
    /// The released steps after which groups are selected.
    pub after_steps: Vec<u64>,
    /// The number of selection steps in the horizon.
    pub times: u64,
    /// The distance between two selection steps.
    pub every: u64,
    /// The δ that selection adds.
    pub delta: f64,
    /// The proven bound on the probability that a unit's own group is shown: at most `delta`.
    pub failure: f64,
    /// The same bound for a group of one person who contributes the maximum to it in every period; `None` if the unit
    /// has no period.
    pub failure_over_periods: Option<f64>,
    /// The proven bound on the probability that a group with fewer persons than the floor is shown, whatever they do in
    /// every period: at most `delta`. `None` without a floor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_below_floor: Option<f64>,
    /// Whether only some steps are published, in which case no floor holds for several periods.
    #[serde(skip)]
    pub(super) is_read_in_slots: bool,
    /// The largest number of groups in which one unit has events.
    pub new_groups: u64,
    /// The largest number of events of one unit in a group.
    pub events_per_group: u64,
    /// The minimum number of units in a group, except with the same probability; 1 if no floor was set.
    pub floor: u64,
    /// The threshold for a released value, in units of the data.
    pub threshold: f64,
    /// The sum at which a group is shown with probability ½ at any one selection time.
    pub shown_half: f64,
    /// The same for probability 0.95.
    pub shown_almost: f64,
}

impl SelectionFacts {
    /// The facts of a stream's plan; `None` if groups are not discovered.
    pub fn new(stream: &Stream) -> Option<Self> {
        let threshold = stream.plan.threshold()?;
        let (selection, grid) = (threshold.selection(), stream.plan.request().grid());
        let last_slot = stream.slot_of_row(stream.last_row());
        let times = selection.times();
        let number = |multiple: i64| grid.to_f64(multiple.into());
        Some(Self {
            columns: stream.columns.labels.clone(),
            after_steps: times.iter().filter(|slot| *slot <= last_slot).collect(),
            times: times.iter().count() as u64,
            every: times.distance(),
            delta: selection.delta().get(),
            failure: threshold.failure(),
            // Periods do not end with publications, so one publication may contain the events of several: then nothing
            // is promised.
            failure_over_periods: threshold
                .failure_over_periods()
                .map(|own| if stream.is_read_in_slots() { 1.0 } else { own }),
            failure_below_floor: threshold.failure_of_few(),
            is_read_in_slots: stream.is_read_in_slots(),
            new_groups: threshold.new_keys(),
            events_per_group: threshold.events_per_key(),
            floor: selection.floor(),
            threshold: number(threshold.value()),
            shown_half: number(threshold.shown_half()),
            shown_almost: number(threshold.shown_almost()),
        })
    }
}
