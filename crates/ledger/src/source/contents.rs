//! The contents of the file of a source's budget.

use super::claim::{Approval, Claim};
use crate::counted::{Link, counted};
use crate::protects::Protects;
use crate::version::version_of;
use evertally::privacy::composition::{Amount, Expense, Filter};
use evertally::privacy::{Budget, Neighbours};
use evertally_declare::error::{Result, usage};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

const VERSION: u32 = 1;

/// The total of a source, and the units that it protects.
#[derive(Clone, Debug)]
pub struct Total {
    /// The total: ε, ρ or (ε, δ).
    pub budget: Budget,
    /// Whether ε and δ are added up separately, instead of through ρ.
    pub is_basic: bool,
    /// The units that it protects.
    pub protects: Protects,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SourceContents {
    version: u32,
    pub(super) name: String,
    unit: SourceUnit,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    period: Option<String>,
    neighbours: Neighbours,
    total: Budget,
    #[serde(default)]
    basic: bool,
    made: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    approver: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    pub(super) costs: Vec<Costs>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SourceUnit {
    Person,
    Event,
}

/// The cost of a stream.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// The stream.
    pub stream: String,
    /// The public id of its key; empty if it is reserved for the first key that publishes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key_id: String,
    /// Digest of the plan.
    pub plan: String,
    /// The plan's budget in words.
    pub budget: String,
    /// Its cost, in every currency in which it is known.
    pub cost: Expense,
    /// When it was reserved.
    pub reserved: Timestamp,
    /// When the ledger of the key recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Timestamp>,
    /// The approver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approver: Option<String>,
    /// The reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The stream that it continues, under the same key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<String>,
    /// The largest number of these consecutive streams in which one unit can have data; recorded with `follows`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_streams: Option<u32>,
}

/// The state of a budget at one time.
#[doc(alias = "State")]
#[derive(Clone, Debug)]
pub struct BudgetState {
    /// Name of the source.
    pub name: String,
    /// Its total.
    pub total: Total,
    /// When it was made.
    pub made: Timestamp,
    /// Who agreed to the total, and why.
    pub approval: Approval,
    /// The costs of streams, in the order in which they were added.
    pub costs: Vec<Costs>,
    /// The total, in the deciding currency.
    pub cap: Amount,
    /// The spent amount, rounded up.
    pub spent: Amount,
    /// The amount that is reserved but not spent, rounded up.
    pub reserved: Amount,
    /// The remaining amount, rounded down.
    pub left: Amount,
}

impl Costs {
    pub(super) fn reserved(claim: &Claim, approval: &Approval) -> Self {
        Self {
            stream: claim.stream.clone(),
            key_id: claim.key_id.clone(),
            plan: claim.plan.clone(),
            budget: claim.budget.clone(),
            cost: claim.cost,
            reserved: Timestamp::now(),
            spent: None,
            approver: approval.approver.clone(),
            note: approval.note.clone(),
            follows: claim.follows.clone(),
            max_streams: claim.follows.as_ref().map(|_| claim.max_streams),
        }
    }

    /// Takes up a reservation for any key.
    pub(super) fn take_up(&mut self, claim: &Claim) {
        self.key_id.clone_from(&claim.key_id);
        self.follows.clone_from(&claim.follows);
        self.max_streams = claim.follows.as_ref().map(|_| claim.max_streams);
    }

    fn link(&self) -> Link<'_> {
        let (key, stream, follows) = (self.key_id.as_str(), self.stream.as_str(), self.follows.as_deref());
        // Without a record, every stream counts.
        Link { key, stream, follows, max_streams: self.max_streams.unwrap_or(u32::MAX), cost: self.cost }
    }

    /// Records the approval, if one is given and not recorded yet.
    pub(super) fn approve(&mut self, approval: &Approval) -> bool {
        let mut changed = false;
        for (kept, given) in [(&mut self.approver, &approval.approver), (&mut self.note, &approval.note)] {
            if given.is_some() && kept != given {
                kept.clone_from(given);
                changed = true;
            }
        }
        changed
    }
}

impl SourceContents {
    pub(super) fn new(name: &str, total: Total, Approval { approver, note }: Approval) -> Self {
        Self {
            version: VERSION,
            name: name.to_owned(),
            unit: if total.protects.persons { SourceUnit::Person } else { SourceUnit::Event },
            period: total.protects.period.clone(),
            neighbours: if total.protects.replaced { Neighbours::ReplaceOne } else { Neighbours::AddRemove },
            total: total.budget,
            basic: total.is_basic,
            made: Timestamp::now(),
            approver,
            note,
            costs: Vec::new(),
        }
    }

