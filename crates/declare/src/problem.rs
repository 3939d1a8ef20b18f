//! Errors as data: which parameter, what is wrong with it, what to do, and where.
//!
//! A sentence refers to parameters instead of spelling them, because every front has another word for them: the program
//! says `--outside skip`, Python `outside="skip"`, a TOML file `outside = "skip"`. [`Wording`] puts the words in.
//!
//! ```
//! use evertally_declare::parameter::Parameter;
//! use evertally_declare::problem::{Problem, Wording, sentence};
//! let problem = Problem::of(Parameter::MaxEvents, sentence![Parameter::MaxEvents, " needs ", Parameter::Person]);
//! assert_eq!(problem.worded(Wording::Flags), "--max-events needs --person");
//! assert_eq!(problem.worded(Wording::Keywords), "max_events needs person");
//! assert_eq!(problem.worded(Wording::Fields), "unit.max_events needs unit.column");
//! ```

use crate::parameter::Parameter;
use std::borrow::Cow;
use std::fmt::{self, Write};

/// One piece of a [`Sentence`].
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// Words that are the same everywhere.
    Words(Cow<'static, str>),
    /// The name of a parameter: `--outside`.
    Name(Parameter),
    /// A parameter with a value: `--outside skip`.
    Setting(Parameter, Cow<'static, str>),
    /// A parameter with what stands for its value: `--bounds LOW,HIGH`.
    Example(Parameter),
    /// Those of the parameters that the front has, with "or" before the last.
    Any(&'static [Parameter]),
    /// Those of the parameters that the front has, with "and" before the last.
    All(&'static [Parameter]),
    /// A parameter's name and what it is, once where these are the same word: `--stream name`.
    Noun(Parameter, &'static str),
    /// What is said by fronts that have a parameter, and by the others.
    Where(Parameter, Sentence, Sentence),
    /// How a secret key is made, in a file of this name.
    NewKey(String),
}

/// What is said of a parameter, without its front's words for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sentence(Vec<Piece>);

/// A [`Sentence`] of texts, [`Parameter`]s, settings (a parameter and its value) and [`Piece`]s.
#[macro_export]
macro_rules! sentence {
    ($($piece:expr),+ $(,)?) => { $crate::problem::Sentence::new([$($crate::problem::Piece::from($piece)),+]) };
}
pub use crate::sentence;

impl Sentence {
    /// A sentence of these pieces.
    pub fn new(pieces: impl IntoIterator<Item = Piece>) -> Self {
        Self(pieces.into_iter().collect())
    }

    /// The sentence in the words of a front.
    pub fn worded(&self, wording: Wording) -> String {
        let mut text = String::new();
        self.0.iter().for_each(|piece| wording.put(piece, &mut text));
        text
    }

    /// The parameters that it names.
    pub fn parameters(&self) -> impl Iterator<Item = Parameter> + '_ {
        self.0
            .iter()
            .flat_map(|piece| match piece {
                Piece::Name(parameter)
                | Piece::Noun(parameter, _)
                | Piece::Setting(parameter, _)
                | Piece::Example(parameter) => std::slice::from_ref(parameter),
                Piece::Any(parameters) | Piece::All(parameters) => parameters,
                Piece::Words(_) | Piece::Where(..) | Piece::NewKey(_) => &[],
            })
            .copied()
    }

    /// The same with another one behind it.
    #[must_use]
    pub fn then(mut self, other: impl Into<Self>) -> Self {
        self.0.extend(other.into().0);
        self
    }
}

impl From<&'static str> for Piece {
    fn from(words: &'static str) -> Self {
        Self::Words(words.into())
    }
}

impl From<String> for Piece {
    fn from(words: String) -> Self {
        Self::Words(words.into())
    }
}

impl From<fmt::Arguments<'_>> for Piece {
    fn from(words: fmt::Arguments<'_>) -> Self {
        Self::Words(words.to_string().into())
    }
}

impl From<Parameter> for Piece {
    fn from(parameter: Parameter) -> Self {
        Self::Name(parameter)
    }
}

impl From<(Parameter, &'static str)> for Piece {
    fn from((parameter, value): (Parameter, &'static str)) -> Self {
        Self::Setting(parameter, value.into())
    }
}

impl From<(Parameter, String)> for Piece {
    fn from((parameter, value): (Parameter, String)) -> Self {
        Self::Setting(parameter, value.into())
    }
}

impl<P: Into<Piece>> From<P> for Sentence {
    fn from(piece: P) -> Self {
        Self(vec![piece.into()])
    }
}

/// In the words of the program, which are those of its manual.
impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.worded(Wording::Flags))
    }
}

