//! What is decided about a request, and how long an invitation holds.

use super::*;

#[test]
fn who_may_become_the_agent_of_c1() {
    let (open, closed) = (cluster(true), cluster(false));
    let own = "roundhouse:agent:c1:3";
    let known = claimed(3, "sha256:0");
    let (mut over, mut uninvited, mut left) = (open.clone(), open.clone(), open.clone());
    over.spec.join_until = Some(Time(now()));
    uninvited.spec.join_until = None;
    left.metadata.deletion_timestamp = Some(Time(now()));
    let mut known_no_more = known.clone();
    known_no_more.spec.accepted = false;
    for (why, requester, user, cluster, expected) in [
        ("invited and accepted", INVITED, own, Some(&open), "approve first"),
        ("invited only", INVITED, own, Some(&closed), "wait"),
        ("itself again", own, own, Some(&known), "approve"),
        ("itself, claimed by nobody", own, own, Some(&open), "NotAccepted"),
        (
            "itself, no longer accepted",
            own,
            own,
            Some(&known_no_more),
            "NotAccepted",
        ),
        (
            "an invitation again",
            INVITED,
            own,
            Some(&known),
            "InvitationUsed",
        ),
        ("too late", INVITED, own, Some(&over), "InvitationExpired"),
        (
            "never invited",
            INVITED,
            own,
            Some(&uninvited),
            "InvitationExpired",
        ),
        ("on its way out", INVITED, own, Some(&left), "Leaving"),
        (
            "an old serial, by itself",
            "roundhouse:agent:c1:2",
            "roundhouse:agent:c1:2",
            Some(&known),
            "OldSerial",
        ),
        (
            "the present serial, by an old one",
            "roundhouse:agent:c1:2",
            own,
            Some(&known),
            "WrongRequester",
        ),
        (
            "a serial to come",
            INVITED,
            "roundhouse:agent:c1:4",
            Some(&open),
            "OldSerial",
        ),
        (
            "for c10, by c1",
            own,
            "roundhouse:agent:c10:3",
            Some(&known),
            "WrongName",
        ),
        (
            "for c1, by c10",
            "roundhouse:agent:c10:3",
            own,
            Some(&known),
            "WrongRequester",
        ),
        (
            "by the invitation of c10",
            "system:serviceaccount:cluster-c10:roundhouse-join",
            own,
            Some(&open),
            "WrongRequester",
        ),
        (
            "by another account",
            "system:serviceaccount:cluster-c1:roundhouse-join2",
            own,
            Some(&open),
            "WrongRequester",
        ),
        (
            "by an account elsewhere",
            "system:serviceaccount:kube-system:roundhouse-join",
            own,
            Some(&open),
            "WrongRequester",
        ),
        (
            "by an administrator",
            "kubernetes-admin",
            own,
            Some(&open),
            "WrongRequester",
        ),
        ("no such cluster", INVITED, own, None, "UnknownCluster"),
        (
            "no serial",
            INVITED,
            "roundhouse:agent:c1",
            Some(&open),
            "WrongSubject",
        ),
        (
            "another spelling",
            INVITED,
            "roundhouse:agent:c1:03",
            Some(&open),
            "WrongSubject",
        ),
        (
            "no agent",
            INVITED,
            "roundhouse:admin",
            Some(&open),
            "WrongSubject",
        ),
        ("an agent for a user", own, "jane", Some(&known), "WrongSubject"),
    ] {
        assert_eq!(judged(&ask(requester, user), cluster), expected, "{why}");
    }
}

#[test]
fn the_form_of_a_request_is_exact() {
    let open = cluster(true);
    let key = KeyPair::generate().unwrap();
    let (own, name) = ("roundhouse:agent:c1:3", "roundhouse-agent-c1");
    let of =
        |groups: &[&str], more: fn(&mut CertificateParams)| csr(name, INVITED, pem(&key, own, groups, more));
    for (groups, expected) in [
        (&[AGENTS][..], "approve first"),
        (&[], "WrongOrganization"),
        (&["system:masters"], "WrongOrganization"),
        (&[AGENTS, "system:masters"], "WrongOrganization"),
        (&["roundhouse:agent"], "WrongOrganization"),
    ] {
        assert_eq!(judged(&of(groups, |_| ()), Some(&open)), expected, "{groups:?}");
    }
    let country = of(&[AGENTS], |params| {
        params.distinguished_name.push(DnType::CountryName, "NL")
    });
    assert_eq!(judged(&country, Some(&open)), "WrongSubject");
    let host = of(&[AGENTS], |params| {
        params.subject_alt_names = vec![rcgen::SanType::DnsName("hub".try_into().unwrap())];
    });
    assert_eq!(judged(&host, Some(&open)), "WrongSubject");
    let mut other = of(&[AGENTS], |_| ());
    other.metadata.name = Some("roundhouse-agent-c2".to_owned());
    assert_eq!(judged(&other, Some(&open)), "WrongName");
    for (usages, expected) in [
        (&["client auth"][..], "approve first"),
        (&["client auth", "server auth"], "WrongUsages"),
        (&["digital signature"], "WrongUsages"),
    ] {
        let mut request = of(&[AGENTS], |_| ());
        request.spec.usages = Some(usages.iter().map(|usage| (*usage).to_owned()).collect());
        assert_eq!(judged(&request, Some(&open)), expected, "{usages:?}");
    }
    for (seconds, expected) in [
        (Some(90 * 86_400), "approve first"),
        (Some(90 * 86_400 + 1), "TooLong"),
        (Some(-1), "TooLong"),
        (None, "TooLong"),
    ] {
        let mut request = of(&[AGENTS], |_| ());
        request.spec.expiration_seconds = seconds;
        assert_eq!(judged(&request, Some(&open)), expected, "{seconds:?}");
    }
    let garbage = csr(name, INVITED, b"garbage".to_vec());
    assert_eq!(judged(&garbage, Some(&open)), "NoRequest");
}

