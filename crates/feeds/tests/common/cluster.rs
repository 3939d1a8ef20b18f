//! The mock cluster of librdkafka.

use super::python_with;
use evertally_feeds::{Source, SourceOptions, open};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A cluster, which ends with the test.
pub(crate) struct Cluster {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    pub(crate) address: String,
}

impl Cluster {
    pub(crate) fn start(brokers: usize) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kafka_cluster.py");
        let mut child = Command::new(python_with("confluent_kafka"))
            .args([script, &brokers.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("started");
        let commands = child.stdin.take().expect("piped");
        let mut answers = BufReader::new(child.stdout.take().expect("piped"));
        let mut address = String::new();
        answers.read_line(&mut address).expect("the address");
        Self { child, commands, answers, address: address.trim().to_owned() }
    }

    pub(crate) fn send(&mut self, command: &str) {
        writeln!(self.commands, "{command}").expect("the cluster runs");
    }

    pub(crate) fn wait(&mut self) {
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("the cluster runs");
        assert_eq!(answer.trim(), "0");
    }

    pub(crate) fn run(&mut self, command: &str) {
        self.send(command);
        self.wait();
    }

    pub(crate) fn open(&self, rest: &str) -> Box<dyn Source> {
        open(&format!("kafka://{}/{rest}", self.address), &SourceOptions::default()).expect("valid")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
