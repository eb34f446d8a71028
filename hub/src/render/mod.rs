//! Components -> manifests; pure.

use roundhouse_api::application::ValidApplication;
use serde_json::Value;

/// What an application renders to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rendered {
    /// One entry per component, in order.
    pub components: Vec<RenderedComponent>,
}

/// What a component renders to, without stamps and before division.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RenderedComponent {
    /// Component name.
    pub name: String,
    /// Its manifests; one that is no object with kind and name is kept as it is and fails alone at the agent.
    pub manifests: Vec<Value>,
}

/// Renders every component.
pub fn render(_namespace: &str, _app: &str, _application: &ValidApplication) -> Rendered {
    Rendered::default()
}
