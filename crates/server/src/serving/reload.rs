//! Changes of the configuration while the service runs.

use super::opening::decoding_of;
use super::{Running, app_settings, streams};
use crate::config::Config;
use crate::engine::{Core, Intake, Opening, Preview, Service};
use crate::webhook::Webhooks;
use evertally_declare::error::{Result, usage};
use std::sync::{Arc, PoisonError};

/// The settings that differ and need a restart.
fn fixed(old: &Config, new: &Config) -> Vec<&'static str> {
    let differs = [
        ("folder", old.folder != new.folder),
        ("key", old.key != new.key),
        ("passphrase", old.passphrase != new.passphrase),
        ("[public]", old.public != new.public),
        ("[private]", old.private != new.private),
        ("[witness]", old.witness != new.witness),
    ];
    differs.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
}

impl Running {
    /// Takes up a changed configuration: its streams, webhooks, limits, times of steps, sources and backups. What
    /// cannot change is checked before anything changes. It may take some seconds: new streams are planned.
    ///
    /// # Errors
    /// If something differs that needs a restart, or that an open stream cannot change, or a stream cannot be opened.
    pub fn reload(&self, new: &Config) -> Result<()> {
        let mut config = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        let fixed = fixed(&config, new);
        if !fixed.is_empty() {
            return Err(usage(format!("a change of {} needs a restart; nothing was taken up", fixed.join(", "))));
        }
        let service = &self.service;
        check(service, new)?;
        let decoding = match config.limits == new.limits {
            true => service.decoding(), // shares of its memory are in use
            false => Arc::new(decoding_of(&new.limits)),
        };
        let retention = new.retention.batch_ids.map(|kept| kept.0);
        let intake = Intake { sources: new.sources.clone(), ahead: new.steps.ahead.0, decoding, retention };
        service.change_intake(intake).map_err(streams::refused)?;
        self.app.change_settings(app_settings(new));
        for stream in &new.streams {
            streams::take_up(service, new, stream)?;
        }
        streams::check_webhooks(service, new)?;
        self.app.webhooks.set(&new.webhooks, service)?;
        self.app.backups.set(new.backups.as_deref(), new.backup_schedule.as_ref(), &service.folder_id);
        *config = new.clone();
        Ok(())
    }
}

/// Checks all that can be checked before anything changes.
fn check(service: &Service, new: &Config) -> Result<()> {
    Webhooks::check(&new.webhooks)?;
    for stream in &new.streams {
        let checked = match service.stream(&stream.name) {
            Some(info) => streams::check_change(new, stream, &info),
            None => plan(streams::opening_of(new, stream)).map(drop),
        };
        checked.map_err(|error| streams::named(stream, &error))?;
    }
    for hook in &new.webhooks {
        let is_configured = |name: &String| new.streams.iter().any(|stream| stream.name == *name);
        if let Some(unknown) = hook.streams.iter().find(|name| service.stream(name).is_none() && !is_configured(name)) {
            return Err(usage(format!("the webhook {} names the stream `{unknown}`, which does not exist", hook.url)));
        }
    }
    Ok(())
}

/// Plans a stream without a service.
pub(super) fn plan(opening: Opening) -> Result<Preview> {
    Core::plan(opening)
}
