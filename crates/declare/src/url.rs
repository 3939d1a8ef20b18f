//! URLs instead of paths.

use std::path::Path;

/// Splits a URL into its scheme and the rest after `://`; `None` for paths.
pub fn split_scheme(path: &Path) -> Option<(&str, &str)> {
    let (scheme, rest) = path.to_str()?.split_once("://")?;
    let is_scheme = scheme.len() > 1
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    is_scheme.then_some((scheme, rest))
}

/// Whether a path is a URL, of any scheme. A file in a folder named `s3:` is written `./s3:/...`.
///
/// ```
/// use evertally_declare::url::is_url;
/// use std::path::Path;
/// assert!(is_url(Path::new("s3://bucket/visits.csv")));
/// assert!(!is_url(Path::new("./s3://bucket/visits.csv")));
/// ```
pub fn is_url(path: &Path) -> bool {
    split_scheme(path).is_some()
}

/// A path for messages and records; a URL without passwords and queries, which may contain signatures.
///
/// ```
/// use evertally_declare::url::without_secrets;
/// use std::path::Path;
/// let signed = Path::new("https://files.example/visits.csv?X-Amz-Signature=abc");
/// assert_eq!(without_secrets(signed), "https://files.example/visits.csv?...");
/// ```
pub fn without_secrets(path: &Path) -> String {
    let Some((scheme, rest)) = split_scheme(path) else { return path.display().to_string() };
    let (host, name) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    // `abfs://container@account.dfs.core.windows.net/...` has no password.
    let host = match host.rsplit_once('@') {
        Some((user, host)) if user.contains(':') || !scheme.starts_with("abfs") => host,
        _ => host,
    };
    let is_web = matches!(scheme, "http" | "https");
    // In the name of an object, a question mark may be a pattern. The parameters of a query have values.
    match name.split_once(['?', '#']) {
        Some((name, query)) if is_web || query.contains('=') => format!("{scheme}://{host}{name}?..."),
        _ => format!("{scheme}://{host}{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_schemes_make_a_url() {
        for url in ["s3://b/k", "https://host", "abfss://c@a.dfs.core.windows.net/k", "ftp://host/x"] {
            assert!(is_url(Path::new(url)), "{url}");
        }
        for path in ["-", "a.csv", "/tmp/s3://x", "./s3://x", "c://x", "://x", "1s://x", "a b://x", "s3:/x"] {
            assert!(!is_url(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        for (url, shown) in [
            ("https://u:p@host/a.csv", "https://host/a.csv"),
            ("https://token@host/a.csv?x", "https://host/a.csv?..."),
            ("https://host?sig=1", "https://host?..."),
            ("https://host/a#sig=1", "https://host/a?..."),
            ("s3://key:secret@bucket/a.csv", "s3://bucket/a.csv"),
            ("s3://bucket/a.csv?X-Amz-Signature=1", "s3://bucket/a.csv?..."),
            ("s3://bucket/2024-0?.csv", "s3://bucket/2024-0?.csv"),
            ("abfs://c@account.dfs.core.windows.net/a", "abfs://c@account.dfs.core.windows.net/a"),
            ("abfs://c:secret@account/a", "abfs://account/a"),
            ("a?b=c.csv", "a?b=c.csv"),
        ] {
            assert_eq!(without_secrets(Path::new(url)), shown);
        }
    }
}
