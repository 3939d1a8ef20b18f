//! The budget of a data source: a total that every publication from it spends from, under whatever key.
//!
//! A file of its own says what the total is, whom it protects, and which streams have spent how much of it. A plan
//! counts in full when its first step is published. What a stream costs is **reserved** durably before the key's ledger
//! records it, and **spent** afterwards: a run that is cut off in between has counted too much, never too little, and the
//! same stream and plan do not count twice.
//!
//! Sums are exact ([`Filter`](evertally::privacy::composition::Filter)). Nothing in the file is secret, and no key is needed to read it.

mod contents;

pub use contents::{Costs, State, Total};

use crate::disk::{Access, Disk, RealDisk, replace};
use crate::lock::{NameLock, Patience, check_one_name, resolve};
use crate::protected::check_output;
use crate::protects::Protects;
use contents::Contents;
use evertally::plan::Plan;
use evertally::privacy::composition::{Amount, Expense};
use evertally_declare::error::{Context, Result, usage};
use evertally_declare::parameter::Parameter;
use evertally_declare::problem::sentence;
use evertally_declare::stream::Stream;
use jiff::Timestamp;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What a publication claims from a source.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Its stream.
    pub stream: String,
    /// The public id of its key; empty for one that is not known yet.
    pub key_id: String,
    /// The digest of its plan, in hexadecimal.
    pub plan: String,
    /// What the plan costs.
    pub cost: Expense,
    /// Whom the plan protects.
    pub protects: Protects,
    /// The plan's budget in words.
    pub budget: String,
}

impl Claim {
    /// Of a stream with all plans under which it is released.
    pub fn of(stream: &Stream, key_id: &str) -> Self {
        let plan = blake3::Hash::from_bytes(stream.plan_digest()).to_hex().to_string();
        Self { plan, cost: stream.guarantee().expense(), ..Self::new(stream.name.as_str(), key_id, &stream.plan) }
    }

    /// Of a stream under a plan.
    pub fn new(stream: &str, key_id: &str, plan: &Plan) -> Self {
        let request = plan.request();
        Self {
            stream: stream.to_owned(),
            key_id: key_id.to_owned(),
            plan: blake3::Hash::from_bytes(plan.digest()).to_hex().to_string(),
            cost: plan.guarantee().expense(),
            protects: Protects::of(request.unit(), request.neighbours(), request.meaning()),
            budget: match plan.guarantee().selection {
                None => request.budget().to_string(),
                Some(delta) => format!("{}, groups selected by δ = {:e}", request.budget(), delta.get()),
            },
        }
    }
}

/// Who agreed, and why.
#[derive(Clone, Debug, Default)]
pub struct Approval {
    /// A name.
    pub approver: Option<String>,
    /// Anything.
    pub note: Option<String>,
}

/// The budget of a data source, in its file.
pub struct SourceBudget {
    disk: Arc<dyn Disk>,
    path: PathBuf,
}

impl SourceBudget {
    /// Makes a new file.
    ///
    /// # Errors
    /// If there is one, or it cannot be written.
    pub fn create(disk: Arc<dyn Disk>, path: &Path, name: &str, total: Total, approval: Approval) -> Result<Self> {
        let path = resolve(path, "budget")?;
        let lock = NameLock::take(&path, &path, &mut Patience::none())?;
        if disk.len(&path)?.is_some() {
            let shown = path.display();
            return Err(usage(format!("{shown} exists already; a budget is never replaced: it says what is spent")));
        }
        check_output(&path, &[])?;
        let budget = Self { disk, path };
        budget.write(&Contents::new(name, total, approval), &lock)?;
        Ok(budget)
    }

    /// The budget in a file that is there.
    ///
    /// # Errors
    /// If there is none, or it is none.
    pub fn open(disk: Arc<dyn Disk>, path: &Path) -> Result<Self> {
        let budget = Self { disk, path: resolve(path, "budget")? };
        budget.read()?;
        Ok(budget)
    }

