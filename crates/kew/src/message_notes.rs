//! Attributes of messages for the admin API, kept as SQS keeps them: there they are shown.

use bytes::Bytes;
use kew_console::{Attribute, AttributeValue, MessageNotes};
use kew_core::Content;
use kew_sqs::PlainAttribute;

/// Attributes in the form of SQS.
#[derive(Clone, Copy, Debug)]
pub struct SqsNotes;

impl MessageNotes for SqsNotes {
    fn write(&self, body: &str, attributes: &[Attribute]) -> Result<Bytes, String> {
        let plain: Vec<PlainAttribute> = attributes.iter().map(plain).collect();
        kew_sqs::annotate(body, &plain)
    }

    fn read(&self, content: &Content) -> Vec<Attribute> {
        kew_sqs::attributes(content).into_iter().map(of_plain).collect()
    }
}

fn plain(attribute: &Attribute) -> PlainAttribute {
    PlainAttribute {
        name: attribute.name.clone(),
        data_type: attribute.data_type.clone(),
        value: match &attribute.value {
            AttributeValue::Text(text) => Ok(text.clone()),
            AttributeValue::Binary(bytes) => Err(bytes.clone()),
        },
    }
}

fn of_plain(attribute: PlainAttribute) -> Attribute {
    Attribute {
        name: attribute.name,
        data_type: attribute.data_type,
        value: attribute.value.map_or_else(AttributeValue::Binary, AttributeValue::Text),
    }
}
