//! The sentences of a deployment record. The registry shows them as Markdown.

use evertally::privacy::Neighbours;
use evertally_declare::words::{at_most, plain, short};
use evertally_publish::report::Report;

/// The sentences about one report.
pub(super) struct Sentences<'r> {
    report: &'r Report,
}

/// A list in Markdown.
fn list(items: impl IntoIterator<Item = String>) -> String {
    items.into_iter().map(|item| format!("- {item}")).collect::<Vec<_>>().join("\n")
}

impl<'r> Sentences<'r> {
    pub(super) fn new(report: &'r Report) -> Self {
        Self { report }
    }

    /// The title of the release.
    pub(super) fn title(&self) -> String {
        plain(&self.report.title)
    }

    /// The released quantity, its steps and its groups.
    pub(super) fn description(&self) -> String {
        let (report, horizon) = (self.report, &self.report.horizon);
        let mut quantity = plain(&report.quantity);
        if let Some(first) = quantity.get(..1) {
            quantity = first.to_uppercase() + &quantity[1..];
        }
        let of = match (&report.groups, &report.selection, &report.sketch) {
            (Some(groups), ..) => format!(" for each group of {}", plain(&groups.columns.join(", "))),
            (_, Some(selection), _) => {
                format!(" for each discovered group of {}", plain(&selection.columns.join(", ")))
            }
            (_, _, Some(sketch)) => {
                format!(" of each {}: {}", plain(&sketch.key_columns.join(", ")), plain(&sketch.answers))
            }
            _ => String::new(),
        };
        let every = horizon.publish.as_ref().map_or_else(
            || format!("in steps of {}", horizon.every),
            |publish| format!("in steps of {}, published every {publish}", horizon.every),
        );
        let confidence = 100.0 * report.error.confidence;
        format!(
            "{quantity}{of}, {}, {every} ({}). Each value has a standard error and a {confidence} % interval.",
            self.span(),
            horizon.time_zone
        )
    }

    fn span(&self) -> String {
        let horizon = &self.report.horizon;
        match &horizon.end {
            Some(end) => format!("from {} to {end}", horizon.start),
            None => format!("from {}, without an end", horizon.start),
        }
    }

    /// The data sets that the guarantee covers.
    pub(super) fn data_domain(&self) -> String {
        let unit = &self.report.unit;
        let values = if unit.lower == unit.upper {
            String::new()
        } else {
            let scaled = self.report.groups.as_ref().is_some_and(|groups| groups.scales.is_some());
            let scale = if scaled { ", times the scale of its group" } else { "" };
            format!(
                " The value of an event is a multiple of {} between {} and {}{scale}.",
                unit.grid, unit.lower, unit.upper
            )
        };
        format!("Every finite set of events {}.{values}", self.span())
    }

    /// The public part of a release.
    pub(super) fn unprotected_quantities(&self) -> String {
        let groups = match (&self.report.groups, &self.report.selection) {
            (Some(groups), _) => format!(", the names of the {} declared groups", groups.declared),
            (_, Some(_)) => {
                ", the columns of the groups, whose names are shown above a noisy threshold only".to_owned()
            }
            _ if self.report.sketch.is_some() => ", the list of queried items".to_owned(),
            _ => String::new(),
        };
        format!(
            "No value is released without noise. The declaration is public and is not protected: the steps{groups}, \
             the bounds, the budget and the plan. It must be chosen without looking at the data."
        )
    }

    /// Neighbouring data sets, and the bounds of a unit.
    pub(super) fn privacy_unit(&self) -> String {
        let unit = &self.report.unit;
        let of_events = unit.unit == "one event";
        let mut items = vec![match (of_events, unit.neighbours) {
            (true, Neighbours::AddRemove) => {
                "Adjacent data sets differ in one event, which is added or removed.".into()
            }
            (true, Neighbours::ReplaceOne) => {
                "Adjacent data sets differ in one event, which is replaced by another.".into()
            }
            (false, Neighbours::AddRemove) => {
                format!(
                    "Adjacent data sets differ in one privacy unit, {}: its events are added or removed.",
                    unit.unit
                )
            }
            (false, Neighbours::ReplaceOne) => {
                let change = "its events are replaced by as many others, in any step and group";
                format!("Adjacent data sets differ in one privacy unit, {}: {change}.", unit.unit)
            }
        }];
        let bounds = [
            Some(format!("at most {} in total", unit.max_events)),
            Some(format!("at most {} in one step", unit.max_events_per_step)),
            unit.max_events_per_group.map(|bound| format!("at most {bound} in one group")),
            unit.max_groups.map(|bound| format!("in at most {bound} groups")),
            unit.min_gap.map(|gap| format!("in steps at least {gap} apart")),
        ];
        if !of_events {
            let bounds = bounds.into_iter().flatten().collect::<Vec<_>>().join(", ");
            let restart = match &unit.period {
                Some(period) => format!(" All bounds restart in each period of {period}."),
                None => String::new(),
            };
            items.push(match unit.asserted {
                true => {
                    let whose = unit.asserted_by.as_ref().map_or(String::new(), |by| format!(" Asserted by: {by}."));
                    format!(
                        "Events of a unit: {bounds}. This is an assumption about the data, which nothing \
                         enforces.{whose}{restart}"
                    )
                }
                false => format!("Kept events of a unit: {bounds}. The program drops all further events.{restart}"),
            });
        }
        if unit.lower != unit.upper {
            items.push("Values are rounded to the grid and clamped to their bounds, one by one.".to_owned());
        }
        items.extend(self.several_periods());
        items.push(format!("Facts about many units are not hidden: for k units together, {}.", self.group_privacy()));
        list(items)
    }

