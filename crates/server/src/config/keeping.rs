//! `[backup-schedule]` and `[retention]`: when copies are made, and how long records are kept.

use super::TimeSpan;
use serde::Deserialize;
use std::num::NonZero;

/// When copies of the folder are made, and how many are kept.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupSchedule {
    /// The time between two copies.
    pub every: TimeSpan,
    /// The number of copies that are kept, requested ones included; all of them if omitted.
    #[serde(default)]
    pub keep: Option<NonZero<usize>>,
}

/// The shortest time between two copies.
pub(super) const MIN_BACKUP_INTERVAL: TimeSpan = TimeSpan(60_000_000);

/// How long records are kept that grow with the number of batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RetentionConfig {
    /// How long the ids of batches are remembered; as long as the stream exists if omitted.
    #[serde(default)]
    pub batch_ids: Option<TimeSpan>,
    /// How long late events and refused rows that were set aside are kept; without it, until somebody removes them.
    #[serde(default)]
    pub side_files: Option<TimeSpan>,
}

/// The shortest retention.
pub(super) const MIN_RETENTION: TimeSpan = TimeSpan(86_400_000_000);
