//! What the tests of sources share: servers that are stopped at the end, and a service in memory.

#![allow(dead_code)]

pub(crate) mod cluster;

use evertally_feeds::{BatchLimits, Source, SourceBatch, SourceError, SourceOptions};
use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A service that has a position for each partition, and accepts a batch only if it begins there.
#[derive(Default)]
pub(crate) struct Service {
    /// The positions.
    pub(crate) positions: BTreeMap<String, String>,
    /// The rows of each partition.
    pub(crate) rows: BTreeMap<String, Vec<String>>,
}

/// The warnings of a source.
pub(crate) fn warnings_of(source: &mut dyn Source) -> Vec<String> {
    source.warnings().iter().map(ToString::to_string).collect()
}

impl Service {
    /// Takes the rows of a batch, if it begins at the position of its partition.
    pub(crate) fn commit(&mut self, batch: &SourceBatch) -> bool {
        if self.positions.get(&batch.partition) != batch.after.as_ref() {
            return false;
        }
        assert!(batch.position.len() <= evertally_feeds::MAX_POSITION_BYTES);
        let text = std::str::from_utf8(&batch.rows.bytes).expect("UTF-8");
        self.rows.entry(batch.partition.clone()).or_default().extend(text.lines().map(str::to_owned));
        self.positions.insert(batch.partition.clone(), batch.position.clone());
        true
    }

    /// Continues a source at the positions.
    pub(crate) async fn seek(&self, source: &mut dyn Source) -> Result<(), SourceError> {
        for partition in source.partitions().await? {
            source.seek(&partition, self.positions.get(&partition).map(String::as_str)).await?;
        }
        Ok(())
    }

    /// The number of rows.
    pub(crate) fn count(&self) -> usize {
        self.rows.values().map(Vec::len).sum()
    }
}

/// Limits of batches.
pub(crate) fn limits(rows: usize, wait_ms: u64) -> BatchLimits {
    BatchLimits { rows, bytes: 1 << 20, wait: Duration::from_millis(wait_ms) }
}

/// Pseudorandom numbers.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// A number below a bound.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// A port on which nothing listens.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound").port()
}

/// The path of a program. Debian has servers in a folder that is not in everybody's path.
pub(crate) fn installed(program: &str) -> PathBuf {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let more = [PathBuf::from("/usr/sbin"), PathBuf::from("/usr/local/sbin")];
    let found = std::env::split_paths(&folders).chain(more).map(|folder| folder.join(program));
    let found = found.into_iter().find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("the program {program} is missing: run checks/setup, which installs it"))
}

/// The Python of the tests, which has a stand-in for a server as a module.
pub(crate) fn python_with(module: &str) -> PathBuf {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let python = PathBuf::from(format!("{root}/target/python/bin/python"));
    let known = format!("import importlib.util as i, sys; sys.exit(i.find_spec('{module}') is None)");
    let has_module = Command::new(&python).args(["-c", &known]).status().is_ok_and(|status| status.success());
    assert!(has_module, "target/python lacks {module}: run checks/setup, which installs it");
    python
}

/// A program that listens on a port; it is killed at the end.
pub(crate) struct Program {
    child: Child,
    program: PathBuf,
    arguments: Vec<String>,
    port: u16,
}

impl Program {
    /// Starts it, and waits until it listens.
    pub(crate) fn start(program: &str, arguments: &[&str], port: u16) -> Self {
        Self::start_path(installed(program), arguments, port)
    }

    /// Starts the program of a path.
    pub(crate) fn start_path(program: PathBuf, arguments: &[&str], port: u16) -> Self {
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let child = Self::spawn(&program, &arguments, port);
        Self { child, program, arguments, port }
    }

    fn spawn(program: &Path, arguments: &[String], port: u16) -> Child {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap_or_else(|e| panic!("{}: {e}", program.display()));
        let deadline = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "{} does not listen", program.display());
            std::thread::sleep(Duration::from_millis(10));
        }
        child
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
    }

    /// Waits until it ended by itself.
    pub(crate) fn wait(&mut self) {
        self.child.wait().expect("ended");
    }

    /// Starts it again after it ended.
    pub(crate) fn restart(&mut self) {
        self.child = Self::spawn(&self.program, &self.arguments, self.port);
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An authority (`ca.pem`), and certificates with keys that it signed: `server.pem` for this machine, and `client.pem`
/// for the user `feeder`.
pub(crate) struct Certificates(tempfile::TempDir);

impl Certificates {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let script = "set -e
            new='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'
            openssl req -x509 $new -days 2 -subj /CN=authority -keyout ca.key -out ca.pem
            for name in server client; do
                openssl req $new -subj /CN=feeder -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
                    -keyout $name.key -out $name.csr
                openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -days 2 -copy_extensions copy -out $name.pem
            done";
        let made = Command::new("sh").args(["-c", script]).current_dir(folder.path()).output().expect("openssl");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Self(folder)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// The options of a client that trusts the authority, and has its certificate.
    pub(crate) fn options(&self) -> SourceOptions {
        let client = Some((self.path("client.pem"), self.path("client.key")));
        SourceOptions { authority: Some(self.path("ca.pem")), client, ..SourceOptions::default() }
    }
}

/// The message of a problem.
pub(crate) fn problem(outcome: Result<impl Sized, SourceError>) -> String {
    match outcome {
        Err(SourceError::Fault(error)) => error.to_string(),
        Err(SourceError::Away(why)) => why,
        Ok(_) => panic!("no problem"),
    }
}

/// The message of a fault.
pub(crate) fn fault(outcome: Result<impl Sized, SourceError>) -> String {
    match outcome {
        Err(SourceError::Fault(error)) => error.to_string(),
        Err(SourceError::Away(why)) => panic!("only away: {why}"),
        Ok(_) => panic!("no fault"),
    }
}
