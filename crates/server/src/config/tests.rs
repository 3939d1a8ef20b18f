//! Configurations that are read, and those that are refused.

use super::*;
use crate::store::ClosedBy;

const WHOLE: &str = r#"
folder = "data"
key = "keys/serve.key"
[public]
listen = "127.0.0.1:0"
[witness]
file = "other/witness.json"
[steps]
grace = "2m"
[sources]
shop = "shop.budget"
[[stream]]
stream = "visits"
public = true
source = "shop"
grace = "10s"
time = "time"
start = "2026-01-01"
every = "1h"
steps = 100
epsilon = 1
"#;

fn read(text: &str) -> Result<Config> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("serve.toml");
    std::fs::write(&path, text)?;
    Config::read(&path)
}

#[test]
fn a_configuration_is_read() {
    let config = read(WHOLE).unwrap();
    assert!(config.folder.is_absolute() && config.sources["shop"].is_absolute());
    let stream = &config.streams[0];
    assert_eq!((stream.name.as_str(), stream.public), ("visits", true));
    assert!(!stream.declaration.contains("grace") && stream.declaration.contains("\"every\":\"1h\""));
    assert_eq!(stream.closing(&config.steps), ClosedBy::Schedule { grace: 10_000_000, delay: 5_000_000 });
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (from, to, expected) in [
        ("keys/serve.key", "data/serve.key", "inside the folder"),
        ("other/witness.json", "data/witness.json", "rolled back"),
        ("file = \"other/witness.json\"", "", "either a file or a url"),
        ("source = \"shop\"", "source = \"stop\"", "not in [sources]"),
        ("grace = \"2m\"", "grace = \"two\"", "is not a duration"),
        ("[steps]", "[[feed]]\nstream = \"visits\"\nfile = \"a.csv\"\naside = \"data/a\"\n[steps]", "its own files"),
        ("grace = \"2m\"", "grave = \"2m\"", "grave"),
        ("[public]\nlisten = \"127.0.0.1:0\"", "", "nobody can reach"),
        ("stream = \"visits\"", "", "needs a name"),
        ("\"data\"", "\"s3://bucket/data\"", "s3://bucket/data: the service keeps its files on this machine"),
        ("\"shop.budget\"", "\"gs://bucket/shop.budget\"", "gs://bucket/shop.budget: the service keeps"),
        ("[public]\n", "[private]\ncors = \"*\"\n", "[public]"),
        ("[public]\n", "[public]\ntrusted-proxies = [\"10.0.0.0/33\"]\n", "`10.0.0.0/33` is not an address"),
        ("[public]\n", "[public]\ncors = [\"https://a.example/\"]\n", "is not an origin"),
    ] {
        let refused = read(&WHOLE.replace(from, to)).unwrap_err().to_string();
        assert!(refused.contains(expected) && refused.contains("serve.toml"), "{refused}");
    }
}

#[cfg(unix)]
#[test]
fn links_into_the_folder_are_followed() {
    let base = tempfile::tempdir().unwrap();
    let path = base.path().join("serve.toml");
    std::fs::create_dir_all(base.path().join("data/inner")).unwrap();
    std::os::unix::fs::symlink("data/inner", base.path().join("link")).unwrap();
    std::os::unix::fs::symlink(base.path(), base.path().join("data/out")).unwrap();
    for (key, is_refused) in
        [("link/serve.key", true), ("keys/../link/new/serve.key", true), ("data/out/serve.key", false)]
    {
        std::fs::write(&path, WHOLE.replace("keys/serve.key", key)).unwrap();
        let read = Config::read(&path).map_err(|error| error.to_string());
        assert_eq!(read.is_err_and(|error| error.contains("inside the folder")), is_refused, "{key}");
    }
    std::fs::write(&path, WHOLE.replace("other/witness.json", "link/witness.json")).unwrap();
    assert!(Config::read(&path).unwrap_err().to_string().contains("rolled back"));
}

const TWICE: &str = r#"
[[syslog]]
listen = "127.0.0.1:1"
stream = "a"
[[syslog]]
listen = "127.0.0.1:1"
stream = "b"
"#;

