//! A message between SQS's words and ours: as a send says it, as it is kept, and as a receive shows it.

pub(crate) mod annotations;
pub(crate) mod draft;
pub(crate) mod hash;
pub(crate) mod message_attributes;
pub(crate) mod plain;
pub(crate) mod shown;
pub(crate) mod system_attributes;
