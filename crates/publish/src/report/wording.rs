//! The privacy report for people: all that is said of it in words.

use super::{BandFacts, Report, SelectionFacts};
use evertally::privacy::Neighbours;
use evertally::privacy::{Budget, Delta};
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

    /// How often the budget was spent, where it was more than once.
    fn times(&self) -> String {
        self.follows.as_ref().map_or(String::new(), |follows| format!("{} × ", follows.streams_of_a_unit))
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

    /// The promise of [`promise`](Self::promise) as ε and δ, which is 0 for pure ε; `None` where it is next to nothing.
    pub fn strength(&self) -> Option<(f64, f64)> {
        let rows = &self.guarantee.epsilon_at_delta;
        match (self.budget, self.guarantee.pure_epsilon) {
            (Budget::Approximate(stated, delta), pure)
                if self.follows.is_none() && pure.is_none_or(|pure| pure > stated.get()) =>
            {
                Some((stated.get(), self.with_selection(delta)))
            }
            (_, Some(epsilon)) => Some((epsilon, 0.0)),
            // At 10⁻⁶, or at the least δ above what selection takes.
            _ => rows.get(1).or(rows.first()).map(|at| (at.epsilon, at.delta)),
        }
    }

    /// A δ of the noise with that of selection, rounded up.
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
        self.write_facts(out)?;
        self.write_guarantee(out)?;
        self.write_conclusions(out)
    }

    fn write_facts(&self, out: &mut String) -> std::fmt::Result {
        let h = &self.horizon;
        let scaled = self.groups.as_ref().is_some_and(|groups| groups.scales.is_some());
        writeln!(out, "| | |\n|---|---|")?;
        let rows = if h.publish.is_some() { "publications" } else { "steps" };
        let of =
            h.steps.map_or_else(|| format!("{rows} of a stream without end"), |steps| format!("of {steps} {rows}"));
        writeln!(out, "| released | {}, {} {of} |", self.quantity, h.released_steps)?;
        if let Some(f) = &self.follows {
            let (steps, since, streams) = (f.steps, &f.since, f.streams);
            let all = if f.streams_of_a_unit == streams {
                format!("guarantee and errors here are those of all {streams} streams together")
            } else {
                let two = f.streams_of_a_unit;
                format!(
                    "errors here are those of all {streams} streams together, the guarantee that of the {two} in which a period can be"
                )
            };
            writeln!(out, "| goes on from | stream `{}`, {steps} steps since {since}; {all} |", plain(&f.stream))?;
        }
        let span = h
            .end
            .as_ref()
            .map_or_else(|| format!("from {} on, without end", h.start), |end| format!("{} to {end}", h.start));
        writeln!(out, "| horizon | {span}, every {} ({}) |", h.every, h.time_zone)?;
        if let Some(publish) = &h.publish {
            let plan = "the plan, and its mechanism, are for those alone";
            writeln!(out, "| published | every {publish}, the state at the end of it; {plan} |")?;
        }
        if let Some(groups) = &self.groups {
            let rest =
                groups.rest.as_ref().map_or("undeclared groups refused".into(), |r| format!("all others as `{r}`"));
            writeln!(out, "| groups | {} declared by {}, {rest} |", groups.declared, groups.columns.join(", "))?;
        }
        if let Some(scales) = self.groups.as_ref().and_then(|groups| groups.scales) {
            let (least, greatest) = (short(scales.least), short(scales.greatest));
            let what = "each group has one, by which bounds and grid of a value and all errors are multiplied";
            writeln!(out, "| scales | {what}: from {least} to {greatest} |")?;
        }
        if let Some(selection) = &self.selection {
            writeln!(out, "| groups | {} |", selection.in_words().join("; "))?;
        }
        if let Some(sketch) = &self.sketch {
            writeln!(
                out,
                "| items | by {}, each possible one with a count of its own |",
                plain(&sketch.key_columns.join(", "))
            )?;
            let size = match (sketch.rows, sketch.width, sketch.hashing) {
                (Some(rows), Some(width), Some(by)) => format!(" of {rows} rows of {width} cells, hashed by {by}"),
                _ => String::new(),
            };
            writeln!(out, "| sketch | {}{size} |", sketch.kind)?;
            writeln!(out, "| answered | {} |", sketch.answers)?;
        }
        writeln!(out, "| privacy unit | {} |", self.unit.unit)?;
        if let Some(period) = &self.unit.period {
            writeln!(out, "| bounds start anew | in each {}, by the step in which an event counts |", each(period))?;
        }
        let neighbours = match self.unit.neighbours {
            Neighbours::AddRemove => "the unit's events added or removed",
            Neighbours::ReplaceOne if self.unit.period.is_some() => {
                "the unit's events replaced by as many others, in any step of the period and any group"
            }
            Neighbours::ReplaceOne => "the unit's events replaced by as many others, in any step and group",
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
            let what = if measures.is_of_workloads { "workloads" } else { "measures" };
            writeln!(out, "| {what} | {} |", measures.measures.join(", "))?;
            for words in measures.in_words() {
                writeln!(out, "| summed | {words} |")?;
            }
            let confidence = self.error.confidence * 100.0;
            writeln!(out, "| intervals | {confidence} % confidence, each of its own row |")?;
            let digest = &self.plan_digest[..16];
            return writeln!(out, "| stream | {}, key {}, plans {digest} |\n", plain(&self.stream), self.key_id);
        }
        let (l2, by) = (at_most(self.noise.s2), "by at most");
        let moved = match self.noise.s1 {
            Some(s1) => format!("moves the protected sums {by} {} (L1) or {l2} (L2)", at_most(s1)),
            None => format!("is hidden by noise that moves {by} {l2} (L2, by the covariance of the releases)"),
        };
        writeln!(out, "| mechanism | {}: one unit of change {moved} |", self.mechanism.brief())?;
        let n = &self.noise;
        let each = if scaled { ", times the scale of its group" } else { "" };
        writeln!(out, "| noise | {} of standard deviation {} on every protected sum{each} |", n.law, short(n.std))?;
        if n.fraction_bits > 0 {
            let why = "finer than the data, as the noise is; rounding them costs no privacy";
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
                "| standard error by noise | of an answer at most {}, of a cell at most {} |",
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
                writeln!(out, "| standard error by collisions | {error}, with the noise {total}, {from} |")?;
            }
            (half_width, of) = (at_most(sketch.answer_half_width), " of an answer");
            if let Some(error) = sketch.release_std_error {
                let what = "of a release with the same list as groups, for the same budget and unit";
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
            writeln!(out, "| shown beside the released values | {} |", maps.join("; "))?;
        }
        writeln!(out, "| stream | {}, key {}, plan {} |\n", plain(&self.stream), self.key_id, &self.plan_digest[..16])
    }

    fn write_guarantee(&self, out: &mut String) -> std::fmt::Result {
        let g = &self.guarantee;
        writeln!(out, "## Guarantee\n\nFor the whole history of releases together, whoever sees all of them:\n")?;
        if let Some(epsilon) = g.pure_epsilon {
            writeln!(out, "- ε-differential privacy with ε = {};", at_most(epsilon))?;
        }
        match g.selection_delta {
            None => writeln!(out, "- ρ-zero-concentrated differential privacy with ρ = {};", at_most(g.rho))?,
            Some(delta) => writeln!(
                out,
                "- ρ-zero-concentrated differential privacy with ρ = {}, apart from a probability of {delta:e} with which \
                 a group is shown that one unit alone has; that is in every δ below;",
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
        writeln!(
            out,
            "\nIn words: whether {} is in the data or not changes the probability of anything one can see in these releases by \
             a factor of at most e^ε (apart from a probability δ).\n",
            self.unit.unit
        )?;
        self.write_periods(out)
    }

    /// What the unit of a period means for whoever is there for longer.
    fn write_periods(&self, out: &mut String) -> std::fmt::Result {
        let Some(periods) = &self.periods else { return Ok(()) };
        let Some(first) = periods.active.first() else {
            return writeln!(
                out,
                "That is promised for {}. For a person who is active in several nothing is promised: how often a group that \
                 they alone have is shown is not known.\n",
                periods.period
            );
        };
        writeln!(
            out,
            "That is promised for {}. A person who is active in several is promised less, at most:\n\n\
             | active in | ε | ρ | ε at δ = {:e} |\n|---|---|---|---|",
            periods.period, first.delta
        )?;
        periods.active.iter().try_for_each(|active| writeln!(out, "{}", active.row()))?;
        if first.selection_delta.is_some() {
            writeln!(
                out,
                "\nEach ρ holds apart from the probability next to it, with which a group is shown that this person alone has; \
                 that is in the ε."
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
                "ρ is at most k² times as large, and a group that they alone have may be shown unless k is below the floor"
            }
        };
        let several = match self.periods.as_ref().filter(|periods| !periods.active.is_empty()) {
            Some(_) => " (for what one person does in several periods the table above says less)",
            None => "",
        };
        let single = unit.split(" (").next().unwrap_or(unit);
        let value = if self.quantity.starts_with("running") { "running value" } else { "value" };
        let (interval, but) = match &self.sketch {
            None if self.measures.as_ref().is_some_and(|measures| measures.is_of_workloads) => (
                format!(
                    "Each single interval contains the true figure of the kept data with {confidence} % confidence; over many \
                     steps and workloads some will miss. Those of one step have some noise in common."
                ),
                "",
            ),
            None if self.measures.is_some() => (
                format!(
                    "Each single interval contains the true figure of the kept data with {confidence} % confidence; over many \
                     steps and measures some will miss. Measures of one step have some noise in common.\n\
                     - Where there may be no events at all, a mean, variance or quantile has no value: its cell is empty, and \
                     its interval is all that the declared bounds leave."
                ),
                "",
            ),
            None if self.error.band.is_some() => (
                format!(
                    "The intervals of all steps together, of one group, contain the true {value}s of the kept data \
                     with {confidence} % confidence: a band. Over many groups some will miss."
                ),
                "",
            ),
            None => (
                format!(
                    "Each single interval contains the true {value} of the kept data with {confidence} % confidence; \
                     over many steps some will miss. Errors of nearby steps are correlated."
                ),
                "",
            ),
            Some(sketch) => (
                format!(
                    "Each single interval contains the true count of the kept data with {confidence} % confidence{}; over \
                     many answers some will miss.{}\n\
                     - Items that do not occur are answered like all others; no answer tells for sure that one occurs.",
                    if sketch.hashing.is_some() { ", by noise and by other items in the same cells" } else { "" },
                    if sketch.chosen {
                        " The heaviest are chosen by their estimates, which are therefore too large on average; the \
                          intervals take that into account: of those of a list so many hold on average."
                    } else {
                        ""
                    }
                ),
                "; only what collisions add to errors and intervals is computed, like the answers, from released cells",
            ),
        };
        let shown = match &self.selection {
            None => "",
            Some(_) => {
                "\n- That groups which are not shown are small or not there: only what reaches the threshold is shown. Of \
                 those near it, the ones are shown whose noise was high."
            }
        };
        writeln!(
            out,
            "## What you may conclude\n\n\
             - {interval}\n\
             - Whatever is computed from the released table alone is covered by the same guarantee.\n\
             - The numbers in this report follow from the plan and say nothing about the data{but}.\n\n\
             ## What you may not conclude\n\n\
             - That a released value is exact, or that it cannot be negative or decrease: it carries noise.\n\
             - Anything about {single} in particular: that is what the noise protects.\n\
             - That facts about more than {single} are hidden: for k of them together {weaker}{several}.\n\
             - That other releases from the same data are covered: their budgets add to this one.{shown}\n"
        )?;
        if !self.views.is_empty() {
            writeln!(
                out,
                "The columns `view_value`, `view_lower` and `view_upper` are made of the released ones, in this order: {}. \
                 The same was done to the ends of the interval, which hold as often as before; the values are no longer \
                 right on average.\n",
                self.views.iter().map(|view| view.word()).collect::<Vec<_>>().join(", ")
            )?;
        }
        if unit.contains("kept") {
            writeln!(
                out,
                "Only the first {} events of each unit are used, so values describe the kept data; how many were left \
                 out is not published, because that would depend on the data.\n",
                self.unit.max_events
            )?;
        }
        if let Some(says) = &self.unit.late_counts {
            writeln!(out, "Late counts: {says}.\n")?;
        }
        writeln!(out, "Made with evertally {}.", env!("CARGO_PKG_VERSION"))
    }
}

impl BandFacts {
    /// What the band is.
    fn in_words(&self) -> String {
        let holds = "the intervals of all steps of the horizon hold at once, for each group";
        match self.standard_errors {
            Some(errors) => format!(
                "{holds}: {} standard errors on either side, from {} histories of the noise that were simulated from the \
                 plan alone (so often it holds within {:.1} %, which is allowed for)",
                short(errors),
                self.simulated,
                100.0 * self.simulation_error
            ),
            None => format!("{holds}, as if steps were independent, which makes them wider than they need to be"),
        }
    }
}

impl SelectionFacts {
    /// How groups are selected, and what is shown: one fact after the other.
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
                "those by {} that occur and reach {} when they are looked at, {looks}",
                self.columns.join(", "),
                self.threshold
            ),
            format!(
                "with a sum of {half} a group is shown at any one of these times with probability ½, with {almost} with 0.95"
            ),
            format!(
                "a group that one unit alone has is shown with probability {:e} at most, over all times and its {} group{} \
                 of {} event{} at most",
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
                "one of fewer than {} persons with probability {} at most{periods}",
                self.floor,
                at_most(failure)
            ));
        } else if let Some(failure) = self.failure_over_periods.filter(|failure| *failure > self.delta) {
            facts.push(format!(
                "**that is for one period**: one who comes back in every period, does all that is kept of them in a group \
                 that nobody else has, and is there in all steps, shows it with probability {} at most{}",
                if failure > 0.99 { "1".to_owned() } else { at_most(failure) },
                if self.is_read_in_slots {
                    String::new()
                } else {
                    format!(" (a floor of 2 makes that {:e} too)", self.delta)
                }
            ));
        }
        facts
    }
}

/// A period behind "each": `calendar month`.
fn each(period: &str) -> &str {
    period.strip_prefix("one ").unwrap_or(period)
}
