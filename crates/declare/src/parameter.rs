//! The single table of all parameters (`parameter/rows.rs`): one row for each [`Parameter`].
//!
//! A row contains the struct that the parameter is a field of; its help, in one paragraph; its names as a [`Parameter`]
//! and as a field; its type; its heading and placeholder in help; the front ends that have it; and its default, as a
//! value and in words. Help refers to other parameters by their names in backquotes; every front end replaces them with
//! its own names. To add a parameter, add a row there and its effect to
//! [`Declaration::resolve`](crate::declaration::Declaration::resolve).
//!
//! The rows are a macro because two modules read them: this one, which uses names and texts and nothing else of the
//! crate, and [`declaration`](crate::declaration), which also needs the types.

mod rows;

pub(crate) use rows::parameter_rows;
use std::sync::LazyLock;

use Use::{Release, Sketch, Table, TablePlan};

/// A row of the table.
struct ParameterRow {
    parameter: Parameter,
    /// As in Rust, with underscores.
    field: &'static str,
    part: FieldOwner,
    /// The Rust type, as written in the row.
    type_name: &'static str,
    placeholder: &'static str,
    heading: Heading,
    uses: &'static [Use],
    help: &'static str,
    /// A value as flags write it, lists separated by commas; empty for switches.
    example: &'static str,
    default: &'static str,
    note: &'static str,
}

/// The struct that a parameter is a field of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldOwner {
    Declaration,
    Files,
    Questions,
}

/// The topic of a parameter: a heading in the program's help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heading {
    /// The files of a run.
    None,
    /// Columns of the events, and how they are read.
    Events,
    /// Steps and horizon.
    Steps,
    /// The summed values.
    Values,
    /// The privacy budget.
    Budget,
    /// The privacy unit.
    Unit,
    /// Mechanism and noise.
    Mechanism,
    /// Key and name of the stream.
    Key,
    /// The files that are written.
    Output,
    /// The groups of the events.
    Groups,
    /// The shape of a sketch.
    Sketch,
    /// The items to query, and the times of the queries.
    Questions,
    /// Continuing a stream in a further run.
    Continuing,
}

impl Heading {
    /// The heading in help; `None` for general parameters.
    pub fn title(self) -> Option<&'static str> {
        Some(match self {
            Self::None => return None,
            Self::Events => "Events",
            Self::Steps => "Steps",
            Self::Values => "Values",
            Self::Budget => "Privacy budget",
            Self::Unit => "Privacy unit",
            Self::Mechanism => "Mechanism",
            Self::Key => "Key",
            Self::Output => "Output",
            Self::Groups => "Groups",
            Self::Sketch => "Sketch",
            Self::Questions => "Questions",
            Self::Continuing => "Continuing a stream",
        })
    }
}

/// A command or function that has a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// `evertally release`.
    Release,
    /// `evertally sketch`.
    Sketch,
    /// `evertally.release` of Python.
    Table,
    /// `evertally.plan_release` of Python.
    TablePlan,
}

