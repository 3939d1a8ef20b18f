//! The reference page of all parameters (`docs/reference/options.md`), from the table.

use super::resolve::DEPENDENCIES;
use super::{Heading, Parameter, Use, ValueKind};
use serde_json::{Number, Value};
use std::fmt::Write;

/// Columns of a line of the page.
const WIDTH: usize = 120;

const INTRODUCTION: &str = "\
# Options
<!-- Written by the tests of crates/declare from the table of parameters (crates/declare/src/parameter/rows.rs): run
`EVERTALLY_WRITE_SCHEMA=1 cargo test -p evertally-declare declaration`. Do not edit. -->

Every option of a release or a sketch, with its name in each front end. An option means the same in all of them.

- **Program**: a flag of `evertally release` or `evertally sketch`.
- **File**: a line of the TOML file that `--config` names. A flag wins over the file.
- **Service**: a field of a stream that is opened over HTTP. A `[[stream]]` of `serve.toml` has the same names,
  written as in a file.
- **Python**: a keyword of `et.release` and `et.plan_release`, and of `evertally.spark.release`.
- **`et.Stream`**: the field of the declaration object. Errors name it as a path, such as `unit.max_events`.

Examples show a value other than the default. [declaration.schema.json](../declaration.schema.json) has the same
options for programs.
";

/// A front end, and how it writes a setting.
#[derive(Clone, Copy)]
enum FrontEnd {
    Program,
    File,
    Service,
    Python,
    Stream,
}

/// The page: all parameters by topic, in the order of the table.
pub fn reference() -> String {
    let mut page = INTRODUCTION.to_owned();
    let topics = topics();
    page.push('\n');
    for (topic, parameters) in &topics {
        let links: Vec<String> = parameters.iter().map(|parameter| link(*parameter)).collect();
        page.push_str(&wrapped(&format!("- {}: {}", topic.section(), links.join(", ")), "  "));
    }
    for (topic, parameters) in &topics {
        write!(page, "\n## {}\n", topic.section()).expect(WRITES);
        parameters.iter().for_each(|parameter| entry(*parameter, &mut page));
    }
    page
}

const WRITES: &str = "a String accepts every write";

/// The topics in the order of their first parameters, each with its parameters.
fn topics() -> Vec<(Heading, Vec<Parameter>)> {
    let mut topics: Vec<(Heading, Vec<Parameter>)> = Vec::new();
    for parameter in Parameter::all() {
        match topics.iter_mut().find(|(topic, _)| *topic == parameter.heading()) {
            Some((_, parameters)) => parameters.push(parameter),
            None => topics.push((parameter.heading(), vec![parameter])),
        }
    }
    topics
}

impl Heading {
    /// The title of its section: never the name of a parameter, which has an anchor of the same text.
    fn section(self) -> &'static str {
        match self {
            Self::None => "Files of a run",
            Self::Events => "Reading events",
            Self::Steps => "Steps and horizon",
            Self::Values => "Values and measures",
            Self::Budget => "Privacy budget",
            Self::Unit => "Privacy unit",
            Self::Mechanism => "Mechanism and noise",
            Self::Key => "Key and name",
            Self::Output => "Table, picture and report",
            Self::Groups => "Groups of events",
            Self::Sketch => "Shape of a sketch",
            Self::Questions => "Queries to a sketch",
            Self::Continuing => "Continuing a stream",
        }
    }
}

fn entry(parameter: Parameter, page: &mut String) {
    write!(page, "\n### {}\n{}", parameter.name(), wrapped(&meaning(parameter), "")).expect(WRITES);
    if let ValueKind::Words(words) = parameter.kind()
        && words.iter().all(|word| !word.help.is_empty())
    {
        page.push('\n');
        words.iter().for_each(|word| page.push_str(&wrapped(&format!("- `{}`: {}.", word.word, word.help), "  ")));
    }
    page.push_str("\n| | |\n|---|---|\n");
    let mut row = |name: &str, cell: &str| writeln!(page, "| {name} | {cell} |").expect(WRITES);
    row("Value", &kind(parameter));
    row("Default", &parameter.default_in_words().unwrap_or_else(|| absent(parameter).to_owned()));
    let needs: Vec<String> =
        DEPENDENCIES.iter().filter(|(what, ..)| *what == parameter).map(|(_, needed, _)| link(*needed)).collect();
    if !needs.is_empty() {
        row("Needs", &needs.join(", "));
    }
    for front in [FrontEnd::Program, FrontEnd::File, FrontEnd::Service, FrontEnd::Python, FrontEnd::Stream] {
        if let Some(setting) = front.setting(parameter) {
            row(front.title(), &format!("`{}`", setting.replace('|', "\\|")));
        }
    }
    row("Used by", &users(parameter));
}

