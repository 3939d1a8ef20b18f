//! The declared groups of a release, from a CSV file.

use crate::failure::usage;
use anyhow::Result;
use evertally_declare::declaration::Parameter::ScaleColumn;
use evertally_declare::declaration::{Declaration, DeclaredGroups, Parameter, Value};
use evertally_declare::problem::sentence;
use evertally_declare::words::quoted;
use std::ffi::OsStr;
use std::path::Path;

/// Adds the groups listed in the groups file to the declaration, if a file is named. The combination was checked by
/// [`Written::check_groups_file`](evertally_declare::declaration::Written::check_groups_file).
///
/// A column of the file may contain their scales.
pub(crate) fn with_groups_of_file(
    mut declared: Declaration,
    path: Option<&Path>,
    scale_column: Option<&str>,
) -> Result<Declaration> {
    let Some(path) = path else { return Ok(declared) };
    let mut names = declared.group_by.clone().unwrap_or_default();
    names.extend(scale_column.map(str::to_owned));
    let mut tuples = read_groups(&names, path)?;
    if scale_column.is_some() {
        let cells: Vec<String> = tuples.iter_mut().filter_map(Vec::pop).collect();
        let cells: Vec<&OsStr> = cells.iter().map(AsRef::as_ref).collect();
        let problem = |problem| usage(sentence![ScaleColumn, format!(": {}: {problem}", path.display())]);
        declared.scales = Some(Value::read(&cells).map_err(problem)?);
    }
    declared.groups = Some(DeclaredGroups::Tuples(tuples));
    Ok(declared)
}

/// Reads these columns of every row of a CSV file.
fn read_groups(columns: &[String], path: &Path) -> Result<Vec<Vec<String>>> {
    let shown = path.display();
    let problem = |e: csv::Error| usage(sentence!["cannot read ", Parameter::GroupsFile, format!(" {shown}: {e}")]);
    let mut reader = csv::Reader::from_path(path).map_err(problem)?;
    let header = reader.headers().map_err(problem)?.clone();
    let place = |column: &String| {
        // A byte order mark belongs to the file, not to the first name.
        header.iter().position(|h| h.trim_start_matches('\u{feff}') == column).ok_or_else(|| {
            usage(format!(
                "{shown} has no column {}; it has {}",
                quoted(column),
                header.iter().collect::<Vec<_>>().join(", ")
            ))
        })
    };
    let places = columns.iter().map(place).collect::<Result<Vec<_>>>()?;
    let mut tuples = Vec::new();
    for record in reader.records() {
        let record = record.map_err(problem)?;
        tuples.push(places.iter().map(|&i| record[i].to_owned()).collect());
    }
    Ok(tuples)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evertally_declare::groups::GroupTable;

    fn texts(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn tuples_never_meet() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let table = |columns: &[&str], rest: Option<&str>| {
            let tuples = read_groups(&texts(columns), file.path())?;
            Ok::<_, anyhow::Error>(GroupTable::from_tuples(
                texts(columns),
                tuples,
                rest.map(str::to_owned),
                Default::default(),
            )?)
        };
        std::fs::write(&file, "\u{feff}h,g,x\r\nb,a,1\r\n\"\",ab,2\r\n").unwrap();
        let empty = table(&["g", "h"], None).err().unwrap();
        assert!(empty.to_string().contains("empty"));
        std::fs::write(&file, "\u{feff}h,g,x\r\nb,a,1\r\nab,a,2\r\nb,aa,3\r\n").unwrap();
        let found = table(&["g", "h"], Some("a")).unwrap();
        assert_eq!(found.tuples()[0], texts(&["a", "b"]));
        assert_eq!(found.to_library().unwrap().len(), 4);
        let missing = table(&["g", "y"], None).err().unwrap();
        assert!(missing.to_string().contains("has no column `y`"), "{missing}");
    }
}
