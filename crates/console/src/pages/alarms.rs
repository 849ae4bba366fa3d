//! The alarms of the rules in the settings, those that fire first.

use kew_http::StatusCode;
use maud::{Markup, html};
use serde_json::Value;

use super::layout::Head;
use super::system::table;
use super::{PageReply, Visit, queue_path, read, text};

/// Rows of the page.
const ROWS_MAX: usize = 200;

/// `GET /alarms`.
pub(super) async fn show(visit: &Visit<'_>) -> PageReply {
    let found = visit.read("/alarms", &[]).await?;
    let alarms = read::list(&found, "alarms");
    let firing = alarms.iter().filter(|alarm| is_firing(alarm)).count();
    let rows: Vec<Vec<Markup>> = alarms.iter().take(ROWS_MAX).map(row).collect();
    let content = html! {
        h1 { "Alarms" }
        p.quiet { "Rules in " code { "[[alarms]]" } " of the configuration, looked at every 5 s. Each firing and each end of one is a line of the log, and posted to the rule's webhook." }
        @if alarms.is_empty() {
            p.empty { "No rule watches a queue that is there." }
        } @else {
            p { (firing) " of " (alarms.len()) " fire." }
            (table("Alarms", &["State", "Rule", "Queue", "Measured", "Value", "Fires above", "Since"], &rows))
            @if alarms.len() > ROWS_MAX { p.quiet { "The first " (ROWS_MAX) " are shown." } }
        }
    };
    Ok(visit.frame.page(StatusCode::OK, &Head::of("Alarms").at("/alarms"), &content))
}

fn is_firing(alarm: &Value) -> bool {
    read::text(alarm, "state") == "firing"
}

fn row(alarm: &Value) -> Vec<Markup> {
    let bound = number(read::number(alarm, "bound").unwrap_or_default());
    vec![
        match is_firing(alarm) {
            true => html! { span.badge.warn { "firing" } },
            false => html! { span.badge.good { "ok" } },
        },
        text::isolated(read::text(alarm, "name")),
        match read::given(alarm, "queue") {
            Some(queue) => html! { a href=(queue_path(queue)) { (text::isolated(queue)) } },
            None => html! { span.quiet { "–" } },
        },
        html! { code { (text::visible(read::text(alarm, "metric"))) } },
        html! { (number(read::number(alarm, "value").unwrap_or_default())) },
        html! { (bound) " for " (text::length(read::whole(alarm, "for_seconds"))) },
        text::instant(read::whole(alarm, "since_ms")),
    ]
}

/// A value of any unit, short.
fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_keep_their_parts_and_counts_have_none() {
        assert_eq!(number(1_000.0), "1000");
        assert_eq!(number(0.8125), "0.812");
    }
}
