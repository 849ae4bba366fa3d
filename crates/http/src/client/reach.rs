//! Which addresses outgoing requests may reach.
//!
//! Judged by the address that is connected to, not by its name: a name may lead elsewhere the next time it is asked.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Which addresses may be reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// The machine itself and its networks too; but not link-local addresses, where clouds keep credentials.
    Private,
    /// Only what everyone on the Internet can reach.
    Public,
}

impl Reach {
    /// Whether this address is within it.
    pub fn allows(self, address: IpAddr) -> bool {
        match (address, unmapped(address)) {
            (_, Some(inner)) => self.allows_v4(inner),
            (IpAddr::V4(address), None) => self.allows_v4(address),
            (IpAddr::V6(address), None) => self.allows_v6(address),
        }
    }

    fn allows_v4(self, address: Ipv4Addr) -> bool {
        let [first, second, third, _] = address.octets();
        let is_nowhere =
            first == 0 || address.is_link_local() || address.is_multicast() || address.is_broadcast();
        if is_nowhere {
            return false;
        }
        let is_private = address.is_private()
            || address.is_loopback()
            || address.is_documentation()
            || (first == 100 && second & 0xc0 == 64)
            || (first == 192 && second == 0 && third == 0)
            || (first == 198 && second & 0xfe == 18)
            || first >= 240;
        self == Self::Private || !is_private
    }

    fn allows_v6(self, address: Ipv6Addr) -> bool {
        /// Where one cloud keeps credentials among private addresses.
        const METADATA: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
        let [first, second, ..] = address.segments();
        let is_nowhere = address.is_unspecified()
            || address.is_multicast()
            || first & 0xffc0 == 0xfe80
            || address == METADATA;
        if is_nowhere {
            return false;
        }
        // Of what is routed at all, tunnels lead to addresses that are not judged here.
        let is_public = first & 0xe000 == 0x2000
            && first != 0x2002
            && (first, second) != (0x2001, 0)
            && (first, second) != (0x2001, 0xdb8);
        self == Self::Private || is_public
    }
}

/// The IPv4 address that an IPv6 address stands for.
fn unmapped(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(address) = address else { return None };
    let embedded = match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some((high, low)),
        _ => None,
    };
    let embedded = embedded.map(|(high, low)| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    embedded.or_else(|| address.to_ipv4_mapped())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_within_reach_or_not() {
        for (address, private, public) in [
            ("93.184.216.34", true, true),
            ("2606:2800:220:1::1", true, true),
            ("127.0.0.1", true, false),
            ("10.1.2.3", true, false),
            ("172.16.0.1", true, false),
            ("172.32.0.1", true, true),
            ("192.168.1.1", true, false),
            ("100.64.0.1", true, false),
            ("100.128.0.1", true, true),
            ("198.18.0.1", true, false),
            ("192.0.0.8", true, false),
            ("203.0.113.9", true, false),
            ("250.0.0.1", true, false),
            ("::1", true, false),
            ("fc00::1", true, false),
            ("2002:7f00:1::", true, false),
            ("2001:db8::1", true, false),
            ("::ffff:10.0.0.1", true, false),
            ("::ffff:93.184.216.34", true, true),
            ("64:ff9b::a00:1", true, false),
            ("64:ff9b::a9fe:a9fe", false, false),
            ("169.254.169.254", false, false),
            ("::ffff:169.254.169.254", false, false),
            ("fe80::1", false, false),
            ("fd00:ec2::254", false, false),
            ("0.0.0.0", false, false),
            ("::", false, false),
            ("224.0.0.1", false, false),
            ("255.255.255.255", false, false),
            ("ff02::1", false, false),
        ] {
            let address: IpAddr = address.parse().expect("the text is an IP address");
            assert_eq!(Reach::Private.allows(address), private, "{address}");
            assert_eq!(Reach::Public.allows(address), public, "{address}");
        }
    }
}
