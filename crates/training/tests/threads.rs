//! Noise on a system that grants no threads. The test runs itself again, in a process whose threads would need more
//! memory for their stacks than exists.

use evertally::noise::{GuardedKey, TestSeed};
use evertally::privacy::{Budget, Rho};
use evertally_training::{Tuning, VectorNoise, VectorRequest};

const STACK: &str = "1152921504606846976"; // 2^60

/// Two steps of many coordinates.
fn noise(mechanism: &str, threads: usize) -> evertally::Result<Vec<f32>> {
    let request = VectorRequest::new(10, Budget::Zcdp(Rho::new(0.5)?), 1.0);
    let plan = request.with_mechanism(mechanism.parse()?).plan()?;
    let key = GuardedKey::insecure_from_test_seed(TestSeed(1));
    let tuning = Tuning { threads, ..Tuning::default() };
    let mut noise = VectorNoise::new(plan, &key, "threads".parse()?, 5..1 << 19, tuning)?;
    let mut out = vec![0.0; noise.len()];
    noise.next_into(&mut out)?;
    noise.add_next(&mut out)?;
    Ok(out)
}

#[test]
fn noise_needs_no_threads() -> evertally::Result<()> {
    if std::env::var("RUST_MIN_STACK").is_ok_and(|stack| stack == STACK) {
        assert!(std::thread::Builder::new().spawn(|| ()).is_err(), "no thread can have such a stack");
        for mechanism in ["binary", "sqrt"] {
            assert!(noise(mechanism, 3)? == noise(mechanism, 1)?, "{mechanism}");
        }
        return Ok(());
    }
    let mut again = std::process::Command::new(std::env::current_exe().expect("a program"));
    // The only test thread is the main thread.
    again.args(["--exact", "noise_needs_no_threads", "--test-threads=1"]).env("RUST_MIN_STACK", STACK);
    let output = again.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    Ok(())
}
