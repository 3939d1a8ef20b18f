//! Rows of committed transactions, from a slot of logical replication.
//!
//! Changes are peeked at, so that the slot keeps them, and it is advanced when the service has stored the position
//! after them. Transactions come in the order of their commits, which is that of the places of their commit records in
//! the log. Everything before the confirmed place of the slot is below the stored position; if it is not, somebody else
//! advanced the slot or created it again, and rows may be missing.

use super::connection::{Database, ServerConnection, quoted_name};
use super::pgoutput::{Decoder, RowChange};
use crate::{BatchLimits, Origins, RowWriter, Source, SourceBatch, SourceError, SourceWarning};
use async_trait::async_trait;
use futures_util::StreamExt;
use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::RowStream;
use tokio_postgres::types::{PgLsn, ToSql, Type};

/// Messages that are peeked at at once. The server ends only after a whole transaction, which it keeps on its disk.
const MAX_CHANGES: i32 = 50_000;

/// The log that passes without a row until the position is moved: the server keeps everything after it.
const MAX_IDLE_BYTES: u64 = 16 << 20;

/// Advancing reads the log again.
const ADVANCE_TIMEOUT: Duration = Duration::from_secs(60);

/// The settings of this mode.
pub(super) struct LogicalSettings {
    pub(super) publications: Vec<String>,
    pub(super) slot: String,
    /// Whether the slot is created if there is none.
    pub(super) create: bool,
    /// The state of the server that the operator accepts, although rows may be missing.
    pub(super) accept: Option<String>,
    pub(super) every: Duration,
}

/// A place between two rows: everything that was committed before a place of the log is before it, and some rows of the
/// transaction whose commit record is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LogPlace {
    log: u64,
    rows: u64,
}

struct Peek {
    changes: Pin<Box<RowStream>>,
    messages: i32,
    /// Everything before this place of the log is among the changes, if their number is below the most.
    through: u64,
}

/// A row that did not fit into a batch.
struct Held {
    json: Vec<u8>,
    place: LogPlace,
}

/// The source.
pub(super) struct LogicalSource {
    database: Database,
    settings: LogicalSettings,
    connection: Option<ServerConnection>,
    peek: Option<Peek>,
    decoder: Decoder,
    /// The commit of the present transaction, and its number of rows so far.
    transaction: LogPlace,
    at: LogPlace,
    held: Option<Held>,
    writer: RowWriter,
    origins: Vec<String>,
    /// The last position that was issued.
    after: Option<String>,
    /// Where it is.
    issued: LogPlace,
    /// The system that the positions are of.
    system: String,
    /// The place that the slot has confirmed, and the one that it may confirm.
    confirmed: u64,
    accepted: u64,
    /// A place of the log between two records.
    boundary: u64,
    next_peek: Instant,
    warnings: Vec<SourceWarning>,
    has_others: bool,
}

impl LogicalSource {
    pub(super) fn new(mut database: Database, settings: LogicalSettings, with_metadata: bool) -> Self {
        let warnings = database.warning.take().into_iter().map(SourceWarning::from).collect();
        Self {
            database,
            settings,
            connection: None,
            peek: None,
            decoder: Decoder::new(with_metadata),
            transaction: LogPlace::default(),
            at: LogPlace::default(),
            held: None,
            writer: RowWriter::default(),
            origins: Vec::new(),
            after: None,
            issued: LogPlace::default(),
            system: String::new(),
            confirmed: 0,
            accepted: 0,
            boundary: 0,
            next_peek: Instant::now(),
            warnings,
            has_others: false,
        }
    }

    /// A position as text. Inside a transaction it counts the rows of these publications.
    fn position(&self, place: LogPlace) -> String {
        let mut text = format!("{}:{}", self.system, PgLsn::from(place.log));
        if place.rows > 0 {
            text.push_str(&format!("+{}@{}", place.rows, self.settings.publications.join(",")));
        }
        text
    }

