//! One description of a result, written in either protocol.
//!
//! A result says its members once ([`Shape::write`]); [`JsonWriter`] and [`XmlWriter`] know how each looks. A list or
//! map without entries is absent, not empty, in both.

use kew_http::{json, xml};

/// A result that can be written.
pub(crate) trait Shape {
    /// Says its members, in order.
    fn write<W: Writer>(&self, out: &mut W);

    /// About how many bytes that will be.
    fn size_hint(&self) -> usize {
        256
    }
}

/// A list's or map's name in JSON, and the name of each of its elements in XML.
#[derive(Clone, Copy)]
pub(crate) struct Name {
    pub(crate) json: &'static str,
    pub(crate) xml: &'static str,
}

/// The names of a map's keys and values in XML.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    pub(crate) key: &'static str,
    pub(crate) value: &'static str,
}

/// Attributes of queues and messages.
pub(crate) const NAME_VALUE: Words = Words { key: "Name", value: "Value" };
/// Tags.
pub(crate) const KEY_VALUE: Words = Words { key: "Key", value: "Value" };

/// Where members are written.
pub(crate) trait Writer: Sized {
    /// A text.
    fn text(&mut self, name: &'static str, text: &str);
    /// A text of letters, digits and such: nothing in it needs an escape.
    fn plain(&mut self, name: &'static str, text: &[u8]);
    /// A number.
    fn number(&mut self, name: &'static str, number: u64);
    /// A yes or no.
    fn flag(&mut self, name: &'static str, flag: bool);
    /// Texts.
    fn texts<T: AsRef<str>>(&mut self, name: Name, texts: impl IntoIterator<Item = T>);
    /// Objects.
    fn list<T>(&mut self, name: Name, items: impl IntoIterator<Item = T>, each: impl FnMut(&mut Self, T));
    /// Texts by name.
    fn map<K: AsRef<str>, V: AsRef<str>>(
        &mut self,
        name: Name,
        words: Words,
        pairs: impl IntoIterator<Item = (K, V)>,
    );
    /// Objects by name.
    fn objects<K: AsRef<str>, T>(
        &mut self,
        name: Name,
        words: Words,
        items: impl IntoIterator<Item = (K, T)>,
        each: impl FnMut(&mut Self, T),
    );
}

/// Writes a JSON object.
pub(crate) struct JsonWriter(Vec<u8>);

impl JsonWriter {
    /// An object with this capacity in bytes.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        let mut json = Vec::with_capacity(bytes);
        json.push(b'{');
        Self(json)
    }

    /// The whole object.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }

    /// An object within.
    pub(crate) fn object(&mut self, name: &'static str, fill: impl FnOnce(&mut Self)) {
        self.unless_empty(name, *b"{}", fill);
    }

    /// No value ends like a beginning, so the last byte tells whether this one is the first.
    fn comma(&mut self) {
        if !matches!(self.0.last(), Some(b'{' | b'[')) {
            self.0.push(b',');
        }
    }

    fn name(&mut self, name: &'static str) {
        self.comma();
        json::push_plain(&mut self.0, name.as_bytes());
        self.0.push(b':');
    }

    /// Whatever `fill` writes between two brackets; nothing at all when it writes nothing.
    fn unless_empty(&mut self, name: &'static str, brackets: [u8; 2], fill: impl FnOnce(&mut Self)) {
        let before = self.0.len();
        self.name(name);
        self.0.push(brackets[0]);
        let opened = self.0.len();
        fill(self);
        if self.0.len() == opened {
            self.0.truncate(before);
        } else {
            self.0.push(brackets[1]);
        }
    }
}

impl Writer for JsonWriter {
    fn text(&mut self, name: &'static str, text: &str) {
        self.name(name);
        json::push_string(&mut self.0, text);
    }

    fn plain(&mut self, name: &'static str, text: &[u8]) {
        self.name(name);
        json::push_plain(&mut self.0, text);
    }

    fn number(&mut self, name: &'static str, number: u64) {
        self.name(name);
        self.0.extend_from_slice(number.to_string().as_bytes());
    }

    fn flag(&mut self, name: &'static str, flag: bool) {
        self.name(name);
        self.0.extend_from_slice(if flag { b"true" } else { b"false" });
    }

    fn texts<T: AsRef<str>>(&mut self, name: Name, texts: impl IntoIterator<Item = T>) {
        self.unless_empty(name.json, *b"[]", |out| {
            for text in texts {
                out.comma();
                json::push_string(&mut out.0, text.as_ref());
            }
        });
    }

    fn list<T>(
        &mut self,
        name: Name,
        items: impl IntoIterator<Item = T>,
        mut each: impl FnMut(&mut Self, T),
    ) {
        self.unless_empty(name.json, *b"[]", |out| {
            for item in items {
                out.comma();
                out.0.push(b'{');
                each(out, item);
                out.0.push(b'}');
            }
        });
    }

    fn map<K: AsRef<str>, V: AsRef<str>>(
        &mut self,
        name: Name,
        _: Words,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) {
        self.unless_empty(name.json, *b"{}", |out| {
            for (key, value) in pairs {
                out.comma();
                json::push_string(&mut out.0, key.as_ref());
                out.0.push(b':');
                json::push_string(&mut out.0, value.as_ref());
            }
        });
    }

    fn objects<K: AsRef<str>, T>(
        &mut self,
        name: Name,
        _: Words,
        items: impl IntoIterator<Item = (K, T)>,
        mut each: impl FnMut(&mut Self, T),
    ) {
        self.unless_empty(name.json, *b"{}", |out| {
            for (key, item) in items {
                out.comma();
                json::push_string(&mut out.0, key.as_ref());
                out.0.extend_from_slice(b":{");
                each(out, item);
                out.0.push(b'}');
            }
        });
    }
}

/// Writes XML elements, one after the other.
pub(crate) struct XmlWriter(xml::Writer);

impl XmlWriter {
    /// Goes on behind what is there.
    pub(crate) fn behind(xml: Vec<u8>) -> Self {
        Self(xml::Writer::behind(xml))
    }

    /// All of it.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.0.finish()
    }
}

impl Writer for XmlWriter {
    fn text(&mut self, name: &'static str, text: &str) {
        self.0.element(name, text);
    }

    fn plain(&mut self, name: &'static str, text: &[u8]) {
        self.0.plain(name, text);
    }

    fn number(&mut self, name: &'static str, number: u64) {
        self.plain(name, number.to_string().as_bytes());
    }

    fn flag(&mut self, name: &'static str, flag: bool) {
        self.plain(name, if flag { b"true" } else { b"false" });
    }

    fn texts<T: AsRef<str>>(&mut self, name: Name, texts: impl IntoIterator<Item = T>) {
        for text in texts {
            self.0.element(name.xml, text.as_ref());
        }
    }

    fn list<T>(
        &mut self,
        name: Name,
        items: impl IntoIterator<Item = T>,
        mut each: impl FnMut(&mut Self, T),
    ) {
        for item in items {
            self.0.open(name.xml);
            each(self, item);
            self.0.close(name.xml);
        }
    }

    fn map<K: AsRef<str>, V: AsRef<str>>(
        &mut self,
        name: Name,
        words: Words,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) {
        for (key, value) in pairs {
            self.0.open(name.xml);
            self.0.element(words.key, key.as_ref());
            self.0.element(words.value, value.as_ref());
            self.0.close(name.xml);
        }
    }

    fn objects<K: AsRef<str>, T>(
        &mut self,
        name: Name,
        words: Words,
        items: impl IntoIterator<Item = (K, T)>,
        mut each: impl FnMut(&mut Self, T),
    ) {
        for (key, item) in items {
            self.0.open(name.xml);
            self.0.element(words.key, key.as_ref());
            self.0.open(words.value);
            each(self, item);
            self.0.close(words.value);
            self.0.close(name.xml);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sample;

    impl Shape for Sample {
        fn write<W: Writer>(&self, out: &mut W) {
            out.text("Body", "a\"<b>&\r\n");
            out.number("Count", 7);
            out.flag("Fault", true);
            out.texts(Name { json: "Empty", xml: "E" }, [""; 0]);
            out.texts(Name { json: "Urls", xml: "Url" }, ["a", "b"]);
            out.map(Name { json: "Attributes", xml: "Attribute" }, NAME_VALUE, [("n", "v")]);
            out.list(Name { json: "Messages", xml: "Message" }, [1, 2], |out, id| {
                out.number("Id", id);
                out.objects(Name { json: "None", xml: "N" }, NAME_VALUE, [("", ()); 0], |_, ()| {});
                out.objects(Name { json: "Values", xml: "V" }, NAME_VALUE, [("k", "w")], |out, text| {
                    out.text("Text", text);
                });
            });
        }
    }

    #[test]
    fn json_leaves_out_what_is_empty() {
        let mut out = JsonWriter::with_capacity(0);
        Sample.write(&mut out);
        let expected = r#"{"Body":"a\"<b>&\r\n","Count":7,"Fault":true,"Urls":["a","b"],"Attributes":{"n":"v"},"Messages":[{"Id":1,"Values":{"k":{"Text":"w"}}},{"Id":2,"Values":{"k":{"Text":"w"}}}]}"#;
        assert_eq!(String::from_utf8(out.finish()).as_deref(), Ok(expected));
    }

    #[test]
    fn xml_is_flat_and_escaped() {
        let mut out = XmlWriter::behind(Vec::new());
        Sample.write(&mut out);
        let entry = |id| {
            format!("<Message><Id>{id}</Id><V><Name>k</Name><Value><Text>w</Text></Value></V></Message>")
        };
        let expected = format!(
            "<Body>a&quot;&lt;b&gt;&amp;&#xD;\n</Body><Count>7</Count><Fault>true</Fault><Url>a</Url><Url>b</Url><Attribute><Name>n</Name><Value>v</Value></Attribute>{}{}",
            entry(1),
            entry(2)
        );
        assert_eq!(String::from_utf8(out.finish()), Ok(expected));
    }
}
