//! Every token at every endpoint of both listeners.

use crate::server::Server;
use std::collections::BTreeSet;

/// The callers: the answers for each are checked for a public and a private stream.
const WHO: [&str; 12] = [
    "nobody",
    "wrong",
    "revoked",
    "write:open",
    "write:closed",
    "read:open",
    "read:closed",
    "read:*",
    "operate:open",
    "operate:closed",
    "monitor",
    "operate",
];

/// All endpoints and their callers: `p` for readers of the stream, `w` for its writers, `s` for its operators, `o` for
/// operators of the service, `m` for those who may see its state, `a` for everybody.
const ENDPOINTS: &[(&str, &str, char)] = &[
    ("get", "/healthz", 'a'),
    ("get", "/livez", 'a'),
    ("get", "/readyz", 'a'),
    ("get", "/metrics", 'm'),
    ("get", "/v1/operator", 'm'),
    ("post", "/v1/backup", 'o'),
    ("get", "/v1/sources", 'a'),
    ("get", "/v1/streams", 'a'),
    ("post", "/v1/streams", 'o'),
    ("get", "/v1/streams/{stream}", 'p'),
    ("get", "/v1/streams/{stream}/releases", 'p'),
    ("get", "/v1/streams/{stream}/releases/latest", 'p'),
    ("get", "/v1/streams/{stream}/plan", 'p'),
    ("get", "/v1/streams/{stream}/report", 'p'),
    ("get", "/v1/streams/{stream}/picture.svg", 'p'),
    ("get", "/v1/streams/{stream}/picture.png", 'p'),
    ("get", "/v1/streams/{stream}/watch", 'p'),
    ("get", "/v1/streams/{stream}/copy", 'p'),
    ("post", "/v1/streams/{stream}/events", 'w'),
    ("get", "/v1/streams/{stream}/positions", 'w'),
    ("post", "/v1/streams/{stream}/otlp/v1/logs", 'w'),
    ("post", "/v1/streams/{stream}/loki/api/v1/push", 'w'),
    ("put", "/v1/streams/{stream}/sums", 'w'),
    ("get", "/v1/streams/{stream}/declaration", 'w'),
    ("post", "/v1/streams/{stream}/close", 's'),
    ("post", "/v1/streams/{stream}/groups", 's'),
    ("post", "/v1/streams/{stream}/erase", 's'),
    ("get", "/v1/streams/{stream}/late", 's'),
    ("post", "/v1/streams/{stream}/extend", 's'),
    ("post", "/v1/streams/{stream}/retire", 's'),
    ("get", "/v1/webhooks", 'm'),
    ("post", "/v1/webhooks/dead-letters", 'o'),
    ("get", "/v1/audit", 'm'),
    ("get", "/v1/tokens", 'm'),
    ("post", "/v1/tokens", 'o'),
    ("delete", "/v1/tokens/{id}", 'o'),
];

/// Whether a request is admitted; otherwise its status.
fn let_in(who: &str, stream: &str, kind: char) -> Result<(), u16> {
    let is_known = !["nobody", "wrong", "revoked"].contains(&who);
    if ["wrong", "revoked"].contains(&who) && kind != 'h' {
        return Err(401);
    }
    let operates = who == "operate" || who == format!("operate:{stream}");
    let reads = stream == "open" || operates || ["read:*", "monitor"].contains(&who) || who == format!("read:{stream}");
    let is_in = match kind {
        'a' => true,
        'p' => return if reads { Ok(()) } else { Err(404) },
        'w' => who == format!("write:{stream}"),
        's' => operates,
        'm' => ["monitor", "operate"].contains(&who),
        _ => who == "operate",
    };
    if is_in { Ok(()) } else { Err(if is_known { 403 } else { 401 }) }
}