    /// The parts of a position: the system and the place.
    fn parse(&self, position: &str) -> Result<(String, LogPlace), SourceError> {
        let invalid = || self.database.fault("the stored position is not one of a slot");
        let (system, place) = position.split_once(':').ok_or_else(invalid)?;
        let (log, rows) = match place.split_once('+') {
            None => (place, 0),
            Some((log, rest)) => {
                let (rows, publications) = rest.split_once('@').ok_or_else(invalid)?;
                if publications != self.settings.publications.join(",") {
                    let problem = "the stored position is inside a transaction, of which rows were read with";
                    let remedy = "read it to its end with the same, and change them then";
                    return Err(self.database.fault(&format!("{problem} publication={publications}; {remedy}")));
                }
                (log, rows.parse().map_err(|_| invalid())?)
            }
        };
        let log: PgLsn = log.parse().map_err(|_| invalid())?;
        Ok((system.to_owned(), LogPlace { log: log.into(), rows }))
    }

    /// Forgets the rows that were not issued yet, with the connection.
    fn disconnect(&mut self) {
        (self.connection, self.peek, self.held) = (None, None, None);
        self.writer = RowWriter::default();
        self.origins.clear();
        self.at = self.issued;
        self.boundary = 0;
    }

    /// Checks that rows can be read, and returns the identifier of the system.
    async fn check(&mut self, connection: &ServerConnection) -> Result<String, SourceError> {
        let (database, settings) = (&self.database, &self.settings);
        let query = "SELECT system_identifier::text, current_setting('wal_level'), pg_is_in_recovery() \
                     FROM pg_control_system()";
        let row = database.within(connection.client.query_one(query, &[])).await?;
        let (system, level, is_standby): (String, String, bool) = (row.get(0), row.get(1), row.get(2));
        if is_standby {
            return Err(database.fault("this is a standby; connect to the primary, or name all hosts of the cluster"));
        }
        if level != "logical" {
            return Err(database.fault(&format!(
                "logical replication needs wal_level = logical, and it is {level}; run `ALTER SYSTEM SET wal_level = \
                 'logical'`, and restart the server"
            )));
        }
        let query = "SELECT pubname::text, pubinsert FROM pg_publication";
        let found = database.within(connection.client.query(query, &[])).await?;
        let found: HashMap<String, bool> = found.iter().map(|row| (row.get(0), row.get(1))).collect();
        for name in &settings.publications {
            match found.get(name) {
                Some(true) => {}
                Some(false) => {
                    return Err(database.fault(&format!("the publication `{name}` does not publish inserted rows")));
                }
                None => {
                    return Err(database.fault(&format!(
                        "there is no publication `{name}`; run `CREATE PUBLICATION {} FOR TABLE ... WITH (publish = \
                         'insert')` before the slot is created",
                        quoted_name(name)
                    )));
                }
            }
        }
        let query = "SELECT oid, typbasetype FROM pg_type WHERE typtype = 'd'";
        let domains = database.within(connection.client.query(query, &[])).await?;
        self.decoder.domains = domains.iter().map(|row| (row.get(0), row.get(1))).collect();
        self.check_slot(connection).await?;
        Ok(system)
    }

