//! Connections between replicas: a trait, and TCP.
//!
//! This code runs in tasks of the replica's runtime. Tests and programs can replace TCP by a
//! transport of their own, such as TLS over TCP.
//!
//! If a machine loses its power or its network, the other side of each of its connections gets no
//! message about the loss. A side that only waits for messages would then keep the connection for
//! ever. So the operating system probes idle connections (TCP keepalive), and ends those whose
//! other side does not answer.

use futures_util::future::BoxFuture;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

/// A connection: bytes in both directions.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// Makes and accepts connections.
pub trait Transport: Send + Sync + 'static {
    /// Connects to the replica at `address`.
    fn connect(&self, address: &str) -> BoxFuture<'static, io::Result<Box<dyn Connection>>>;

    /// Begins to accept connections at `address`.
    fn listen(&self, address: &str) -> BoxFuture<'static, io::Result<Box<dyn Listener>>>;
}

/// Accepts connections.
pub trait Listener: Send + 'static {
    /// Returns the address at which replicas and clients reach the listener.
    fn address(&self) -> String;

    /// Waits for the next connection. Dropping the future loses no connection.
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Box<dyn Connection>>>;
}

/// Probes of an idle connection: the first after 30 s, further ones 10 s apart. After three probes
/// without an answer, a minute after the last message, the connection ends.
const KEEPALIVE: TcpKeepalive = TcpKeepalive::new()
    .with_time(Duration::from_secs(30))
    .with_interval(Duration::from_secs(10))
    .with_retries(3);

/// Connects to `address`.
pub(crate) async fn connect(address: &str) -> io::Result<TcpStream> {
    prepared(TcpStream::connect(address).await?)
}

/// Accepts the next connection.
pub(crate) async fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    prepared(listener.accept().await?.0)
}

/// Sets the options of a connection: small messages are sent at once, and idle connections probed.
fn prepared(stream: TcpStream) -> io::Result<TcpStream> {
    prepare(SockRef::from(&stream))?;
    Ok(stream)
}

/// Sets the options of a connection of any runtime: see [`prepared`].
pub(crate) fn prepare(socket: SockRef<'_>) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&KEEPALIVE)
}

/// TCP without encryption, for trusted networks. The cluster's id protects against replicas of
/// other clusters that connect by mistake, but not against attackers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tcp;

impl Transport for Tcp {
    fn connect(&self, address: &str) -> BoxFuture<'static, io::Result<Box<dyn Connection>>> {
        let address = address.to_owned();
        Box::pin(async move { Ok(Box::new(connect(&address).await?) as Box<dyn Connection>) })
    }

    fn listen(&self, address: &str) -> BoxFuture<'static, io::Result<Box<dyn Listener>>> {
        let address = address.to_owned();
        Box::pin(async move {
            let listener = TcpListener::bind(address).await?;
            let address = listener.local_addr()?.to_string();
            Ok(Box::new(TcpAcceptor { listener, address }) as Box<dyn Listener>)
        })
    }
}

struct TcpAcceptor {
    listener: TcpListener,
    address: String,
}

impl Listener for TcpAcceptor {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<Box<dyn Connection>>> {
        Box::pin(async move { Ok(Box::new(accept(&self.listener).await?) as Box<dyn Connection>) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_probe_an_idle_connection() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
            let address = listener.local_addr().expect("an address").to_string();
            let (near, far) = tokio::join!(connect(&address), accept(&listener));
            for stream in [near.expect("connect"), far.expect("accept")] {
                let socket = SockRef::from(&stream);
                assert!(socket.keepalive().expect("an option") && stream.nodelay().expect("an option"));
                assert_eq!(socket.tcp_keepalive_time().expect("an option"), Duration::from_secs(30));
                assert_eq!(socket.tcp_keepalive_interval().expect("an option"), Duration::from_secs(10));
                assert_eq!(socket.tcp_keepalive_retries().expect("an option"), 3);
            }
        });
    }
}
