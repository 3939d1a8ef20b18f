//! URLs of sources.

use evertally_declare::error::{Result, usage};
use percent_encoding::percent_decode_str;
use std::time::Duration;

/// The URL of a source, `SCHEME://USER@HOST:PORT,HOST:PORT/PATH?NAME=VALUE&...`, in its parts.
///
/// ```
/// # use evertally_feeds::Address;
/// let address = Address::parse("kafka://feeder@b1:9092,b2/visits?tls=true")?;
/// assert_eq!(address.hosts, [("b1".to_owned(), Some(9092)), ("b2".to_owned(), None)]);
/// assert_eq!((address.user.as_deref(), address.path.as_str()), (Some("feeder"), "visits"));
/// assert_eq!(address.query.clone().flag("tls")?, true);
/// # Ok::<_, evertally_declare::error::PipelineError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The scheme, in small letters.
    pub scheme: String,
    /// The name of the user.
    pub user: Option<String>,
    /// Names of hosts, with their ports. An address of IP version 6 has no brackets.
    pub hosts: Vec<(String, Option<u16>)>,
    /// The rest after the slash that ends the hosts, decoded.
    pub path: String,
    /// The parameters.
    pub query: Query,
}

/// The parameters of a URL. Each is taken out once, so that those which remain are unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Address {
    /// Parses a URL.
    ///
    /// # Errors
    /// If a part is invalid, or there is a password: others on the machine could read it from the command line, and
    /// configurations are shared.
    pub fn parse(url: &str) -> Result<Self> {
        let (scheme, rest) =
            url.split_once("://").ok_or_else(|| usage("this is not a URL: it begins with SCHEME://HOST"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, _)) if user.contains(':') => {
                return Err(usage(
                    "the URL has a password, which others could read: write it to a file, and name that \
                     with --password-file (in a configuration: password-file)",
                ));
            }
            Some((user, hosts)) => (Some(decode(user)?), hosts),
            None => (None, authority),
        };
        let hosts = hosts.split(',').filter(|host| !host.is_empty()).map(host_of).collect::<Result<_>>()?;
        let query = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(name)?, decode(&value.replace('+', " "))?))
        });
        Ok(Self {
            scheme: scheme.to_ascii_lowercase(),
            user,
            hosts,
            path: decode(path)?,
            query: Query(query.collect::<Result<_>>()?),
        })
    }

    /// The only host, and its port.
    ///
    /// # Errors
    /// If there is none, or there are several.
    pub fn only_host(&self, port: u16) -> Result<(String, u16)> {
        match &self.hosts[..] {
            [(host, own)] => Ok((host.clone(), own.unwrap_or(port))),
            [] => Err(usage(format!("the URL names no host; write {}://HOST:{port}", self.scheme))),
            _ => Err(usage(format!("{} has one host; several are given", self.scheme))),
        }
    }
}

impl Query {
    /// Takes out the value of a parameter.
    ///
    /// # Errors
    /// If it is given more than once.
    pub fn take(&mut self, name: &str) -> Result<Option<String>> {
        let mut values = self.take_all(name);
        match values.len() {
            0 | 1 => Ok(values.pop()),
            _ => Err(usage(format!("the parameter `{name}` of the URL is given more than once"))),
        }
    }

    /// Takes out the values of a parameter that may be repeated.
    pub fn take_all(&mut self, name: &str) -> Vec<String> {
        self.0.extract_if(.., |(own, _)| own == name).map(|(_, value)| value).collect()
    }

    /// Takes out a parameter that is `true` or `false`; without it, `false`.
    ///
    /// # Errors
    /// If it is something else.
    pub fn flag(&mut self, name: &str) -> Result<bool> {
        Ok(self.optional_flag(name)?.unwrap_or(false))
    }

    /// Takes out a parameter that is `true` or `false`, or not given.
    ///
    /// # Errors
    /// If it is something else.
    pub fn optional_flag(&mut self, name: &str) -> Result<Option<bool>> {
        match self.take(name)?.as_deref() {
            None => Ok(None),
            Some("false") => Ok(Some(false)),
            Some("true") => Ok(Some(true)),
            Some(other) => Err(usage(format!("the parameter `{name}` of the URL is `{other}`; write true or false"))),
        }
    }

