//! A `[[stream]]` of the configuration.

use super::toml_file::{line_at, type_in_words};
use super::{StepsConfig, TimeSpan};
use crate::store::ClosedBy;
use evertally_declare::chain::{ChainPeriod, ChainUnit};
use evertally_declare::declaration::Declaration;
use evertally_declare::settings::Settings;
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use std::fmt;
use toml::{Spanned, Value};

/// A stream, as it is declared in the configuration.
#[derive(Clone, Debug)]
pub struct StreamConfig {
    /// The declaration, as JSON.
    pub declaration: String,
    /// Its name.
    pub name: String,
    /// Whether anybody may read it.
    pub public: bool,
    /// The data source whose budget it spends.
    pub source: Option<String>,
    /// Who closes its steps.
    pub closer: Closer,
    /// The column with the ids of its rows, if rows are counted once by their id.
    pub id: Option<String>,
    /// Overrides the `grace` of the service.
    pub grace: Option<TimeSpan>,
    /// Overrides the `delay` of the service.
    pub delay: Option<TimeSpan>,
    /// Whether it is extended without a request when its horizon is over.
    pub extend: Option<Extend>,
    /// The positions of its settings in the file.
    offsets: Vec<(String, usize)>,
    lines: StreamLines,
}

/// How often a stream is extended without a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "DeclaredExtend")]
pub enum Extend {
    /// Whenever its horizon is over, as long as its source has budget.
    Automatic,
    /// This number of times.
    Times(u32),
}

/// How it is written.
#[derive(Deserialize)]
#[serde(untagged, expecting = "write extend = \"automatic\", or extend = { times = 11 }")]
enum DeclaredExtend {
    Word(ExtendWord),
    Number(ExtendTimes),
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ExtendWord {
    Automatic,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExtendTimes {
    times: u32,
}

impl From<DeclaredExtend> for Extend {
    fn from(declared: DeclaredExtend) -> Self {
        match declared {
            DeclaredExtend::Word(ExtendWord::Automatic) => Self::Automatic,
            DeclaredExtend::Number(ExtendTimes { times }) => Self::Times(times),
        }
    }
}

/// The lines of a stream in the file, for messages.
#[derive(Clone, Debug, Default)]
struct StreamLines {
    /// The file and the first line, as in `serve.toml:12`; empty if the stream is in no file.
    first: String,
    /// The same for its settings.
    settings: Vec<(String, String)>,
}

impl<'de> Deserialize<'de> for StreamConfig {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(StreamTable)
    }
}

/// Reads the settings one by one, so that errors have their lines.
struct StreamTable;

impl<'de> Visitor<'de> for StreamTable {
    type Value = StreamConfig;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the settings of a stream")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StreamConfig, A::Error> {
        let mut stream = StreamConfig {
            declaration: String::new(),
            name: String::new(),
            public: false,
            source: None,
            closer: Closer::default(),
            id: None,
            grace: None,
            delay: None,
            extend: None,
            offsets: Vec::new(),
            lines: StreamLines::default(),
        };
        let (mut declared, mut is_named) = (toml::Table::new(), false);
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let offset = key.span().start;
            let key = key.into_inner();
            match key.as_str() {
                "public" => stream.public = map.next_value()?,
                "source" => stream.source = Some(map.next_value()?),
                "closing" => stream.closer = map.next_value()?,
                "id" => stream.id = Some(map.next_value()?),
                "grace" => stream.grace = Some(map.next_value()?),
                "delay" => stream.delay = Some(map.next_value()?),
                "extend" => stream.extend = Some(map.next_value()?),
                _ => {
                    let value = match map.next_value()? {
                        // A date without quotes.
                        Value::Datetime(time) => Value::String(time.to_string()),
                        Value::String(name) if key == "stream" => {
                            (stream.name, is_named) = (name.clone(), true);
                            Value::String(name)
                        }
                        other => other,
                    };
                    declared.insert(key.clone(), value);
                }
            }
            stream.offsets.push((key, offset));
        }
        if !is_named {
            return Err(A::Error::custom("a stream needs a name, as in stream = \"visits\""));
        }
        stream.declaration = serde_json::to_string(&declared).map_err(A::Error::custom)?;
        Ok(stream)
    }
}

