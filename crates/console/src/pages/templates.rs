//! What a form for sending begins with: messages as the clients of each dialect send them.

use maud::{Markup, html};

use super::send::Draft;
use super::{queue_path, text};

/// A message to begin with.
struct Template {
    /// As it stands in the address of the form.
    name: &'static str,
    title: &'static str,
    content_type: &'static str,
    body: &'static str,
    /// Names, types and values.
    attributes: &'static [(&'static str, &'static str, &'static str)],
    /// How consumers see it.
    note: &'static str,
}

/// The templates of each dialect.
const DIALECTS: [(&str, &[Template]); 3] = [("SQS", &SQS), ("Azure", &AZURE), ("Cloudflare", &CLOUDFLARE)];

const ORDER: &str = "{\"order\": {\"id\": 17}}";

const SQS: [Template; 2] = [
    Template {
        name: "sqs",
        title: "text",
        content_type: "text",
        body: ORDER,
        attributes: &[],
        note: "As SendMessage sends it: every dialect reads this text.",
    },
    Template {
        name: "sqs-attributes",
        title: "with attributes",
        content_type: "text",
        body: ORDER,
        attributes: &[
            ("source", "String", "console"),
            ("priority", "Number", "5"),
            ("digest", "Binary", "AAEC/w=="),
        ],
        note: "Message attributes of each type. SQS shows them; the other dialects read the body alone.",
    },
];

const AZURE: [Template; 2] = [
    Template {
        name: "azure",
        title: "text",
        content_type: "text",
        body: ORDER,
        attributes: &[],
        note: "The text as it is, for clients whose message encoding is none.",
    },
    Template {
        name: "azure-base64",
        title: "Base64",
        content_type: "text-base64",
        body: ORDER,
        attributes: &[],
        note: "Sent as Base64 of this text: what queue triggers of Azure Functions and older SDKs expect.",
    },
];

const CLOUDFLARE: [Template; 3] = [
    Template {
        name: "cloudflare-json",
        title: "JSON",
        content_type: "json",
        body: ORDER,
        attributes: &[],
        note: "A Worker gets an object, a pull consumer the JSON in Base64. SQS and Azure read its text.",
    },
    Template {
        name: "cloudflare-text",
        title: "text",
        content_type: "text",
        body: "hello",
        attributes: &[],
        note: "A Worker gets a string.",
    },
    Template {
        name: "cloudflare-bytes",
        title: "bytes",
        content_type: "bytes",
        body: "AAEC/w==",
        attributes: &[],
        note: "A Worker gets an ArrayBuffer. SQS and Azure read it as Base64.",
    },
];

/// The templates that fit a queue: FIFO queues are of SQS alone.
fn of_queue(is_fifo: bool) -> impl Iterator<Item = (&'static str, &'static [Template])> {
    DIALECTS.into_iter().filter(move |(dialect, _)| !is_fifo || *dialect == "SQS")
}

/// The draft that a template of this name makes; of none an empty one.
pub(super) fn draft(name: &str, is_fifo: bool) -> Draft {
    let found = of_queue(is_fifo).flat_map(|(_, templates)| templates).find(|one| one.name == name);
    found.map_or_else(Draft::default, |one| Draft {
        body: one.body.to_owned(),
        content_type: one.content_type.to_owned(),
        group: if is_fifo { "a-group".to_owned() } else { String::new() },
        attributes: one
            .attributes
            .iter()
            .map(|(name, word, value)| ((*name).to_owned(), (*word).to_owned(), (*value).to_owned()))
            .collect(),
        ..Draft::default()
    })
}

/// Links to the form with each template in it, and what the chosen one is.
pub(super) fn choice(queue: &str, chosen: &str, is_fifo: bool) -> Markup {
    let path = queue_path(queue);
    let note = of_queue(is_fifo).flat_map(|(_, templates)| templates).find(|one| one.name == chosen);
    html! {
        nav.templates aria-label="Templates" {
            @for (dialect, templates) in of_queue(is_fifo) {
                span {
                    span.quiet { (dialect) ":" }
                    @for one in templates {
                        " "
                        a href={ (path) "/send?template=" (one.name) }
                            aria-current=[(one.name == chosen).then_some("true")]
                            aria-label={ (dialect) ", " (one.title) } { (one.title) }
                    }
                }
            }
        }
        @if let Some(one) = note { p.help { (text::sentence(one.note)) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_template_has_a_name_of_its_own() {
        let names: Vec<&str> =
            of_queue(false).flat_map(|(_, templates)| templates).map(|one| one.name).collect();
        let mut apart = names.clone();
        apart.sort_unstable();
        apart.dedup();
        assert_eq!((names.len(), apart.len()), (7, 7));
    }

    #[test]
    fn a_fifo_queue_has_templates_of_sqs_with_a_group() {
        let draft = draft("sqs", true);
        assert_eq!((draft.group.as_str(), draft.content_type.as_str()), ("a-group", "text"));
        assert_eq!(super::draft("azure", true).body, "");
        assert_eq!(super::draft("other", false).body, "");
    }
}
