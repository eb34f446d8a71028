//! `format` of strings: the ones Kubernetes enforces on custom resources.

/// Whether `text` has the format; formats Kubernetes does not know are not enforced.
pub(crate) fn matches(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => text.parse::<jiff::Timestamp>().is_ok(),
        "date" => text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10,
        "byte" => base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text).is_ok(),
        "ipv4" => text.parse::<std::net::Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<std::net::Ipv6Addr>().is_ok(),
        "cidr" => cidr(text),
        "uuid" | "uuid3" | "uuid4" | "uuid5" => uuid::Uuid::parse_str(text).is_ok(),
        "uri" => text.parse::<http::Uri>().is_ok_and(|u| u.scheme().is_some()),
        "hostname" | "k8s-short-name" => crate::names::dns_subdomain(&text.to_ascii_lowercase()).is_empty(),
        _ => true,
    }
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
