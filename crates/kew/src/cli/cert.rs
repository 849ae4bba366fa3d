//! `kew cert`: a certificate authority for one machine, and a server certificate it signs.
//!
//! Run again it changes nothing, unless other names are asked for or the certificate is about to run out: then the same
//! authority signs a new one, so that clients that trust it need no change. Keys are readable by their owner only.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use kew_core::Timestamp;
use kew_http::date;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use thiserror::Error;

use crate::machine::system_now;

const DAY_MS: u64 = 86_400_000;
/// What clients accept of a private authority.
const SERVER_DAYS: u64 = 820;
const AUTHORITY_DAYS: u64 = 3_650;
/// A certificate that runs out sooner is made anew.
const RENEW_DAYS: u64 = 30;
/// The names of a server on this machine.
const NAMES: &[&str] = &["localhost", "*.localhost", "127.0.0.1", "::1", "host.docker.internal"];

/// The arguments of `kew cert`.
#[derive(Args, Debug)]
pub(super) struct CertArgs {
    /// The directory for the four files; made when it is missing
    #[arg(long, value_name = "DIR", default_value = "./kew-certs")]
    out: PathBuf,

    /// One more host name or IP address that clients use; may be repeated
    #[arg(long, value_name = "NAME", value_parser = host_name)]
    host: Vec<String>,

    /// Make a new server certificate even if the present one is good
    #[arg(long)]
    renew: bool,
}

/// The longest host name, and the longest part of one between dots.
const NAME_MAX: usize = 253;
const LABEL_MAX: usize = 63;

/// A host name or an IP address as clients compare them: an address in its usual form, a name in lower case. Its first
/// part may be `*`.
fn host_name(text: &str) -> Result<String, String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(address.to_string());
    }
    let name = text.to_ascii_lowercase();
    let labels: Vec<&str> = name.strip_prefix("*.").unwrap_or(&name).split('.').collect();
    // A last part of digits is an address that is none.
    let is_address = labels.last().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    if name.len() <= NAME_MAX && labels.iter().all(|label| is_label(label)) && !is_address {
        return Ok(name);
    }
    let hint = if !text.is_ascii() {
        "; write one that is not ASCII as xn--…"
    } else if text.contains(':') || text.contains('/') {
        ", without https:// before it, a port behind it, or brackets"
    } else {
        ": parts of 1 to 63 letters, digits and hyphens, with dots between them; the first may be *"
    };
    Err(format!("must be a host name or an IP address{hint}"))
}

/// Whether a text is one part of a host name. Container networks have names with underscores, and clients take them.
fn is_label(label: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=LABEL_MAX).contains(&label.len())
        && label.bytes().all(is_plain)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Why there are no certificates.