impl Parameter {
    /// What it is, in one paragraph, with units and ranges, in the words of a front, and without its default.
    pub fn about(self, wording: Wording) -> String {
        let mut text = String::new();
        for (place, part) in self.help().split('`').enumerate() {
            // Every other part stands between backquotes.
            let named = (place % 2 == 1).then(|| Self::named(part)).flatten().and_then(|named| wording.name(named));
            match named {
                Some(name) => text.push_str(&name),
                None if place % 2 == 1 => text.extend(["`", part, "`"]),
                None => text.push_str(part),
            }
        }
        text
    }
}

/// How a front writes parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wording {
    /// The program: `--outside skip`.
    Flags,
    /// Keyword arguments of Python: `outside="skip"`.
    Keywords,
    /// Declaration objects of Python: `steps.outside="skip"`.
    Fields,
    /// A configuration file: `outside = "skip"`.
    Toml,
    /// A service: `"outside": "skip"`.
    Json,
}

impl Wording {
    /// The name of a parameter; `None` where the front has none of the kind.
    pub fn name(self, parameter: Parameter) -> Option<String> {
        match self {
            Self::Flags if parameter == Parameter::Input => Some("FILE".to_owned()),
            Self::Flags => Some(format!("--{}", parameter.name())),
            Self::Keywords => parameter.keyword(),
            Self::Fields => parameter.python_field(),
            Self::Toml => Some(parameter.name().to_owned()),
            Self::Json => parameter.is_declared().then(|| format!("\"{}\"", parameter.name())),
        }
    }

    /// A parameter with a value.
    pub fn setting(self, parameter: Parameter, value: &str) -> String {
        let name = self.name_or_plain(parameter);
        match (self, parameter.is_quoted()) {
            (Self::Flags, _) => format!("{name} {value}"),
            (Self::Keywords | Self::Fields, true) => format!("{name}=\"{value}\""),
            (Self::Keywords | Self::Fields, false) => format!("{name}={value}"),
            (Self::Toml, true) => format!("{name} = \"{value}\""),
            (Self::Toml, false) => format!("{name} = {value}"),
            (Self::Json, true) => format!("{name}: \"{value}\""),
            (Self::Json, false) => format!("{name}: {value}"),
        }
    }

    /// A parameter with what stands for its value.
    fn example(self, parameter: Parameter) -> String {
        let value = parameter.placeholder();
        let list = value.replace(',', ", ");
        let several = value.contains(',');
        match self {
            Self::Flags => self.setting(parameter, value),
            Self::Keywords | Self::Fields if several => {
                format!("{}=({})", self.name_or_plain(parameter), list.to_lowercase())
            }
            Self::Keywords | Self::Fields => format!("{}={}", self.name_or_plain(parameter), value.to_lowercase()),
            Self::Toml | Self::Json if several => self.setting(parameter, &format!("[{list}]")),
            Self::Toml | Self::Json => self.setting(parameter, value),
        }
    }

    /// A sentence may name what its front does not have: then by the name that all share.
    fn name_or_plain(self, parameter: Parameter) -> String {
        self.name(parameter).unwrap_or_else(|| parameter.name().to_owned())
    }

