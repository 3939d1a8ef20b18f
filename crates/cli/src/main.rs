//! The `evertally` program: see `evertally --help`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

use clap::Parser;
use evertally_cli::commands::CommandLine;
use evertally_cli::failure::{exit_status, is_broken_pipe, worded};
use std::process::ExitCode;

fn main() -> ExitCode {
    match CommandLine::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", worded(&error));
            ExitCode::from(exit_status(&error))
        }
    }
}
