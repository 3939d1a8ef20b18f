//! The output of a key is frozen: another value here would publish a second noise for a published value.

use super::*;
use crate::noise::TestSeed;
use crate::plan::PlanRequest;
use crate::privacy::{Budget, Epsilon, Rho};

/// The digests of plans under which these reads were recorded.
const PATH_SUM: &str = "e5bf8bee463b395e3054dee36159b42a6a53caf5178c0518adb96103198eff49";
const SMOOTH: &str = "7edc734baea6610cd4a91c3f365bee3627315273b5d7784bf54911745635dbe5";
const SUBTRACT: &str = "32764e95baf7a0a0bf418968fea1a40fa2fdd9af78524553fcc55638ed15ec73";
const BLT: &str = "4697ccc819dc1add3cbfe0b3420b405471749dc297315fddf26dd8d29eaa52df";
const NORMALIZED_BLT: &str = "041fdedf2b471c14cfe8b219c744a4ae4b621d81593d7df68172cc19d20b8ec8";

/// Digest of the reads of a few sums at a few steps; one sum is read late and one only once.
fn digest(mechanism: &str, budget: Budget, sampling: LazySampling, plan_digest: &str) -> String {
    let request = PlanRequest::count(1000, budget).with_mechanism(mechanism.parse().unwrap());
    let plan = LazyPlan::new(request.plan().unwrap().with_digest(plan_digest), 1 << 40, sampling).unwrap();
    let key = GuardedKey::insecure_from_test_seed(TestSeed(1));
    let mut vector = LazyVector::new(plan, &key, "frozen".parse().unwrap()).unwrap();
    let mut hasher = blake3::Hasher::new();
    for step in [1, 2, 7, 100, 640, 641, 1000] {
        vector.add(12_345, 1).unwrap();
        vector.tick_through(step).unwrap();
        for coordinate in [0, 12_345, (1 << 40) - 1] {
            if step > 99 || coordinate == 0 {
                hasher.update(&vector.read(coordinate).unwrap().multiple.to_le_bytes());
            }
        }
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

#[test]
fn reads_are_frozen() {
    let gaussian = Budget::Zcdp(Rho::new(0.5).unwrap());
    let pure = Budget::Pure(Epsilon::new(1.0).unwrap());
    let buffers = "decay=3c00000000000000/2000000000000000,echo=1000000000000000/800000000000000";
    let (blt, normalized) = (format!("blt({buffers})"), format!("normalized-blt({buffers})"));
    for (mechanism, plan, budget, sampling, frozen) in [
        ("path-sum(levels=unit)", PATH_SUM, gaussian, LazySampling::Float, "a2be0728f93b74f1"),
        ("smooth(h=13,zeros=5)", SMOOTH, gaussian, LazySampling::Float, "fc6a580f8ef14432"),
        ("subtract(k=7)", SUBTRACT, pure, LazySampling::Float, "d9d097a2f890dac5"),
        (&blt, BLT, gaussian, LazySampling::Float, "80984c8aaab6fee7"),
        (&normalized, NORMALIZED_BLT, gaussian, LazySampling::Float, "5c20f06f8df505d3"),
        ("path-sum(levels=unit)", PATH_SUM, gaussian, LazySampling::Integer, "3748fc2d3ce2e643"),
        ("subtract(k=7)", SUBTRACT, pure, LazySampling::Integer, "17b167f2f8a47dcf"),
        ("path-sum(levels=unit)", PATH_SUM, gaussian, LazySampling::Keyed, "5b72ed146ec6f2e2"),
        ("subtract(k=7)", SUBTRACT, pure, LazySampling::Keyed, "e2fcae77256c61b6"),
    ] {
        let now = digest(mechanism, budget, sampling, plan);
        assert_eq!(now, frozen, "{mechanism} {sampling}");
    }
}
