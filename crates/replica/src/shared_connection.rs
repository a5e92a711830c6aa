//! A client's connection to a replica, which many calls share.
//!
//! Tasks of one runtime use a connection. Each call has a number and waits for the reply with this
//! number; one task sends the calls and passes the replies on. Invariants:
//!
//! 1. No number is used twice on a connection, so the reply to a call that has stopped waiting
//!    never answers another call.
//! 2. When the connection ends, each call that has no reply gets an error.
//! 3. Calls that are queued at the same time are sent together, and so are replies: under load,
//!    many calls cost one system call.

use crate::client_message::{ClientCall, ClientReply, NumberedCall, NumberedReply};
use crate::frame::{Frame, FrameError, PAYLOAD_BYTES_MAX};
use crate::message::Message;
use crate::peer::{AbortOnDrop, LinkError, Wire};
use futures_util::{Sink, SinkExt, StreamExt};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

/// A connection for calls. Dropping it ends the connection.
pub(crate) struct SharedConnection {
    numbers: AtomicU64,
    queue: UnboundedSender<Queued>,
    _task: AbortOnDrop<()>,
}

/// A call that is to be sent.
struct Queued {
    number: u64,
    frame: Frame,
    reply: oneshot::Sender<ClientReply>,
}

impl SharedConnection {
    /// Makes a connection from a wire on which the replica has welcomed the client.
    pub(crate) fn new(wire: Wire) -> Self {
        let (queue, queued) = unbounded_channel();
        let task = tokio::spawn(async move {
            // Each waiting call gets `LinkError::Closed`, whatever the reason is.
            let _end = exchange(wire, queued).await;
        });
        SharedConnection { numbers: AtomicU64::new(0), queue, _task: AbortOnDrop(task) }
    }

    /// Returns true if the connection has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }

    /// Sends a call and returns the reply.
    pub(crate) async fn call(&self, call: &ClientCall) -> Result<ClientReply, LinkError> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let frame = NumberedCall { number, call: call.clone() }.to_frame()?;
        let length = frame.payload.len();
        if length > PAYLOAD_BYTES_MAX {
            // The encoder would refuse the frame, and the connection would end for all calls.
            return Err(FrameError::TooLong { length }.into());
        }
        let (reply, replied) = oneshot::channel();
        self.queue.send(Queued { number, frame, reply }).map_err(|_| LinkError::Closed)?;
        replied.await.map_err(|_| LinkError::Closed)
    }
}

/// Sends the queued calls and passes the replies on, until the connection ends.
async fn exchange(wire: Wire, mut queued: UnboundedReceiver<Queued>) -> Result<(), LinkError> {
    let (mut to, mut from) = wire.split();
    let waiting: Mutex<HashMap<u64, oneshot::Sender<ClientReply>>> = Mutex::default();
    let send = async {
        loop {
            let frame = |Queued { number, frame, reply }: Queued| {
                waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(number, reply);
                frame
            };
            if let Err(error) = send_queued(&mut to, &mut queued, frame).await {
                break Err::<(), LinkError>(error);
            }
        }
    };
    let receive = async {
        while let Some(frame) = from.next().await {
            let NumberedReply { number, reply } = NumberedReply::from_frame(&frame?)?;
            let call = waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
            if let Some(call) = call {
                // The call may have stopped waiting.
                let _sent = call.send(reply);
            }
        }
        Err::<(), LinkError>(LinkError::Closed)
    };
    let ended: Result<((), ()), LinkError> = tokio::try_join!(send, receive);
    ended.map(|_| ())
}

