//! The colours of the console: those of the system, or the ones that a person chose, which a cookie remembers.

use kew_http::Request;

use super::forms::Form;
use super::layout::see;
use super::{PageReply, Visit, cookies, sign_in};

const COOKIE: &str = "kew_theme";
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
    cookies::value(request, COOKIE).and_then(Theme::named).unwrap_or(Theme::System)
}

/// `POST /theme`.
pub(super) fn take(visit: &Visit<'_>) -> PageReply {
    let form = Form::read(visit)?;
    let theme = Theme::named(form.text("theme")).unwrap_or(Theme::System);
    let reply = see(&sign_in::own_address(form.text("back")));
    Ok(cookies::set(reply, (COOKIE, theme.name()), LASTS_SECONDS, visit.request.secure))
}
