//! An outbox: a service changes its own rows and sends a message to another service. Neither
//! happens without the other.
//!
//! The message is written in the transaction that changes the rows. A sender delivers messages in
//! order and removes each one after it was delivered. If the sender dies between delivery and
//! removal, the message is delivered again, so the receiver drops a message whose number it has
//! seen.
//!
//! Run: `cargo run --example outbox` (in memory), or `cargo run --example outbox -- FOLDER`
//! (durable).

use katydid::typed::TypedTable;
use katydid::{Database, Result};
use std::collections::BTreeMap;
use std::num::NonZeroU64;

fn main() -> Result<()> {
    let db = match std::env::args().nth(1) {
        Some(folder) => Database::open(folder)?,
        None => Database::in_memory()?,
    };
    run(&db)?;
    db.close()
}

/// The other service: it counts orders, and a message that comes twice counts once.
#[derive(Default)]
struct Receiver {
    seen: u64,
    orders: BTreeMap<String, u64>,
}

impl Receiver {
    fn receive(&mut self, number: u64, customer: &str) {
        if number > self.seen {
            self.seen = number;
            *self.orders.entry(customer.to_owned()).or_default() += 1;
        }
    }
}

/// Takes orders, delivers the messages about them, and delivers one twice.
pub fn run(db: &Database) -> Result<()> {
    let orders = TypedTable::<u64, String>::new(db.table("orders")?);
    let outbox = TypedTable::<u64, String>::new(db.table("outbox")?);
    let numbers = db.sequence(&db.table("numbers")?, "orders", NonZeroU64::MIN)?;
    for customer in ["anna", "karl", "anna"] {
        let number = numbers.next()?;
        // Either both rows are written or none, even if the machine loses power here.
        db.transact(|txn| {
            orders.put(txn, number, customer)?;
            outbox.put(txn, number, customer)
        })?;
    }
    let mut receiver = Receiver::default();
    // The sender was interrupted after the delivery of the first message and before the removal of
    // that message.
    let oldest = || outbox.first(&db.begin_read_only()?);
    if let Some((number, customer)) = oldest()? {
        receiver.receive(number, &customer);
    }
    while let Some((number, customer)) = oldest()? {
        receiver.receive(number, &customer);
        db.transact(|txn| outbox.delete(txn, number))?;
    }
    println!("orders by customer, as the other service knows them: {:?}", receiver.orders);
    assert_eq!(receiver.orders, BTreeMap::from([("anna".to_owned(), 2), ("karl".to_owned(), 1)]));
    Ok(())
}
