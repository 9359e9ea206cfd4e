//! Copies and removes random trees.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Command,
};

use codicil_fs::{CopyDepth, RemoveOptions, copy, remove};
use proptest::prelude::*;

/// A node of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    File { content: Vec<u8>, mode: u32 },
    Link(String),
    Pipe,
    Folder(BTreeMap<String, Node>),
}

fn node() -> impl Strategy<Value = Node> {
    let content = prop::collection::vec(any::<u8>(), 0..200);
    let mode = prop::sample::select(vec![0o600, 0o644, 0o755, 0o400]);
    let target = prop::sample::select(vec!["a", "../b", "nowhere", "/etc", ".", "a/b"]);
    let leaf = prop_oneof![
        4 => (content, mode).prop_map(|(content, mode)| Node::File { content, mode }),
        2 => target.prop_map(|target| Node::Link(target.to_owned())),
        1 => Just(Node::Pipe),
    ];
    let name = "[a-c é.\\-]{1,3}".prop_filter("no name", |name| name != "." && name != "..");
    leaf.prop_recursive(4, 24, 5, move |inner| {
        prop::collection::btree_map(name.clone(), inner, 0..5).prop_map(Node::Folder)
    })
}

fn tree() -> impl Strategy<Value = Node> {
    prop::collection::btree_map("[a-c]{1,2}", node(), 0..5).prop_map(Node::Folder)
}

fn make(path: &Path, node: &Node) {
    match node {
        Node::File { content, mode } => {
            fs::write(path, content).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(*mode)).unwrap();
        }
        Node::Link(target) => symlink(target, path).unwrap(),
        Node::Pipe => assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
        Node::Folder(children) => {
            fs::create_dir(path).unwrap();
            children.iter().for_each(|(name, child)| make(&path.join(name), child));
        }
    }
}

fn look(path: &Path) -> Node {
    let found = fs::symlink_metadata(path).unwrap();
    if found.is_symlink() {
        return Node::Link(fs::read_link(path).unwrap().to_str().unwrap().to_owned());
    }
    if found.is_file() {
        return Node::File { content: fs::read(path).unwrap(), mode: found.permissions().mode() & 0o777 };
    }
    if !found.is_dir() {
        return Node::Pipe;
    }
    let children = fs::read_dir(path).unwrap().map(|entry| {
        let entry = entry.unwrap();
        (entry.file_name().to_str().unwrap().to_owned(), look(&entry.path()))
    });
    Node::Folder(children.collect())
}

fn without_pipes(node: &Node) -> Node {
    match node {
        Node::Folder(children) => {
            let kept = children.iter().filter(|(_, child)| **child != Node::Pipe);
            Node::Folder(kept.map(|(name, child)| (name.clone(), without_pipes(child))).collect())
        }
        other => other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_copy_is_the_tree_without_its_pipes(tree in tree()) {
        let place = tempfile::tempdir().unwrap();
        let from = place.path().join("from");
        let to = place.path().join("to");
        make(&from, &tree);
        copy(&from, &to, CopyDepth::Tree).unwrap();
        prop_assert_eq!(look(&to), without_pipes(&tree));
        prop_assert_eq!(look(&from), tree);
    }

    #[test]
    fn removing_a_tree_removes_nothing_else(tree in tree(), beside in tree()) {
        let place = tempfile::tempdir().unwrap();
        make(&place.path().join("gone"), &tree);
        make(&place.path().join("stays"), &beside);
        symlink("../stays", place.path().join("gone/out")).unwrap();
        remove(&place.path().join("gone"), RemoveOptions { recursive: true, force: false }).unwrap();
        let left: Vec<_> = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        prop_assert_eq!(left, ["stays"]);
        prop_assert_eq!(look(&place.path().join("stays")), beside);
    }
}
