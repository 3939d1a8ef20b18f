//! The streams of a configuration: opened, joined by new groups, or changed where they may change.

use crate::audit::{AuditEntry, AuditLog};
use crate::config::{Config, Extend, StreamConfig};
use crate::engine::{
    CHANGEABLE, Opening, Refusal, Service, StreamInfo, StreamSettings, StreamState, added_groups, fixed_differences,
    is_spent,
};
use crate::store::StreamRecord;
use evertally::privacy::Unit;
use evertally_declare::error::{PipelineError, Result, failure, usage};
use evertally_declare::problem::Wording;
use evertally_declare::stream::Stream;
use evertally_ledger::source::SourceBudget;
use serde_json::{Map, Value};

/// Opens a stream of the configuration, or takes up its changes if it is open already.
///
/// # Errors
/// If it cannot be opened, or differs from the open stream in something that cannot change.
pub(super) fn take_up(service: &Service, config: &Config, stream: &StreamConfig) -> Result<()> {
    let taken_up = match service.stream(&stream.name) {
        Some(info) => check_parts(service, config, stream)
            .and_then(|()| change(service, config, stream, &info))
            .and_then(|()| change_parts(service, config, stream)),
        None => service.open(opening_of(config, stream)).map_err(Refusal::into_error).map(|_| {
            let entry = AuditEntry::done("service", "open", &stream.name);
            AuditLog::from_folder(&config.folder).record(&entry);
        }),
    };
    taken_up.map_err(|error| named(stream, &error))
}

/// The opening of a stream as it is configured.
pub(super) fn opening_of(config: &Config, stream: &StreamConfig) -> Opening {
    Opening {
        declaration: stream.declaration.clone(),
        public: stream.public,
        source: stream.source.clone(),
        closing: stream.closing(&config.steps),
        id: stream.id.clone(),
    }
}

/// An error about a stream, with its parameters named as in the configuration file.
pub(super) fn named(stream: &StreamConfig, error: &PipelineError) -> PipelineError {
    let worded = StreamConfig::in_words(error.worded(Wording::Toml));
    let place = stream.at(&worded);
    let error = if error.is_usage() { usage(worded) } else { failure(worded) };
    error.context(place)
}

/// Checks whether the configuration of an open stream can be taken up.
///
/// # Errors
/// The names of the settings that cannot change, or that are invalid.
pub(super) fn check_change(config: &Config, stream: &StreamConfig, record: &StreamRecord) -> Result<()> {
    if record.id != stream.id {
        return Err(fixed("`id`"));
    }
    settings_of(config, stream).check(record)?;
    let same_source = record.source == stream.source;
    let is_joined = added_groups(&record.declaration, &stream.declaration).is_some();
    let was_joined = added_groups(&stream.declaration, &record.declaration).is_some();
    if same_source && (is_joined || was_joined) {
        return Ok(());
    }
    let Some(differing) = fixed_differences(&record.declaration, &stream.declaration, !same_source) else {
        return Ok(());
    };
    Err(fixed(&differing))
}

fn fixed(differing: &str) -> PipelineError {
    usage(format!(
        "the configuration differs from the open stream in {differing}, which cannot change: restore the previous \
         settings, or retire the stream and choose another name for the new one"
    ))
}

/// Checks whether the part of an extended stream that is open, or was last, can take up the groups of its
/// configuration: some may have joined that part alone, over the API.
///
/// # Errors
/// If the groups differ in anything but further ones at their end.
pub(super) fn check_parts(service: &Service, config: &Config, stream: &StreamConfig) -> Result<()> {
    let parts = service.parts_of(&stream.name);
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return Ok(()) };
    if parts.len() < 2 || matches!(last.progress().state, StreamState::Retired | StreamState::Failed(_)) {
        return Ok(());
    }
    check_part(config, stream, (&last.record(), &first.stream.title))
}