    fn group_privacy(&self) -> &'static str {
        match (self.report.guarantee.pure_epsilon, &self.report.selection) {
            (Some(_), _) => "ε is at most k times as large",
            (None, None) => "ρ is at most k² times as large",
            (None, Some(_)) => "ρ is at most k² times as large, and a group that only they have may be shown",
        }
    }

    /// The guarantee for a person who is active in several periods.
    fn several_periods(&self) -> Option<String> {
        let periods = self.report.periods.as_ref()?;
        let active = periods.active.iter().map(|active| {
            let epsilon = active.epsilon.map_or("no ε".to_owned(), |epsilon| format!("ε = {}", at_most(epsilon)));
            let rho = at_most(active.rho);
            let apart = active
                .selection_delta
                .map_or(String::new(), |delta| format!(", except with probability {}", at_most(delta)));
            format!("{}: {epsilon} at δ = {:e}, ρ = {rho}{apart}", active.in_words, active.delta)
        });
        let active = active.collect::<Vec<_>>().join("; ");
        let period = &periods.period;
        Some(if active.is_empty() {
            format!("The guarantee holds for {period}. For a person who is active in several, nothing is promised.")
        } else {
            format!("The guarantee holds for {period}. It is weaker for a person who is active in several: {active}.")
        })
    }

    /// The guarantee in all known forms.
    pub(super) fn privacy_parameters(&self, is_custom: bool) -> String {
        let guarantee = &self.report.guarantee;
        let mut items = vec!["The parameters hold for the whole history of releases together.".to_owned()];
        if is_custom {
            items.push("The variant is δ-approximate ρ-zero-concentrated differential privacy.".to_owned());
        }
        if let Some(epsilon) = guarantee.pure_epsilon {
            items.push(format!("ε-differential privacy with ε = {}.", at_most(epsilon)));
        }
        let except = guarantee.selection_delta.map_or(String::new(), |delta| {
            format!(", except with probability {delta:e}, that of showing a group that only one privacy unit has")
        });
        let rho = at_most(guarantee.rho);
        items.push(format!("ρ-zero-concentrated differential privacy with ρ = {rho}{except}."));
        let curve = guarantee.epsilon_at_delta.iter();
        let curve: Vec<_> = curve.map(|at| format!("ε = {} at δ = {:e}", at_most(at.epsilon), at.delta)).collect();
        let curve = if curve.is_empty() { "no known pair".to_owned() } else { curve.join("; ") };
        items.push(format!("(ε, δ)-differential privacy: {curve}."));
        items.push(format!("The declared budget is {}.", self.report.budget));
        list(items)
    }

    /// The model of trust.
    pub(super) fn model(&self) -> String {
        "One trusted operator has the events and the secret key. The guarantee holds against anyone who sees all \
         releases, the plan and this record, and who does not have the key."
            .to_owned()
    }

    /// The number of steps, and how often the budget is spent.
    pub(super) fn releases(&self) -> String {
        let horizon = &self.report.horizon;
        let rows = if horizon.publish.is_some() { "publications" } else { "steps" };
        let released = horizon.released_steps;
        let spent = match horizon.steps {
            Some(steps) => format!("{released} of {steps} {rows} are released. The budget covers all {steps} together"),
            None => format!("{released} {rows} are released. The budget covers all {rows}, however many follow"),
        };
        let restart = match (&self.report.unit.period, &self.report.unit.window) {
            (_, Some(window)) => format!(" for one privacy unit, which is {} of a person", window.window),
            (Some(period), None) => {
                format!(" for one privacy unit, which is one period ({period}) of a person; the next is another unit")
            }
            (None, None) => ", and does not restart".to_owned(),
        };
        let follows = self.report.follows.as_ref().map_or(String::new(), |follows| {
            format!(
                " The values continue {} earlier steps; {} streams spend the budget.",
                follows.steps, follows.streams
            )
        });
        format!("{spent}{restart}.{follows}")
    }

    /// The time span of the events.
    pub(super) fn data_source(&self) -> String {
        format!("Events {} ({}).", self.span(), self.report.horizon.time_zone)
    }

    /// The access of readers.
    pub(super) fn access(&self) -> String {
        "Readers see the released table. Anything computed from it costs no further privacy.".to_owned()
    }

    /// Functions of the protected values.
    pub(super) fn post_processing(&self) -> String {
        let report = self.report;
        let mut items = Vec::new();
        if let Some(measures) = report.measures.as_ref().filter(|measures| !measures.is_of_workloads) {
            let measures = plain(&measures.measures.join(", "));
            items.push(format!("The measures ({measures}) are computed from noisy sums."));
        }
        if let Some(sketch) = &report.sketch {
            items.push(format!("Answers are computed from the noisy cells of a {}.", sketch.kind));
        }
        items.extend(report.views.iter().map(|view| format!("Column `view_value`: {}.", view.in_words())));
        if report.noise.fraction_bits > 0 {
            items.push(format!("Values are rounded to multiples of 2^-{} of the grid.", report.noise.fraction_bits));
        }
        items.push("Standard errors and intervals follow from the plan.".to_owned());
        list(items)
    }

    /// The accounting of the whole history.
    pub(super) fn composition(&self) -> String {
        let report = self.report;
        let mut items = Vec::new();
        if let Some(measures) = &report.measures {
            items.push("The budget is divided among several sums, whose guarantees compose.".to_owned());
            items.extend(measures.in_words().map(|part| plain(&part)));
        } else {
            let by = match report.noise.s1 {
                Some(s1) => {
                    let l2 = at_most(report.noise.s2);
                    format!(
                        "a change of one input by 1 moves the protected sums by at most {} (L1) or {l2} (L2)",
                        at_most(s1)
                    )
                }
                None => format!(
                    "a change of one input by 1 shifts the noise by at most {} (L2, from the covariance of the \
                     releases)",
                    at_most(report.noise.s2)
                ),
            };
            items.push(format!("Steps are not composed one by one. One mechanism covers all steps: {by}."));
        }
        if report.groups.is_some() || report.selection.is_some() {
            items.push("The sensitivity covers units with events in several groups.".to_owned());
        }
        if let Some(selection) = &report.selection {
            let (delta, times) = (selection.delta, selection.times);
            items.push(format!("The selection of groups adds δ = {delta:e}, over all {times} selection times."));
        }
        if let Some(follows) = &report.follows {
            items.push(match follows.streams_of_a_unit {
                1 => {
                    "One unit has data in one of the consecutive streams, so their guarantees are not composed.".into()
                }
                streams => format!("The guarantees of the {streams} streams that can contain one unit are composed."),
            });
        }
        items.push("Other releases from the same data are not included. Their budgets add to this one.".to_owned());
        list(items)
    }

    /// The mechanism, its implementation, and its key.
    pub(super) fn mechanisms(&self) -> String {
        let (report, noise) = (self.report, &self.report.noise);
        let mut items = Vec::new();
        if report.measures.is_some() {
            items.push("Factorization mechanisms for sums over time, one for each sum; see composition.".to_owned());
        } else {
            let name = report.mechanism.brief();
            items.push(format!(
                "Factorization mechanism `{name}` for sums over time, with {} noise of standard deviation {} on every \
                 protected sum, in units of the data.",
                noise.law,
                short(noise.std)
            ));
        }
        if let Some(sketch) = &report.sketch {
            let size = match (sketch.rows, sketch.width) {
                (Some(rows), Some(width)) => format!(" of {rows} rows of {width} cells"),
                _ => String::new(),
            };
            items.push(format!("Items are counted in a {}{size}.", sketch.kind));
        }
        items.push(format!("Implementation: {}.", report.made_with));
        items.push(
            "Floating point: values, sums and noise are integers, and the noise has the exact probabilities of its \
             discrete law. Conversions of the budget are rounded to the safe side."
                .to_owned(),
        );
        items.push(
            "Timing: the time of a run is not protected. The operator publishes on a schedule, and nobody else may \
             measure a run."
                .to_owned(),
        );
        items.push(format!(
            "Key: all noise is a pseudorandom function (BLAKE3, ChaCha20) of a secret key of 256 bits, with the public \
             id {}. The guarantee assumes that the function cannot be distinguished from random bits.",
            report.key_id
        ));
        let place = report.ledger.as_ref().map_or(String::new(), |ledger| {
            format!(" This release is run {} of ledger {}.", ledger.run, ledger.identity)
        });
        items.push(format!(
            "Record: a ledger next to the key records every release, and refuses other data under the same name.{place}"
        ));
        items.push(format!("Plan: BLAKE3 digest {}.", report.plan_digest));
        list(items)
    }
}
