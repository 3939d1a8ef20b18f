//! The declared groups of a release, and the group of each event.

mod short_name;

use crate::error::{PipelineError, Result};
use crate::event::{ColumnRole, Event, Field};
use crate::identity::Identities;
use crate::parameter::Parameter::{
    GroupBy, Groups as GroupNames, GroupsFile, Rest, RestScale, Scales as ScalesOf, UnknownGroup,
};
use crate::problem::{Problem, Sentence, SentencePart, sentence};
use crate::scales::{Scales, scaled};
use crate::tuples::{encode, push_encoded};
use crate::words::quoted;
use evertally::number::Grid;
use evertally::stream::Groups;
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use short_name::ShortName;

/// Scales by the names of groups.
type ScalesByName = HashMap<Vec<String>, Grid>;

/// Up to this number of groups, comparing texts is faster than hashing.
const MAX_LINEAR_SEARCH: usize = 8;

/// Declared groups: tuples of texts, one text per column, and optionally a rest.
#[derive(Clone, Debug)]
pub struct GroupTable {
    columns: Vec<String>,
    tuples: Vec<Vec<String>>,
    /// See [`short_names`].
    short: Vec<ShortName>,
    /// The rules by which cells become names of groups.
    ids: Identities,
    /// The place of each tuple, by the injective encoding of its identities.
    places: HashMap<Vec<u8>, usize>,
    rest: Option<usize>,
    /// The factor that multiplies the bounds of each group.
    scales: Vec<Grid>,
    scratch: Vec<u8>,
    text: String,
}

/// The groups of a stream that has begun.
pub struct RecordedGroups {
    /// All groups, in the order in which they are released.
    pub table: GroupTable,
    /// The number of groups that it began with.
    pub first: usize,
    /// The number of groups released so far; the groups after these join now.
    pub present: usize,
}

impl GroupTable {
    /// From a list of names for one column.
    pub fn from_names(
        columns: Vec<String>,
        names: Vec<String>,
        rest: Option<String>,
        ids: Identities,
    ) -> Result<Self, Problem> {
        if columns.len() != 1 {
            let there_are = format!(" column, but there are {}", columns.len());
            return Err(Problem::new(sentence![GroupNames, " lists names for one ", GroupBy, there_are])
                .remedy(SentencePart::Where(GroupsFile, sentence!["use ", GroupsFile], "list tuples".into())));
        }
        Self::new(columns, names.into_iter().map(|name| vec![name]).collect(), rest, ids)
    }

    /// From a list of tuples, one text for each column.
    pub fn from_tuples(
        columns: Vec<String>,
        tuples: Vec<Vec<String>>,
        rest: Option<String>,
        ids: Identities,
    ) -> Result<Self, Problem> {
        if let Some(tuple) = tuples.iter().find(|tuple| tuple.len() != columns.len()) {
            let (has, columns) = (tuple.len(), columns.len());
            let group = format!("group ({}) has {has} names, but there are {columns} ", tuple.join(", "));
            return Err(Problem::new(sentence![group, GroupBy, " columns"]));
        }
        Self::new(columns, tuples, rest, ids)
    }

    fn new(
        columns: Vec<String>,
        mut tuples: Vec<Vec<String>>,
        rest: Option<String>,
        ids: Identities,
    ) -> Result<Self, Problem> {
        if tuples.is_empty() {
            return Err(Problem::new("no group is declared; groups are never taken from the data"));
        }
        let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
        for (place, tuple) in tuples.iter().enumerate() {
            if let Some(name) = tuple.iter().find(|name| name.trim() != *name) {
                let remedy = SentencePart::Where(
                    GroupsFile,
                    sentence!["separate names by commas alone, and put names that contain a comma into a ", GroupsFile],
                    "separate names by commas alone, and give a list of names".into(),
                );
                let problem = format!("group {} begins or ends with a blank", quoted(name));
                return Err(Problem::new(problem).remedy(remedy));
            }
            if tuple.iter().any(String::is_empty) {
                return Err(Problem::new("a declared group has an empty name"));
            }
            if let Some(first) = places.insert(identity_of(tuple, ids)?, place) {
                return Err(declared_twice(&tuples[first], tuple));
            }
        }
        let rest_tuple = rest.map(|name| vec![name; columns.len()]);
        if let Some(tuple) = &rest_tuple
            && (tuple[0].is_empty() || identity_of(tuple, ids).is_ok_and(|name| places.contains_key(&name)))
        {
            let taken = format!(" {} is empty or the name of a declared group", quoted(&tuple[0]));
            return Err(Problem::new(sentence![Rest, taken]));
        }
        let rest = rest_tuple.map(|tuple| {
            tuples.push(tuple);
            tuples.len() - 1
        });
        let scales = vec![Grid::ONE; tuples.len()];
        let short = short_names(&tuples);
        Ok(Self { columns, tuples, short, ids, places, rest, scales, scratch: Vec::new(), text: String::new() })
    }

