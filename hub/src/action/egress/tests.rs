//! Hosts, from their names to the addresses that are connected to.

use super::*;
use futures::future::BoxFuture;
use std::collections::BTreeMap;

/// A network of these names; `own` are this machine's addresses.
#[derive(Debug, Default, Clone)]
pub(in crate::action) struct Names {
    pub(in crate::action) names: BTreeMap<String, Vec<IpAddr>>,
    pub(in crate::action) own: Vec<IpAddr>,
}

impl Names {
    pub(in crate::action) fn new(names: &[(&str, &[&str])]) -> Names {
        let parsed = |addresses: &[&str]| addresses.iter().map(|a| a.parse().unwrap()).collect();
        let names = names
            .iter()
            .map(|(name, addresses)| ((*name).to_owned(), parsed(addresses)));
        Names {
            names: names.collect(),
            own: Vec::new(),
        }
    }
}

impl Network for Names {
    fn resolve(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let found = self.names.get(&name).cloned();
        Box::pin(async move { found.ok_or_else(|| io::Error::other("no such name")) })
    }

    fn is_own(&self, address: IpAddr) -> bool {
        self.own.contains(&address)
    }
}

async fn ask(allowed: &[&str], host: &str) -> Result<Vec<String>, String> {
    let mut names = Names::new(&[
        ("public.example", &["93.184.216.34", "2606:2800:220:1::1"]),
        ("inside.example", &["10.0.0.7"]),
        ("rebound.example", &["127.0.0.1"]),
        ("mixed.example", &["169.254.169.254", "93.184.216.34"]),
        ("mapped.example", &["::ffff:127.0.0.1"]),
        ("hub.example", &["203.0.113.5"]),
        ("alias-of-hub.example", &["203.0.113.5"]),
        ("here.example", &["192.168.0.2"]),
        ("empty.example", &[]),
        ("a.hooks.example", &["127.0.0.1"]),
        ("2130706433", &["127.0.0.1"]),
    ]);
    names.own = vec!["192.168.0.2".parse().unwrap()];
    let allowed = allowed.iter().map(|text| text.parse().unwrap()).collect();
    let egress = Egress::new(allowed, vec!["hub.example".to_owned(), "203.0.113.9".to_owned()]);
    let permitted = permitted(&egress, &names, host, 443).await;
    permitted
        .map(|all| all.iter().map(ToString::to_string).collect())
        .map_err(|error| error.to_string())
}

fn refused(host: &str, what: &str) -> Result<Vec<String>, String> {
    Err(format!(
        "{host} is refused: {what}; an administrator of the hub may allow it with --egress-allow"
    ))
}

fn reached(address: &str) -> Result<Vec<String>, String> {
    Ok(vec![address.to_owned()])
}

#[tokio::test]
async fn hosts_are_judged_by_what_they_resolve_to() {
    assert_eq!(
        ask(&[], "public.example").await,
        Ok(vec![
            "93.184.216.34:443".to_owned(),
            "[2606:2800:220:1::1]:443".to_owned()
        ])
    );
    for (host, expected) in [
        ("inside.example", reached("10.0.0.7:443")),
        ("10.0.0.8", reached("10.0.0.8:443")),
        // Only the address that was judged is connected to.
        ("mixed.example", reached("93.184.216.34:443")),
        (
            "rebound.example",
            refused("rebound.example", "127.0.0.1 is loopback"),
        ),
        (
            "mapped.example",
            refused("mapped.example", "::ffff:127.0.0.1 is loopback"),
        ),
        ("127.0.0.1", refused("127.0.0.1", "127.0.0.1 is loopback")),
        ("::1", refused("::1", "::1 is loopback")),
        ("2130706433", refused("2130706433", "127.0.0.1 is loopback")),
        (
            "169.254.169.254",
            refused(
                "169.254.169.254",
                "169.254.169.254 is a metadata service of a cloud",
            ),
        ),
        (
            "hub.example",
            refused("hub.example", "203.0.113.5 is the hub's own API server"),
        ),
        (
            "alias-of-hub.example",
            refused("alias-of-hub.example", "203.0.113.5 is the hub's own API server"),
        ),
        (
            "::ffff:203.0.113.9",
            refused(
                "::ffff:203.0.113.9",
                "::ffff:203.0.113.9 is the hub's own API server",
            ),
        ),
        (
            "here.example",
            refused("here.example", "192.168.0.2 is this machine's own"),
        ),
        (
            "unknown.example",
            Err("the name unknown.example does not resolve: no such name".to_owned()),
        ),
        (
            "empty.example",
            Err("the name empty.example has no address".to_owned()),
        ),
    ] {
        assert_eq!(ask(&[], host).await, expected, "{host}");
    }
}

