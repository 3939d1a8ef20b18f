//! Roles: the permissions of tokens and certificates.

use std::fmt;
use std::str::FromStr;

/// The permission of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sending batches to a stream.
    Write(String),
    /// Reading a stream that is not public.
    Read(String),
    /// Reading all streams.
    ReadAll,
    /// Seeing everything that an operator of the service sees, late events excepted, and changing nothing.
    Monitor,
    /// Reading one stream, closing its steps, adding groups, extending and retiring it.
    OperateStream(String),
    /// Everything but sending events.
    Operate,
}

impl Role {
    /// Whether it allows sending events to a stream.
    pub fn writes(&self, stream: &str) -> bool {
        matches!(self, Self::Write(name) if name == stream)
    }

    /// Whether it allows reading a stream.
    pub fn reads(&self, stream: &str) -> bool {
        match self {
            Self::Read(name) | Self::OperateStream(name) => name == stream,
            Self::ReadAll | Self::Monitor | Self::Operate => true,
            Self::Write(_) => false,
        }
    }

    /// Whether it allows operating the whole service.
    pub fn operates(&self) -> bool {
        matches!(self, Self::Operate)
    }

    /// Whether it allows operating a stream.
    pub fn operates_stream(&self, stream: &str) -> bool {
        match self {
            Self::Operate => true,
            Self::OperateStream(name) => name == stream,
            _ => false,
        }
    }

    /// Whether it shows the state of the service, with exact numbers of events.
    pub fn monitors(&self) -> bool {
        matches!(self, Self::Monitor | Self::Operate)
    }

    /// Whether it allows operating or seeing the state of something, which no browser must do by itself.
    pub fn is_of_operators(&self) -> bool {
        matches!(self, Self::Operate | Self::OperateStream(_) | Self::Monitor)
    }

    /// The stream that it is about, if it is about one.
    pub fn stream(&self) -> Option<&str> {
        match self {
            Self::Write(name) | Self::Read(name) | Self::OperateStream(name) => Some(name),
            Self::ReadAll | Self::Monitor | Self::Operate => None,
        }
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = |name: &str| (!name.is_empty() && name != "*").then(|| name.to_owned());
        let role = match text.split_once(':') {
            None if text == "operate" => Some(Self::Operate),
            None if text == "monitor" => Some(Self::Monitor),
            Some(("read", "*")) => Some(Self::ReadAll),
            Some(("read", stream)) => name(stream).map(Self::Read),
            Some(("write", stream)) => name(stream).map(Self::Write),
            Some(("operate", stream)) => name(stream).map(Self::OperateStream),
            _ => None,
        };
        role.ok_or_else(|| {
            format!("`{text}` is not a role: use write:STREAM, read:STREAM, read:*, operate:STREAM, monitor or operate")
        })
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(name) => write!(f, "write:{name}"),
            Self::Read(name) => write!(f, "read:{name}"),
            Self::ReadAll => f.write_str("read:*"),
            Self::Monitor => f.write_str("monitor"),
            Self::OperateStream(name) => write!(f, "operate:{name}"),
            Self::Operate => f.write_str("operate"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_words() {
        for word in ["operate", "monitor", "read:*", "read:a:b", "write:visits", "operate:a:b"] {
            assert_eq!(word.parse::<Role>().unwrap().to_string(), word);
        }
        for word in ["", "write", "write:", "write:*", "read:", "admin", "operate:", "operate:*", "monitor:x"] {
            assert!(word.parse::<Role>().is_err(), "{word}");
        }
    }
}
