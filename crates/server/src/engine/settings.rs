//! Settings of an open stream that may change: none of them changes its plan, its noise, or what one person can change
//! in its sums.

use super::core::Core;
use super::info::StreamState;
use super::refusal::Refusal;
use super::resolved::Resolved;
use super::{Notice, StreamInfo};
use crate::store::{ClosedBy, StreamRecord};
use evertally_declare::declaration::Declaration;
use evertally_declare::error::{Result, failure, usage};
use serde_json::{Map, Value};
use std::sync::Arc;

/// The parameters of a declaration that may change while the stream is open: its title, and how rows are treated that
/// come late or do not fit.
pub const CHANGEABLE: [&str; 5] = ["late", "missing", "outside", "title", "unknown-group"];

type Declared = Map<String, Value>;

/// The settings of an open stream as they are declared now.
#[derive(Clone, Debug)]
pub struct StreamSettings {
    /// The declaration, as JSON. Only its [changeable](CHANGEABLE) parameters are taken up.
    pub declaration: String,
    /// Whether anybody may read it.
    pub public: bool,
    /// Who closes its steps, and when.
    pub closing: ClosedBy,
}

impl StreamSettings {
    /// Checks whether a stream could take the settings up.
    ///
    /// # Errors
    /// If they are invalid, or its steps would be closed by somebody else.
    pub fn check(&self, record: &StreamRecord) -> Result<()> {
        let declared = Declaration::from_json(&self.declaration)?;
        declared.check_service()?;
        declared.resolve()?;
        self.applied(record).map(drop)
    }

    /// The record of a stream with these settings, and the names of those that differ.
    ///
    /// # Errors
    /// If the steps would be closed by somebody else.
    fn applied(&self, record: &StreamRecord) -> Result<(StreamRecord, Vec<&'static str>)> {
        let (mut declared, wanted) = (parsed(&record.declaration)?, parsed(&self.declaration)?);
        let mut names: Vec<&'static str> = Vec::new();
        for name in CHANGEABLE {
            if declared.get(name) == wanted.get(name) {
                continue;
            }
            names.push(name);
            match wanted.get(name) {
                Some(value) => declared.insert(name.to_owned(), value.clone()),
                None => declared.remove(name),
            };
        }
        if record.public != self.public {
            names.push("public");
        }
        match (record.closing, self.closing) {
            (ClosedBy::Schedule { grace, delay }, ClosedBy::Schedule { grace: new_grace, delay: new_delay }) => {
                names.extend((grace != new_grace).then_some("grace"));
                names.extend((delay != new_delay).then_some("delay"));
            }
            (old, new) if old == new => {}
            (old, new) => {
                return Err(usage(format!(
                    "`closing` is \"{}\" and cannot become \"{}\": open streams keep it. Restore the previous setting, \
                     or retire the stream and choose another name for the new one",
                    old.word(),
                    new.word()
                )));
            }
        }
        let declaration = serde_json::to_string(&declared).map_err(failure)?;
        Ok((StreamRecord { declaration, public: self.public, closing: self.closing, ..record.clone() }, names))
    }
}

fn parsed(declaration: &str) -> Result<Declared> {
    serde_json::from_str(declaration).map_err(failure)
}

/// The names of the parameters that differ between two declarations and cannot change; `None` if there are none.
pub fn fixed_differences(a: &str, b: &str, source_differs: bool) -> Option<String> {
    let [a, b] = [a, b].map(|text| parsed(text).unwrap_or_default());
    let mut names: Vec<&str> = a.keys().chain(b.keys()).map(String::as_str).collect();
    names.retain(|name| a.get(*name) != b.get(*name) && !CHANGEABLE.contains(name));
    names.extend(source_differs.then_some("source"));
    names.sort_unstable();
    names.dedup();
    (!names.is_empty()).then(|| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))
}

