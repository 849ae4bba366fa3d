//! What forms may say: every member of every action, how it is spelt there, what JSON calls it and what it is.

/// How a member's place in the tree is read.
pub(super) enum Shape {
    Text,
    Integer,
    /// Numbered texts, or one without a number.
    Texts,
    /// Numbered pairs of a name and a text, or one without a number.
    Pairs {
        key: &'static str,
        value: &'static str,
    },
    /// Numbered pairs of a name and an object, or one without a number.
    Objects {
        key: &'static str,
        value: &'static str,
        members: &'static [Member],
    },
    /// Numbered objects.
    List(&'static [Member]),
}

/// A member: how forms spell it, what JSON calls it, what it is.
pub(super) struct Member {
    pub(super) spellings: &'static [&'static str],
    pub(super) json: &'static str,
    pub(super) shape: Shape,
}

const fn text(name: &'static [&'static str]) -> Member {
    Member { spellings: name, json: name[0], shape: Shape::Text }
}

const fn integer(name: &'static [&'static str]) -> Member {
    Member { spellings: name, json: name[0], shape: Shape::Integer }
}

const fn texts(spellings: &'static [&'static str], json: &'static str) -> Member {
    Member { spellings, json, shape: Shape::Texts }
}

const fn list(spellings: &'static [&'static str], members: &'static [Member]) -> Member {
    Member { spellings, json: "Entries", shape: Shape::List(members) }
}

const VALUE: &[Member] = &[text(&["StringValue"]), text(&["BinaryValue"]), text(&["DataType"])];

const MESSAGE_ATTRIBUTES: Member = Member {
    spellings: &["MessageAttribute", "MessageAttributes"],
    json: "MessageAttributes",
    shape: Shape::Objects { key: "Name", value: "Value", members: VALUE },
};

const MESSAGE_SYSTEM_ATTRIBUTES: Member = Member {
    spellings: &["MessageSystemAttribute", "MessageSystemAttributes"],
    json: "MessageSystemAttributes",
    shape: Shape::Objects { key: "Name", value: "Value", members: VALUE },
};

const SEND_ENTRY: &[Member] = &[
    text(&["Id"]),
    text(&["MessageBody"]),
    integer(&["DelaySeconds"]),
    text(&["MessageGroupId"]),
    text(&["MessageDeduplicationId"]),
    MESSAGE_ATTRIBUTES,
    MESSAGE_SYSTEM_ATTRIBUTES,
];

const DELETE_ENTRY: &[Member] = &[text(&["Id"]), text(&["ReceiptHandle"])];

const CHANGE_ENTRY: &[Member] = &[text(&["Id"]), text(&["ReceiptHandle"]), integer(&["VisibilityTimeout"])];

/// The members of all actions: no name means two things.
pub(super) const MEMBERS: &[Member] = &[
    text(&["QueueUrl"]),
    text(&["QueueName"]),
    text(&["QueueOwnerAWSAccountId"]),
    text(&["QueueNamePrefix"]),
    text(&["NextToken"]),
    text(&["MessageBody"]),
    text(&["MessageGroupId"]),
    text(&["MessageDeduplicationId"]),
    text(&["ReceiptHandle"]),
    text(&["ReceiveRequestAttemptId"]),
    text(&["Label"]),
    text(&["SourceArn"]),
    text(&["DestinationArn"]),
    text(&["TaskHandle"]),
    integer(&["DelaySeconds"]),
    integer(&["MaxNumberOfMessages"]),
    integer(&["VisibilityTimeout"]),
    integer(&["WaitTimeSeconds"]),
    integer(&["MaxResults"]),
    integer(&["MaxNumberOfMessagesPerSecond"]),
    texts(&["AttributeName", "AttributeNames"], "AttributeNames"),
    texts(&["MessageAttributeName", "MessageAttributeNames"], "MessageAttributeNames"),
    texts(&["MessageSystemAttributeName", "MessageSystemAttributeNames"], "MessageSystemAttributeNames"),
    texts(&["TagKey", "TagKeys"], "TagKeys"),
    texts(&["AWSAccountId", "AWSAccountIds"], "AWSAccountIds"),
    texts(&["ActionName", "ActionNames", "Actions"], "Actions"),
    Member {
        spellings: &["Attribute", "Attributes"],
        json: "Attributes",
        shape: Shape::Pairs { key: "Name", value: "Value" },
    },
    Member { spellings: &["Tag", "Tags"], json: "Tags", shape: Shape::Pairs { key: "Key", value: "Value" } },
    MESSAGE_ATTRIBUTES,
    MESSAGE_SYSTEM_ATTRIBUTES,
    list(&["SendMessageBatchRequestEntry"], SEND_ENTRY),
    list(&["DeleteMessageBatchRequestEntry"], DELETE_ENTRY),
    list(&["ChangeMessageVisibilityBatchRequestEntry"], CHANGE_ENTRY),
];
