//! From flags to validated parts, before any event is read.

use super::options::ReleaseArgs;
use crate::failure::usage;
use crate::searched;
use crate::stream::{Files, calendar, read_groups, request, stream};
use anyhow::Result;
use evertally::plan::{Plan, PlanRequest, Search};
use evertally_publish::groups::GroupTable;
use evertally_publish::stream::Stream;
use evertally_tables::output::TableSpec;

/// Whether mechanisms whose time and memory grow with the horizon would take more than about half a minute (steps² × groups)
/// or a gigabyte (steps × groups).
fn is_heavy(steps: u64, groups: usize) -> bool {
    let (steps, groups) = (steps as f64, groups as f64);
    steps * steps * groups > 4e10 || steps * groups > 3e7
}

/// Everything a run needs to know, checked.
pub(super) struct Setup {
    pub(super) stream: Stream,
    pub(super) files: Files,
    pub(super) groups: Option<GroupTable>,
    pub(super) table: TableSpec,
    pub(super) show_truth: bool,
}

impl Setup {
    pub(super) fn new(args: ReleaseArgs) -> Result<Self> {
        let args = args.with_config()?;
        let calendar = calendar(&args.stream)?;
        let groups = groups(&args)?;
        let plan = plan(request(&args.stream, &calendar)?, groups.as_ref())?;
        let integral = plan.request().grid().is_integral() && plan.fraction_bits() == 0;
        let columns = args.group_by.unwrap_or_default();
        let stream = stream(args.stream.clone(), calendar, plan, columns.clone())?;
        let mut files = Files::new(&args.stream)?;
        args.groups_file.into_iter().for_each(|path| files.has_read(path));
        Ok(Self {
            stream,
            files,
            groups,
            table: TableSpec::new(columns, integral).map_err(usage)?,
            show_truth: args.unsafe_show_truth == Some(true),
        })
    }

    /// How many running sums are released.
    pub(super) fn group_count(&self) -> usize {
        self.groups.as_ref().map_or(1, |table| table.tuples().len())
    }
}

fn groups(args: &ReleaseArgs) -> Result<Option<GroupTable>> {
    let Some(columns) = args.group_by.clone() else {
        if args.group_tuples.is_some() || args.groups.is_some() || args.groups_file.is_some() || args.rest.is_some() {
            return Err(usage("--groups, --groups-file and --rest need --group-by: the column that names the group"));
        }
        return Ok(None);
    };
    if let Some(tuples) = &args.group_tuples {
        return GroupTable::of_tuples(columns, tuples.clone(), args.rest.clone()).map(Some);
    }
    match (&args.groups, &args.groups_file) {
        (Some(names), None) => GroupTable::of_names(columns, names.clone(), args.rest.clone()).map(Some),
        (None, Some(path)) => {
            let tuples = read_groups(&columns, path)?;
            GroupTable::of_tuples(columns, tuples, args.rest.clone()).map(Some)
        }
        (None, None) => Err(usage(
            "--group-by needs --groups or --groups-file: groups are declared, because one that appears only when \
             the data has it tells that someone is in it",
        )),
        (Some(_), Some(_)) => Err(usage("give either --groups or --groups-file, not both")),
    }
}

fn plan(mut request: PlanRequest, groups: Option<&GroupTable>) -> Result<Plan> {
    let light = is_heavy(request.horizon(), groups.map_or(1, |table| table.tuples().len()));
    request = request.with_search(Search::default().with_light_steps(light));
    if let Some(table) = groups {
        request = request
            .with_meaning("group-by", table.columns().join(","))
            .with_meaning("groups", format!("{} (digest {})", table.tuples().len(), table.digest()));
        if let Some(rest) = table.rest_name() {
            request = request.with_meaning("rest", rest);
        }
    }
    Ok(searched::with_searched(request)?.plan()?)
}
