//! The lines of a report about what its rows are: the streams before it, its groups or its items.

use super::Report;
use evertally_declare::words::{plain, short};
use std::fmt::Write;

/// The most names of groups in a sentence.
const MAX_LISTED: usize = 10;

impl Report {
    /// The stream that this one continues from.
    pub(super) fn write_follows(&self, out: &mut String) -> std::fmt::Result {
        if let Some(f) = &self.follows {
            let (steps, since, streams) = (f.steps, &f.since, f.streams);
            let errors = format!("errors are stated for all {streams} streams together");
            let (one, holds) = match &self.unit.period {
                Some(_) if self.unit.window.is_some() => ("window", "can touch"),
                Some(_) => ("period", "can touch"),
                None => ("event", "and its replacement can be in"),
            };
            let all = match f.streams_of_a_unit {
                all if all == streams => format!("guarantee and {errors}"),
                1 => format!("{errors}; the guarantee is that of a single stream, because each {one} lies in one"),
                two => format!("{errors}, the guarantee for the {two} that one {one} {holds}"),
            };
            writeln!(out, "| continues from | stream `{}`, {steps} steps since {since}; {all} |", plain(&f.stream))?;
        }
        Ok(())
    }

    /// The groups, or the items of a sketch.
    pub(super) fn write_groups(&self, out: &mut String) -> std::fmt::Result {
        if let Some(groups) = &self.groups {
            let undeclared = match self.policies.contains_key("unknown-group") {
                true => "undeclared groups skipped",
                false => "undeclared groups refused",
            };
            let rest = groups.rest.as_ref().map_or(undeclared.into(), |r| format!("all others as `{r}`"));
            writeln!(out, "| groups | {} declared by {}, {rest} |", groups.declared, groups.columns.join(", "))?;
            for later in &groups.joined {
                let (names, since) = (listed(&later.groups), &later.since);
                writeln!(out, "| joined later | {names}: counted from {since} |")?;
            }
        }
        if let Some(scales) = self.groups.as_ref().and_then(|groups| groups.scales) {
            let (least, greatest) = (short(scales.least), short(scales.greatest));
            let what = "each group has one, which multiplies the bounds and grid of its values and all errors";
            writeln!(out, "| scales | {what}: from {least} to {greatest} |")?;
        }
        if let Some(selection) = &self.selection {
            writeln!(out, "| groups | {} |", selection.in_words().join("; "))?;
        }
        if let Some(sketch) = &self.sketch {
            writeln!(
                out,
                "| items | by {}, with a separate count for every possible item |",
                plain(&sketch.key_columns.join(", "))
            )?;
            let size = match (sketch.rows, sketch.width, &sketch.hashing) {
                (Some(rows), Some(width), Some(by)) => format!(" of {rows} rows of {width} cells, hashed by {by}"),
                _ => String::new(),
            };
            writeln!(out, "| sketch | {}{size} |", sketch.kind)?;
            writeln!(out, "| answered | {} |", sketch.answers)?;
        }
        Ok(())
    }
}

/// Names of groups in a row of a table.
fn listed(groups: &[Vec<String>]) -> String {
    let names: Vec<String> = groups.iter().take(MAX_LISTED).map(|group| plain(&group.join(", "))).collect();
    match groups.len().saturating_sub(MAX_LISTED) {
        0 => names.join("; "),
        more => format!("{} and {more} more", names.join("; ")),
    }
}
