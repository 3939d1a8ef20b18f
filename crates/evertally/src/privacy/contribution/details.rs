//! A person's record in addition to counts, if groups or the total are bounded.

/// The number of one person's events kept in each group, and the sum of their absolute values.
///
/// Memory: 32 bytes, and 16 to 20 per group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    spent: u64,
    /// By ascending group number.
    groups: Vec<(u64, u32)>,
}

impl Details {
    pub(super) fn new(spent: u64, groups: Vec<(u64, u32)>) -> Self {
        Self { spent, groups }
    }

    /// The sum of the kept absolute values, in multiples of the grid; 0 if the total is not bounded.
    pub fn spent(&self) -> u64 {
        self.spent
    }

    /// The number of events kept in each group, by ascending group number; empty if groups are not bounded.
    pub fn groups(&self) -> &[(u64, u32)] {
        &self.groups
    }

    pub(super) fn clear(&mut self) {
        self.spent = 0;
        self.groups.clear();
    }

    /// The part of a value that fits below a cap on the total; none if nothing is left, or less than the smallest
    /// absolute value.
    pub(super) fn part_below(&self, cap: u64, least: u64, value: i64) -> Option<i64> {
        let left = cap - self.spent;
        if left == 0 || left < least {
            return None;
        }
        // An absolute value of 2⁶³ occurs only for a negative value.
        let size = value.unsigned_abs().min(left);
        Some(if value < 0 { 0i64.wrapping_sub_unsigned(size) } else { size as i64 })
    }

    pub(super) fn spend(&mut self, value: i64) {
        self.spent += value.unsigned_abs();
    }

    /// Counts one more event of a group, if it fits: if the group has fewer than `per_group`, and there are at most
    /// `groups` groups.
    pub(super) fn enter(&mut self, group: u64, per_group: u32, groups: u32) -> bool {
        match self.groups.binary_search_by_key(&group, |(group, _)| *group) {
            Ok(place) => {
                let events = &mut self.groups[place].1;
                let fits = *events < per_group;
                *events += u32::from(fits);
                fits
            }
            Err(_) if self.groups.len() as u64 >= u64::from(groups) => false,
            Err(place) => {
                // Most persons have few groups: reserve no more than needed.
                if self.groups.len() == self.groups.capacity() {
                    self.groups.reserve_exact(1 + self.groups.len() / 4);
                }
                self.groups.insert(place, (group, 1));
                true
            }
        }
    }
}
