//! PostgreSQL: rows inserted into tables, by logical replication or by a query with a high-water mark.
//!
//! `postgresql://USER@HOST:PORT/DB?publication=NAME&slot=NAME` reads the rows that transactions inserted, in the order
//! of their commits, from a slot with the plugin `pgoutput`. `postgresql://USER@HOST/DB?table=TABLE&order-by=COLUMN`
//! asks for rows with larger values of a column that a sequence fills.

mod connection;
mod logical;
mod pgoutput;
mod sink;
mod table;

use crate::{Address, Source, SourceOptions};
use connection::Database;
use evertally_declare::error::{Result, usage};
pub(crate) use sink::open as open_sink;
use std::time::Duration;

/// The parameters of both modes, for messages.
const PARAMETERS: [&str; 9] =
    ["publication", "slot", "create", "table", "order-by", "accept", "every", "sslmode", "host"];

/// Opens a source by its URL.
///
/// # Errors
/// If the URL or a file that it needs is invalid.
pub(crate) fn open(mut address: Address, options: &SourceOptions) -> Result<Box<dyn Source>> {
    let mut query = std::mem::take(&mut address.query);
    let (publication, slot) = (query.take("publication")?, query.take("slot")?);
    let (table, order_by) = (query.take("table")?, query.take("order-by")?);
    let (create, accept) = (query.flag("create")?, query.take("accept")?);
    let every = query.duration("every")?.unwrap_or(Duration::from_secs(1));
    let database = Database::new(&address, &mut query, options)?;
    query.refuse_others(&PARAMETERS)?;
    match (publication, slot, table, order_by) {
        (Some(publication), Some(slot), None, None) => {
            let names: Vec<String> = publication.split(',').map(|name| name.trim().to_owned()).collect();
            let settings = logical::LogicalSettings { publications: names, slot, create, accept, every };
            Ok(Box::new(logical::LogicalSource::new(database, settings, options.with_metadata)))
        }
        (None, None, Some(table), Some(column)) if !create => {
            let settings = table::QuerySettings { table, column, accept, every };
            Ok(Box::new(table::QuerySource::new(database, settings, options.with_metadata)))
        }
        _ => Err(usage(
            "the URL names neither a slot nor a table; write ?publication=NAME&slot=NAME for logical replication, or \
             ?table=SCHEMA.TABLE&order-by=COLUMN for a column that a sequence fills",
        )),
    }
}
