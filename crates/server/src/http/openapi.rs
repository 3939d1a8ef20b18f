//! The OpenAPI document of the service, generated from the code of its routes.

use super::routes;
use evertally_declare::format::Format;
use std::sync::OnceLock;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{Content, OpenApi as Document, Ref, RefOr, ResponseBuilder};
use utoipa::{OpenApi, PartialSchema};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "evertally serve",
        description = "Events in, private releases out. Every problem is a document of RFC 9457 \
                       (`application/problem+json`).",
        license(name = "MIT OR Apache-2.0")
    ),
    paths(
        routes::streams::list,
        routes::streams::open,
        routes::streams::one,
        routes::streams::close,
        routes::streams::retire,
        routes::streams::extend,
        routes::streams::join,
        routes::releases::releases,
        routes::releases::latest,
        routes::releases::plan,
        routes::releases::report,
        routes::picture::svg,
        routes::picture::png,
        routes::watch::watch,
        routes::events::take,
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
        routes::health,
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
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("token", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    // Every other answer is a problem: no token, a wrong token, too large, too often, unavailable.
    let problem = ResponseBuilder::new()
        .description("Why the request is refused.")
        .content("application/problem+json", Content::new(Some(Ref::from_schema_name("Document"))))
        .build();
    for path in document.paths.paths.values_mut() {
        let operations = [&mut path.get, &mut path.post, &mut path.put, &mut path.delete];
        for operation in operations.into_iter().flatten() {
            operation.responses.responses.insert("default".to_owned(), problem.clone().into());
        }
    }
    document
}

/// The content type of rows in the annotations of routes. It stands for all formats.
const ROWS: &str = "*/*";

/// Names the formats of rows in requests and answers.
fn name_formats(document: &mut Document) {
    for path in document.paths.paths.values_mut() {
        let operations = [&mut path.get, &mut path.post, &mut path.put, &mut path.delete];
        for operation in operations.into_iter().flatten() {
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
