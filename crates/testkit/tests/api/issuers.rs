//! `[[identity]]`: tokens of another issuer.

use crate::server::{STREAMS, Server, request_of};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpListener;
use std::time::{SystemTime, UNIX_EPOCH};

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// An issuer with one key: its URL and the key.
fn issuer() -> (String, Ed25519KeyPair) {
    let key = Ed25519KeyPair::generate_pkcs8(&ring::rand::SystemRandom::new()).unwrap();
    let key = Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let keys = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "1", "x": encoded(key.public_key())}]});
    let discovery = json!({"issuer": url, "jwks_uri": format!("{url}/keys")});
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let (first, ..) = request_of(&socket);
            let answer = if first.contains("/keys") { &keys } else { &discovery }.to_string();
            let length = answer.len();
            write!(socket, "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{answer}").unwrap();
        }
    });
    (url, key)
}

fn token(key: &Ed25519KeyPair, issuer: &str, groups: &Value, lifetime: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    let claims = json!({"iss": issuer, "sub": "ann", "aud": "evertally", "exp": now + lifetime, "groups": groups});
    let header = json!({"alg": "EdDSA", "kid": "1"});
    let signed = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
    let signature = key.sign(signed.as_bytes());
    format!("{signed}.{}", encoded(signature))
}

#[test]
fn tokens_of_an_issuer_have_the_roles_of_their_claims() {
    let (url, key) = issuer();
    let identity = format!(
        "[[identity]]\nissuer = \"{url}\"\naudience = \"evertally\"\nclient-id = \"page\"\nroles = [\n\
         {{ claim = \"groups\", value = \"ops\", role = \"operate\" }},\n\
         {{ claim = \"groups\", value = \"shop\", role = \"write:closed\" }},\n\
         {{ claim = \"groups\", value = \"readers\", role = \"read:closed\" }},\n]\n"
    );
    let mut server = Server::with("", &format!("{identity}{STREAMS}"));
    let get = |server: &Server, path: &str, token: &str| server.private.get(path, token).unwrap();
    let operator = token(&key, &url, &json!(["ops"]), 60);
    assert_eq!(get(&server, "/v1/operator", &operator).status, 200);
    let both = token(&key, &url, &json!(["shop", "readers"]), 60);
    assert_eq!(get(&server, "/v1/streams/closed", &both).status, 200);
    let headers = [("idempotency-key", "1"), ("content-type", "application/json")];
    let row = b"{\"time\":\"2026-01-01T00:30:00Z\"}";
    assert_eq!(server.private.post("/v1/streams/closed/events", &both, &headers, row).unwrap().status, 200);
    assert_eq!(get(&server, "/v1/operator", &both).status, 403);
    assert_eq!(get(&server, "/v1/operator", &token(&key, &url, &json!([]), 60)).status, 403);
    let expired = get(&server, "/v1/operator", &token(&key, &url, &json!(["ops"]), -60));
    assert_eq!(expired.status, 401);
    assert!(expired.text.contains("it has expired"), "{}", expired.text);
    // The audit log names the caller.
    let closed = server.private.post("/v1/streams/hand/close", &operator, &headers[1..], b"{\"through\":1}").unwrap();
    assert_eq!(closed.status, 200, "{}", closed.text);
    let entry = server.get("/v1/audit?last=1").json()["entries"][0].clone();
    assert_eq!((&entry["action"], &entry["by"]), (&json!("close"), &json!("oidc ann")));
    assert!(entry["token"].as_str().unwrap().starts_with("oidc-"), "{entry}");
    // The page may reach the issuer, and nothing else.
    let page = server.public.get("/", "").unwrap();
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains(&format!("connect-src 'self' {url};")), "{policy}");
    let sign_in = server.public.get("/assets/sign-in.json", "").unwrap().json();
    assert_eq!(sign_in, json!({"issuer": url, "client_id": "page", "scopes": "openid profile"}));
    // A reload takes the issuer away, and brings one that cannot be reached.
    server.reload(&identity, "").unwrap();
    assert_eq!(get(&server, "/v1/operator", &operator).status, 401);
    assert_eq!(server.public.get("/assets/sign-in.json", "").unwrap().json(), Value::Null);
    let away = "http://127.0.0.1:9";
    server
        .reload(
            "[[stream]]\nstream = \"open\"",
            &format!("{}[[stream]]\nstream = \"open\"", identity.replace(&url, away)),
        )
        .unwrap();
    let unknown = get(&server, "/v1/operator", &token(&key, away, &json!(["ops"]), 60));
    assert_eq!((unknown.status, unknown.header("retry-after")), (503, Some("5")), "{}", unknown.text);
    assert!(server.get("/v1/operator").json()["problems"].to_string().contains("keys of the issuer"));
    let refused = server.reload("role = \"operate\"", "role = \"admin\"").unwrap_err();
    assert!(refused.contains("`admin` is not a role"), "{refused}");
    server.change(away, "http://issuer.example");
    assert!(server.try_config().unwrap_err().contains("the issuer is not a URL"));
}
