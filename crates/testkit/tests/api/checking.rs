//! Configurations that are checked before a service starts, with and without its folder.

use crate::server::{STREAMS, Server, WITNESS, hand};
use evertally::noise::SecretKey;
use evertally::privacy::{Budget, Rho};
use evertally_ledger::disk::RealDisk;
use evertally_ledger::keyfile;
use evertally_ledger::ledger::Protects;
use evertally_ledger::source::{Approval, SourceBudget, Total};
use evertally_server::config::{Config, ReplicaConfig};
use evertally_server::serving;
use std::sync::Arc;

fn check(config: &Config) -> Result<String, String> {
    serving::check(config).map(|found| found.join("\n")).map_err(|error| error.to_string())
}

#[test]
fn a_check_compares_a_configuration_with_its_folder_and_changes_nothing() {
    let mut server = Server::with("", STREAMS);
    let in_use = check(&server.config()).unwrap();
    assert!(in_use.contains("a service has the folder open"), "{in_use}");
    let hook = "[[webhook]]\nurl = \"http://127.0.0.1:1/\"\nstreams = [\"nobody\"]\n";
    let plain = server.more.clone();
    server.more = plain.replace(STREAMS, &format!("{hook}{STREAMS}"));
    let warned = check(&server.config()).unwrap();
    assert!(warned.contains("warning: the [[webhook]] http://127.0.0.1:1/ names the stream `nobody`"), "{warned}");
    server.stop();
    let refused = check(&server.config()).unwrap_err();
    assert!(refused.contains("names the stream `nobody`, which does not exist"), "{refused}");
    let store = server.path("data").join("store.redb");
    let before = std::fs::read(&store).unwrap();
    for (from, to, expected) in [
        ("rho = 1", "rho = 2", "serve.toml:22: stream `open`: the configuration differs from the open stream in `rho`"),
        ("stream = \"closed\"", "stream = \"other\"", "stream `other`: start: the first step ended at 2026-01-01"),
        ("folder = \"data\"", "folder = \"serve.toml\"", "serve.toml is not a folder"),
        ("keys/serve.key", "keys", "keys is a folder; name a file in it"),
        ("keys/serve.key", "keys/other.key", "other.key is missing, but the folder"),
        ("[public]", "[witness]\nfile = \"unmounted/w.json\"\n[public]", "[witness] file: the folder"),
    ] {
        server.more = plain.replace(from, to);
        let refused = check(&server.config()).unwrap_err();
        assert!(refused.contains(expected), "{to}: {refused}");
    }
    let place = |own: &str| plain.replace("[public]", &format!("{own}[public]"));
    let (feed, sink) = ("[[feed]]\nstream = \"open\"\n", "[[sink]]\nstream = \"hand\"\n");
    for (section, url) in [(feed, "from = \"redis://localhost/?stream=a\""), (sink, "to = \"kafka://localhost/t\"")] {
        for file in ["missing", "."] {
            server.more = place(&format!("{section}{url}\npassword-file = \"{file}\"\n"));
            let refused = check(&server.config()).unwrap_err();
            assert!(refused.contains("`password-file` names cannot be read"), "{section}{file}: {refused}");
        }
    }
    let (redis, kafka) = ("redis://10.0.0.5/?stream=a", "kafka://10.0.0.5/t");
    server.more = place(&format!("{feed}from = \"{redis}\"\n{sink}to = \"{kafka}\"\n"));
    let warned = check(&server.config()).unwrap();
    for expected in [
        "warning: [[feed]] of stream `open`: redis://10.0.0.5: rows are not encrypted",
        "warning: [[sink]] of stream `hand`: kafka://10.0.0.5: rows are not encrypted",
    ] {
        assert!(warned.contains(expected), "{warned}");
    }
    // The other stream continues.
    server.more = plain.replace("stream = \"hand\"", "stream = \"hand 2\"");
    let found = check(&server.config()).unwrap();
    assert!(found.contains("does not name, and they continue: hand\nthe configuration is valid"), "{found}");
    assert!(std::fs::read(&store).unwrap() == before, "nothing was written");
}