    async fn check_slot(&mut self, connection: &ServerConnection) -> Result<(), SourceError> {
        let (database, slot) = (&self.database, &self.settings.slot);
        let query = "SELECT plugin::text, database::text, wal_status, confirmed_flush_lsn FROM pg_replication_slots \
                     WHERE slot_name = $1::text";
        let mut found = database.within(connection.client.query_opt(query, &[slot])).await?;
        let sql = format!("SELECT pg_create_logical_replication_slot('{}', 'pgoutput')", slot.replace('\'', "''"));
        if found.is_none() && self.settings.create && self.after.is_none() {
            database.within(connection.client.query_one(&*sql, &[])).await?;
            self.warnings
                .push(format!("{}: created the slot `{slot}`; earlier rows are not read", database.shown).into());
            found = database.within(connection.client.query_opt(query, &[slot])).await?;
        }
        let Some(row) = found else {
            if self.after.is_some() {
                return Err(database.fault(&format!(
                    "the slot `{slot}` was dropped, so that rows may be missing; create it by `{sql}`, and add the \
                     parameter `accept` that the next message shows"
                )));
            }
            return Err(database.fault(&format!(
                "there is no slot `{slot}`; run `{sql}` (rows inserted before that are not read, and the server keeps \
                 its log until the slot is read or dropped), or add create=true to the URL before the first row is read"
            )));
        };
        let (plugin, of_database): (Option<String>, Option<String>) = (row.get(0), row.get(1));
        let (status, confirmed): (Option<String>, Option<PgLsn>) = (row.get(2), row.get(3));
        if plugin.as_deref() != Some("pgoutput") || of_database.as_ref() != Some(&database.name) {
            return Err(database.fault(&format!(
                "the slot `{slot}` is not one of this database with the plugin pgoutput; create one by `{sql}`"
            )));
        }
        if status.as_deref() == Some("lost") {
            return Err(database.fault(&format!(
                "the slot `{slot}` lost its log, because more than max_slot_wal_keep_size was kept: rows are missing. \
                 Drop it by `SELECT pg_drop_replication_slot('{slot}')`, create it again by `{sql}`, and add the \
                 parameter `accept` that the next message shows"
            )));
        }
        if status.as_deref() == Some("unreserved") {
            self.warnings.push(format!("{}: the server is about to remove the log of the slot", database.shown).into());
        }
        self.confirmed = confirmed.map_or(0, u64::from);
        Ok(())
    }

    /// The place after a stored position, and what the slot may confirm, if no row is missing.
    fn resumed(&mut self, position: &str, start: LogPlace) -> Result<(LogPlace, u64), SourceError> {
        let (system, place) = self.parse(position)?;
        if system == self.system && place.log >= start.log {
            return Ok((place, place.log));
        }
        let begins = PgLsn::from(start.log);
        let present = format!("{}:{begins}", self.system);
        if self.settings.accept.as_ref() == Some(&present) {
            self.warnings.push(format!("{}: continues at {present}; earlier rows may be missing", self.shown()).into());
            return Ok((start, start.log));
        }
        let read = PgLsn::from(place.log);
        let why = if system == self.system {
            format!(
                "rows may be missing: they were read up to {read} of the log, and the slot begins {} bytes later, at \
                 {begins}. Another program advanced the slot, or it was dropped and created again",
                start.log - place.log
            )
        } else {
            format!("this is another server than the one whose rows were read ({system}): connect to that one")
        };
        Err(self.database.fault(&format!(
            "{why}. To continue at the beginning of this slot without the rows before it, add accept={present} to the \
             URL"
        )))
    }

    /// Advances the slot as far as the service has stored rows. No result may be open.
    async fn advance(&mut self) -> Result<(), SourceError> {
        let Some(connection) = &self.connection else { return Ok(()) };
        if self.accepted <= self.confirmed {
            return Ok(());
        }
        let to = PgLsn::from(self.accepted);
        let query = "SELECT pg_replication_slot_advance($1::text::name, $2)";
        let parameters: [&(dyn ToSql + Sync); 2] = [&self.settings.slot, &to];
        let advanced = connection.client.execute(query, &parameters);
        match tokio::time::timeout(ADVANCE_TIMEOUT, advanced).await {
            Ok(Ok(_)) => self.confirmed = self.accepted,
            Ok(Err(error)) => return Err(self.lost(&error)),
            Err(_) => {
                self.disconnect();
                return Err(self.database.silent());
            }
        }
        Ok(())
    }

