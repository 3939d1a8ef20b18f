//! A second machine: the database is shipped to a folder, or a folder of an object store, that another machine reads,
//! and that machine takes over.
//!
//! | module | what |
//! |---|---|
//! | `journal` | records the writes to the database, without delaying a commit |
//! | `segment` | the shipped files: a chain of changes to the database file |
//! | `target` | where they are shipped to |
//! | `shipper` | ships: first the whole database, then what changes |
//! | `replica` | a copy of the database that segments are applied to |
//! | `claim` | the right to publish, recorded at the witness |
//! | `ending` | the end of a chain that another machine continues |
//! | `signs` | signs of life |
//! | `primary` | the threads of a service that ships |
//! | `follower` | waits with a copy until the primary is gone |
//! | `restore` | the database as it was at a time |
//!
//! # Why no step is published twice
//! Rows are shown only after the witness has acknowledged them, and the witness names the one folder copy that may
//! write to it. A follower first writes its own name there, and from that moment the old primary, which reads the
//! record before every write, publishes nothing. Then the follower applies all segments that were shipped, opens its
//! copy, and compares it with the witness like any copy of a folder: published steps that it lacks must be reproduced
//! exactly, or the stream stays closed. With `hold`, a service shows a step only after the step was shipped, so that
//! its follower lacks none.
//!
//! # Why every state that is shipped can be opened
//! A database survives a crash at any moment: any prefix of its writes is a state that it opens. Segments end where the
//! database has synced its file, and while the whole file is copied, all writes are recorded before they reach it.
//!
//! # Why a follower has everything that was published
//! A chain has all steps that were shipped when it was begun, and while it is not whole, the ones since are in no other
//! chain that a follower could use. So a chain counts as shipped only once it is whole and named as the last whole one
//! of its primary, and a follower that takes over uses the chain with that name, even if a later one was begun. A
//! machine that claims the right to publish refers to the primary before it, until it has a chain.
//!
//! # Why copies agree on where a takeover was
//! A machine that was replaced may not know it, and ship for a while: changes that are in no step of the new primary.
//! So the new primary ends the chain before it opens its copy, with a segment at the next number:
//! files are never replaced, so either the old primary's segment is there first, and is applied, or it is refused.

mod claim;
mod ending;
mod primary;
mod replica;
mod restore;
mod segment;
mod shipper;
mod signs;
mod target;

pub use claim::{ClaimOutcome, claim};
pub use ending::end_chain;
pub(crate) use primary::{MAX_WAITING_BYTES, Shipped, taken_over};
pub use primary::{Shipping, ShippingState};
pub use replica::{Applied, Replica};
pub use restore::{MissingSteps, compare, is_replaced, restore};
pub use segment::Segment;
pub(crate) use shipper::SIDE_FILES;
pub use shipper::Shipper;
pub(crate) use signs::{FOLLOWERS, FollowerSign, PrimarySign, get as get_sign, primary_file, put as put_sign};
pub use signs::{WholeChain, last_whole, put_whole};
pub use target::{FolderTarget, Target, target_from};