    /// The groups with these scales: one for each declared group, and one for the rest; 1 by default.
    ///
    /// # Errors
    /// If there are more or fewer scales than groups, or a scale for a missing rest.
    pub fn with_scales(mut self, scales: Option<Vec<Grid>>, rest: Option<Grid>) -> Result<Self, Problem> {
        let declared = self.tuples.len() - usize::from(self.rest.is_some());
        if let Some(scales) = scales {
            if scales.len() != declared {
                let problem = format!(" has {} numbers, but there are {declared} groups", scales.len());
                let remedy = sentence!["give one for each group, in their order; the scale of the rest is ", RestScale];
                return Err(Problem::for_parameter(ScalesOf, sentence![ScalesOf, problem]).remedy(remedy));
            }
            self.scales[..declared].copy_from_slice(&scales);
        }
        match (rest, self.rest) {
            (Some(scale), Some(place)) => self.scales[place] = scale,
            (Some(_), None) => {
                return Err(Problem::for_parameter(
                    RestScale,
                    sentence![RestScale, " needs ", Rest, ": the name of the rest"],
                ));
            }
            (None, _) => {}
        }
        Ok(self)
    }

    /// A table from all tuples in the order in which they are released, the place of the rest, and the scales.
    fn in_order(
        columns: Vec<String>,
        tuples: Vec<Vec<String>>,
        rest: Option<usize>,
        scales: &ScalesByName,
        ids: Identities,
    ) -> Self {
        let named = tuples.iter().enumerate().filter(|(place, _)| Some(*place) != rest);
        let identity = |tuple| identity_of(tuple, ids).expect("checked when the group was declared");
        let places = named.map(|(place, tuple)| (identity(tuple), place)).collect();
        let scales = tuples.iter().map(|tuple| scales.get(tuple).copied().unwrap_or(Grid::ONE)).collect();
        let short = short_names(&tuples);
        Self { columns, tuples, short, ids, places, rest, scales, scratch: Vec::new(), text: String::new() }
    }

    /// The scales by name. The names of all groups, including the rest, are distinct.
    fn scale_of(&self) -> ScalesByName {
        self.tuples.iter().cloned().zip(self.scales.iter().copied()).collect()
    }

    /// The first `count` groups in the order in which they are released: the table before other groups joined.
    #[must_use]
    pub fn first(&self, count: usize) -> Self {
        let rest = self.rest.filter(|place| *place < count);
        Self::in_order(self.columns.clone(), self.tuples[..count].to_vec(), rest, &self.scale_of(), self.ids)
    }

    /// Only the groups in these places, in the given order.
    pub fn chosen(&self, places: impl Iterator<Item = usize>) -> Self {
        let places: Vec<usize> = places.collect();
        let rest = self.rest.and_then(|rest| places.iter().position(|place| *place == rest));
        let scales = places.iter().map(|place| (self.tuples[*place].clone(), self.scales[*place])).collect();
        let tuples = places.into_iter().map(|place| self.tuples[place].clone()).collect();
        Self::in_order(self.columns.clone(), tuples, rest, &scales, self.ids)
    }

