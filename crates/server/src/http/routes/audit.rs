//! The audit log of operators' requests.

use super::super::app::{App, Caller};
use super::super::problem::{Document, ProblemAnswer};
use super::super::threads::Work;
use super::super::work::waiting;
use crate::audit::AuditEntry;
use axum::Json;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// The most entries of an answer.
const MAX_ENTRIES: usize = 10_000;

/// Runs the work of a request, and records it with its outcome. Requests without a valid token are not recorded.
pub(super) async fn audited(
    app: &Arc<App>,
    caller: &Caller,
    action: &str,
    subject: String,
    work: impl Future<Output = Result<Response, ProblemAnswer>>,
) -> Result<Response, ProblemAnswer> {
    let done = work.await;
    let Some((token, by)) = caller.for_audit() else { return done };
    let outcome = done.as_ref().map_or_else(|problem| problem.word().to_owned(), |_| "done".to_owned());
    let entry = AuditEntry {
        outcome,
        token,
        address: Some(caller.peer.to_string()),
        ..AuditEntry::done(&by, action, &subject)
    };
    let own = Arc::clone(app);
    app.threads
        .run(Work::Quick, move || {
            own.audit.record(&entry);
            Ok(())
        })
        .await?;
    done
}

/// The number of entries.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct AuditQuery {
    /// How many of the newest entries to return, at most 10,000.
    #[serde(default = "hundred")]
    #[param(default = 100)]
    last: usize,
}

fn hundred() -> usize {
    100
}

/// The last entries of the audit log.
#[derive(Serialize, ToSchema)]
pub(in super::super) struct AuditEntries {
    /// The newest last.
    entries: Vec<AuditEntry>,
}

/// Who opened, closed, extended and retired streams, added groups, made and revoked tokens, made backups and settled
/// dead letters, when and from where. It has no data.
#[utoipa::path(get, path = "/v1/audit", tag = "operating", params(AuditQuery), responses(
    (status = 200, description = "The last entries.", body = AuditEntries),
    (status = 401, description = "A token is needed.", body = Document, content_type = "application/problem+json"),
    (status = 403, description = "Not for this token.", body = Document, content_type = "application/problem+json"),
), security(("token" = [])))]
pub(in super::super) async fn audit(
    State(app): State<Arc<App>>,
    caller: Caller,
    query: Result<Query<AuditQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, ProblemAnswer> {
    caller.monitors()?;
    let Query(AuditQuery { last }) = query.map_err(|e| ProblemAnswer::bad(e.body_text()))?;
    waiting(&app, Work::Quick, move |app| Ok(Json(AuditEntries { entries: app.audit.last(last.min(MAX_ENTRIES))? })))
        .await
}
