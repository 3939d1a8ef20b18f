//! The flags of commands that publish, from the table of parameters.

use anyhow::Result;
use clap::builder::{PossibleValue, PossibleValuesParser, ValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command};
use evertally::privacy::{Budget, Neighbours, Unit};
use evertally_declare::declaration::{Declaration, Parameter, SlotRequest, Use, ValueKind, Word, Written};
use evertally_declare::problem::{Problem, Wording};
use evertally_declare::settings::Assertion;
use evertally_declare::steps::Period;
use std::ffi::OsStr;
use std::path::PathBuf;

/// Some of the table's parameters, as flags of a command.
pub(crate) trait Flags: From<Written> {
    /// The parameters of this command.
    fn parameters() -> impl Iterator<Item = Parameter>;

    /// The values that were given.
    fn written(&mut self) -> &mut Written;

    /// The parameters that help does not show.
    fn hidden() -> &'static [Parameter] {
        &[]
    }
}

/// Implements [`clap::Args`] for [`Flags`], which clap's derive cannot do.
macro_rules! table_flags {
    ($($flags:ty: $parameters:expr $(, hidden $hidden:expr)?);+ $(;)?) => { $(
        impl From<Written> for $flags {
            fn from(written: Written) -> Self {
                Self(written)
            }
        }

        impl Flags for $flags {
            fn parameters() -> impl Iterator<Item = Parameter> {
                $parameters
            }

            fn written(&mut self) -> &mut Written {
                &mut self.0
            }
            $(
            fn hidden() -> &'static [Parameter] {
                $hidden
            }
            )?
        }

        impl clap::Args for $flags {
            fn augment_args(command: Command) -> Command {
                <$flags as Flags>::parameters().fold(command, |command, parameter| {
                    command.arg(argument(parameter).hide(<$flags as Flags>::hidden().contains(&parameter)))
                })
            }

            fn augment_args_for_update(command: Command) -> Command {
                Self::augment_args(command)
            }
        }

        impl clap::FromArgMatches for $flags {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
                read::<$flags>(matches, Written::default())
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
                *self = read::<$flags>(matches, std::mem::take(self.written()))?;
                Ok(())
            }
        }
    )+ };
}

/// Flags of `evertally release`. Each can also stand in the `--config` file under its own name; a flag on the command
/// line wins.
#[derive(Clone, Debug, Default)]
pub struct ReleaseFlags(pub(crate) Written);

/// Flags of `evertally sketch`, used like those of `evertally release`.
#[derive(Clone, Debug, Default)]
pub struct SketchFlags(pub(crate) Written);

/// Flags of `evertally bounds`: those of the planned `evertally release`. Its table goes to another file, with a flag
/// of the same name.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlannedFlags(pub(crate) Written);

/// Flags of a release that change nothing about its bounds, so that help does not show them. They are accepted because
/// both commands share flags and configuration files.
const UNUSED_WHEN_PLANNED: &[Parameter] = &[
    Parameter::OutputFormat,
    Parameter::NoPlot,
    Parameter::PlotGroups,
    Parameter::UnsafeShowTruth,
    Parameter::Confidence,
    Parameter::Band,
    Parameter::View,
    Parameter::Title,
    Parameter::Top,
    Parameter::Continue,
    Parameter::Rebuild,
    Parameter::Expect,
    Parameter::Extend,
    Parameter::Late,
    Parameter::LateFile,
    Parameter::BadRows,
    Parameter::BadFile,
    Parameter::SortBuffer,
    Parameter::Through,
    Parameter::All,
    Parameter::Yes,
    Parameter::MaxEvents,
    Parameter::MaxEventsPerStep,
    Parameter::AssertMaxEvents,
    Parameter::AssertMaxEventsPerStep,
    Parameter::AssertMaxEventsPerGroup,
    Parameter::AssertMaxGroups,
    Parameter::AssertMaxTotal,
    Parameter::AssertMinGap,
    Parameter::AssertedBy,
    Parameter::Value,
    Parameter::Bounds,
    Parameter::Grid,
    Parameter::OutOfBounds,
    Parameter::MaxTotal,
    Parameter::Scales,
    Parameter::ScaleColumn,
    Parameter::RestScale,
];

impl PlannedFlags {
    /// The given flags that change nothing.
    pub(crate) fn unused(&self) -> impl Iterator<Item = Parameter> {
        UNUSED_WHEN_PLANNED.iter().copied().filter(|parameter| self.0.has(*parameter))
    }
}

/// A privacy budget: ε, or ε and δ, or ρ.
#[derive(Clone, Debug, Default)]
pub(crate) struct BudgetFlags(Written);

/// Whom a plan without a calendar protects.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnitFlags(Written);

/// What a plan without a calendar publishes.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkloadFlags(Written);

/// Flags of [`UnitFlags`].
const UNIT: [Parameter; 14] = [
    Parameter::MaxEvents,
    Parameter::MaxEventsPerStep,
    Parameter::MaxEventsPerGroup,
    Parameter::MaxGroups,
    Parameter::MinGap,
    Parameter::AssertMaxEvents,
    Parameter::AssertMaxEventsPerStep,
    Parameter::AssertMaxEventsPerGroup,
    Parameter::AssertMaxGroups,
    Parameter::AssertMinGap,
    Parameter::AssertedBy,
    Parameter::Per,
    Parameter::ProtectWindow,
    Parameter::Neighbours,
];

