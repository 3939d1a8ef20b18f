//! A folder with a key and small event files, and the program run in it.
#![allow(unreachable_pub)]

use assert_cmd::Command;
use evertally::noise::{GuardedKey, TestSeed};
use evertally_ledger::ledger::Ledger;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A scratch folder with a key, always the same one, so that no test depends on chance.
pub struct Bench {
    folder: TempDir,
}

/// The output and the exit status of a run.
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

#[allow(dead_code)] // every test file uses its own part
impl Bench {
    pub fn new() -> Self {
        let bench = Self { folder: tempfile::tempdir().unwrap() };
        let key = GuardedKey::insecure_from_test_seed(TestSeed(1));
        Ledger::in_memory(&key).save(&bench.path("my.key"), &key).expect("a new key file");
        bench
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        std::fs::write(self.path(name), content).unwrap();
        self
    }

    /// The header of a matrix in NumPy's format, and its entries in the order of the file.
    pub fn matrix(&self, name: &str) -> (String, Vec<f64>) {
        let bytes = std::fs::read(self.path(name)).unwrap();
        assert_eq!(bytes[..8], *b"\x93NUMPY\x01\x00");
        let (header, entries) = bytes[10..].split_at(usize::from(u16::from_le_bytes([bytes[8], bytes[9]])));
        let entries = entries.chunks(8).map(|entry| f64::from_le_bytes(entry.try_into().unwrap()));
        (String::from_utf8(header.to_vec()).unwrap(), entries.collect())
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// The names of all files in the folder.
    pub fn files(&self) -> BTreeSet<String> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    pub fn run(&self, args: &[&str]) -> Run {
        self.run_with(args, b"")
    }

    /// Runs the program; a release or sketch without a last step goes through the end of its horizon.
    pub fn run_with(&self, args: &[&str], stdin: &[u8]) -> Run {
        let publishes = matches!(args.first(), Some(&"release" | &"sketch"));
        let says_how_far = args.iter().any(|arg| arg.starts_with("--through") || ["--all", "--help"].contains(arg));
        let all: &[&str] = if publishes && !says_how_far { &["--all"] } else { &[] };
        self.run_as_is(&[args, all].concat(), stdin)
    }

    /// Runs the program with exactly these flags.
    pub fn run_as_is(&self, args: &[&str], stdin: &[u8]) -> Run {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evertally"));
        let output = command.current_dir(self.folder.path()).args(args).write_stdin(stdin).output().unwrap();
        Run {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// `evertally release` over three days of `events.csv` with further flags.
    pub fn release(&self, more: &[&str]) -> Run {
        self.run(&[&RELEASE[..], more].concat())
    }

    /// A release that must be refused: status 2, one message, nothing new on disk. Returns the message.
    pub fn refused(&self, more: &[&str]) -> String {
        let before = self.files();
        let run = self.release(more);
        assert_eq!(run.code, 2, "{more:?}: {}", run.stderr);
        assert_eq!(self.files(), before, "{more:?} left files");
        assert!(run.stderr.starts_with("error: "), "{}", run.stderr);
        assert_eq!(run.stdout, "");
        run.stderr
    }
}

/// Three days of daily counts.
#[allow(dead_code)]
pub const RELEASE: [&str; 14] = [
    "release",
    "events.csv",
    "--key",
    "my.key",
    "--start",
    "2024-01-01",
    "--end",
    "2024-01-04",
    "--every",
    "1d",
    "--epsilon",
    "1",
    "--out",
    "counts.csv",
];

/// Four events on two of the three days.
#[allow(dead_code)]
pub const EVENTS: &str = "time,group,who,amount\n\
    2024-01-01T08:00:00Z,a,ann,1.5\n\
    2024-01-01T09:00:00Z,b,bob,-2\n\
    2024-01-03T08:00:00Z,a,ann,0.25\n\
    2024-01-03T09:00:00Z,c,eve,7\n";

/// The columns of a CSV table.
#[allow(dead_code)]
pub fn table(text: &str) -> Vec<Vec<String>> {
    text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
}
