//! What the server serves: discovery, version, OpenAPI.

mod aggregated;
mod groups;
mod openapi;
mod swagger;

pub(crate) use swagger::MEDIA as SWAGGER;

use serde_json::json;

use crate::{
    error::ApiError,
    request::{Format, Output, Path},
    server::Core,
    service::{Reply, ReplyBody},
};

/// Answers a request that is not about a resource.
pub(crate) fn answer(core: &Core, path: &Path, output: Output) -> Result<Reply, ApiError> {
    let aggregated = output.format == Format::Discovery;
    match path {
        Path::Root => Ok(Reply::ok(
            json!({"paths": ["/api", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]}),
        )),
        Path::Version => Ok(Reply::ok(version())),
        Path::Core if aggregated => Ok(discovery(aggregated::core(core))),
        Path::Groups if aggregated => Ok(discovery(aggregated::groups(core))),
        Path::Core => Ok(Reply::ok(json!({"kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}]}))),
        Path::Groups => Ok(Reply::ok(groups::list(core))),
        Path::Group(group) => groups::one(core, group)
            .map(Reply::ok)
            .ok_or_else(ApiError::no_such_path),
        Path::GroupVersion(group, version) => groups::resources(core, group, version)
            .map(Reply::ok)
            .ok_or_else(ApiError::no_such_path),
        Path::OpenApiIndex => Ok(Reply::ok(openapi::index(core))),
        Path::OpenApi(group, version) => openapi::document(core, group, version)
            .map(Reply::ok)
            .ok_or_else(ApiError::no_such_path),
        Path::OpenApiV2 if output.swagger => Ok(Reply {
            code: 200,
            body: ReplyBody::Swagger(swagger::document(core)),
            warnings: vec![],
        }),
        Path::OpenApiV2 => Ok(Reply::ok(swagger::plain())),
        Path::Metrics => Ok(crate::metrics::answer(core)),
        Path::Health(..) | Path::Resource(_) => Err(ApiError::no_such_path()),
    }
}

fn discovery(value: serde_json::Value) -> Reply {
    Reply {
        code: 200,
        body: ReplyBody::Discovery(value),
        warnings: vec![],
    }
}

/// The version of the Kubernetes API that is spoken.
const VERSION: &str = "v1.36.0";

fn version() -> serde_json::Value {
    json!({
        "major": "1", "minor": "36", "gitVersion": format!("{VERSION}+roundhouse"), "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "rustc", "platform": std::env::consts::OS,
    })
}
