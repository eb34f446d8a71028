//! `format` of strings: the ones Kubernetes enforces on custom resources (`apiserver/validation/formats.go` and
//! `kube-openapi/pkg/validation/strfmt`).

use std::sync::LazyLock;

use regex::Regex;

use crate::names;

/// Whether `text` has the format; formats Kubernetes does not know are not enforced.
pub(crate) fn matches(format: &str, text: &str) -> bool {
    if let Some((_, pattern)) = PATTERNS.iter().find(|(name, _)| *name == format) {
        return pattern.is_match(text);
    }
    match format {
        "date-time" | "datetime" => text.parse::<jiff::Timestamp>().is_ok(),
        "date" => text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10,
        "byte" => base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text).is_ok(),
        "ipv4" => text.parse::<std::net::Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<std::net::Ipv6Addr>().is_ok(),
        "cidr" => cidr(text),
        "uri" => uri(text),
        "email" => email(text),
        "duration" => duration(text),
        "isbn" => isbn10(text) || isbn13(text),
        "isbn10" => isbn10(text),
        "isbn13" => isbn13(text),
        "creditcard" => credit_card(text),
        "hostname" => names::dns_subdomain(&text.to_ascii_lowercase()).is_empty(),
        "k8s-short-name" => names::dns_label(text).is_empty(),
        "k8s-long-name" => names::dns_subdomain(text).is_empty(),
        _ => true,
    }
}

/// Formats that a pattern tells.
static PATTERNS: LazyLock<Vec<(&str, Regex)>> = LazyLock::new(|| {
    const BYTE: &str = "(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])";
    let rgb = format!(r"^rgb\(\s*{BYTE}\s*,\s*{BYTE}\s*,\s*{BYTE}\s*\)$");
    let uuid = |version: &str, variant: &str| {
        format!(
            "(?i)^[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{version}[0-9a-f]{{3}}-?{variant}[0-9a-f]{{3}}-?[0-9a-f]{{12}}$"
        )
    };
    let mac = [6, 8, 20].map(|bytes| {
        let (pairs, fours) = (bytes - 1, bytes / 2 - 1);
        let of = |digits: u8, between: &str, more: i32| {
            format!("[0-9a-f]{{{digits}}}({between}[0-9a-f]{{{digits}}}){{{more}}}")
        };
        let (colons, dashes) = (of(2, ":", pairs), of(2, "-", pairs));
        format!("{colons}|{dashes}|{}", of(4, r"\.", fours))
    });
    let all = [
        ("mac", format!("(?i)^({})$", mac.join("|"))),
        ("uuid", uuid("[0-9a-f]", "[0-9a-f]")),
        ("uuid3", uuid("3", "[0-9a-f]")),
        ("uuid4", uuid("4", "[89ab]")),
        ("uuid5", uuid("5", "[89ab]")),
        ("hexcolor", "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$".to_owned()),
        ("rgbcolor", rgb),
        ("ssn", "^[0-9]{3}[- ][0-9]{2}[- ][0-9]{4}$".to_owned()),
        ("bsonobjectid", "^[0-9a-fA-F]{24}$".to_owned()),
    ];
    let all = all.into_iter();
    all.filter_map(|(name, pattern)| Some((name, Regex::new(&pattern).ok()?)))
        .collect()
});

/// A path, or something with a scheme (`url.ParseRequestURI`).
fn uri(text: &str) -> bool {
    let is_clean = !text.chars().any(|letter| letter.is_control() || letter == ' ');
    let has_scheme = text.split_once(':').is_some_and(|(scheme, _)| {
        let mut letters = scheme.chars();
        letters.next().is_some_and(|first| first.is_ascii_alphabetic())
            && letters.all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '.'))
    });
    is_clean && (text.starts_with('/') || has_scheme)
}

/// An address, or a name with one in angle brackets (`mail.ParseAddress`).
fn email(text: &str) -> bool {
    let text = text.trim();
    let address = match text.strip_suffix('>') {
        Some(text) => text.rsplit_once('<').map_or("", |(_, address)| address),
        None => text,
    };
    let is_plain = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && !part.ends_with('.')
            && !part.contains("..")
            && !part.contains(|letter: char| {
                letter.is_control() || letter.is_whitespace() || "()<>[]:;@\\,\"".contains(letter)
            })
    };
    let parts = address.rsplit_once('@');
    parts.is_some_and(|(local, domain)| is_plain(local) && is_plain(domain))
}

/// As Go writes it, or numbers with units in words: `1 day 2 hours`.
fn duration(text: &str) -> bool {
    static GO: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"^[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$").ok()
    });
    static WORDS: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let units = "ns|nano|us|µs|micro|ms|milli|s|sec|m|min|h|hr|hour|d|day|w|wk|week";
        let whole = "(nano|micro|milli|sec|min|hour|day|week)[a-zµ]*";
        Regex::new(&format!(r"(?i)[0-9]+\s*({whole}|({units})([^a-zµ]|$))")).ok()
    });
    [&GO, &WORDS]
        .iter()
        .any(|form| form.as_ref().is_some_and(|form| form.is_match(text)))
}

/// The digits of a number whose parts may be set apart, each as what it counts.
fn digits(text: &str) -> Option<Vec<u32>> {
    let text = text
        .chars()
        .filter(|letter| !letter.is_whitespace() && *letter != '-');
    text.map(|letter| letter.to_digit(10)).collect()
}

