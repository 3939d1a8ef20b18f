//! What needs what beside it, and what is said where that is missing.

use super::super::Parameter::{
    self, Bounds, DiscoverGroups, Floor, Grid, GroupBy, Groups, GroupsFile, MaxEvents, MaxEventsPerGroup,
    MaxEventsPerStep, MaxGroups, MaxTotal, MinGap, Per, Person, Rest, RestScale, SelectEvery, SelectionDelta, Value,
};
use crate::problem::{Piece, Sentence, sentence};

/// A parameter, one that it needs beside it, and what is said where that is missing.
type Need = (Parameter, Parameter, fn() -> Sentence);

/// In the order in which they are checked.
pub(in crate::declaration) const NEEDS: &[Need] = &[
    (DiscoverGroups, GroupBy, || sentence![DiscoverGroups, " needs ", GroupBy, ": the column that names the group"]),
    (DiscoverGroups, SelectionDelta, || {
        sentence![
            DiscoverGroups,
            " needs ",
            SelectionDelta,
            ": the probability with which a group may be shown that one person alone has, such as 1e-9; it is part of the \
             promise, and nobody chooses it for you"
        ]
    }),
    (SelectionDelta, DiscoverGroups, || sentence![SelectionDelta, " needs ", DiscoverGroups, " beside it"]),
    (SelectEvery, DiscoverGroups, || sentence![SelectEvery, " needs ", DiscoverGroups, " beside it"]),
    (Floor, DiscoverGroups, || {
        sentence![Floor, " needs ", DiscoverGroups, ": declared groups are shown whoever is in them"]
    }),
    (MaxEventsPerStep, Person, || {
        sentence![MaxEventsPerStep, " needs ", Piece::All(&[Person, MaxEvents]), " beside it"]
    }),
    (MaxEvents, Person, || names_the_person(MaxEvents)),
    (MaxEventsPerGroup, Person, || names_the_person(MaxEventsPerGroup)),
    (MaxGroups, Person, || names_the_person(MaxGroups)),
    (MinGap, Person, || names_the_person(MinGap)),
    (MaxTotal, Person, || names_the_person(MaxTotal)),
    (MaxTotal, Value, || sentence![MaxTotal, " needs ", Value, ": the column whose values it bounds"]),
    (Per, Person, || names_the_person(Per)),
    (MaxEventsPerGroup, GroupBy, || bounds_groups(MaxEventsPerGroup)),
    (MaxGroups, GroupBy, || bounds_groups(MaxGroups)),
    (Value, Bounds, || {
        sentence![Value, " needs ", Piece::Example(Bounds), ": the least and greatest value of one event"]
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
            Piece::Any(&[Groups, GroupsFile, DiscoverGroups]),
            ": groups are declared, because one that appears only when the data has it tells that someone is in it; or, for \
             a δ, discovered"
        ]
    }),
];

fn names_the_person(bound: Parameter) -> Sentence {
    sentence![bound, " needs ", Person, ": the column that names the person"]
}

/// Items of a sketch share its cells, so that no bound on those of an item would bound a cell.
fn bounds_groups(bound: Parameter) -> Sentence {
    sentence![bound, " needs ", GroupBy, ": it bounds a person's events by group"]
}

/// What is said where groups are declared, and no column that names them.
pub fn groups_need_columns() -> Sentence {
    sentence![Piece::All(&[Groups, GroupsFile, Rest]), " need ", GroupBy, ": the column that names the group"]
}
