//! Rows of a table with larger values of a column that a sequence fills.
//!
//! A transaction may commit a small value after another one committed a larger value. But a statement locks the table
//! before it takes values of the sequence, and the lock lasts until the end of the transaction. So when the largest
//! visible value is known, each smaller value belongs to a transaction that has ended or that has a lock now. After the
//! end of these transactions, all rows up to that value are visible. Nobody waits for the reader.

use super::connection::{Database, ServerConnection, quoted_name};
use crate::{BatchLimits, Origins, RowWriter, Source, SourceBatch, SourceError, SourceWarning};
use async_trait::async_trait;
use futures_util::StreamExt;
use std::collections::HashSet;
use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_postgres::types::{ToSql, Type};

/// How often the locks of other transactions are asked for.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The settings of this mode.
pub(super) struct QuerySettings {
    /// The name of the table, as in SQL.
    pub(super) table: String,
    /// The name of the column.
    pub(super) column: String,
    /// The state of the server that the operator accepts.
    pub(super) accept: Option<String>,
    pub(super) every: Duration,
}

/// The source.
pub(super) struct QuerySource {
    database: Database,
    settings: QuerySettings,
    with_metadata: bool,
    connection: Option<ServerConnection>,
    /// What positions are of: the identifier of the system, and the number of the table.
    table: String,
    /// The name of the table as an identifier.
    name: String,
    /// The last value that was read.
    at: i64,
    /// All rows up to this value are visible.
    complete: i64,
    /// A largest value, and the transactions that must end until rows up to it are complete.
    waiting: Option<(i64, HashSet<String>)>,
    after: Option<String>,
    next_look: Instant,
    warnings: Vec<SourceWarning>,
}

impl QuerySource {
    pub(super) fn new(mut database: Database, settings: QuerySettings, with_metadata: bool) -> Self {
        let warnings = database.warning.take().into_iter().map(SourceWarning::from).collect();
        Self {
            database,
            settings,
            with_metadata,
            connection: None,
            table: String::new(),
            name: String::new(),
            at: i64::MIN,
            complete: i64::MIN,
            waiting: None,
            after: None,
            next_look: Instant::now(),
            warnings,
        }
    }

    fn position(&self) -> String {
        format!("{}:{}", self.table, self.at)
    }

    /// Checks the table, and returns the largest value that was taken from its sequence, if the user may read that.
    async fn check(&mut self, connection: &ServerConnection) -> Result<Option<i64>, SourceError> {
        let (database, QuerySettings { table, column, .. }) = (&self.database, &self.settings);
        let refuse = |problem: String| Err(database.fault(&format!("{table}: {problem}")));
        let query = "SELECT s.system_identifier::text, pg_is_in_recovery(), to_regclass($1)::oid \
                     FROM pg_control_system() s";
        let row = database.within(connection.client.query_one(query, &[table])).await?;
        let (system, is_standby, number): (String, bool, Option<u32>) = (row.get(0), row.get(1), row.get(2));
        if is_standby {
            return refuse("a standby does not know which transactions are open; connect to the primary".to_owned());
        }
        let Some(number) = number else { return refuse("there is no such table; write SCHEMA.TABLE".to_owned()) };
        let query = "SELECT c.relkind::text, c.relpersistence::text, n.nspname::text, c.relname::text, \
                     EXISTS (SELECT FROM pg_inherits WHERE inhparent = c.oid) FROM pg_class c JOIN pg_namespace n \
                     ON n.oid = c.relnamespace WHERE c.oid = $1";
        let row = database.within(connection.client.query_one(query, &[&number])).await?;
        let (kind, persistence, has_children): (String, String, bool) = (row.get(0), row.get(1), row.get(4));
        if kind != "p" && (kind != "r" || has_children) {
            return refuse("only tables without children, and partitioned tables, can be followed".to_owned());
        }
        if persistence != "p" {
            return refuse("a crash of the server empties an unlogged table; run `ALTER TABLE ... SET LOGGED`".into());
        }
        self.name = format!("{}.{}", quoted_name(row.get(2)), quoted_name(row.get(3)));
        let query = "SELECT a.attnotnull AND EXISTS (SELECT FROM pg_index i WHERE i.indrelid = a.attrelid \
                     AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indnkeyatts = 1 \
                     AND i.indkey[0] = a.attnum), q.seqcache, q.seqincrement > 0 AND NOT q.seqcycle, \
                     s.oid IS NOT NULL AND has_sequence_privilege(s.oid, 'USAGE, SELECT'), s.oid::oid \
                     FROM pg_attribute a LEFT JOIN LATERAL \
                     (SELECT pg_get_serial_sequence($2, a.attname)::regclass AS oid) s ON true \
                     LEFT JOIN pg_sequence q ON q.seqrelid = s.oid \
                     WHERE a.attrelid = $1 AND a.attname = $3::text AND NOT a.attisdropped AND a.attnum > 0 \
                     AND a.atttypid IN (20, 21, 23)";
        let found = database.within(connection.client.query_opt(query, &[&number, &self.name, column])).await?;
        let Some(row) = found else { return refuse(format!("there is no column `{column}` of an integer type")) };
        if !row.get::<_, bool>(0) {
            return refuse(format!(
                "rows with equal values of `{column}` could not be distinguished; make it the primary key, or NOT NULL \
                 with a unique index, or read the table by logical replication"
            ));
        }
        let increases = row.get::<_, Option<bool>>(2);
        if increases != Some(true) {
            return refuse(format!(
                "`{column}` is not filled by an increasing sequence, so that rows could be added below values that \
                 were read; add a column `GENERATED ALWAYS AS IDENTITY`, or read the table by logical replication"
            ));
        }
        if row.get::<_, Option<i64>>(1) != Some(1) {
            return refuse(format!(
                "each connection reserves values of the sequence of `{column}`, so that they are not in order; run \
                 `ALTER TABLE ... ALTER {column} SET CACHE 1`, and connect the writers again"
            ));
        }
        self.table = format!("{system}:{number}");
        if !row.get::<_, bool>(3) {
            return Ok(None);
        }
        let sequence: u32 = row.get(4);
        let query = "SELECT pg_sequence_last_value($1::oid::regclass)";
        let last: Option<i64> = database.within(connection.client.query_one(query, &[&sequence])).await?.get(0);
        Ok(Some(last.unwrap_or(i64::MIN)))
    }

