//! Changes of the configuration while the service runs.

use super::files::check_changeable;
use super::opening::decoding_of;
use super::preflight::can_listen;
use super::{Running, app_settings, streams};
use crate::config::Config;
use crate::engine::{Intake, Refusal, Service};
use crate::http::feed_targets;
use evertally_declare::error::{Result, usage};
use std::net::SocketAddr;
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
        ("[standby]", old.standby != new.standby),
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
        // Another program may have a new address: that must be known before anything changes.
        let is_new = |address: &SocketAddr| !config.syslog.iter().any(|own| own.listen == *address);
        new.syslog.iter().map(|own| own.listen).filter(is_new).try_for_each(can_listen)?;
        let decoding = match config.limits == new.limits {
            true => service.decoding(), // shares of its memory are in use
            false => Arc::new(decoding_of(&new.limits)),
        };
        let retention = new.retention;
        let intake = Intake { sources: new.sources.clone(), ahead: new.steps.ahead.0, decoding, retention };
        let before = Intake::clone(&service.intake());
        service.change_intake(intake).map_err(Refusal::into_error)?;
        // New streams may spend from new sources.
        if let Err(error) = streams::check_new_streams(service, new) {
            service.change_intake(before).map_err(Refusal::into_error)?;
            return Err(error);
        }
        self.app.change_settings(app_settings(new));
        for stream in &new.streams {
            let taken_up = streams::take_up(service, new, stream);
            taken_up.map_err(|error| error.context("everything before this in the file was taken up"))?;
        }
        self.app.issuers.set(&new.identities)?;
        self.app.webhooks.set(&new.webhooks, service)?;
        self.app.feeds.set(&new.feeds, &feed_targets(&self.app))?;
        self.app.syslog.set(&new.syslog, &self.syslog)?;
        self.app.sinks.set(&new.sinks, service)?;
        self.app.backups.set(new.backups.as_deref(), new.backup_schedule.as_ref(), &service.folder_id);
        self.upkeep.set(&self.app, new);
        *config = new.clone();
        Ok(())
    }
}

/// Checks all that can be checked before anything changes.
fn check(service: &Service, new: &Config) -> Result<()> {
    check_changeable(new)?;
    streams::check_sources(service, new)?;
    for stream in &new.streams {
        if let Some(info) = service.stream(&stream.name) {
            let checked = streams::check_change(new, stream, &info.record());
            let checked = checked.and_then(|()| streams::check_parts(service, new, stream));
            checked.map_err(|error| streams::named(stream, &error))?;
        }
    }
    streams::check_named(new, |name| service.stream(name).is_some() || streams::is_configured(new, name))
}
