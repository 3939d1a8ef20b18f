//! Errors as data: the parameter, the problem, the remedy, and the place.
//!
//! A sentence refers to parameters instead of spelling them, because every front end writes them differently: the
//! program writes `--outside skip`, Python `outside="skip"`, a TOML file `outside = "skip"`. [`Wording`] inserts the
//! right form.
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
pub enum SentencePart {
    /// Words that are the same everywhere.
    Words(Cow<'static, str>),
    /// The name of a parameter: `--outside`.
    Name(Parameter),
    /// A parameter with a value: `--outside skip`.
    Setting(Parameter, Cow<'static, str>),
    /// A parameter with the placeholder of its value: `--bounds LOW,HIGH`.
    Example(Parameter),
    /// Those of the parameters that the front end has, with "or" before the last.
    Any(&'static [Parameter]),
    /// Those of the parameters that the front end has, with "and" before the last.
    All(&'static [Parameter]),
    /// A parameter's name and a noun for it, once if the two are the same word: `--stream name`.
    Noun(Parameter, &'static str),
    /// One sentence for front ends that have a parameter, and another for those that do not.
    Where(Parameter, Sentence, Sentence),
    /// Instructions to create a secret key in a file of this name.
    NewKey(String),
}

/// A sentence about parameters, independent of how a front end writes them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sentence(Vec<SentencePart>);

/// A [`Sentence`] of texts, [`Parameter`]s, settings (a parameter and its value) and [`SentencePart`]s.
#[macro_export]
macro_rules! sentence {
    ($($piece:expr),+ $(,)?) => { $crate::problem::Sentence::new([$($crate::problem::SentencePart::from($piece)),+]) };
}
pub use crate::sentence;

impl Sentence {
    /// A sentence of these pieces.
    pub fn new(pieces: impl IntoIterator<Item = SentencePart>) -> Self {
        Self(pieces.into_iter().collect())
    }

    /// The sentence in the wording of a front end.
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
                SentencePart::Name(parameter)
                | SentencePart::Noun(parameter, _)
                | SentencePart::Setting(parameter, _)
                | SentencePart::Example(parameter) => std::slice::from_ref(parameter),
                SentencePart::Any(parameters) | SentencePart::All(parameters) => parameters,
                SentencePart::Words(_) | SentencePart::Where(..) | SentencePart::NewKey(_) => &[],
            })
            .copied()
    }

    /// This sentence followed by another one.
    #[must_use]
    pub fn then(mut self, other: impl Into<Self>) -> Self {
        self.0.extend(other.into().0);
        self
    }
}

impl From<&'static str> for SentencePart {
    fn from(words: &'static str) -> Self {
        Self::Words(words.into())
    }
}

impl From<String> for SentencePart {
    fn from(words: String) -> Self {
        Self::Words(words.into())
    }
}

impl From<fmt::Arguments<'_>> for SentencePart {
    fn from(words: fmt::Arguments<'_>) -> Self {
        Self::Words(words.to_string().into())
    }
}

impl From<Parameter> for SentencePart {
    fn from(parameter: Parameter) -> Self {
        Self::Name(parameter)
    }
}

impl From<(Parameter, &'static str)> for SentencePart {
    fn from((parameter, value): (Parameter, &'static str)) -> Self {
        Self::Setting(parameter, value.into())
    }
}

impl From<(Parameter, String)> for SentencePart {
    fn from((parameter, value): (Parameter, String)) -> Self {
        Self::Setting(parameter, value.into())
    }
}

impl<P: Into<SentencePart>> From<P> for Sentence {
    fn from(piece: P) -> Self {
        Self(vec![piece.into()])
    }
}

/// Uses the wording of the program, as its manual does.
impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.worded(Wording::Flags))
    }
}

impl Parameter {
    /// Its help, in one paragraph, with units and ranges, in the wording of a front end, and without its default.
    pub fn about(self, wording: Wording) -> String {
        let mut text = String::new();
        for (place, part) in self.help().split('`').enumerate() {
            // Every other part is between backquotes.
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

/// How a front end writes parameters.
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
    /// The name of a parameter; `None` if the front end does not have it.
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

    /// A parameter with the placeholder of its value.
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

    /// A sentence may name a parameter that its front end does not have, by the name that files use.
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

    fn put(self, piece: &SentencePart, text: &mut String) {
        match piece {
            SentencePart::Words(words) => text.push_str(words),
            SentencePart::Name(parameter) => text.push_str(&self.name_or_plain(*parameter)),
            SentencePart::Setting(parameter, value) => text.push_str(&self.setting(*parameter, value)),
            SentencePart::Example(parameter) => text.push_str(&self.example(*parameter)),
            SentencePart::Any(parameters) => text.push_str(&self.list(parameters, "or")),
            SentencePart::All(parameters) => text.push_str(&self.list(parameters, "and")),
            SentencePart::Noun(parameter, noun) => {
                let name = self.name_or_plain(*parameter);
                text.push_str(&name);
                if name != *noun {
                    text.extend([" ", noun]);
                }
            }
            SentencePart::Where(parameter, has, lacks) => {
                let chosen = if self.name(*parameter).is_some() { has } else { lacks };
                chosen.0.iter().for_each(|piece| self.put(piece, text));
            }
            SentencePart::NewKey(path) => {
                if matches!(self, Self::Keywords | Self::Fields) {
                    text.push_str("`SecretKey.generate().save(path)` or ");
                }
                write!(text, "`evertally key new {path}`").expect("a String accepts every write");
            }
        }
    }
}

/// A problem with a declaration: an invalid value, or a value that contradicts the rest.
///
/// The front end that shows it chooses the wording with [`Problem::worded`], or with
/// [`Error::worded`](crate::error::PipelineError::worded) for an error that may contain a problem.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    parameters: Vec<Parameter>,
    problem: Sentence,
    remedy: Option<Sentence>,
}

impl Problem {
    /// A problem without a specific parameter, or whose sentence names all its parameters.
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

    /// A problem with this parameter, which the sentence names.
    pub fn of(parameter: Parameter, problem: impl Into<Sentence>) -> Self {
        let mut of = Self::new(problem);
        of.parameters.retain(|named| *named != parameter);
        of.parameters.insert(0, parameter);
        of
    }

    /// This problem with a remedy, which is shown after a semicolon.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<Sentence>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// The parameters involved, the one at fault first.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// The problem itself.
    pub fn problem(&self) -> &Sentence {
        &self.problem
    }

    /// The remedy.
    pub fn remedies(&self) -> Option<&Sentence> {
        self.remedy.as_ref()
    }

    /// Problem and remedy in the wording of a front end.
    pub fn worded(&self, wording: Wording) -> String {
        let mut text = self.problem.worded(wording);
        if let Some(remedy) = &self.remedy {
            write!(text, "; {}", remedy.worded(wording)).expect("a String accepts every write");
        }
        text
    }
}

/// Uses the wording of the program, as its manual does.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.worded(Wording::Flags))
    }
}

impl std::error::Error for Problem {}

impl From<evertally::Error> for Problem {
    fn from(error: evertally::Error) -> Self {
        Self::new(library_sentence(&error))
    }
}

/// The text of a library error.
pub(crate) fn library_sentence(error: &evertally::Error) -> Sentence {
    let text = error.to_string();
    match error.is_weak_budget() {
        true => sentence![text, " (", Parameter::AllowWeakBudget, ")"],
        false => text.into(),
    }
}

#[cfg(test)]
mod tests;
