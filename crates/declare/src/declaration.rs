//! The declaration of a stream: one typed value for all front ends.
//!
//! Flags of the program, a TOML file, keyword arguments of Python and the JSON of a service fill a [`Declaration`], in
//! which everything is optional; two of them merge ([`Declaration::or`]), and [`Declaration::resolve`] checks it, once,
//! and returns the [`Settings`] that everything after it uses.
//!
//! All parameters are in **one table** (`parameter.rs`), one row per [`Parameter`]: name, type, placeholder, default
//! and help. The structs, the program's flags and their help, the names in files, Python's
//! keywords, the JSON Schema (`docs/declaration.schema.json`), the reference page (`docs/reference/options.md`) and the
//! names in error messages ([`crate::problem`]) all come from it.

mod begun;
mod listed;
mod read;
mod reference;
mod resolve;
mod schema;
mod stretch;
mod table;
mod value;

pub use crate::parameter::{Heading, Parameter, Use};
pub use crate::settings::{Closing, Items, Labels, Settings, SlotRequest};
pub use begun::Present;
pub use read::{near, unknown_in_file};
pub use reference::reference;
pub use resolve::{follows_no_stream, needed, parse_time};
pub use schema::schema;
pub use stretch::Stretches;
pub use table::{Declaration, Files, Questions, Written};
pub use value::{Decimal, DeclaredGroups, Delimiter, PathList, Quote, Value, ValueKind, Word};

#[cfg(test)]
mod tests;
