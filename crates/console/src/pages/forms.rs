//! Forms that were sent: whole, bounded, and proved to come from one of our own pages.

use kew_http::{Request, StatusCode, form, secret};

use super::Visit;
use super::messages::render;
use super::trouble::Trouble;

/// Fields of a form.
const FIELDS_MAX: usize = 60;
/// Forms larger than this hold a message.
const SMALL_BYTES_MAX: usize = 64 << 10;
/// A message's body of 1 MiB, each byte of which may be written with three.
const BYTES_MAX: usize = 4 << 20;

/// The fields of a form, in their order.
pub(super) struct Form(Vec<(String, String)>);

impl Form {
    /// The small form that was sent.
    pub(super) fn read(visit: &Visit<'_>) -> Result<Self, Trouble> {
        Self::check(visit.request, SMALL_BYTES_MAX)?;
        Self::proved(&visit.request.body, visit.frame.csrf())
    }

    /// The same for a form that holds a message, on a thread that may be busy.
    pub(super) async fn read_large(visit: &Visit<'_>) -> Result<Self, Trouble> {
        Self::check(visit.request, BYTES_MAX)?;
        let (body, frame) = (visit.request.body.clone(), visit.frame.clone());
        render(move || Self::proved(&body, frame.csrf())).await?
    }

    fn check(request: &Request, bytes_max: usize) -> Result<(), Trouble> {
        let content_type = request.header("content-type").unwrap_or_default();
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            let message = "this takes forms of the console's own pages; programs use the admin API";
            return Err(Trouble::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_a_form", message));
        }
        if request.body.len() > bytes_max {
            let message = format!("the form may have at most {bytes_max} bytes");
            return Err(Trouble::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message));
        }
        Ok(())
    }

    fn proved(body: &[u8], csrf: &str) -> Result<Self, Trouble> {
        let pairs =
            form::pairs(body, FIELDS_MAX).map_err(|error| Trouble::bad_form(format!("the form: {error}")))?;
        let form =
            Self(pairs.into_iter().map(|(name, value)| (name.into_owned(), value.into_owned())).collect());
        if csrf.is_empty() || !secret::is_same_text(csrf, form.text("csrf")) {
            let message = "the form does not bring the proof that it comes from a page of this session";
            return Err(Trouble::new(StatusCode::FORBIDDEN, "csrf", message));
        }
        Ok(form)
    }

    /// A field's text; nothing where it is not there.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value)
    }

    /// A field's text, unless it is empty.
    pub(super) fn given(&self, name: &str) -> Option<&str> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    /// A whole number, unless the field is empty.
    pub(super) fn whole(&self, name: &str) -> Result<Option<u64>, Trouble> {
        let Some(text) = self.given(name) else { return Ok(None) };
        let number = text.trim().parse();
        number.map(Some).map_err(|_| Trouble::bad_form(format!("{name} must be a whole number")))
    }
}

/// The text of a text area, whose lines browsers end with two characters.
pub(super) fn lines(text: &str) -> String {
    text.replace("\r\n", "\n")
}
