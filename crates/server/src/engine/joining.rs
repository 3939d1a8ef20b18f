//! Groups that join a running stream.

use super::core::Core;
use super::info::StreamState;
use super::refusal::Refusal;
use super::resolved::{Resolved, lines_of};
use super::settings::CHANGEABLE;
use crate::store::{EVENTS, NAMES, STATES, STREAMS, StateRecord, StreamRecord, stored, to_bytes};
use evertally_declare::error::{Result, failure, usage};
use evertally_declare::records::Records;
use serde_json::{Map, Value};

impl Core {
    /// Adds groups to a stream after the existing ones, from the open step on. They have their own rows and noise, and
    /// nothing else changes. The session is checkpointed in the same commit, so that counting after a crash begins with
    /// the new groups.
    ///
    /// # Errors
    /// If there is no such stream, it has ended or its groups are not declared, one of the groups exists already, or
    /// the store cannot be written.
    pub fn join_groups(&mut self, name: &str, more: &[Vec<String>]) -> Result<(), Refusal> {
        if let Some(why) = &self.read_only {
            return Err(Refusal::Halted(why.clone()));
        }
        let info = self.find(name).ok_or(Refusal::NoStream)?;
        let live = self.live.get_mut(&info.number).ok_or(Refusal::NoStream)?;
        if !matches!(live.state(), StreamState::Open | StreamState::Recovering(_)) {
            let word = live.state().word();
            return Err(Refusal::ReadOnly(format!("no group can join stream `{name}`: it is {word}")));
        }
        if info.groups().is_none() {
            return Err(usage(format!("stream `{name}` has no declared groups, so no group can join it")).into());
        }
        if live.session.live_state()?.is_none() {
            return Err(usage(format!(
                "stream `{name}` publishes several measures, and its open step has events already: groups join it \
                 between two steps; try again right after its next step is closed"
            ))
            .into());
        }
        let record = StreamRecord { declaration: with_groups(&info.record().declaration, more)?, ..info.record() };
        let resolved = Resolved::from_record(&record, &self.ledger, self.follows_of(info.number)?)?;
        let live = self.live.get_mut(&info.number).expect("just seen");
        if let Err(error) = live.session.join(&self.key, resolved.groups.clone()) {
            self.reload(info.number)?;
            return Err(error.into());
        }
        let lines = lines_of(&resolved).split_off(info.all_lines());
        if let Err(error) = self.write_joined(info.number, &record, &lines) {
            self.reload(info.number)?;
            return Err(error.into());
        }
        let live = self.live.get_mut(&info.number).expect("just seen");
        live.unsaved = 0;
        info.set_record(record);
        info.set_groups(resolved.groups, self.ledger.joined(&info.stream.name), live.session.placer());
        info.add_names(lines);
        (self.notify)(super::Notice::Changed(info));
        Ok(())
    }

    fn write_joined(&mut self, number: u32, record: &StreamRecord, lines: &[Vec<String>]) -> Result<()> {
        let live = self.live.get_mut(&number).expect("the stream is open");
        let session = live.session.live_state()?.ok_or_else(|| failure("the session cannot be checkpointed"))?;
        let (closed, counted) = (live.closed(), live.batches);
        let state = to_bytes(&StateRecord { closed, counted, session })?;
        self.store.change(|writing| {
            writing
                .open_table(STREAMS)
                .map_err(stored)?
                .insert(number, to_bytes(record)?.as_slice())
                .map_err(stored)?;
            writing.open_table(STATES).map_err(stored)?.insert(number, state.as_slice()).map_err(stored)?;
            let mut events = writing.open_table(EVENTS).map_err(stored)?;
            events.retain_in((number, 0, 0)..=(number, closed + 1, counted), |_, _| false).map_err(stored)?;
            let mut names = writing.open_table(NAMES).map_err(stored)?;
            let first = live.info.all_lines() as u32; // fits: places do
            for (place, line) in (first..).zip(lines) {
                names.insert((number, place), to_bytes(line)?.as_slice()).map_err(stored)?;
            }
            Ok(())
        })
    }
}

/// A declaration with more groups after its own.
fn with_groups(declaration: &str, more: &[Vec<String>]) -> Result<String> {
    let mut declared: Map<String, Value> = serde_json::from_str(declaration).map_err(failure)?;
    let groups = declared.entry("groups").or_insert_with(|| Value::Array(Vec::new()));
    let Value::Array(groups) = groups else { return Err(failure("the groups of the declaration are not a list")) };
    let as_texts = groups.iter().all(Value::is_string);
    for names in more {
        groups.push(match (as_texts, names.as_slice()) {
            (true, [name]) => Value::from(name.clone()),
            _ => Value::from(names.clone()),
        });
    }
    serde_json::to_string(&declared).map_err(failure)
}

/// The groups that `new` has after those of `old`; `None` if the declarations differ in anything else that an open
/// stream keeps.
pub fn added_groups(old: &str, new: &str) -> Option<Vec<Vec<String>>> {
    let [mut old, mut new] = [old, new].map(|text| serde_json::from_str::<Map<String, Value>>(text).ok());
    let (old, new) = (old.as_mut()?, new.as_mut()?);
    for declared in [&mut *old, &mut *new] {
        declared.retain(|name, _| !CHANGEABLE.contains(&name.as_str()));
    }
    let (before, after) = (old.remove("groups")?, new.remove("groups")?);
    // Groups of one column are texts, or lists of one text.
    let names = |groups: &Value| -> Option<Vec<Vec<String>>> {
        let group = |group: &Value| match group {
            Value::String(name) => Some(vec![name.clone()]),
            Value::Array(names) => names.iter().map(|name| name.as_str().map(str::to_owned)).collect(),
            _ => None,
        };
        groups.as_array()?.iter().map(group).collect()
    };
    let (before, mut after) = (names(&before)?, names(&after)?);
    if old != new || after.len() <= before.len() || after[..before.len()] != before[..] {
        return None;
    }
    Some(after.split_off(before.len()))
}
