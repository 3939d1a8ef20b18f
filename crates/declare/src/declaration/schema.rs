//! The JSON Schema of a declaration, from the table.
//!
//! In addition to the standard keywords it contains the facts that generators of other front ends need: `x-order`, the
//! place in the table, `x-heading`, `x-uses`, and `x-keyword` and `x-field`, the parameter's names in
//! Python.

use super::Parameter::{
    AssertMaxEvents, AssertMaxEventsPerGroup, AssertMaxEventsPerStep, AssertMaxGroups, DiscoverGroups, GroupBy, Groups,
    MaxEvents, MaxEventsPerGroup, MaxEventsPerStep, MaxGroups, MaxTotal, Per, Person, UnitName,
};
use super::resolve::DEPENDENCIES;
use super::{Parameter, Use, ValueKind};
use crate::problem::Wording;
use serde_json::{Map, Value, json};

/// The JSON Schema (2020-12) of a [`Declaration`](super::Declaration).
///
/// `docs/declaration.schema.json` contains this schema; a test keeps the two equal.
pub fn schema() -> Value {
    let declared = || Parameter::all().filter(|parameter| parameter.is_declared());
    let properties: Map<String, Value> = declared().map(|p| (p.name().to_owned(), property(p))).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A stream of events that evertally releases",
        "description": "Everything is decided before seeing the data. Made from crates/declare/src/parameter/rows.rs: \
                        do not edit.",
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
        "required": ["start", "every"],
        "oneOf": [{ "required": ["end"] }, { "required": ["steps"] }],
        "dependentRequired": dependent(),
        "dependentSchemas": {
            Person.name(): any_of(&[
                &[MaxEvents],
                &[MaxEventsPerGroup, MaxGroups],
                &[MaxEventsPerStep, Per],
                &[MaxTotal],
            ]),
            GroupBy.name(): any_of(&[&[Groups], &[DiscoverGroups]]),
            Per.name(): any_of(OF_PERSONS),
            UnitName.name(): any_of(OF_PERSONS),
        },
    })
}

/// What makes persons the privacy unit: a column, or asserted bounds that imply a number of events.
const OF_PERSONS: &[&[Parameter]] =
    &[&[Person], &[AssertMaxEvents], &[AssertMaxEventsPerGroup, AssertMaxGroups], &[AssertMaxEventsPerStep, Per]];

/// At least one of these sets must be complete.
fn any_of(ways: &[&[Parameter]]) -> Value {
    let required = |way: &&[Parameter]| {
        let names: Vec<_> = way.iter().map(|parameter| parameter.name()).collect();
        json!({ "required": names })
    };
    json!({ "anyOf": ways.iter().map(required).collect::<Vec<_>>() })
}

/// The other parameters of a declaration that each parameter needs.
fn dependent() -> Value {
    let mut needs: Map<String, Value> = Map::new();
    for (what, needed, _) in DEPENDENCIES.iter().filter(|(what, needed, _)| !has_several_ways(*what, *needed)) {
        let list = needs.entry(what.name()).or_insert_with(|| json!([]));
        list.as_array_mut().expect("a list").push(json!(needed.name()));
    }
    needs.insert("delta".to_owned(), json!(["epsilon"]));
    needs.into()
}

/// Whether something else satisfies this dependency as well.
fn has_several_ways(what: Parameter, needed: Parameter) -> bool {
    [(GroupBy, Groups), (Per, Person), (UnitName, Person)].contains(&(what, needed))
}

fn property(parameter: Parameter) -> Value {
    let mut property = kind(parameter.kind());
    let mut put = |name: &str, value: Value| property.insert(name.to_owned(), value);
    put("description", parameter.about(Wording::Toml).into());
    if let Some(default) = parameter.default() {
        put("default", default_value(parameter.kind(), default));
    }
    if let Some(words) = parameter.default_in_words() {
        put("x-default", words.into());
    }
    if !parameter.placeholder().is_empty() {
        put("x-placeholder", parameter.placeholder().into());
    }
    put("x-order", (parameter as usize).into());
    if let Some(title) = parameter.heading().title() {
        put("x-heading", title.into());
    }
    if let Some(keyword) = parameter.keyword() {
        put("x-keyword", keyword.into());
    }
    if let Some(field) = parameter.python_field() {
        put("x-field", field.into());
    }
    put("x-uses", parameter.uses().iter().map(|user| user.name()).collect());
    property.into()
}

fn default_value(kind: ValueKind, text: &str) -> Value {
    match kind {
        ValueKind::Whole | ValueKind::WholeOrAll | ValueKind::Number => {
            text.parse().map_or_else(|_| text.into(), Value::Number)
        }
        _ => text.into(),
    }
}

fn kind(kind: ValueKind) -> Map<String, Value> {
    // The only item of a list may stand for the list.
    let texts = || json!({ "type": ["array", "string"], "items": { "type": "string" } });
    let tuple = json!({ "type": "array", "items": { "type": "string" } });
    let schema = match kind {
        ValueKind::Text | ValueKind::Width | ValueKind::Zone | ValueKind::Mechanism | ValueKind::Path => {
            json!({ "type": "string" })
        }
        ValueKind::Workloads => json!({ "anyOf": [{ "type": "string" }, tuple] }),
        ValueKind::Texts | ValueKind::Measures | ValueKind::Paths => texts(),
        ValueKind::Character => json!({ "type": "string", "minLength": 1, "maxLength": 1 }),
        ValueKind::Whole => json!({ "type": "integer", "minimum": 0 }),
        ValueKind::Number => json!({ "type": "number" }),
        ValueKind::Period | ValueKind::WholeOrAll => json!({ "type": ["string", "integer"] }),
        ValueKind::Decimal => json!({ "type": ["string", "number"] }),
        ValueKind::Decimals => {
            json!({ "type": "array", "items": { "type": ["string", "number"] }, "minItems": 2, "maxItems": 2 })
        }
        ValueKind::Scales => {
            json!({ "type": ["array", "string", "number"], "items": { "type": ["string", "number"] } })
        }
        ValueKind::Switch => json!({ "type": "boolean" }),
        ValueKind::Words(words) if words.iter().all(|word| word.help.is_empty()) => {
            json!({ "enum": words.iter().map(|word| word.word).collect::<Vec<_>>() })
        }
        ValueKind::Words(words) => json!({
            "oneOf": words.iter().map(|w| json!({ "const": w.word, "description": w.help })).collect::<Vec<_>>()
        }),
        ValueKind::Groups => json!({ "anyOf": [texts(), { "type": "array", "items": tuple }] }),
    };
    match schema {
        Value::Object(schema) => schema,
        _ => unreachable!("every kind is an object"),
    }
}

impl Use {
    /// Its name in schemas.
    fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Sketch => "sketch",
            Self::Table => "python release",
            Self::TablePlan => "python plan_release",
        }
    }
}