fn isbn10(text: &str) -> bool {
    let (text, last) = match text.strip_suffix(['X', 'x']) {
        Some(text) => (text, Some(10)),
        None => (text, None),
    };
    let Some(mut all) = digits(text) else {
        return false;
    };
    all.extend(last);
    let sum: u32 = all.iter().zip(1..).map(|(digit, place)| digit * place).sum();
    all.len() == 10 && sum.is_multiple_of(11)
}

fn isbn13(text: &str) -> bool {
    let Some(all) = digits(text) else {
        return false;
    };
    let sum: u32 = all
        .iter()
        .zip([1, 3].into_iter().cycle())
        .map(|(digit, weight)| digit * weight)
        .sum();
    all.len() == 13 && sum.is_multiple_of(10)
}

fn credit_card(text: &str) -> bool {
    static ISSUED: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(concat!(
            "^(4[0-9]{12}([0-9]{3})?|5[1-5][0-9]{14}|6(011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}",
            "|3(0[0-5]|[68][0-9])[0-9]{11}|(2131|1800|35[0-9]{3})[0-9]{11}|6[27][0-9]{14})$"
        ))
        .ok()
    });
    let number: String = text.chars().filter(char::is_ascii_digit).collect();
    let doubled = number.chars().rev().filter_map(|letter| letter.to_digit(10));
    let sum: u32 = doubled
        .enumerate()
        .map(|(place, digit)| match place % 2 {
            0 => digit,
            _ if digit > 4 => digit * 2 - 9,
            _ => digit * 2,
        })
        .sum();
    ISSUED.as_ref().is_some_and(|issued| issued.is_match(&number)) && sum.is_multiple_of(10)
}

fn cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let most = match address.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(_)) => 32,
        Ok(std::net::IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.parse::<u8>().is_ok_and(|b| b <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_that_kubernetes_enforces() {
        let table: [(&str, &[&str], &[&str]); 19] = [
            (
                "email",
                &["a@b.c", "Jane <jane@x.dev>"],
                &["", "a", "a@", "@b", "a b@c", "<a@b> x"],
            ),
            (
                "mac",
                &[
                    "01:02:03:04:ab:CD",
                    "01-02-03-04-05-06",
                    "0102.0304.0506",
                    "01:02:03:04:05:06:07:08",
                ],
                &[
                    "01:02:03:04:05",
                    "01:02-03:04:05:06",
                    "0102.0304",
                    "g1:02:03:04:05:06",
                ],
            ),
            (
                "duration",
                &["1h30m", "-1.5s", "0", "1 day", "2 Weeks", "3hours"],
                &["", "1", "h", "soon", "1x", "3 moons"],
            ),
            ("hexcolor", &["#fff", "00FF00"], &["#ff", "#ggg", "red"]),
            (
                "rgbcolor",
                &["rgb(0,255, 12)"],
                &["rgb(0,256,1)", "rgb(1,2)", "0,1,2"],
            ),
            (
                "isbn10",
                &["0-306-40615-2", "080442957X"],
                &["0306406153", "030640615"],
            ),
            (
                "isbn13",
                &["978-0-306-40615-7"],
                &["9780306406158", "978030640615"],
            ),
            ("isbn", &["0306406152", "9780306406157"], &["1", ""]),
            (
                "creditcard",
                &["4111 1111 1111 1111"],
                &["4111 1111 1111 1112", "1234", ""],
            ),
            (
                "ssn",
                &["111-22-3333", "111 22 3333"],
                &["111223333", "111-22-333"],
            ),
            (
                "bsonobjectid",
                &["507f1f77bcf86cd799439011"],
                &["507f1f77bcf86cd79943901", "x07f1f77bcf86cd799439011"],
            ),
            ("k8s-short-name", &["a", "a-1"], &["a.b", "ABC", "", "-a"]),
            ("k8s-long-name", &["a", "a.b-1"], &["ABC", "", "a..b"]),
            (
                "uuid",
                &[
                    "a987fbc9-4bed-3078-cf07-9141ba07c9f3",
                    "A987FBC94BED3078CF079141BA07C9F3",
                ],
                &[
                    "a987fbc9-4bed-3078-cf07-9141ba07c9f",
                    "{a987fbc9-4bed-3078-cf07-9141ba07c9f3}",
                ],
            ),
            (
                "uuid3",
                &["a987fbc9-4bed-3078-cf07-9141ba07c9f3"],
                &["a987fbc9-4bed-4078-8f07-9141ba07c9f3"],
            ),
            (
                "uuid4",
                &["57b73598-8764-4ad0-a76a-679bb6640eb1"],
                &[
                    "57b73598-8764-3ad0-a76a-679bb6640eb1",
                    "57b73598-8764-4ad0-c76a-679bb6640eb1",
                ],
            ),
            (
                "uuid5",
                &["987fbc97-4bed-5078-af07-9141ba07c9f3"],
                &["987fbc97-4bed-4078-af07-9141ba07c9f3"],
            ),
            (
                "uri",
                &["/path", "https://x.dev/a?b#c", "mailto:a@b"],
                &["", "path", "http://a b", "1a:b"],
            ),
            ("odd", &["", "whatever"], &[]),
        ];
        for (format, good, bad) in table {
            for text in good {
                assert!(matches(format, text), "{format} {text:?}");
            }
            for text in bad {
                assert!(!matches(format, text), "{format} {text:?}");
            }
        }
    }
}
