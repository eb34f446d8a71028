//! Where a request goes.

use http::{Uri, uri::PathAndQuery};
use roundhouse_api::application::check_url;

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::action) struct Target {
    pub(in crate::action) https: bool,
    /// Name or address, lower case, without brackets.
    pub(in crate::action) host: String,
    pub(in crate::action) port: u16,
    /// Path and query, as the request line has them.
    pub(super) path: Uri,
}

impl Target {
    /// Reads an address.
    ///
    /// # Errors
    /// What is wrong with it, without the address: it may be a secret.
    pub(in crate::action) fn parse(url: &str) -> Result<Target, String> {
        check_url(url)?;
        let unreadable = || "is no address: write one such as https://example.org/hook".to_owned();
        let uri: Uri = url.parse().map_err(|_| unreadable())?;
        let https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(unreadable()),
        };
        let authority = uri.authority().ok_or_else(unreadable)?;
        let host = authority.host();
        let host = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        // Where the host ends there is a port, or nothing.
        let port = match authority.port() {
            Some(port) => port.as_u16(),
            None if authority.as_str().ends_with(':') || authority.as_str().ends_with(authority.host()) => {
                if https {
                    443
                } else {
                    80
                }
            }
            None => return Err(unreadable()),
        };
        if host.is_empty() || port == 0 {
            return Err(unreadable());
        }
        let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let path = match path.starts_with('/') {
            true => path.parse(),
            false => format!("/{path}").parse(),
        };
        Ok(Target {
            https,
            host: host.to_ascii_lowercase(),
            port,
            path: path.map_err(|_| unreadable())?,
        })
    }

    fn scheme(&self) -> &'static str {
        if self.https { "https" } else { "http" }
    }

    /// As the header `Host` has it.
    pub(super) fn authority(&self) -> String {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        match (self.https, self.port) {
            (true, 443) | (false, 80) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }

    /// For people: without path and query, which may be secret.
    pub(in crate::action) fn shown(&self) -> String {
        format!("{}://{}", self.scheme(), self.authority())
    }

    /// Whether both are the same server.
    pub(super) fn same_origin(&self, other: &Target) -> bool {
        (self.https, &self.host, self.port) == (other.https, &other.host, other.port)
    }

    /// Where a `Location` of this one's answer leads (RFC 3986, §5.2, but for `.` and `..`, which are the server's to
    /// understand).
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn join(&self, location: &str) -> Result<Target, String> {
        let location = location.split('#').next().unwrap_or_default();
        let before_path = location.split(['/', '?']).next().unwrap_or_default();
        if before_path.contains(':') {
            return Target::parse(location);
        }
        if let Some(rest) = location.strip_prefix("//") {
            return Target::parse(&format!("{}://{rest}", self.scheme()));
        }
        let path = self.path.path();
        let below = match location {
            "" => self.path.to_string(),
            _ if location.starts_with('/') => location.to_owned(),
            _ if location.starts_with('?') => format!("{path}{location}"),
            _ => {
                let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
                format!("{directory}/{location}")
            }
        };
        Target::parse(&format!("{}{below}", self.shown()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(target: &Target) -> String {
        format!("{}{}", target.shown(), target.path)
    }

    #[test]
    fn addresses_are_read() {
        for (text, host, port, written) in [
            ("https://Example.org", "example.org", 443, "https://example.org/"),
            (
                "http://example.org:80/a?b",
                "example.org",
                80,
                "http://example.org/a?b",
            ),
            (
                "HTTPS://example.org:8443#x",
                "example.org",
                8443,
                "https://example.org:8443/",
            ),
            ("http://[::1]:8080/x", "::1", 8080, "http://[::1]:8080/x"),
            (
                "http://example.org?a=b",
                "example.org",
                80,
                "http://example.org/?a=b",
            ),
            ("http://0x7f.1/", "0x7f.1", 80, "http://0x7f.1/"),
        ] {
            let target = Target::parse(text).unwrap();
            assert_eq!((target.host.as_str(), target.port), (host, port), "{text}");
            assert_eq!(url(&target), written);
        }
        for text in [
            "",
            "x",
            "http://",
            "http://:80",
            "http://a:0/",
            "http://a:99999/",
            "http://a:b/",
            "http://[::1/",
            "ftp://a",
            "http://u@a/",
            "http://a b/",
        ] {
            assert!(Target::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn locations_are_joined() {
        let from = Target::parse("https://a.example:8443/x/y?z=1").unwrap();
        for (location, to) in [
            ("https://b.example/q", "https://b.example/q"),
            ("http://b.example", "http://b.example/"),
            ("//b.example/q#f", "https://b.example/q"),
            ("/q?r", "https://a.example:8443/q?r"),
            ("?r", "https://a.example:8443/x/y?r"),
            ("q", "https://a.example:8443/x/q"),
            ("", "https://a.example:8443/x/y?z=1"),
        ] {
            assert_eq!(url(&from.join(location).unwrap()), to, "{location}");
        }
        for location in ["javascript:1", "ftp://x/", "http://u:p@x/", "//"] {
            assert!(from.join(location).is_err(), "{location}");
        }
    }
}
