//! A way to a server that can be lost: what goes over connections that were open then goes nowhere, and they are not
//! closed, as when a network forgets them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often a connection that forwards nothing looks whether the test is over.
const LOOKS_EVERY: Duration = Duration::from_millis(50);

/// Forwards connections to a port of this machine until the test program ends.
pub struct Proxy {
    pub address: SocketAddr,
    /// Connections up to this number forward nothing any more.
    lost: Arc<AtomicU64>,
    made: Arc<AtomicU64>,
}

impl Proxy {
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the system gives a port");
        let address = listener.local_addr().expect("a listener has an address");
        let (lost, made) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let proxy = Self { address, lost: Arc::clone(&lost), made: Arc::clone(&made) };
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                let number = made.fetch_add(1, Ordering::SeqCst) + 1;
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (from.try_clone(), to.try_clone());
                    let (Ok(from), Ok(to)) = (from, to) else { continue };
                    let lost = Arc::clone(&lost);
                    std::thread::spawn(move || forward(from, to, || lost.load(Ordering::SeqCst) >= number));
                }
            }
        });
        proxy
    }

    /// Nothing is forwarded any more, whatever connection it comes by.
    pub fn cut_off(&self) {
        self.lost.store(u64::MAX, Ordering::SeqCst);
    }

    /// Everything is forwarded again, also what was held up.
    pub fn mend(&self) {
        self.lost.store(0, Ordering::SeqCst);
    }

    /// Connections that are open forward nothing from now on; new ones do.
    pub fn lose(&self) {
        self.lost.store(self.made.load(Ordering::SeqCst), Ordering::SeqCst);
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, is_lost: impl Fn() -> bool) {
    let mut bytes = [0; 16 << 10];
    while let Ok(read) = from.read(&mut bytes) {
        while is_lost() {
            std::thread::sleep(LOOKS_EVERY);
        }
        if read == 0 || to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    // The other direction ends too.
    let _ended = (from.shutdown(std::net::Shutdown::Both), to.shutdown(std::net::Shutdown::Both));
}