    /// An error after which the connection is opened again.
    fn lost(&mut self, error: &tokio_postgres::Error) -> SourceError {
        self.disconnect();
        match error.code().map(tokio_postgres::error::SqlState::code) {
            // The catalogue is read as it was when the row was inserted.
            Some("42704") => self.database.fault(
                "a publication did not exist yet when rows were inserted after the creation of the slot; create the \
                 publication first, then drop the slot and create it again",
            ),
            _ => self.database.problem(error),
        }
    }

    async fn start(&mut self) -> Result<(), SourceError> {
        self.advance().await?;
        let Some(connection) = &self.connection else { return Ok(()) };
        let query = "SELECT pg_current_wal_flush_lsn(), pg_current_wal_insert_lsn()";
        let row = self.database.within(connection.client.query_one(query, &[])).await?;
        let (flushed, inserted): (u64, u64) = (row.get::<_, PgLsn>(0).into(), row.get::<_, PgLsn>(1).into());
        // The log may be flushed up to the middle of a record, which is not read yet.
        let through = if self.boundary <= flushed { self.boundary } else { 0 };
        if self.boundary <= flushed {
            self.boundary = inserted;
        }
        let names: Vec<String> = self.settings.publications.iter().map(|name| quoted_name(name)).collect();
        let names = names.join(",");
        let query = "SELECT data FROM pg_logical_slot_peek_binary_changes($1::text::name, NULL, $2, \
                     'proto_version', '1', 'publication_names', $3)";
        let parameters: [(&(dyn ToSql + Sync), Type); 3] =
            [(&self.settings.slot, Type::TEXT), (&MAX_CHANGES, Type::INT4), (&names, Type::TEXT)];
        let changes = self.database.within(connection.client.query_typed_raw(query, parameters)).await?;
        self.peek = Some(Peek { changes: Box::pin(changes), messages: 0, through });
        Ok(())
    }

    /// Takes up a message. A row that does not fit is held.
    fn take(&mut self, message: &[u8], limits: BatchLimits) -> Result<(), SourceError> {
        let change = self.decoder.decode(message);
        match change.map_err(|_| self.database.fault("the server sent a change in an unknown form"))? {
            RowChange::Begin { commit, .. } => self.transaction = LogPlace { log: commit, rows: 0 },
            RowChange::Commit { end } => {
                if self.at.log < end {
                    self.at = LogPlace { log: end, rows: 0 };
                }
            }
            RowChange::Insert { json, .. } => {
                self.transaction.rows += 1;
                let (now, at) = (self.transaction, self.at);
                if now.log > at.log || (now.log == at.log && now.rows > at.rows) {
                    let is_full = self.writer.rows() >= limits.rows || self.writer.len() + json.len() >= limits.bytes;
                    let held = Held { json, place: now };
                    if is_full && !self.writer.is_empty() {
                        self.held = Some(held);
                    } else {
                        self.add(&held);
                    }
                }
            }
            RowChange::Other if !self.has_others => {
                self.has_others = true;
                self.warnings.push(format!(
                    "{}: updated, deleted and truncated rows are not events, and are passed over; a publication with \
                     publish = 'insert' omits them",
                    self.database.shown
                ).into());
            }
            RowChange::Other | RowChange::Nothing => {}
        }
        Ok(())
    }

    fn add(&mut self, row: &Held) {
        self.writer.push(&row.json, &[]);
        self.origins.push(LogPlace { log: row.place.log, rows: row.place.rows }.to_string());
        self.at = row.place;
    }

    /// The batch of the rows that were taken up.
    fn cut(&mut self) -> SourceBatch {
        let rows = std::mem::take(&mut self.writer).finish(Origins::Texts(std::mem::take(&mut self.origins)));
        let position = self.position(self.at);
        self.issued = self.at;
        let after = self.after.replace(position.clone());
        SourceBatch { partition: String::new(), after, position, rows }
    }