    /// The groups in the order of a stream that has begun: the groups that it began with, their rest, the groups that
    /// joined since, and last the groups that join now.
    ///
    /// `meaning` is the entry of the stream's plan about groups, and `rest` tells whether it had a rest.
    ///
    /// # Errors
    /// If a group that is released already is missing or out of order.
    pub fn as_recorded(self, meaning: &str, rest: bool, joined: &[Joined]) -> Result<RecordedGroups, Problem> {
        let count: usize = meaning.split(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0);
        let own_rest = self.rest.map(|place| self.tuples[place].clone());
        let (scales, ids) = (self.scale_of(), self.ids);
        let mut declared = self.tuples;
        if let Some(place) = self.rest {
            declared.remove(place);
        }
        let first = count.saturating_sub(usize::from(rest)).min(declared.len());
        let mut later = declared.split_off(first).into_iter();
        let mut begun = Self::in_order(self.columns, declared, None, &scales, ids);
        let put_rest = |table: Self| -> Result<Self, Problem> {
            let tuple = own_rest.clone().ok_or_else(|| {
                Problem::new(sentence![Rest, " is missing: its group is released already and must continue"])
            })?;
            let place = table.tuples.len();
            Ok(Self::in_order(table.columns, [table.tuples, vec![tuple]].concat(), Some(place), &scales, ids))
        };
        if rest {
            begun = put_rest(begun)?;
        }
        if begun.meaning() != meaning {
            let plain = scales.values().all(|scale| *scale == Grid::ONE);
            let order = if plain { "in their original order" } else { "in their original order and with their scales" };
            let problem = format!("existing groups must come first, {order}, followed by new ones");
            return Err(Problem::new(problem).remedy("declare the groups that this stream began with"));
        }
        let count = begun.tuples.len();
        let mut table = begun;
        for step in joined {
            let named = step.groups.len() - usize::from(step.rest);
            let next: Vec<Vec<String>> = later.by_ref().take(named).collect();
            if next[..] != step.groups[..named] {
                let names: Vec<String> = step.groups[..named].iter().map(|tuple| tuple.join(", ")).collect();
                let problem =
                    format!("{} joined this stream earlier and must keep its position", quoted(&names.join("; ")));
                return Err(Problem::new(problem).remedy("new groups come after all others"));
            }
            table = Self::in_order(table.columns, [table.tuples, next].concat(), table.rest, &scales, ids);
            if step.rest {
                if own_rest.is_some() && own_rest.as_ref() != step.groups.last() {
                    let name = quoted(&step.groups[named].join(", "));
                    return Err(Problem::new(sentence![
                        Rest,
                        format!(" joined this stream as {name} and must keep this name")
                    ]));
                }
                table = put_rest(table)?;
            }
            let began = table.tuples.len() - step.groups.len();
            if table.scales_after(began) != step.scales {
                let names: Vec<String> = step.groups.iter().map(|tuple| tuple.join(", ")).collect();
                let problem =
                    format!("{} joined this stream with other scales and must keep them", quoted(&names.join("; ")));
                return Err(Problem::new(problem).remedy("use another stream for other scales"));
            }
        }
        let present = table.tuples.len();
        let tuples = table.tuples.into_iter().chain(later).collect();
        let mut table = Self::in_order(table.columns, tuples, table.rest, &scales, ids);
        if table.rest.is_none() && own_rest.is_some() {
            table = put_rest(table)?;
        }
        Ok(RecordedGroups { table, first: count, present })
    }

    /// The entry of a plan about the groups, besides their columns and rest.
    pub fn meaning(&self) -> String {
        format!("{} (digest {})", self.tuples.len(), self.digest())
    }

    /// The groups after the first `present`, as a ledger records that they joined after a step; `None` if there are
    /// no such groups.
    pub fn joining(&self, present: usize, after: u64) -> Option<Joined> {
        let groups = self.tuples[present..].to_vec();
        let rest = self.rest.is_some_and(|place| place >= present);
        let scales = self.scales_after(present);
        (!groups.is_empty()).then_some(Joined { after, run: 0, groups, scales, rest })
    }

    /// The scales of the groups after the first `present`; empty if all are 1.
    fn scales_after(&self, present: usize) -> Vec<Grid> {
        let scales = &self.scales[present..];
        if scales.iter().all(|scale| *scale == Grid::ONE) { Vec::new() } else { scales.to_vec() }
    }

    /// The factor that multiplies the bounds of each group.
    pub fn scales(&self) -> &[Grid] {
        &self.scales
    }