/// What happens if a parameter without a default is absent.
fn absent(parameter: Parameter) -> &'static str {
    match parameter.kind() {
        ValueKind::Switch => "false",
        _ => "none",
    }
}

/// Its help, in which the names of parameters are links.
fn meaning(parameter: Parameter) -> String {
    let parts = parameter.help().split('`').enumerate();
    let linked = parts.map(|(place, part)| match (place % 2, Parameter::named(part)) {
        (1, Some(named)) => link(named),
        (1, None) => format!("`{part}`"),
        _ => part.to_owned(),
    });
    linked.collect()
}

fn link(parameter: Parameter) -> String {
    format!("[`{0}`](#{0})", parameter.name())
}

/// The commands, functions and services that have it.
fn users(parameter: Parameter) -> String {
    let mut users: Vec<&str> = Vec::new();
    for (user, name) in [(Use::Release, "`evertally release`"), (Use::Sketch, "`evertally sketch`")] {
        users.extend(parameter.uses().contains(&user).then_some(name));
    }
    users.extend(parameter.is_of_services().then_some("services"));
    for (user, names) in [(Use::Table, "`et.release`, Spark"), (Use::TablePlan, "`et.plan_release`")] {
        users.extend(parameter.uses().contains(&user).then_some(names));
    }
    users.join(", ")
}

/// The values that it takes.
fn kind(parameter: Parameter) -> String {
    let kind = match parameter.kind() {
        ValueKind::Text => match parameter.placeholder() {
            "COLUMN" => "name of a column",
            "TIME" => "time",
            "NAME" => "name",
            _ => "text",
        },
        ValueKind::Texts => "text, or a list of texts",
        ValueKind::Measures => "measure, or a list of them",
        ValueKind::Workloads => "workload, or a list of them",
        ValueKind::Character => "one character, or `tab`",
        ValueKind::Whole => "whole number",
        ValueKind::WholeOrAll => "whole number, or `all`",
        ValueKind::Number => "number",
        ValueKind::Decimal => "decimal number",
        ValueKind::Decimals => "two decimal numbers",
        ValueKind::Scales => "positive decimal number, or a list of them",
        ValueKind::Switch => "true or false",
        ValueKind::Words(words) => {
            let words: Vec<String> = words.iter().map(|word| format!("`{}`", word.word)).collect();
            return words.join(", ");
        }
        ValueKind::Width => "number and unit: `m`, `h`, `d`, `w`, `mo` or `y`",
        ValueKind::Period => "width such as `1w`, or a number of steps",
        ValueKind::Zone => "name of an IANA time zone",
        ValueKind::Mechanism => "[mechanism](../mechanisms.md)",
        ValueKind::Groups => "name, list of names, or list of lists with a name for each column",
        ValueKind::Path => "file",
        ValueKind::Paths => "file, or a list of files",
    };
    kind.to_owned()
}

impl FrontEnd {
    fn title(self) -> &'static str {
        match self {
            Self::Program => "Program",
            Self::File => "File",
            Self::Service => "Service",
            Self::Python => "Python",
            Self::Stream => "`et.Stream`",
        }
    }

    /// The example as this front end writes it; `None` if it does not have the parameter.
    fn setting(self, parameter: Parameter) -> Option<String> {
        let (name, value) = (parameter.name(), example(parameter));
        let in_program = parameter.uses().iter().any(|user| matches!(user, Use::Release | Use::Sketch));
        match self {
            Self::Program => in_program.then(|| flag(parameter)),
            Self::File => {
                (in_program && parameter != Parameter::Config).then(|| format!("{name} = {}", written(&value)))
            }
            Self::Service => parameter.is_of_services().then(|| format!("\"{name}\": {}", written(&value))),
            Self::Python => Some(format!("{}={}", parameter.keyword()?, in_python(parameter, &value))),
            Self::Stream => Some(field(&parameter.python_field()?, &in_python(parameter, &value))),
        }
    }
}

