//! The parameters as structs: their fields are the rows of the table in [`parameter`](crate::parameter).

use super::listed;
use super::value::{Decimal, DeclaredGroups, Delimiter, PathList, Quote, Value, ValueKind};
use crate::filter::RowFilter;
use crate::format::{Format, InputFormat};
use crate::identity::Normalisation;
use crate::measures::Wanted;
use crate::numbers::{DecimalMark, Thousands};
use crate::parameter::{Parameter, parameter_rows};
use crate::policy::{BadRows, Coverage, DateOnly, Late, OutOfBounds, Outside, Refusable, SortLimit};
use crate::reading::Workloads;
use crate::steps::{Every, Period, TimeFormat, Zone};
use crate::view::View;
use evertally::mechanism::MechanismName;
use evertally::number::Grid;
use evertally::plan::{GroupAim, NoiseKind, Objective};
use evertally::privacy::Neighbours;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::path::PathBuf;

macro_rules! parameters {
    // Sorts the rows, one after another, into the lists of their structs.
    (@split [$($d:tt)*] [$($f:tt)*] [$($q:tt)*] declaration $row:tt $($rest:tt)*) => {
        parameters! { @split [$($d)* $row] [$($f)*] [$($q)*] $($rest)* }
    };
    (@split [$($d:tt)*] [$($f:tt)*] [$($q:tt)*] files $row:tt $($rest:tt)*) => {
        parameters! { @split [$($d)*] [$($f)* $row] [$($q)*] $($rest)* }
    };
    (@split [$($d:tt)*] [$($f:tt)*] [$($q:tt)*] questions $row:tt $($rest:tt)*) => {
        parameters! { @split [$($d)*] [$($f)*] [$($q)* $row] $($rest)* }
    };
    (@split [$($d:tt)*] [$($f:tt)*] [$($q:tt)*]) => {
        parameters! { @part
            /// The declaration of a stream. Every field is optional.
            Declaration Declaration $($d)*
        }
        parameters! { @part
            /// Files of the program: events, key and outputs.
            Files Files $($f)*
        }
        parameters! { @part
            /// The queries to a sketch.
            Questions Questions $($q)*
        }
    };
    (@part $(#[$about:meta])* $part:ident $struct:ident $({
        $(#[doc = $help:literal])+
        $name:ident $field:ident: $type:ty, $($rest:tt)*
    })*) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
        pub struct $struct {
            $(
                $(#[doc = $help])+
                #[serde(deserialize_with = "listed::read", skip_serializing_if = "Option::is_none")]
                pub $field: Option<$type>,
            )*
        }

        impl $struct {
            /// Whether a value is given.
            pub fn has(&self, parameter: Parameter) -> bool {
                match parameter {
                    $(Parameter::$name => self.$field.is_some(),)*
                    _ => false,
                }
            }

            /// Fills missing values from another source. `own` tells which parameters this source has.
            fn filled(self, other: Self, own: &dyn Fn(Parameter) -> bool) -> Self {
                Self { $($field: match self.$field {
                    None if !Parameter::$name.together().iter().any(|together| own(*together)) => other.$field,
                    given => given,
                },)* }
            }

            /// Sets a parameter from the texts of a flag; false if the parameter is not a field of this struct.
            ///
            /// # Errors
            /// A description of the problem with a text.
            pub fn set(&mut self, parameter: Parameter, texts: &[&OsStr]) -> Result<bool, String> {
                match parameter {
                    $(Parameter::$name => self.$field = Some(Value::read(texts)?),)*
                    _ => return Ok(false),
                }
                Ok(true)
            }

            /// Sets a parameter from a JSON value; null means no value. False if the parameter is not a field of this
            /// struct.
            ///
            /// # Errors
            /// If the value has another type, or is not valid for the parameter.
            pub fn put(&mut self, parameter: Parameter, value: serde_json::Value) -> serde_json::Result<bool> {
                match parameter {
                    $(Parameter::$name => self.$field = listed::read(value)?,)*
                    _ => return Ok(false),
                }
                Ok(true)
            }
        }
    };
    ($($part:ident {
        $(#[doc = $help:literal])+
        $name:ident $field:ident: $type:ty,
        $heading:ident $placeholder:literal $uses:ident
        $(, example $example:literal)? $(, default $default:literal $note:literal)?
    })*) => {
        /// The fields of a configuration file of the program, before they are sorted into structs.
        #[derive(Deserialize)]
        #[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
        #[derive(Default)]
        struct All { $(#[serde(deserialize_with = "listed::read")] $field: Option<$type>,)* }

        impl From<All> for Written {
            fn from(all: All) -> Self {
                let mut written = Self::default();
                $(written.$part.$field = all.$field;)*
                written
            }
        }

        impl Parameter {
            /// The kind of its value.
            pub fn kind(self) -> ValueKind {
                match self { $(Self::$name => <$type as Value>::KIND,)* }
            }

            /// Checks that a text is a value of this parameter, or one item of its list.
            ///
            /// # Errors
            /// A description of the problem with the text.
            pub fn check(self, text: &str) -> Result<(), String> {
                match self { $(Self::$name => <$type as Value>::read(&[text.as_ref()]).map(drop),)* }
            }
        }

        parameters! { @split [] [] [] $($part {
            $(#[doc = $help])+
            $name $field: $type, $heading $placeholder $uses
        })* }
    };
}

/// All values that the program's flags and configuration files can set.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "All")]
pub struct Written {
    /// The declaration of the stream.
    pub declaration: Declaration,
    /// The files of events and releases.
    pub files: Files,
    /// The queries to a sketch.
    pub questions: Questions,
}

impl Declaration {
    /// Fills missing values from another source, such as a configuration file after flags. A budget, an end of the
    /// horizon and the groups are each taken from one source as a whole.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let own = self.clone();
        self.filled(other, &|parameter| own.has(parameter))
    }
}

impl Written {
    /// Whether a value is given.
    pub fn has(&self, parameter: Parameter) -> bool {
        self.declaration.has(parameter) || self.files.has(parameter) || self.questions.has(parameter)
    }

    /// Sets a parameter from the texts of a flag.
    ///
    /// # Errors
    /// A description of the problem with a text.
    pub fn set(&mut self, parameter: Parameter, texts: &[&OsStr]) -> Result<(), String> {
        let set = self.declaration.set(parameter, texts)?
            || self.files.set(parameter, texts)?
            || self.questions.set(parameter, texts)?;
        debug_assert!(set, "every parameter is a field");
        Ok(())
    }

    /// Fills missing values from another source, as [`Declaration::or`] does.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let own = self.clone();
        let own = |parameter: Parameter| own.has(parameter);
        let mut questions = self.questions.clone().filled(other.questions.clone(), &own);
        // Limits belong to candidates: the limit of a file does not apply to the queries of a flag.
        if questions.candidates.is_some() != other.questions.candidates.is_some() {
            (questions.top, questions.threshold) = (self.questions.top, self.questions.threshold);
        }
        Self {
            declaration: self.declaration.filled(other.declaration, &own),
            files: self.files.filled(other.files, &own),
            questions,
        }
    }
}

parameter_rows!(parameters);
