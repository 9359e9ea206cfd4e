//! Recognises public addresses. All others belong to this machine or a private network, or are reserved. A command that
//! reaches one through the proxy could use services that trust this machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns whether an address is public, so that it means the same host everywhere on the internet.
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        // "This network", and reserved addresses including broadcast.
        || a == 0
        || a >= 240
        // Carrier-grade NAT, protocol assignments, and benchmarking.
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (18..20).contains(&b));
    !is_special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, third, fourth, fifth, sixth, seventh, eighth] = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match (first, second) {
        // NAT64 and 6to4, which contain an IPv4 address.
        (0x64, 0xff9b) if [third, fourth, fifth, sixth] == [0; 4] => is_public_v4(v4(seventh, eighth)),
        (0x2002, _) => is_public_v4(v4(second, third)),
        // Teredo, which obscures its IPv4 address, and documentation.
        (0x2001, 0 | 0xdb8) => false,
        // All assigned public addresses are in 2000::/3.
        _ => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_addresses_are_recognised() {
        let check = |address: &str, expected: bool| {
            assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
        };
        for address in ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "64:ff9b::1.1.1.1", "2002:101:101::"] {
            check(address, true);
        }
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "192.0.0.1",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "2001::1",
            "2001:db8::1",
            "2002:a00:1::",
            "fc00::1",
            "fe80::1",
            "ff02::1",
        ] {
            check(address, false);
        }
    }
}