impl Core {
    /// Takes up changed settings of a stream, from its open step on, and returns their names. Rows that are accepted or
    /// released already stay as they are.
    ///
    /// # Errors
    /// If there is no such stream, it recovers, its steps would be closed by somebody else, a new value is invalid, or
    /// the store cannot be written; then nothing has changed.
    pub fn change_settings(&mut self, name: &str, wanted: &StreamSettings) -> Result<Vec<&'static str>, Refusal> {
        let info = self.find(name).ok_or(Refusal::NoStream)?;
        let old = info.record();
        let (record, names) = wanted.applied(&old)?;
        if names.is_empty() {
            return Ok(names);
        }
        if let Some(why) = &self.read_only {
            return Err(Refusal::Halted(why.clone()));
        }
        let number = info.number;
        let is_recovering = matches!(info.progress().state, StreamState::Recovering(_));
        if is_recovering && names.iter().any(|name| *name != "public") {
            let problem = format!("the settings of stream `{name}` can change once it has recovered");
            return Err(Refusal::ReadOnly(problem));
        }
        if record.declaration == old.declaration {
            self.change_record(&info, record.clone())?;
            let live = self.live.get_mut(&number).ok_or(Refusal::NoStream)?;
            live.closing = record.closing;
            live.update_progress(None);
            (self.notify)(Notice::Changed(info));
        } else {
            self.reopen(&info, record)?;
        }
        Ok(names)
    }

    /// Loads a stream again under a changed record. Accepted events are stored as they are counted, so the changed
    /// declaration applies to later batches only.
    fn reopen(&mut self, info: &StreamInfo, record: StreamRecord) -> Result<(), Refusal> {
        let number = info.number;
        Resolved::from_record(&record, &self.ledger, self.follows_of(number)?)?;
        self.put_by(number)?; // so that less is counted again
        let mut live = self.load(number, record.clone())?;
        let before = self.live.get(&number).ok_or(Refusal::NoStream)?;
        live.acknowledged = before.acknowledged;
        self.load_unpublished(&mut live)?;
        self.change_record(info, record)?;
        live.info.counts.continue_from(&info.counts);
        let info = Arc::clone(&live.info);
        self.put(live);
        (self.notify)(Notice::Changed(info));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Phase;

    fn record(declaration: &str, closing: ClosedBy) -> StreamRecord {
        StreamRecord {
            name: "s".to_owned(),
            declaration: declaration.to_owned(),
            public: false,
            source: None,
            closing,
            opened_at: 0,
            phase: Phase::Open,
            id: None,
        }
    }

    #[test]
    fn only_harmless_settings_are_taken_up() {
        let schedule = |grace, delay| ClosedBy::Schedule { grace, delay };
        let old = record(r#"{"stream":"s","epsilon":1,"late":"refuse","title":"a"}"#, schedule(60, 5));
        let wanted = StreamSettings {
            declaration: r#"{"stream":"s","epsilon":2,"late":"next-step","missing":"skip"}"#.to_owned(),
            public: true,
            closing: schedule(60, 6),
        };
        let (new, names) = wanted.applied(&old).unwrap();
        assert_eq!(names, ["late", "missing", "title", "public", "delay"]);
        let declared = parsed(&new.declaration).unwrap();
        assert_eq!((declared.get("epsilon"), declared.get("title")), (Some(&Value::from(1)), None));
        assert_eq!(new.closing, schedule(60, 6));
        assert_eq!(wanted.applied(&new).unwrap().1, <[&str; 0]>::default());
        assert_eq!(fixed_differences(&old.declaration, &wanted.declaration, true).unwrap(), "`epsilon`, `source`");
        assert_eq!(fixed_differences(&old.declaration, &new.declaration, false), None);
        let by_hand = StreamSettings { closing: ClosedBy::Operator, ..wanted };
        assert!(by_hand.applied(&old).unwrap_err().to_string().contains("`closing`"));
    }
}
