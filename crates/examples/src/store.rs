//! The rows of the shop and the operations on them. Each order is one durable transaction.

use katydid::typed::{Index, IndexedTable, Json, TypedTable};
use katydid::{Database, EngineKind, Options, Permits, Prefix, Sequence, Transaction};
use serde::{Deserialize, Serialize};
use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::Arc;

/// Maximum number of transactions in flight. Further ones are refused with [`ShopError::Busy`].
const IN_FLIGHT: NonZeroUsize = NonZeroUsize::new(512).unwrap();
/// Number of order numbers that are reserved at once.
const NUMBERS: NonZeroU64 = NonZeroU64::new(100).unwrap();

#[derive(Debug, thiserror::Error)]
pub enum ShopError {
    #[error("no item {0}")]
    UnknownItem(String),
    #[error("only {left} of {sku} left")]
    OutOfStock { sku: String, left: u32 },
    #[error("too many requests in flight")]
    Busy,
    #[error(transparent)]
    Store(#[from] katydid::Error),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Item {
    pub sku: String,
    pub price_cents: u64,
    pub stock: u32,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Line {
    pub sku: String,
    pub qty: u32,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    pub id: u64,
    pub customer: String,
    pub total_cents: u64,
    pub lines: Vec<Line>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct NewOrder {
    pub customer: String,
    pub lines: Vec<Line>,
    pub idempotency_key: Option<String>,
}

#[derive(Clone)]
pub struct Shop {
    pub db: Database,
    pub items: TypedTable<String, Json<Item>>,
    orders: IndexedTable<u64, Json<Order>>,
    by_customer: Index<u64, Json<Order>, String>,
    idempotency: TypedTable<String, u64>,
    numbers: Arc<Sequence>,
    pub permits: Permits,
}

impl Shop {
    pub fn open(path: &str, engine: EngineKind) -> katydid::Result<Shop> {
        let db = Database::open_with(path, Options { engine: engine.into(), ..Options::default() })?;
        let by_customer = Index::new(db.table("orders_by_customer")?, |_, Json(order): &Json<Order>| {
            Some(order.customer.clone())
        });
        Ok(Shop {
            items: TypedTable::new(db.table("items")?),
            orders: IndexedTable::new(TypedTable::new(db.table("orders")?)).with(&by_customer),
            by_customer,
            idempotency: TypedTable::new(db.table("idempotency")?),
            numbers: Arc::new(db.sequence(&db.table("meta")?, "orders", NUMBERS)?),
            permits: Permits::new(IN_FLIGHT),
            db,
        })
    }

    pub fn place(&self, txn: &Transaction, new: &NewOrder) -> Result<Order, ShopError> {
        if let Some(key) = &new.idempotency_key
            && let Some(id) = self.idempotency.get(txn, key)?
            && let Some(Json(order)) = self.orders.rows().get(txn, id)?
        {
            return Ok(order);
        }
        let mut total_cents = 0_u64;
        for Line { sku, qty } in &new.lines {
            let item = self.items.get_for_update(txn, sku)?;
            let Json(mut item) = item.ok_or_else(|| ShopError::UnknownItem(sku.clone()))?;
            let left = item.stock;
            item.stock =
                left.checked_sub(*qty).ok_or_else(|| ShopError::OutOfStock { sku: sku.clone(), left })?;
            total_cents = total_cents.saturating_add(item.price_cents.saturating_mul(u64::from(*qty)));
            self.items.put(txn, sku, Json(item))?;
        }
        let (id, customer, lines) = (self.numbers.next()?, new.customer.clone(), new.lines.clone());
        let order = Order { id, customer, total_cents, lines };
        self.orders.put(txn, id, Json(&order))?;
        if let Some(key) = &new.idempotency_key {
            self.idempotency.put(txn, key, id)?;
        }
        Ok(order)
    }

    pub fn items(&self, txn: &Transaction, prefix: &str, limit: usize) -> katydid::Result<Vec<Item>> {
        self.items.range(txn, Prefix(prefix)).limit(limit).map(|row| Ok(row?.1.0)).collect()
    }

    /// Returns the latest orders of a customer.
    pub fn orders_of(&self, txn: &Transaction, customer: &str, limit: usize) -> katydid::Result<Vec<Order>> {
        let orders = self.orders.find(txn, &self.by_customer, customer);
        orders.rev().take(limit).map(|row| Ok(row?.1.0)).collect()
    }

    /// Returns the numbers of orders, cents and units sold.
    pub fn report(&self, txn: &Transaction) -> katydid::Result<(u64, u64, u64)> {
        self.orders.rows().range(txn, ..).try_fold((0, 0, 0), |(orders, cents, units), row| {
            let (_, Json(order)) = row?;
            let sold: u64 = order.lines.iter().map(|line| u64::from(line.qty)).sum();
            Ok((orders + 1, cents + order.total_cents, units + sold))
        })
    }
}