/// Waits for the next item of a queue, and sends its frame together with those of all items that
/// are in the queue by then.
pub(crate) async fn send_queued<T>(
    to: &mut (impl Sink<Frame, Error = FrameError> + Unpin),
    queue: &mut UnboundedReceiver<T>,
    mut frame: impl FnMut(T) -> Frame,
) -> Result<(), LinkError> {
    let mut next = Some(queue.recv().await.ok_or(LinkError::Closed)?);
    while let Some(item) = next {
        to.feed(frame(item)).await?;
        next = queue.try_recv().ok();
    }
    Ok(to.flush().await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_message::{Key, ReadAt};
    use crate::frame::FrameCodec;
    use crate::peer::{next, send};
    use crate::transport::Connection;
    use futures_util::future::join_all;
    use std::time::Duration;
    use tokio_util::codec::Framed;

    /// Returns the two ends of a connection in memory.
    fn wires() -> [Wire; 2] {
        let (near, far) = tokio::io::duplex(1 << 12);
        [near, far].map(|end| Framed::new(Box::new(end) as Box<dyn Connection>, FrameCodec::default()))
    }

    fn get(key: u8) -> ClientCall {
        ClientCall::Get { table: "t".to_owned(), key: Key(vec![key; 200]), at: ReadAt::Applied }
    }

    fn value(call: &ClientCall) -> ClientReply {
        let ClientCall::Get { key, .. } = call else { panic!("a read") };
        ClientReply::Value(Some(key.0.clone().into()))
    }

    fn run<T>(test: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(test)
    }

    #[test]
    fn calls_at_the_same_time_get_their_own_replies_in_any_order() {
        run(async {
            let [near, mut far] = wires();
            let connection = SharedConnection::new(near);
            // The replica answers only when it has all calls, and the last call first.
            let replica = tokio::spawn(async move {
                let mut calls = Vec::new();
                while calls.len() < 100 {
                    calls.push(next::<NumberedCall>(&mut far).await.expect("a call"));
                }
                for NumberedCall { number, call } in calls.iter().rev() {
                    let reply = NumberedReply { number: *number, reply: value(call) };
                    send(&mut far, &reply).await.expect("sent");
                }
                far
            });
            let calls: Vec<_> = (0..100).map(get).collect();
            let replies = join_all(calls.iter().map(|call| connection.call(call))).await;
            for (call, reply) in calls.iter().zip(replies) {
                assert_eq!(reply.expect("a reply"), value(call));
            }
            replica.await.expect("no panic");
        });
    }

    #[test]
    fn a_late_reply_answers_no_other_call() {
        run(async {
            let [near, mut far] = wires();
            let connection = SharedConnection::new(near);
            let first = get(1);
            let late = tokio::time::timeout(Duration::from_millis(1), connection.call(&first)).await;
            assert!(late.is_err(), "the call has stopped waiting");
            let second = get(2);
            let answers = async {
                for _ in 0..2 {
                    let NumberedCall { number, call } = next(&mut far).await.expect("a call");
                    let reply = NumberedReply { number, reply: value(&call) };
                    send(&mut far, &reply).await.expect("sent");
                }
            };
            let (reply, ()) = tokio::join!(connection.call(&second), answers);
            assert_eq!(reply.expect("a reply"), value(&second));
        });
    }

    #[test]
    fn calls_without_a_reply_fail_when_the_connection_ends() {
        run(async {
            let [near, mut far] = wires();
            let connection = SharedConnection::new(near);
            let calls: Vec<_> = (0..3).map(get).collect();
            let end = async {
                let NumberedCall { number, call } = next(&mut far).await.expect("a call");
                send(&mut far, &NumberedReply { number, reply: value(&call) }).await.expect("sent");
                drop(far);
            };
            let (replies, ()) = tokio::join!(join_all(calls.iter().map(|call| connection.call(call))), end);
            assert_eq!(replies.iter().filter(|reply| reply.is_ok()).count(), 1);
            assert!(
                replies.iter().all(|reply| matches!(reply, Ok(_) | Err(LinkError::Closed))),
                "{replies:?}"
            );
            assert!(connection.is_closed());
            assert!(matches!(connection.call(&calls[0]).await, Err(LinkError::Closed)));
        });
    }
}