    /// Learns how far rows are complete. Returns whether there may be rows to read.
    async fn look(&mut self) -> Result<bool, SourceError> {
        let Some(connection) = &self.connection else { return Ok(false) };
        let client = &connection.client;
        if self.waiting.is_none() {
            let query = format!("SELECT max({})::bigint FROM {}", quoted_name(&self.settings.column), self.name);
            let largest: Option<i64> = self.database.within(client.query_one(&*query, &[])).await?.get(0);
            let Some(largest) = largest.filter(|largest| *largest > self.at) else { return Ok(false) };
            // The locks must be read after the value.
            self.waiting = Some((largest, self.database.within(writers(client, &self.name)).await?));
        }
        if self.waiting.as_ref().is_some_and(|(_, writers)| !writers.is_empty()) {
            let present = self.database.within(writers(client, &self.name)).await?;
            if let Some((_, waiting)) = &mut self.waiting {
                // A transaction that is prepared for a commit in two phases gets another name.
                let has_ended = waiting.iter().any(|writer| !present.contains(writer));
                let stays = |writer: &String| waiting.contains(writer) || (has_ended && writer.starts_with("-1/"));
                *waiting = present.into_iter().filter(stays).collect();
            }
        }
        let ended = self.waiting.take_if(|(_, writers)| writers.is_empty());
        if let Some((largest, _)) = &ended {
            self.complete = *largest;
        }
        Ok(ended.is_some())
    }

    /// The next complete rows.
    async fn read(&mut self, limits: BatchLimits) -> Result<Option<SourceBatch>, SourceError> {
        let Some(connection) = &self.connection else { return Ok(None) };
        let column = quoted_name(&self.settings.column);
        let query = format!(
            "SELECT t.{column}::bigint, row_to_json(t)::text FROM {} t WHERE t.{column} > $1 AND t.{column} <= $2 \
             ORDER BY t.{column} LIMIT $3",
            self.name
        );
        let most = i64::try_from(limits.rows).unwrap_or(i64::MAX);
        let parameters: [(&(dyn ToSql + Sync), Type); 3] =
            [(&self.at, Type::INT8), (&self.complete, Type::INT8), (&most, Type::INT8)];
        let rows = self.database.within(connection.client.query_typed_raw(&query, parameters)).await?;
        let mut rows = pin!(rows);
        let (mut writer, mut places, mut last) = (RowWriter::default(), Vec::new(), None);
        let fields = [("_table", &*self.settings.table)];
        let fields = if self.with_metadata { &fields[..] } else { &[] };
        let mut is_cut = false;
        loop {
            let next = tokio::time::timeout(super::connection::TIMEOUT, rows.next()).await;
            let Some(row) = next.map_err(|_| self.database.silent())? else { break };
            let row = row.map_err(|error| self.database.problem(&error))?;
            let (value, json): (i64, &str) = (row.get(0), row.get(1));
            if !writer.is_empty() && writer.len() + json.len() > limits.bytes {
                is_cut = true;
                break;
            }
            writer.push(json.as_bytes(), fields);
            places.push(format!("{} {value}", self.settings.column));
            last = Some(value);
        }
        let Some(last) = last else {
            self.at = self.complete; // they were deleted
            return Ok(None);
        };
        let is_whole = !is_cut && writer.rows() < limits.rows;
        self.at = if is_whole { self.complete } else { last };
        let position = self.position();
        let after = self.after.replace(position.clone());
        Ok(Some(SourceBatch { partition: String::new(), after, position, rows: writer.finish(Origins::Texts(places)) }))
    }
}

