//! Addresses that no step may send a request to, whatever name they hide behind.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const METADATA: &str = "a metadata service of a cloud";

/// What is wrong with an address; `None`: nothing.
///
/// Private networks (10.0.0.0/8 and the like) are not in it: that is where the receivers of webhooks are.
pub(super) fn refusal(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(v4) => refusal_v4(v4),
        IpAddr::V6(v6) => match embedded(v6) {
            Some(v4) => refusal_v4(v4),
            None => refusal_v6(v6),
        },
    }
}

fn refusal_v4(address: Ipv4Addr) -> Option<&'static str> {
    match address.octets() {
        // RFC 1122: "this host on this network"; Linux connects it to itself.
        [0, ..] => Some("unspecified"),
        [127, ..] => Some("loopback"),
        [169, 254, 169, 254] => Some(METADATA),
        [169, 254, ..] => Some("link-local"),
        // Alibaba Cloud, Azure (wire server), Oracle Cloud.
        [100, 100, 100, 200] | [168, 63, 129, 16] | [192, 0, 0, 192] => Some(METADATA),
        [224..=239, ..] => Some("multicast"),
        [255, 255, 255, 255] => Some("broadcast"),
        [240..=255, ..] => Some("reserved"),
        _ => None,
    }
}

fn refusal_v6(address: Ipv6Addr) -> Option<&'static str> {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some("unspecified"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("loopback"),
        // Amazon, Google.
        [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254] | [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254] => Some(METADATA),
        [first, ..] if first & 0xffc0 == 0xfe80 => Some("link-local"),
        // RFC 3879: not used any more, and never global.
        [first, ..] if first & 0xffc0 == 0xfec0 => Some("site-local"),
        [first, ..] if first & 0xff00 == 0xff00 => Some("multicast"),
        _ => None,
    }
}

/// The address of IPv4 that an address of IPv6 stands for.
pub(super) fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let v4 = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match address.segments() {
        // Unspecified and loopback are IPv6's own.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        // Compatible (RFC 4291, old), mapped, translated (RFC 2765), NAT64 (RFC 6052).
        [0, 0, 0, 0, 0, 0, high, low]
        | [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(v4(high, low)),
        // NAT64 of one's own network (RFC 8215): its last 32 bits by custom.
        [0x64, 0xff9b, 1, _, _, _, high, low] => Some(v4(high, low)),
        // 6to4 (RFC 3056).
        [0x2002, high, low, ..] => Some(v4(high, low)),
        // Teredo (RFC 4380): the client's address, inverted.
        [0x2001, 0, _, _, _, _, high, low] => Some(v4(!high, !low)),
        _ => None,
    }
}

/// The same address in its plainest form.
pub(super) fn canonical(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => embedded(v6).map_or(address, IpAddr::V4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_and_why() {
        for (address, why) in [
            ("127.0.0.1", Some("loopback")),
            ("127.255.255.254", Some("loopback")),
            ("0.0.0.0", Some("unspecified")),
            ("0.1.2.3", Some("unspecified")),
            ("169.254.1.1", Some("link-local")),
            ("169.254.169.254", Some(METADATA)),
            ("100.100.100.200", Some(METADATA)),
            ("168.63.129.16", Some(METADATA)),
            ("192.0.0.192", Some(METADATA)),
            ("224.0.0.1", Some("multicast")),
            ("239.255.255.255", Some("multicast")),
            ("240.0.0.1", Some("reserved")),
            ("255.255.255.255", Some("broadcast")),
            ("::", Some("unspecified")),
            ("::1", Some("loopback")),
            ("fe80::1", Some("link-local")),
            ("febf::1", Some("link-local")),
            ("fec0::1", Some("site-local")),
            ("ff02::1", Some("multicast")),
            ("fd00:ec2::254", Some(METADATA)),
            ("fd20:ce::254", Some(METADATA)),
            // IPv4 in other clothes.
            ("::ffff:127.0.0.1", Some("loopback")),
            ("::ffff:169.254.169.254", Some(METADATA)),
            ("::127.0.0.1", Some("loopback")),
            ("::ffff:0:127.0.0.1", Some("loopback")),
            ("64:ff9b::7f00:1", Some("loopback")),
            ("64:ff9b:1::a9fe:a9fe", Some(METADATA)),
            ("2002:7f00:1::", Some("loopback")),
            ("2001:0:1:2:3:4:80ff:fffe", Some("loopback")),
            // Where receivers of webhooks are.
            ("10.0.0.1", None),
            ("172.16.0.1", None),
            ("192.168.1.1", None),
            ("100.64.0.1", None),
            ("93.184.216.34", None),
            ("fd12:3456::1", None),
            ("2606:2800:220:1::1", None),
            ("::ffff:10.0.0.1", None),
        ] {
            assert_eq!(refusal(address.parse().unwrap()), why, "{address}");
        }
    }
}
