//! The guarantee and the report of a stream, computed on request: some plans take long to compute their errors.

use evertally::noise::SecretKey;
use evertally_declare::groups::GroupTable;
use evertally_declare::stream::Stream;
use evertally_ledger::ledger::Ledger;
use evertally_ledger::ledger::LedgerFacts;
use evertally_publish::report::{ErrorFacts, ReleaseKind, Report};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The guarantee, in words and numbers.
#[derive(Clone, Debug)]
pub struct GuaranteeStatement {
    /// In words.
    pub words: String,
    /// ε, with [`delta`](Self::delta).
    pub epsilon: Option<f64>,
    /// δ; 0 for pure ε.
    pub delta: Option<f64>,
    /// ρ of zero-concentrated differential privacy, apart from a failure with probability `selection_delta`.
    pub rho: f64,
    /// The probability that the selection of groups fails, counted in δ and not in ρ; `None` if groups are not
    /// discovered.
    pub selection_delta: Option<f64>,
}

/// The inputs of reports.
pub(super) struct Reporting {
    stream: Arc<Stream>,
    key_id: String,
    ledger: LedgerFacts,
    promise: OnceLock<GuaranteeStatement>,
    largest: OnceLock<Option<f64>>,
    /// The last report, computed for its first request: requests for the same report wait, others do not.
    last: Mutex<Option<Last>>,
}

/// A report, and its subject.
#[derive(Clone)]
struct Last {
    publications: u64,
    groups: Arc<Option<GroupTable>>,
    report: Arc<OnceLock<Arc<Report>>>,
}

impl Reporting {
    pub(super) fn new(stream: Arc<Stream>, key: &SecretKey, ledger: &Ledger) -> Self {
        let run = ledger.runs_of(&stream.name).first().map_or(0, |run| run.counter);
        let ledger = LedgerFacts { identity: ledger.identity().to_owned(), run };
        Self::from_facts(stream, key.id().to_string(), ledger)
    }

    /// With the facts about key and ledger that reports have.
    pub(super) fn from_facts(stream: Arc<Stream>, key_id: String, ledger: LedgerFacts) -> Self {
        let (promise, largest, last) = (OnceLock::new(), OnceLock::new(), Mutex::default());
        Self { stream, key_id, ledger, promise, largest, last }
    }

    /// The public name of the key.
    pub(super) fn key_id(&self) -> &str {
        &self.key_id
    }

    /// Where releases are recorded.
    pub(super) fn ledger(&self) -> &LedgerFacts {
        &self.ledger
    }

    /// The report on the publications so far.
    pub(super) fn report(&self, publications: u64, groups: Arc<Option<GroupTable>>) -> Arc<Report> {
        let last = {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            let is_it = |last: &Last| last.publications == publications && Arc::ptr_eq(&last.groups, &groups);
            match last.as_ref().filter(|last| is_it(last)) {
                Some(known) => known.clone(),
                None => last.insert(Last { publications, groups, report: Arc::default() }).clone(),
            }
        };
        // Not under the lock, because it may take long.
        let make = || Arc::new(self.make(publications, last.groups.as_ref().as_ref()));
        Arc::clone(last.report.get_or_init(make))
    }

    fn make(&self, publications: u64, groups: Option<&GroupTable>) -> Report {
        let stream = (*self.stream).clone().through(self.stream.last_step_of(publications));
        let released = match (groups, stream.plan.threshold()) {
            (Some(groups), _) => ReleaseKind::Groups(groups.facts()),
            (None, Some(_)) => ReleaseKind::Discovered,
            (None, None) => ReleaseKind::Sum,
        };
        Report::with_key_id(&stream, self.key_id.clone(), released).recorded_in(self.ledger.clone())
    }

    /// The guarantee for everything that will ever be published.
    pub(super) fn promise(&self) -> GuaranteeStatement {
        let promise = || {
            let report = self.make(1, None);
            let (epsilon, delta) = report.strength().unzip();
            GuaranteeStatement {
                words: report.promise(),
                epsilon,
                delta,
                rho: report.guarantee.rho,
                selection_delta: report.guarantee.selection_delta,
            }
        };
        self.promise.get_or_init(promise).clone()
    }

    /// The largest standard error of a published value; `None` if it grows without bound.
    pub(super) fn largest_error(&self) -> Option<f64> {
        let is_endless = self.stream.plan.is_unbounded();
        *self.largest.get_or_init(|| (!is_endless).then(|| ErrorFacts::for_releases(&self.stream).max_std_error))
    }
}
