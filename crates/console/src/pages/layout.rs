//! What all pages have around them, and the headers that keep a page to itself.

use std::sync::Arc;

use kew_http::{HeaderName, HeaderValue, Reply, StatusCode};
use maud::{DOCTYPE, Markup, html};

use super::theme::Theme;
use super::{assets, done, text};

const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const LOCATION: HeaderName = HeaderName::from_static("location");
const CACHE_CONTROL: HeaderName = HeaderName::from_static("cache-control");

/// Nothing is loaded, sent or framed but by this server; no script is in a page, and none can be made from text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";
const GUARDS: [(HeaderName, HeaderValue); 6] = [
    (HeaderName::from_static("content-security-policy"), HeaderValue::from_static(POLICY)),
    (HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff")),
    // Not `no-referrer`: with it a browser sends a form without its origin.
    (HeaderName::from_static("referrer-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("x-frame-options"), HeaderValue::from_static("DENY")),
];

/// Screens that every page leads to, each with the letter that the script follows.
const SCREENS: [(&str, &str, &str); 6] = [
    ("/", "Queues", "q"),
    ("/alarms", "Alarms", "a"),
    ("/push", "Push", "p"),
    ("/store", "Store", "s"),
    ("/config", "Configuration", "c"),
    ("/audit", "Audit log", "l"),
];

/// Who looks at a page.
#[derive(Clone, Debug)]
pub(super) struct Visitor {
    pub(super) name: String,
    pub(super) role: &'static str,
    pub(super) may_act: bool,
    pub(super) csrf: String,
    pub(super) has_session: bool,
}

/// What surrounds a page. Its clones are cheap, so that a page can be written on another thread.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) visitor: Option<Arc<Visitor>>,
    theme: Theme,
    /// What forms bring without a session; nothing for those who may not see it, whose pages have no forms.
    open_csrf: Option<Arc<str>>,
    /// The address of the page: where forms come back to.
    pub(super) here: Arc<str>,
    /// What the form before did, for the page to say.
    done: Option<&'static str>,
    version: &'static str,
}

/// What a page is called, and which of the screens it belongs to.
pub(super) struct Head {
    title: String,
    screen: &'static str,
    /// Where its live figures come from.
    stream: Option<String>,
}

impl Head {
    pub(super) fn of(title: impl Into<String>) -> Self {
        Self { title: title.into(), screen: "", stream: None }
    }

    pub(super) fn at(self, screen: &'static str) -> Self {
        Self { screen, ..self }
    }

    pub(super) fn live(self, stream: String) -> Self {
        Self { stream: Some(stream), ..self }
    }
}

impl Frame {
    pub(super) fn new(
        visitor: Option<Visitor>,
        theme: Theme,
        open_csrf: Option<&str>,
        here: String,
        version: &'static str,
    ) -> Self {
        Self {
            visitor: visitor.map(Arc::new),
            theme,
            open_csrf: open_csrf.map(Into::into),
            here: here.into(),
            done: None,
            version,
        }
    }

    /// The same for the page that says what the form before did.
    pub(super) fn saying(self, done: Option<&'static str>) -> Self {
        Self { done, ..self }
    }

    /// Whether the visitor may change things.
    pub(super) fn may_act(&self) -> bool {
        self.visitor.as_ref().is_some_and(|visitor| visitor.may_act)
    }

    /// What a form of this visitor brings.
    pub(super) fn csrf(&self) -> &str {
        let open = self.open_csrf.as_deref().unwrap_or_default();
        self.visitor.as_ref().map_or(open, |visitor| &visitor.csrf)
    }

    /// The hidden field that every form has.
    pub(super) fn proof(&self) -> Markup {
        html! { input type="hidden" name="csrf" value=(self.csrf()); }
    }

    /// A whole page.
    pub(super) fn page(&self, status: StatusCode, head: &Head, content: &Markup) -> Reply {
        let page = html! {
            (DOCTYPE)
            html lang="en" data-theme=[self.theme.attribute()] {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { (head.title) " · Kew" }
                    link rel="icon" href=(assets::address("kew.svg")) type="image/svg+xml";
                    link rel="stylesheet" href=(assets::address("console.css"));
                    script src=(assets::address("console.js")) defer {}
                }
                body data-stream=[head.stream.as_deref()] {
                    a.skip href="#content" { "Skip to the content" }
                    (self.top(head))
                    main #content tabindex="-1" { (content) }
                    (self.foot())
                    @if self.visitor.is_some() { (palette()) (keys()) }
                }
            }
        };
        let page = guarded(Reply::new(status, HTML, page.into_string()));
        if self.done.is_some() { done::said(page) } else { page }
    }

    /// What the form before did.
    pub(super) fn done(&self) -> Markup {
        html! { @if let Some(sentence) = self.done { p.done role="status" { (sentence) } } }
    }

    fn top(&self, head: &Head) -> Markup {
        // An id has 36 characters; blanks that were copied with it are cut by the page that looks for it.
        html! {
            header.top {
                a.brand href="/" { "Kew" }
                @if self.visitor.is_some() {
                    nav aria-label="Screens" {
                        @for (path, name, key) in SCREENS {
                            a href=(path) aria-current=[(head.screen == path).then_some("page")] aria-keyshortcuts=(key) {
                                (name)
                            }
                        }
                    }
                    button type="button" hidden data-palette="" aria-haspopup="dialog" {
                        "Go to " kbd { "Ctrl K" }
                    }
                    form.find action="/messages" role="search" aria-label="A message by its id" {
                        label.hidden for="find" { "Id of a message" }
                        input #find name="id" placeholder="Message id" size="24" maxlength="80" required
                            aria-keyshortcuts="f";
                        button { "Find" }
                    }
                }
                @if let Some(visitor) = &self.visitor { (self.who(visitor)) }
            }
        }
    }

    fn who(&self, visitor: &Visitor) -> Markup {
        html! {
            div.who {
                span.quiet title="Who you are, and what you may do" {
                    (text::isolated(&visitor.name)) ", " (visitor.role)
                }
                @if visitor.has_session {
                    form method="post" action="/sign-out" { (self.proof()) button { "Sign out" } }
                }
            }
        }
    }

    fn foot(&self) -> Markup {
        html! {
            footer {
                span { "Kew " (self.version) }
                span.pulse hidden {
                    button type="button" data-pulse="" aria-pressed="false" { "Pause live figures" }
                    " " span data-pulse-at="" {}
                    span.hidden role="status" aria-live="polite" data-pulse-state="" {}
                }
                @if self.visitor.is_some() {
                    button type="button" hidden data-keys="" aria-haspopup="dialog" { "Shortcuts " kbd { "?" } }
                }
                @if self.may_send() { (self.colours()) }
            }
        }
    }

    /// Whether forms of this page would be taken.
    fn may_send(&self) -> bool {
        !self.csrf().is_empty()
    }

    fn colours(&self) -> Markup {
        html! {
            form.theme method="post" action="/theme" {
                (self.proof())
                input type="hidden" name="back" value=(self.here);
                fieldset {
                    legend { "Colours" }
                    @for theme in Theme::ALL {
                        button name="theme" value=(theme.name())
                            aria-pressed=(if theme == self.theme { "true" } else { "false" }) {
                            (theme.title())
                        }
                    }
                }
            }
        }
    }
}

/// Where the script leads by a few letters; without it this stays closed.
fn palette() -> Markup {
    html! {
        dialog.palette aria-label="Go to a screen or a queue" {
            input type="text" role="combobox" aria-label="A screen, or how a queue's name begins" aria-expanded="true"
                aria-controls="choices" aria-autocomplete="list" autocomplete="off" spellcheck="false"
                maxlength="200" placeholder="A screen, or how a queue's name begins";
            ul #choices role="listbox" aria-label="What there is" {}
            p.help { "Arrow keys choose, Enter goes, Escape closes." }
        }
    }
}

/// Which letters lead where on this page; the script fills it in. Who writes by voice can switch the letters off.
fn keys() -> Markup {
    html! {
        dialog.keys aria-labelledby="keys-title" {
            h2 #keys-title { "Shortcuts of this page" }
            dl {}
            label.check { input type="checkbox" checked; " Single letters lead there" }
            form method="dialog" { button { "Close" } }
        }
    }
}

/// A reply with the headers of every page.
pub(super) fn guarded(reply: Reply) -> Reply {
    let reply = reply.with(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    GUARDS.iter().fold(reply, |reply, (name, value)| reply.with(name.clone(), value.clone()))
}

/// Where a form leads once it was followed.
pub(super) fn see(address: &str) -> Reply {
    let address = HeaderValue::from_str(address).unwrap_or(HeaderValue::from_static("/"));
    guarded(Reply::new(StatusCode::SEE_OTHER, HTML, "").with(LOCATION, address))
}
