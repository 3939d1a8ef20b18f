//! Sums of complete steps that were counted elsewhere: restored folders, impossible sums, and failed streams.

use crate::server::{Server, WITNESS, rows};
use evertally_declare::steps::Instant;
use evertally_testkit::service::Answer;

const COUNTED: &str = r#"
[[stream]]
stream = "counted"
public = true
closing = "sums"
start = "2026-01-01"
every = "1h"
steps = 20
rho = 1
[[stream]]
stream = "other"
closing = "operator"
start = "2026-01-01"
every = "1h"
steps = 3
value = "value"
bounds = ["0", "400000000000000000"]
rho = 1
"#;

fn server(more: &str) -> Server {
    let server = Server::with("", &format!("{more}{COUNTED}"));
    server.clock.set(Instant::from_micros(crate::server::START + 20 * crate::server::HOUR));
    server
}

/// Sends steps with these sums.
fn put(server: &Server, from: u64, sums: &[i64]) -> Answer {
    let row = |(step, sum): (u64, &i64)| format!("{{\"step\":{step},\"sum\":{sum}}}\n");
    let body: String = (from..).zip(sums).map(row).collect();
    let path = format!("/v1/streams/counted/sums?from={from}&through={}", from + sums.len() as u64 - 1);
    let headers = [("content-type", "application/x-ndjson")];
    server.private.ask("PUT", &path, &server.token("write:counted"), &headers, body.as_bytes()).unwrap()
}

#[test]
fn a_restored_folder_takes_the_sums_that_were_published_and_no_others() {
    let mut server = server(WITNESS);
    assert_eq!(put(&server, 1, &[5, 6]).status, 200);
    server.save_copy();
    assert_eq!(put(&server, 3, &[7]).status, 200);
    assert_eq!(put(&server, 4, &[8, 9]).status, 200);
    let published = rows(&server, "counted");
    server.restore_copy();
    let message = server.get("/v1/operator").text;
    assert!(message.contains("send the sums of steps 3 through 5 again"), "{message}");
    // Wrong sums are detected once all steps are there, and leave no trace.
    assert_eq!(put(&server, 3, &[7, 80]).status, 200);
    let differs = put(&server, 3, &[7, 8]);
    assert!(differs.status == 409 && differs.text.contains("since its folder was restored"), "{}", differs.text);
    let refused = put(&server, 5, &[9, 1]);
    assert!(refused.status == 409 && refused.text.contains("were deleted"), "{}", refused.text);
    assert_eq!(server.published("counted"), 2);
    // Impossible sums are refused immediately.
    assert_eq!(put(&server, 3, &[-1]).status, 422);
    // Over a restart, and beyond the published steps.
    assert_eq!(put(&server, 3, &[7]).status, 200);
    server.stop();
    server.start().unwrap();
    assert_eq!(server.published("counted"), 2);
    assert_eq!(put(&server, 3, &[7, 8, 9, 1]).status, 200);
    assert_eq!(server.published("counted"), 6);
    assert!(rows(&server, "counted").starts_with(&published));
    assert_eq!(server.get("/v1/streams/counted").json()["state"], "open");
}

#[test]
fn what_cannot_be_leaves_nothing_behind() {
    let mut server = server("");
    for (sums, message) in [(&[-1][..], "-1"), (&[4, i64::MAX], "step 2"), (&[i64::MAX, i64::MAX], "step 2")] {
        let refused = put(&server, 1, sums);
        assert!(refused.status == 422 && refused.text.contains(message), "{sums:?}: {}", refused.text);
        assert_eq!(server.published("counted"), 0);
    }
    server.stop();
    server.start().unwrap();
    assert_eq!(put(&server, 1, &[4, 5]).status, 200);
    assert_eq!(server.published("counted"), 2);
}

#[test]
fn a_stream_that_has_left_its_range_keeps_no_other_from_starting() {
    let mut server = server("");
    let much = "{\"time\":\"2026-01-01T00:30:00Z\",\"value\":400000000000000000}\n".repeat(30);
    server.send("other", "much", &much);
    assert_eq!(server.get("/v1/streams/other").json()["state"], "failed");
    assert_eq!(put(&server, 1, &[4]).status, 200);
    server.stop();
    server.start().unwrap();
    assert_eq!(server.get("/v1/streams/other").json()["state"], "failed");
    assert_eq!(put(&server, 2, &[4]).status, 200);
    assert_eq!(server.post("/v1/streams/other/retire", "").status, 200);
    assert_eq!(server.get("/v1/streams/other").json()["state"], "retired");
}

/// Steps are counted from the first one of the stream in the address, whichever part has them.
#[test]
fn sums_reach_the_part_that_has_their_steps() {
    let server = Server::with("", &COUNTED.replace("steps = 20\n", "steps = 2\nextend = { times = 1 }\n"));
    server.at(20, 0);
    let receipt = |answer: &Answer| {
        assert_eq!(answer.status, 200, "{}", answer.text);
        let own = answer.json();
        (own["stream"].clone(), own["through"].as_u64().unwrap(), own["repeated"].as_bool().unwrap())
    };
    let both = put(&server, 1, &[5, 6, 7]);
    assert!(both.status == 422 && both.text.contains("numbered 1 to 2"), "{}", both.text);
    assert_eq!(receipt(&put(&server, 1, &[5, 6])), ("counted".into(), 2, false));
    let third = loop {
        let answer = put(&server, 3, &[7]);
        if answer.status != 503 {
            break answer;
        }
        assert!(answer.text.contains("continued by `counted #2`"), "{}", answer.text);
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    assert_eq!(receipt(&third), ("counted #2".into(), 3, false));
    assert_eq!(receipt(&put(&server, 3, &[7])), ("counted #2".into(), 3, true));
    assert_eq!(receipt(&put(&server, 2, &[6])), ("counted".into(), 2, true));
    let differs = put(&server, 3, &[8]);
    assert!(differs.status == 409 && differs.text.contains("step 3 of stream `counted #2`"), "{}", differs.text);
    let beyond = put(&server, 5, &[1]);
    assert!(beyond.status == 422 && beyond.text.contains("numbered 3 to 4"), "{}", beyond.text);
    assert_eq!((server.published("counted"), server.published("counted%20%232")), (2, 1));
}
