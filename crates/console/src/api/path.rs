//! Which operation a method and a path mean, and which methods a path has.

use kew_http::Method;

use super::fields::decoded;
use super::routes::ROUTES;
use super::table::Route;
use crate::error::ApiError;

/// Below this stand all paths of the API.
pub(crate) const BASE: &str = "/api/v1";

/// What was found at a path.
pub(crate) enum Found {
    /// This operation, with what stands for the parts in braces.
    Route(&'static Route, Vec<String>),
    /// The path has other methods.
    OtherMethods(String),
    Nothing,
}

/// Finds the operation of a method at a path below the base.
pub(crate) fn find(method: &Method, path: &str) -> Result<Found, ApiError> {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let here: Vec<&'static Route> = ROUTES.iter().filter(|route| is_at(route.path, &parts)).collect();
    let wanted = if method == Method::HEAD { "GET" } else { method.as_str() };
    let Some(route) = here.iter().find(|route| route.method == wanted) else {
        let mut methods: Vec<&str> = here.iter().map(|route| route.method).collect();
        if methods.contains(&"GET") {
            methods.push("HEAD");
        }
        return Ok(if methods.is_empty() { Found::Nothing } else { Found::OtherMethods(methods.join(", ")) });
    };
    let places = route.path.split('/').skip(1).zip(&parts).filter(|(template, _)| is_place(template));
    let values = places.map(|(_, part)| decoded(part)).collect::<Result<_, _>>()?;
    Ok(Found::Route(route, values))
}

fn is_at(template: &str, parts: &[&str]) -> bool {
    let mut templates = template.split('/').skip(1);
    parts.iter().all(|part| {
        templates.next().is_some_and(|template| template == *part || (is_place(template) && !part.is_empty()))
    }) && templates.next().is_none()
}

/// Whether a part of a template stands for any part of a path.
pub(crate) fn is_place(part: &str) -> bool {
    part.starts_with('{')
}

#[cfg(test)]
mod tests {
    use super::super::table::Op;
    use super::*;

    fn found(method: Method, path: &str) -> String {
        match find(&method, path) {
            Ok(Found::Route(route, values)) => format!("{:?} {}", route.op, values.join("|")),
            Ok(Found::OtherMethods(methods)) => methods,
            Ok(Found::Nothing) => "nothing".to_owned(),
            Err(error) => error.code().to_owned(),
        }
    }

    #[test]
    fn paths_lead_to_operations_with_their_parts_decoded() {
        for (method, path, expected) in [
            (Method::GET, "/queues", "ListQueues "),
            (Method::HEAD, "/queues", "ListQueues "),
            (Method::PATCH, "/queues/orders", "ChangeQueue orders"),
            (Method::GET, "/queues/000000000000%3Aus-east-1%3Aa%2Fb", "ShowQueue 000000000000:us-east-1:a/b"),
            (Method::POST, "/redrives/7/cancel", "CancelRedrive 7"),
            (Method::PUT, "/queues", "GET, POST, HEAD"),
            (Method::GET, "/queues/orders/purge", "POST"),
            (Method::GET, "/queues/", "nothing"),
            (Method::GET, "/queues/a/b/c", "nothing"),
            (Method::GET, "", "nothing"),
            (Method::GET, "/", "nothing"),
            (Method::GET, "/queues/%zz", "bad_request"),
            (Method::GET, "/queues/%ff", "bad_request"),
        ] {
            assert_eq!(found(method, path), expected, "{path}");
        }
    }

    #[test]
    fn no_two_operations_share_a_name_or_a_place() {
        for (number, route) in ROUTES.iter().enumerate() {
            let others = ROUTES.iter().skip(number + 1);
            let is_same = |other: &&Route| {
                other.name == route.name
                    || other.op == route.op
                    || (other.path, other.method) == (route.path, route.method)
            };
            assert_eq!(others.filter(is_same).count(), 0, "{route:?}");
            let method =
                Method::from_bytes(route.method.as_bytes()).expect("the table names methods of HTTP");
            assert!(matches!(find(&method, route.path), Ok(Found::Route(found, _)) if found.op == route.op));
        }
        assert_eq!(ROUTES.iter().filter(|route| route.op == Op::OpenApi).count(), 1);
    }
}