table_flags! {
    WorkloadFlags: [Parameter::Workload, Parameter::Publish].into_iter();
    UnitFlags: UNIT.into_iter();
    ReleaseFlags: Parameter::used_by(Use::Release);
    SketchFlags: Parameter::used_by(Use::Sketch);
    PlannedFlags: Parameter::used_by(Use::Release).filter(|parameter| *parameter != Parameter::Out),
        hidden UNUSED_WHEN_PLANNED;
    BudgetFlags: [Parameter::Epsilon, Parameter::Delta, Parameter::Rho, Parameter::AllowWeakBudget].into_iter();
}

impl BudgetFlags {
    /// The validated budget.
    pub(crate) fn budget(&self) -> Result<Budget, Problem> {
        self.0.declaration.budget()
    }

    /// Whether only ε is given.
    pub(crate) fn is_pure(&self) -> bool {
        self.0.declaration.delta.is_none() && self.0.declaration.rho.is_none()
    }
}

impl WorkloadFlags {
    /// The number of steps between publications, if not every step is published.
    pub(crate) fn row(&self) -> Option<u64> {
        match self.0.declaration.publish? {
            Period::Steps(steps) => Some(steps),
            Period::Time(_) => None, // refused by all plans without a calendar
        }
    }

    /// The request for a plan over `horizon` steps.
    pub(crate) fn over(&self, unit: &UnitFlags, horizon: u64) -> Result<SlotRequest, Problem> {
        let Declaration { workload, publish, .. } = self.0.declaration.clone();
        Declaration { workload, publish, ..unit.0.declaration.clone() }.in_slots(horizon)
    }
}

impl UnitFlags {
    /// The validated unit: an event if no flag is about persons.
    pub(crate) fn unit(&self) -> Result<Unit, Problem> {
        self.0.declaration.plan_unit()
    }

    /// The assumption about the bounds, if they are asserted.
    pub(crate) fn assertion(&self) -> Option<Assertion> {
        let declaration = &self.0.declaration;
        declaration.asserts().then(|| Assertion { by: declaration.asserted_by.clone() })
    }

    /// How its events differ in neighbouring data.
    pub(crate) fn neighbours(&self) -> Neighbours {
        self.0.declaration.neighbours.unwrap_or(Neighbours::AddRemove)
    }

    /// Whether anything was given.
    pub(crate) fn is_given(&self) -> bool {
        UNIT.iter().any(|parameter| self.0.has(*parameter))
    }
}

fn read<F: Flags>(matches: &ArgMatches, mut written: Written) -> Result<F, clap::Error> {
    for parameter in F::parameters() {
        if let Some(texts) = matches.get_raw(parameter.name()) {
            let texts: Vec<&OsStr> = texts.collect();
            let set = written.set(parameter, &texts);
            set.map_err(|problem| clap::Error::raw(ErrorKind::ValueValidation, format!("{problem}\n")))?;
        }
    }
    Ok(F::from(written))
}

/// A parameter as a flag.
fn argument(parameter: Parameter) -> Arg {
    let (kind, name) = (parameter.kind(), parameter.name());
    let mut argument = Arg::new(name).value_name(parameter.value_name()).value_parser(parser(parameter));
    let help = help(parameter);
    if let (Some(example), false) = (parameter.example(), matches!(kind, ValueKind::Words(_))) {
        argument = argument.long_help(format!("{help} [example: {example}]"));
    }
    argument = argument.help(help);
    if let Some(title) = parameter.heading().title() {
        argument = argument.help_heading(title);
    }
    argument = match parameter {
        Parameter::Input => argument.num_args(1..),
        Parameter::Out => argument.long(name).short('o'),
        Parameter::Quiet => argument.long(name).short('q'),
        Parameter::TimeZone => argument.long(name).allow_hyphen_values(true), // -05:00
        _ => argument.long(name),
    };
    match kind {
        ValueKind::Paths | ValueKind::Measures | ValueKind::Workloads => argument.action(ArgAction::Append),
        ValueKind::Texts | ValueKind::Groups | ValueKind::Scales => {
            argument.action(ArgAction::Append).value_delimiter(',')
        }
        ValueKind::Decimals => argument.action(ArgAction::Append).value_delimiter(',').allow_hyphen_values(true),
        ValueKind::Number => argument.allow_negative_numbers(true),
        ValueKind::Switch => argument.num_args(0..=1).require_equals(true).default_missing_value("true"),
        _ => argument,
    }
}

/// The help text: one paragraph with the default and without the final full stop.
fn help(parameter: Parameter) -> String {
    let mut text = parameter.about(Wording::Flags).trim_end_matches('.').to_owned();
    match parameter.kind() {
        ValueKind::Texts | ValueKind::Scales => text.push_str("; separated by commas"),
        ValueKind::Groups => {
            text.push_str(
                "; names separated by commas, without spaces around them. For several columns, or names that contain a \
                 comma, use --groups-file",
            );
        }
        ValueKind::Measures | ValueKind::Workloads => text.push_str("; may be repeated"),
        _ => {}
    }
    match parameter.default_in_words() {
        Some(default) => format!("{text} [default: {default}]"),
        None => text,
    }
}

#[expect(clippy::useless_conversion, reason = "`value_parser!` is of different types with different arguments")]
fn parser(parameter: Parameter) -> ValueParser {
    match parameter.kind() {
        ValueKind::Switch => clap::value_parser!(bool).into(),
        ValueKind::Path | ValueKind::Paths => clap::value_parser!(PathBuf).into(),
        ValueKind::Words(words) if parameter.placeholder().is_empty() => {
            PossibleValuesParser::new(words.iter().map(possible)).into()
        }
        _ => ValueParser::new(move |text: &str| parameter.check(text).map(|()| text.to_owned())),
    }
}

fn possible(word: &Word) -> PossibleValue {
    PossibleValue::new(word.word).help(word.help).aliases(word.alias)
}
