//! The `evertally` program: see `evertally --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(evertally_cli::run(std::env::args_os()))
}