    /// The grid of one group, given the grid of scale 1.
    ///
    /// # Panics
    /// If it has too many digits; [`grids`](Self::grids) checks this.
    #[inline]
    pub fn grid_of(&self, place: usize, grid: Grid) -> Grid {
        match self.scales[place] {
            Grid::ONE => grid,
            scale => grid.times(scale).expect("checked when the groups were declared"),
        }
    }

    /// The grid of each group, given the grid of scale 1.
    ///
    /// # Errors
    /// If a grid has too many digits.
    pub fn grids(&self, grid: Grid) -> Result<Vec<Grid>, Problem> {
        self.scales.iter().map(|scale| scaled(grid, *scale)).collect()
    }

    /// The columns that name the group.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The texts of every group, in declared order: first the declared groups, then the rest, then later groups.
    pub fn tuples(&self) -> &[Vec<String>] {
        &self.tuples
    }

    /// The name of the rest, the group of all undeclared groups, if there is one.
    pub fn rest_name(&self) -> Option<&str> {
        self.rest.map(|place| self.tuples[place][0].as_str())
    }

    /// The library's groups. The rest is marked so that it cannot equal a declared tuple.
    pub fn to_library(&self) -> Result<Groups> {
        Ok(Groups::new(self.library_names())?)
    }

    /// The names of the groups in the library.
    pub fn library_names(&self) -> Vec<Vec<u8>> {
        let name = |(place, tuple): (usize, &Vec<String>)| {
            let mark = u8::from(self.rest == Some(place));
            [vec![mark], encode(tuple)].concat()
        };
        self.tuples.iter().enumerate().map(name).collect()
    }

    /// The digest of all declared groups and their scales, for the plan.
    pub fn digest(&self) -> String {
        let mut hasher = blake3::Hasher::new_derive_key("evertally 1 groups of a plan");
        let mut absorb = |field: &[u8]| {
            hasher.update(&(field.len() as u64).to_le_bytes()).update(field);
        };
        for (tuple, scale) in self.tuples.iter().zip(&self.scales) {
            absorb(&encode(tuple));
            absorb(scale.to_string().as_bytes());
        }
        hasher.finalize().to_hex()[..32].to_owned()
    }

    /// The facts about the groups for the report.
    pub fn facts(&self) -> GroupFacts {
        GroupFacts {
            columns: self.columns.clone(),
            declared: self.tuples.len() - usize::from(self.rest.is_some()),
            rest: self.rest_name().map(str::to_owned),
            scales: Some(Scales::new(&self.scales, Grid::ONE)).filter(Scales::are_declared),
            joined: Vec::new(),
        }
    }

    /// The place of an event's group; `None` if its group is not declared and there is no rest.
    ///
    /// # Errors
    /// If a label is a number that may have been rounded.
    pub fn place_of(&mut self, event: &Event<'_>) -> Result<Option<usize>> {
        // Comparing a few texts is faster than hashing one. A text equal to a declared one has the same identity.
        if self.tuples.len() <= MAX_LINEAR_SEARCH
            && event.label_count() == 1
            && let Field::Text(text) | Field::Number(text) = event.label(0)
            && let Some(place) = self.position(text)
            && Some(place) != self.rest
        {
            return Ok(Some(place));
        }
        self.scratch.clear();
        for column in 0..event.label_count() {
            let name = event.identity(ColumnRole::Label(column), self.ids, &mut self.text)?;
            push_encoded(&mut self.scratch, name.unwrap_or(""));
        }
        Ok(self.places.get(self.scratch.as_slice()).copied().or(self.rest))
    }

    /// The place of the group of one column with this text as its name.
    #[inline]
    fn position(&self, text: &str) -> Option<usize> {
        if self.short.is_empty() {
            return self.tuples.iter().position(|tuple| tuple[0] == text);
        }
        let text = ShortName::new(text)?;
        self.short.iter().position(|name| *name == text)
    }