impl Parameter {
    fn row(self) -> &'static ParameterRow {
        let row = &TABLE[self as usize];
        debug_assert_eq!(row.parameter, self);
        row
    }

    /// All of them, in the order of the program's help.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.parameter)
    }

    /// The parameters of a command or function.
    pub fn used_by(user: Use) -> impl Iterator<Item = Self> {
        Self::all().filter(move |parameter| parameter.row().uses.contains(&user))
    }

    /// The parameter with this name in files; the reverse of [`name`](Self::name).
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|parameter| parameter.name() == name)
    }

    /// Its name in flags, files and services: `max-events`.
    pub fn name(self) -> &'static str {
        static NAMES: LazyLock<Vec<String>> =
            LazyLock::new(|| TABLE.iter().map(|row| row.field.trim_start_matches("r#").replace('_', "-")).collect());
        &NAMES[self as usize]
    }

    /// Its name among the keyword arguments of Python; `None` where Python has none.
    pub fn keyword(self) -> Option<String> {
        let has = self.row().uses.iter().any(|user| matches!(user, Use::Table | Use::TablePlan));
        has.then(|| match self {
            Self::GroupBy => "group".to_owned(),
            Self::Stream => "name".to_owned(),
            Self::Measure => "measures".to_owned(),
            _ => self.row().field.trim_start_matches("r#").to_owned(),
        })
    }

    /// The field of Python's declaration objects that sets it, as a path from the stream: `unit.max_events`. `None` if
    /// Python has no keyword for it.
    pub fn python_field(self) -> Option<String> {
        let keyword = self.keyword()?;
        let object = match (self, self.heading()) {
            (Self::Workload | Self::Measure, _) => None,
            (Self::TimeZone | Self::Outside, _) | (_, Heading::Steps) => Some("steps"),
            (_, Heading::Events) => Some("columns"),
            (_, Heading::Values) => Some("values"),
            (_, Heading::Budget) => Some("budget"),
            (_, Heading::Unit) => Some("unit"),
            (_, Heading::Groups) => Some("groups"),
            _ => None,
        };
        let field = match self {
            Self::Person | Self::Value => "column",
            Self::GroupBy => "columns",
            Self::Groups => "names",
            Self::DiscoverGroups => "discover",
            Self::CorrelateGroups => "correlate",
            Self::Steps => "count",
            Self::AllowWeakBudget => "allow_weak",
            _ => &keyword,
        };
        Some(object.map_or_else(|| field.to_owned(), |object| format!("{object}.{field}")))
    }

    /// Whether it is part of a stream's declaration, independent of where events come from and releases go: a field of
    /// [`Declaration`](crate::declaration::Declaration).
    pub fn is_declared(self) -> bool {
        self.row().part == FieldOwner::Declaration
    }

    /// The steps that a run publishes.
    pub(crate) const OF_RUNS: [Self; 2] = [Self::Through, Self::All];

    /// Whether a stream of a service can declare it: a service closes steps when they are due.
    pub fn is_of_services(self) -> bool {
        self.is_declared() && self.uses().contains(&Release) && !Self::OF_RUNS.contains(&self)
    }

    /// Whether its value is quoted in files and in Python.
    pub(crate) fn is_quoted(self) -> bool {
        let unquoted = [
            "u32",
            "u64",
            "usize",
            "f64",
            "bool",
            "PathList",
            "PathBuf",
            "Delimiter",
            "Period",
            "SortLimit",
            "Workloads",
            "DeclaredGroups",
        ];
        // How `stringify!` puts blanks between the tokens of a type is not fixed.
        let written: String = self.row().type_name.split_whitespace().collect();
        !unquoted.contains(&written.as_str()) && !written.starts_with("Vec<") && !written.starts_with("Decimal<")
    }

    /// The placeholder of its value in help: `COLUMN`. Empty if help lists its words instead.
    pub fn placeholder(self) -> &'static str {
        self.row().placeholder
    }

    /// The placeholder of its value, or its name in capitals if it has none.
    pub fn value_name(self) -> &'static str {
        static CAPITALS: LazyLock<Vec<String>> =
            LazyLock::new(|| TABLE.iter().map(|row| row.field.trim_start_matches("r#").to_uppercase()).collect());
        if self.placeholder().is_empty() { &CAPITALS[self as usize] } else { self.placeholder() }
    }

    /// Its topic.
    pub fn heading(self) -> Heading {
        self.row().heading
    }

    /// The commands and functions that have it.
    pub fn uses(self) -> &'static [Use] {
        self.row().uses
    }

    /// Its help, in one paragraph, with units and ranges, without its default; other parameters in backquotes.
    pub(crate) fn help(self) -> &'static str {
        self.row().help.trim()
    }

    /// An example of its value, as flags write it; `None` for switches.
    pub fn example(self) -> Option<&'static str> {
        Some(self.row().example).filter(|text| !text.is_empty())
    }

    /// Its default value, as flags write it; `None` if the default is not a value but another behaviour.
    pub fn default(self) -> Option<&'static str> {
        Some(self.row().default).filter(|text| !text.is_empty())
    }

    /// The default in words: the value, or the behaviour if no value is given. `None` if there is nothing to state.
    pub fn default_in_words(self) -> Option<String> {
        match (self.row().default, self.row().note) {
            ("", "") => None,
            (words, "") | ("", words) => Some(words.to_owned()),
            (value, note) => Some(format!("{value}, {note}")),
        }
    }

    /// If one of these is given, neither they nor this parameter are filled from another source. Otherwise numbers of
    /// two budgets, or two definitions of the end of the horizon, would mix.
    pub fn together(self) -> &'static [Self] {
        match self {
            Self::Epsilon | Self::Delta | Self::Rho | Self::AllowWeakBudget => &[Self::Epsilon, Self::Delta, Self::Rho],
            Self::End | Self::Steps | Self::Unbounded => &[Self::End, Self::Steps, Self::Unbounded],
            Self::Through | Self::All => &Self::OF_RUNS,
            Self::Time | Self::Date | Self::TimeOfDay => &[Self::Time, Self::Date, Self::TimeOfDay],
            Self::Groups | Self::GroupsFile => &[Self::Groups, Self::GroupsFile],
            Self::Scales | Self::ScaleColumn => &[Self::Scales, Self::ScaleColumn],
            Self::Queries | Self::Candidates => &[Self::Queries, Self::Candidates],
            Self::Top | Self::Threshold => &[Self::Top, Self::Threshold],
            Self::At | Self::AtColumn | Self::EveryQuery => &[Self::At, Self::AtColumn, Self::EveryQuery],
            _ => &[],
        }
    }
}

macro_rules! table {
    (@default $default:literal $note:literal) => { ($default, $note) };
    (@default) => { ("", "") };
    (@part declaration) => { FieldOwner::Declaration };
    (@part files) => { FieldOwner::Files };
    (@part questions) => { FieldOwner::Questions };
    ($($part:ident {
        $(#[doc = $help:literal])+
        $name:ident $field:ident: $type:ty,
        $heading:ident $placeholder:literal $uses:ident
        $(, example $example:literal)? $(, default $default:literal $note:literal)?
    })*) => {
        /// What can be declared.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Parameter { $($(#[doc = $help])+ $name,)* }

        static TABLE: &[ParameterRow] = &[$(ParameterRow {
            parameter: Parameter::$name,
            field: stringify!($field),
            part: table!(@part $part),
            type_name: stringify!($type),
            placeholder: $placeholder,
            heading: Heading::$heading,
            uses: $uses,
            help: concat!($($help),+),
            example: concat!($($example)?),
            default: table!(@default $($default $note)?).0,
            note: table!(@default $($default $note)?).1,
        },)*];
    };
}
parameter_rows!(table);

/// Anyone who publishes a stream.
const ALL: &[Use] = &[Release, Sketch, Table, TablePlan];
/// Anyone who reads events.
const EVENT_READERS: &[Use] = &[Release, Sketch, Table];
/// The program.
const PROGRAM: &[Use] = &[Release, Sketch];
const RELEASES: &[Use] = &[Release, Table];
const RELEASE: &[Use] = &[Release, Table, TablePlan];
/// Releases of several measures, which have more than one plan.
const RELEASE_AND_TABLE: &[Use] = &[Release, Table];
const RELEASE_FILES: &[Use] = &[Release];
const SKETCH: &[Use] = &[Sketch];
const RELEASE_AND_SKETCH: &[Use] = &[Release, Sketch];
