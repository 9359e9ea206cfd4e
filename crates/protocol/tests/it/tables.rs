//! The tables match the published list of methods.

use std::collections::BTreeSet;

use codicil_protocol::{
    CLIENT_NOTIFICATIONS, CLIENT_REQUESTS, LATER_REQUESTS, MethodInfo, NOTIFICATIONS, SERVER_REQUESTS,
    Stability, TypeInfo,
};

/// The kind, method, stability, params and response of every message.
const PUBLISHED: &str = include_str!("../fixtures/methods.tsv");

fn row(kind: &str, method: &MethodInfo) -> String {
    let stability = match method.stability {
        Stability::Stable => "stable",
        Stability::Experimental => "experimental",
        Stability::Extension => "extension",
    };
    let name = |info: Option<TypeInfo>| info.map_or("-".to_owned(), |info| (info.name)());
    [kind, method.name, stability, &name(method.params), &name(method.response)].join("\t")
}

#[test]
fn every_message_is_there_once() {
    assert_eq!(CLIENT_REQUESTS.len(), 71);
    assert_eq!(SERVER_REQUESTS.len(), 9);
    assert_eq!(NOTIFICATIONS.len(), 51);
    assert_eq!(CLIENT_NOTIFICATIONS.len(), 1);
    let requests = CLIENT_REQUESTS.iter().chain(LATER_REQUESTS).chain(SERVER_REQUESTS);
    let names: Vec<_> = requests.chain(NOTIFICATIONS).chain(CLIENT_NOTIFICATIONS).map(|m| m.name).collect();
    let distinct: BTreeSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len());
}

#[test]
fn the_tables_are_the_published_ones() {
    let tables = [
        ("ClientRequest", CLIENT_REQUESTS),
        ("ServerRequest", SERVER_REQUESTS),
        ("ServerNotification", NOTIFICATIONS),
        ("ClientNotification", CLIENT_NOTIFICATIONS),
    ];
    let ours: BTreeSet<_> =
        tables.iter().flat_map(|(kind, table)| table.iter().map(|method| row(kind, method))).collect();
    let published: BTreeSet<_> = PUBLISHED.lines().map(str::to_owned).collect();
    let missing: Vec<_> = published.difference(&ours).collect();
    let extra: Vec<_> = ours.difference(&published).collect();
    assert!(missing.is_empty() && extra.is_empty(), "missing: {missing:#?}\nnot published: {extra:#?}");
}
