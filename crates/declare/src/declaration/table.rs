//! What can be declared, as structs: their fields are the rows of the table in [`parameter`](crate::parameter).

use super::value::{Decimal, Delimiter, Groups, Kind, Paths, TableFormat, Value};
use crate::identity::Normalisation;
use crate::measures::Wanted;
use crate::parameter::{Parameter, parameter_rows};
use crate::policy::{Band, Late, OutOfBounds, Refusable};
use crate::reading::Workloads;
use crate::steps::{Every, Period, TimeFormat, Zone};
use crate::view::View;
use evertally::mechanism::MechanismName;
use evertally::number::Grid;
use evertally::plan::{NoiseKind, Objective};
use evertally::privacy::Neighbours;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::path::PathBuf;

macro_rules! parameters {
    // Rows, one after another, into the list of their struct.
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
            /// What a stream is, as far as it is declared: every field may be left open.
            Declaration Declaration $($d)*
        }
        parameters! { @part
            /// Where the program finds events and key, and puts what it writes.
            Files Files $($f)*
        }
        parameters! { @part
            /// What is asked of a sketch.
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
            $($(#[doc = $help])+ #[serde(skip_serializing_if = "Option::is_none")] pub $field: Option<$type>,)*
        }

        impl $struct {
            /// Whether a value is given.
            pub fn has(&self, parameter: Parameter) -> bool {
                match parameter {
                    $(Parameter::$name => self.$field.is_some(),)*
                    _ => false,
                }
            }

            /// Fills what is open from another place. `own` says what this place has.
            fn filled(self, other: Self, own: &dyn Fn(Parameter) -> bool) -> Self {
                Self { $($field: match self.$field {
                    None if !Parameter::$name.together().iter().any(|together| own(*together)) => other.$field,
                    given => given,
                },)* }
            }

            /// Sets what the texts of a flag stand for; false where the parameter is no field of this.
            ///
            /// # Errors
            /// What is wrong with a text, in words.
            pub fn set(&mut self, parameter: Parameter, texts: &[&OsStr]) -> Result<bool, String> {
                match parameter {
                    $(Parameter::$name => self.$field = Some(Value::read(texts)?),)*
                    _ => return Ok(false),
                }
                Ok(true)
            }

            /// Sets a value of a JSON text; null is no value. False where the parameter is no field of this.
            ///
            /// # Errors
            /// If the value is of another type, or none of the parameter's.
            pub fn put(&mut self, parameter: Parameter, value: serde_json::Value) -> serde_json::Result<bool> {
                match parameter {
                    $(Parameter::$name => self.$field = serde_json::from_value(value)?,)*
                    _ => return Ok(false),
                }
                Ok(true)
            }
        }
    };
    ($($part:ident {
        $(#[doc = $help:literal])+
        $name:ident $field:ident: $type:ty,
        $heading:ident $placeholder:literal $uses:ident $(, default $default:literal $note:literal)?
    })*) => {
        /// The fields of a configuration file of the program, before they are dealt out.
        #[derive(Deserialize)]
        #[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
        #[derive(Default)]
        struct All { $($field: Option<$type>,)* }

        impl From<All> for Written {
            fn from(all: All) -> Self {
                let mut written = Self::default();
                $(written.$part.$field = all.$field;)*
                written
            }
        }

        impl Parameter {
            /// What kind of value it has.
            pub fn kind(self) -> Kind {
                match self { $(Self::$name => <$type as Value>::KIND,)* }
            }

            /// Whether a text stands for a value of this parameter, or for one item of its list.
            ///
            /// # Errors
            /// What is wrong with the text, in words.
            pub fn check(self, text: &str) -> Result<(), String> {
                match self { $(Self::$name => <$type as Value>::read(&[text.as_ref()]).map(drop),)* }
            }
        }

        parameters! { @split [] [] [] $($part {
            $(#[doc = $help])+
            $name $field: $type, $heading $placeholder $uses $(, default $default $note)?
        })* }
    };
}

/// All that the program's flags and configuration files can say.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "All")]
pub struct Written {
    /// What the stream is.
    pub declaration: Declaration,
    /// Where events come from and releases go.
    pub files: Files,
    /// What is asked of a sketch.
    pub questions: Questions,
}

impl Declaration {
    /// Fills what is open from another place, such as a configuration file behind flags. A budget, an end of the
    /// horizon and the groups are taken from one place as a whole.
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

    /// Sets what the texts of a flag stand for.
    ///
    /// # Errors
    /// What is wrong with a text, in words.
    pub fn set(&mut self, parameter: Parameter, texts: &[&OsStr]) -> Result<(), String> {
        let set = self.declaration.set(parameter, texts)?
            || self.files.set(parameter, texts)?
            || self.questions.set(parameter, texts)?;
        debug_assert!(set, "every parameter is a field");
        Ok(())
    }

    /// Fills what is open from another place, as [`Declaration::or`].
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let own = self.clone();
        let own = |parameter: Parameter| own.has(parameter);
        let mut questions = self.questions.clone().filled(other.questions.clone(), &own);
        // How many candidates are wanted belongs to candidates: a file's limit is none for the queries of a flag.
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