    /// The error for an event of an undeclared group.
    pub fn unknown(&self, event: &Event<'_>) -> PipelineError {
        let names: Vec<String> = event.labels().map(|field| field.to_string()).collect();
        let is_missing = |field| matches!(self.ids.of(field, &mut String::new()), Ok(None));
        let problem = match event.labels().any(is_missing) {
            true => "the event has no group".to_owned(),
            false => format!("{} is not a declared group", quoted(&names.join(", "))),
        };
        let declare = SentencePart::Any(&[GroupNames, GroupsFile]);
        let remedy = sentence![
            "declare it with ",
            declare,
            ", or give ",
            Rest,
            " a name for all undeclared groups",
            SentencePart::Where(
                UnknownGroup,
                sentence![", or skip such events with ", (UnknownGroup, "skip")],
                "".into()
            )
        ];
        event.error(ColumnRole::Label(0), problem).remedy(remedy).into()
    }
}

/// The names of the groups of one column if they are few and all are short; otherwise none.
fn short_names(tuples: &[Vec<String>]) -> Vec<ShortName> {
    let name = |tuple: &Vec<String>| if let [name] = &tuple[..] { ShortName::new(name) } else { None };
    let few = tuples.len() <= MAX_LINEAR_SEARCH;
    if few { tuples.iter().map(name).collect::<Option<_>>().unwrap_or_default() } else { Vec::new() }
}

/// The identity of a group, from the identities of its cells.
fn identity_of(tuple: &[String], ids: Identities) -> Result<Vec<u8>, Problem> {
    let name = |name: &String| ids.canonical_name(name).map_err(|why| Problem::new(Sentence::from("group ").then(why)));
    tuple.iter().map(name).collect::<Result<Vec<_>, _>>().map(|names| encode(&names))
}

fn declared_twice(first: &[String], second: &[String]) -> Problem {
    let [first, second] = [first, second].map(|tuple| quoted(&tuple.join(", ")));
    if first == second {
        return Problem::new(format!("group {first} is declared twice"));
    }
    let problem = format!("group {second} is declared twice: {first} is another spelling of it");
    let remedy = "name only one of them; if they are different texts, prefix them with a letter, as in v1.10";
    Problem::new(problem).remedy(remedy)
}

/// The declared groups.
#[derive(Debug, Serialize, Deserialize)]
pub struct GroupFacts {
    /// The columns that name the group.
    pub columns: Vec<String>,
    /// The number of declared groups, without the rest.
    pub declared: usize,
    /// The name under which all undeclared groups are released, if they are.
    pub rest: Option<String>,
    /// The factors that multiply the bounds of values of each group, and so its noise, if not all are 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scales: Option<Scales>,
    /// The groups that joined after the first step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub joined: Vec<LaterGroups>,
}

/// Groups whose counts begin after the first step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaterGroups {
    /// The beginning of their counts, in words.
    pub since: String,
    /// Their names, one text for each group column.
    pub groups: Vec<Vec<String>>,
}

