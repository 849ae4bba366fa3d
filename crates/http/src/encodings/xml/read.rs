//! Reads a small XML document into a tree, within bounds.
//!
//! The pull parser is a crate's; what it leaves to its caller is decided here: no document type, no entities beside
//! the five that XML has, no characters XML cannot hold, one root, bounded depth and size. White space and carriage
//! returns are kept as they were sent, since message texts travel in them.

use std::borrow::Cow;

use quick_xml::Reader;
use quick_xml::events::{BytesDecl, BytesStart, Event};

use super::can_hold_char;

/// How much a document may hold beside the length its body is bounded by.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Elements inside elements.
    pub depth_max: usize,
    /// Elements and attributes together.
    pub nodes_max: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { depth_max: 16, nodes_max: 4_096 }
    }
}

/// Why a document is not read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum XmlError {
    /// Its bytes are no UTF-8, or it says so itself.
    #[error("the document is not encoded in UTF-8")]
    NotUtf8,
    /// It is not well formed.
    #[error("the document is not well formed: {0}")]
    Malformed(Cow<'static, str>),
    /// It has a document type.
    #[error("a document type is not allowed")]
    DocumentType,
    /// It names an entity that XML itself does not have.
    #[error("the entity {0:?} is not known")]
    UnknownEntity(String),
    /// It holds a character that XML does not allow.
    #[error("the document holds a character that XML does not allow")]
    ForbiddenCharacter,
    /// Its elements are nested too deeply.
    #[error("elements are nested deeper than {depth_max}")]
    TooDeep {
        /// The bound.
        depth_max: usize,
    },
    /// It has too many elements and attributes.
    #[error("the document has more than {nodes_max} elements and attributes")]
    TooLarge {
        /// The bound.
        nodes_max: usize,
    },
}

/// An element: its name without a prefix, and what is in it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Element {
    /// Its name, without the prefix of a name space.
    pub name: String,
    /// Its attributes, with their names as they were written.
    pub attributes: Vec<(String, String)>,
    /// The elements in it, in order.
    pub children: Vec<Element>,
    /// All text directly in it, put together and unescaped, white space included.
    pub text: String,
}

impl Element {
    /// The first element of this name in it.
    pub fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    /// An attribute's value.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

/// The root of a document.
pub fn parse(document: &[u8], bounds: Bounds) -> Result<Element, XmlError> {
    let text = std::str::from_utf8(document).map_err(|_| XmlError::NotUtf8)?;
    let mut reader = Reader::from_str(text);
    reader.config_mut().check_comments = true;
    let mut tree = Tree { open: Vec::new(), root: None, nodes: 0, bounds };
    loop {
        match reader.read_event().map_err(|error| malformed(error.to_string()))? {
            Event::Start(start) => tree.open(&start)?,
            Event::Empty(start) => {
                tree.open(&start)?;
                tree.close()?;
            }
            Event::End(_) => tree.close()?,
            Event::Text(text) => tree.text(&text)?,
            Event::CData(text) => tree.character_data(&text)?,
            Event::GeneralRef(name) => tree.reference(&name)?,
            Event::Decl(declaration) => check_declaration(&declaration)?,
            Event::DocType(_) => return Err(XmlError::DocumentType),
            Event::Comment(_) | Event::PI(_) => {}
            Event::Eof => return tree.finish(),
        }
    }
}

/// What has been read so far.
struct Tree {
    /// Elements that have not ended, outermost first.
    open: Vec<Element>,
    root: Option<Element>,
    nodes: usize,
    bounds: Bounds,
}

impl Tree {
    fn open(&mut self, start: &BytesStart<'_>) -> Result<(), XmlError> {
        if self.root.is_some() {
            return Err(malformed("there is something behind the root"));
        }
        if self.open.len() == self.bounds.depth_max {
            return Err(XmlError::TooDeep { depth_max: self.bounds.depth_max });
        }
        check_name(start.name().as_ref())?;
        self.count()?;
        let mut element = Element { name: start.local_name().as_ref().to_owned(), ..Element::default() };
        for attribute in start.attributes() {
            let attribute = attribute.map_err(|error| malformed(error.to_string()))?;
            self.count()?;
            let name: &str = attribute.key.as_ref();
            check_name(name)?;
            element.attributes.push((name.to_owned(), unescape(&attribute.value)?));
        }
        self.open.push(element);
        Ok(())
    }

