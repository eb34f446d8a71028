//! The fencing epoch of a new term: above every epoch that is known, and not led astray by one that nobody was given.

use super::lease::{LEASE, NAMESPACE, Record};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams},
};
use roundhouse_api::{application::Application, bundle::Bundle, decision::Decision};
use serde_json::Value;

/// No epoch is above this: numbers up to here are exact in every JSON reader, and at a term a second it lasts for longer than
/// the earth.
pub const MAX_EPOCH: i64 = 1 << 53;
/// How far above what only hubs write an epoch may be that tenants can write, and still be taken for one.
pub const LEAP: i64 = 1 << 20;
/// Objects of one page of a list.
const PAGE: u32 = 100;
/// Objects that are named in a warning.
const NAMED: usize = 5;

/// Epochs that are stored, by who could have written them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Claims {
    /// The highest of what only hubs and administrators write: Bundles, the Lease, a confirmation.
    trusted: i64,
    /// Of what tenants and agents can write, Applications, Decisions and reports, with the object.
    others: Vec<(i64, String)>,
    /// An epoch that may have been given, though nothing of it is stored.
    plausible: i64,
}

impl Claims {
    /// Takes in an epoch of something that only hubs and administrators write.
    pub(crate) fn trust(&mut self, epoch: i64) {
        if epoch <= MAX_EPOCH {
            self.trusted = self.trusted.max(epoch);
        } else {
            tracing::warn!(epoch, "an epoch that no hub was ever given is passed over");
        }
    }

    /// Takes in an epoch of something that tenants can write, too.
    pub(crate) fn hear(&mut self, epoch: i64, object: impl FnOnce() -> String) {
        if epoch > 0 {
            self.others.push((epoch, object()));
        }
    }

    /// The highest epoch that is believed, and the objects that are not.
    pub(crate) fn judge(&self) -> (i64, Vec<&str>) {
        let bound = self.trusted.max(self.plausible);
        let bound = bound.saturating_add(LEAP).min(MAX_EPOCH);
        let believed = self.others.iter().filter(|(epoch, _)| *epoch <= bound);
        let highest = believed.map(|(epoch, _)| *epoch).max().unwrap_or(0);
        let astray = self.others.iter().filter(|(epoch, _)| *epoch > bound);
        (
            highest.max(self.trusted),
            astray.map(|(_, object)| object.as_str()).collect(),
        )
    }

    /// The epoch of a new term. What is not believed is named in the log; such an object is not written before it is put
    /// right.
    pub(crate) fn next(&self) -> i64 {
        let (highest, astray) = self.judge();
        if !astray.is_empty() {
            let named: Vec<_> = astray.iter().take(NAMED).collect();
            tracing::warn!(
                objects = ?named,
                count = astray.len(),
                "epochs that no hub was ever given are passed over; these objects are not written before they are put right"
            );
        }
        highest.saturating_add(1).min(MAX_EPOCH)
    }
}

/// Whether an object is of a newer hub than one of this epoch, or was led astray: then this one leaves it alone.
pub(crate) fn is_newer(stored: Option<i64>, own: i64) -> bool {
    stored.is_some_and(|stored| stored > own)
}

/// The highest epoch that is stored in any object, as far as it can be believed; 0 if there is none.
///
/// # Errors
/// A list fails.
pub async fn stored_epoch(client: &Client) -> Result<i64, kube::Error> {
    Ok(stored(client).await?.judge().0)
}

/// The highest epoch that is stored, or that an agent says it obeys, as far as it can be believed; 0 if there is none. What an
/// agent obeys may be of a hub that nothing is stored of: one that was restored earlier goes on above the seconds of its clock.
/// `look` is shown each Bundle.
///
/// # Errors
/// A list fails.
pub(crate) async fn obeyed_epoch(
    client: &Client,
    clock: i64,
    mut look: impl FnMut(&DynamicObject),
) -> Result<i64, kube::Error> {
    let reports = |claims: &mut Claims, bundle: &DynamicObject| {
        look(bundle);
        claims.hear(epoch_at(bundle, "/status/epoch"), || title::<Bundle>(bundle));
    };
    let mut claims = read(client, reports).await?;
    claims.plausible = clock;
    // A term that has written nothing yet is there alone.
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let last = leases
        .get_opt(LEASE)
        .await?
        .and_then(|lease| Record::of(&lease).epoch);
    claims.trust(last.unwrap_or(0));
    Ok(claims.judge().0)
}

