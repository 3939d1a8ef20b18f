//! Running counts or sums of declared groups.

use super::{Labels, Tally};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::groups::GroupTable;
use crate::ledger::StreamDigest;
use crate::rows::{ReleaseRow, Rows};
use crate::stream::Stream;
use evertally::noise::SecretKey;
use evertally::stream::{GroupedSums, Release, RunningSum};

/// The running sums of a stream: one, or one for each declared group.
pub struct RunningSums {
    groups: Option<GroupTable>,
    streams: Streams,
    /// The sums of the open step, one a group, and those of the step before.
    open: Vec<i64>,
    closed: Vec<i64>,
    rows: Rows,
}

enum Streams {
    /// The sum, and its last release.
    Total(Box<RunningSum>, Option<Release>),
    Groups(Box<GroupedSums>),
}

/// What a closed step releases.
pub struct ClosedStep<'a> {
    stream: &'a Stream,
    releases: &'a [Release],
    sums: &'a [i64],
    rows: &'a mut Rows,
}

impl RunningSums {
    /// The sums of a stream before its first step; without groups, the one sum of all events.
    ///
    /// # Errors
    /// If the confidence of the stream is none.
    pub fn new(stream: &Stream, groups: Option<GroupTable>, key: &SecretKey) -> Result<Self> {
        let (plan, name) = (stream.plan.clone(), stream.name.clone());
        let streams = match &groups {
            None => Streams::Total(Box::new(RunningSum::new(plan, key, name)?), None),
            Some(table) => Streams::Groups(Box::new(GroupedSums::new(plan, key, name, table.to_library()?)?)),
        };
        let rows = Rows::new(stream, groups.as_ref())?;
        let count = rows.tuples().len();
        Ok(Self { groups, streams, open: vec![0; count], closed: vec![0; count], rows })
    }
}

/// How events find their group.
#[derive(Clone)]
pub struct GroupLabels(Option<GroupTable>);

impl Labels for GroupLabels {
    type Label = usize;

    #[inline]
    fn label_of(&mut self, _: &Stream, event: &Event<'_>) -> Result<Option<usize>> {
        match &mut self.0 {
            Some(table) => table.place_of(event).map(Some),
            None => Ok(Some(0)),
        }
    }
}

impl Tally for RunningSums {
    type Label = usize;
    type Labels = GroupLabels;
    type Closed<'a> = ClosedStep<'a>;

    fn labels(&self) -> GroupLabels {
        GroupLabels(self.groups.clone())
    }

    fn step(&self) -> u64 {
        match &self.streams {
            Streams::Total(stream, _) => stream.step(),
            Streams::Groups(streams) => streams.step(),
        }
    }

    fn add(&mut self, group: usize, value: i64) -> Result<()> {
        match &mut self.streams {
            Streams::Total(stream, _) => stream.add(value)?,
            Streams::Groups(streams) => streams.add(group, value)?,
        }
        self.open[group] += value; // fits: the stream has just checked the larger running sum
        Ok(())
    }

    fn close<'a>(&'a mut self, stream: &'a Stream, _: u64, digest: &mut StreamDigest) -> Result<ClosedStep<'a>> {
        digest.close_step(&self.open)?;
        std::mem::swap(&mut self.open, &mut self.closed);
        self.open.fill(0);
        let releases = match &mut self.streams {
            Streams::Total(sum, last) => std::slice::from_ref(last.insert(sum.tick()?)),
            Streams::Groups(sums) => sums.tick()?,
        };
        Ok(ClosedStep { stream, releases, sums: &self.closed, rows: &mut self.rows })
    }
}

impl ClosedStep<'_> {
    /// The step, from 1.
    pub fn step(&self) -> u64 {
        self.releases[0].step()
    }

    /// The releases, one a group in declared order.
    pub fn releases(&self) -> &[Release] {
        self.releases
    }

    /// What the events of this step add to each group: **exact, and never to be published**.
    pub fn unsafe_exact_sums(&self) -> &[i64] {
        self.sums
    }

    /// The texts of every group; without groups a single one without texts.
    pub fn tuples(&self) -> &[Vec<String>] {
        self.rows.tuples()
    }

    /// Visits the rows of the step: the place of the group, and the row.
    ///
    /// # Errors
    /// If an interval is too wide to write, and whatever `visit` returns.
    pub fn for_each_row<E: From<Error>>(
        &mut self,
        visit: impl FnMut(usize, &ReleaseRow<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.rows.of_step(self.stream, self.releases, visit)
    }
}