/// Checks whether a part of a stream can take up the configuration of the stream with this title.
///
/// # Errors
/// If its groups differ in anything but further ones at their end, or a setting is invalid or cannot change.
pub(super) fn check_part(config: &Config, stream: &StreamConfig, (part, title): (&StreamRecord, &str)) -> Result<()> {
    let wanted = declaration_of_part(&stream.declaration, &part.declaration, title)?;
    check_groups(&part.name, &part.declaration, &wanted)?;
    StreamSettings { declaration: wanted, ..settings_of(config, stream) }.check(part)
}

/// Checks that the configured groups of a part are its own ones, with more or fewer at their end.
fn check_groups(part: &str, declared: &str, wanted: &str) -> Result<()> {
    let (Some(own), Some(wanted)) = (listed_groups(declared), listed_groups(wanted)) else { return Ok(()) };
    if own.starts_with(&wanted) || wanted.starts_with(&own) {
        return Ok(());
    }
    Err(usage(format!(
        "the configuration differs from stream `{part}`, which continues this one, in `groups`: list the groups of \
         `{part}` first and in its order, also those that joined it over the API, and new ones after them"
    )))
}

/// The groups that a declaration lists. Groups of one column are texts, or lists of one text.
fn listed_groups(declared: &str) -> Option<Vec<Vec<String>>> {
    let declared: Map<String, Value> = serde_json::from_str(declared).ok()?;
    let group = |group: &Value| match group {
        Value::String(name) => Some(vec![name.clone()]),
        Value::Array(names) => names.iter().map(|name| name.as_str().map(str::to_owned)).collect(),
        _ => None,
    };
    declared.get("groups")?.as_array()?.iter().map(group).collect()
}

/// Takes up the configuration of a stream for the streams that extend it: who may read them, when their steps are
/// closed, how rows are treated, their titles and their groups.
///
/// # Errors
/// If a setting is invalid, or a group cannot join.
pub(super) fn change_parts(service: &Service, config: &Config, stream: &StreamConfig) -> Result<()> {
    let parts = service.parts_of(&stream.name);
    let Some((first, others)) = parts.split_first() else { return Ok(()) };
    for part in others {
        let record = part.record();
        let wanted = declaration_of_part(&stream.declaration, &record.declaration, &first.stream.title)?;
        if part.progress().state == StreamState::Open
            && let Some(groups) = added_groups(&record.declaration, &wanted)
        {
            tracing::info!(stream = part.name(), groups = groups.len(), "groups join");
            service.join_groups(part.name(), groups).map_err(Refusal::into_error)?;
        }
        let wanted = StreamSettings { declaration: wanted, ..settings_of(config, stream) };
        match service.change_settings(part.name(), wanted) {
            Ok(names) if names.is_empty() => {}
            Ok(names) => {
                tracing::info!(stream = part.name(), settings = names.join(", "), "changed settings are taken up");
            }
            Err(Refusal::Halted(why) | Refusal::ReadOnly(why)) => {
                tracing::warn!(stream = part.name(), why, "changed settings wait");
            }
            Err(refusal) => return Err(refusal.into_error()),
        }
    }
    Ok(())
}

/// The declaration of a part of a stream with what may change in that of the stream. The title is that of the first
/// part, which may be its name.
fn declaration_of_part(stream: &str, part: &str, title: &str) -> Result<String> {
    let parsed = |text: &str| serde_json::from_str::<Map<String, Value>>(text).map_err(failure);
    let (stream, mut declared) = (parsed(stream)?, parsed(part)?);
    for name in CHANGEABLE.into_iter().chain(["groups"]) {
        match stream.get(name) {
            Some(value) => declared.insert(name.to_owned(), value.clone()),
            None => declared.remove(name),
        };
    }
    declared.insert("title".to_owned(), title.into());
    serde_json::to_string(&declared).map_err(failure)
}

fn settings_of(config: &Config, stream: &StreamConfig) -> StreamSettings {
    let closing = stream.closing(&config.steps);
    StreamSettings { declaration: stream.declaration.clone(), public: stream.public, closing }
}

