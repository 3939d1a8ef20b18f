//! Dependencies between parameters, and their error messages.

use super::super::Parameter::{
    self, AssertMaxEventsPerGroup, AssertMaxGroups, AssertMaxTotal, Bounds, CorrelateGroups, Date, DiscoverGroups,
    Floor, Grid, GroupBy, Groups, GroupsFile, MaxEvents, MaxEventsPerGroup, MaxEventsPerStep, MaxGroups, MaxTotal,
    MinGap, Per, Person, ProtectWindow, Rest, RestScale, SelectEvery, SelectionDelta, TimeOfDay, UnitName, Value,
};
use crate::problem::{Sentence, SentencePart, sentence};

/// A parameter, another that it needs, and the message if that is missing.
type Dependency = (Parameter, Parameter, fn() -> Sentence);

/// In the order in which they are checked.
pub(in crate::declaration) const DEPENDENCIES: &[Dependency] = &[
    (TimeOfDay, Date, || sentence![TimeOfDay, " needs ", Date, ": the column with the date"]),
    (Date, TimeOfDay, || {
        sentence![Date, " needs ", TimeOfDay, ": a column of dates alone is named with ", Parameter::Time]
    }),
    (DiscoverGroups, GroupBy, || sentence![DiscoverGroups, " needs ", GroupBy, ": the column that names the group"]),
    (DiscoverGroups, SelectionDelta, || {
        sentence![
            DiscoverGroups,
            " needs ",
            SelectionDelta,
            ": the probability with which a group of only one person may be published, such as 1e-9; it is part of the \
             guarantee, and you must choose it"
        ]
    }),
    (SelectionDelta, DiscoverGroups, || sentence![SelectionDelta, " needs ", DiscoverGroups]),
    (SelectEvery, DiscoverGroups, || sentence![SelectEvery, " needs ", DiscoverGroups]),
    (Floor, DiscoverGroups, || sentence![Floor, " needs ", DiscoverGroups, ": declared groups are always published"]),
    (MaxEventsPerStep, Person, || sentence![MaxEventsPerStep, " needs ", SentencePart::All(&[Person, MaxEvents])]),
    (MaxEvents, Person, || names_the_person(MaxEvents)),
    (MaxEventsPerGroup, Person, || names_the_person(MaxEventsPerGroup)),
    (MaxGroups, Person, || names_the_person(MaxGroups)),
    (MinGap, Person, || names_the_person(MinGap)),
    (MaxTotal, Person, || names_the_person(MaxTotal)),
    (MaxTotal, Value, || sentence![MaxTotal, " needs ", Value, ": the column whose values it bounds"]),
    (AssertMaxTotal, Value, || sentence![AssertMaxTotal, " needs ", Value, ": the column whose values it bounds"]),
    (Per, Person, || names_the_person(Per)),
    (ProtectWindow, Per, || {
        sentence![
            ProtectWindow,
            " needs ",
            Per,
            ": the period in which the bounds on a person restart, such as the length of the window"
        ]
    }),
    (UnitName, Person, || sentence![UnitName, " needs ", Person, ": without it, single events are protected"]),
    (MaxEventsPerGroup, GroupBy, || bounds_groups(MaxEventsPerGroup)),
    (MaxGroups, GroupBy, || bounds_groups(MaxGroups)),
    (CorrelateGroups, Groups, || {
        sentence![CorrelateGroups, " needs ", Groups, ": the groups whose noise is correlated"]
    }),
    (CorrelateGroups, Person, || {
        sentence![CorrelateGroups, " needs ", Person, ": a single event is in one group, and gains nothing"]
    }),
    (AssertMaxEventsPerGroup, GroupBy, || bounds_groups(AssertMaxEventsPerGroup)),
    (AssertMaxGroups, GroupBy, || bounds_groups(AssertMaxGroups)),
    (Value, Bounds, || {
        sentence![Value, " needs ", SentencePart::Example(Bounds), ": the smallest and largest value of one event"]
    }),
    (Grid, Value, || sentence![Grid, " needs ", Value, ": counts are whole numbers"]),
    (Bounds, Value, || sentence![Bounds, " needs ", Value, ": the column to sum"]),
    (Groups, GroupBy, groups_need_columns),
    (Rest, GroupBy, groups_need_columns),
    (Parameter::Scales, Groups, || sentence![Parameter::Scales, " needs ", Groups, ": the groups, in the same order"]),
    (Parameter::Scales, Value, || sentence![Parameter::Scales, " needs ", Value, ": the column to sum"]),
    (RestScale, Rest, || sentence![RestScale, " needs ", Rest, ": the name of the rest"]),
    (RestScale, Value, || sentence![RestScale, " needs ", Value, ": the column to sum"]),
    (GroupBy, Groups, || {
        sentence![
            GroupBy,
            " needs ",
            SentencePart::Any(&[Groups, GroupsFile, DiscoverGroups]),
            ": groups must be declared, because a group that appears only if the data contains it reveals that someone \
             is in it; or discovered, at the cost of a δ"
        ]
    }),
];

fn names_the_person(bound: Parameter) -> Sentence {
    sentence![bound, " needs ", Person, ": the column that names the person"]
}

/// Items of a sketch share its cells, so a bound on the events of an item would not bound a cell.
fn bounds_groups(bound: Parameter) -> Sentence {
    sentence![bound, " needs ", GroupBy, ": it bounds a person's events by group"]
}

/// The message if groups are declared without a column that names them.
pub(super) fn groups_need_columns() -> Sentence {
    sentence![SentencePart::All(&[Groups, GroupsFile, Rest]), " need ", GroupBy, ": the column that names the group"]
}
