//! The OpenAPI document of the service, generated from the code of its routes.

use super::routes;
use evertally_declare::format::Format;
use std::sync::OnceLock;
use utoipa::openapi::path::{Operation, Parameter};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, OpenApi as Document, Ref, RefOr, ResponseBuilder};
use utoipa::{OpenApi, PartialSchema};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "evertally serve",
        description = "Events in, private releases out. Every problem is a document of RFC 9457 \
                       (`application/problem+json`).",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    paths(
        routes::streams::list,
        routes::streams::open,
        routes::streams::one,
        routes::streams::close,
        routes::streams::retire,
        routes::streams::extend,
        routes::streams::join,
        routes::erasing::erase,
        routes::releases::releases,
        routes::releases::latest,
        routes::releases::plan,
        routes::releases::report,
        routes::picture::svg,
        routes::picture::png,
        routes::watch::watch,
        routes::copies::copy,
        routes::events::take,
        routes::events::positions,
        routes::records::otlp,
        routes::records::loki,
        routes::sums::put,
        routes::sums::declaration,
        routes::late::late,
        routes::operator::operator,
        routes::operator::backup,
        routes::audit::audit,
        routes::webhooks::webhooks,
        routes::webhooks::dead_letters,
        routes::operator::sources,
        routes::operator::tokens,
        routes::operator::make_token,
        routes::operator::revoke_token,
        routes::metrics::metrics,
        routes::health::healthz,
        routes::health::livez,
        routes::health::readyz,
    ),
    components(schemas(super::problem::Document))
)]
struct Api;

/// The OpenAPI document as JSON, made once.
pub(super) fn text() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| serde_json::to_string(&document()).expect("the document is plain data"))
}

/// The OpenAPI document.
pub fn document() -> Document {
    let mut document = Api::openapi();
    name_formats(&mut document);
    share_parameters(&mut document);
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("token", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    // Public streams need no token, and others do.
    let token = SecurityRequirement::new::<_, [&str; 0], &str>("token", []);
    document.security = Some(vec![SecurityRequirement::default(), token]);
    // Every other answer is a problem: no token, a wrong token, too large, too often, unavailable.
    let problem = ResponseBuilder::new()
        .description("Why the request is refused.")
        .content("application/problem+json", Content::new(Some(Ref::from_schema_name("Document"))))
        .build();
    for operation in operations(&mut document) {
        for (status, answer) in &mut operation.responses.responses {
            if let RefOr::T(answer) = answer
                && answer.description.is_empty()
            {
                answer.description = meaning(status).to_owned();
            }
        }
        operation.responses.responses.insert("default".to_owned(), problem.clone().into());
        let name = operation.operation_id.as_deref().unwrap_or_default();
        if let Some((_, id)) = OPERATIONS.iter().find(|(function, _)| *function == name) {
            operation.operation_id = Some((*id).to_owned());
        }
    }
    document
}

/// Pictures select rows with the parameters of releases.
fn share_parameters(document: &mut Document) {
    let path = |name: &str| format!("/v1/streams/{{stream}}/{name}");
    let is_of_rows =
        |parameter: &RefOr<Parameter>| matches!(parameter, RefOr::T(parameter) if parameter.name != "format");
    let releases = document.paths.paths.get(&path("releases")).and_then(|path| path.get.as_ref());
    let parameters = releases.and_then(|releases| releases.parameters.clone()).unwrap_or_default();
    let selecting: Vec<_> = parameters.into_iter().filter(is_of_rows).collect();
    for name in ["picture.svg", "picture.png"] {
        if let Some(picture) = document.paths.paths.get_mut(&path(name)).and_then(|path| path.get.as_mut()) {
            picture.parameters = Some(selecting.clone());
        }
    }
}

fn operations(document: &mut Document) -> impl Iterator<Item = &mut Operation> {
    let paths = document.paths.paths.values_mut();
    paths.flat_map(|path| [&mut path.get, &mut path.post, &mut path.put, &mut path.delete]).flatten()
}

/// The meaning of a status, where a route gives no other description.
fn meaning(status: &str) -> &'static str {
    match status {
        "200" => "The request has succeeded.",
        "201" => "It was created.",
        "204" => "The request has succeeded; there is no content.",
        "304" => "The content is unchanged.",
        "400" => "The request is invalid, or its body is damaged.",
        "401" => "A valid token is needed.",
        "403" => "The token does not allow this, or the stream accepts nothing.",
        "404" => "There is no such stream that the caller may read.",
        "408" => "The body arrives too slowly.",
        "409" => "It contradicts an earlier request.",
        "413" => "The request exceeds a limit.",
        "415" => "The format or the compression is unknown.",
        "422" => "The content is invalid: the problem names what and why.",
        "429" => "Too many requests.",
        "503" => "The service is busy or halted; try again later.",
        "507" => "The disk is full; try again later.",
        _ => "Why the request is refused.",
    }
}

