//! The budget of a data source: a total that all publications from it share, under any key.
//!
//! A separate file records the total, the units it protects, and the cost of each stream. A plan counts in full when
//! its first step is published. The cost of a stream is **reserved** durably before the key's ledger records it, and
//! **spent** afterwards: an interruption in between counts too much, never too little, and the same stream and plan do
//! not count twice.
//!
//! Sums are exact ([`Filter`](evertally::privacy::composition::Filter)). Nothing in the file is secret, and no key is
//! needed to read it.

mod claim;
mod contents;

pub use claim::{Approval, Claim};
pub use contents::{BudgetState, Costs, Total};

use crate::disk::{Access, Disk, RealDisk, replace};
use crate::lock::{LockWait, NameLock, check_one_name, resolve};
use crate::protected::check_output;
use contents::SourceContents;
use evertally::privacy::composition::Amount;
use evertally_declare::error::{Context, PipelineError, Result, usage};
use evertally_declare::parameter::Parameter;
use evertally_declare::problem::sentence;
use jiff::Timestamp;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The budget of a data source, in its file.
pub struct SourceBudget {
    disk: Arc<dyn Disk>,
    path: PathBuf,
}

impl SourceBudget {
    /// Creates a new file.
    ///
    /// # Errors
    /// If the file exists, or cannot be written.
    pub fn create(disk: Arc<dyn Disk>, path: &Path, name: &str, total: Total, approval: Approval) -> Result<Self> {
        let path = resolve(path, "budget")?;
        let lock = NameLock::take(&path, &path, &mut LockWait::none())?;
        if disk.len(&path)?.is_some() {
            let shown = path.display();
            return Err(usage(format!(
                "{shown} already exists; a budget is never replaced, because it records the spending"
            )));
        }
        check_output(&path, &[])?;
        let budget = Self { disk, path };
        budget.write(&SourceContents::new(name, total, approval), &lock)?;
        Ok(budget)
    }

    /// Opens the budget in an existing file.
    ///
    /// # Errors
    /// If the file does not exist, or is not a budget.
    pub fn open(disk: Arc<dyn Disk>, path: &Path) -> Result<Self> {
        let budget = Self { disk, path: resolve(path, "budget")? };
        budget.read()?;
        Ok(budget)
    }

    /// Opens the budget in a file of this machine.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn from_file(path: &Path) -> Result<Self> {
        Self::open(Arc::new(RealDisk), path)
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The current state of the budget.
    ///
    /// # Errors
    /// If it cannot be read, or was changed by hand and is inconsistent.
    pub fn state(&self) -> Result<BudgetState> {
        self.read()?.state()
    }

    /// The amount that would be left after a claim; changes nothing.
    ///
    /// # Errors
    /// If the claim does not fit; the error states what is left and what to do.
    pub fn check(&self, claim: &Claim) -> Result<Amount> {
        let mut contents = self.read()?;
        self.admit(&mut contents, claim, &Approval::default())?;
        Ok(contents.filter()?.left())
    }

