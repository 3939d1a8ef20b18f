//! The privacy report for people: all of its sentences.

use super::{BandFacts, HEADLINE_DELTA, Report, SelectionFacts, UnitFacts, headline_delta};
use evertally::privacy::Neighbours;
use evertally::privacy::{Budget, Delta};
use evertally_declare::measures::{MEASURE, WORKLOAD};
use evertally_declare::settings::Assertion;
use evertally_declare::words::{at_most, plain, short};
use std::fmt::Write;

impl Report {
    /// Budget, unit and mechanism in one line.
    pub fn headline(&self) -> String {
        let (unit, mut mechanism, law) = (&self.unit.unit, self.mechanism.brief().to_string(), &self.noise.law);
        if let Some(measures) = &self.measures {
            let parts = measures.parts.len();
            mechanism = if !measures.is_of_workloads {
                format!("{} measures of {parts} noisy sums", measures.measures.len())
            } else if measures.parts[1].share.is_none() {
                format!("{parts} workloads from one release by {}", measures.parts[0].mechanism.brief())
            } else {
                format!("{parts} workloads, each with its share of the budget")
            };
        }
        let selection =
            self.selection.as_ref().map_or(String::new(), |s| format!(", δ = {:e} for finding groups", s.delta));
        format!("{}{}{selection} for {unit} · {mechanism} · {law}", self.times(), self.budget)
    }

    /// The number of streams whose guarantees are composed.
    fn streams_of_a_unit(&self) -> u32 {
        self.follows.as_ref().map_or(1, |follows| follows.streams_of_a_unit)
    }

    /// The number of times that the budget was spent, if more than once.
    fn times(&self) -> String {
        match self.streams_of_a_unit() {
            1 => String::new(),
            several => format!("{several} × "),
        }
    }

    /// The guarantee in one sentence.
    pub fn promise(&self) -> String {
        let strength = match self.strength() {
            Some((epsilon, 0.0)) => format!("{}-differentially private", at_most(epsilon)),
            Some((epsilon, delta)) => format!("({}, {delta:e})-differentially private", at_most(epsilon)),
            None => "protected by next to nothing: the δ of selection is too large".to_owned(),
        };
        format!("The whole history shown is {strength} with respect to {}.", self.unit.unit)
    }

    /// The guarantee of [`promise`](Self::promise) as ε and δ, which is 0 for pure ε; `None` if it is next to nothing.
    pub fn strength(&self) -> Option<(f64, f64)> {
        let rows = &self.guarantee.epsilon_at_delta;
        match (self.budget, self.guarantee.pure_epsilon) {
            (Budget::Approximate(stated, delta), pure)
                if self.streams_of_a_unit() == 1 && pure.is_none_or(|pure| pure > stated.get()) =>
            {
                Some((stated.get(), self.with_selection(delta)))
            }
            (_, Some(epsilon)) => Some((epsilon, 0.0)),
            _ => {
                let headline = self.guarantee.selection_delta.map_or(HEADLINE_DELTA, headline_delta);
                rows.iter().find(|at| at.delta == headline).map(|at| (at.epsilon, at.delta))
            }
        }
    }

    /// The sum of a δ of the noise and that of selection, rounded up.
    fn with_selection(&self, delta: Delta) -> f64 {
        let selection = self.guarantee.selection_delta.and_then(|selection| Delta::new(selection).ok());
        selection.map_or(delta.get(), |selection| delta.plus(selection))
    }