    /// After the last change of a peek: a batch, if there are rows or the log moved far without one.
    fn end_of_peek(&mut self, peek: &Peek) -> Option<SourceBatch> {
        self.next_peek = Instant::now();
        if peek.messages < MAX_CHANGES {
            self.next_peek += self.settings.every;
            if self.at.log < peek.through {
                self.at = LogPlace { log: peek.through, rows: 0 };
            }
        }
        (!self.writer.is_empty() || self.at.log >= self.issued.log + MAX_IDLE_BYTES).then(|| self.cut())
    }
}

/// A row, for messages.
impl fmt::Display for LogPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transaction {}, row {}", PgLsn::from(self.log), self.rows)
    }
}

#[async_trait]
impl Source for LogicalSource {
    fn shown(&self) -> String {
        format!("{}, slot {}", self.database.shown, self.settings.slot)
    }

    fn identity(&self) -> String {
        format!("postgresql:{}:slot:{}", self.database.name, self.settings.slot)
    }

    async fn partitions(&mut self) -> Result<Vec<String>, SourceError> {
        Ok(vec![String::new()])
    }

    async fn seek(&mut self, _: &str, position: Option<&str>) -> Result<(), SourceError> {
        self.disconnect();
        self.after = position.map(str::to_owned);
        let connection = self.database.connect().await?;
        self.system = self.check(&connection).await?;
        let start = LogPlace { log: self.confirmed, rows: 0 };
        (self.at, self.accepted) = match position {
            Some(text) => self.resumed(text, start)?,
            None => (start, 0),
        };
        self.issued = self.at;
        let end = connection.client.query_one("SELECT pg_current_wal_flush_lsn()", &[]);
        let end: PgLsn = self.database.within(end).await?.get(0);
        if u64::from(end) < self.at.log {
            return Err(self.database.fault(&format!(
                "rows were read up to {} of the log, and the log ends before, at {end}: the server was restored from \
                 an older backup. Connect to the server with all rows",
                PgLsn::from(self.at.log)
            )));
        }
        self.connection = Some(connection);
        Ok(())
    }

    async fn next(&mut self, limits: BatchLimits) -> Result<Option<SourceBatch>, SourceError> {
        let deadline = Instant::now() + limits.wait;
        if self.connection.as_ref().is_none_or(|open| open.client.is_closed()) {
            self.disconnect();
            return Err(SourceError::Away(format!("{} closed the connection", self.database.shown)));
        }
        if let Some(held) = self.held.take() {
            self.add(&held);
        }
        loop {
            let Some(peek) = &mut self.peek else {
                if self.next_peek > deadline {
                    tokio::time::sleep_until(deadline).await;
                    return Ok(None);
                }
                tokio::time::sleep_until(self.next_peek).await;
                if let Err(error) = self.start().await {
                    self.disconnect();
                    return Err(error);
                }
                continue;
            };
            match timeout_at(deadline, peek.changes.next()).await {
                Ok(Some(Ok(row))) => {
                    peek.messages = peek.messages.saturating_add(1);
                    let message: &[u8] = row.try_get(0).map_err(|error| self.database.problem(&error))?;
                    self.take(message, limits)?;
                    if self.held.is_some() {
                        return Ok(Some(self.cut()));
                    }
                }
                Ok(Some(Err(error))) => return Err(self.lost(&error)),
                Ok(None) => {
                    let peek = self.peek.take();
                    if let Some(batch) = peek.and_then(|peek| self.end_of_peek(&peek)) {
                        return Ok(Some(batch));
                    }
                }
                Err(_) if self.writer.is_empty() => return Ok(None),
                Err(_) => return Ok(Some(self.cut())),
            }
        }
    }

    async fn accepted(&mut self, _: &str, position: &str) -> Result<(), SourceError> {
        let (_, place) = self.parse(position)?;
        self.accepted = self.accepted.max(place.log);
        if self.peek.is_none() { self.advance().await } else { Ok(()) }
    }

    fn warnings(&mut self) -> Vec<SourceWarning> {
        std::mem::take(&mut self.warnings)
    }
}