/// The functions of routes, and the names of their operations: those of functions in generated clients.
const OPERATIONS: &[(&str, &str)] = &[
    ("list", "list_streams"),
    ("open", "open_stream"),
    ("one", "get_stream"),
    ("close", "close_steps"),
    ("retire", "retire_stream"),
    ("extend", "extend_stream"),
    ("join", "add_groups"),
    ("erase", "erase_person"),
    ("releases", "get_releases"),
    ("latest", "get_latest_release"),
    ("plan", "get_plan"),
    ("report", "get_report"),
    ("svg", "get_picture_svg"),
    ("png", "get_picture_png"),
    ("watch", "watch_stream"),
    ("copy", "copy_stream"),
    ("take", "push_events"),
    ("positions", "list_positions"),
    ("otlp", "push_otlp_logs"),
    ("loki", "push_loki_logs"),
    ("put", "put_sums"),
    ("declaration", "get_declaration"),
    ("late", "list_late_events"),
    ("operator", "get_health"),
    ("backup", "make_backup"),
    ("sources", "list_sources"),
    ("audit", "list_audit_entries"),
    ("webhooks", "list_webhooks"),
    ("dead_letters", "settle_dead_letters"),
    ("tokens", "list_tokens"),
    ("make_token", "make_token"),
    ("revoke_token", "revoke_token"),
    ("metrics", "get_metrics"),
    ("healthz", "healthz"),
    ("livez", "livez"),
    ("readyz", "readyz"),
];

/// The content type of rows in the annotations of routes. It stands for all formats.
const ROWS: &str = "*/*";

/// Names the formats of rows in requests and answers.
fn name_formats(document: &mut Document) {
    for operation in operations(document) {
        if let Some(RefOr::T(body)) = &mut operation.request_body
            && body.content.remove(ROWS).is_some()
        {
            body.content.extend(contents(Format::is_for_requests));
        }
        for answer in operation.responses.responses.values_mut() {
            if let RefOr::T(answer) = answer
                && answer.content.shift_remove(ROWS).is_some()
            {
                // The annotation has the schema of JSON.
                answer.content.extend(contents(|format| format.is_for_answers() && format != Format::Json));
            }
        }
    }
}

/// Media types and contents of some formats.
fn contents(is_wanted: fn(Format) -> bool) -> impl Iterator<Item = (String, RefOr<Content>)> {
    Format::ALL.into_iter().filter(move |format| is_wanted(*format)).map(|format| {
        let schema = if format.has_lines() { String::schema() } else { Vec::<u8>::schema() };
        (format.media_type().to_owned(), Content::new(Some(schema)).into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_operation_has_a_name_and_every_answer_a_description() {
        let mut document = document();
        let mut names = BTreeSet::new();
        for operation in operations(&mut document) {
            let name = operation.operation_id.clone().unwrap();
            assert!(OPERATIONS.iter().any(|(_, id)| *id == name), "{name} has no line in OPERATIONS");
            assert!(names.insert(name.clone()), "{name} is there twice");
            for (status, answer) in &operation.responses.responses {
                let RefOr::T(answer) = answer else { panic!("{name} {status}") };
                assert!(!answer.description.is_empty(), "{name} {status}");
            }
        }
        assert_eq!(names.len(), OPERATIONS.len());
    }

    #[test]
    fn rows_are_named_in_every_format() {
        let document = serde_json::to_value(document()).unwrap();
        let types = |path: &str, place: &str| -> BTreeSet<String> {
            let content = &document["paths"][path].pointer(place).unwrap()["content"];
            content.as_object().unwrap().keys().cloned().collect()
        };
        let named = |formats: &dyn Fn(&Format) -> bool| -> BTreeSet<String> {
            Format::ALL.into_iter().filter(formats).map(|format| format.media_type().to_owned()).collect()
        };
        let sent = named(&|format| format.is_for_requests());
        assert_eq!(types("/v1/streams/{stream}/events", "/post/requestBody"), sent);
        assert_eq!(types("/v1/streams/{stream}/sums", "/put/requestBody"), sent);
        assert_eq!(
            types("/v1/streams/{stream}/releases", "/get/responses/200"),
            named(&|format| format.is_for_answers())
        );
        assert!(!document.to_string().contains(ROWS));
    }
}
