//! Namespace lifecycle: nothing is created in a namespace that is absent or going away.

use crate::{
    error::{ApiError, Cause},
    kinds::Resource,
    object::Head,
    server::Core,
};

/// Checks that an object may be created in `namespace`.
///
/// # Errors
/// 404 if the namespace does not exist, 403 if it is terminating.
pub(crate) fn check_namespace(
    core: &Core,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<(), ApiError> {
    if !resource.namespaced {
        return Ok(());
    }
    let Some(record) = core.namespace(namespace) else {
        let message = format!("namespaces {namespace:?} not found");
        return Err(ApiError::new(404, "NotFound", message).about("", "namespaces", namespace));
    };
    if Head::says_deleting(&record.bytes) {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut error = resource.forbidden(name, &why);
        error.details.causes = vec![Cause::namespace_terminating(namespace)];
        return Err(error);
    }
    Ok(())
}