    /// The report for people.
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        self.write_markdown(&mut out).expect("a String accepts every write");
        out
    }

    fn write_markdown(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "# Privacy report: {}\n", plain(&self.title))?;
        writeln!(out, "{}\n", self.promise())?;
        if let Some(assertion) = self.unit.assertion() {
            writeln!(out, "**{}**\n", plain(&assertion.in_words()))?;
        }
        self.write_facts(out)?;
        self.write_guarantee(out)?;
        self.write_conclusions(out)
    }

    /// What happens to events that do not fit, where they are not refused.
    fn write_policies(&self, out: &mut String) -> std::fmt::Result {
        let policy = |name: &str| self.policies.get(name).map(String::as_str);
        let skipped: Vec<&str> = [
            policy("missing").map(|_| "events with a missing time, person, value or item"),
            policy("outside").map(|_| "events outside the horizon"),
        ]
        .into_iter()
        .flatten()
        .collect();
        if !skipped.is_empty() {
            writeln!(out, "| skipped | {} |", skipped.join("; "))?;
        }
        match policy("late") {
            Some("next-step") => writeln!(out, "| late events | counted in the first open step |")?,
            Some(_) => writeln!(out, "| late events | written to a separate file, and not counted |")?,
            None => {}
        }
        if policy("bad-rows").is_some() {
            writeln!(out, "| rows that cannot be read | written to a separate file, and not counted |")?;
        }
        if policy("date-only").is_some() {
            writeln!(out, "| dates without a time of day | counted at midnight |")?;
        }
        Ok(())
    }

    fn write_facts(&self, out: &mut String) -> std::fmt::Result {
        let h = &self.horizon;
        let scaled = self.groups.as_ref().is_some_and(|groups| groups.scales.is_some());
        writeln!(out, "| | |\n|---|---|")?;
        let rows = if h.publish.is_some() { "publications" } else { "steps" };
        let of =
            h.steps.map_or_else(|| format!("{rows} of a stream without end"), |steps| format!("of {steps} {rows}"));
        writeln!(out, "| released | {}, {} {of} |", self.quantity, h.released_steps)?;
        if let Some(filter) = &self.filter {
            writeln!(out, "| counted | only rows where {} |", plain(filter))?;
        }
        self.write_follows(out)?;
        let span = h
            .end
            .as_ref()
            .map_or_else(|| format!("from {}, without end", h.start), |end| format!("{} to {end}", h.start));
        writeln!(out, "| horizon | {span}, every {} ({}) |", h.every, h.time_zone)?;
        if let Some(publish) = &h.publish {
            let plan = "the plan and its mechanism cover only these publications";
            writeln!(out, "| published | every {publish}, with the state at its end; {plan} |")?;
        }
        self.write_groups(out)?;
        self.write_policies(out)?;
        writeln!(out, "| privacy unit | {} |", self.unit.unit)?;
        if self.unit.asserted {
            writeln!(out, "| bounds on a person | assumed, not enforced: no column names people |")?;
        }
        if let Some(period) = &self.unit.period {
            writeln!(out, "| bounds restart | in each {}, by the step in which an event counts |", each(period))?;
        }
        if let Some(window) = &self.unit.window {
            let turns = if window.periods == 1 { "one period" } else { "the turn of a period" };
            let (periods, factor) = (window.periods, short(window.noise_factor));
            writeln!(
                out,
                "| compared with one period | {} is protected, also across {turns}: it touches up to {periods} \
                 periods. The noise is {factor} times that for one period |",
                window.window
            )?;
        }
        let neighbours = match self.unit.neighbours {
            Neighbours::ReplaceOne if self.unit.window.is_some() => {
                "the privacy unit's events replaced by as many others, in any step of the window and any group"
            }
            Neighbours::AddRemove => "the privacy unit's events added or removed",
            Neighbours::ReplaceOne if self.unit.period.is_some() => {
                "the privacy unit's events replaced by as many others, in any step of the period and any group"
            }
            Neighbours::ReplaceOne => "the privacy unit's events replaced by as many others, in any step and group",
        };
        writeln!(out, "| neighbouring data | {neighbours} |")?;
        let of_values = self.quantity.starts_with("running sum") || self.quantity.starts_with("sum of");
        if of_values || (self.measures.is_some() && self.unit.lower != self.unit.upper) {
            writeln!(
                out,
                "| one event | between {} and {}, on a grid of {}{} |",
                self.unit.lower,
                self.unit.upper,
                self.unit.grid,
                if scaled { ", times the scale of its group" } else { "" }
            )?;
        }
        writeln!(out, "| budget | {}{} |", self.times(), self.budget)?;
        if let Some(measures) = &self.measures {
            let (what, column) = match measures.is_of_workloads {
                true => ("workloads", WORKLOAD),
                false => ("measures", MEASURE),
            };
            writeln!(out, "| {what} | {} |", measures.titles.join(", "))?;
            writeln!(out, "| column `{column}` | {} |", measures.measures.join(", "))?;
            for words in measures.in_words() {
                writeln!(out, "| summed | {words} |")?;
            }
            if let Some(note) = &self.noise.correlation_note {
                writeln!(out, "| noise of groups | {note} |")?;
            }
            let confidence = self.error.confidence * 100.0;
            writeln!(out, "| intervals | {confidence} % confidence for each row |")?;
            let digest = &self.plan_digest[..16];
            return writeln!(out, "| stream | {}, key {}, plans {digest} |\n", plain(&self.stream), self.key_id);
        }
        let (l2, by) = (at_most(self.noise.s2), "by at most");
        let moved = match self.noise.s1 {
            Some(s1) => format!("moves the protected sums {by} {} (L1) or {l2} (L2)", at_most(s1)),
            None => format!("shifts the noise {by} {l2} (L2, from the covariance of the releases)"),
        };
        writeln!(out, "| mechanism | {}: a change of one input by 1 {moved} |", self.mechanism.brief())?;
        let n = &self.noise;
        let each = if scaled { ", times the scale of its group" } else { "" };
        writeln!(out, "| noise | {} of standard deviation {} on every protected sum{each} |", n.law, short(n.std))?;
        if let Some(correlation) = &n.correlation {
            writeln!(out, "| noise of groups | {} |", correlation.in_words())?;
        }
        if let Some(note) = &n.correlation_note {
            writeln!(out, "| noise of groups | {note} |")?;
        }
        if n.fraction_bits > 0 {
            let why = "on a finer grid than the data, like the noise; rounding them costs no privacy";
            writeln!(out, "| released values | {why} |")?;
        }
        match &self.sketch {
            None => writeln!(
                out,
                "| standard error | at most {}, {} in root mean square{} |",
                at_most(self.error.max_std_error),
                short(self.error.mean_std_error),
                if scaled { ", of a group with the greatest scale" } else { "" }
            ),
            Some(sketch) => writeln!(
                out,
                "| standard error from noise | at most {} for an answer, at most {} for a cell |",
                at_most(self.error.max_std_error),
                at_most(sketch.max_cell_std_error)
            ),
        }?;
        let e = &self.error;
        let (mut half_width, mut of) = (e.last_step_half_width.to_string(), "");
        if let Some(sketch) = &self.sketch {
            if sketch.hashing.is_some() {
                let (error, total) = (short(sketch.collision_std_error), short(sketch.answer_std_error));
                let from = "at the last step, computed from the released cells";
                writeln!(out, "| standard error from collisions | {error}, including noise {total}, {from} |")?;
            }
            (half_width, of) = (at_most(sketch.answer_half_width), " of an answer");
            if let Some(error) = sketch.release_std_error {
                let what = "of a release of the same list as groups, for the same budget and unit";
                writeln!(out, "| standard error in comparison | {what}: at most {} |", at_most(error))?;
            }
        }
        let widest = if scaled { ", of a group with the greatest scale" } else { "" };
        let confidence = e.confidence * 100.0;
        let step = if self.horizon.released_steps == 0 { "first" } else { "last" };
        writeln!(out, "| interval{of} at the {step} step | ± {half_width} at {confidence} % confidence{widest} |")?;
        if let Some(band) = &e.band {
            writeln!(out, "| band | {} |", band.in_words())?;
        }
        if !self.views.is_empty() {
            let maps: Vec<String> =
                self.views.iter().map(|view| format!("`{}`: {}", view.word(), view.in_words())).collect();
            writeln!(out, "| shown next to the released values | {} |", maps.join("; "))?;
        }
        writeln!(out, "| stream | {}, key {}, plan {} |\n", plain(&self.stream), self.key_id, &self.plan_digest[..16])
    }

    fn write_guarantee(&self, out: &mut String) -> std::fmt::Result {
        let g = &self.guarantee;
        writeln!(
            out,
            "## Guarantee\n\nFor the whole history of releases together, against anyone who sees all of them:\n"
        )?;
        if let Some(epsilon) = g.pure_epsilon {
            writeln!(out, "- ε-differential privacy with ε = {};", at_most(epsilon))?;
        }
        match g.selection_delta {
            None => writeln!(out, "- ρ-zero-concentrated differential privacy with ρ = {};", at_most(g.rho))?,
            Some(delta) => writeln!(
                out,
                "- ρ-zero-concentrated differential privacy with ρ = {}, except with probability {delta:e}: that of \
                 showing a group that only one privacy unit has; every δ below includes it;",
                at_most(g.rho)
            )?,
        }
        let stated = match self.budget {
            Budget::Approximate(epsilon, _) => epsilon.get(),
            _ => f64::INFINITY,
        };
        if g.pure_epsilon.is_none_or(|pure| pure > stated) {
            writeln!(out, "- (ε, δ)-differential privacy with any of\n\n| δ | ε |\n|---|---|")?;
            for row in &g.epsilon_at_delta {
                writeln!(out, "| {:e} | {} |", row.delta, at_most(row.epsilon))?;
            }
        }
        let apart = if g.pure_epsilon.is_some() { "" } else { " (apart from a probability δ)" };
        writeln!(
            out,
            "\nIn words: whether {} is in the data or not changes the probability of anything one can see in these \
             releases by a factor of at most e^ε{apart}.\n",
            self.unit.unit
        )?;
        self.write_periods(out)
    }

    /// The guarantee for people who are active for longer than the one period of the unit.
    fn write_periods(&self, out: &mut String) -> std::fmt::Result {
        let Some(periods) = &self.periods else { return Ok(()) };
        let Some(first) = periods.active.first() else {
            return writeln!(
                out,
                "This guarantee holds for {}. For a person who is active in several, nothing is promised: there is no \
                 known bound on the probability that a group with only that person is shown.\n",
                periods.period
            );
        };
        writeln!(
            out,
            "This guarantee holds for {}. For a person who is active in several it is weaker, at most:\n\n\
             | active in | ε | ρ | ε at δ = {:e} |\n|---|---|---|---|",
            periods.period, first.delta
        )?;
        periods.active.iter().try_for_each(|active| writeln!(out, "{}", active.row()))?;
        if first.selection_delta.is_some() {
            writeln!(
                out,
                "\nEach ρ holds except with the probability next to it: that of showing a group that only this person \
                 has. The ε includes it."
            )?;
        }
        writeln!(out)
    }

    fn write_conclusions(&self, out: &mut String) -> std::fmt::Result {
        let confidence = self.error.confidence * 100.0;
        let unit = &self.unit.unit;
        let weaker = match (self.guarantee.pure_epsilon, &self.selection) {
            (Some(_), _) => "ε is at most k times as large",
            (None, None) => "ρ is at most k² times as large",
            (None, Some(_)) => {
                "ρ is at most k² times as large, and a group that only they have may be shown unless k is below the \
                 floor"
            }
        };
        let several = match self.periods.as_ref().filter(|periods| !periods.active.is_empty()) {
            Some(_) => " (for one person in several periods the table above gives smaller numbers)",
            None => "",
        };
        let single = unit.split(" (").next().unwrap_or(unit);
        let value = if self.quantity.starts_with("running") { "running value" } else { "value" };
        let data = if self.unit.asserted { "the data" } else { "the kept data" };
        let (interval, but) = match &self.sketch {
            None if self.measures.as_ref().is_some_and(|measures| measures.is_of_workloads) => (
                format!(
                    "Each single interval contains the true value of {data} with {confidence} % confidence; \
                     over many steps and workloads some will miss. Intervals of one step share some noise."
                ),
                "",
            ),
            None if self.measures.is_some() => (
                format!(
                    "Each single interval contains the true value of {data} with {confidence} % confidence; \
                     over many steps and measures some will miss. Measures of one step share some noise.\n\
                      - If there may be no events at all, a mean, variance or quantile has no value: its cell is \
                      empty, and its interval is the whole range that the declared bounds allow."
                ),
                "",
            ),
            None if self.error.band.is_some() => (
                format!(
                    "The intervals of all steps of one group together contain the true {value}s of {data} \
                     with {confidence} % confidence: a band. Over many groups some will miss."
                ),
                "",
            ),
            None => (
                format!(
                    "Each single interval contains the true {value} of {data} with {confidence} % confidence; \
                     over many steps some will miss. Errors of nearby steps are correlated."
                ),
                "",
            ),
            Some(sketch) => (
                format!(
                    "Each single interval contains the true count of {data} with {confidence} % confidence{}; \
                     over many answers some will miss.{}\n\
                     - Items that do not occur are answered like all others; no answer proves that an item occurs.",
                    if sketch.hashing.is_some() { ", covering noise and other items in the same cells" } else { "" },
                    if sketch.chosen {
                        " The heaviest are chosen by their estimates, which are therefore too large on average. The \
                         intervals allow for that: on average, this share of the intervals of a list hold."
                    } else {
                        ""
                    }
                ),
                "; only the part of collisions in errors and intervals is computed from released cells, like the \
                 answers",
            ),
        };
        let beyond = match self.unit.asserted {
            true => {
                "- That people with more events than assumed are protected as stated: each counts as several units.\n"
            }
            false => "",
        };
        let shown = match &self.selection {
            None => "",
            Some(_) => {
                "\n- That groups which are not shown are small or absent: a group is shown only if it reaches the \
                 threshold. Of the groups near it, those with high noise are shown."
            }
        };
        writeln!(
            out,
            "## What you may conclude\n\n\
             - {interval}\n\
             - Anything computed from the released table alone is covered by the same guarantee.\n\
             - The numbers in this report follow from the plan and say nothing about the data{but}.\n\n\
             ## What you may not conclude\n\n\
             - That a released value is exact, or that it cannot be negative or decrease: it carries noise.\n\
             - Anything about {single} in particular: that is what the noise protects.\n\
             {beyond}- That facts about more than {single} are hidden: for k of them together {weaker}{several}.\n\
             - That other releases from the same data are covered: their budgets add to this one.{shown}\n"
        )?;
        if !self.views.is_empty() {
            writeln!(
                out,
                "The columns `view_value`, `view_lower` and `view_upper` are computed from the released ones, in this \
                 order: {}. The same maps were applied to the ends of the interval, which holds as often as before; \
                 the values are no longer right on average.\n",
                self.views.iter().map(|view| view.word()).collect::<Vec<_>>().join(", ")
            )?;
        }
        if unit.contains("kept") && !self.unit.asserted {
            writeln!(
                out,
                "Only the first {} events of each privacy unit are used, so values describe the kept data; the number \
                 of dropped events is not published, because that would depend on the data.\n",
                self.unit.max_events
            )?;
        }
        if let Some(says) = &self.unit.late_counts {
            writeln!(out, "Late counts: {says}.\n")?;
        }
        writeln!(out, "Made with {}.", self.made_with)
    }
}

