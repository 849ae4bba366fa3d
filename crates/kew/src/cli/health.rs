//! `kew health`: whether a server is ready, for container health checks.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::config::{Address, address};

/// An answer is short.
const REPLY_BYTES_MAX: u64 = 16 << 10;

/// What `kew health` may be told.
#[derive(Args, Debug)]
pub(super) struct HealthArgs {
    /// The admin address of the server
    #[arg(long, env = "KEW_ADMIN", value_name = "ADDR", default_value = "127.0.0.1:9325")]
    admin: String,

    /// How long to wait for its answer, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=300))]
    timeout: u64,
}

/// Asks, and says what was answered: 0 when it is ready, 1 when it is not, 2 when the address makes no sense.
pub(super) fn run(args: &HealthArgs) -> ExitCode {
    let address = match address(&args.admin) {
        Ok(Address::At(address)) => reachable(address),
        Ok(Address::Off) => return told(2, "--admin off: there is nothing to ask"),
        Err(allowed) => {
            return told(2, &format!("--admin {} is not allowed; it must be {allowed}", args.admin));
        }
    };
    match ask(address, Duration::from_secs(args.timeout)) {
        Ok(reply) if reply.ready => told(0, &reply.text),
        Ok(reply) => told(1, &reply.text),
        Err(error) => told(1, &format!("no answer from {address}: {error}")),
    }
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
        return Err(io::Error::other("it does not speak HTTP"));
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
    // Where nobody listens the exit code says it all.
    let _told = if code == 0 {
        writeln!(io::stdout().lock(), "{line}")
    } else {
        writeln!(io::stderr().lock(), "{line}")
    };
    ExitCode::from(code)
}
