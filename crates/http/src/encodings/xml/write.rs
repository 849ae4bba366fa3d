//! Writes XML into a reply's buffer.

/// A document that grows. Names are the caller's own words; texts may be anything.
#[derive(Clone, Debug)]
pub struct Writer {
    xml: Vec<u8>,
}

impl Writer {
    /// A document that begins with this prolog.
    pub fn new(prolog: &str) -> Self {
        Self { xml: prolog.as_bytes().to_vec() }
    }

    /// Goes on behind what is there.
    pub fn behind(xml: Vec<u8>) -> Self {
        Self { xml }
    }

    /// Begins an element.
    pub fn open(&mut self, name: &str) {
        self.open_with(name, &[]);
    }

    /// Begins an element that has attributes.
    pub fn open_with(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.start(name, attributes);
        self.xml.push(b'>');
    }

    /// Ends an element.
    pub fn close(&mut self, name: &str) {
        self.xml.extend_from_slice(b"</");
        self.xml.extend_from_slice(name.as_bytes());
        self.xml.push(b'>');
    }

    /// An element without content.
    pub fn empty(&mut self, name: &str) {
        self.start(name, &[]);
        self.xml.extend_from_slice(b"/>");
    }

    /// An element that holds a text.
    pub fn element(&mut self, name: &str, text: &str) {
        self.open(name);
        push_text(&mut self.xml, text);
        self.close(name);
    }

    /// An element that holds a text in which nothing needs an escape.
    pub fn plain(&mut self, name: &str, text: &[u8]) {
        self.open(name);
        self.xml.extend_from_slice(text);
        self.close(name);
    }

    /// A text inside the element that is open.
    pub fn text(&mut self, text: &str) {
        push_text(&mut self.xml, text);
    }

    /// The document.
    pub fn finish(self) -> Vec<u8> {
        self.xml
    }

    fn start(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.xml.push(b'<');
        self.xml.extend_from_slice(name.as_bytes());
        for (name, value) in attributes {
            self.xml.push(b' ');
            self.xml.extend_from_slice(name.as_bytes());
            self.xml.extend_from_slice(b"=\"");
            push_attribute(&mut self.xml, value);
            self.xml.push(b'"');
        }
    }
}

/// Writes text between tags. A carriage return is escaped, since every reader would turn it into a line feed; a
/// character XML cannot hold becomes U+FFFD.
pub fn push_text(xml: &mut Vec<u8>, text: &str) {
    push(xml, text, &IN_TEXT);
}

/// Writes an attribute's value, which readers also fold line ends and tabs of.
pub fn push_attribute(xml: &mut Vec<u8>, text: &str) {
    push(xml, text, &IN_ATTRIBUTE);
}

/// What takes a byte's place; `None` for most.
type Escapes = [Option<&'static [u8]>; 256];

const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

/// Where a character that XML cannot hold may begin beside the controls: U+FFFE and U+FFFF.
const NONCHARACTER_LEAD: u8 = 0xef;

fn push(xml: &mut Vec<u8>, text: &str, escapes: &Escapes) {
    let bytes = text.as_bytes();
    xml.reserve(bytes.len());
    let mut copied = 0;
    for (at, byte) in bytes.iter().enumerate() {
        let Some(escape) = escapes[usize::from(*byte)] else { continue };
        let taken = if *byte != NONCHARACTER_LEAD {
            1
        } else if matches!(bytes.get(at + 1..at + 3), Some([0xbf, 0xbe | 0xbf])) {
            3
        } else {
            continue;
        };
        xml.extend_from_slice(&bytes[copied..at]);
        xml.extend_from_slice(escape);
        copied = at + taken;
    }
    xml.extend_from_slice(&bytes[copied..]);
}

const IN_TEXT: Escapes = {
    let mut escapes: Escapes = [None; 256];
    let mut control = 0;
    while control < 0x20 {
        escapes[control] = Some(REPLACEMENT);
        control += 1;
    }
    escapes[NONCHARACTER_LEAD as usize] = Some(REPLACEMENT);
    escapes[b'\t' as usize] = None;
    escapes[b'\n' as usize] = None;
    escapes[b'\r' as usize] = Some(b"&#xD;");
    escapes[b'&' as usize] = Some(b"&amp;");
    escapes[b'<' as usize] = Some(b"&lt;");
    escapes[b'>' as usize] = Some(b"&gt;");
    escapes[b'"' as usize] = Some(b"&quot;");
    escapes
};

const IN_ATTRIBUTE: Escapes = {
    let mut escapes = IN_TEXT;
    escapes[b'\t' as usize] = Some(b"&#x9;");
    escapes[b'\n' as usize] = Some(b"&#xA;");
    escapes
};

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> String {
        let mut xml = Vec::new();
        push_text(&mut xml, text);
        String::from_utf8(xml).expect("escaping keeps a text UTF-8")
    }

    #[test]
    fn what_has_a_meaning_in_xml_is_escaped() {
        assert_eq!(text("<a b=\"c\">&amp;'\r\n\t"), "&lt;a b=&quot;c&quot;&gt;&amp;amp;'&#xD;\n\t");
        assert_eq!(text(""), "");
        let mut attribute = Vec::new();
        push_attribute(&mut attribute, "a\r\n\t\"");
        assert_eq!(attribute, b"a&#xD;&#xA;&#x9;&quot;");
    }

    #[test]
    fn what_xml_cannot_hold_is_replaced() {
        assert_eq!(text("a\0b\u{1f}"), "a\u{fffd}b\u{fffd}");
        assert_eq!(text("\u{fffe}\u{ffff}x\u{fffd}\u{f000}"), "\u{fffd}\u{fffd}x\u{fffd}\u{f000}");
        assert_eq!(text("\u{fffe}"), "\u{fffd}");
    }

    #[test]
    fn elements_nest_as_they_are_opened_and_closed() {
        let mut writer = Writer::new("<?xml version=\"1.0\"?>");
        writer.open_with("a", &[("xmlns", "u&v"), ("b", "1")]);
        writer.element("c", "d<e");
        writer.empty("f");
        writer.text("g");
        writer.close("a");
        let xml = String::from_utf8(writer.finish()).expect("a written document is UTF-8");
        assert_eq!(xml, "<?xml version=\"1.0\"?><a xmlns=\"u&amp;v\" b=\"1\"><c>d&lt;e</c><f/>g</a>");
    }
}