    /// The budget in a file of this machine.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn of_file(path: &Path) -> Result<Self> {
        Self::open(Arc::new(RealDisk), path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it says now.
    ///
    /// # Errors
    /// If it cannot be read, or was changed by hand so that it makes no sense.
    pub fn state(&self) -> Result<State> {
        self.read()?.state()
    }

    /// What would be left after a claim; changes nothing.
    ///
    /// # Errors
    /// If the claim does not fit, with what is left and what to do.
    pub fn check(&self, claim: &Claim) -> Result<Amount> {
        let mut contents = self.read()?;
        self.admit(&mut contents, claim, &Approval::default())?;
        Ok(contents.filter()?.left())
    }

    /// Reserves what a publication costs, durably, unless that is counted already.
    ///
    /// # Errors
    /// As [`check`](Self::check), or if the file cannot be written.
    pub fn reserve(&self, claim: &Claim, approval: &Approval) -> Result<()> {
        self.change(|contents| self.admit(contents, claim, approval))
    }

    /// What was reserved is spent: it is recorded in the ledger of the key.
    ///
    /// # Errors
    /// If the file cannot be written; then it stays reserved, which counts as much.
    pub fn settle(&self, claim: &Claim) -> Result<()> {
        self.change(|contents| {
            if let Some(cost) = contents.find(claim).filter(|cost| cost.spent.is_none()) {
                cost.spent = Some(Timestamp::now());
                return Ok(true);
            }
            Ok(false)
        })
    }

    /// Gives back what was reserved for a stream that no key has taken up.
    ///
    /// # Errors
    /// If there is no such reservation, or the file cannot be written.
    pub fn cancel(&self, stream: &str) -> Result<()> {
        self.change(|contents| {
            let before = contents.costs.len();
            contents.costs.retain(|cost| cost.stream != stream || !cost.key_id.is_empty() || cost.spent.is_some());
            if contents.costs.len() == before {
                return Err(usage(format!(
                    "nothing is reserved for stream `{stream}` alone: what a key has taken up is counted for ever"
                )));
            }
            Ok(true)
        })
    }

    /// Puts a claim into the contents if it fits; says whether anything changed.
    fn admit(&self, contents: &mut Contents, claim: &Claim, approval: &Approval) -> Result<bool> {
        if let Some(cost) = contents.find(claim) {
            let taken_up = cost.key_id.is_empty() && !claim.key_id.is_empty();
            if taken_up {
                cost.key_id.clone_from(&claim.key_id);
            }
            return Ok(taken_up | cost.approve(approval));
        }
        let (shown, name, stream) = (self.path.display(), &contents.name, &claim.stream);
        if contents.protects() != claim.protects {
            return Err(usage(format!(
                "the budget {shown} of `{name}` is for one {}, and the plan of stream `{stream}` protects one {}; plan \
                 for the same unit and neighbours, or make a budget for that unit too",
                contents.protects().brief(),
                claim.protects.brief()
            )));
        }
        let filter = contents.filter()?;
        let fits = filter.would_admit(claim.cost).map_err(|error| {
            usage(format!("stream `{stream}` cannot be counted by the budget {shown} of `{name}`: {error}"))
        })?;
        if !fits {
            let remedies = sentence![
                format!(
                    "stream `{stream}` ({}) does not fit the budget {shown} of `{name}`: {} of {} is left; plan it with no \
                     more than that, or publish from this source under a ",
                    claim.budget,
                    filter.left(),
                    filter.cap()
                ),
                Parameter::Stream,
                " that has begun"
            ];
            return Err(usage(remedies));
        }
        contents.costs.push(Costs::reserved(claim, approval));
        Ok(true)
    }

    /// Reads, changes and replaces the file under its lock; nothing is written where nothing changes.
    fn change(&self, change: impl FnOnce(&mut Contents) -> Result<bool>) -> Result<()> {
        let (never, mut waiting) = (AtomicBool::new(false), |_: &Path| ());
        let lock = NameLock::take(&self.path, &self.path, &mut Patience::until(&never, &mut waiting))?;
        let mut contents = self.read()?;
        if change(&mut contents)? { self.write(&contents, &lock) } else { Ok(()) }
    }

    fn read(&self) -> Result<Contents> {
        let shown = self.path.display();
        check_one_name(&self.path, "budget")?;
        let bytes = self.disk.read(&self.path).map_err(|e| usage(format!("the budget {shown} cannot be read: {e}")))?;
        let bytes = bytes.ok_or_else(|| {
            usage(format!("there is no budget {shown}; make one with `evertally budget new {shown}`"))
        })?;
        Contents::read(&bytes, &shown.to_string())
    }

    fn write(&self, contents: &Contents, lock: &NameLock) -> Result<()> {
        let shown = self.path.display();
        if !lock.has_its_name() {
            return Err(usage(format!("the lock beside the budget {shown} was taken away; run again")));
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