fn change(service: &Service, config: &Config, stream: &StreamConfig, info: &StreamInfo) -> Result<()> {
    check_change(config, stream, &info.record())?;
    let wanted = settings_of(config, stream);
    let joining = added_groups(&info.record().declaration, &stream.declaration);
    if matches!(info.progress().state, StreamState::Recovering(_)) {
        if let Some(groups) = joining {
            // They must join after the same step as before, which only the operator knows.
            tracing::warn!(stream = %stream.name, groups = groups.len(), "groups wait until the stream has recovered");
        }
        if let Err(refusal) = service.change_settings(&stream.name, wanted) {
            tracing::warn!(stream = %stream.name, %refusal, "changed settings wait");
        }
        return Ok(());
    }
    let is_open = info.progress().state == StreamState::Open;
    match joining {
        Some(groups) if is_open => {
            tracing::info!(stream = %stream.name, groups = groups.len(), "groups join");
            service.join_groups(&stream.name, groups).map_err(Refusal::into_error)?;
        }
        // They join the stream that continues it.
        Some(_) if service.parts_of(&stream.name).len() > 1 => {}
        Some(_) => tracing::warn!(stream = %stream.name, "no group can join: the stream is not open"),
        None => {}
    }
    if let Some(more) = added_groups(&stream.declaration, &info.record().declaration).filter(|_| is_open) {
        let groups = more.len();
        tracing::warn!(stream = %stream.name, groups, "the configuration lacks groups of the stream, which continue");
    }
    match service.change_settings(&stream.name, wanted) {
        Ok(names) if names.is_empty() => {}
        Ok(names) => {
            tracing::info!(stream = %stream.name, settings = names.join(", "), "changed settings are taken up");
        }
        // A service that has halted still shows its releases.
        Err(Refusal::Halted(why)) => tracing::warn!(stream = %stream.name, why, "changed settings wait"),
        Err(refusal) => return Err(refusal.into_error()),
    }
    Ok(())
}

/// Checks that the budget of every source knows the streams that spend from it: another file under the same name would
/// let them spend the total again.
///
/// # Errors
/// The first that does not.
pub(super) fn check_sources(service: &Service, config: &Config) -> Result<()> {
    let records: Vec<StreamRecord> = service.streams().iter().map(|info| info.record()).collect();
    check_known(&records, &service.key_id, config)
}

/// The same for the records of streams.
///
/// # Errors
/// As [`check_sources`].
pub(super) fn check_known(records: &[StreamRecord], key_id: &str, config: &Config) -> Result<()> {
    for record in records {
        let source = record.source.as_ref().and_then(|name| config.sources.get_key_value(name));
        let Some((source, path)) = source else { continue };
        let budget = SourceBudget::from_file(path).and_then(|budget| budget.state());
        let state = budget.map_err(|error| error.context(format_args!("source `{source}`")))?;
        let name = &record.name;
        if !is_spent(&state.costs, name, key_id) {
            return Err(usage(format!(
                "the budget {} of source `{source}` does not know stream `{name}`, which spends from it: restore the \
                 previous file",
                path.display()
            )));
        }
    }
    Ok(())
}

/// What the extensions of a stream cost, in words; `None` if it is not extended.
pub(super) fn extension_cost(stream: &StreamConfig, planned: &Stream) -> Option<String> {
    let extend = stream.extend?;
    let name = &stream.name;
    let request = planned.plan.request();
    let (budget, unit) = (request.budget(), planned.unit());
    let cost = match request.unit() {
        Unit::Event => format!("each {unit} is in one part only, so the guarantee of {budget} stays"),
        _ => format!("each extension spends {budget} again for {unit} with data in both"),
    };
    let how_often = match (extend, &stream.source) {
        (Extend::Automatic, Some(source)) => format!("as often as the budget of source `{source}` allows"),
        (Extend::Automatic, None) => "without end".to_owned(),
        (Extend::Times(1), _) => "once".to_owned(),
        (Extend::Times(times), _) => format!("at most {times} times"),
    };
    Some(format!(
        "stream `{name}` is extended automatically by {} steps, as `{name} #2` and so on, {how_often}: {cost}",
        planned.calendar.steps()
    ))
}

