//! The trace that a request or a message belongs to, in the two spellings it travels in: W3C `traceparent` and Amazon's
//! trace header.

use std::fmt::Write as _;

/// The header, and the attribute of a message, of W3C Trace Context.
pub const TRACEPARENT: &str = "traceparent";
/// Amazon's header of a request; messages carry the same text as the system attribute `AWSTraceHeader`.
pub const AMAZON_TRACE: &str = "x-amzn-trace-id";

/// A place in a trace: the trace, the span there, and whether it is recorded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TraceContext {
    /// The trace; never zero.
    pub trace: u128,
    /// The span that is the parent of what follows; never zero.
    pub span: u64,
    /// Whether its caller records it.
    pub is_sampled: bool,
}

impl TraceContext {
    /// Reads `00-<32 hex>-<16 hex>-<2 hex>`. Versions above 00 may have more behind it.
    pub fn of_w3c(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_whole = version != "00" || parts.next().is_none();
        if !is_whole || version == "ff" || lower_hex(version, 2)? > 0xff {
            return None;
        }
        let is_sampled = lower_hex(flags, 2)? & 1 == 1;
        Self::checked(lower_hex(trace, 32)?, lower_hex(span, 16)?, is_sampled)
    }

    /// Reads `Root=1-<8 hex>-<24 hex>;Parent=<16 hex>;Sampled=1`, its parts in any order.
    pub fn of_amazon(text: &str) -> Option<Self> {
        let (mut trace, mut span, mut is_sampled) = (None, None, true);
        for part in text.split(';') {
            match part.trim().split_once('=') {
                Some(("Root", root)) => {
                    let (time, rest) = root.strip_prefix("1-")?.split_once('-')?;
                    trace = Some((any_hex(time, 8)? << 96) | any_hex(rest, 24)?);
                }
                Some(("Parent", parent)) => span = Some(any_hex(parent, 16)?),
                Some(("Sampled", sampled)) => is_sampled = sampled != "0",
                _ => {}
            }
        }
        Self::checked(trace?, span?, is_sampled)
    }

    fn checked(trace: u128, span: u128, is_sampled: bool) -> Option<Self> {
        let span = u64::try_from(span).ok()?;
        (trace != 0 && span != 0).then_some(Self { trace, span, is_sampled })
    }

    /// As the value of `traceparent`.
    pub fn w3c(&self) -> String {
        format!("00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.is_sampled))
    }

    /// As the value of Amazon's header.
    pub fn amazon(&self) -> String {
        let trace = format!("{:032x}", self.trace);
        let (time, rest) = trace.split_at(8);
        let mut text = format!("Root=1-{time}-{rest};Parent={:016x}", self.span);
        // Writing into a string cannot fail.
        let _written = write!(text, ";Sampled={}", u8::from(self.is_sampled));
        text
    }
}

fn lower_hex(text: &str, length: usize) -> Option<u128> {
    text.bytes().all(|byte| !byte.is_ascii_uppercase()).then(|| any_hex(text, length)).flatten()
}

fn any_hex(text: &str, length: usize) -> Option<u128> {
    let is_hex = text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const W3C: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const AMAZON: &str = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";

    #[test]
    fn both_spellings_read_back_as_they_were_written() {
        let w3c = TraceContext::of_w3c(W3C).expect("the text is a traceparent");
        assert_eq!((w3c.w3c().as_str(), w3c.is_sampled), (W3C, true));
        let amazon = TraceContext::of_amazon(AMAZON).expect("the text is a trace header");
        assert_eq!(amazon.amazon(), AMAZON);
        assert_eq!(amazon.trace, 0x5759_e988_bd86_2e3f_e1be_46a9_9427_2793);
        assert_eq!(TraceContext::of_amazon(&w3c.amazon()), Some(w3c));
    }

    #[test]
    fn parts_of_amazons_header_come_in_any_order_and_unsampled_is_kept() {
        let text = "Self=1-a-b;Sampled=0; Parent=53995c3f42cd8ad8;Root=1-5759e988-bd862e3fe1be46a994272793";
        assert_eq!(TraceContext::of_amazon(text).map(|context| context.is_sampled), Some(false));
    }

    #[test]
    fn what_is_malformed_belongs_to_no_trace() {
        for wrong in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(TraceContext::of_w3c(wrong), None, "{wrong}");
        }
        for wrong in ["", "Root=1-5759e988-bd862e3fe1be46a994272793", "Root=1-1-2;Parent=53995c3f42cd8ad8"] {
            assert_eq!(TraceContext::of_amazon(wrong), None, "{wrong}");
        }
        assert!(TraceContext::of_w3c(&format!("{}-more", W3C.replacen("00", "01", 1))).is_some());
    }
}
