//! The cost that a publication claims from a source, and its approval.

use crate::protects::Protects;
use evertally::plan::Plan;
use evertally::privacy::composition::Expense;
use evertally_declare::stream::Stream;

/// The cost that a publication claims from a source.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Its stream.
    pub stream: String,
    /// The public id of its key; empty if the key is not known yet.
    pub key_id: String,
    /// The digest of its plan, in hexadecimal.
    pub plan: String,
    /// The privacy cost of the plan.
    pub cost: Expense,
    /// The units that the plan protects.
    pub protects: Protects,
    /// The plan's budget in words.
    pub budget: String,
    /// The stream that it continues, under the same key.
    pub follows: Option<String>,
    /// The largest number of these consecutive streams in which one unit can have data.
    pub max_streams: u32,
}

impl Claim {
    /// The claim of a stream with all plans under which it is released.
    pub fn from_stream(stream: &Stream, key_id: &str) -> Self {
        let plan = blake3::Hash::from_bytes(stream.plan_digest()).to_hex().to_string();
        let follows = stream.follows.as_ref().map(|follows| follows.stream.clone());
        let (cost, max_streams) = (stream.guarantee().expense(), stream.streams_of_a_unit());
        Self { plan, cost, follows, max_streams, ..Self::new(stream.name.as_str(), key_id, &stream.plan) }
    }

    /// The claim of a stream under a plan.
    pub fn new(stream: &str, key_id: &str, plan: &Plan) -> Self {
        let request = plan.request();
        Self {
            stream: stream.to_owned(),
            key_id: key_id.to_owned(),
            plan: blake3::Hash::from_bytes(plan.digest()).to_hex().to_string(),
            cost: plan.guarantee().expense(),
            protects: Protects::new(request.unit(), request.neighbours(), request.meaning()),
            budget: match plan.guarantee().selection {
                None => request.budget().to_string(),
                Some(delta) => format!("{}, groups selected by δ = {:e}", request.budget(), delta.get()),
            },
            follows: None,
            max_streams: 1,
        }
    }
}

/// An approval: by whom, and why.
#[derive(Clone, Debug, Default)]
pub struct Approval {
    /// The name of the approver.
    pub approver: Option<String>,
    /// A free text.
    pub note: Option<String>,
}
