//! All routes, with the layers that apply to every request.

pub(super) mod audit;
pub(super) mod copies;
pub(super) mod erasing;
pub(super) mod events;
pub(super) mod health;
pub(super) mod late;
pub(super) mod metrics;
pub(super) mod operator;
pub(super) mod picture;
mod range;
pub(super) mod records;
pub(super) mod releases;
pub(super) mod streams;
pub(super) mod sums;
pub(super) mod watch;
pub(super) mod webhooks;

use super::app::{App, Peer, Side};
use super::page;
use super::problem::{ProblemAnswer, ProblemKind, with_document};
use super::threads::Work;
use super::work::waiting;
use crate::cors::Cors;
use axum::extract::{MatchedPath, Path, Request, State};
use axum::http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use axum::{Extension, Json, Router};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tower_http::compression::CompressionLayer;

/// The routes of a listener. `openapi` makes the document of the routes.
pub(super) fn router(app: &Arc<App>, side: Side, is_tls: bool, cors: &Cors, openapi: fn() -> &'static str) -> Router {
    let reading = Router::new()
        .route("/v1/streams/{stream}", get(streams::one))
        .route("/v1/streams/{stream}/releases", get(releases::releases))
        .route("/v1/streams/{stream}/releases/latest", get(releases::latest))
        .route("/v1/streams/{stream}/plan", get(releases::plan))
        .route("/v1/streams/{stream}/report", get(releases::report))
        .route("/v1/streams/{stream}/picture.svg", get(picture::svg))
        .route("/v1/streams/{stream}/picture.png", get(picture::png))
        .route("/v1/streams/{stream}/copy", get(copies::copy))
        .route("/v1/sources", get(operator::sources))
        .route("/openapi.json", get(move |app: State<Arc<App>>| document(app, openapi)))
        .route("/healthz", get(health::healthz))
        .route("/livez", get(health::livez))
        .route("/readyz", get(health::readyz))
        .route("/", get(|headers: HeaderMap| asset(Path("index.html".to_owned()), headers)))
        .route("/assets/sign-in.json", get(|app: State<Arc<App>>| async move { Json(app.issuers.sign_in()) }))
        .route("/assets/{name}", get(asset));
    let router = match side {
        Side::Public => reading.route("/v1/streams", get(streams::list)).route("/metrics", get(metrics::of_public)),
        Side::Private => reading
            .route("/v1/streams", get(streams::list).post(streams::open))
            .route("/metrics", get(metrics::metrics))
            .route("/v1/streams/{stream}/events", post(events::take))
            .route("/v1/streams/{stream}/positions", get(events::positions))
            .route("/v1/streams/{stream}/otlp/v1/logs", post(records::otlp))
            .route("/v1/streams/{stream}/loki/api/v1/push", post(records::loki))
            .route("/v1/streams/{stream}/sums", put(sums::put))
            .route("/v1/streams/{stream}/declaration", get(sums::declaration))
            .route("/v1/streams/{stream}/close", post(streams::close))
            .route("/v1/streams/{stream}/retire", post(streams::retire))
            .route("/v1/streams/{stream}/extend", post(streams::extend))
            .route("/v1/streams/{stream}/erase", post(erasing::erase))
            .route("/v1/streams/{stream}/groups", post(streams::join))
            .route("/v1/streams/{stream}/late", get(late::late))
            .route("/v1/operator", get(operator::operator))
            .route("/v1/audit", get(audit::audit))
            .route("/v1/webhooks", get(webhooks::webhooks))
            .route("/v1/webhooks/dead-letters", post(webhooks::dead_letters))
            .route("/v1/backup", post(operator::backup))
            .route("/v1/tokens", get(operator::tokens).post(operator::make_token))
            .route("/v1/tokens/{id}", delete(operator::revoke_token)),
    };
    // Watches are not compressed, so that each line arrives at once.
    // Problems get their documents before they are compressed.
    let documents = map_response(with_document);
    let router = router
        .layer(documents.clone())
        .layer(CompressionLayer::new())
        .route("/v1/streams/{stream}/watch", get(watch::watch).layer(documents));
    let (app_of, guarded) = (Arc::clone(app), Arc::clone(app));
    let router = router
        .fallback(|| async { ProblemAnswer::no_page() })
        .method_not_allowed_fallback(|| async {
            ProblemAnswer::new(StatusCode::METHOD_NOT_ALLOWED, "method", "Method not allowed")
                .because("this path supports other methods; the listener for reading supports only GET")
        })
        .layer(Extension(side))
        .layer(axum::extract::DefaultBodyLimit::max(1 << 20));
    let router = match cors.layer() {
        Some(cors) => router.layer(cors),
        None => router,
    };
    router
        .layer(from_fn_with_state(app_of, admit))
        .layer(from_fn(move |request: Request, next: Next| guard(request, next, is_tls, guarded.issuers.policy())))
        .with_state(Arc::clone(app))
}

/// Admits a request if its address is within the limits, and logs its route, but not its content.
async fn admit(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>().map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.0);
    let route = request.extensions().get::<MatchedPath>().map_or("-".to_owned(), |path| path.as_str().to_owned());
    if !app.limits.admits(peer) {
        app.requests.add(request.method().as_str(), &route, 429, Some("too-many-requests"), Duration::ZERO);
        return ProblemAnswer::new(StatusCode::TOO_MANY_REQUESTS, "too-many-requests", "Too many requests")
            .because("your address sends too many requests; wait a second, or ask the operator for a higher limit")
            .retry_after(1)
            .into_response();
    }
    let (method, began) = (request.method().clone(), Instant::now());
    let response = next.run(request).await;
    let (status, duration) = (response.status().as_u16(), began.elapsed());
    let problem = response.extensions().get::<ProblemKind>().map(|kind| kind.0.as_str());
    app.requests.add(method.as_str(), &route, status, problem, duration);
    tracing::debug!(method = %method, route = %route, status, micros = duration.as_micros(), "request");
    response
}

/// Adds the headers that every answer has.
async fn guard(request: Request, next: Next, is_tls: bool, policy: HeaderValue) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, policy);
    // Pages that may read an answer may also embed it.
    let is_shared = headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN);
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", if is_shared { "cross-origin" } else { "same-origin" }),
        ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
    ] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if is_tls {
        let hsts = HeaderValue::from_static("max-age=31536000");
        headers.insert(HeaderName::from_static("strict-transport-security"), hsts);
    }
    response
}

async fn document(State(app): State<Arc<App>>, text: fn() -> &'static str) -> Result<Response, ProblemAnswer> {
    waiting(&app, Work::Quick, move |_| Ok(([(CONTENT_TYPE, "application/json")], text()))).await
}

async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    page::asset(&name, &headers).unwrap_or_else(|| ProblemAnswer::no_page().into_response())
}
