//! The running sums of a release, closed step after step.

use super::setup::Setup;
use anyhow::Result;
use evertally::noise::SecretKey;
use evertally::stream::{GroupedSums, Release, RunningSum};
use evertally_publish::error::refuse_if;
use evertally_publish::event::Event;
use evertally_publish::groups::GroupTable;
use evertally_publish::intake::Steps;
use evertally_publish::ledger::StreamDigest;
use std::sync::atomic::AtomicBool;

/// Where the releases of closed steps go.
pub(super) trait Outlet {
    /// The releases of one closed step, and the exact sums of that step.
    fn step(&mut self, setup: &Setup, releases: &[Release], sums: &[i64]) -> Result<()>;
}

/// Hands closed steps to the ledger's digest and to the outputs.
pub(super) struct Releases<'a, O> {
    setup: &'a Setup,
    cancelled: &'a AtomicBool,
    groups: Option<GroupTable>,
    streams: Streams,
    /// The sums of the open step, one a group.
    open: Vec<i64>,
    pub(super) digest: StreamDigest,
    pub(super) outlet: O,
}

enum Streams {
    Total(Box<RunningSum>),
    Groups(Box<GroupedSums>),
}

impl<'a, O> Releases<'a, O> {
    pub(super) fn new(
        setup: &'a Setup,
        key: &SecretKey,
        digest: StreamDigest,
        outlet: O,
        cancelled: &'a AtomicBool,
    ) -> Result<Self> {
        let (plan, name) = (setup.stream.plan.clone(), setup.stream.name.clone());
        let streams = match &setup.groups {
            None => Streams::Total(Box::new(RunningSum::new(plan, key, name)?)),
            Some(table) => Streams::Groups(Box::new(GroupedSums::new(plan, key, name, table.to_library()?)?)),
        };
        let (groups, open) = (setup.groups.clone(), vec![0; setup.group_count()]);
        Ok(Self { setup, cancelled, groups, streams, open, digest, outlet })
    }
}

impl<O: Outlet> Steps for Releases<'_, O> {
    type Key = usize;

    fn key_of(&mut self, event: &Event<'_>) -> Result<Option<usize>> {
        match &mut self.groups {
            Some(table) => table.place_of(event).map(Some),
            None => Ok(Some(0)),
        }
    }

    fn closed(&self) -> u64 {
        self.streams.step()
    }

    fn add(&mut self, group: usize, value: i64) -> Result<()> {
        self.streams.add(group, value)?;
        self.open[group] += value; // fits: the stream has just checked the larger running sum
        Ok(())
    }

    fn close_through(&mut self, step: u64) -> Result<()> {
        while self.streams.step() < step {
            if self.streams.step().is_multiple_of(1024) {
                refuse_if(self.cancelled)?;
            }
            self.digest.close_step(&self.open)?;
            match &mut self.streams {
                Streams::Total(stream) => {
                    let release = stream.tick()?;
                    self.outlet.step(self.setup, &[release], &self.open)?;
                }
                Streams::Groups(streams) => self.outlet.step(self.setup, streams.tick()?, &self.open)?,
            }
            self.open.fill(0);
        }
        Ok(())
    }
}

impl Streams {
    fn step(&self) -> u64 {
        match self {
            Self::Total(stream) => stream.step(),
            Self::Groups(streams) => streams.step(),
        }
    }

    fn add(&mut self, group: usize, value: i64) -> evertally::Result<()> {
        match self {
            Self::Total(stream) => stream.add(value),
            Self::Groups(streams) => streams.add(group, value),
        }
    }
}
