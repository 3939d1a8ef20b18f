//! A `[[stream]]` of the configuration.

use super::{StepsConfig, TimeSpan};
use crate::store::ClosedBy;
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
        })
    }
}

impl StreamConfig {
    /// Who closes its steps.
    pub fn closing(&self, steps: &StepsConfig) -> ClosedBy {
        self.closer.with(steps, self.grace, self.delay)
    }
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
