//! One address for several event loops: each has a socket of its own there.

use std::io;
use std::net::TcpListener;

use rustix::net::sockopt::set_socket_reuseport;
use tokio::net::TcpSocket;

/// Connections that wait to be accepted, as far as the system allows (`net.core.somaxconn` on Linux).
pub const BACKLOG: i32 = 4_096;

/// Several sockets at the address of one, which is the first of them: the system spreads connections over them. Until
/// here the one had the address for itself, so that no other server has it; sockets that share may be joined by those
/// of the same user only. What has connected to the first one is served by it.
pub(super) fn share_out(socket: TcpListener, loops: usize) -> io::Result<Vec<TcpListener>> {
    let address = socket.local_addr()?;
    set_socket_reuseport(&socket, true)?;
    // It is what makes sockets of this kind; they leave it at once.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _in_it = runtime.enter();
    let shared = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        socket.set_reuseport(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG.unsigned_abs())?.into_std()
    };
    std::iter::once(Ok(socket)).chain((1..loops).map(|_| shared())).collect()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn connections_to_a_shared_address_come_to_all_of_its_sockets() {
        use std::net::TcpStream;

        let only = TcpListener::bind("127.0.0.1:0").expect("the machine has a free port");
        let address = only.local_addr().expect("a bound socket has an address");
        let connect = || TcpStream::connect(address).expect("the address is listened at");
        let early = connect();
        let sockets = share_out(only, 2).expect("the address is shared");
        let clients: Vec<TcpStream> = std::iter::once(early).chain((0..64).map(|_| connect())).collect();
        let accepted: Vec<usize> = sockets
            .iter()
            .map(|socket| {
                socket.set_nonblocking(true).expect("the socket is open");
                std::iter::from_fn(|| socket.accept().ok()).count()
            })
            .collect();
        assert_eq!(accepted.iter().sum::<usize>(), clients.len());
        assert!(accepted.iter().all(|count| *count > 0), "{accepted:?}");
        let alone = TcpListener::bind(address).map(drop).expect_err("no other server has the address");
        assert_eq!(alone.kind(), io::ErrorKind::AddrInUse);
    }
}