    /// How many of these claims fit together, in this order; changes nothing.
    ///
    /// # Errors
    /// With their number, the error of the first that does not fit, as for [`check`](Self::check).
    pub fn check_all<'c>(&self, claims: impl IntoIterator<Item = &'c Claim>) -> Result<usize, (usize, PipelineError)> {
        let mut contents = self.read().map_err(|error| (0, error))?;
        let mut fitting = 0;
        for claim in claims {
            self.admit(&mut contents, claim, &Approval::default()).map_err(|error| (fitting, error))?;
            fitting += 1;
        }
        Ok(fitting)
    }

    /// Reserves the cost of a publication durably, unless it is already counted.
    ///
    /// # Errors
    /// As for [`check`](Self::check), or if the file cannot be written.
    pub fn reserve(&self, claim: &Claim, approval: &Approval) -> Result<()> {
        self.change(|contents| self.admit(contents, claim, approval))
    }

    /// Marks a reservation as spent: it is recorded in the ledger of the key.
    ///
    /// # Errors
    /// If the file cannot be written; the cost then stays reserved, which counts the same.
    pub fn settle(&self, claim: &Claim) -> Result<()> {
        self.change(|contents| {
            if let Some(cost) = contents.find(claim).filter(|cost| cost.spent.is_none()) {
                cost.spent = Some(Timestamp::now());
                return Ok(true);
            }
            Ok(false)
        })
    }

    /// Releases a reservation for a stream that no key has used.
    ///
    /// # Errors
    /// If there is no such reservation, or the file cannot be written.
    pub fn cancel(&self, stream: &str) -> Result<()> {
        self.change(|contents| {
            let before = contents.costs.len();
            contents.costs.retain(|cost| cost.stream != stream || !cost.key_id.is_empty() || cost.spent.is_some());
            if contents.costs.len() == before {
                return Err(usage(format!(
                    "there is no unused reservation for stream `{stream}`: once a key has used a reservation, it \
                     counts permanently"
                )));
            }
            Ok(true)
        })
    }

    /// Adds a claim to the contents if it fits; returns whether anything changed.
    fn admit(&self, contents: &mut SourceContents, claim: &Claim, approval: &Approval) -> Result<bool> {
        if let Some(cost) = contents.find(claim) {
            let taken_up = cost.key_id.is_empty() && !claim.key_id.is_empty();
            if taken_up {
                cost.take_up(claim);
            }
            return Ok(taken_up | cost.approve(approval));
        }
        let (shown, name, stream) = (self.path.display(), &contents.name, &claim.stream);
        if contents.protects() != claim.protects {
            return Err(usage(format!(
                "the budget {shown} of `{name}` is for one {}, and the plan of stream `{stream}` protects one {}; plan \
                 for the same unit and neighbours, or make a separate budget for that unit",
                contents.protects().brief(),
                claim.protects.brief()
            )));
        }
        let filter = contents.filter()?;
        contents.costs.push(Costs::reserved(claim, approval));
        if !contents.counts_last() {
            return Ok(true); // the streams that it continues count for it
        }
        let fits = filter.would_admit(claim.cost).map_err(|error| {
            usage(format!("stream `{stream}` cannot be counted by the budget {shown} of `{name}`: {error}"))
        })?;
        if !fits {
            let remedies = sentence![
                format!(
                    "stream `{stream}` ({}) does not fit the budget {shown} of `{name}`: {} of {} is left; plan it \
                     with no more than that, or publish from this source under a ",
                    claim.budget,
                    filter.left(),
                    filter.cap()
                ),
                Parameter::Stream,
                " that has already begun"
            ];
            return Err(usage(remedies));
        }
        Ok(true)
    }

    /// Reads, changes and replaces the file under its lock; writes nothing if nothing changes.
    fn change(&self, change: impl FnOnce(&mut SourceContents) -> Result<bool>) -> Result<()> {
        let (never, mut waiting) = (AtomicBool::new(false), |_: &Path| ());
        let lock = NameLock::take(&self.path, &self.path, &mut LockWait::until(&never, &mut waiting))?;
        let mut contents = self.read()?;
        if change(&mut contents)? { self.write(&contents, &lock) } else { Ok(()) }
    }

    fn read(&self) -> Result<SourceContents> {
        let shown = self.path.display();
        check_one_name(&self.path, "budget")?;
        let bytes = self.disk.read(&self.path).map_err(|e| usage(format!("the budget {shown} cannot be read: {e}")))?;
        let bytes = bytes.ok_or_else(|| {
            usage(format!("there is no budget {shown}; make one with `evertally budget new {shown}`"))
        })?;
        SourceContents::read(&bytes, &shown.to_string())
    }

    fn write(&self, contents: &SourceContents, lock: &NameLock) -> Result<()> {
        let shown = self.path.display();
        if !lock.is_current() {
            return Err(usage(format!("the lock file of the budget {shown} was removed; run again")));
        }
        let access = match std::fs::metadata(&self.path) {
            Ok(meta) => Access::As(meta.permissions()),
            Err(_) => Access::Usual,
        };
        replace(&*self.disk, &self.path, &access, &mut contents.to_bytes()?.as_slice())
            .context(format_args!("cannot write the budget {shown}; nothing was published"))
    }
}

#[cfg(test)]
mod tests;
