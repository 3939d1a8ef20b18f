//! Sockets that listen: of an address, or of a path.

use crate::config::{ListenAddress, Listener};
use evertally_declare::error::{Context, Result};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tokio::net::{TcpListener, TcpStream};

#[cfg(unix)]
pub(crate) use unix::check;

/// A connection.
#[cfg(unix)]
pub(super) type ClientSocket = tokio_util::either::Either<TcpStream, tokio::net::UnixStream>;
/// A connection.
#[cfg(not(unix))]
pub(super) type ClientSocket = TcpStream;

/// A socket that listens.
pub(super) enum ListeningSocket {
    Tcp(TcpListener, SocketAddr),
    #[cfg(unix)]
    Unix(unix::SocketFile),
}

impl ListeningSocket {
    /// Binds the socket of a listener.
    ///
    /// # Errors
    /// If the address or the path is in use.
    pub(super) async fn bind(config: &Listener) -> Result<Self> {
        let what = || format!("cannot listen at {}", config.listen);
        match &config.listen {
            ListenAddress::Tcp(address) => {
                let listener = TcpListener::bind(address).await.context(what())?;
                let address = listener.local_addr()?;
                Ok(Self::Tcp(listener, address))
            }
            #[cfg(unix)]
            ListenAddress::Unix(path) => {
                let mode = config.socket_mode.unwrap_or(unix::DEFAULT_MODE);
                Ok(Self::Unix(unix::SocketFile::bind(path, mode).map_err(|error| error.context(what()))?))
            }
            #[cfg(not(unix))]
            ListenAddress::Unix(_) => {
                Err(evertally_declare::error::usage("this system has no Unix sockets: listen at an address and a port"))
            }
        }
    }

    /// Accepts a connection. The clients of a path are those of this machine.
    pub(super) async fn accept(&self) -> io::Result<(ClientSocket, IpAddr)> {
        match self {
            Self::Tcp(listener, _) => {
                let (socket, peer) = listener.accept().await?;
                let _ = socket.set_nodelay(true);
                #[cfg(unix)]
                let socket = ClientSocket::Left(socket);
                Ok((socket, peer.ip().to_canonical()))
            }
            #[cfg(unix)]
            Self::Unix(file) => {
                let (socket, _) = file.listener.accept().await?;
                Ok((ClientSocket::Right(socket), Ipv4Addr::LOCALHOST.into()))
            }
        }
    }

    /// Its URL.
    pub(super) fn url(&self, is_encrypted: bool) -> String {
        match self {
            Self::Tcp(_, address) => format!("{}://{address}", if is_encrypted { "https" } else { "http" }),
            #[cfg(unix)]
            Self::Unix(file) => format!("unix:{}", file.path.display()),
        }
    }
}

#[cfg(unix)]
#[expect(clippy::disallowed_methods, reason = "a socket has no content that a crash could tear")]
mod unix {
    use evertally_declare::error::{Context, Result, usage};
    use std::fs::{Metadata, Permissions};
    use std::io::ErrorKind;
    use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
    use std::os::unix::net::UnixStream;
    use std::path::{Path, PathBuf};
    use tokio::net::UnixListener;

    /// The owner and the group may connect.
    pub(in super::super) const DEFAULT_MODE: u32 = 0o660;

    /// A socket with a path, which is removed with it.
    pub(in super::super) struct SocketFile {
        pub(super) listener: UnixListener,
        pub(super) path: PathBuf,
        inode: u64,
    }

    /// Checks whether a socket could be made at a path.
    ///
    /// # Errors
    /// If its folder does not exist, or something else is there.
    pub(crate) fn check(path: &Path) -> Result<()> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !folder.is_dir() {
            return Err(usage(format!("the folder of the socket, {}, does not exist; create it", folder.display())));
        }
        match std::fs::symlink_metadata(path) {
            Ok(meta) if !meta.file_type().is_socket() => {
                Err(usage(format!("{} exists and is not a socket; choose another path", path.display())))
            }
            _ => Ok(()),
        }
    }

    impl SocketFile {
        /// Replaces a socket that an earlier process has left, but not one that a process listens at.
        pub(super) fn bind(path: &Path, mode: u32) -> Result<Self> {
            check(path)?;
            match UnixStream::connect(path) {
                Ok(_) => return Err(usage("another process listens there")),
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {}
                Err(error) => return Err(error.into()),
            }
            // Under another name until its permissions are set: nobody else may connect before.
            let mut new = path.as_os_str().to_owned();
            new.push(".new");
            let new = PathBuf::from(new);
            match std::fs::remove_file(&new) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(error).context(format_args!("cannot remove {}", new.display()));
                }
                _ => {}
            }
            let listener = UnixListener::bind(&new)?;
            std::fs::set_permissions(&new, Permissions::from_mode(mode))?;
            let inode = std::fs::symlink_metadata(&new)?.ino();
            std::fs::rename(&new, path)?;
            Ok(Self { listener, path: path.to_owned(), inode })
        }
    }

    impl Drop for SocketFile {
        fn drop(&mut self) {
            let is_own = |meta: Metadata| meta.ino() == self.inode;
            if std::fs::symlink_metadata(&self.path).is_ok_and(is_own) {
                let _ = std::fs::remove_file(&self.path);
            }
        }
    }
}