impl StreamConfig {
    /// Notes the lines of its settings.
    pub(super) fn find_lines(&mut self, file: &str, text: &str) {
        let line = |offset: usize| format!("{file}:{}", line_at(text, offset));
        self.lines.first = self.offsets.iter().map(|(_, offset)| *offset).min().map(line).unwrap_or_default();
        self.lines.settings = self.offsets.drain(..).map(|(key, offset)| (key, line(offset))).collect();
    }

    /// A problem of its declaration for a person who wrote the file.
    pub(crate) fn in_words(problem: String) -> String {
        type_in_words(&problem).unwrap_or(problem)
    }

    /// The stream in messages, after the line of the setting that a problem begins with or quotes first, as in
    /// `serve.toml:12: stream NAME`.
    pub(crate) fn at(&self, problem: &str) -> String {
        let words = [problem.split(':').next(), problem.split('`').nth(1)];
        let line_of = |word: &str| self.lines.settings.iter().find(|(key, _)| key == word).map(|(_, line)| line);
        let line = words.into_iter().flatten().find_map(line_of).unwrap_or(&self.lines.first);
        let colon = if line.is_empty() { "" } else { ": " };
        format!("{line}{colon}stream `{}`", self.name)
    }

    /// Who closes its steps.
    pub fn closing(&self, steps: &StepsConfig) -> ClosedBy {
        self.closer.with(steps, self.grace, self.delay)
    }

    /// Checks that its extensions spend a bounded budget.
    pub(super) fn check_extension(&self) -> Result<(), String> {
        let Some(extend) = self.extend else { return Ok(()) };
        let declared = Declaration::from_json(&self.declaration);
        // What else is wrong with a declaration is reported when it is planned.
        let Some(settings) = declared.ok().and_then(|declared| declared.resolve().ok()) else { return Ok(()) };
        let name = &self.name;
        if settings.request.is_unbounded() {
            return Err(format!("stream `{name}` has no end, so it is never extended: remove `extend`"));
        }
        match extend {
            Extend::Times(0) => {
                Err(format!("stream `{name}`: extend = {{ times = 0 }} never extends it: omit `extend`"))
            }
            Extend::Automatic if self.source.is_none() && spends_without_end(&settings) => Err(format!(
                "stream `{name}`: extend = \"automatic\" spends the budget again with each extension, without end, for \
                 people with events in all of them. Add a `source`, whose total ends it, or give their number, as in \
                 extend = {{ times = 11 }}"
            )),
            _ => Ok(()),
        }
    }
}

/// Whether one privacy unit can have data in any number of consecutive streams, each with a budget.
fn spends_without_end(settings: &Settings) -> bool {
    let (request, calendar) = (&settings.request, &settings.calendar);
    let is_by_period = settings.kept.bounds().is_some_and(|bounds| bounds.period.is_some());
    let reach = settings.kept.bounds().and_then(|bounds| bounds.reach()).unwrap_or(0);
    let fits = settings.periods.longest().is_some_and(|longest| longest.max(reach) <= calendar.steps());
    // At worst, every end of a stream divides a period.
    let period = is_by_period.then_some(ChainPeriod { is_divided: true, fits });
    ChainUnit::new(request.unit(), request.neighbours(), period).max_streams() == u32::MAX
}

/// Who closes the steps of a stream, as it is declared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Closer {
    /// The clock.
    #[default]
    Schedule,
    /// An operator, for data of the past.
    Operator,
    /// An external counter that sends the sums of complete steps.
    Sums,
}

impl Closer {
    /// The rule by which steps are closed, with the stream's own `grace` and `delay` if it has them.
    pub fn with(self, steps: &StepsConfig, grace: Option<TimeSpan>, delay: Option<TimeSpan>) -> ClosedBy {
        match self {
            Self::Schedule => {
                ClosedBy::Schedule { grace: grace.unwrap_or(steps.grace).0, delay: delay.unwrap_or(steps.delay).0 }
            }
            Self::Operator => ClosedBy::Operator,
            Self::Sums => ClosedBy::Sums,
        }
    }
}
