//! A server of PostgreSQL with a new data folder, and a service that keeps positions.

use evertally_feeds::{BatchLimits, Source, SourceError, SourceOptions, open};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tokio_postgres::{Client, NoTls};

/// A server, which is stopped and removed at the end.
pub(crate) struct Server {
    folder: tempfile::TempDir,
    pub(crate) port: u16,
}

/// The folder of the server's programs, which Debian keeps outside the path.
fn programs() -> PathBuf {
    let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let folders = installed.map(|entry| entry.expect("readable").path().join("bin"));
    let newest = folders.filter(|folder| folder.join("initdb").is_file()).max();
    newest.unwrap_or_else(|| super::common::installed("initdb").parent().expect("a folder").to_owned())
}

/// A command as a user that is not root: the server refuses that.
fn unprivileged(program: &Path) -> Command {
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
    if !is_root {
        return Command::new(program);
    }
    let mut command = Command::new("runuser");
    command.args(["-u", "postgres", "--"]).arg(program);
    command
}

fn run(command: &mut Command) {
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A data folder that is made once and copied for each server, which takes a tenth of the time.
fn template() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let programs = programs();
    let version = programs.parent().and_then(Path::file_name).expect("a version").to_string_lossy();
    let template = folder.join(format!("postgresql-{version}"));
    // Tests of other processes may be here too.
    let lock = std::fs::File::create(folder.join("postgresql.lock")).expect("created");
    lock.lock().expect("locked");
    if !template.exists() {
        // The server's user may not have access to that folder.
        let made = shared_folder();
        let data = made.path().join("data");
        let arguments = ["-A", "trust", "-U", "postgres", "--no-sync", "-D"];
        run(unprivileged(&programs.join("initdb")).args(arguments).arg(&data));
        let copy = folder.join("postgresql.new");
        drop(std::fs::remove_dir_all(&copy));
        run(Command::new("cp").arg("-a").arg(&data).arg(&copy));
        std::fs::rename(copy, &template).expect("renamed");
    }
    template
}

/// A new folder in which the server's user can write.
fn shared_folder() -> tempfile::TempDir {
    let folder = tempfile::Builder::new().prefix("evertally-postgres").tempdir().expect("a folder");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), open).expect("permissions");
    folder
}

impl Server {
    pub(crate) fn start(settings: &str) -> Self {
        let (folder, port) = (shared_folder(), super::common::free_port());
        let server = Self { folder, port };
        let template = template();
        run(Command::new("cp").arg("-a").arg(template).arg(server.data()));
        // Crashes of the program are tested, not those of the machine.
        let settings = format!(
            "port = {port}\nunix_socket_directories = ''\nfsync = off\nmax_connections = 30\nshared_buffers = '16MB'\n\
             max_prepared_transactions = 5\n{settings}"
        );
        let file = server.folder.path().join("more.conf");
        std::fs::write(&file, settings).expect("written");
        server.up();
        server
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Changes a file of the server, as its owner.
    pub(crate) fn shell(&self, script: &str) {
        run(unprivileged(Path::new("/bin/sh")).args(["-ec", script]).current_dir(self.folder.path().join("data")));
    }

    fn control(&self, arguments: &[&str]) {
        let log = self.folder.path().join("data/server.log");
        let mut command = unprivileged(&programs().join("pg_ctl"));
        // The program must not keep the pipes of this one open.
        run(command.args(arguments).arg("-D").arg(self.data()).arg("-l").arg(log));
    }

    pub(crate) fn up(&self) {
        let more = format!("-c config_file={}/both.conf", self.folder.path().display());
        let (own, ours) = (self.data().join("postgresql.conf"), self.folder.path().join("more.conf"));
        let both = format!(
            "include '{}'\ninclude '{}'\ndata_directory = '{}'\nhba_file = '{}/pg_hba.conf'\nident_file = \
             '{}/pg_ident.conf'\n",
            own.display(),
            ours.display(),
            self.data().display(),
            self.data().display(),
            self.data().display()
        );
        let file = self.folder.path().join("both.conf");
        std::fs::write(&file, both).expect("written");
        self.control(&["-w", "-o", &more, "start"]);
    }

    /// Ends the server as a crash does.
    pub(crate) fn crash(&self) {
        self.control(&["-m", "immediate", "stop"]);
    }

    pub(crate) async fn client(&self) -> Client {
        let config = format!("host=127.0.0.1 port={} user=postgres", self.port);
        let (client, connection) = tokio_postgres::connect(&config, NoTls).await.expect("connected");
        tokio::spawn(connection);
        client
    }

    pub(crate) fn source(&self, query: &str) -> Box<dyn Source> {
        self.try_source(query).expect("a valid URL")
    }

    pub(crate) fn try_source(&self, query: &str) -> evertally_declare::error::Result<Box<dyn Source>> {
        let url = format!("postgresql://feeder@127.0.0.1:{}/postgres?{query}&every=20ms", self.port);
        open(&url, &SourceOptions::default())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut command = unprivileged(&programs().join("pg_ctl"));
        drop(command.args(["-m", "immediate", "stop", "-D"]).arg(self.data()).output());
        // Its files belong to another user, and the folder to this one.
        drop(unprivileged(Path::new("/bin/rm")).arg("-rf").arg(self.data()).output());
    }
}

/// What the service stores in one commit: rows and the position after them.
#[derive(Default)]
pub(crate) struct Service {
    pub(crate) position: Option<String>,
    pub(crate) rows: Vec<serde_json::Value>,
    pub(crate) batches: usize,
}

impl Service {
    /// Commits a batch, if it begins at the stored position.
    pub(crate) fn commit(&mut self, batch: &evertally_feeds::SourceBatch) {
        assert_eq!(batch.after, self.position, "a batch begins at another position");
        let lines = batch.rows.bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let rows: Vec<serde_json::Value> = lines.map(|line| serde_json::from_slice(line).expect("JSON")).collect();
        for row in 1..=rows.len() {
            assert!(batch.rows.origin_of(row).is_some());
        }
        self.rows.extend(rows);
        self.position = Some(batch.position.clone());
        self.batches += 1;
    }

    /// The values of a field, in the order of the rows.
    pub(crate) fn numbers(&self, field: &str) -> Vec<i64> {
        self.rows.iter().map(|row| row[field].as_i64().expect("a number")).collect()
    }
}

pub(crate) const LIMITS: BatchLimits = BatchLimits { rows: 1000, bytes: 1 << 20, wait: Duration::from_millis(300) };

/// Reads until there is no batch in time.
pub(crate) async fn drain(source: &mut dyn Source, service: &mut Service, limits: BatchLimits) {
    while let Some(batch) = source.next(limits).await.expect("readable") {
        service.commit(&batch);
        source.accepted("", &batch.position).await.expect("accepted");
    }
}

/// The text of what must be changed.
pub(crate) async fn fault(source: &mut dyn Source, position: Option<&str>) -> String {
    match source.seek("", position).await {
        Err(SourceError::Fault(error)) => error.to_string(),
        other => panic!("not a fault: {other:?}"),
    }
}

/// Numbers for random tests, the same in each run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}
