//! Property tests: after edits, the file has the edited content, and other comments are kept.

use codicil_config::{KeyEdit, KeyPath};
use codicil_protocol::MergeStrategy;
use proptest::{collection, prelude::*, sample};
use serde_json::{Value, json};
use toml::Table;

use crate::support::Machine;

/// Files with all forms of tables. A comment begins with the root key to which it belongs.
const FILES: [&str; 6] = [
    "",
    "# only a comment",
    "# top\n\na = 1 # a:\n[b] # b:\nc = 'x' # b: c\n[b.d] # b: d\na = true # b: d.a\n",
    "b.c = 1 # b: c\nb.d.a = 2 # b: d.a\n\n# e: above\ne = { a = 1, b = { c = 2 } } # e: behind\n",
    "[b.d.e] # b: header\na = [1, 2, # b: two\n 3]\n[[c]] # c: 0\na = 1\n[[c]] # c: 1\na = 2\n[c.b] # c: 1.b\nd = 3\n",
    "a = [\n  # a: one\n  1,\n  2, # a: two\n]\n\n[\"b\".'d'] # b: quoted\n\"c d\" = 1979-05-27 # b: date\n[b] # b: late\na = 1\n",
];

fn keys() -> impl Strategy<Value = Vec<String>> {
    collection::vec(sample::select(vec!["a", "b", "c", "d", "e", "c d", "x.y"]), 1..4)
        .prop_map(|keys| keys.into_iter().map(str::to_owned).collect())
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[ -~\n\"']{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            collection::btree_map(sample::select(vec!["a", "b", "c d", "e"]), inner, 0..4).prop_map(
                |members| members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            ),
        ]
    })
}

fn edits() -> impl Strategy<Value = Vec<KeyEdit>> {
    let strategy = sample::select(vec![MergeStrategy::Replace, MergeStrategy::Upsert]);
    let edit = (keys(), values(), strategy).prop_map(|(keys, value, strategy)| KeyEdit {
        path: KeyPath::from_keys(keys).unwrap(),
        value,
        strategy,
    });
    collection::vec(edit, 1..6)
}

fn without_empty(table: &Table) -> Table {
    let members = table.iter().filter_map(|(key, value)| match value {
        toml::Value::Table(below) => {
            let below = without_empty(below);
            (!below.is_empty()).then(|| (key.clone(), below.into()))
        }
        value => Some((key.clone(), value.clone())),
    });
    members.collect()
}

/// Returns the comments of root keys that are not edited.
fn comments_to_keep<'t>(text: &'t str, edits: &[KeyEdit]) -> impl Iterator<Item = &'t str> {
    let roots: Vec<_> = edits.iter().map(|edit| format!("{}:", edit.path.keys()[0])).collect();
    let comments = text.lines().filter_map(|line| line.split_once("# ").map(|(_, comment)| comment));
    comments.filter(move |comment| !roots.iter().any(|root| comment.starts_with(root)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_file_has_the_edited_content(file in sample::select(FILES.to_vec()), edits in edits()) {
        let machine = Machine::with_config(file);
        let store = machine.store();
        let mut expected: Table = file.parse().unwrap();
        for edit in &edits {
            let mut wanted = expected.clone();
            let applies = edit.apply(&mut wanted).is_ok();
            let written = store.edit(std::slice::from_ref(edit));
            prop_assert_eq!(written.is_ok(), applies, "{:?}\n{}\n{:?}", edit, machine.config(), written);
            if applies {
                expected = wanted;
            }
            let says: Table = machine.config().parse().unwrap();
            prop_assert_eq!(without_empty(&says), without_empty(&expected), "{:?}\n{}", edit, machine.config());
        }
    }

    #[test]
    fn comments_of_other_keys_are_kept(file in sample::select(FILES.to_vec()), edits in edits()) {
        let machine = Machine::with_config(file);
        for edit in &edits {
            let _ = machine.store().edit(std::slice::from_ref(edit));
        }
        let text = machine.config();
        for comment in comments_to_keep(file, &edits) {
            prop_assert!(text.contains(comment), "lost `{comment}`\n{:?}\n{}", edits, text);
        }
    }

    #[test]
    fn writing_the_same_value_changes_nothing(file in sample::select(FILES.to_vec()), key in keys()) {
        let machine = Machine::with_config(file);
        let table: Table = file.parse().unwrap();
        let root = key[0].as_str();
        if let Some(value) = table.get(root).filter(|_| !file.contains("1979")) {
            let value = serde_json::to_value(value).unwrap();
            machine.store().edit(&[KeyEdit::replace(KeyPath::from_keys([root]).unwrap(), value)]).unwrap();
            prop_assert_eq!(machine.config(), file);
        }
    }

    #[test]
    fn any_text_is_read_or_rejected(text in "\\PC{0,60}", newline in "[\\PC\n=\\[\\]\"'.]{0,60}") {
        for text in [text, newline] {
            let machine = Machine::with_config(&text);
            let _ = machine.load().map_err(|error| error.to_warning());
            let _ = KeyPath::parse(&text);
            let _ = codicil_config::CommandLineFlags::parse([&text], &machine.path("ws"));
        }
    }
}
