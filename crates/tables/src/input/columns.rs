//! Finds wanted columns in the schema of a table, also inside of its structs.
//!
//! `actor.login` is the column of this name, or the field `login` of the struct column `actor`.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, FieldRef, Fields};

use super::header;
use evertally_declare::error::InputError;

/// The maximum number of names in a message.
const MAX_NAMES: usize = 1000;

/// A wanted column.
#[derive(Clone, Debug)]
pub(super) struct WantedColumn {
    /// Its name in the declaration.
    pub(super) name: String,
    /// Its position: of a top-level column, then of fields inside of structs.
    pub(super) places: Vec<usize>,
    /// The names at these positions, each of which occurs once in its struct.
    pub(super) keys: Vec<String>,
}

/// The wanted columns, each of which must occur exactly once.
pub(super) fn locate(file: &str, wanted: &[String], fields: &Fields) -> Result<Vec<WantedColumn>, InputError> {
    wanted.iter().map(|name| locate_one(file, name, fields)).collect()
}

fn locate_one(file: &str, wanted: &str, fields: &Fields) -> Result<WantedColumn, InputError> {
    let mut found = Vec::new();
    find(fields, wanted, &mut Vec::new(), &mut found);
    let places = match &found[..] {
        [places] => places.clone(),
        [] => {
            let names = names_of(fields);
            return Err(header::missing_column(file, wanted, &names.iter().map(String::as_str).collect::<Vec<_>>()));
        }
        [first, second, ..] => {
            let place = |places: &[usize]| match places {
                [place] => format!("column {}", place + 1),
                _ => format!("a field in column {}", places[0] + 1),
            };
            return Err(header::repeated_column(file, wanted, &format!("{} and {}", place(first), place(second))));
        }
    };
    let (mut keys, mut level) = (Vec::new(), Some(fields));
    for place in &places {
        let fields = level.expect("a struct");
        let name = fields[*place].name();
        if let Some(other) = (0..fields.len()).find(|other| other != place && fields[*other].name() == name) {
            let places = format!("columns {} and {}", place + 1, other + 1);
            return Err(header::repeated_column(file, name, &places));
        }
        keys.push(name.clone());
        level = inside(&fields[*place]);
    }
    Ok(WantedColumn { name: wanted.to_owned(), places, keys })
}

/// The other columns whose name occurs once.
pub(super) fn others(wanted: &[WantedColumn], fields: &Fields) -> Vec<WantedColumn> {
    let is_other = |place: &usize| wanted.iter().all(|column| column.places != [*place]);
    let names: Vec<String> = fields.iter().map(|field| field.name().clone()).collect();
    let found = (0..fields.len()).filter(is_other).map(|place| locate_one("", &names[place], fields));
    found.filter_map(Result::ok).collect()
}

/// The fields of a struct.
fn inside(field: &FieldRef) -> Option<&Fields> {
    if let DataType::Struct(fields) = field.data_type() { Some(fields) } else { None }
}

/// Collects the positions of all fields with a name.
fn find(fields: &Fields, wanted: &str, above: &mut Vec<usize>, found: &mut Vec<Vec<usize>>) {
    for (place, field) in fields.iter().enumerate() {
        let Some(rest) = wanted.strip_prefix(field.name().as_str()) else { continue };
        above.push(place);
        if rest.is_empty() {
            found.push(above.clone());
        } else if let (Some(rest), Some(fields)) = (rest.strip_prefix('.'), inside(field)) {
            find(fields, rest, above, found);
        }
        above.pop();
    }
}

/// The names of all columns, with those inside of structs instead of the structs.
pub(super) fn names_of(fields: &Fields) -> Vec<String> {
    fn collect(fields: &Fields, prefix: &str, names: &mut Vec<String>) {
        for field in fields.iter().take(MAX_NAMES.saturating_sub(names.len())) {
            let name = format!("{prefix}{}", field.name());
            match inside(field) {
                Some(fields) => collect(fields, &format!("{name}."), names),
                None => names.push(name),
            }
        }
    }
    let mut names = Vec::new();
    collect(fields, "", &mut names);
    names
}

impl WantedColumn {
    /// Its field and values in a batch, and the rows whose structs around the value are not null.
    pub(super) fn of(&self, batch: &RecordBatch) -> Option<(FieldRef, ArrayRef, Option<NullBuffer>)> {
        let (first, inner) = self.keys.split_first()?;
        let place = batch.schema_ref().fields().find(first)?.0;
        let (mut field, mut array) = (batch.schema_ref().fields()[place].clone(), batch.column(place).clone());
        let mut present = None;
        for key in inner {
            present = NullBuffer::union(present.as_ref(), array.nulls());
            let structs = array.as_struct_opt()?;
            let place = structs.fields().find(key)?.0;
            (field, array) = (structs.fields()[place].clone(), structs.column(place).clone());
        }
        Some((field, array, present))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::Field;
    use std::sync::Arc;

    fn fields(names: &[&str], structs: &[(&str, &[&str])]) -> Fields {
        let text = |name: &&str| Field::new(*name, DataType::Utf8, true);
        let inside = structs.iter().map(|(name, fields)| {
            let fields = fields.iter().map(text).collect::<Vec<_>>();
            Field::new(*name, DataType::Struct(fields.into()), true)
        });
        names.iter().map(text).chain(inside).map(Arc::new).collect()
    }

    #[test]
    fn a_name_has_one_place() {
        let of = |wanted: &str, fields: &Fields| {
            locate("f", &[wanted.to_owned()], fields).map(|found| found[0].places.clone()).map_err(|e| e.to_string())
        };
        let nested = fields(&["time", "a.b"], &[("actor", &["login", "a.b"]), ("empty", &[])]);
        assert_eq!(of("time", &nested).unwrap(), [0]);
        assert_eq!(of("a.b", &nested).unwrap(), [1]);
        assert_eq!(of("actor.login", &nested).unwrap(), [2, 0]);
        assert_eq!(of("actor.a.b", &nested).unwrap(), [2, 1]);
        assert_eq!(of("actor", &nested).unwrap(), [2]); // refused by its type
        let missing = of("login", &nested).unwrap_err();
        assert!(missing.contains("did you mean `actor.login`?"), "{missing}");
        for absent in ["actor.", "actor.login.x", ".time", "time.x", "empty.x"] {
            assert!(of(absent, &nested).unwrap_err().contains("no column"), "{absent}");
        }
        let twice = of("actor.login", &fields(&["actor.login"], &[("actor", &["login"])])).unwrap_err();
        assert!(twice.contains("two columns named `actor.login` (column 1 and a field in column 2)"), "{twice}");
        let twice = of("actor.login", &fields(&[], &[("actor", &["login"]), ("actor", &["id"])])).unwrap_err();
        assert!(twice.contains("two columns named `actor` (columns 1 and 2)"), "{twice}");
    }
}
