//! A shop as an HTTP service on axum. When the service answers an order with 201, the order is on
//! the device.
//!
//! Run: `cargo run -p katydid-examples --bin web -- FOLDER [ENGINE [ADDRESS]]`, and then
//!
//! ```sh
//! curl -H 'content-type: application/json' -d '[{"sku":"apple","price_cents":30,"stock":9}]' localhost:3939/items
//! curl -H 'content-type: application/json' -d '{"customer":"anna","lines":[{"sku":"apple","qty":2}]}' localhost:3939/orders
//! curl localhost:3939/customers/anna/orders
//! ```

mod store;

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use katydid::{EngineKind, Error, Stat, typed};
use store::{Item, NewOrder, Order, Shop, ShopError};

impl IntoResponse for ShopError {
    fn into_response(self) -> Response {
        let code = match &self {
            ShopError::UnknownItem(_) => StatusCode::NOT_FOUND,
            ShopError::OutOfStock { .. } => StatusCode::CONFLICT,
            ShopError::Busy | ShopError::Store(Error::LogFull { .. } | Error::MemoryFull { .. }) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            ShopError::Store(error) if error.is_no_space() => StatusCode::INSUFFICIENT_STORAGE,
            ShopError::Store(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (code, self.to_string()).into_response()
    }
}

type Answer<T> = Result<T, ShopError>;

async fn put_items(State(shop): State<Shop>, Json(items): Json<Vec<Item>>) -> Answer<StatusCode> {
    let _permit = shop.permits.try_acquire().ok_or(ShopError::Busy)?;
    let put = move |txn: &_| shop.items.put_all(txn, items.iter().map(|item| (&item.sku, typed::Json(item))));
    shop.db.clone().transact_async(put).await?;
    Ok(StatusCode::CREATED)
}

#[derive(serde::Deserialize)]
struct ListArgs {
    prefix: Option<String>,
    limit: Option<usize>,
}

async fn list_items(State(shop): State<Shop>, Query(args): Query<ListArgs>) -> Answer<Json<Vec<Item>>> {
    let (prefix, limit) = (args.prefix.unwrap_or_default(), args.limit.unwrap_or(100));
    Ok(Json(shop.db.clone().view_async(move |txn| shop.items(txn, &prefix, limit)).await?))
}

async fn place(State(shop): State<Shop>, Json(new): Json<NewOrder>) -> Answer<(StatusCode, Json<Order>)> {
    let _permit = shop.permits.clone().try_acquire().ok_or(ShopError::Busy)?;
    let order = shop.db.clone().try_transact_async(move |txn| shop.place(txn, &new)).await?;
    Ok((StatusCode::CREATED, Json(order)))
}

async fn orders_of(State(shop): State<Shop>, Path(customer): Path<String>) -> Answer<Json<Vec<Order>>> {
    Ok(Json(shop.db.clone().view_async(move |txn| shop.orders_of(txn, &customer, 20)).await?))
}

async fn report(State(shop): State<Shop>) -> Answer<Json<(u64, u64, u64)>> {
    Ok(Json(shop.db.clone().view_async(move |txn| shop.report(txn)).await?))
}

async fn metrics(State(shop): State<Shop>) -> Answer<String> {
    let Stat { commits, conflicts, checkpoints, log, commit_latency, .. } = shop.db.stat()?;
    let (syncs, bytes, p99) = (log.syncs, log.bytes, commit_latency.p99.as_micros());
    Ok(format!(
        "katydid_commits_total {commits}\nkatydid_conflicts_total {conflicts}\nkatydid_checkpoints_total \
         {checkpoints}\nkatydid_log_syncs_total {syncs}\nkatydid_log_bytes {bytes}\nkatydid_commit_p99_us {p99}\n"
    ))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let path = args.next().unwrap_or_else(|| "shop-data".to_owned());
    let engine = args.next().map_or(Ok(EngineKind::Paged), |word| word.parse())?;
    let address = args.next().unwrap_or_else(|| "127.0.0.1:3939".to_owned());
    let shop = Shop::open(&path, engine)?;
    let app = Router::new()
        .route("/items", post(put_items).get(list_items))
        .route("/orders", post(place))
        .route("/customers/{customer}/orders", get(orders_of))
        .route("/report", get(report))
        .route("/metrics", get(metrics))
        .with_state(shop.clone());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    axum::serve(listener, app)
        .with_graceful_shutdown(async { tokio::signal::ctrl_c().await.unwrap_or_default() })
        .await?;
    shop.db.close()?;
    Ok(())
}
