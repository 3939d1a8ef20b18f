//! A `[[stream]]` of the configuration.

use super::{StepsConfig, TimeSpan};
use crate::store::ClosedBy;
use evertally_declare::chain::{ChainPeriod, ChainUnit};
use evertally_declare::declaration::Declaration;
use evertally_declare::settings::Settings;
use serde::Deserialize;
use toml::Value;

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
}

/// How often a stream is extended without a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Extend {
    /// Whenever its horizon is over, as long as its source has budget.
    Automatic,
    /// This number of times.
    Times(u32),
}

impl<'de> Deserialize<'de> for StreamConfig {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let mut table = toml::Table::deserialize(from)?;
        fn own<T: for<'t> Deserialize<'t>, E: Error>(table: &mut toml::Table, name: &str) -> Result<Option<T>, E> {
            let value = table.remove(name);
            value.map(|value| value.try_into().map_err(|e| E::custom(format!("{name}: {e}")))).transpose()
        }
        let (public, source) = (own(&mut table, "public")?, own(&mut table, "source")?);
        let closing: Option<Closer> = own(&mut table, "closing")?;
        let (grace, delay) = (own(&mut table, "grace")?, own(&mut table, "delay")?);
        let id = own(&mut table, "id")?;
        let extend = own(&mut table, "extend")?;
        let Some(Value::String(name)) = table.get("stream").cloned() else {
            return Err(D::Error::custom("a stream needs a name, as in stream = \"visits\""));
        };
        let declaration = serde_json::to_string(&table).map_err(D::Error::custom)?;
        Ok(Self {
            declaration,
            name,
            public: public.unwrap_or(false),
            source,
            closer: closing.unwrap_or_default(),
            id,
            grace,
            delay,
            extend,
        })
    }
}

impl StreamConfig {
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
    let fits = settings.periods.longest().is_some_and(|longest| longest <= calendar.steps());
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