    pub(super) fn read(bytes: &[u8], shown: &str) -> Result<Self> {
        if version_of(bytes).is_some_and(|version| version != VERSION) {
            return Err(usage(format!("the budget {shown} was written by another version of this program")));
        }
        let contents: Self = serde_json::from_slice(bytes)
            .map_err(|e| usage(format!("the budget {shown} is damaged ({e}); restore it from a copy")))?;
        contents.filter().map_err(|error| usage(format!("the budget {shown} was changed by hand: {error}")))?;
        Ok(contents)
    }

    pub(super) fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec_pretty(self).map_err(std::io::Error::from)?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    pub(super) fn protects(&self) -> Protects {
        let (persons, replaced) = (self.unit == SourceUnit::Person, self.neighbours == Neighbours::ReplaceOne);
        Protects { persons, period: self.period.clone(), replaced }
    }

    /// The cost counted for the stream and plan of a claim: under its key, or reserved for any key.
    pub(super) fn find(&mut self, claim: &Claim) -> Option<&mut Costs> {
        let fits = |cost: &Costs| cost.stream == claim.stream && cost.plan == claim.plan;
        let own = self.costs.iter().position(|cost| fits(cost) && cost.key_id == claim.key_id);
        let place = own.or_else(|| self.costs.iter().position(|cost| fits(cost) && cost.key_id.is_empty()))?;
        Some(&mut self.costs[place])
    }

    /// Everything that counts, reserved or spent.
    pub(super) fn filter(&self) -> Result<Filter> {
        self.filter_of(|_| true)
    }

    fn filter_of(&self, is_wanted: impl Fn(&Costs) -> bool) -> Result<Filter> {
        let mut filter = match (self.total, self.basic) {
            (Budget::Approximate(epsilon, delta), true) => Filter::basic(epsilon, delta),
            (total, _) => Filter::new(total),
        };
        let costs = counted_costs(&self.costs).filter(|cost| is_wanted(cost));
        costs.map(|cost| cost.cost).try_for_each(|cost| filter.spend(cost))?;
        Ok(filter)
    }

    /// Whether the cost that was added last counts towards the total.
    pub(super) fn counts_last(&self) -> bool {
        counted_costs(&self.costs)
            .last()
            .is_some_and(|last| self.costs.last().is_some_and(|own| std::ptr::eq(last, own)))
    }

    pub(super) fn state(&self) -> Result<BudgetState> {
        let whole = self.filter()?;
        Ok(BudgetState {
            name: self.name.clone(),
            total: Total { budget: self.total, is_basic: self.basic, protects: self.protects() },
            made: self.made,
            approval: Approval { approver: self.approver.clone(), note: self.note.clone() },
            costs: self.costs.clone(),
            cap: whole.cap(),
            spent: self.filter_of(|cost| cost.spent.is_some())?.used(),
            reserved: self.filter_of(|cost| cost.spent.is_none())?.used(),
            left: whole.left(),
        })
    }
}

/// The costs that count towards the total.
fn counted_costs(costs: &[Costs]) -> impl Iterator<Item = &Costs> {
    let links: Vec<Link<'_>> = costs.iter().map(Costs::link).collect();
    costs.iter().zip(counted(&links)).filter_map(|(cost, counts)| counts.then_some(cost))
}

impl BudgetState {
    /// The cost of a stream, in the deciding currency; 0 if the streams that it continues count for it.
    pub fn amount(&self, cost: &Costs) -> Amount {
        let counts = |counted: &Costs| counted.key_id == cost.key_id && counted.stream == cost.stream;
        self.amount_of(counted_costs(&self.costs).find(|counted| counts(counted)).into_iter())
    }

    /// The total cost of some streams, reserved or spent, in the deciding currency, as if there were no others; rounded
    /// up.
    pub fn amount_of<'c>(&self, costs: impl Iterator<Item = &'c Costs>) -> Amount {
        let mut filter = match (self.total.budget, self.total.is_basic) {
            (Budget::Approximate(epsilon, delta), true) => Filter::basic(epsilon, delta),
            (total, _) => Filter::new(total),
        };
        let costs: Vec<Costs> = costs.cloned().collect();
        for cost in counted_costs(&costs) {
            let _ = filter.spend(cost.cost); // it was admitted before
        }
        filter.used()
    }
}
