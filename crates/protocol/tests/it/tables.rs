//! The tables match the published lists of methods of both generations.

use std::collections::BTreeSet;

use codicil_protocol::{
    CLIENT_NOTIFICATIONS, CLIENT_REQUESTS, MethodInfo, NOTIFICATIONS, ProtocolGeneration, SERVER_REQUESTS,
    Stability, TypeInfo,
};

/// The kind, method, stability, params and response of every message of 0.118.
const PUBLISHED_118: &str = include_str!("../fixtures/methods.tsv");

/// The same for 0.166.
const PUBLISHED_166: &str = include_str!("../fixtures/methods-166.tsv");

const TABLES: [(&str, &[MethodInfo]); 4] = [
    ("ClientRequest", CLIENT_REQUESTS),
    ("ServerRequest", SERVER_REQUESTS),
    ("ServerNotification", NOTIFICATIONS),
    ("ClientNotification", CLIENT_NOTIFICATIONS),
];

fn row(kind: &str, method: &MethodInfo, generation: ProtocolGeneration) -> String {
    let stability = match method.stability {
        Stability::Stable => "stable",
        Stability::Experimental => "experimental",
        Stability::Extension => "extension",
    };
    let name = |info: Option<TypeInfo>| info.map_or("-".to_owned(), |info| (info.name)());
    // Optional params are none in 0.118.
    let has_params = !method.has_optional_params || generation == ProtocolGeneration::V166;
    let params = name(method.params.filter(|_| has_params));
    [kind, method.name, stability, &params, &name(method.response)].join("\t")
}

#[test]
fn every_message_is_there_once() {
    let count = |generation| {
        TABLES.map(|(_, table)| table.iter().filter(|method| method.generations.include(generation)).count())
    };
    assert_eq!(count(ProtocolGeneration::V118), [71, 9, 51, 1]);
    assert_eq!(count(ProtocolGeneration::V166), [179, 11, 85, 1]);
    let names: Vec<_> = TABLES.iter().flat_map(|(_, table)| table.iter().map(|method| method.name)).collect();
    let distinct: BTreeSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len());
}

#[test]
fn the_tables_are_the_published_ones() {
    for (generation, published) in
        [(ProtocolGeneration::V118, PUBLISHED_118), (ProtocolGeneration::V166, PUBLISHED_166)]
    {
        let of_generation = |method: &&MethodInfo| method.generations.include(generation);
        let ours: BTreeSet<_> = TABLES
            .iter()
            .flat_map(|(kind, table)| {
                table.iter().filter(of_generation).map(|method| row(kind, method, generation))
            })
            .collect();
        let published: BTreeSet<_> = published.lines().map(str::to_owned).collect();
        let missing: Vec<_> = published.difference(&ours).collect();
        let extra: Vec<_> = ours.difference(&published).collect();
        assert!(
            missing.is_empty() && extra.is_empty(),
            "{generation}: missing: {missing:#?}\nnot published: {extra:#?}"
        );
    }
}
