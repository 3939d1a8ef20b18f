use super::*;
use crate::config::{RoleRule, TimeSpan};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256,
    RsaKeyPair, RsaPublicKeyComponents,
};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Made by `openssl genpkey` for these tests; it opens nothing. The library makes no RSA keys.
const RSA: &[u8] = include_bytes!("test-rsa.pk8");

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

enum TestKey {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

impl TestKey {
    fn rsa() -> Self {
        Self::Rsa(RsaKeyPair::from_pkcs8(RSA).unwrap())
    }

    fn ec() -> Self {
        let (kind, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let key = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
        Self::Ec(EcdsaKeyPair::from_pkcs8(kind, key.as_ref(), &random).unwrap())
    }

    fn ed() -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Ed(Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap())
    }

    fn public(&self, id: &str) -> Value {
        match self {
            Self::Rsa(key) => {
                let RsaPublicKeyComponents { n, e } = RsaPublicKeyComponents::<Vec<u8>>::from(key.public());
                // Some issuers write a zero before the number.
                json!({"kty": "RSA", "kid": id, "use": "sig", "n": encoded([vec![0], n].concat()), "e": encoded(e)})
            }
            Self::Ec(key) => {
                let (x, y) = key.public_key().as_ref()[1..].split_at(32);
                json!({"kty": "EC", "crv": "P-256", "kid": id, "alg": "ES256", "x": encoded(x), "y": encoded(y)})
            }
            Self::Ed(key) => json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": encoded(key.public_key())}),
        }
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
        let (random, message) = (SystemRandom::new(), signed.as_bytes());
        let signature = match self {
            Self::Rsa(key) => {
                let is_pss = header["alg"] == "PS256";
                let mut signature = vec![0; key.public().modulus_len()];
                let padding: &dyn ring::signature::RsaEncoding =
                    if is_pss { &RSA_PSS_SHA256 } else { &RSA_PKCS1_SHA256 };
                key.sign(padding, &random, message, &mut signature).unwrap();
                signature
            }
            Self::Ec(key) => key.sign(&random, message).unwrap().as_ref().to_vec(),
            Self::Ed(key) => key.sign(message).as_ref().to_vec(),
        };
        format!("{signed}.{}", encoded(signature))
    }
}

/// An issuer that publishes keys at an address of this machine, and counts how often they are fetched.
struct TestIssuer {
    url: String,
    /// `None` while it is out of order.
    keys: Arc<Mutex<Option<Vec<Value>>>>,
    fetched: Arc<AtomicUsize>,
}

impl TestIssuer {
    fn with(keys: Vec<Value>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (keys, fetched) = (Arc::new(Mutex::new(Some(keys))), Arc::<AtomicUsize>::default());
        let (own, published, count) = (url.clone(), Arc::clone(&keys), Arc::clone(&fetched));
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let mut socket = socket.unwrap();
                let lines: Vec<String> =
                    BufReader::new(&socket).lines().map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
                let answer = match &*published.lock().unwrap() {
                    Some(keys) if lines[0].contains("/keys") => {
                        count.fetch_add(1, Ordering::SeqCst);
                        json!({ "keys": keys })
                    }
                    _ => json!({"issuer": own, "jwks_uri": format!("{own}/keys")}),
                };
                let status = if published.lock().unwrap().is_some() { "200 OK" } else { "500 Down" };
                let answer = answer.to_string();
                let length = answer.len();
                write!(socket, "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{answer}")
                    .unwrap();
            }
        });
        Self { url, keys, fetched }
    }

    fn config(&self) -> IdentityConfig {
        let rule = |claim: &str, value: &str, role: &str| RoleRule {
            claim: claim.to_owned(),
            value: value.to_owned(),
            role: role.to_owned(),
        };
        IdentityConfig {
            issuer: self.url.clone(),
            audience: "evertally".to_owned(),
            client_id: Some("page".to_owned()),
            scopes: "openid".to_owned(),
            name_claim: "preferred_username".to_owned(),
            authority: None,
            keep_keys: TimeSpan(86_400_000_000),
            roles: vec![
                rule("groups", "ops", "operate"),
                rule("realm_access.roles", "writer", "write:visits"),
                rule("https://a.b/role", "reader", "read:*"),
            ],
        }
    }

    fn claims(&self, more: &Value) -> Value {
        let now = jiff::Timestamp::now().as_second();
        let mut claims =
            json!({"iss": self.url, "sub": "8f3a", "aud": "evertally", "exp": now + 60, "groups": ["x", "ops"]});
        for (name, value) in more.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims
    }
}

fn identities(config: IdentityConfig, fetch_interval: Duration) -> TrustedIssuers {
    let identities = TrustedIssuers::default();
    identities.set(std::slice::from_ref(&config)).unwrap();
    let mut issuer = OidcIssuer::new(&config).unwrap();
    issuer.fetch_interval = fetch_interval;
    let current = identities.current();
    let current = CurrentIssuers { issuers: vec![Arc::new(issuer)], policy: current.policy.clone(), sign_in: None };
    *identities.current.write().unwrap() = Arc::new(current);
    identities
}

