//! Neighbouring data through HTTP: see `evertally_testkit::replay`.

use crate::server::{START, Server};
use evertally::noise::{SecretKey, TestSeed};
use evertally_declare::declaration::Declaration;
use evertally_declare::format::Format;
use evertally_declare::steps::Instant;
use evertally_ledger::ledger::Ledger;
use evertally_server::clock::ManualClock;
use evertally_testkit::replay::{
    Declared, Outcome, Pipeline, Row, TableRow, check, nth_case, nth_wide_case, spends, write_file,
};
use std::sync::Arc;

/// The first case; other tests use smaller numbers.
const FIRST: u64 = 2_000_000;
const CASES: u64 = 40;
const WIDE_CASES: u64 = 100;

/// A service that receives each file as a batch, and whose operator closes steps at the ends of the runs.
struct Served;

impl Pipeline for Served {
    fn publish(&self, stream: &Declared, files: &[Vec<Row>]) -> Vec<Outcome> {
        let refused = |said: String| Outcome { refusal: Some(said), ..Outcome::default() };
        let server = match served(&stream.declaration) {
            Ok(server) => server,
            Err(why) => {
                // It begins with the path of the configuration, which is another one in each run.
                let why = why.split_once("serve.toml").map_or(why.as_str(), |(_, rest)| rest).to_owned();
                return stream.runs.iter().map(|_| refused(why.clone())).collect();
            }
        };
        let name = stream.declaration.stream.clone().unwrap_or_else(|| NAME.to_owned());
        let token = server.token(&format!("write:{name}"));
        let path: String = form_urlencoded::byte_serialize(name.as_bytes()).collect::<String>().replace('+', "%20");
        let mut outcomes = Vec::new();
        for run in &stream.runs {
            let mut outcome = Outcome::default();
            for (number, rows) in files[..run.files].iter().enumerate() {
                let (kind, id) = (stream.format.media_type(), number.to_string());
                let headers = [("content-type", kind), ("idempotency-key", id.as_str())];
                let body = bytes_of(&server, stream.format, rows);
                let sent = server.private.post(&format!("/v1/streams/{path}/events"), &token, &headers, &body).unwrap();
                if sent.status != 200 {
                    // Here, a closed step is one that an earlier run has closed.
                    let said = sent.text.replace("a step that is closed", "a step that an earlier run has closed");
                    outcome = refused(said);
                    break;
                }
            }
            if outcome.refusal.is_none() {
                let through = last_step(&stream.declaration, run.through.as_deref());
                let body = format!("{{\"through\":{through}}}");
                let closed = server.post(&format!("/v1/streams/{path}/close"), &body);
                assert!([200, 422].contains(&closed.status), "{}", closed.text);
                let table = server.get(&format!("/v1/streams/{path}/releases?from=1&to=1000000&format=csv"));
                outcome.table = TableRow::all_of(&table.text);
                let mut public = server.public.get(&format!("/v1/streams/{path}"), "").unwrap().json();
                public["head"] = serde_json::Value::Null; // a digest of the values
                outcome.files.insert("description".into(), public.to_string());
                for page in ["plan", "report"] {
                    let text = server.public.get(&format!("/v1/streams/{path}/{page}"), "").unwrap().text;
                    // The ledger of each service has its own identity.
                    let text = text.lines().filter(|line| !line.contains("edger")).collect::<Vec<_>>().join("\n");
                    outcome.files.insert(page.into(), text);
                }
            }
            outcomes.push(outcome);
        }
        outcomes
    }
}

const NAME: &str = "events";

/// A service with the stream, always with the same key.
fn served(declaration: &Declaration) -> Result<Server, String> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("keys")).unwrap();
    let key = SecretKey::insecure_from_test_seed(TestSeed(12));
    Ledger::in_memory(&key).save(&folder.path().join("keys/serve.key"), &key).unwrap();
    let declared = Declaration { through: None, all: None, ..declaration.clone() };
    let declared = Declaration { stream: declared.stream.clone().or(Some(NAME.into())), ..declared };
    let text = toml::to_string(&declared).map_err(|error| error.to_string())?;
    let clock = Arc::new(ManualClock::at(Instant::from_micros(START)));
    let rest = format!("[[stream]]\npublic = true\nclosing = \"operator\"\n{text}");
    let mut server = Server::adopting(folder, clock, &rest)?;
    server.operate = server.token("operate");
    Ok(server)
}

fn last_step(declaration: &Declaration, through: Option<&str>) -> u64 {
    let through = through.map(str::to_owned);
    let all = through.is_none().then_some(true);
    let settings = Declaration { through, all, ..declaration.clone() }.resolve().unwrap();
    evertally_ledger::planner::plan(settings, &mut |_| ()).unwrap().0.last_step
}

fn bytes_of(server: &Server, format: Format, rows: &[Row]) -> Vec<u8> {
    let path = server.path(&format!("batch.{}", format.word()));
    write_file(&path, format, rows);
    std::fs::read(path).unwrap()
}

#[test]
fn neighbours_move_what_the_plan_says_and_nothing_else() {
    let (mut differing, mut decoded) = (0, 0);
    for number in FIRST..FIRST + CASES {
        let case = nth_case(number);
        match check(&Served, &case) {
            Ok(found) => {
                differing += u64::from(found.differing > 0);
                decoded += u64::from(found.decoded > 1);
            }
            Err(fault) => panic!("case {number}: {fault}\n{case:#?}"),
        }
    }
    assert!(
        differing > CASES / 4 && decoded > CASES / 20,
        "{differing} of {CASES} cases differ, {decoded} count persons"
    );
}

/// The same for wide declarations, computed from released rows alone.
#[test]
fn no_pair_spends_more_than_the_budget() {
    let (mut judged, mut largest) = (0, 0.0f64);
    for number in FIRST..FIRST + WIDE_CASES {
        let Ok(case) = nth_wide_case(number) else { continue };
        match spends(&Served, &case) {
            Ok(spent) => {
                judged += u64::from(spent.share > 0.0);
                largest = largest.max(spent.share);
            }
            Err(fault) => {
                let declared = toml::to_string(&case.stream.declaration).expect("TOML");
                panic!("case {number}: {fault}\n{declared}\n{case:#?}")
            }
        }
    }
    assert!(judged > WIDE_CASES / 6 && largest > 0.9, "{judged} judged, {largest}");
}