    /// Takes out a length of time, as `500ms`, `30s` or `5m`.
    ///
    /// # Errors
    /// If it is something else, or not between 10 milliseconds and a day.
    pub fn duration(&mut self, name: &str) -> Result<Option<Duration>> {
        let Some(text) = self.take(name)? else { return Ok(None) };
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let unit = match &text[digits..] {
            "ms" => Some(1),
            "s" => Some(1000),
            "m" => Some(60_000),
            "h" => Some(3_600_000),
            _ => None,
        };
        let millis = unit.and_then(|unit| text[..digits].parse::<u64>().ok()?.checked_mul(unit));
        match millis.filter(|millis| (10..=86_400_000).contains(millis)) {
            Some(millis) => Ok(Some(Duration::from_millis(millis))),
            None => {
                Err(usage(format!("the parameter `{name}` of the URL is `{text}`; write a time as 500ms, 30s or 5m")))
            }
        }
    }

    /// Refuses the parameters that nobody took out.
    ///
    /// # Errors
    /// If one is left. `known` names those that exist.
    pub fn refuse_others(&self, known: &[&str]) -> Result<()> {
        let Some((name, _)) = self.0.first() else { return Ok(()) };
        let known = if known.is_empty() { "there is none".to_owned() } else { format!("choose {}", known.join(", ")) };
        Err(usage(format!("the URL has no parameter `{name}`; {known}")))
    }
}

fn host_of(text: &str) -> Result<(String, Option<u16>)> {
    let invalid = || usage(format!("`{text}` is not a host; write HOST:PORT, for IP version 6 [ADDRESS]:PORT"));
    let (host, port) = match text.strip_prefix('[').map(|rest| rest.split_once(']')) {
        Some(Some((host, ""))) => (host, None),
        Some(Some((host, rest))) => (host, Some(rest.strip_prefix(':').ok_or_else(invalid)?)),
        Some(None) => return Err(invalid()),
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let port = port.map(str::parse).transpose().map_err(|_| invalid())?;
    Ok((decode(host)?, port))
}

fn decode(text: &str) -> Result<String> {
    let decoded = percent_decode_str(text).decode_utf8().map_err(|_| usage("the URL is not UTF-8"))?;
    Ok(decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_url() {
        let address = Address::parse("MQTT://[::1]:1883/rooms/+/a%20b?qos=2&tls=true").expect("valid");
        assert_eq!(address.scheme, "mqtt");
        assert_eq!(address.only_host(1).expect("one"), ("::1".to_owned(), 1883));
        assert_eq!(address.path, "rooms/+/a b");
        let mut query = address.query;
        assert_eq!(query.take("qos").expect("once"), Some("2".to_owned()));
        let error = query.refuse_others(&["qos"]).expect_err("unknown").to_string();
        assert!(error.contains("`tls`") && error.contains("choose qos"), "{error}");
    }

    #[test]
    fn lengths_of_time() {
        let query = |text: &str| Address::parse(&format!("x://h/?every={text}")).expect("valid").query;
        assert_eq!(query("1500ms").duration("every").expect("valid"), Some(Duration::from_millis(1500)));
        assert_eq!(query("5m").duration("every").expect("valid"), Some(Duration::from_secs(300)));
        for text in ["", "5", "s", "1ms", "-1s", "1d", "99999999999999999999s", "25h"] {
            assert!(query(text).duration("every").is_err(), "{text}");
        }
    }

    #[test]
    fn invalid_urls_are_refused() {
        for (url, why) in [
            ("visits.csv", "SCHEME://"),
            ("nats://user:secret@host/x", "--password-file"),
            ("nats://host:port/x", "`host:port`"),
            ("nats://[::1/x", "not a host"),
            ("nats://host/%ff", "UTF-8"),
        ] {
            let error = Address::parse(url).expect_err(url).to_string();
            assert!(error.contains(why) && !error.contains("secret"), "{url}: {error}");
        }
        let twice = Address::parse("nats://host/x?a=1&a=2").expect("valid");
        assert!(twice.query.clone().take("a").is_err());
        assert_eq!(twice.query.clone().take_all("a"), ["1", "2"]);
    }
}