#[test]
fn every_token_opens_what_it_should_and_nothing_else() {
    let server = Server::new();
    server.publish("open", 1);
    let tokens = WHO.map(|who| match who {
        "nobody" => String::new(),
        "wrong" => "evt_00000000_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".to_owned(),
        "revoked" => {
            let token = server.token("operate");
            server.revoke(&token);
            token
        }
        role => server.token(role),
    });
    let document = server.get("/openapi.json").json();
    let declared: BTreeSet<(String, String)> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| methods.as_object().unwrap().keys().map(|method| (method.clone(), path.clone())))
        .collect();
    let tested: BTreeSet<(String, String)> =
        ENDPOINTS.iter().map(|(method, path, _)| ((*method).to_owned(), (*path).to_owned())).collect();
    assert_eq!(declared, tested, "every endpoint has its line here");
    for (method, path, kind) in ENDPOINTS {
        for stream in ["open", "closed"] {
            for (who, token) in WHO.iter().zip(&tokens) {
                // The request is invalid, so it changes nothing; it is refused only after the check of the caller.
                let target = path.replace("{stream}", stream).replace("{id}", "ffffffff");
                let is_watch = path.ends_with("/watch");
                let expected = let_in(who, stream, *kind);
                if is_watch && expected.is_ok() {
                    continue; // it does not end
                }
                if path.ends_with("/retire") && expected.is_ok() {
                    continue; // it would be permanent
                }
                let method = method.to_uppercase();
                let asked = server
                    .private
                    .ask(&method, &target, token, &[("content-type", "application/json")], b"{]")
                    .unwrap();
                match expected {
                    Ok(()) => assert!(
                        ![401, 403].contains(&asked.status) && (*kind != 'p' || asked.status == 200),
                        "{who} {method} {target}: {} {}",
                        asked.status,
                        asked.text
                    ),
                    Err(status) => {
                        let status = if path.ends_with('z') { 200 } else { status };
                        // After too many wrong tokens, the status is 429.
                        let found = if asked.status == 429 { 401 } else { asked.status };
                        assert_eq!(found, status, "{who} {method} {target}: {}", asked.text);
                    }
                }
                if is_watch && stream == "open" {
                    continue; // it does not end
                }
                let asked = server.public.ask(&method, &target, "", &[], b"").unwrap();
                let of_private = [
                    "/v1/operator",
                    "/v1/tokens",
                    "/v1/webhooks",
                    "/v1/audit",
                    "/v1/streams/{stream}/late",
                    "/v1/streams/{stream}/declaration",
                    "/v1/streams/{stream}/positions",
                ];
                let is_of_public = method == "GET" && !of_private.contains(path);
                let status = match (is_of_public, kind, stream) {
                    (true, 'p', "closed") => 404,
                    (true, ..) => 200,
                    (false, ..) if path.starts_with("/v1/streams") && path != &"/v1/streams/{stream}" => asked.status,
                    (false, ..) => 404,
                };
                assert_eq!(asked.status, status, "{method} {target} at the public listener");
                assert!(is_of_public || [404, 405].contains(&asked.status), "{method} {target} at the public listener");
            }
        }
    }
}

#[test]
fn the_last_token_of_an_operator_is_not_revoked() {
    let server = Server::new();
    let own = server.operate.split('_').nth(1).unwrap();
    let revoke =
        |id: &str| server.private.ask("DELETE", &format!("/v1/tokens/{id}"), &server.operate, &[], b"").unwrap();
    let refused = revoke(own);
    assert_eq!(refused.status, 422, "{}", refused.text);
    assert!(refused.text.contains("is the last one that operates the service"), "{}", refused.text);
    assert_eq!(server.get("/v1/operator").status, 200);
    let other = server.token("operate");
    assert_eq!(revoke(own).status, 204);
    assert_eq!(server.get("/v1/operator").status, 401);
    assert_eq!(server.private.get("/v1/operator", &other).unwrap().status, 200);
}

#[test]
fn what_nobody_may_read_is_like_what_there_is_not() {
    let server = Server::new();
    server.publish("closed", 2);
    let other = server.token("read:open");
    for path in ["", "/releases", "/plan", "/report", "/picture.svg", "/watch", "/releases?group=a&from=3&to=2"] {
        for (client, token) in [(&server.public, ""), (&server.private, other.as_str())] {
            let [hidden, missing] =
                ["closed", "nothing"].map(|name| client.get(&format!("/v1/streams/{name}{path}"), token).unwrap());
            assert_eq!((hidden.status, &hidden.text), (404, &missing.text), "{path}");
            let names = |answer: &evertally_testkit::service::Answer| {
                answer.headers.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()
            };
            assert_eq!(names(&hidden), names(&missing));
        }
    }
    for page in ["/v1/streams", "/metrics", "/v1/sources"] {
        assert!(!server.public.get(page, "").unwrap().text.contains("closed"), "{page}");
    }
}

