//! A table of PostgreSQL to which released rows are written.

use super::connection::{Database, ServerConnection, TIMEOUT, quoted_name};
use crate::{Address, Sink, SourceError, SourceOptions};
use async_trait::async_trait;
use evertally_declare::error::{Result, usage};

/// The table with the positions of all sinks of a database. The user needs no right to create it if it exists.
const POSITIONS: &str =
    "CREATE TABLE IF NOT EXISTS evertally_positions (sink text PRIMARY KEY, position text NOT NULL)";

/// The sink.
struct TableSink {
    database: Database,
    /// The name of the table as in the URL, and as in SQL.
    table: String,
    name: String,
    /// The name under which the position is kept.
    sink: String,
    connection: Option<ServerConnection>,
}

/// Opens a sink by its URL, `postgresql://USER@HOST/DB?table=SCHEMA.TABLE`, for a stream with a name.
///
/// # Errors
/// If the URL or a file that it needs is invalid.
pub(crate) fn open(mut address: Address, stream: &str, options: &SourceOptions) -> Result<Box<dyn Sink>> {
    let mut query = std::mem::take(&mut address.query);
    let table = query.take("table")?;
    let table = table.ok_or_else(|| usage("the URL names no table; write postgresql://USER@HOST/DB?table=TABLE"))?;
    let database = Database::new(&address, &mut query, options)?;
    query.refuse_others(&["table", "sslmode", "host"])?;
    let name = table.split('.').map(quoted_name).collect::<Vec<_>>().join(".");
    let sink = format!("{stream} in {table}");
    Ok(Box::new(TableSink { database, table, name, sink, connection: None }))
}

impl TableSink {
    async fn connection(&mut self) -> Result<&mut ServerConnection, SourceError> {
        if self.connection.as_ref().is_none_or(|open| open.client.is_closed()) {
            let connection = self.database.connect().await?;
            let query = "SELECT to_regclass('evertally_positions') IS NOT NULL";
            let exists: bool = self.database.within(connection.client.query_one(query, &[])).await?.get(0);
            if !exists {
                self.database.within(connection.client.batch_execute(POSITIONS)).await?;
            }
            self.connection = Some(connection);
        }
        self.connection.as_mut().ok_or_else(|| SourceError::Away("there is no connection".to_owned()))
    }

    /// Writes in one transaction; `false` if the position is not the expected one.
    async fn transact(&mut self, after: Option<&str>, rows: &str, position: &str) -> Result<bool, SourceError> {
        let (name, sink) = (self.name.clone(), self.sink.clone());
        let client = &mut self.connection().await?.client;
        let written = async {
            let transaction = client.transaction().await?;
            let moved = if let Some(after) = after {
                let query = "UPDATE evertally_positions SET position = $3 WHERE sink = $1 AND position = $2";
                transaction.execute(query, &[&sink, &after, &position]).await?
            } else {
                let query = "INSERT INTO evertally_positions VALUES ($1, $2) ON CONFLICT DO NOTHING";
                transaction.execute(query, &[&sink, &position]).await?
            };
            if moved == 0 {
                transaction.rollback().await?;
                return Ok(false);
            }
            let query = format!(
                "INSERT INTO {name} SELECT * FROM json_populate_recordset(NULL::{name}, $1::text::json) \
                 ON CONFLICT DO NOTHING"
            );
            transaction.execute(&query, &[&rows]).await?;
            transaction.commit().await?;
            Ok(true)
        };
        // Whether a commit without an answer took place is known by the position, which is read again.
        let written = tokio::time::timeout(TIMEOUT * 6, written).await;
        if !matches!(written, Ok(Ok(_))) {
            self.connection = None;
        }
        written.map_err(|_| self.database.silent())?.map_err(|error| self.database.problem(&error))
    }
}

#[async_trait]
impl Sink for TableSink {
    fn shown(&self) -> String {
        format!("{}, table {}", self.database.shown, self.table)
    }

    fn warnings(&mut self) -> Vec<String> {
        self.database.warning.take().into_iter().collect()
    }

    async fn last(&mut self) -> Result<Option<String>, SourceError> {
        let sink = self.sink.clone();
        let client = &self.connection().await?.client;
        let query = "SELECT position FROM evertally_positions WHERE sink = $1";
        let found = tokio::time::timeout(TIMEOUT, client.query_opt(query, &[&sink])).await;
        let found = found.map_err(|_| self.database.silent())?.map_err(|error| self.database.problem(&error))?;
        Ok(found.map(|row| row.get(0)))
    }

    async fn write(&mut self, after: Option<&str>, rows: &[u8], position: &str) -> Result<(), SourceError> {
        let lines: Vec<&str> = std::str::from_utf8(rows)
            .map_err(|_| self.database.fault("the rows are not UTF-8"))?
            .lines()
            .filter(|line| !line.is_empty())
            .collect();
        let rows = format!("[{}]", lines.join(","));
        if self.transact(after, &rows, position).await? {
            return Ok(());
        }
        let shown = self.shown();
        Err(SourceError::Away(format!("{shown}: another program wrote to this table; its position is read again")))
    }
}