    fn list(self, parameters: &[Parameter], last: &str) -> String {
        let names: Vec<String> = parameters.iter().filter_map(|parameter| self.name(*parameter)).collect();
        match names.as_slice() {
            [] => String::new(),
            [one] => one.clone(),
            [first @ .., end] => format!("{} {last} {end}", first.join(", ")),
        }
    }

    fn put(self, piece: &Piece, text: &mut String) {
        match piece {
            Piece::Words(words) => text.push_str(words),
            Piece::Name(parameter) => text.push_str(&self.name_or_plain(*parameter)),
            Piece::Setting(parameter, value) => text.push_str(&self.setting(*parameter, value)),
            Piece::Example(parameter) => text.push_str(&self.example(*parameter)),
            Piece::Any(parameters) => text.push_str(&self.list(parameters, "or")),
            Piece::All(parameters) => text.push_str(&self.list(parameters, "and")),
            Piece::Noun(parameter, noun) => {
                let name = self.name_or_plain(*parameter);
                text.push_str(&name);
                if name != *noun {
                    text.extend([" ", noun]);
                }
            }
            Piece::Where(parameter, has, lacks) => {
                let said = if self.name(*parameter).is_some() { has } else { lacks };
                said.0.iter().for_each(|piece| self.put(piece, text));
            }
            Piece::NewKey(path) => {
                if matches!(self, Self::Keywords | Self::Fields) {
                    text.push_str("`SecretKey.generate().save(path)` or ");
                }
                write!(text, "`evertally key new {path}`").expect("a String accepts every write");
            }
        }
    }
}

/// Something that cannot be: what was declared, or how it fits the rest.
///
/// Whoever shows it words it: [`Problem::worded`], or [`Error::worded`](crate::error::Error::worded) for an error that
/// may have one inside.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    parameters: Vec<Parameter>,
    problem: Sentence,
    remedy: Option<Sentence>,
}

impl Problem {
    /// A problem that no parameter is to blame for, or whose sentence names them all.
    pub fn new(problem: impl Into<Sentence>) -> Self {
        let problem = problem.into();
        let mut parameters: Vec<Parameter> = Vec::new();
        for parameter in problem.parameters() {
            if !parameters.contains(&parameter) {
                parameters.push(parameter);
            }
        }
        Self { parameters, problem, remedy: None }
    }

    /// A problem with a parameter; the sentence says which.
    pub fn of(parameter: Parameter, problem: impl Into<Sentence>) -> Self {
        let mut of = Self::new(problem);
        of.parameters.retain(|named| *named != parameter);
        of.parameters.insert(0, parameter);
        of
    }

    /// The same with what to do about it, which is said behind a semicolon.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<Sentence>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// The parameters that it is about, first the one to blame.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// What is wrong.
    pub fn problem(&self) -> &Sentence {
        &self.problem
    }

    /// What to do about it.
    pub fn remedies(&self) -> Option<&Sentence> {
        self.remedy.as_ref()
    }

    /// All of it in the words of a front.
    pub fn worded(&self, wording: Wording) -> String {
        let mut text = self.problem.worded(wording);
        if let Some(remedy) = &self.remedy {
            write!(text, "; {}", remedy.worded(wording)).expect("a String accepts every write");
        }
        text
    }
}

/// In the words of the program, which are those of its manual.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.worded(Wording::Flags))
    }
}

impl std::error::Error for Problem {}

impl From<evertally::Error> for Problem {
    fn from(error: evertally::Error) -> Self {
        Self::new(of_library(&error))
    }
}

/// What an error of the library says.
pub(crate) fn of_library(error: &evertally::Error) -> Sentence {
    let said = error.to_string();
    match error.is_weak_budget() {
        true => sentence![said, " (", Parameter::AllowWeakBudget, ")"],
        false => said.into(),
    }
}

#[cfg(test)]
mod tests;
