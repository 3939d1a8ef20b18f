//! The built program as a pipeline.

use super::pipeline::{Declared, Outcome, Pipeline, Run, TableRow, public_ledger};
use super::rows::{Row, write_file};
use evertally::noise::{GuardedKey, TestSeed};
use evertally_declare::declaration::Declaration;
use evertally_ledger::ledger::Ledger;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program `evertally`, run in a separate folder with a configuration file.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program's file.
    pub program: PathBuf,
}

impl Pipeline for Program {
    fn publish(&self, stream: &Declared, files: &[Vec<Row>]) -> Vec<Outcome> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = folder.path();
        let key = GuardedKey::insecure_from_test_seed(TestSeed(12));
        Ledger::in_memory(&key).save(&at.join("k"), &key).expect("a new key file");
        let text = toml::to_string(&stream.declaration).expect("TOML");
        std::fs::write(at.join("stream.toml"), &text).expect("written");
        let name = |number: usize| format!("{number}.{}", stream.format.word());
        let mut read = 0;
        let mut outcomes = Vec::new();
        for run in &stream.runs {
            let first = if stream.continues { read } else { 0 };
            let mut names: Vec<String> = (first..run.files).map(name).collect();
            #[expect(clippy::needless_range_loop, reason = "the number is part of the name")]
            for number in first..run.files {
                write_file(&at.join(name(number)), stream.format, &files[number]);
            }
            if stream.continues && stream.repeats && first > 0 {
                // Under another name: its contents show that it was already read.
                let again = format!("again.{}", stream.format.word());
                write_file(&at.join(&again), stream.format, &files[first - 1]);
                names.insert(names.len() / 2, again);
            }
            if let Some(groups) = &run.groups {
                let declared = Declaration { groups: Some(groups.clone()), ..stream.declaration.clone() };
                std::fs::write(at.join("stream.toml"), toml::to_string(&declared).expect("TOML")).expect("written");
            }
            let outcome = self.run(at, stream, run, &names);
            std::fs::write(at.join("stream.toml"), &text).expect("written");
            if outcome.refusal.is_none() {
                read = run.files;
            }
            outcomes.push(outcome);
            if stream.continues {
                // Raw data of closed steps are never needed again.
                names.iter().for_each(|name| std::fs::remove_file(at.join(name)).expect("it was written"));
            }
        }
        outcomes
    }
}

impl Program {
    fn run(&self, at: &Path, stream: &Declared, run: &Run, names: &[String]) -> Outcome {
        let mut program = Command::new(&self.program);
        program.current_dir(at).env("TMPDIR", at.parent().expect("below another")).arg("release").args(names);
        program.args(["--config", "stream.toml", "--key", "k", "--out", "t.csv", "--no-plot"]);
        program.args(["--input-format", stream.format.word()]);
        match &run.through {
            Some(through) => program.args(["--through", through]),
            None => program.arg("--all"),
        };
        if stream.continues {
            program.arg("--continue");
        }
        let table = || std::fs::read_to_string(at.join("t.csv")).ok();
        let before = table();
        let ended = program.output().expect("the program starts");
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        let mut files = BTreeMap::from([("stdout".to_owned(), String::from_utf8_lossy(&ended.stdout).into_owned())]);
        let mut parts = 0;
        let mut folders = vec![at.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                let name = path.file_name().expect("a name").to_string_lossy().into_owned();
                if path.is_dir() {
                    folders.push(path);
                } else if path.parent() != Some(at) {
                    parts += 1; // named by their contents
                } else if !names.contains(&name) && name != "k" && name != "t.csv" {
                    let text = String::from_utf8_lossy(&std::fs::read(&path).expect("a file")).into_owned();
                    files.insert(name, public_ledger(&text.replace(&at.display().to_string(), "FOLDER")));
                }
            }
        }
        files.insert("parts".into(), parts.to_string());
        if !ended.status.success() {
            let code = ended.status.code().map_or("no status".into(), |code| code.to_string());
            let changed = if table() == before { None } else { table() };
            let table = changed.map(|table| TableRow::all_of(&table)).unwrap_or_default();
            return Outcome { refusal: Some(format!("{code}: {said}")), table, files };
        }
        // Equality of files is considered public; see the threat model.
        let of_files = |line: &&str| line.ends_with("files had been read before") || *line == "there is no new file";
        files.insert("stderr".into(), said.lines().filter(|line| !of_files(line)).collect::<Vec<_>>().join("\n"));
        // There is none before the end of the first publication.
        Outcome { refusal: None, table: table().map(|table| TableRow::all_of(&table)).unwrap_or_default(), files }
    }
}