impl UnitFacts {
    /// The assumption about the bounds, if nothing enforces them.
    fn assertion(&self) -> Option<Assertion> {
        self.asserted.then(|| Assertion { by: self.asserted_by.clone() })
    }
}

impl BandFacts {
    /// A description of the band.
    fn in_words(&self) -> String {
        let holds = "the intervals of all steps of the horizon hold at once, for each group";
        match self.standard_errors {
            Some(errors) => format!(
                "{holds}: {} standard errors on either side, from {} noise histories simulated from the plan alone \
                 (accurate to {:.1} %, which the band allows for)",
                short(errors),
                self.simulated,
                100.0 * self.simulation_error
            ),
            None => format!("{holds}, as if steps were independent, which makes them wider than they need to be"),
        }
    }
}

impl SelectionFacts {
    /// How groups are selected and shown, as separate facts.
    pub fn in_words(&self) -> Vec<String> {
        let plural = |count: u64| if count == 1 { "" } else { "s" };
        let (times, every) = (self.times, self.every);
        let looks = match times {
            1 => "once, after the last step".to_owned(),
            _ if every == 1 => format!("after each of the {times} steps"),
            _ => format!("{times} times, every {every} steps and after the last"),
        };
        let (half, almost) = (self.shown_half, self.shown_almost);
        let mut facts = vec![
            format!(
                "those by {} that occur and reach {} at a selection time: {looks}",
                self.columns.join(", "),
                self.threshold
            ),
            format!(
                "a group with a sum of {half} is shown at any one of these times with probability ½, with a sum of \
                 {almost} with probability 0.95"
            ),
            format!(
                "a group that only one privacy unit has is shown with probability at most {:e}, over all times and its \
                 {} group{} of at most {} event{}",
                self.delta,
                self.new_groups,
                plural(self.new_groups),
                self.events_per_group,
                plural(self.events_per_group)
            ),
        ];
        if let Some(failure) = self.failure_below_floor {
            let periods = if self.failure_over_periods.is_some() { ", over all periods together" } else { "" };
            facts.push(format!(
                "a group of fewer than {} people is shown with probability at most {}{periods}",
                self.floor,
                at_most(failure)
            ));
        } else if let Some(failure) = self.failure_over_periods.filter(|failure| *failure > self.delta) {
            facts.push(format!(
                "**this is for one period**: a group with a single person, who returns in every period, contributes \
                 the maximum to it and is present in all steps, is shown with probability at most {}{}",
                if failure > 0.99 { "1".to_owned() } else { at_most(failure) },
                if self.is_read_in_slots {
                    String::new()
                } else {
                    format!(" (a floor of 2 lowers it to {:e})", self.delta)
                }
            ));
        }
        facts
    }
}

/// A period as it follows "each": `calendar month`.
fn each(period: &str) -> &str {
    period.strip_prefix("one ").unwrap_or(period)
}