/// The example as a flag of the program, for a shell.
fn flag(parameter: Parameter) -> String {
    let name = parameter.name();
    let Some(example) = parameter.example() else { return format!("--{name}") };
    let plain = |c: char| c.is_ascii_alphanumeric() || ",.:/%+-_".contains(c);
    let value = if example.chars().all(plain) { example.to_owned() } else { format!("\"{example}\"") };
    if parameter == Parameter::Input { value } else { format!("--{name} {value}") }
}

/// The example as JSON has it.
fn example(parameter: Parameter) -> Value {
    let text = parameter.example().unwrap_or_default();
    let number = |text: &str| Value::Number(text.parse::<Number>().expect("the example is a number"));
    let texts = || text.split(',').map(Value::from).collect();
    match parameter.kind() {
        ValueKind::Switch => true.into(),
        ValueKind::Whole | ValueKind::WholeOrAll | ValueKind::Number | ValueKind::Decimal => number(text),
        ValueKind::Decimals | ValueKind::Scales => text.split(',').map(number).collect(),
        ValueKind::Texts | ValueKind::Groups => texts(),
        ValueKind::Measures => vec![text].into(),
        _ => text.into(),
    }
}

/// A value as TOML and JSON write it.
fn written(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(written).collect::<Vec<_>>().join(", ")),
        _ => value.to_string(),
    }
}

fn in_python(parameter: Parameter, value: &Value) -> String {
    let items = |items: &[Value]| items.iter().map(written).collect::<Vec<_>>().join(", ");
    match value {
        Value::Bool(_) => "True".to_owned(),
        Value::Array(pair) if parameter.kind() == ValueKind::Decimals => format!("({})", items(pair)),
        Value::Array(one) if one.len() == 1 => written(&one[0]),
        _ => written(value),
    }
}

/// The field of a declaration object with this value.
fn field(path: &str, value: &str) -> String {
    let (part, field) = path.split_once('.').unwrap_or(("", path));
    match (part, field) {
        ("", _) => format!("{field}={value}"),
        ("budget", "epsilon") => format!("budget=et.Budget.pure({value})"),
        ("budget", "delta") => format!("budget=et.Budget.approximate(1, {value})"),
        ("budget", "rho") => format!("budget=et.Budget.zcdp({value})"),
        ("budget", _) => format!("budget=et.Budget.pure(30, {field}={value})"),
        ("unit", "column") => format!("unit=et.Person({value}, …)"),
        ("unit", _) if field.starts_with("assert") => format!("unit=et.AssertedPerson(…, {field}={value})"),
        ("unit", _) => format!("unit=et.Person(…, {field}={value})"),
        ("groups", "columns") => format!("groups=et.Groups({value}, …)"),
        ("values", "column") => format!("values=et.Values({value}, …)"),
        ("columns", _) => format!("columns=et.Columns({field}={value})"),
        (part, _) => {
            let (first, rest) = part.split_at(1);
            format!("{part}=et.{}{rest}(…, {field}={value})", first.to_uppercase())
        }
    }
}

/// A paragraph in lines of at most [`WIDTH`] columns, the later ones indented.
fn wrapped(text: &str, indent: &str) -> String {
    let mut lines = String::new();
    let mut width = 0;
    for word in text.split_whitespace() {
        let columns = word.chars().count();
        if width > 0 && width + 1 + columns > WIDTH {
            lines.extend(["\n", indent]);
            width = indent.len();
        } else if width > 0 {
            lines.push(' ');
            width += 1;
        }
        lines.push_str(word);
        width += columns;
    }
    lines.push('\n');
    lines
}
