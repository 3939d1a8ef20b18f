//! The parts of the `evertally` program. [`run`] is the whole program, for its executable and for the Python package.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod commands;
pub mod failure;
mod kebab;
mod lab;
pub mod progress;
mod prompt;
mod searched;
pub mod stream;

use clap::Parser;
use std::ffi::OsString;

/// Runs the program with its arguments, of which the first is its name. Returns the exit status: 0 for success, also if
/// the reader of the output has gone away; otherwise the status of [`failure::exit_status`], after an error on stderr.
///
/// Ends the process for `--help`, `--version` and arguments that clap refuses.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if starts_service(&arguments) {
        // First of all: until then, a signal to reload ends the process. An error comes again when the service starts.
        drop(evertally_server::program::survive_reload_signals());
    }
    match commands::CommandLine::parse_from(arguments).run() {
        Ok(()) => 0,
        Err(error) if failure::is_broken_pipe(&error) => 0,
        Err(error) => {
            eprintln!("error: {}", failure::worded(&error));
            failure::exit_status(&error)
        }
    }
}

/// Whether a service is to run: the other uses of `serve` end with the terminal that they were started from.
fn starts_service(arguments: &[OsString]) -> bool {
    let others = ["--demo", "--check", "--verify", "--health", "--help", "-h"];
    arguments.get(1).is_some_and(|command| command == "serve")
        && !arguments.iter().any(|argument| others.iter().any(|other| argument == other))
}
