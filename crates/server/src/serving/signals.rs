//! Signals of the operating system.

use evertally_declare::error::Result;

/// Handles Ctrl-C and the signal of a service manager from now on. The future waits for one of them. Call this before
/// anything tells people that the service runs.
///
/// # Errors
/// If signal handlers cannot be installed.
#[cfg(unix)]
pub fn shutdown_signal() -> Result<impl Future<Output = Result<()>>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut end, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = end.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(())
    })
}

/// Waits for Ctrl-C.
///
/// # Errors
/// None.
#[cfg(not(unix))]
pub fn shutdown_signal() -> Result<impl Future<Output = Result<()>>> {
    Ok(async { Ok(tokio::signal::ctrl_c().await?) })
}

/// Waits for signals to read the configuration again: SIGHUP. On other systems there is none.
pub(crate) struct ReloadSignal {
    #[cfg(unix)]
    hangup: tokio::signal::unix::Signal,
}

impl ReloadSignal {
    /// Handles the signal from now on: without this it would end the process. One that comes before the first
    /// [`next`](Self::next) is not lost. Must be called inside the runtime.
    ///
    /// # Errors
    /// If the handler cannot be installed.
    #[cfg(unix)]
    pub(crate) fn new() -> Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { hangup: signal(SignalKind::hangup())? })
    }

    #[cfg(not(unix))]
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {})
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) {
        #[cfg(unix)]
        if self.hangup.recv().await.is_some() {
            return;
        }
        std::future::pending::<()>().await;
    }
}
