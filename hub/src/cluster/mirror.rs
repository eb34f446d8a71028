//! A synchronous mirror of watched objects: it says which keys an event touched.

pub(crate) use crate::relist::Key;
use crate::relist::{key_of, older};
use kube::{ResourceExt, runtime::watcher::Event};
use std::{collections::BTreeMap, sync::Arc};

/// What a watch has shown so far.
#[derive(Debug)]
pub(crate) struct Mirror<K> {
    objects: BTreeMap<Key, Arc<K>>,
    incoming: Option<BTreeMap<Key, Arc<K>>>,
    listed: bool,
}

impl<K> Default for Mirror<K> {
    fn default() -> Self {
        Mirror {
            objects: BTreeMap::new(),
            incoming: None,
            listed: false,
        }
    }
}

impl<K: ResourceExt> Mirror<K> {
    /// Takes an event in. Returns the keys whose objects may have changed, in order.
    ///
    /// A new list replaces the mirror only when it is complete: a list that breaks off removes nothing.
    pub(crate) fn feed(&mut self, event: Event<K>) -> Vec<Key> {
        match event {
            // A list may have begun earlier than what was held, and what followed then is told again.
            Event::Apply(object) | Event::Delete(object) if self.is_older(&object) => Vec::new(),
            Event::Apply(object) => {
                let key = key_of(&object);
                self.objects.insert(key.clone(), Arc::new(object));
                vec![key]
            }
            Event::Delete(object) => {
                let key = key_of(&object);
                self.objects.remove(&key);
                vec![key]
            }
            Event::Init => {
                self.incoming = Some(BTreeMap::new());
                Vec::new()
            }
            Event::InitApply(object) => {
                let incoming = self.incoming.get_or_insert_default();
                incoming.insert(key_of(&object), Arc::new(object));
                Vec::new()
            }
            Event::InitDone => {
                self.listed = true;
                let listed = self.incoming.take().unwrap_or_default();
                let before = std::mem::replace(&mut self.objects, listed);
                let gone = before.into_keys().filter(|key| !self.objects.contains_key(key));
                let mut touched: Vec<Key> = gone.chain(self.objects.keys().cloned()).collect();
                touched.sort();
                touched
            }
        }
    }

    /// Whether a newer version of the object is held.
    fn is_older(&self, object: &K) -> bool {
        let version = |object: &K| object.resource_version().unwrap_or_default();
        let held = self.objects.get(&key_of(object));
        held.is_some_and(|held| older(&version(held), &version(object)))
    }

    /// Whether a whole list was seen: before that, an object that is not here may still exist.
    pub(crate) fn listed(&self) -> bool {
        self.listed
    }

    /// The object of that name.
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<K>> {
        self.objects.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// Every object, by namespace and name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &K> {
        self.objects.values().map(Arc::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;

    fn config_map(name: &str) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.name = Some(name.into());
        object.metadata.namespace = Some("ns".into());
        object
    }

    fn key(name: &str) -> Key {
        ("ns".into(), name.into())
    }

    #[test]
    fn a_new_list_tells_what_is_gone_and_only_when_complete() {
        let mut mirror = Mirror::default();
        assert!(!mirror.listed());
        for event in [Event::Init, Event::InitApply(config_map("a"))] {
            assert!(mirror.feed(event).is_empty());
        }
        assert!(mirror.get("ns", "a").is_none());
        assert_eq!(mirror.feed(Event::InitDone), [key("a")]);
        assert!(mirror.listed());
        assert_eq!(mirror.feed(Event::Apply(config_map("b"))), [key("b")]);

        // The watch starts over: the old mirror holds until the new list is whole.
        mirror.feed(Event::Init);
        mirror.feed(Event::InitApply(config_map("b")));
        assert!(mirror.get("ns", "a").is_some());
        assert_eq!(mirror.feed(Event::InitDone), [key("a"), key("b")]);
        assert!(mirror.get("ns", "a").is_none());
        assert_eq!(mirror.feed(Event::Delete(config_map("b"))), [key("b")]);
    }

    #[test]
    fn what_is_told_again_from_an_earlier_version_on_changes_nothing() {
        let at = |version: &str| {
            let mut object = config_map("a");
            object.metadata.resource_version = Some(version.to_owned());
            object
        };
        let mut mirror = Mirror::default();
        mirror.feed(Event::Apply(at("9")));
        for event in [Event::Apply(at("7")), Event::Delete(at("8"))] {
            assert!(mirror.feed(event).is_empty());
        }
        assert_eq!(
            mirror
                .get("ns", "a")
                .unwrap()
                .metadata
                .resource_version
                .as_deref(),
            Some("9")
        );
        assert_eq!(mirror.feed(Event::Delete(at("10"))), [key("a")]);
    }
}
