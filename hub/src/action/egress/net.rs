//! CIDR blocks.

use std::{fmt, net::IpAddr, str::FromStr};

/// A block of addresses, such as `10.0.0.0/8` or `fd00::/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Net {
    address: IpAddr,
    bits: u32,
}

impl Net {
    /// One address.
    pub(super) fn one(address: IpAddr) -> Net {
        let bits = width(address);
        Net { address, bits }
    }

    /// Whether the address is in it; a block of IPv4 holds no address of IPv6, nor the other way round.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (own_width, own) = (width(self.address), number(self.address));
        if width(address) != own_width {
            return false;
        }
        let shift = own_width.saturating_sub(self.bits);
        let high = |number: u128| number.checked_shr(shift).unwrap_or(0);
        high(own) == high(number(address))
    }
}

fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

impl FromStr for Net {
    type Err = ();

    /// Reads an address with or without `/<bits>`.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address = address.trim_start_matches('[').trim_end_matches(']');
        let address: IpAddr = address.parse().map_err(drop)?;
        let Some(bits) = bits else {
            return Ok(Net::one(address));
        };
        let digits = (1..=3).contains(&bits.len()) && bits.bytes().all(|b| b.is_ascii_digit());
        let bits: u32 = bits.parse().map_err(drop)?;
        match digits && bits <= width(address) {
            true => Ok(Net { address, bits }),
            false => Err(()),
        }
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_hold_their_addresses() {
        for (net, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("127.0.0.1", "127.0.0.1", "127.0.0.2"),
            ("0.0.0.0/0", "255.255.255.255", "::1"),
            ("192.168.1.77/24", "192.168.1.0", "192.168.2.0"),
            ("fe80::/10", "febf::1", "fec0::1"),
            ("::/0", "2001:db8::1", "1.2.3.4"),
            ("[::1]", "::1", "::2"),
        ] {
            let block: Net = net.parse().unwrap();
            assert!(block.contains(inside.parse().unwrap()), "{net} {inside}");
            assert!(!block.contains(outside.parse().unwrap()), "{net} {outside}");
        }
        for text in [
            "",
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "::/129",
            "example.org",
            "10.0.0/8",
            "1.2.3.4/8/8",
        ] {
            assert_eq!(text.parse::<Net>(), Err(()), "{text}");
        }
        assert_eq!("fd00::/8".parse::<Net>().unwrap().to_string(), "fd00::/8");
    }
}