/// A parameter that is not heeded, such as `dry-run`, is refused: most of these changes are permanent.
#[test]
fn changes_without_parameters_refuse_a_query() {
    let server = Server::new();
    for (method, path, body) in [
        ("POST", "streams/hand/retire", ""),
        ("POST", "streams/hand/close", "{\"through\":1}"),
        ("POST", "streams/hand/extend", ""),
        ("POST", "streams/hand/erase", "{\"person\":\"p\"}"),
        ("POST", "streams/open/groups", "{\"groups\":[\"d\"]}"),
        ("POST", "backup", ""),
        ("POST", "tokens", "{\"role\":\"operate\"}"),
        ("DELETE", "tokens/ffffffff", ""),
        ("POST", "webhooks/dead-letters", "{\"webhook\":\"w\",\"stream\":\"open\",\"action\":\"discard\"}"),
    ] {
        let (target, kind) = (format!("/v1/{path}?dry-run=true"), [("content-type", "application/json")]);
        let refused = server.private.ask(method, &target, &server.operate, &kind, body.as_bytes()).unwrap();
        assert!(refused.status == 400 && refused.text.contains("unexpected query"), "{path}: {}", refused.text);
    }
    assert_ne!(server.get("/v1/streams/hand").json()["state"], "retired");
}

#[test]
fn too_many_wrong_tokens_are_told_to_wait() {
    let server = Server::new();
    let statuses: Vec<u16> = (0..60)
        .map(|n| server.private.get("/v1/streams", &format!("evt_0000000{}_wrong", n % 10)).unwrap().status)
        .collect();
    assert_eq!(statuses[..30], [401; 30]);
    assert_eq!(statuses[30..], [429; 30]);
    let answer = server.private.get("/v1/streams", "evt_00000000_wrong").unwrap();
    assert_eq!(answer.header("retry-after"), Some("60"));
    // Callers without a token, or with a valid one, are not affected.
    assert_eq!(server.get("/v1/operator").status, 200);
    assert_eq!(server.public.get("/v1/streams", "").unwrap().status, 200);
}

/// Every change of an operator is in the audit log, with its token and its outcome, and nothing of the data is.
#[test]
fn changes_are_audited() {
    let server = Server::new();
    crate::server::hand(&server, 1);
    let scoped = server.token("operate:open");
    let closed = |token: &str| {
        let kind = [("content-type", "application/json")];
        server.private.post("/v1/streams/hand/close", token, &kind, b"{\"through\":2}").unwrap().status
    };
    assert_eq!((closed(&scoped), closed("evt_00000000_wrong"), closed(&server.operate)), (403, 401, 200));
    let made = server.post("/v1/tokens", "{\"role\":\"read:*\",\"label\":\"the paper\",\"expires\":\"90d\"}");
    assert_eq!(made.status, 201, "{}", made.text);
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let listed = server.get("/v1/tokens").json();
    let entry = listed["tokens"].as_array().unwrap().iter().find(|token| token["id"] == *id).unwrap().clone();
    assert!(entry["expires"].is_string() && entry["last_used"].is_null(), "{entry}");
    let read = server.private.get("/v1/streams/closed", made.json()["token"].as_str().unwrap()).unwrap();
    assert_eq!(read.status, 200);
    let listed = server.get("/v1/tokens").text;
    assert!(listed.matches("\"last_used\":\"20").count() >= 2, "{listed}");
    assert_eq!(
        server.private.ask("DELETE", &format!("/v1/tokens/{id}"), &server.operate, &[], b"").unwrap().status,
        204
    );
    assert_eq!(server.post("/v1/streams/hand/retire", "").status, 200);
    let entries = server.get("/v1/audit?last=6").json()["entries"].clone();
    let shown: Vec<String> = entries
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            assert!(entry["address"] == "127.0.0.1" && entry["by"] == "test" && entry["token"].is_string(), "{entry}");
            ["action", "subject", "outcome"].map(|name| entry[name].as_str().unwrap().to_owned()).join(" ")
        })
        .collect();
    assert_eq!(
        shown,
        [
            "close hand through 1 done",
            "close hand through 2 forbidden",
            "close hand through 2 done",
            "make-token read:* for the paper done",
            &format!("revoke-token {id} done"),
            "retire hand done",
        ]
    );
}
