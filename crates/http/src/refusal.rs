//! What this room refuses by itself, before a front-end is asked to act: the reason, its status and a plain text.
//!
//! A front-end words it in its own error format ([`crate::Handler::refuse`]).

use std::fmt;

use http::StatusCode;

/// Why a request is not answered by a front-end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// HTTP/1.1 wants exactly one `Host`, and there is none.
    HostMissing,
    /// There are several.
    HostRepeated,
    /// It is not a host and a port.
    HostMalformed,
    /// The target names another host than the header.
    HostsDiffer,
    /// There is more than one `Authorization`, and which one counts would depend on who reads them.
    AuthorizationRepeated,
    /// An open server is not reached by this name, since a web page may have made it up.
    HostNotAllowed {
        /// The name.
        host: Box<str>,
    },
    /// A browser says that a page of another site sent this.
    CrossSite,
    /// A page of this origin sent it, which is not the server's own.
    ForeignOrigin {
        /// The origin.
        origin: Box<str>,
    },
    /// The method would turn the connection into something else than HTTP.
    MethodNotServed,
    /// The body is longer than the bound.
    BodyTooLarge {
        /// The bound.
        bytes_max: usize,
    },
    /// The body ended too early, or its framing is broken.
    BodyBroken,
    /// The body came too slowly.
    BodyTooSlow,
    /// Clients leave as many bytes of replies untaken as the server may hold; later it is possible again.
    RepliesTooLarge,
    /// All requests together have bodies as large as the server may hold; later it is possible again.
    BodiesTooLarge,
    /// This server may not answer just now: another one may be the one that does.
    MayNotAnswer,
}

impl Refusal {
    /// The status that says it.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::HostMissing
            | Self::HostRepeated
            | Self::HostMalformed
            | Self::HostsDiffer
            | Self::AuthorizationRepeated
            | Self::BodyBroken => StatusCode::BAD_REQUEST,
            Self::HostNotAllowed { .. } => StatusCode::MISDIRECTED_REQUEST,
            Self::CrossSite | Self::ForeignOrigin { .. } => StatusCode::FORBIDDEN,
            Self::MethodNotServed => StatusCode::METHOD_NOT_ALLOWED,
            Self::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyTooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::BodiesTooLarge | Self::RepliesTooLarge | Self::MayNotAnswer => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        }
    }

    /// Whether the body is the reason, so that some of it may be unread.
    pub(crate) fn is_about_body(&self) -> bool {
        matches!(
            self,
            Self::BodyTooLarge { .. } | Self::BodyBroken | Self::BodyTooSlow | Self::BodiesTooLarge
        )
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HostMissing => f.write_str("the request has no Host header"),
            Self::HostRepeated => f.write_str("the request has more than one Host header"),
            Self::HostMalformed => f.write_str("the Host header is not a host and a port"),
            Self::HostsDiffer => f.write_str("the request's target and its Host header name different hosts"),
            Self::AuthorizationRepeated => f.write_str("more than one Authorization header was given"),
            Self::HostNotAllowed { host } => write!(
                f,
                "this server accepts any credentials, so it is not reached by the host name {host}: \
                 add it to the setting `hosts` of [server], use an IP address or localhost, \
                 or start the server with --auth strict or --insecure"
            ),
            Self::CrossSite => f.write_str(
                "this server accepts any credentials, so it takes no requests from web pages of other sites",
            ),
            Self::ForeignOrigin { origin } => write!(
                f,
                "this server accepts any credentials, so it takes no requests from web pages of {origin}"
            ),
            Self::MethodNotServed => f.write_str("CONNECT is not served here"),
            Self::BodyTooLarge { bytes_max } => {
                write!(f, "a request body may have at most {bytes_max} bytes")
            }
            Self::BodyBroken => f.write_str("the request body is broken"),
            Self::BodyTooSlow => f.write_str("the request body came too slowly"),
            Self::RepliesTooLarge => f.write_str(
                "clients leave as many bytes of replies untaken as the server may hold: try again later",
            ),
            Self::BodiesTooLarge => {
                f.write_str("the server holds as many bytes of request bodies as it may: try again later")
            }
            Self::MayNotAnswer => f.write_str("this server may not answer just now: try again"),
        }
    }
}