#[derive(Debug, Error)]
enum CertError {
    #[error("{}: {cause}", path.display())]
    File { path: PathBuf, cause: io::Error },
    #[error("the certificate cannot be made: {0}")]
    Made(#[from] rcgen::Error),
}

/// Makes what is missing.
pub(super) fn run(args: &CertArgs) -> ExitCode {
    match make(args, system_now()) {
        Ok(lines) => {
            // With a closed output the exit code says it all.
            let _told = io::stdout().lock().write_all(lines.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _told = writeln!(io::stderr().lock(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The files of a directory.
struct Files {
    authority: PathBuf,
    authority_key: PathBuf,
    server: PathBuf,
    server_key: PathBuf,
    /// What the server certificate was made for, and until when it holds.
    note: PathBuf,
}

impl Files {
    fn of(directory: &Path) -> Self {
        let file = |name| directory.join(name);
        Self {
            authority: file("ca.pem"),
            authority_key: file("ca-key.pem"),
            server: file("server.pem"),
            server_key: file("server-key.pem"),
            note: file("server.txt"),
        }
    }

    fn have_authority(&self) -> bool {
        self.authority.exists() && self.authority_key.exists()
    }

    fn have_server(&self) -> bool {
        self.server.exists() && self.server_key.exists()
    }
}

fn make(args: &CertArgs, now: Timestamp) -> Result<String, CertError> {
    fs::create_dir_all(&args.out).map_err(|cause| CertError::File { path: args.out.clone(), cause })?;
    let files = Files::of(&args.out);
    let mut names: Vec<String> = NAMES.iter().map(|name| (*name).to_owned()).collect();
    for name in &args.host {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    let has_authority = files.have_authority();
    if !has_authority {
        make_authority(&files, now)?;
    }
    let note = Note { names: names.clone(), until_day: now.0 / DAY_MS + SERVER_DAYS };
    // A new authority makes whatever an earlier one signed worthless.
    let is_good = has_authority && !args.renew && files.have_server() && note.is_met(&files.note, now);
    if !is_good {
        make_server(&files, &names, now)?;
        write(&files.note, note.text().as_bytes(), 0o644)?;
    }
    Ok(told(&files, &names, has_authority, is_good))
}

fn make_authority(files: &Files, now: Timestamp) -> Result<(), CertError> {
    let key = KeyPair::generate()?;
    let certificate = authority(now)?.self_signed(&key)?;
    write(&files.authority_key, key.serialize_pem().as_bytes(), 0o600)?;
    write(&files.authority, certificate.pem().as_bytes(), 0o644)
}

fn make_server(files: &Files, names: &[String], now: Timestamp) -> Result<(), CertError> {
    let pem = fs::read_to_string(&files.authority_key)
        .map_err(|cause| CertError::File { path: files.authority_key.clone(), cause })?;
    let issuer = Issuer::new(authority(now)?, KeyPair::from_pem(&pem)?);
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names.to_vec())?;
    params.distinguished_name = named("Kew");
    hold(&mut params, now, SERVER_DAYS);
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let certificate = params.signed_by(&key, &issuer)?;
    write(&files.server_key, key.serialize_pem().as_bytes(), 0o600)?;
    write(&files.server, certificate.pem().as_bytes(), 0o644)
}

/// The authority: name and key are what makes it the same one, whenever it signs.
fn authority(now: Timestamp) -> Result<CertificateParams, CertError> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = named("Kew local certificate authority");
    hold(&mut params, now, AUTHORITY_DAYS);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn named(name: &str) -> DistinguishedName {
    let mut named = DistinguishedName::new();
    named.push(DnType::CommonName, name);
    named
}

/// The date this number of days from now: year, month and day.
fn civil(now: Timestamp, days: u64) -> (i32, u8, u8) {
    let text = date::rfc3339(Timestamp(now.0 + days * DAY_MS));
    let mut parts = text.split(['-', 'T']);
    let year = parts.next().and_then(|part| part.parse().ok());
    let month = parts.next().and_then(|part| part.parse().ok());
    let day = parts.next().and_then(|part| part.parse().ok());
    (year.unwrap_or(1970), month.unwrap_or(1), day.unwrap_or(1))
}

/// Makes a certificate hold from today's midnight for this number of days.
fn hold(params: &mut CertificateParams, now: Timestamp, days: u64) {
    let (year, month, day) = civil(now, 0);
    params.not_before = date_time_ymd(year, month, day);
    let (year, month, day) = civil(now, days);
    params.not_after = date_time_ymd(year, month, day);
}

/// What a server certificate was made for.
struct Note {
    names: Vec<String>,
    until_day: u64,
}

impl Note {
    fn text(&self) -> String {
        format!("names {}\nuntil day {}\n", self.names.join(" "), self.until_day)
    }

    /// Whether what was noted is the same, and holds long enough.
    fn is_met(&self, path: &Path, now: Timestamp) -> bool {
        let text = fs::read_to_string(path).unwrap_or_default();
        let mut lines = text.lines();
        let names = lines.next().and_then(|line| line.strip_prefix("names "));
        let until = lines.next().and_then(|line| line.strip_prefix("until day ")?.parse::<u64>().ok());
        names == Some(self.names.join(" ").as_str())
            && until.is_some_and(|until| until >= now.0 / DAY_MS + RENEW_DAYS)
    }
}

/// A reader never sees half of it.
fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), CertError> {
    let failed = |cause| CertError::File { path: path.to_owned(), cause };
    let beside = path.with_extension("tmp");
    // Left by a run that was cut short; a new file surely has the mode it is made with.
    let _removed = fs::remove_file(&beside);
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside).map_err(failed)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed)?;
    fs::rename(&beside, path).map_err(failed)
}

fn told(files: &Files, names: &[String], had_authority: bool, had_server: bool) -> String {
    let made = |had: bool| if had { "kept" } else { "made" };
    let (ca, cert, key) = (files.authority.display(), files.server.display(), files.server_key.display());
    format!(
        "authority    {ca}   ({}; its key stays in {})
certificate  {cert}   ({}; key {key})
names        {}

Serve with them, in kew.toml:
  [tls]
  cert = \"{cert}\"
  key = \"{key}\"

Clients trust the authority:
  curl --cacert {ca} …
  AWS_CA_BUNDLE={ca}   NODE_EXTRA_CA_CERTS={ca}   REQUESTS_CA_BUNDLE={ca}   SSL_CERT_FILE={ca}
",
        made(had_authority),
        files.authority_key.display(),
        made(had_server),
        names.join(", "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_http::{Tls, TlsFiles};
    use std::os::unix::fs::PermissionsExt;

    fn args(out: &Path, host: &[&str]) -> CertArgs {
        CertArgs {
            out: out.to_owned(),
            host: host.iter().map(|name| (*name).to_owned()).collect(),
            renew: false,
        }
    }

    const NOW: Timestamp = Timestamp(1_800_000_000_000);

    #[test]
    fn files_can_be_served_with_and_keys_are_their_owners_own() {
        let directory = tempfile::tempdir().expect("the machine has a temporary directory");
        let out = directory.path().join("certs");
        let told = make(&args(&out, &["queue.test"]), NOW).expect("the certificates are made");
        assert!(told.contains("queue.test") && told.contains("(made;"), "{told}");
        let files = Files::of(&out);
        for key in [&files.authority_key, &files.server_key] {
            let mode = fs::metadata(key).expect("the file exists").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", key.display());
        }
        Tls::load(TlsFiles { cert: files.server, key: files.server_key })
            .expect("certificate and key are a pair");
    }

    #[test]
    fn run_again_it_changes_nothing_until_names_or_time_ask_for_it() {
        let directory = tempfile::tempdir().expect("the machine has a temporary directory");
        let out = directory.path();
        let files = Files::of(out);
        let read = || {
            let text = |path: &Path| fs::read_to_string(path).expect("the file exists");
            (text(&files.authority), text(&files.server))
        };
        make(&args(out, &[]), NOW).expect("the certificates are made");
        let first = read();
        let told = make(&args(out, &[]), NOW).expect("an unchanged certificate is no error");
        assert!(told.contains("(kept;"), "{told}");
        assert_eq!(read(), first);
        make(&args(out, &["other.test"]), NOW).expect("the certificate is made anew");
        let second = read();
        assert_eq!(second.0, first.0, "the authority stays");
        assert_ne!(second.1, first.1);
        let late = Timestamp(NOW.0 + (SERVER_DAYS - RENEW_DAYS + 1) * DAY_MS);
        make(&args(out, &["other.test"]), late).expect("the certificate is made anew");
        assert_ne!(read().1, second.1);
    }

    #[test]
    fn host_names_and_addresses_are_taken_as_clients_compare_them() {
        let (label, longest) = ("a".repeat(63), format!("{}.b", ["a".repeat(62).as_str(); 4].join(".")));
        for (given, taken) in [
            ("queue.test", "queue.test"),
            ("Queue.TEST", "queue.test"),
            ("*.queue.test", "*.queue.test"),
            ("my_queue", "my_queue"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("10.0.0.7", "10.0.0.7"),
            ("fe80:0:0:0:0:0:0:1", "fe80::1"),
            ("3com.test", "3com.test"),
            (&label, &label),
            (&longest, &longest),
        ] {
            assert_eq!(host_name(given).as_deref(), Ok(taken));
        }
    }

    #[test]
    fn what_is_no_host_name_and_no_address_is_refused_with_what_to_write() {
        let (label, too_long) = ("a".repeat(64), format!("{}.bc", ["a".repeat(62).as_str(); 4].join(".")));
        for (given, says) in [
            ("", "parts of"),
            ("a b", "parts of"),
            ("a\nb", "parts of"),
            ("a..b", "parts of"),
            (".a", "parts of"),
            ("a.", "parts of"),
            ("-a.test", "parts of"),
            ("a-.test", "parts of"),
            ("*", "parts of"),
            ("a.*.test", "parts of"),
            ("*a.test", "parts of"),
            ("1.2.3", "parts of"),
            ("999.1.1.1", "parts of"),
            (&label, "parts of"),
            (&too_long, "parts of"),
            ("queue.test:443", "port"),
            ("https://queue.test", "https://"),
            ("[::1]", "brackets"),
            ("b\u{fc}cher.example", "xn--"),
        ] {
            let refused = host_name(given).expect_err(given);
            assert!(refused.contains(says), "{given}: {refused}");
        }
    }

    #[test]
    fn a_name_that_is_given_twice_is_there_once() {
        let directory = tempfile::tempdir().expect("the machine has a temporary directory");
        let told = make(&args(directory.path(), &["a.test", "localhost", "a.test"]), NOW);
        let told = told.expect("the certificates are made");
        assert_eq!((told.matches("a.test").count(), told.matches(", localhost").count()), (1, 0), "{told}");
    }
}
