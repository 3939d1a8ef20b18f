//! Several processes with one key file.

use super::*;
use std::process::{Command, Output, Stdio};

/// Names the key file and the totals of a child process.
const CHILD: &str = "EVERTALLY_NOISE_LOG_CHILD";

/// Runs [`child_process`] with these totals: it prints each release, or the refusal.
fn child(key: &Path, totals: &[i64]) -> std::process::Child {
    let totals = totals.iter().map(i64::to_string).collect::<Vec<_>>().join(" ");
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "noise_log::tests::processes::child_process", "--ignored", "--nocapture"])
        .env(CHILD, format!("{}\n{totals}", key.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The releases of a child process, and its refusal.
fn outcome(output: Output) -> (Vec<f64>, Option<String>) {
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let of = |word: &'static str| text.lines().filter_map(move |line| line.split_once(word).map(|(_, rest)| rest));
    let released = of("released: ").map(|value| value.parse().unwrap()).collect();
    (released, of("refused: ").next().map(str::to_owned))
}

fn run(key: &Path, totals: &[i64]) -> (Vec<f64>, Option<String>) {
    outcome(child(key, totals).wait_with_output().unwrap())
}

#[test]
#[ignore = "a process that the other tests start"]
fn child_process() {
    let Ok(arguments) = std::env::var(CHILD) else { return };
    let (path, totals) = arguments.split_once('\n').unwrap();
    let mut visits = sum(&open(Path::new(path)), "visits");
    for total in totals.split(' ') {
        match tick_all(&mut visits, &[total.parse().unwrap()]) {
            Ok(values) => println!("\nreleased: {}", values[0]),
            Err(error) => return println!("\nrefused: {error}"),
        }
    }
}

#[test]
fn a_process_knows_what_others_have_issued() {
    let (_folder, path) = new_folder();
    let key = open(&path);
    let mut visits = sum(&key, "visits");
    let own = tick_all(&mut visits, &[3, 4]).unwrap();
    // The same data, and more of them.
    let (released, refusal) = run(&path, &[3, 4, 5]);
    assert_eq!((&released[..2], refusal), (&own[..], None));
    let (released, refusal) = run(&path, &[3, 9]);
    assert_eq!(released, own[..1]);
    assert!(refusal.unwrap().contains("step 2 was issued for other data"));
    // This process has not seen step 3 yet.
    visits.add_sum(6).unwrap();
    assert!(refused(visits.tick()).contains("step 3 was issued for other data"));
}

/// Processes that begin at once, each with its own data: one of them continues, and the file lock decides which.
#[test]
fn of_processes_with_different_data_one_continues() {
    let (_folder, path) = new_folder();
    let same = [1; 40];
    let running = [2, 3, 4].map(|last| child(&path, &[&same[..], &[last; 40]].concat()));
    let outcomes = running.map(|child| outcome(child.wait_with_output().unwrap()));
    let finished = outcomes.iter().filter(|(released, refusal)| released.len() == 80 && refusal.is_none()).count();
    let stopped = outcomes.iter().filter(|(released, refusal)| {
        released.len() == 40 && refusal.as_ref().is_some_and(|text| text.contains("step 41 was issued for other data"))
    });
    assert_eq!((finished, stopped.count()), (1, 2), "{outcomes:?}");
}

/// A killed process has recorded every step that it has issued: it is repeated to the last bit, or refused.
#[test]
fn a_killed_process_is_repeated() {
    use std::io::{BufRead, BufReader};
    let (_folder, path) = new_folder();
    let totals: Vec<i64> = (1..=900).collect();
    let mut running = child(&path, &totals);
    let lines = BufReader::new(running.stdout.take().unwrap()).lines().map(Result::unwrap);
    let released = lines.filter_map(|line| line.strip_prefix("released: ").map(|value| value.parse::<f64>().unwrap()));
    let seen: Vec<f64> = released.take(20).collect();
    running.kill().unwrap();
    running.wait().unwrap();
    let mut other: Vec<i64> = totals[..20].to_vec();
    other[19] += 1;
    let key = open(&path);
    assert!(refused(tick_all(&mut sum(&key, "visits"), &other)).contains("step 20 "));
    assert_eq!(tick_all(&mut sum(&key, "visits"), &totals[..20]).unwrap(), seen);
}