#[test]
fn listeners_that_could_not_be_meant_are_refused() {
    let listener = |rest: &str| {
        let listen = "[private]\nlisten = \"127.0.0.1:0\"\n";
        read(&WHOLE.replace("[public]", &format!("{listen}{rest}\n[public]"))).map_err(|error| error.to_string())
    };
    for (rest, problem) in [
        ("certificate = \"a.pem\"", "go together"),
        ("client-authority = \"ca.pem\"", "needs TLS"),
        ("require-client-certificate = true", "client-authority"),
        ("socket-mode = \"0600\"", "unix:PATH"),
        ("socket-mode = \"rw\"", "is not a mode"),
        ("socket-mode = \"1777\"", "is not a mode"),
        ("socket-mode = \"+66\"", "is not a mode"),
        ("socket-mode = \"0466\"", "its owner may read and write"),
        ("[[syslog]]\nlisten = \"127.0.0.1:1\"\nstream = \"visits\"\naside = \"data/a\"", "its own files"),
        ("proxy-protocol = true", "[private]: proxy-protocol"),
        ("[[syslog]]\nlisten = \"127.0.0.1:x\"\nstream = \"visits\"", "is not an address with a port"),
        ("[[client]]\nname = \"a\"\nroles = [\"operate\"]", "client-authority"),
        ("[[syslog]]\nlisten = \"0.0.0.0:6514\"\nstream = \"visits\"", "from = [\"10.0.0.0/8\"]"),
        ("[[syslog]]\nlisten = \"127.0.0.1:1\"\nstream = \"visits\"\nclients = [\"a\"]", "client-authority"),
        ("[[syslog]]\nlisten = \"127.0.0.1:1\"\nstream = \"visits\"\ntime-zone = \"Mars\"", "time zone"),
        ("[[syslog]]\nlisten = \"127.0.0.1:1\"\nstream = \"visits\"\nmessage-bytes = 10", "message-bytes"),
        (TWICE, "two"),
    ] {
        let refused = listener(rest).unwrap_err();
        assert!(refused.contains(problem), "{rest}: {refused}");
    }
    let tls = "certificate = \"a.pem\"\ncertificate-key = \"a.key\"\nclient-authority = \"ca.pem\"\n";
    let client = "[[client]]\nname = \"a.example\"\nroles = [\"write:visits\", \"read:*\"]\n";
    assert_eq!(listener(&format!("{tls}{client}")).unwrap().clients[0].roles.len(), 2);
    assert!(listener(&format!("{tls}{client}{client}")).unwrap_err().contains("configured twice"));
    assert!(listener(&format!("{tls}{}", client.replace("read:*", "admin"))).unwrap_err().contains("is not a role"));
    let unix = read(&WHOLE.replace("127.0.0.1:0", "unix:run/public.sock")).unwrap().public.unwrap().listen;
    assert!(matches!(unix, ListenAddress::Unix(path) if path.is_absolute()), "relative to the configuration");
    assert!(read(&WHOLE.replace("127.0.0.1:0", "localhost")).is_err());
    let long = read(&WHOLE.replace("127.0.0.1:0", &format!("unix:{}", "x".repeat(120)))).unwrap_err().to_string();
    assert!(long.contains("accepts at most 10") && long.contains("xxx"), "{long}");
}

#[test]
fn places_that_do_not_go_together_are_refused() {
    let standby = "[standby]\nfolder = \"between\"\n[witness]";
    for (from, to, expected) in [
        ("127.0.0.1:0\"", "127.0.0.1:1\"\n[private]\nlisten = \"127.0.0.1:1\"", "[public] and [private] listen at"),
        ("127.0.0.1:0\"", "127.0.0.1:1\"\n[private]\nlisten = \"0.0.0.0:1\"", "at 127.0.0.1:1 and 0.0.0.0:1"),
        ("127.0.0.1:0\"", "unix:a\"\n[private]\nlisten = \"unix:a\"", "listen at the same socket"),
        ("127.0.0.1:0\"", "127.0.0.1:1\"\n[[syslog]]\nlisten = \"127.0.0.1:1\"\nstream = \"a\"", "and [[syslog]]"),
        ("file = \"other/witness.json\"", "url = \"witness.example\"", "[witness] url: `witness.example` is not a URL"),
        ("file = \"other/witness.json\"", "url = \"htp:u:SECRET@w\"", "[witness] url: `...` is not a URL"),
        ("[witness]", &standby.replace("between", "data/x"), "is inside the folder of the service"),
        ("[witness]", &standby.replace("between", "other"), "inside the standby folder"),
        ("[witness]", &standby.replace("between", "."), "is inside the standby folder, which both"),
        ("[witness]", &standby.replace("between", "s3:/bucket/x"), "s3:/bucket/x: a URL begins with s3://"),
        ("[witness]", &standby.replace("between", "ftp://host/x"), "ftp://host/x is not in an object store"),
        ("\"data\"", "\"file:/data\"", "a URL begins with file://"),
    ] {
        let refused = read(&WHOLE.replace(from, to)).unwrap_err().to_string();
        assert!(refused.contains(expected), "{to}: {refused}");
    }
    read(&WHOLE.replace("[witness]", standby)).unwrap();
    read(&WHOLE.replace("127.0.0.1:0\"", "127.0.0.1:1\"\n[private]\nlisten = \"127.0.0.2:1\"")).unwrap();
}

#[test]
fn names_that_no_certificate_has_are_refused() {
    for name in ["shop.example", "*.shop.example", "spiffe://shop.example/till", "urn:a:b", "shop_1"] {
        listener::check_certificate_name(name).unwrap_or_else(|problem| panic!("{name}: {problem}"));
    }
    for (name, problem) in [
        ("", "no certificate has this name"),
        ("a b", "no certificate has this name"),
        ("CN=shop/O=x", "no certificate has this name"),
        ("shop@example.org", "no certificate has this name"),
        ("shop.example:8443", "no certificate has this name"),
        ("://shop", "no certificate has this name"),
        ("DNS:shop.example", "write the name without `DNS:`, as in `shop.example`"),
        ("IP:10.0.0.7", "only DNS names and URIs"),
    ] {
        let refused = listener::check_certificate_name(name).unwrap_err();
        assert!(refused.contains(problem), "{name}: {refused}");
    }
}
