//! What somebody sees who opens the address of a listener, and that no client of a dialect sees it.

use super::program::{Kew, command, data_directory, http, whole};

/// The addresses of dialects, and what each serves.
fn addresses(kew: &Kew) -> Vec<(String, &'static str)> {
    let address = |name: &str| kew.ports[name].as_str().expect("the listener is on").to_owned();
    let also = kew.ports["also"][0].as_str().expect("the listener is on").to_owned();
    vec![
        (address("sqs"), "Amazon SQS"),
        (address("azure"), "Azure Queue Storage"),
        (address("cloudflare"), "Cloudflare Queues"),
        (also, "Amazon SQS, Azure Queue Storage, Cloudflare Queues"),
    ]
}

#[test]
fn the_root_says_what_is_served_and_where_the_admin_listener_is() {
    for strict in [false, true] {
        let directory = data_directory();
        let mut program = command();
        program.env("KEW_ADMIN_TOKEN", "hush").env("KEW_AUTH", if strict { "strict" } else { "open" });
        let flags = ["--store", "memory", "--also", "127.0.0.1:0"];
        let kew = Kew::start_by(program, directory.path(), &flags);
        for (address, title) in addresses(&kew) {
            let (status, text) = http(&address, "GET", "/", &[], "");
            let says = format!("This address serves {title}.\n");
            assert!(status == 200 && text.starts_with("Kew ") && text.contains(&says), "{status} {text}");
            assert!(text.contains(&format!("http://{}/", kew.admin)), "{text}");
            let accept = [("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
            let page = whole(&address, "GET", "/", &accept, "");
            assert!(page.contains("content-type: text/html"), "{page}");
            assert!(page.contains(&format!("serves {title}.</p>")), "{page}");
            assert!(page.contains(&format!("<a href=\"http://{}/\">", kew.admin)), "{page}");
            let head = whole(&address, "HEAD", "/", &[], "");
            assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
        }
    }
}

#[test]
fn what_a_dialect_answers_at_the_root_it_goes_on_answering() {
    let directory = data_directory();
    let kew = Kew::start_with(directory.path(), &["--store", "memory", "--also", "127.0.0.1:0"]);
    let addresses = addresses(&kew);
    for (address, _) in addresses.iter().filter(|(_, title)| title.starts_with("Amazon")) {
        let (status, listed) = http(address, "GET", "/?Action=ListQueues", &[], "");
        assert!(status == 200 && listed.contains("ListQueuesResponse"), "{listed}");
        let signed = [(
            "Authorization",
            "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/sqs/aws4_request, SignedHeaders=host, Signature=0",
        )];
        let (status, nothing) = http(address, "GET", "/", &signed, "");
        assert_eq!((status, nothing.as_str()), (404, "<UnknownOperationException/>\n"));
        let (status, _) = http(address, "POST", "/", &[], "");
        assert_eq!(status, 404, "a page is got, not posted");
    }
    let host = format!("devstoreaccount1.queue.localhost:{}", 10_001);
    for (address, _) in addresses.iter().filter(|(_, title)| title.contains("Azure")) {
        let headers = [("Host", host.as_str())];
        let (status, listed) = http(address, "GET", "/?comp=list", &headers, "");
        assert!(status == 200 && listed.contains("EnumerationResults"), "{listed}");
        let (_, refused) = http(address, "GET", "/", &[("Host", &host), ("x-ms-version", "2025-01-05")], "");
        assert!(refused.contains("<Error>"), "{refused}");
    }
    let (address, _) = &addresses[2];
    let (status, envelope) = http(address, "GET", "/client/v4/accounts/0/queues", &[], "");
    assert!(status == 200 && envelope.contains("\"success\":true"), "{envelope}");
}

#[test]
fn a_page_of_another_site_does_not_see_it_and_an_admin_listener_that_is_off_is_not_shown() {
    let directory = data_directory();
    let kew =
        Kew::start_with(directory.path(), &["--store", "memory", "--also", "127.0.0.1:0", "--admin", "off"]);
    for (address, _) in addresses(&kew) {
        let (_, text) = http(&address, "GET", "/", &[], "");
        assert!(text.contains("--admin off"), "{text}");
        let (status, _) = http(&address, "GET", "/", &[("Host", "rebound.example.com")], "");
        assert_eq!(status, 421, "a name that anybody may have pointed here");
    }
}
