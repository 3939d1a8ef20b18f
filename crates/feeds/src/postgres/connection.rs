//! Connections to PostgreSQL, and the meaning of its errors.

use crate::dial::password;
use crate::tls::{ConnectionFiles, explained, refuse_files};
use crate::{Address, Query, SourceError, SourceOptions, is_this_machine};
use evertally_declare::error::{Result, usage};
use std::path::PathBuf;
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::{Client, Config, Error, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

/// How long to wait for a connection, and for the answer to a short query.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);
const PORT: u16 = 5432;

/// Texts of values are read in these forms, whatever the defaults of the server and the user are.
const SESSION: &str = "SET DateStyle = 'ISO'; SET TimeZone = 'UTC'; SET IntervalStyle = 'iso_8601'; \
                       SET bytea_output = 'hex'; SET extra_float_digits = 1; SET client_encoding = 'UTF8'";

/// A database, and how it is connected.
pub(super) struct Database {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    password_file: Option<PathBuf>,
    /// Its name.
    pub(super) name: String,
    /// Its user, hosts and name, for messages.
    pub(super) shown: String,
    /// What the operator should know about the connection.
    pub(super) warning: Option<String>,
}

/// An open connection, which is closed when it is dropped.
pub(super) struct ServerConnection {
    pub(super) client: Client,
    task: AbortHandle,
}

impl Drop for ServerConnection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Database {
    /// From the parts of a URL. Takes the parameters `sslmode` and `host` out of the query.
    pub(super) fn new(address: &Address, query: &mut Query, options: &SourceOptions) -> Result<Self> {
        let user = address.user.as_deref().filter(|user| !user.is_empty());
        let user = user.ok_or_else(|| usage("the URL names no user; write postgresql://USER@HOST/DB"))?;
        if address.path.is_empty() || address.path.contains('/') {
            return Err(usage("the URL names no database; write postgresql://USER@HOST/DB"));
        }
        let mut config = Config::new();
        config.user(user).dbname(&address.path).application_name("evertally").connect_timeout(TIMEOUT);
        config.keepalives_idle(Duration::from_secs(30)).tcp_user_timeout(Duration::from_secs(30));
        let socket = query.take("host")?;
        let mut is_local = true;
        match (&socket, &address.hosts[..]) {
            (Some(folder), []) if folder.starts_with('/') => {
                config.host(folder).port(PORT);
            }
            (Some(_), _) => {
                return Err(usage(
                    "the parameter `host` of the URL is for the folder of a socket, without a host before the \
                     database: postgresql://USER@/DB?host=/var/run/postgresql",
                ));
            }
            (None, []) => return Err(usage("the URL names no host; write postgresql://USER@HOST:5432/DB")),
            (None, hosts) => {
                for (host, port) in hosts {
                    config.host(host).port(port.unwrap_or(PORT));
                    is_local &= is_socket(host) || is_this_machine(host);
                }
                if hosts.len() > 1 {
                    config.target_session_attrs(TargetSessionAttrs::ReadWrite);
                }
            }
        }
        let mode = query.take("sslmode")?;
        let has_socket = socket.is_some() || address.hosts.iter().any(|(host, _)| is_socket(host));
        let is_encrypted = is_encrypted(mode.as_deref(), is_local, has_socket, options)?;
        config.ssl_mode(if is_encrypted { SslMode::Require } else { SslMode::Disable });
        let hosts: Vec<&str> = match &socket {
            Some(folder) => vec![folder],
            None => address.hosts.iter().map(|(host, _)| &**host).collect(),
        };
        let place = match &address.hosts[..] {
            [] => hosts.join(","),
            hosts => hosts.iter().map(shown_host).collect::<Vec<_>>().join(","),
        };
        let shown = format!("postgresql://{user}@{place}/{}", address.path);
        let warning = (!is_encrypted && !is_local).then(|| {
            let password = match options.password_file.is_some() {
                true => ", nor is the password if the server asks for its text",
                false => "",
            };
            format!(
                "{shown}: rows are not encrypted on their way{password}; use sslmode=verify-full where others share \
                 the network"
            )
        });
        let tls = is_encrypted.then(|| ConnectionFiles::of(options).config()).transpose()?;
        let tls = tls.map(|config| MakeRustlsConnect::new((*config).clone()));
        let password_file = options.password_file.clone();
        Ok(Self { config, tls, password_file, name: address.path.clone(), shown, warning })
    }

    /// Connects. The password is read again, so that a new one is used.
    pub(super) async fn connect(&self) -> Result<ServerConnection, SourceError> {
        let mut config = self.config.clone();
        if let Some(password) = password(self.password_file.as_deref())? {
            config.password(password);
        }
        // The whole of it is bounded: the library's own limit ends when the socket is connected.
        let connecting = async {
            Ok::<_, Error>(match &self.tls {
                Some(tls) => {
                    let (client, connection) = config.connect(tls.clone()).await?;
                    (client, tokio::spawn(async move { drop(connection.await) }).abort_handle())
                }
                None => {
                    let (client, connection) = config.connect(NoTls).await?;
                    (client, tokio::spawn(async move { drop(connection.await) }).abort_handle())
                }
            })
        };
        let connected = tokio::time::timeout(TIMEOUT, connecting).await.map_err(|_| self.silent())?;
        let (client, task) = connected.map_err(|error| self.problem(&error))?;
        let connection = ServerConnection { client, task };
        self.within(connection.client.batch_execute(SESSION)).await?;
        Ok(connection)
    }

    /// The answer to a short query.
    pub(super) async fn within<T>(&self, query: impl Future<Output = Result<T, Error>>) -> Result<T, SourceError> {
        let answer = tokio::time::timeout(TIMEOUT, query).await.map_err(|_| self.silent())?;
        answer.map_err(|error| self.problem(&error))
    }

    pub(super) fn silent(&self) -> SourceError {
        SourceError::Away(format!("{} does not answer within {} seconds", self.shown, TIMEOUT.as_secs()))
    }

    /// An error of the server or of the connection, with its remedy. Details of the server are left out: they may
    /// contain values of rows.
    pub(super) fn problem(&self, error: &Error) -> SourceError {
        let shown = &self.shown;
        let Some(found) = error.as_db_error() else {
            return SourceError::Away(format!("{shown} cannot be reached ({})", explained(innermost(error))));
        };
        let (code, message) = (found.code().code(), found.message());
        let text = format!("{shown}: {message} (SQLSTATE {code})");
        match code {
            "28P01" => SourceError::Away(format!("{text}; write the password of the user to the password file")),
            "55006" => SourceError::Away(format!("{text}; stop the other program that reads the slot")),
            "42501" => self.fault(&format!(
                "{message} (SQLSTATE {code}); a slot needs a user with `ALTER ROLE user REPLICATION`, and a table one \
                 with `GRANT SELECT ON table TO user`"
            )),
            "58P01" | "55000" => self.fault(&format!("{message} (SQLSTATE {code})")),
            _ if ["08", "40", "53", "57", "58"].contains(&&code[..2]) => SourceError::Away(text),
            _ => SourceError::Fault(usage(text)),
        }
    }

    /// What somebody must change, with its place.
    pub(super) fn fault(&self, problem: &str) -> SourceError {
        SourceError::Fault(usage(format!("{}: {problem}", self.shown)))
    }
}

/// A host, with its port if that is not the usual one.
fn shown_host((host, port): &(String, Option<u16>)) -> String {
    match port {
        None | Some(5432) => host.clone(),
        Some(port) => format!("{host}:{port}"),
    }
}

/// Whether the name of a host is the folder of a socket.
fn is_socket(host: &str) -> bool {
    host.starts_with('/')
}

/// Whether connections are encrypted. Those to other machines are, unless the URL refuses it.
fn is_encrypted(mode: Option<&str>, is_local: bool, has_socket: bool, options: &SourceOptions) -> Result<bool> {
    let has_files = options.authority.is_some() || options.client.is_some();
    let is_encrypted = match mode {
        None => !is_local || has_files,
        Some("verify-full") => true,
        Some("disable") => false,
        Some(other) => {
            return Err(usage(format!(
                "the parameter `sslmode` of the URL is `{other}`; choose verify-full, which checks the certificate of \
                 the server (a private authority has a file, see authority), or disable"
            )));
        }
    };
    if is_encrypted && has_socket {
        // PostgreSQL encrypts no socket, so that such a connection would always fail.
        let given = [
            ("sslmode=verify-full", mode.is_some()),
            ("authority", options.authority.is_some()),
            ("certificate and certificate-key", options.client.is_some()),
        ];
        let given: Vec<&str> = given.into_iter().filter_map(|(name, is_given)| is_given.then_some(name)).collect();
        let remedy = match given.is_empty() {
            true => "name either its folder or other hosts".to_owned(),
            false => format!("remove {}", given.join(", ")),
        };
        return Err(usage(format!("the server encrypts no connection through a socket of this machine: {remedy}")));
    }
    if !is_encrypted {
        refuse_files(options, "write sslmode=verify-full")?;
    }
    Ok(is_encrypted)
}

/// The cause of an error: its outer texts only name the operation.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// A name as an identifier of SQL.
pub(super) fn quoted_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