#[test]
fn tokens_of_each_algorithm_have_the_roles_of_their_claims() {
    let keys =
        [("RS256", TestKey::rsa()), ("PS256", TestKey::rsa()), ("ES256", TestKey::ec()), ("EdDSA", TestKey::ed())];
    let mut public: Vec<Value> = keys.iter().map(|(name, key)| key.public(name)).collect();
    public.push(json!({"kty": "oct", "kid": "secret", "k": "AAAA"}));
    public.push(json!({"kty": "RSA", "kid": "RS256", "use": "enc", "n": "AA", "e": "AA"}));
    public.push(json!("not a key"));
    let issuer = TestIssuer::with(public);
    let identities = identities(issuer.config(), Duration::from_secs(60));
    for (name, key) in &keys {
        let token = key.sign(&json!({"alg": name, "kid": name, "typ": "JWT"}), &issuer.claims(&json!({})));
        assert!(identities.are_asked_for(&token) && !identities.are_asked_for("evt_0a_x"));
        let found = identities.find(&token).unwrap().caller;
        assert_eq!((found.roles, found.label.as_str()), (vec!["operate".parse().unwrap()], "8f3a"), "{name}");
        assert!(found.id.starts_with("oidc-") && found.id.len() == 13, "{}", found.id);
    }
    assert_eq!(issuer.fetched.load(Ordering::SeqCst), 1);
    let (_, key) = &keys[3];
    let roles = |more: &Value| {
        let token = key.sign(&json!({"alg": "EdDSA"}), &issuer.claims(more));
        let found = identities.find(&token).unwrap().caller;
        (found.roles.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "), found.label)
    };
    let name = |roles: &str, label: &str| (roles.to_owned(), label.to_owned());
    let all = json!({"groups": "ops", "realm_access": {"roles": ["writer"]}, "https://a.b/role": "reader",
                     "preferred_username": "\u{202e}a\u{200b}nn\n\u{feff}", "aud": ["other", "page"]});
    assert_eq!(roles(&all), name("operate write:visits read:*", "ann"));
    assert_eq!(roles(&json!({"groups": ["opsx", 1], "realm_access": 7})), name("", "8f3a"));
}

#[test]
fn other_tokens_open_nothing() {
    let (key, other) = (TestKey::rsa(), TestKey::ec());
    let public = key.public("k");
    let issuer = TestIssuer::with(vec![public.clone()]);
    let identities = identities(issuer.config(), Duration::from_secs(60));
    let header = json!({"alg": "RS256", "kid": "k"});
    let now = jiff::Timestamp::now().as_second();
    let rejected = |token: &str, why: &str| {
        let Err(IdentityError::Rejected(own)) = identities.find(token) else { panic!("{token}: {why}") };
        assert!(own.contains(why), "{own}, not {why}");
    };
    for (claims, why) in [
        (json!({"aud": "another"}), "audience"),
        (json!({"aud": null}), "audience"),
        (json!({"iss": "https://other.example"}), "issuer"),
        (json!({"exp": now - 31}), "expired"),
        (json!({"exp": "soon"}), "not numbers"),
        (json!({"exp": null}), "not numbers"),
        (json!({"nbf": now + 40}), "not valid yet"),
        (json!({"nbf": "2000"}), "not numbers"),
        (json!({"sub": 7}), "no subject"),
    ] {
        rejected(&key.sign(&header, &issuer.claims(&claims)), why);
    }
    let claims = issuer.claims(&json!({}));
    let good = key.sign(&header, &claims);
    assert!(identities.find(&good).is_ok());
    assert!(identities.find(&key.sign(&header, &issuer.claims(&json!({"exp": now - 20, "nbf": now + 20})))).is_ok());
    // No signature, and one with the public key as the secret.
    let unsigned = |header: &Value| format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
    for alg in ["none", "None", "HS256", "RS512", ""] {
        let signed = unsigned(&json!({"alg": alg, "kid": "k"}));
        rejected(&format!("{signed}."), "algorithm");
        let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, public.to_string().as_bytes());
        rejected(&format!("{signed}.{}", encoded(ring::hmac::sign(&secret, signed.as_bytes()))), "algorithm");
    }
    rejected(&format!("{}.", unsigned(&header)), "signature");
    let newer = other.sign(&json!({"alg": "ES256", "kid": "k"}), &claims);
    assert_eq!(
        identities.find(&newer).unwrap_err(),
        IdentityError::Unavailable,
        "a key may be newer than the last fetch"
    );
    rejected(&key.sign(&json!({"alg": "RS256", "kid": "k", "crit": ["b64"]}), &claims), "extensions");
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let admin = encoded(issuer.claims(&json!({"sub": "admin"})).to_string());
    rejected(&format!("{}.{admin}.{signature}", signed.split_once('.').unwrap().0), "signature");
    for malformed in ["..", "a.b.c", &format!("{signed}.~"), &format!("{}.", "a.".repeat(9000)), "e30.e30.", "W10.W10."]
    {
        rejected(malformed, "not a signed JWT");
    }
}

