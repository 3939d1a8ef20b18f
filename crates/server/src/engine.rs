//! Running streams: batches of events in, closed steps out, with every promise kept after any crash.
//!
//! ```text
//! bytes ──prepare──▶ PreparedBatch ──┐                       ┌─▶ rows, heads (store)
//!   (any thread)                ├─▶ Core: one thread ───┤
//! clock, operator ──────────────┘    take in · close    └─▶ witness ─▶ shown ─▶ watchers
//! ```
//!
//! One thread decides everything that depends on order. A batch is committed before it is acknowledged. A step is
//! closed, its noise drawn and its rows committed before the moment at which they are shown, and the witness is updated
//! in between. The state of a session is a function of the events in the store, so that a crash loses nothing: whatever
//! was counted only in memory is counted again.

mod accepting;
mod checkpoint;
mod chunk;
mod closing;
mod computing;
mod copies;
mod core;
mod counting;
mod decoding;
mod erasing;
mod health;
mod identity;
mod info;
mod joining;
mod lifecycle;
mod live;
mod opening;
mod operating;
mod outbox;
mod parts;
mod positions;
mod prepare;
mod recovery;
mod refusal;
mod replica;
mod reporting;
mod resolved;
mod retention;
mod row_ids;
mod rows;
mod service;
mod settings;
mod stale_copies;
mod sums;

pub(crate) use self::core::is_behind;
pub use self::core::{Core, Notice, Setting};
pub use accepting::Receipt;
pub(crate) use accepting::content_id;
pub use copies::StreamCopy;
pub use decoding::{Decoding, Share};
pub use erasing::PersonCell;
pub use health::Health;
pub use identity::BatchId;
pub use info::{Counts, StreamInfo, StreamProgress, StreamState};
pub use joining::added_groups;
pub use opening::{Opening, Preview};
pub(crate) use opening::{check_continues, is_spent, next_name};
pub use outbox::DeadLetter;
pub use positions::SourceRange;
pub use prepare::PreparedBatch;
pub(crate) use prepare::{NextPart, OtherParts};
pub use refusal::{Refusal, RowProblem};
pub use reporting::GuaranteeStatement;
pub use rows::RowsQuery;
pub use service::{Intake, Service};
pub use settings::{CHANGEABLE, StreamSettings, fixed_differences};
pub(crate) use stale_copies::{no_witness, of_another_folder};
pub use sums::{PreparedSums, SumsRange, SumsReceipt};

#[cfg(test)]
mod tests;
