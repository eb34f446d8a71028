//! A synchronous mirror of watched objects: it says which keys an event touched.

use kube::{ResourceExt, runtime::watcher::Event};
use std::{collections::BTreeMap, sync::Arc};

/// Namespace (empty for cluster-scoped objects) and name.
pub(crate) type Key = (String, String);

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

pub(crate) fn key_of<K: ResourceExt>(object: &K) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
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
}
