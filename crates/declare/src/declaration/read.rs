//! Declarations from JSON: those of services, and keyword arguments.

use super::table::Declaration;
use super::{Parameter, Use, ValueKind};
use crate::problem::{Problem, Wording, sentence};
use crate::words::quoted;
use serde_json::{Map, Value};

/// The known name that is most similar to an unknown one, if any is close.
pub fn near<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let likeness = |known: &'n str| (strsim::jaro_winkler(known, name), known);
    let near = known.into_iter().map(likeness).filter(|(likeness, _)| *likeness > 0.8);
    near.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, known)| known)
}

impl Declaration {
    /// The declaration in a JSON object, as a service receives it.
    ///
    /// # Errors
    /// If the text is not a JSON object, or has an unknown name or a value of the wrong type.
    ///
    /// ```
    /// use evertally_declare::declaration::Declaration;
    /// let declared = Declaration::from_json(r#"{"start": "2024-01-01", "every": "1d", "steps": 366, "epsilon": 1}"#)?;
    /// assert_eq!(declared.steps, Some(366));
    /// let problem = Declaration::from_json(r#"{"strat": "2024-01-01"}"#).unwrap_err();
    /// assert_eq!(problem.to_string(), "there is no `strat`; did you mean `start`?");
    /// # Ok::<(), evertally_declare::problem::Problem>(())
    /// ```
    pub fn from_json(text: &str) -> Result<Self, Problem> {
        let object = serde_json::from_str(text).map_err(|e| Problem::new(format!("this is not a JSON object: {e}")))?;
        Self::from_names(object, Wording::Json)
    }

    /// The declaration from names and values. The names are written as in a front end: as keyword arguments, with
    /// underscores, or as in files and services. Null means no value.
    ///
    /// # Errors
    /// If a name is unknown or a value has the wrong type.
    pub fn from_names(values: Map<String, Value>, wording: Wording) -> Result<Self, Problem> {
        let mut declared = Self::default();
        for (name, value) in values {
            let parameter = named(&name, wording).ok_or_else(|| unknown(&name, wording))?;
            if parameter.kind() == ValueKind::Whole && !value.is_null() && value.as_u64().is_none() {
                let problem = format!(": {}", not_whole(&value));
                return Err(Problem::for_parameter(parameter, sentence![parameter, problem]));
            }
            let put = declared.put(parameter, value);
            put.map_err(|problem| Problem::for_parameter(parameter, sentence![parameter, format!(": {problem}")]))?;
        }
        Ok(declared)
    }
}

/// The problem with a value that should be a whole number. A number beyond 64 bits was read as a floating-point number,
/// which no longer shows the digits that were written.
fn not_whole(value: &Value) -> String {
    const BEYOND: f64 = 18_446_744_073_709_551_616.0; // 2^64
    match value.as_f64() {
        Some(number) if number >= BEYOND => format!("it is more than {}", u64::MAX),
        Some(number) if number <= -BEYOND => "it is less than 0".to_owned(),
        _ => format!("{value} is not a whole number from 0 to 2^64 - 1"),
    }
}

/// The parameters of a declaration and their names in a front end.
fn names(wording: Wording) -> impl Iterator<Item = (String, Parameter)> {
    let name = move |parameter: Parameter| match wording {
        Wording::Keywords => parameter.keyword(),
        Wording::Fields => parameter.python_field(),
        Wording::Flags | Wording::Toml | Wording::Json => Some(parameter.name().to_owned()),
    };
    let declared = Parameter::all().filter(|parameter| parameter.is_declared());
    declared.filter_map(move |parameter| Some((name(parameter)?, parameter)))
}

fn named(name: &str, wording: Wording) -> Option<Parameter> {
    names(wording).find(|(known, _)| known == name).map(|(_, parameter)| parameter)
}

fn unknown(name: &str, wording: Wording) -> Problem {
    let known: Vec<String> = names(wording).map(|(known, _)| known).collect();
    let problem = Problem::new(format!("there is no {}", quoted(name)));
    match near(name, known.iter().map(String::as_str)) {
        Some(near) => problem.remedy(format!("did you mean {}?", quoted(near))),
        None => problem,
    }
}

/// The problem with a name in a configuration file that a command does not have; `None` if it has the name.
pub fn unknown_in_file(name: &str, user: Use) -> Option<Problem> {
    let known = Parameter::used_by(user).filter(|parameter| *parameter != Parameter::Config);
    let known: Vec<&str> = known.map(Parameter::name).collect();
    if known.contains(&name) {
        return None;
    }
    let problem = Problem::new(format!("there is no flag --{name} that {} could set", quoted(name)));
    Some(match near(name, known) {
        Some(near) => problem.remedy(format!("did you mean {}?", quoted(near))),
        None => problem,
    })
}