#[test]
fn keys_are_fetched_rarely_and_kept_over_outages() {
    let (first, second) = (TestKey::ed(), TestKey::ed());
    let issuer = TestIssuer::with(vec![first.public("1")]);
    let identities_now = identities(issuer.config(), Duration::from_millis(300));
    let token = |key: &TestKey, id: &str| key.sign(&json!({"alg": "EdDSA", "kid": id}), &issuer.claims(&json!({})));
    let fetched = || issuer.fetched.load(Ordering::SeqCst);
    assert!(identities_now.find(&token(&first, "1")).is_ok());
    *issuer.keys.lock().unwrap() = Some(vec![first.public("1"), second.public("2")]);
    for id in 0..50 {
        let unknown = identities_now.find(&token(&second, &format!("unknown {id}")));
        assert_eq!(unknown.unwrap_err(), IdentityError::Unavailable, "it may be newer than the last fetch");
    }
    assert_eq!(fetched(), 1, "once in an interval, however many unknown keys are named");
    std::thread::sleep(Duration::from_millis(350));
    assert!(identities_now.find(&token(&second, "2")).is_ok(), "a new key");
    assert_eq!(fetched(), 2);
    let unknown = |id: &str| identities_now.find(&token(&second, id)).unwrap_err();
    assert_eq!(unknown("unknown 7"), IdentityError::Rejected("its issuer has no such key"), "named before the fetch");
    assert_eq!(unknown("unknown 77"), IdentityError::Unavailable, "named after it");
    // The issuer is down: known keys stay, and unknown ones may exist.
    *issuer.keys.lock().unwrap() = None;
    std::thread::sleep(Duration::from_millis(350));
    assert_eq!(identities_now.find(&token(&second, "3")).unwrap_err(), IdentityError::Unavailable);
    assert!(identities_now.find(&token(&first, "1")).is_ok());
    assert!(identities_now.problems()[0].contains("status 500"), "{:?}", identities_now.problems());
    // It is back: that is noticed without a token.
    *issuer.keys.lock().unwrap() = Some(vec![first.public("1")]);
    std::thread::sleep(Duration::from_millis(350));
    let mut looks = (0..500).map(|_| {
        std::thread::sleep(Duration::from_millis(5));
        identities_now.problems().is_empty()
    });
    assert!(looks.any(|is_back| is_back));
    *issuer.keys.lock().unwrap() = None;
    let briefly = identities(IdentityConfig { keep_keys: TimeSpan(0), ..issuer.config() }, Duration::from_secs(60));
    assert_eq!(briefly.find(&token(&first, "1")).unwrap_err(), IdentityError::Unavailable);
    let identities_again = identities(issuer.config(), Duration::from_secs(60));
    identities_again.set(&[IdentityConfig { audience: "x".to_owned(), ..issuer.config() }]).unwrap();
    let policy = identities_again.policy();
    assert!(policy.to_str().unwrap().contains(&format!("connect-src 'self' {};", issuer.url)), "{policy:?}");
}

#[test]
fn requests_wait_for_keys_that_are_being_fetched() {
    let key = TestKey::ed();
    let issuer = TestIssuer::with(vec![key.public("1")]);
    let identities = identities(issuer.config(), Duration::from_secs(60));
    let token = key.sign(&json!({"alg": "EdDSA", "kid": "1"}), &issuer.claims(&json!({})));
    let (sender, found) = std::sync::mpsc::channel();
    std::thread::scope(|threads| {
        // The issuer does not answer before this lock is free: one request fetches, and the other one waits.
        let held = issuer.keys.lock().unwrap();
        for _ in 0..2 {
            let (identities, token, sender) = (&identities, &token, sender.clone());
            threads.spawn(move || sender.send(identities.find(token).map(drop)).unwrap());
        }
        let Err(IdentityError::Fetching(end)) = found.recv().unwrap() else { panic!("nobody waits") };
        let waiting = threads.spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            let begun = std::time::Instant::now();
            runtime.block_on(end.wait());
            begun.elapsed()
        });
        drop(held);
        assert_eq!(found.recv().unwrap(), Ok(()));
        assert!(waiting.join().unwrap() < Duration::from_secs(10), "the end of the fetch was missed");
    });
    assert!(identities.find(&token).is_ok());
    assert_eq!(issuer.fetched.load(Ordering::SeqCst), 1, "once for all that wait");
}
