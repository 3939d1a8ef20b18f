//! The columns of the input.

use super::super::table::Declaration;
use super::Result;
use crate::event::Columns;
use crate::parameter::Parameter::{self, Date, GroupBy, Person, Time, TimeOfDay, Value};
use crate::problem::{Problem, sentence};

impl Declaration {
    /// The columns in use; `labels` are those of groups or items.
    ///
    /// # Errors
    /// If a name is empty. Exports of data frames begin with a column without a name, the number of the row: as the
    /// person it would make every row another one.
    pub(super) fn columns(&self, labels: &[String]) -> Result<Columns> {
        let is_empty = |name: &Option<String>| name.as_ref().is_some_and(String::is_empty);
        let empty: Option<Parameter> = [
            (Time, is_empty(&self.time)),
            (Date, is_empty(&self.date)),
            (TimeOfDay, is_empty(&self.time_of_day)),
            (Person, is_empty(&self.person)),
        ]
        .into_iter()
        .chain([(Value, is_empty(&self.value)), (GroupBy, labels.iter().any(String::is_empty))])
        .find_map(|(parameter, is_empty)| is_empty.then_some(parameter));
        if let Some(parameter) = empty {
            let remedy = "name a column; if the file has no name for it, write one into its header first";
            return Err(Problem::for_parameter(parameter, sentence![parameter, " is empty"]).remedy(remedy));
        }
        Ok(Columns {
            time: self.date.as_ref().or(self.time.as_ref()).cloned().unwrap_or_else(|| "time".to_owned()),
            time_of_day: self.time_of_day.clone(),
            labels: labels.to_vec(),
            person: self.person.clone(),
            value: self.value.clone(),
            filter: self.r#where.as_ref().map_or(Vec::new(), |filter| filter.columns().to_vec()),
        })
    }
}