    fn close(&mut self) -> Result<(), XmlError> {
        let closed = self.open.pop().ok_or_else(|| malformed("an element ends that never began"))?;
        match self.open.last_mut() {
            Some(parent) => parent.children.push(closed),
            None => self.root = Some(closed),
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), XmlError> {
        if self.open.is_empty() {
            let is_blank = text.bytes().all(|byte| byte.is_ascii_whitespace());
            return if is_blank { Ok(()) } else { Err(malformed("there is text outside the root")) };
        }
        self.character_data(text)
    }

    fn character_data(&mut self, text: &str) -> Result<(), XmlError> {
        if !text.chars().all(can_hold_char) {
            return Err(XmlError::ForbiddenCharacter);
        }
        self.innermost()?.text.push_str(text);
        Ok(())
    }

    fn reference(&mut self, name: &str) -> Result<(), XmlError> {
        let char = resolve(name)?;
        self.innermost()?.text.push(char);
        Ok(())
    }

    fn innermost(&mut self) -> Result<&mut Element, XmlError> {
        self.open.last_mut().ok_or_else(|| malformed("there is text outside the root"))
    }

    fn count(&mut self) -> Result<(), XmlError> {
        self.nodes += 1;
        let nodes_max = self.bounds.nodes_max;
        if self.nodes > nodes_max { Err(XmlError::TooLarge { nodes_max }) } else { Ok(()) }
    }

    fn finish(self) -> Result<Element, XmlError> {
        if !self.open.is_empty() {
            return Err(malformed("an element does not end"));
        }
        self.root.ok_or_else(|| malformed("there is no element"))
    }
}

fn malformed(why: impl Into<Cow<'static, str>>) -> XmlError {
    XmlError::Malformed(why.into())
}

fn check_declaration(declaration: &BytesDecl<'_>) -> Result<(), XmlError> {
    let Some(encoding) = declaration.encoding() else { return Ok(()) };
    let encoding = encoding.map_err(|error| malformed(error.to_string()))?;
    let is_utf8 = ["utf-8", "utf8", "us-ascii"].iter().any(|name| encoding.eq_ignore_ascii_case(name));
    if is_utf8 { Ok(()) } else { Err(XmlError::NotUtf8) }
}

fn check_name(name: &str) -> Result<(), XmlError> {
    let begins = |char: char| char.is_alphabetic() || char == '_';
    let goes_on = |char: char| char.is_alphanumeric() || "_-.:\u{b7}".contains(char);
    let is_name = name.starts_with(begins) && name.chars().all(goes_on);
    if is_name { Ok(()) } else { Err(malformed("a name holds characters it may not hold")) }
}

/// An attribute's value without its escapes.
fn unescape(value: &str) -> Result<String, XmlError> {
    let mut text = String::with_capacity(value.len());
    let mut rest = value;
    while let Some(at) = rest.find(['&', '<']) {
        let (before, reference) = rest.split_at(at);
        let reference = reference.strip_prefix('&').ok_or_else(|| malformed("an attribute holds a <"))?;
        let (name, after) = reference.split_once(';').ok_or_else(|| malformed("a reference does not end"))?;
        text.push_str(before);
        text.push(resolve(name)?);
        rest = after;
    }
    text.push_str(rest);
    if text.chars().all(can_hold_char) { Ok(text) } else { Err(XmlError::ForbiddenCharacter) }
}

/// What stands for `&name;`.
fn resolve(name: &str) -> Result<char, XmlError> {
    let Some(number) = name.strip_prefix('#') else {
        return match name {
            "amp" => Ok('&'),
            "lt" => Ok('<'),
            "gt" => Ok('>'),
            "quot" => Ok('"'),
            "apos" => Ok('\''),
            _ => Err(XmlError::UnknownEntity(name.chars().take(40).collect())),
        };
    };
    let (digits, radix) = number.strip_prefix('x').map_or((number, 10), |digits| (digits, 16));
    // The number's own parser would also take a sign.
    let is_number = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    let number = is_number.then(|| u32::from_str_radix(digits, radix).ok()).flatten();
    number.and_then(char::from_u32).filter(|char| can_hold_char(*char)).ok_or(XmlError::ForbiddenCharacter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(document: &str) -> Result<Element, XmlError> {
        parse(document.as_bytes(), Bounds { depth_max: 3, nodes_max: 5 })
    }

    fn text(document: &str) -> Result<String, XmlError> {
        read(document).map(|root| root.text)
    }

    #[test]
    fn a_message_is_read_with_its_white_space_and_carriage_returns() {
        let document = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?>\r\n<!-- c --><QueueMessage>\n<MessageText> a\rb\r\n&lt;&#xD;&#13;&quot;&apos;&gt;&amp;\u{1f600}<![CDATA[<&amp;>]]>\t</MessageText></QueueMessage>\n";
        let root = read(document).expect("the document is well formed");
        assert_eq!(root.name, "QueueMessage");
        let text = root.child("MessageText").map(|child| child.text.as_str());
        assert_eq!(text, Some(" a\rb\r\n<\r\r\"'>&\u{1f600}<&amp;>\t"));
        assert_eq!(root.child("Other"), None);
    }

    #[test]
    fn an_empty_element_is_there_and_empty() {
        for document in ["<a><b/></a>", "<a><b></b></a>", "<a><b ></b ></a>"] {
            assert_eq!(
                read(document).expect(document).child("b"),
                Some(&Element { name: "b".into(), ..Element::default() })
            );
        }
    }

    #[test]
    fn attributes_are_unescaped_and_prefixes_dropped() {
        let root = read("<q:a x='1 &amp; \"2\"' q:y=\"&#x41;\"/>")
            .expect("the element with attributes is well formed");
        assert_eq!(root.name, "a");
        assert_eq!(root.attribute("x"), Some("1 & \"2\""));
        assert_eq!(root.attribute("q:y"), Some("A"));
        assert_eq!(root.attribute("y"), None);
    }

    #[test]
    fn document_types_and_entities_are_refused() {
        for document in [
            "<!DOCTYPE a><a/>",
            "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>",
            "<!DOCTYPE a SYSTEM \"http://localhost/\"><a/>",
            "<a><!DOCTYPE b></a>",
        ] {
            assert_eq!(read(document), Err(XmlError::DocumentType), "{document}");
        }
        assert_eq!(text("<a>&nbsp;</a>"), Err(XmlError::UnknownEntity("nbsp".into())));
        assert_eq!(text("<a>&AMP;</a>"), Err(XmlError::UnknownEntity("AMP".into())));
        assert_eq!(read("<a b='&c;'/>"), Err(XmlError::UnknownEntity("c".into())));
    }

    #[test]
    fn characters_xml_cannot_hold_are_refused_however_they_come() {
        for document in [
            "<a>\0</a>",
            "<a>\u{b}</a>",
            "<a>&#0;</a>",
            "<a>&#x1f;</a>",
            "<a>&#xFFFE;</a>",
            "<a>&#xD800;</a>",
            "<a>&#x110000;</a>",
            "<a>&#99999999999;</a>",
            "<a>&#;</a>",
            "<a>&#x;</a>",
            "<a>&#+65;</a>",
            "<a>&#X41;</a>",
            "<a><![CDATA[\u{1}]]></a>",
            "<a b='\u{1}'/>",
            "<a b='&#1;'/>",
        ] {
            assert_eq!(read(document), Err(XmlError::ForbiddenCharacter), "{document:?}");
        }
        assert_eq!(text("<a>&#x9;&#10;&#x1F600;</a>").as_deref(), Ok("\t\n\u{1f600}"));
    }

    #[test]
    fn what_is_not_well_formed_is_refused() {
        for document in [
            "",
            " ",
            "text",
            "<a>",
            "<a></b>",
            "</a>",
            "<a/><b/>",
            "<a/>text",
            "text<a/>",
            "<a><b></a></b>",
            "<a",
            "<a b/>",
            "<a b=c/>",
            "<a b='1' b='2'/>",
            "<a b='<'/>",
            "<a b='&'/>",
            "<a b='&amp'/>",
            "<1/>",
            "< a/>",
            "<a>&</a>",
            "<a>&amp</a>",
            "<a><!-- -- --></a>",
            "<a><![CDATA[</a>",
            "&amp;<a/>",
            "<![CDATA[x]]><a/>",
        ] {
            assert!(
                matches!(read(document), Err(XmlError::Malformed(_))),
                "{document}: {:?}",
                read(document)
            );
        }
    }

    #[test]
    fn other_encodings_are_refused() {
        assert_eq!(parse(b"<a>\xff</a>", Bounds::default()), Err(XmlError::NotUtf8));
        assert_eq!(parse(b"\xff\xfe<\0a\0/\0>\0", Bounds::default()), Err(XmlError::NotUtf8));
        assert_eq!(read("<?xml version='1.0' encoding='latin-1'?><a/>"), Err(XmlError::NotUtf8));
        assert!(read("<?xml version='1.0' encoding='UTF-8' standalone='yes'?><a/>").is_ok());
    }

    #[test]
    fn depth_and_size_are_bounded() {
        assert!(read("<a><b><c/></b></a>").is_ok());
        assert_eq!(read("<a><b><c><d/></c></b></a>"), Err(XmlError::TooDeep { depth_max: 3 }));
        assert!(read("<a><b/><b/><b/><b/></a>").is_ok());
        assert_eq!(read("<a><b/><b/><b/><b/><b/></a>"), Err(XmlError::TooLarge { nodes_max: 5 }));
        assert_eq!(read("<a b='' c='' d='' e='' f=''/>"), Err(XmlError::TooLarge { nodes_max: 5 }));
        let deep = "<a>".repeat(1_000_000);
        assert_eq!(parse(deep.as_bytes(), Bounds::default()), Err(XmlError::TooDeep { depth_max: 16 }));
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_odd_to_judge(document in "[<>/a&;!\\[\\]\"'= \\-?#x0-9CDAT]{0,60}") {
            let _judged = read(&document);
        }
    }
}
