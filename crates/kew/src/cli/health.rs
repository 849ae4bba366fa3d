//! `kew health`: whether a server is ready, for container health checks.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use kew_http::client::{Client, ClientSettings, Outgoing};
use kew_http::{HeaderMap, Method, StatusCode, TlsError};

use super::causes::{NOT_PLAIN, with_causes};
use crate::config::socket_to_ask;

/// An answer is short.
const REPLY_BYTES_MAX: u64 = 16 << 10;

/// The arguments of `kew health`.
#[derive(Args, Debug)]
pub(super) struct HealthArgs {
    /// The admin address of the server; `https://` before it asks over TLS
    #[arg(long, env = "KEW_ADMIN", value_name = "ADDR", default_value = "127.0.0.1:9325")]
    admin: String,

    /// Ask over TLS, and believe the certificates in this PEM file (such as ca.pem of `kew cert`) instead of the
    /// machine's
    #[arg(long, env = "KEW_HEALTH_CA", value_name = "FILE")]
    ca: Option<PathBuf>,

    /// The name in the server's certificate, where it is not the host in --admin
    #[arg(long, env = "KEW_HEALTH_NAME", value_name = "NAME")]
    name: Option<String>,

    /// How long to wait for its answer, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=300))]
    timeout: u64,
}

/// Asks, and says what was answered: 0 when it is ready, 1 when it is not, 2 when what is asked for makes no sense.
pub(super) fn run(args: &HealthArgs) -> ExitCode {
    let is_https = args.admin.starts_with("https://");
    let named = args.admin.strip_prefix("https://").or_else(|| args.admin.strip_prefix("http://"));
    let named = named.unwrap_or(&args.admin).trim_end_matches('/');
    let address = match socket_to_ask(named) {
        Ok(address) => reachable(address),
        Err(_) if named == "off" => return told(2, "--admin off: there is nothing to ask"),
        Err(allowed) => {
            return told(2, &format!("--admin {} is not allowed; it must be {allowed}", args.admin));
        }
    };
    let within = Duration::from_secs(args.timeout);
    let answer = if is_https || args.ca.is_some() {
        let host = args.name.clone().or_else(|| host_of(named)).unwrap_or_else(|| bare(address));
        match client(args, address, within) {
            Ok(client) => ask_over_tls(&client, &format!("{host}:{}", address.port()), within),
            Err(error) => return told(2, &format!("--ca: {error}")),
        }
    } else {
        ask(address, within).map_err(|error| error.to_string())
    };
    match answer {
        Ok(reply) if reply.ready => told(0, &reply.text),
        Ok(reply) => told(1, &reply.text),
        Err(error) => told(1, &format!("no answer from {address}: {error}")),
    }
}

/// The name before the port, if it is one.
fn host_of(named: &str) -> Option<String> {
    let host = named.rsplit_once(':')?.0;
    let is_name = !host.starts_with('[') && host.parse::<IpAddr>().is_err();
    is_name.then(|| host.to_owned())
}

/// The address as it stands in a URL, without its port.
fn bare(address: SocketAddr) -> String {
    match address.ip() {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

fn client(args: &HealthArgs, address: SocketAddr, within: Duration) -> Result<Client, TlsError> {
    let settings = ClientSettings { connect_within: within, ..ClientSettings::default() };
    let client = Client::new(ClientSettings { reply_bytes_max: REPLY_BYTES_MAX as usize, ..settings });
    let client = client.at(address);
    match &args.ca {
        Some(file) => client.trusting(file),
        None => Ok(client),
    }
}

fn ask_over_tls(client: &Client, authority: &str, within: Duration) -> Result<Answer, String> {
    let uri = format!("https://{authority}/readyz");
    let uri = uri.parse().map_err(|_| format!("{authority} is no host and port"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    let outgoing = Outgoing { method: Method::GET, uri, headers: HeaderMap::new(), body: Bytes::new() };
    let answer = runtime.block_on(client.exchange(outgoing, within)).map_err(|error| with_causes(&error))?;
    let text = String::from_utf8_lossy(&answer.body).trim().to_owned();
    Ok(Answer { ready: answer.status == StatusCode::OK, text })
}

struct Answer {
    ready: bool,
    text: String,
}

fn ask(address: SocketAddr, within: Duration) -> io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&address, within)?;
    stream.set_read_timeout(Some(within))?;
    stream.set_write_timeout(Some(within))?;
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut reply = String::new();
    stream.take(REPLY_BYTES_MAX).read_to_string(&mut reply)?;
    let (head, body) = reply.split_once("\r\n\r\n").unwrap_or((&reply, ""));
    let status = head.split(' ').nth(1).unwrap_or_default();
    if !head.starts_with("HTTP/1.") {
        return Err(io::Error::other(NOT_PLAIN));
    }
    Ok(Answer { ready: status == "200", text: body.trim().to_owned() })
}

/// A server that is bound to all addresses is asked on this machine.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        IpAddr::V4(_) | IpAddr::V6(_) => {}
    }
    address
}

fn told(code: u8, line: &str) -> ExitCode {
    // With a closed output the exit code says it all.
    let _told = if code == 0 {
        writeln!(io::stdout().lock(), "{line}")
    } else {
        writeln!(io::stderr().lock(), "{line}")
    };
    ExitCode::from(code)
}
