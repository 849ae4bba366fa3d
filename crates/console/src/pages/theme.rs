//! The colours of the console: those of the system, or the ones that a person chose, which a cookie remembers.

use kew_http::{FieldValue, HeaderName, HeaderValue, Request};

use super::forms::Form;
use super::layout::see;
use super::{PageReply, Visit, sign_in};

const COOKIE: &str = "kew_theme";
const SET_COOKIE: HeaderName = HeaderName::from_static("set-cookie");
/// How long a choice is remembered: a year.
const LASTS_SECONDS: u32 = 365 * 86_400;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Theme {
    System,
    Light,
    Dark,
}

impl Theme {
    pub(super) const ALL: [Self; 3] = [Self::System, Self::Light, Self::Dark];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::System => "System",
            Self::Light => "Light",
            Self::Dark => "Dark",
        }
    }

    /// What the stylesheet goes by; nothing where the system decides.
    pub(super) fn attribute(self) -> Option<&'static str> {
        (self != Self::System).then(|| self.name())
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|theme| theme.name() == name)
    }
}

/// The choice that a request's cookie holds.
pub(super) fn of(request: &Request) -> Theme {
    let headers = request.headers.get_all("cookie").filter_map(FieldValue::text);
    let mut values = headers
        .flat_map(|header| header.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(name, _)| *name == COOKIE);
    values.next().and_then(|(_, value)| Theme::named(value)).unwrap_or(Theme::System)
}

/// `POST /theme`.
pub(super) fn take(visit: &Visit<'_>) -> PageReply {
    let form = Form::read(visit)?;
    let theme = Theme::named(form.text("theme")).unwrap_or(Theme::System);
    let secure = if visit.request.secure { "; Secure" } else { "" };
    let name = theme.name();
    let cookie =
        format!("{COOKIE}={name}; Path=/; Max-Age={LASTS_SECONDS}; HttpOnly; SameSite=Strict{secure}");
    let reply = see(&sign_in::own_address(form.text("back")));
    Ok(match HeaderValue::from_str(&cookie) {
        Ok(cookie) => reply.with(SET_COOKIE, cookie),
        Err(_) => reply,
    })
}
