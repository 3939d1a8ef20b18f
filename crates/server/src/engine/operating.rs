//! What operators ask of the counting thread.

use super::erasing::PersonCell;
use super::info::StreamInfo;
use super::opening::{self, Next, Opening, Preview};
use super::refusal::Refusal;
use super::service::Service;
use super::settings::StreamSettings;
use evertally_declare::error::Result;
use std::sync::Arc;

impl Service {
    /// Plans a stream and its cost, without opening it.
    ///
    /// # Errors
    /// If it could not be opened.
    pub fn preview(&self, opening: Opening) -> Result<Preview, Refusal> {
        let mut preview = opening::preview(opening)?;
        self.ask(move |core| {
            core.check(&mut preview)?;
            Ok(preview)
        })
    }

    /// Plans streams that are to be opened together, without opening them.
    ///
    /// # Errors
    /// The place of the first that could not be opened after the ones before it, and why.
    pub fn preview_all(&self, openings: Vec<Opening>) -> Result<(), (usize, Refusal)> {
        let mut previews = Vec::new();
        for (place, opening) in openings.into_iter().enumerate() {
            previews.push(self.preview(opening).map_err(|refusal| (place, refusal))?);
        }
        let checked = self.ask(move |core| Ok(core.check_together(&previews)));
        let checked = checked.map_err(|refusal| (0, refusal))?;
        checked.map_err(|(place, error)| (place, error.into()))
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// As [`preview`](Self::preview), or if the store cannot be written.
    pub fn open(&self, opening: Opening) -> Result<Arc<StreamInfo>, Refusal> {
        let preview = opening::preview(opening)?;
        let name = preview.stream().name.to_string();
        self.ask(move |core| core.open_stream(preview))?;
        let info = self.stream(&name).ok_or(Refusal::NoStream)?;
        info.compute_promise();
        Ok(info)
    }

    /// Closes steps through `through`, of a stream that its operator closes.
    ///
    /// # Errors
    /// As [`Core::close_through`](super::core::Core::close_through).
    pub fn close_through(&self, name: &str, through: u64) -> Result<(), Refusal> {
        let name = name.to_owned();
        self.ask(move |core| core.close_through(&name, through))
    }

    /// Retires a stream.
    ///
    /// # Errors
    /// As [`Core::retire`](super::core::Core::retire).
    pub fn retire(&self, name: &str) -> Result<(), Refusal> {
        let name = name.to_owned();
        self.ask(move |core| core.retire(&name))?;
        if !self.wait_until_shipped() {
            tracing::warn!("a stream was retired, and the standby folder does not have it yet");
        }
        Ok(())
    }

    /// Erases a person from a stream.
    ///
    /// # Errors
    /// As [`Core::erase`](super::core::Core::erase).
    pub fn erase(&self, name: &str, person: PersonCell) -> Result<u64, Refusal> {
        let name = name.to_owned();
        let step = self.ask(move |core| core.erase(&name, &person))?;
        match self.wait_until_shipped() {
            true => Ok(step),
            false => Err(Refusal::Halted(
                "the person is erased on this machine, but the standby folder does not have it yet: a takeover now \
                 would undo it. Repeat the request when the folder can be reached"
                    .into(),
            )),
        }
    }

    /// Opens the stream that continues another after its horizon; returns its name.
    ///
    /// # Errors
    /// As [`Core::next_of`](super::core::Core::next_of), and if it cannot be opened.
    pub fn extend(&self, name: &str) -> Result<String, Refusal> {
        self.extend_by(name, Next::planned)
    }

    /// The same for an extension that nobody has requested: its first steps may have ended while the service was
    /// stopped.
    ///
    /// # Errors
    /// As [`extend`](Self::extend).
    pub(crate) fn extend_automatically(&self, name: &str) -> Result<String, Refusal> {
        self.extend_by(name, Next::planned_automatically)
    }

    fn extend_by(&self, name: &str, plan: fn(Next) -> Result<Preview>) -> Result<String, Refusal> {
        let name = name.to_owned();
        let next = self.ask(move |core| core.next_of(&name))?;
        // Planned in this thread, while all streams keep running.
        let preview = plan(next)?;
        let name = preview.stream().name.to_string();
        self.ask(move |core| core.open_stream(preview))?;
        if let Some(info) = self.stream(&name) {
            info.compute_promise();
        }
        Ok(name)
    }

    /// Takes up changed settings of an open stream, and returns their names.
    ///
    /// # Errors
    /// As [`Core::change_settings`](super::core::Core::change_settings).
    pub fn change_settings(&self, name: &str, wanted: StreamSettings) -> Result<Vec<&'static str>, Refusal> {
        let owned = name.to_owned();
        let names = self.ask(move |core| core.change_settings(&owned, &wanted))?;
        if let Some(info) = self.stream(name).filter(|_| !names.is_empty()) {
            info.compute_promise();
        }
        Ok(names)
    }

    /// Lets groups join a stream.
    ///
    /// # Errors
    /// As [`Core::join_groups`](super::core::Core::join_groups).
    pub fn join_groups(&self, name: &str, groups: Vec<Vec<String>>) -> Result<(), Refusal> {
        let name = name.to_owned();
        self.ask(move |core| core.join_groups(&name, &groups))
    }
}
