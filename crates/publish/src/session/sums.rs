//! Running counts or sums of declared groups.

use super::{Labels, Tally};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::groups::GroupTable;
use crate::ledger::StreamDigest;
use crate::rows::{ReleaseRow, Rows, grids_of};
use crate::stream::{Refusable, Stream};
use evertally::noise::SecretKey;
use evertally::number::Grid;
use evertally::stream::{GroupedSums, Release, RunningSum};

/// The running sums of a stream: one, or one for each declared group.
pub struct RunningSums {
    labels: GroupLabels,
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
        Self::of(stream, groups, streams)
    }

    /// The sums that [`save`](Self::save) saved.
    ///
    /// # Errors
    /// If they are damaged, or of another stream or other groups.
    pub(super) fn restore(stream: &Stream, groups: Option<GroupTable>, key: &SecretKey, saved: &[u8]) -> Result<Self> {
        let (plan, name) = (stream.plan.clone(), stream.name.clone());
        let streams = match &groups {
            None => Streams::Total(Box::new(RunningSum::restore(plan, key, name, saved)?), None),
            Some(table) => {
                Streams::Groups(Box::new(GroupedSums::restore(plan, key, name, table.to_library()?, saved)?))
            }
        };
        Self::of(stream, groups, streams)
    }

    fn of(stream: &Stream, groups: Option<GroupTable>, streams: Streams) -> Result<Self> {
        let rows = Rows::new(stream, groups.as_ref())?;
        let count = rows.tuples().len();
        let labels = GroupLabels::new(stream, groups)?;
        Ok(Self { labels, streams, open: vec![0; count], closed: vec![0; count], rows })
    }

    /// The sums of the closed steps, and the memory of their noise.
    pub(super) fn save(&self) -> Vec<u8> {
        match &self.streams {
            Streams::Total(stream, _) => stream.save(),
            Streams::Groups(streams) => streams.save(),
        }
    }

    /// The last releases, one a group; `None` before the first step.
    pub(super) fn releases(&self) -> Option<Vec<Release>> {
        match &self.streams {
            Streams::Total(stream, _) => stream.release().map(|release| vec![release]),
            Streams::Groups(streams) => streams.releases(),
        }
    }

    /// The texts of every group; without groups a single one without texts.
    pub(super) fn tuples(&self) -> &[Vec<String>] {
        self.rows.tuples()
    }

    /// How many sums there are.
    pub(super) fn group_count(&self) -> usize {
        self.open.len()
    }

    /// Lets groups join, between two steps: those behind the present ones.
    ///
    /// # Errors
    /// If the present ones are not the first of them.
    pub(super) fn join(&mut self, key: &SecretKey, stream: &Stream, groups: Option<GroupTable>) -> Result<()> {
        if let (Streams::Groups(streams), Some(table)) = (&mut self.streams, &groups) {
            if table.tuples().len() != self.open.len() {
                streams.join(key, stream.name.clone(), table.to_library()?)?;
                self.open.resize(table.tuples().len(), 0);
                self.closed.resize(table.tuples().len(), 0);
            }
            self.rows = Rows::new(stream, groups.as_ref())?;
            self.labels = GroupLabels::new(stream, groups)?;
        }
        Ok(())
    }
}

/// How events find their group, and its grid.
#[derive(Clone)]
pub struct GroupLabels {
    table: Option<GroupTable>,
    /// Of every group.
    grids: Vec<Grid>,
}

impl GroupLabels {
    pub(crate) fn new(stream: &Stream, table: Option<GroupTable>) -> Result<Self> {
        let grids = grids_of(stream, table.as_ref())?;
        Ok(Self { table, grids })
    }
}

impl Labels for GroupLabels {
    type Label = usize;

    #[inline]
    fn label_of(&mut self, stream: &Stream, event: &Event<'_>) -> Result<Option<usize>> {
        match &mut self.table {
            Some(table) => match table.place_of(event) {
                Err(_) if stream.unknown_group == Refusable::Skip => Ok(None),
                place => place.map(Some),
            },
            None => Ok(Some(0)),
        }
    }

    fn grid_of(&self, _: &Stream, group: &usize) -> Grid {
        self.grids[*group]
    }
}

impl Tally for RunningSums {
    type Label = usize;
    type Labels = GroupLabels;
    type Closed<'a> = ClosedStep<'a>;

    fn labels(&self) -> GroupLabels {
        self.labels.clone()
    }

    fn group_of(label: &usize) -> u64 {
        *label as u64
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
