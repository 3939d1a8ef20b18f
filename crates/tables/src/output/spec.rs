//! The columns of a released table.

use evertally_declare::measures::MEASURE;
use evertally_declare::steps::Zone;
use evertally_declare::stream::Stream;
use evertally_declare::words::quoted;
use evertally_publish::views::View;

/// The columns of each row after its group or key, in this order.
fn own_columns(value: &'static str) -> [&'static str; 6] {
    ["time", "step", value, "std_error", "lower", "upper"]
}

/// The properties shared by the rows of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSpec {
    groups: Vec<String>,
    /// Name of the value column.
    value: &'static str,
    integral: bool,
    /// Whether a value may be missing.
    open: bool,
    /// Time zone of instants, in formats that store one.
    zone: Option<String>,
    /// Whether there are views, and if so whether all their values are whole numbers.
    views: Option<bool>,
}

/// Names of the columns of views: the value, and the ends of its band.
pub(super) const VIEW: [&str; 3] = ["view_value", "view_lower", "view_upper"];

impl TableSpec {
    /// A table of releases with these group columns. `integral` means that every value is a whole number, which sets
    /// the type of the value column in Parquet.
    pub fn new(groups: Vec<String>, integral: bool) -> Result<Self, String> {
        Self::from_parts("value", "group", groups, integral)
    }

    /// The same for estimates of items with these key columns.
    pub fn from_estimates(keys: Vec<String>, integral: bool) -> Result<Self, String> {
        Self::from_parts("estimate", "key", keys, integral)
    }

    fn from_parts(value: &'static str, kind: &str, groups: Vec<String>, integral: bool) -> Result<Self, String> {
        let own = own_columns(value);
        for (i, name) in groups.iter().enumerate() {
            if own.contains(&name.as_str()) {
                return Err(format!(
                    "the {kind} column {} has the name of a column of the release ({}); rename it in the input",
                    quoted(name),
                    own.join(", ")
                ));
            }
            if groups[..i].contains(name) {
                return Err(format!("the {kind} column {} is named twice; name it once", quoted(name)));
            }
        }
        Ok(TableSpec { groups, value, integral, open: false, zone: None, views: None })
    }

    /// A table of several measures or workloads: the group columns are followed by one that names the measure, and
    /// values are real numbers and may be missing.
    pub fn from_measures(mut groups: Vec<String>, column: &str) -> Result<Self, String> {
        if groups.iter().any(|name| name == column) {
            return Err(format!(
                "a group column has the name of the column of {column}s ({column}); rename it in the input"
            ));
        }
        groups.push(column.to_owned());
        Ok(TableSpec { open: column == MEASURE, ..Self::new(groups, false)? })
    }

    /// The table of a stream, with its views.
    ///
    /// # Errors
    /// As those of its kind.
    pub fn from_stream(stream: &Stream) -> Result<Self, String> {
        let groups = stream.columns.labels.clone();
        let spec = match &stream.measures {
            None => Self::new(groups, stream.is_integral()),
            Some(bundle) => Self::from_measures(groups, bundle.column()),
        };
        spec?.with_views(&stream.views)
    }

    /// The same with columns for [views](evertally_publish::views), after the others.
    ///
    /// # Errors
    /// If a group column has the name of one of them.
    pub fn with_views(self, views: &[View]) -> Result<Self, String> {
        if views.is_empty() {
            return Ok(self);
        }
        if let Some(name) = self.groups.iter().find(|name| VIEW.contains(&name.as_str())) {
            let problem = "has the name of a column of the views; rename it in the input";
            return Err(format!("the group column {} {problem}", quoted(name)));
        }
        let whole = self.integral || views.contains(&View::WholeNumber);
        Ok(Self { views: Some(whole), ..self })
    }

    /// Whether there are views, and whether their values are whole numbers.
    pub(super) fn views(&self) -> Option<bool> {
        self.views
    }

    /// The same with the start and end of each step as instants in a zone, in formats that have them: the column `time`
    /// holds the start, and a last column `end` the end.
    #[must_use]
    pub fn with_instants(self, zone: &Zone) -> Self {
        Self { zone: Some(zone.name().to_owned()), ..self }
    }

    /// The zone of instants, if the table has them.
    pub(super) fn zone(&self) -> Option<&str> {
        self.zone.as_deref()
    }

    /// The group columns.
    pub fn groups(&self) -> &[String] {
        &self.groups
    }

    /// The name of the value column.
    pub fn value_name(&self) -> &'static str {
        self.value
    }

    /// Whether a value may be missing.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Whether every value is a whole number.
    pub fn is_integral(&self) -> bool {
        self.integral
    }

    /// All columns of a text format, in order.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        let [time, rest @ ..] = own_columns(self.value);
        let views = VIEW.into_iter().filter(|_| self.views.is_some());
        [time].into_iter().chain(self.groups.iter().map(String::as_str)).chain(rest).chain(views)
    }
}
