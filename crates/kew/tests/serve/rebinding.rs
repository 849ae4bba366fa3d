//! Web pages that own a domain and point it at this machine, tried with a real browser (DNS rebinding).
//!
//! The browser believes that every name below `attacker.example` is 127.0.0.1. A page's own server hands out the page
//! and passes everything else on to Kew, byte for byte: what the browser then sends has one origin with the page, as
//! after a domain has changed its address.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::program::{Kew, data_directory};

/// A browser needs long to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// The page asks what it was loaded from, as itself, and shows the replies.
const PAGE: &str = r#"<!doctype html><title>page</title><p id="told">nothing</p><script>
fetch("/devstoreaccount1?comp=list", {headers: {"x-ms-version": "2025-01-05"}})
  .then(async reply => { told.textContent = "told " + reply.status + " " + await reply.text(); })
  .catch(error => { told.textContent = "failed " + error; });
</script>"#;

/// The browser that the environment names, or that the path holds. Without one a test says so aloud and passes, unless
/// the environment promises one.
fn browser() -> Option<String> {
    let named = std::env::var("KEW_CHROMIUM").ok();
    let known = ["chromium", "chromium-browser", "google-chrome"].map(str::to_owned);
    let found = named.into_iter().chain(known).find(|program| {
        let asked =
            Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        asked.is_ok_and(|status| status.success())
    });
    if found.is_none() {
        assert!(std::env::var_os("KEW_CHROMIUM_NEEDED").is_none(), "there is no chromium");
        eprintln!("SKIPPED: there is no chromium on the path, and KEW_CHROMIUM names none");
    }
    found
}

/// What a page looks like once its scripts have run.
fn shown(browser: &str, directory: &Path, url: &str) -> String {
    let (profile, page) = (directory.join("profile"), directory.join("page"));
    let mut child = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--host-resolver-rules=MAP *.attacker.example 127.0.0.1",
            "--virtual-time-budget=10000",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(url)
        .stdout(std::fs::File::create(&page).expect("the directory is ours"))
        .stderr(Stdio::null())
        .spawn()
        .expect("the browser was found");
    let begun = Instant::now();
    while child.try_wait().expect("the child process was not waited for before").is_none() {
        if begun.elapsed() > PATIENCE {
            let _ended = (child.kill(), child.wait());
            panic!("the browser does not end at {url}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    std::fs::read_to_string(&page).expect("the file was written")
}

/// Serves the page, and passes what else is asked on to `behind`; the port.
fn page_in_front_of(behind: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("a bound socket has an address").port();
    let behind: Arc<str> = behind.into();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let behind = Arc::clone(&behind);
            std::thread::spawn(move || answer(stream, &behind));
        }
    });
    port
}

fn answer(mut stream: TcpStream, behind: &str) {
    let mut asked = Vec::new();
    let mut piece = [0; 4 << 10];
    while !asked.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return,
            Ok(bytes) => asked.extend_from_slice(&piece[..bytes]),
        }
    }
    // A reader that went away is a browser that has what it wanted.
    if asked.starts_with(b"GET /page ") {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close";
        let _sent = write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{PAGE}", PAGE.len());
        return;
    }
    let Ok(mut kew) = TcpStream::connect(behind) else { return };
    let _passed = kew.write_all(&asked);
    let _ended = kew.shutdown(Shutdown::Write);
    let _answered = std::io::copy(&mut kew, &mut stream);
}

#[test]
fn a_page_that_points_its_own_domain_here_reads_nothing() {
    let Some(browser) = browser() else { return };
    let directory = data_directory();
    let kew = Kew::start_with(directory.path(), &["--store", "memory"]);
    let azure = kew.ports["azure"].as_str().expect("the listener is on").to_owned();
    let port = page_in_front_of(azure.clone());
    for name in
        ["devstoreaccount1.attacker.example", "devstoreaccount1.queue.attacker.example", "x.attacker.example"]
    {
        let page = shown(&browser, directory.path(), &format!("http://{name}:{port}/page"));
        assert!(page.contains("told 421 ") && !page.contains("EnumerationResults"), "{name}: {page}");
    }
    // The same page finds what it asks for where the name is this machine's own.
    let own = format!("http://x.localhost:{}/page", page_in_front_of(kew.sqs.clone()));
    let page = shown(&browser, directory.path(), &own);
    assert!(page.contains("told ") && !page.contains("told 421"), "{page}");
    // Without anything between: the browser goes to every listener by a name of the attacker's.
    let (_, azure_port) = azure.rsplit_once(':').expect("an address has a port");
    let direct = format!("http://devstoreaccount1.attacker.example:{azure_port}/?comp=list");
    let page = shown(&browser, directory.path(), &direct);
    assert!(!page.contains("EnumerationResults"), "{page}");
    let direct = format!("http://devstoreaccount1.queue.localhost:{azure_port}/?comp=list");
    let page = shown(&browser, directory.path(), &direct);
    assert!(page.contains("EnumerationResults"), "the browser works: {page}");
}