/// The open transactions that may have written to a table or its partitions.
async fn writers(client: &tokio_postgres::Client, table: &str) -> Result<HashSet<String>, tokio_postgres::Error> {
    let query = "SELECT DISTINCT virtualtransaction FROM pg_locks WHERE locktype = 'relation' AND granted \
                 AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
                 AND mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock') \
                 AND relation IN (SELECT $1::text::regclass::oid UNION ALL \
                 SELECT relid::oid FROM pg_partition_tree($1::text::regclass))";
    Ok(client.query(query, &[&table]).await?.iter().map(|row| row.get(0)).collect())
}

#[async_trait]
impl Source for QuerySource {
    fn shown(&self) -> String {
        format!("{}, table {}", self.database.shown, self.settings.table)
    }

    fn identity(&self) -> String {
        format!("postgresql:{}:table:{}:{}", self.database.name, self.settings.table, self.settings.column)
    }

    async fn partitions(&mut self) -> Result<Vec<String>, SourceError> {
        Ok(vec![String::new()])
    }

    async fn seek(&mut self, _: &str, position: Option<&str>) -> Result<(), SourceError> {
        (self.connection, self.waiting) = (None, None);
        let connection = self.database.connect().await?;
        let newest = self.check(&connection).await?;
        self.at = i64::MIN;
        if let Some(text) = position {
            let parts = text.rsplit_once(':').and_then(|(table, value)| Some((table, value.parse().ok()?)));
            let Some((table, value)) = parts else {
                return Err(self.database.fault("the stored position is not one of a table"));
            };
            self.at = value;
            if table != self.table && self.settings.accept.as_ref() != Some(&self.table) {
                return Err(self.database.fault(&format!(
                    "{} is not the table whose rows were read: it is on another server, or was created again. Connect \
                     to that one; or, if this one has the same rows and later ones, add accept={} to the URL",
                    self.settings.table, self.table
                )));
            }
        }
        if let Some(newest) = newest.filter(|newest| *newest < self.at) {
            return Err(self.database.fault(&format!(
                "{}: rows were read up to {} = {}, and its sequence is at {newest}: it was reset, so that new rows \
                 would be passed over. Set it to a larger value by setval",
                self.settings.table, self.settings.column, self.at
            )));
        }
        self.complete = self.at;
        self.after = position.map(str::to_owned);
        self.connection = Some(connection);
        Ok(())
    }

    async fn next(&mut self, limits: BatchLimits) -> Result<Option<SourceBatch>, SourceError> {
        let deadline = Instant::now() + limits.wait;
        if self.connection.as_ref().is_none_or(|open| open.client.is_closed()) {
            self.connection = None;
            return Err(SourceError::Away(format!("{} closed the connection", self.database.shown)));
        }
        loop {
            if self.at < self.complete {
                if let Some(batch) = self.read(limits).await? {
                    return Ok(Some(batch));
                }
                continue;
            }
            sleep_until(self.next_look.min(deadline)).await;
            if self.next_look > deadline {
                return Ok(None);
            }
            let has_more = match timeout_at(deadline + super::connection::TIMEOUT, self.look()).await {
                Ok(has_more) => has_more?,
                Err(_) => return Err(self.database.silent()),
            };
            let pause = if self.waiting.is_some() { LOCK_PAUSE } else { self.settings.every };
            self.next_look = if has_more { Instant::now() } else { Instant::now() + pause };
        }
    }

    fn warnings(&mut self) -> Vec<SourceWarning> {
        std::mem::take(&mut self.warnings)
    }
}