#[test]
fn requests_of_others_are_left_alone() {
    let key = KeyPair::generate().unwrap();
    let jane = csr("jane", "eve", pem(&key, "jane", &["people"], |_| ()));
    assert_eq!(judged(&jane, None), "not ours");
    let mut elsewhere = ask(INVITED, "roundhouse:agent:c1:3");
    elsewhere.spec.signer_name = "example.com/other".to_owned();
    assert_eq!(judged(&elsewhere, None), "not ours");
    let in_group = csr("x", "eve", pem(&key, "jane", &[AGENTS], |_| ()));
    assert_eq!(judged(&in_group, None), "WrongSubject");
}

#[test]
fn one_key_is_let_in_by_an_invitation() {
    let key = KeyPair::generate().unwrap();
    let request = csr(
        "roundhouse-agent-c1",
        INVITED,
        pem(&key, "roundhouse:agent:c1:3", &[AGENTS], |_| ()),
    );
    let digest = match decide(
        &Requested::of(&request).unwrap(),
        Some(&cluster(false)),
        Some(UID),
        LONGEST,
        now(),
    ) {
        Verdict::Wait(digest) => digest,
        other => panic!("{other:?}"),
    };
    assert!(digest.starts_with("sha256:") && digest.len() == 71, "{digest}");
    let mut named = cluster(true);
    named.spec.accepted_key = Some(digest.clone());
    assert_eq!(judged(&request, Some(&named)), "approve first");
    assert_eq!(
        judged(&ask(INVITED, "roundhouse:agent:c1:3"), Some(&named)),
        "OtherKey"
    );
    // The hub was killed between the claim and the approval: the same key is let in, and no other.
    let claimed = claimed(3, &digest);
    assert_eq!(judged(&request, Some(&claimed)), "approve first");
    assert_eq!(
        judged(&ask(INVITED, "roundhouse:agent:c1:3"), Some(&claimed)),
        "InvitationUsed"
    );
}

#[test]
fn an_invitation_ends_with_its_time_or_its_use() {
    let minutes = |n: i64| now() + SignedDuration::from_mins(n);
    let open = |until: i64| Invitation {
        open: true,
        until: Some(minutes(until)),
    };
    let over = Invitation {
        open: false,
        until: None,
    };
    let (fresh, used) = (cluster(false), claimed(3, "k"));
    assert_eq!(invitation_of(&fresh, None, now()), open(60));
    assert_eq!(invitation_of(&fresh, None, minutes(60)), over);
    // Used, and not heard of yet: its agent fetches the certificate.
    assert_eq!(invitation_of(&used, None, minutes(1)), open(10));
    assert_eq!(
        invitation_of(&used, Some(now() - SignedDuration::from_mins(5)), minutes(1)),
        open(10)
    );
    assert_eq!(invitation_of(&used, Some(minutes(1)), minutes(1)), over);
    assert_eq!(invitation_of(&used, None, minutes(10)), over);
    // Of an earlier serial: this one is open.
    assert_eq!(
        invitation_of(&claimed(2, "k"), Some(minutes(1)), minutes(1)),
        open(60)
    );
    assert_eq!(
        invitation_of(&Cluster::new("c1", ClusterSpec::default()), None, now()),
        over
    );
}

fn invitation_of(cluster: &Cluster, heard: Option<Timestamp>, now: Timestamp) -> Invitation {
    invitation(cluster, IdentityMethod::Certificate, heard, now)
}

#[test]
fn an_accepted_cluster_waits_for_the_key_of_its_next_agent() {
    let mut again = cluster(true);
    again.spec.auto_accept = false;
    let request = ask(INVITED, "roundhouse:agent:c1:3");
    assert_eq!(judged(&request, Some(&again)), "wait");
    // An earlier invitation had an account of the same name: its token is of another uid.
    let mut old = request.clone();
    old.spec.uid = Some("0".to_owned());
    assert_eq!(judged(&old, Some(&cluster(true))), "OldInvitation");
    old.spec.uid = None;
    assert_eq!(judged(&old, Some(&cluster(true))), "OldInvitation");
    // Claimed, the hub killed, and the cluster accepted no longer.
    let key = Requested::of(&request).unwrap();
    let Verdict::Approve(Some(digest)) = decide(&key, Some(&cluster(true)), Some(UID), LONGEST, now()) else {
        panic!()
    };
    let mut shut = claimed(3, &digest);
    shut.spec.accepted = false;
    assert_eq!(judged(&request, Some(&shut)), "wait");
}