/// Groups that joined a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Joined {
    /// The last step that was closed without them.
    pub after: u64,
    /// The number of the run with which they joined.
    pub run: u64,
    /// Their names, one text for each group column.
    pub groups: Vec<Vec<String>>,
    /// The factors that multiply their bounds, if not all are 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scales: Vec<Grid>,
    /// Whether the last of them is the rest: all groups that are not declared.
    pub rest: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_join_behind_those_that_are_there() {
        let one = |names: &[&str], rest: Option<&str>| {
            GroupTable::from_names(texts(&["g"]), texts(names), rest.map(str::to_owned), Identities::default()).unwrap()
        };
        let names = |table: &GroupTable| table.tuples().iter().map(|tuple| tuple[0].clone()).collect::<Vec<_>>();
        let meaning = one(&["b", "a"], Some("other")).meaning();
        let joined = |groups: &[&str], rest| Joined {
            after: 3,
            run: 0,
            groups: groups.iter().map(|g| texts(&[g])).collect(),
            scales: Vec::new(),
            rest,
        };
        let begun =
            one(&["b", "a", "c", "d"], Some("other")).as_recorded(&meaning, true, &[joined(&["c"], false)]).unwrap();
        assert_eq!((names(&begun.table), begun.first, begun.present), (texts(&["b", "a", "other", "c", "d"]), 3, 4));
        assert_eq!(begun.table.joining(4, 9), Some(Joined { after: 9, ..joined(&["d"], false) }));
        assert_eq!(begun.table.joining(5, 9), None);
        assert_eq!(names(&begun.table.first(3)), ["b", "a", "other"]);
        assert_eq!(begun.table.first(3).meaning(), meaning);
        let refused = |table: GroupTable, rest, joined: &[Joined]| table.as_recorded(&meaning, rest, joined).is_err();
        assert!(refused(one(&["a", "b", "c"], Some("other")), true, &[]), "another order");
        assert!(refused(one(&["b"], Some("other")), true, &[]), "one is missing");
        assert!(refused(one(&["b", "a"], None), true, &[]), "the rest is missing");
        assert!(refused(one(&["b", "a"], Some("others")), true, &[]), "the rest has another name");
        assert!(refused(one(&["b", "a", "d"], Some("other")), true, &[joined(&["c"], false)]), "c must stay");
        // A rest that joins later.
        let meaning = one(&["b"], None).meaning();
        let begun = one(&["b", "c"], Some("other")).as_recorded(&meaning, false, &[]).unwrap();
        assert!(begun.table.joining(begun.present, 2).unwrap().rest);
        let joined = begun.table.joining(begun.present, 2).unwrap();
        let later = one(&["b", "c", "d"], Some("other")).as_recorded(&meaning, false, &[joined]).unwrap();
        assert_eq!((names(&later.table), later.present), (texts(&["b", "c", "other", "d"]), 3));
        assert_eq!(later.table.rest_name(), Some("other"));
        assert_eq!(later.table.first(1).rest_name(), None);
    }

    fn texts(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn ambiguous_declarations_are_refused() {
        let one = |names: &[&str], rest: Option<&str>| {
            GroupTable::from_names(texts(&["g"]), texts(names), rest.map(str::to_owned), Identities::default())
                .err()
                .map(|e| e.to_string())
        };
        assert_eq!(one(&["a", "b"], Some("other")), None);
        assert!(one(&["a", "a"], None).unwrap().contains("twice"));
        assert!(one(&[], None).unwrap().contains("no group"));
        assert!(one(&["a", " b"], None).unwrap().contains("blank"));
        assert!(one(&["a", ""], None).unwrap().contains("empty"));
        assert!(one(&["a"], Some("a")).unwrap().contains("--rest"));
        assert!(GroupTable::from_names(texts(&["g", "h"]), texts(&["a"]), None, Identities::default()).is_err());
    }

    #[test]
    fn tuples_never_meet() {
        let tuples = vec![texts(&["a", "b"]), texts(&["a", "ab"]), texts(&["aa", "b"])];
        let table =
            GroupTable::from_tuples(texts(&["g", "h"]), tuples, Some("a".into()), Identities::default()).unwrap();
        assert_eq!(table.tuples()[0], texts(&["a", "b"]));
        assert_eq!(table.to_library().unwrap().len(), 4);
    }

    /// Few groups and many, of texts and of numbers, with a rest and without: each event has the place of its name.
    #[test]
    fn events_have_the_place_of_their_name() {
        struct Cell<'c>(Field<'c>);
        impl crate::event::Cells for Cell<'_> {
            fn cell(&self, _: usize) -> Field<'_> {
                self.0
            }
        }
        let columns = crate::event::Columns { labels: texts(&["g"]), time: "g".into(), ..Default::default() };
        let layout = crate::event::ColumnLayout::new(&columns);
        for (count, rest) in
            [(3, None), (3, Some("other")), (MAX_LINEAR_SEARCH, Some("other")), (20, None), (20, Some("other"))]
        {
            let names = (0..count).map(|number| number.to_string()).collect();
            let mut table =
                GroupTable::from_names(texts(&["g"]), names, rest.map(str::to_owned), Identities::default()).unwrap();
            let mut place_of = |field: Field<'_>| {
                let position = crate::event::Position { file: "f", place: crate::error::Place::Row(1) };
                table.place_of(&Event::new(position, &Cell(field), &layout)).unwrap()
            };
            for number in 0..count {
                let name = number.to_string();
                assert_eq!(place_of(Field::Text(&name)), Some(number));
                assert_eq!(place_of(Field::Integer(number as i64)), Some(number));
            }
            let rest = rest.map(|_| count);
            for field in [Field::Text("00"), Field::Text("other"), Field::Text(""), Field::Integer(-1), Field::Missing]
            {
                assert_eq!(place_of(field), rest, "{field:?} of {count}");
            }
        }
    }
}
