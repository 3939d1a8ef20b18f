//! `evertally feed`.

use anyhow::{Context, Result, bail};
use clap::Args;
use evertally_declare::words::count_of_rows;
use evertally_feeds::{
    CancellationToken, FileOptions, FollowOptions, Observer, Remote, RemoteTls, Sent, Source, SourceOptions, Token,
    open_files, open_stdin, run,
};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often progress is reported.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(60);

/// Flags of `evertally feed`.
#[derive(Args, Debug)]
#[command(
    group = clap::ArgGroup::new("source").required(true).args(["from", "file", "folder", "stdin"]),
    after_help = concat!(
        "Examples:\n",
        "  evertally feed --url https://counts.example:8801 --stream visits --token-file feed.token \\\n",
        "    --file visits.csv\n",
        "  evertally feed --url https://counts.example:8801 --stream visits --token-file feed.token \\\n",
        "    --from kafka://broker.example:9092/visits\n",
        "  tail -F access.jsonl | evertally feed --url http://127.0.0.1:8801 --stream visits --stdin",
        " --format jsonl \\\n    --memory visits.memory\n\n",
        "The guide: docs/guide/run/sources.md"
    )
)]
pub(super) struct FeedArgs {
    /// URL of the service: https://HOST:PORT, or http:// on this machine.
    #[arg(long)]
    url: String,
    /// The stream to write to.
    #[arg(long, value_name = "NAME")]
    stream: String,
    /// File with a token that may write to the stream; it is read again when it is used [default: the environment
    /// variable EVERTALLY_TOKEN]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// File with the CA certificate of the service, if its authority is not a public one.
    #[arg(long, value_name = "FILE")]
    authority: Option<PathBuf>,
    /// File with the certificate of this machine and its chain, for a service that knows it in place of a token.
    #[arg(long, value_name = "FILE", requires = "certificate_key")]
    certificate: Option<PathBuf>,
    /// File with the private key of the certificate.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    certificate_key: Option<PathBuf>,
    /// Follow a source: kafka://HOST/TOPIC, nats://HOST/STREAM, redis://HOST/0?stream=KEY, mqtt://HOST/TOPIC,
    /// postgresql://HOST/DATABASE, or objects: s3://BUCKET/PREFIX/, gs://, az://.
    #[arg(long, value_name = "URL")]
    from: Option<String>,
    /// File with the password of the user in the URL of the source, or with a token.
    #[arg(long, value_name = "FILE", requires = "from")]
    password_file: Option<PathBuf>,
    /// File with the CA certificate of the source, if its authority is not a public one.
    #[arg(long, value_name = "FILE", requires = "from")]
    source_authority: Option<PathBuf>,
    /// File with the certificate of this machine and its chain, for a source that knows its clients by certificates.
    #[arg(long, value_name = "FILE", requires_all = ["from", "source_key"])]
    source_certificate: Option<PathBuf>,
    /// File with the private key of that certificate.
    #[arg(long, value_name = "FILE", requires = "source_certificate")]
    source_key: Option<PathBuf>,
    /// Add what the source knows about each message as further columns: _time, _key, _topic.
    #[arg(long, requires = "from")]
    metadata: bool,
    /// Follow a file that grows: CSV with a header, JSON lines, or an access log. It may be rotated.
    #[arg(long)]
    file: Option<PathBuf>,
    /// Follow all present and future files of a folder: growing text files, and complete files (.gz, .zst, .parquet)
    /// that are moved into it.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Read standard input.
    #[arg(long, requires = "memory")]
    stdin: bool,
    /// Format of the rows, if no file name determines it: csv, jsonl, common-log or combined-log.
    #[arg(long, conflicts_with = "from")]
    format: Option<String>,
    /// File that keeps the rows of standard input until they are accepted. Use one per pipe and stream.
    #[arg(long, value_name = "FILE", requires = "stdin")]
    memory: Option<PathBuf>,
    /// Name of the source at the service, which keeps the position in it. Two sources of one stream need two names, and
    /// that of standard input is in its --memory.
    /// [default: the kind and the place of the source, such as file:/srv/visits.csv or kafka:visits]
    #[arg(long, conflicts_with = "stdin")]
    name: Option<String>,
    /// Maximum number of rows in a batch.
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
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
            (Some(file), _) => Some(Token::File(file.clone())),
            (None, Ok(token)) => Some(Token::Text(token)),
            (None, Err(_)) if self.certificate.is_some() => None,
            (None, Err(_)) => bail!("no token: give --token-file FILE, or set EVERTALLY_TOKEN"),
        };
        let client = self.certificate.as_deref().zip(self.certificate_key.as_deref());
        let tls = RemoteTls { authority: self.authority.as_deref(), client };
        let remote = Remote::new(&self.url, &self.stream, token, tls)?;
        let mut source = self.source()?;
        let (rows, hides_values) = (self.rows as usize, false);
        let options = FollowOptions {
            name: self.name,
            rows,
            is_once: self.once,
            aside: self.aside,
            aside_by_day: false,
            hides_values,
        };
        let cancelled = CancellationToken::new();
        let on_interrupt = cancelled.clone();
        let interrupt = move || {
            if on_interrupt.is_cancelled() {
                std::process::exit(130); // the second time: whatever is under way, nothing counts twice
            }
            on_interrupt.cancel();
        };
        ctrlc::set_handler(interrupt).context("cannot watch for Ctrl-C")?;
        let mut report = Report { reported: Instant::now(), last: Sent::default() };
        if !self.once {
            report.message(&format!("following {}, for stream `{}`", source.shown(), self.stream));
        }
        let sent = run(&mut *source, &remote, &options, &cancelled, &mut report)?;
        let aside = if sent.aside > 0 { format!(", {} set aside", sent.aside) } else { String::new() };
        let batches = if sent.batches == 1 { "1 batch".to_owned() } else { format!("{} batches", sent.batches) };
        eprintln!("{} sent in {batches}{aside}", count_of_rows(sent.rows));
        Ok(())
    }

    fn source(&self) -> Result<Box<dyn Source>> {
        let files = |path: &PathBuf, is_folder| {
            let (format, is_complete) = (self.format.clone(), self.complete);
            open_files(&FileOptions { path: path.clone(), is_folder, format, is_complete })
        };
        Ok(match (&self.from, &self.file, &self.folder, &self.memory) {
            (Some(url), ..) => {
                let options = SourceOptions {
                    password_file: self.password_file.clone(),
                    authority: self.source_authority.clone(),
                    client: self.source_certificate.clone().zip(self.source_key.clone()),
                    with_metadata: self.metadata,
                };
                evertally_feeds::open(url, &options)?
            }
            (_, Some(file), ..) => files(file, false)?,
            (_, _, Some(folder), _) => files(folder, true)?,
            (.., Some(memory)) => open_stdin(self.format.as_deref(), memory)?,
            _ => bail!("no source is given"),
        })
    }
}

/// Reports to standard error.
struct Report {
    reported: Instant,
    last: Sent,
}

impl Observer for Report {
    fn message(&mut self, text: &str) {
        eprintln!("{text}");
    }

    fn progress(&mut self, sent: Sent) {
        if self.reported.elapsed() > PROGRESS_INTERVAL && sent != self.last {
            (self.reported, self.last) = (Instant::now(), sent);
            eprintln!("{} sent in {} batches", count_of_rows(sent.rows), sent.batches);
        }
    }
}
