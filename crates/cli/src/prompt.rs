//! Questions on a terminal. They end with Ctrl-C, also if a handler has been installed for it.

use anyhow::Result;
use dialoguer::console::Term;
use dialoguer::{Confirm, Input, Select};
use evertally_declare::error::Cancelled;
use std::io::{ErrorKind, IsTerminal};

/// Whether somebody can answer: questions are written to standard error.
pub(crate) fn is_possible() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Lines of a terminal on which a list can be shown; the library below panics on fewer.
const LEAST_LINES: u16 = 5;

/// Whether lists can be shown, as [`choose`] needs.
pub(crate) fn has_room() -> bool {
    Term::stderr().size().0 >= LEAST_LINES
}

/// Answers that are shown at once; the arrow keys turn pages.
const PAGE: usize = 12;

/// Asks for yes or no; Enter means no.
pub(crate) fn confirm(question: &str) -> Result<bool> {
    answered(Confirm::new().with_prompt(question).default(false).interact())
}

/// Asks for one of some answers; Enter means the first.
pub(crate) fn choose(question: &str, answers: &[String]) -> Result<usize> {
    answered(Select::new().with_prompt(question).items(answers).default(0).max_length(PAGE).interact())
}

/// Asks for a text until `check` accepts it. Enter means `default`; without one, it means no answer.
pub(crate) fn ask(
    question: &str,
    default: Option<&str>,
    mut check: impl FnMut(&str) -> Result<(), String>,
) -> Result<Option<String>> {
    let input = Input::<String>::new().with_prompt(question).allow_empty(true);
    let input = match default {
        Some(default) => input.default(default.to_owned()),
        None => input,
    };
    let input = input.validate_with(|text: &String| if text.is_empty() { Ok(()) } else { check(text.trim()) });
    let text = answered(input.interact_text())?;
    Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty()))
}

fn answered<T>(answer: dialoguer::Result<T>) -> Result<T> {
    answer.map_err(|dialoguer::Error::IO(error)| {
        // A list hides the cursor while it is shown.
        let _ = Term::stderr().show_cursor();
        match error.kind() {
            ErrorKind::Interrupted => Cancelled.into(),
            _ => error.into(),
        }
    })
}