/// Checks whether the streams that are not open yet could all be opened.
pub(super) fn check_new_streams(service: &Service, new: &Config) -> Result<()> {
    let missing: Vec<&StreamConfig> =
        new.streams.iter().filter(|stream| service.stream(&stream.name).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let openings = missing.iter().map(|stream| opening_of(new, stream)).collect();
    service.preview_all(openings).map_err(|(place, refusal)| named(missing[place], &refusal.into_error()))
}

/// Checks that the folder for backups exists.
pub(super) fn check_backups(config: &Config) -> Result<()> {
    match &config.backups {
        Some(folder) if !folder.is_dir() => {
            Err(usage(format!("the folder for backups, {}, does not exist; create it", folder.display())))
        }
        _ => Ok(()),
    }
}

/// Checks that every stream that a feed, a sink, a webhook or a listener for syslog names exists.
///
/// # Errors
/// The first that does not.
pub(super) fn check_named(config: &Config, exists: impl Fn(&str) -> bool) -> Result<()> {
    match named_by(config).into_iter().find(|(_, name)| !exists(name)) {
        Some((what, name)) => Err(usage(format!(
            "{what} names the stream `{name}`, which does not exist: correct the name, or open the stream first"
        ))),
        None => Ok(()),
    }
}

/// The streams that other tables name, each with its table.
pub(super) fn named_by(config: &Config) -> Vec<(String, &str)> {
    let feeds = config.feeds.iter().map(|feed| ("a [[feed]]".to_owned(), feed.stream.as_str()));
    let syslog = config.syslog.iter().map(|own| (format!("the [[syslog]] at {}", own.listen), own.stream.as_str()));
    let sinks = config.sinks.iter().map(|sink| ("a [[sink]]".to_owned(), sink.stream.as_str()));
    let hooks = config.webhooks.iter().flat_map(|hook| {
        let named = hook.streams.iter().map(String::as_str);
        named.map(|name| (format!("the [[webhook]] {}", hook.name()), name))
    });
    feeds.chain(syslog).chain(sinks).chain(hooks).collect()
}

/// The name of the first part of an extended stream, from that of any part.
pub(super) fn first_part(name: &str) -> &str {
    let part = name.rsplit_once(" #");
    part.filter(|(_, place)| place.parse::<u32>().is_ok()).map_or(name, |(first, _)| first)
}

/// Whether a configuration has a stream.
pub(super) fn is_configured(config: &Config, name: &str) -> bool {
    config.streams.iter().any(|stream| stream.name == name)
}

/// The names of open streams that no configuration names: they continue all the same.
pub(super) fn unconfigured(service: &Service, config: &Config) -> Vec<String> {
    let is_configured = |info: &StreamInfo| {
        let name = info.name();
        is_configured(config, name) || is_configured(config, first_part(name))
    };
    let streams = service.streams();
    let unnamed = streams.iter().filter(|info| info.progress().state == StreamState::Open && !is_configured(info));
    unnamed.map(|info| info.name().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_a_part_are_not_dropped() {
        let part = r#"{"stream":"v #2","title":"v","epsilon":1,"groups":["a","x"]}"#;
        let of_stream = |groups: &str| format!(r#"{{"stream":"v","epsilon":1,"groups":[{groups}]}}"#);
        let checked = |groups: &str| {
            let wanted = declaration_of_part(&of_stream(groups), part, "v").unwrap();
            check_groups("v #2", part, &wanted).map_err(|error| error.to_string())
        };
        for taken_up in [r#""a""#, r#""a","x""#, r#""a","x","b""#] {
            assert_eq!(checked(taken_up), Ok(()), "{taken_up}");
        }
        let refused = checked(r#""a","b""#).unwrap_err();
        assert!(refused.contains("`v #2`") && refused.contains("`groups`"), "{refused}");
    }
}
