//! Numbers for groups, within one process.

use super::ClusterJob;
use super::row::ShuffleRow;
use evertally_declare::error::{Result, usage};
use evertally_publish::session::{GroupNumbers, GroupRef};
use hashbrown::HashMap;

/// Numbers of groups: declared ones by their place, discovered ones in the order in which they appear.
#[derive(Default)]
pub(super) struct LabelNumbers {
    /// The number of sums per declared group, if several measures are released.
    cells: Option<u32>,
    numbers: HashMap<Box<[u8]>, u32>,
    names: Vec<Box<[u8]>>,
}

impl LabelNumbers {
    pub(super) fn of(work: &ClusterJob) -> Self {
        Self { cells: work.cells, ..Self::default() }
    }

    /// The number of one sum of a declared group.
    pub(super) fn of_cell(&self, group: u32, cell: usize) -> u32 {
        group * self.cells.unwrap_or(1) + cell as u32 // fits: all groups and cells together do
    }

    /// The number of a group.
    pub(super) fn number(&mut self, label: &GroupRef) -> Result<u32> {
        match label {
            GroupRef::Place(place) => u32::try_from(*place).map_err(|_| usage("there are more than 2^32 groups")),
            GroupRef::Name(name, _) => self.of_name(name),
        }
    }

    /// The number of a discovered group.
    pub(super) fn of_name(&mut self, name: &[u8]) -> Result<u32> {
        if let Some(number) = self.numbers.get(name) {
            return Ok(*number);
        }
        let number = u32::try_from(self.names.len()).map_err(|_| usage("there are more than 2^32 groups"))?;
        self.names.push(name.into());
        self.numbers.insert(name.into(), number);
        Ok(number)
    }

    /// The name of a group, if groups are discovered.
    pub(super) fn name(&self, number: u32) -> Option<&[u8]> {
        self.names.get(number as usize).map(|name| &**name)
    }

    /// Bytes of a group that are the same in every process.
    pub(super) fn push_bytes(&self, number: u32, bytes: &mut Vec<u8>) {
        match self.name(number) {
            Some(name) => bytes.extend_from_slice(name),
            None => bytes.extend_from_slice(&number.to_be_bytes()),
        }
    }

    /// The number that stands for a group in bounds on a person's groups.
    pub(super) fn group_of(&self, number: u32, numbers: &GroupNumbers) -> u64 {
        self.name(number).map_or(number.into(), |name| numbers.of(name))
    }

    /// The row of a sum.
    pub(super) fn row(&self, step: u64, number: u32, sum: i64) -> ShuffleRow {
        match (self.name(number), self.cells) {
            (Some(name), _) => ShuffleRow::of_name(step, name, sum),
            (None, None) => ShuffleRow::of_place(step, number, sum),
            (None, Some(cells)) => ShuffleRow::of_cell(step, (number / cells, number % cells), sum),
        }
    }

    /// The number of names.
    pub(super) fn count(&self) -> u32 {
        self.names.len() as u32 // fits: checked when they were added
    }

    /// Removes all names.
    pub(super) fn clear(&mut self) {
        self.numbers.clear();
        self.names.clear();
    }
}
