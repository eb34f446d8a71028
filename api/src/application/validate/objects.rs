//! Which objects the steps of a workflow apply in clusters: what `delete-object` steps behind them may take away.

use super::node::{Node, Object};
use crate::application::{
    ClusterObjectStep, ClusterVerb, InputSource, ParameterKey, StepExpression, StepInput,
};
use serde_json::Value;

/// Objects that are named where a step names none of them.
const MAX_NAMED: usize = 5;

/// The objects that the steps apply in clusters which were read so far.
#[derive(Debug, Default)]
pub(super) struct Applied {
    all: Vec<One>,
    /// What one of them applies could not be read, so that nobody knows what else there is.
    unread: bool,
}

/// An object that a step applies.
#[derive(Debug)]
struct One {
    step: String,
    object: Named,
    /// The clusters; `None` where labels choose them.
    clusters: Option<Vec<String>>,
}

/// What tells an object from others, as it is written: an absent namespace is the application's.
#[derive(Debug, PartialEq)]
struct Named {
    group: String,
    kind: String,
    namespace: Option<String>,
    name: Name,
}

#[derive(Debug, PartialEq)]
enum Name {
    Written(String),
    /// An input brings it: two are the same where both take it from the same place.
    From(String),
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ", self.kind)?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        match &self.name {
            Name::Written(name) => f.write_str(name),
            Name::From(source) => write!(f, "(named by input {source})"),
        }
    }
}

impl Applied {
    /// A step of this type could not be read.
    pub(super) fn unread(&mut self, type_: &str) {
        self.unread |= type_ == "apply-object";
    }

    /// Takes in what a step of this name does with an object in clusters. Of one that takes an object away it is found out whose
    /// that is; it is refused where no step before it applies the object.
    pub(super) fn read(
        &mut self,
        name: &str,
        step: &Object<'_>,
        object: &mut ClusterObjectStep,
        inputs: &[StepInput],
    ) {
        match object.verb {
            ClusterVerb::Read => {}
            ClusterVerb::Apply => self.all.push(One {
                step: name.to_owned(),
                object: named(object, inputs),
                clusters: listed(object).map(<[String]>::to_vec),
            }),
            ClusterVerb::Delete => object.takes_of = self.taken(step, object, inputs),
        }
    }

    /// The steps whose object a step takes away.
    fn taken(&self, step: &Object<'_>, object: &ClusterObjectStep, inputs: &[StepInput]) -> Vec<String> {
        let wanted = named(object, inputs);
        let own: Vec<&One> = self.all.iter().filter(|one| one.object == wanted).collect();
        let properties = step.optional("properties");
        let properties = properties.and_then(|node| node.open_object());
        if own.is_empty() && !self.unread {
            let name = properties.as_ref().and_then(|object| object.optional("name"));
            let why = self.nobody(&wanted);
            match name {
                Some(node) => node.refuse(why),
                None => step.refuse(why),
            }
        }
        let clusters = properties.and_then(|object| object.optional("clusters"));
        if let (Some(clusters), false) = (clusters, self.unread) {
            check_clusters(&clusters, &own);
        }
        own.iter().map(|one| one.step.clone()).collect()
    }

    /// What a step is told whose object no step before it applies.
    fn nobody(&self, wanted: &Named) -> String {
        let known = self.all.iter().take(MAX_NAMED);
        let known: Vec<String> = known
            .map(|one| format!("{} (step {})", one.object, one.step))
            .collect();
        let what = match (known.as_slice(), self.all.len() - known.len()) {
            ([], _) => "write the apply-object step that applies it before this one".to_owned(),
            (known, 0) => format!("those before it apply {}", known.join(", ")),
            (known, more) => format!("those before it apply {} and {more} more", known.join(", ")),
        };
        format!(
            "no step before this one applies {wanted} in clusters, and nothing else can be taken away there: {what}"
        )
    }
}

/// Refuses clusters in which none of these steps applies anything, as far as they are named.
fn check_clusters(clusters: &Node<'_>, own: &[&One]) {
    let lists: Option<Vec<&Vec<String>>> = own.iter().map(|one| one.clusters.as_ref()).collect();
    let Some(lists) = lists.filter(|lists| !lists.is_empty()) else {
        return;
    };
    let there: Vec<&str> = lists
        .iter()
        .flat_map(|list| list.iter().map(String::as_str))
        .collect();
    for node in clusters.list_if_any() {
        let Some(name) = node.value.as_str().filter(|name| !there.contains(name)) else {
            continue;
        };
        let steps: Vec<&str> = own.iter().map(|one| one.step.as_str()).collect();
        node.refuse(format!(
            "nothing is applied on {name} that could be taken away: step {} applies the object on {}",
            steps.join(" and "),
            there.join(", ")
        ));
    }
}

fn listed(object: &ClusterObjectStep) -> Option<&[String]> {
    object.placement.placement.first()?.clusters.as_deref()
}

fn named(object: &ClusterObjectStep, inputs: &[StepInput]) -> Named {
    let identity = object.identity();
    let text = |pointer: &str| {
        let text = identity.pointer(pointer).and_then(Value::as_str);
        text.map(str::to_owned)
    };
    let api_version = text("/apiVersion").unwrap_or_default();
    let goes_to = match object.verb {
        ClusterVerb::Apply => "/value/metadata/name",
        ClusterVerb::Read | ClusterVerb::Delete => "/name",
    };
    let is_name = |key: &ParameterKey| key.pointer() == goes_to;
    let input = inputs
        .iter()
        .find(|input| input.key.as_ref().is_some_and(is_name));
    let source = |input: &StepInput| match &input.source {
        InputSource::Output(name) => name.clone(),
        InputSource::Expression(expression) => StepExpression::to_string(expression),
    };
    Named {
        group: api_version
            .split_once('/')
            .map_or("", |(group, _)| group)
            .to_owned(),
        kind: text("/kind").unwrap_or_default(),
        namespace: text("/metadata/namespace"),
        name: match input {
            Some(input) => Name::From(source(input)),
            None => Name::Written(text("/metadata/name").unwrap_or_default()),
        },
    }
}