/// An operator who reads "valid" stops the service to restart it: nothing in its files may keep it from its start.
#[test]
fn a_check_finds_files_of_another_folder_and_damaged_ones() {
    let mut server = Server::with("", &format!("{WITNESS}{STREAMS}"));
    hand(&server, 1);
    server.stop();
    let plain = server.more.clone();
    keyfile::write_new(&server.path("keys/other.key"), &SecretKey::generate().unwrap()).unwrap();
    check(&server.config()).unwrap();
    for (from, to, expected) in [
        (WITNESS, "", "this folder has a witness, but the configuration names none"),
        ("keys/serve.key", "keys/other.key", "other.key is not the key with which the folder"),
        ("folder = \"data\"", "folder = \"new\"", "is new: a service starts only with a new key"),
        ("127.0.0.1:0", "192.0.2.1:0", "192.0.2.1:0: this machine has no such address"),
    ] {
        server.more = plain.replace(from, to);
        let refused = check(&server.config()).unwrap_err();
        assert!(refused.contains(expected), "{to}: {refused}");
    }
    server.more = plain;
    let record = std::fs::read_to_string(server.path("elsewhere/witness.json")).unwrap();
    let mut replaced: serde_json::Value = serde_json::from_str(&record).unwrap();
    replaced["primary"] = "another".into();
    let mut other = replaced.clone();
    other["folder"] = "f00d".into();
    for (name, text, expected) in [
        ("elsewhere/witness.json", replaced.to_string(), "another machine has taken over"),
        ("elsewhere/witness.json", other.to_string(), "belongs to another folder (f00d"),
        ("elsewhere/witness.json", "{}".to_owned(), "cannot read the witness record"),
        ("data/tokens.json", "{".to_owned(), "tokens.json cannot be read"),
        ("keys/serve.key", "x".to_owned(), "serve.key"),
    ] {
        let before = std::fs::read(server.path(name)).unwrap();
        std::fs::write(server.path(name), text).unwrap();
        let refused = check(&server.config()).unwrap_err();
        assert!(refused.contains(expected), "{name}: {refused}");
        std::fs::write(server.path(name), before).unwrap();
    }
    let replica = server.path("replica.toml");
    let text = "folder = \"data\"\nfrom = \"http://127.0.0.1:1\"\n[public]\nlisten = \"127.0.0.1:0\"\n";
    std::fs::write(&replica, text).unwrap();
    let refused = serving::check_replica(&ReplicaConfig::read(&replica).unwrap()).unwrap_err().to_string();
    assert!(refused.contains("is the folder of a service"), "{refused}");
}

#[test]
fn a_check_adds_up_what_new_streams_spend() {
    let folder = tempfile::tempdir().unwrap();
    let protects = Protects { persons: false, period: None, replaced: false };
    let total = Total { budget: Budget::Zcdp(Rho::new(1.0).unwrap()), is_basic: false, protects };
    let budget = folder.path().join("shop.budget");
    SourceBudget::create(Arc::new(RealDisk), &budget, "shop", total, Approval::default()).unwrap();
    let stream = |name: &str, rho: &str| {
        format!(
            "[[stream]]\nstream = \"{name}\"\nclosing = \"operator\"\nsource = \"shop\"\nstart = \"2026-01-01\"\n\
             every = \"1h\"\nsteps = 2\nrho = {rho}\n"
        )
    };
    let config = |second: &str| {
        let path = folder.path().join("serve.toml");
        let head = "folder = \"data\"\nkey = \"keys/serve.key\"\n[public]\nlisten = \"127.0.0.1:0\"\n[sources]\n\
                    shop = \"shop.budget\"\n";
        std::fs::write(&path, format!("{head}{}{}", stream("a", "0.6"), stream("b", second))).unwrap();
        Config::read(&path).unwrap()
    };
    let refused = check(&config("0.6")).unwrap_err();
    assert!(refused.contains("serve.toml:") && refused.contains("does not fit the budget"), "{refused}");
    assert!(refused.contains("stream `b`") && !refused.contains("stream `a`"), "{refused}");
    check(&config("0.4")).unwrap();
    assert!(!folder.path().join("data").exists() && !folder.path().join("keys").exists());
}
