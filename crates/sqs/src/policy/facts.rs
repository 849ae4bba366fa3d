//! What conditions may ask of a request, by the names policies use.

use std::borrow::Cow;

use kew_core::{Queue, Timestamp};
use kew_http::{FieldValue, Request, date};

use crate::auth::Principal;

/// A header longer than this is not compared with patterns.
const HEADER_BYTES_MAX: usize = 1_024;

/// The answer to what a condition asks.
#[derive(Debug)]
pub(super) enum Fact<'a> {
    Known(Cow<'a, str>),
    /// Known not to be there.
    Absent,
    /// This server cannot know it.
    Unknown,
}

/// A request as policies see it.
#[derive(Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub(crate) principal: &'a Principal,
    pub(crate) request: &'a Request,
    pub(crate) queue: &'a Queue,
    pub(crate) now: Timestamp,
}

/// Facts of services, organisations, sessions and networks, none of which stand behind a request here.
const ABSENT: &[&str] = &[
    "aws:calledvia",
    "aws:calledviafirst",
    "aws:calledvialast",
    "aws:federatedprovider",
    "aws:multifactorauthage",
    "aws:multifactorauthpresent",
    "aws:principalorgid",
    "aws:principalorgpaths",
    "aws:principalservicename",
    "aws:principalservicenameslist",
    "aws:resourceorgid",
    "aws:resourceorgpaths",
    "aws:sourceaccount",
    "aws:sourcearn",
    "aws:sourceidentity",
    "aws:sourceorgid",
    "aws:sourceorgpaths",
    "aws:sourceowner",
    "aws:sourcevpc",
    "aws:sourcevpce",
    "aws:tokenissuetime",
    "aws:vpcsourceip",
];

impl<'a> Facts<'a> {
    /// The fact of this name, in small letters.
    pub(super) fn of(&self, key: &str) -> Fact<'a> {
        let Self { principal, request, queue, now } = self;
        let owned = |text: String| Fact::Known(Cow::Owned(text));
        match key {
            "aws:currenttime" => owned(date::rfc3339(*now)),
            "aws:epochtime" => owned((now.0 / 1_000).to_string()),
            "aws:principalaccount" => owned(principal.account.to_string()),
            "aws:principalarn" => Fact::Known(Cow::Borrowed(&principal.arn)),
            "aws:principalisawsservice" | "aws:viaawsservice" => Fact::Known(Cow::Borrowed("false")),
            "aws:principaltype" => {
                Fact::Known(Cow::Borrowed(if principal.user.is_some() { "User" } else { "Account" }))
            }
            "aws:referer" => self.header("referer"),
            "aws:requestedregion" => Fact::Known(Cow::Borrowed(&queue.key.region)),
            "aws:resourceaccount" => owned(queue.key.account.to_string()),
            "aws:securetransport" => owned(request.secure.to_string()),
            "aws:sourceip" => owned(request.peer.ip().to_canonical().to_string()),
            "aws:useragent" => self.header("user-agent"),
            "aws:username" => match &principal.user {
                Some(user) => Fact::Known(Cow::Borrowed(user)),
                None => Fact::Absent,
            },
            key if ABSENT.contains(&key) => Fact::Absent,
            _ => Fact::Unknown,
        }
    }

    fn header(&self, name: &str) -> Fact<'a> {
        match self.request.headers.get(name).map(FieldValue::text) {
            None => Fact::Absent,
            Some(Some(text)) if text.len() <= HEADER_BYTES_MAX => Fact::Known(Cow::Borrowed(text)),
            Some(_) => Fact::Unknown,
        }
    }
}