#[tokio::test]
async fn what_is_allowed_is_wider() {
    for (allowed, host, expected) in [
        ("127.0.0.0/8", "rebound.example", reached("127.0.0.1:443")),
        ("127.0.0.0/8", "mapped.example", reached("[::ffff:127.0.0.1]:443")),
        ("rebound.example", "rebound.example", reached("127.0.0.1:443")),
        ("Rebound.Example", "rebound.example", reached("127.0.0.1:443")),
        ("*.hooks.example", "a.hooks.example", reached("127.0.0.1:443")),
        ("hub.example", "hub.example", reached("203.0.113.5:443")),
        ("192.168.0.2", "here.example", reached("192.168.0.2:443")),
        // Not by another name, nor by a name that only looks like it.
        (
            "hooks.example",
            "a.hooks.example",
            refused("a.hooks.example", "127.0.0.1 is loopback"),
        ),
        (
            "*.ooks.example",
            "a.hooks.example",
            refused("a.hooks.example", "127.0.0.1 is loopback"),
        ),
        (
            "rebound.example",
            "127.0.0.1",
            refused("127.0.0.1", "127.0.0.1 is loopback"),
        ),
    ] {
        assert_eq!(ask(&[allowed], host).await, expected, "{allowed} {host}");
    }
}

#[test]
fn what_may_be_allowed() {
    for (text, written) in [
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("::1", "::1/128"),
        ("Hooks.Example.org", "hooks.example.org"),
        ("*.example.org", "*.example.org"),
        ("localhost", "localhost"),
    ] {
        assert_eq!(text.parse::<Allowed>().unwrap().to_string(), written);
    }
    for text in [
        "",
        "*",
        "*.",
        "a b",
        "https://x",
        "10.0.0",
        "10.0.0.0/99",
        "a..b",
        "a/8",
    ] {
        let error = text.parse::<Allowed>().unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("{text:?} is neither addresses")),
            "{error}"
        );
    }
}

#[test]
fn this_machine_knows_its_own_addresses() {
    assert!(SystemNetwork.is_own("127.0.0.1".parse().unwrap()));
    // Documentation addresses (RFC 5737) are nobody's.
    assert!(!SystemNetwork.is_own("192.0.2.1".parse().unwrap()));
}

/// A network whose API servers nobody may list.
struct Forbidden(Names);

impl Network for Forbidden {
    fn resolve(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        self.0.resolve(name)
    }

    fn is_own(&self, address: IpAddr) -> bool {
        self.0.is_own(address)
    }

    fn servers(&self) -> BoxFuture<'static, io::Result<BTreeSet<IpAddr>>> {
        Box::pin(std::future::ready(Err(io::Error::other("forbidden"))))
    }
}

#[tokio::test]
async fn nothing_is_sent_where_the_api_servers_are_not_known() {
    let network = Forbidden(Names::new(&[("public.example", &["93.184.216.34"])]));
    let ask = async |allowed: &[&str]| {
        let allowed = allowed.iter().map(|text| text.parse().unwrap()).collect();
        let egress = Egress::new(allowed, Vec::new());
        let permitted = permitted(&egress, &network, "public.example", 443).await;
        permitted.map_err(|error| error.to_string())
    };
    assert_eq!(
        ask(&[]).await.unwrap_err(),
        "public.example may be one of the hub's API servers: the EndpointSlices of Service default/kubernetes cannot be \
         listed (forbidden); allow the hub to list endpointslices in namespace default, or this host with --egress-allow"
    );
    assert_eq!(ask(&["public.example"]).await.unwrap().len(), 1);
}
