//! `evertally feed`: sends the new rows of files to a service.

use anyhow::{Context as _, Result, bail};
use clap::Args;
use evertally_declare::words::count_of_rows;
use evertally_server::feed::{self, Feed, From, Remote};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// Flags of `evertally feed`.
#[derive(Args, Debug)]
#[command(
    group = clap::ArgGroup::new("source").required(true).args(["file", "folder", "stdin"]),
    after_help = concat!(
        "Examples:\n",
        "  evertally feed --url https://counts.example:8801 --stream visits --token-file feed.token \\\n",
        "    --file visits.csv --memory visits.memory\n",
        "  tail -F access.jsonl | evertally feed --url http://127.0.0.1:8801 --stream visits --stdin",
        " --format jsonl \\\n    --memory visits.memory\n\n",
        "The guide: docs/guide/run/service.md"
    )
)]
pub(super) struct FeedArgs {
    /// URL of the service: https://HOST:PORT, or http:// on this machine.
    #[arg(long)]
    url: String,
    /// The stream to write to.
    #[arg(long, value_name = "NAME")]
    stream: String,
    /// File with a token that may write to the stream [default: the environment variable EVERTALLY_TOKEN]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// File with the CA certificate of the service, if its authority is not a public one.
    #[arg(long, value_name = "FILE")]
    authority: Option<PathBuf>,
    /// Follow a file that grows: CSV with a header, JSON lines, or an access log.
    #[arg(long)]
    file: Option<PathBuf>,
    /// Follow all present and future files of a folder: growing text files, and complete files (.gz, .zst, .parquet)
    /// that are moved into it.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Read standard input.
    #[arg(long)]
    stdin: bool,
    /// Format of the rows, if no file name determines it: csv, jsonl, common-log or combined-log.
    #[arg(long)]
    format: Option<String>,
    /// File that records which rows were sent. Use one per source and stream, and keep it as long as the source.
    #[arg(long, value_name = "FILE")]
    memory: PathBuf,
    /// Name of the feeder, part of every batch id [default: the name of this machine]
    #[arg(long)]
    name: Option<String>,
    /// Maximum number of rows in a batch.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rows: u32,
    /// Stop at the end of the input instead of waiting for more.
    #[arg(long)]
    once: bool,
    /// The files are complete: also send a last line without a line break.
    #[arg(long, requires = "once")]
    complete: bool,
    /// Write refused rows to this file and continue; without this flag the first refused row stops the feeder.
    #[arg(long, value_name = "FILE")]
    aside: Option<PathBuf>,
}

impl FeedArgs {
    /// Runs `evertally feed`.
    pub(super) fn run(self) -> Result<()> {
        let token = match (&self.token_file, std::env::var("EVERTALLY_TOKEN")) {
            (Some(file), _) => {
                std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?
            }
            (None, Ok(token)) => token,
            (None, Err(_)) => bail!("no token: give --token-file FILE, or set EVERTALLY_TOKEN"),
        };
        let remote = Remote::new(&self.url, &self.stream, token.trim(), self.authority.as_deref())?;
        let from = match (self.file, self.folder) {
            (Some(file), _) => From::File(file),
            (None, Some(folder)) => From::Folder(folder),
            (None, None) => From::Stdin,
        };
        let feed = Feed {
            from,
            format: self.format,
            memory: self.memory,
            name: self.name,
            rows: self.rows as usize,
            is_once: self.once,
            is_complete: self.complete,
            aside: self.aside,
        };
        let sent = feed::follow(&feed, &remote, &AtomicBool::new(false), &mut |line| eprintln!("{line}"))?;
        let aside = if sent.aside > 0 { format!(", {} set aside", sent.aside) } else { String::new() };
        let batches = if sent.batches == 1 { "1 batch".to_owned() } else { format!("{} batches", sent.batches) };
        let rows = count_of_rows(sent.rows);
        eprintln!("{rows} sent in {batches}{aside}");
        Ok(())
    }
}