/// Reads what is stored, page by page. A kind that the API server does not know has no objects.
pub(super) async fn stored(client: &Client) -> Result<Claims, kube::Error> {
    read(client, |_, _| ()).await
}

/// The same, with what else each Bundle is to add.
async fn read(
    client: &Client,
    mut more: impl FnMut(&mut Claims, &DynamicObject),
) -> Result<Claims, kube::Error> {
    let mut claims = Claims::default();
    each::<Bundle>(client, |bundle| {
        claims.trust(epoch_at(&bundle, "/spec/epoch"));
        more(&mut claims, &bundle);
    })
    .await?;
    each::<Decision>(client, |decision| {
        claims.hear(epoch_at(&decision, "/spec/epoch"), || {
            title::<Decision>(&decision)
        });
    })
    .await?;
    each::<Application>(client, |application| {
        claims.hear(epoch_at(&application, "/status/workflow/epoch"), || {
            title::<Application>(&application)
        });
    })
    .await?;
    Ok(claims)
}

fn epoch_at(object: &DynamicObject, pointer: &str) -> i64 {
    object.data.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

fn title<K: Resource<DynamicType = ()>>(object: &DynamicObject) -> String {
    format!(
        "{} {}/{}",
        K::kind(&()),
        object.namespace().unwrap_or_default(),
        object.name_any()
    )
}

/// Shows every object of a kind, page by page: all of them at once may be too much for an answer. A kind that the API server does
/// not know has none.
///
/// # Errors
/// A list fails.
pub(crate) async fn each<K: Resource<DynamicType = ()>>(
    client: &Client,
    mut take: impl FnMut(DynamicObject),
) -> Result<(), kube::Error> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::erase::<K>(&()));
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = match api.list(&params).await {
            Err(kube::Error::Api(answer)) if answer.code == 404 => return Ok(()),
            answer => answer?,
        };
        let token = page.metadata.continue_.clone().filter(|token| !token.is_empty());
        page.items.into_iter().for_each(&mut take);
        match token {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(trusted: &[i64], others: &[(i64, &str)]) -> Claims {
        let mut claims = Claims::default();
        for epoch in trusted {
            claims.trust(*epoch);
        }
        for (epoch, object) in others {
            claims.hear(*epoch, || (*object).to_owned());
        }
        claims
    }

    #[test]
    fn a_new_term_is_above_everything_that_is_believed() {
        for (trusted, others, expected, astray) in [
            (&[][..], &[][..], 1, &[][..]),
            (&[3, 9, 4], &[(7, "a")], 10, &[]),
            (&[3], &[(40, "a")], 41, &[]),
            (&[3], &[(i64::MAX, "a"), (5, "b")], 6, &["a"]),
            (&[3], &[(MAX_EPOCH, "a")], 4, &["a"]),
            (&[0], &[(LEAP, "a"), (LEAP + 1, "b")], LEAP + 1, &["b"]),
            (&[i64::MAX, 3], &[], 4, &[]),
            (&[-4, i64::MIN], &[(-1, "a"), (i64::MIN, "b")], 1, &[]),
            (&[MAX_EPOCH], &[(i64::MAX, "a")], MAX_EPOCH, &["a"]),
        ] {
            let claims = claims(trusted, others);
            assert_eq!(claims.next(), expected, "{trusted:?} {others:?}");
            assert_eq!(claims.judge().1, astray, "{trusted:?} {others:?}");
        }
    }

    #[test]
    fn what_an_earlier_hub_may_have_given_is_believed() {
        let mut claims = claims(&[5], &[(1_800_000_000, "a"), (1 << 40, "b")]);
        assert_eq!(claims.judge(), (5, vec!["a", "b"]));
        claims.plausible = 1_799_999_000;
        assert_eq!(claims.judge(), (1_800_000_000, vec!["b"]));
    }

    #[test]
    fn nobody_uses_the_epochs_up() {
        // A tenant who writes the highest that is believed, before every term.
        let mut epoch = 1;
        for _ in 0..1_000 {
            epoch = claims(&[epoch], &[(epoch + LEAP, "a")]).next();
        }
        assert!(epoch < MAX_EPOCH / 1_000_000, "{epoch}");
    }
}
