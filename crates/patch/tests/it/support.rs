//! A directory to patch, and helpers for it.

use std::{collections::BTreeMap, fs, path::Path};

use codicil_patch::{DiskFiles, Durability, Patch, PatchPlan, apply};
use tempfile::TempDir;

pub struct Workspace {
    directory: TempDir,
}

impl Workspace {
    pub fn new(files: &[(&str, &str)]) -> Self {
        let workspace = Self { directory: TempDir::new().unwrap() };
        for (path, content) in files {
            workspace.write(path, content);
        }
        workspace
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub fn read(&self, path: &str) -> String {
        String::from_utf8(fs::read(self.path().join(path)).unwrap()).unwrap()
    }

    pub fn plan(&self, body: &str) -> Result<PatchPlan, String> {
        let patch = Patch::parse(&patch(body)).map_err(|error| error.to_string())?;
        PatchPlan::new(&patch, self.path(), &DiskFiles).map_err(|error| error.to_string())
    }

    /// Plans and applies a patch. Returns the result for the model.
    pub fn apply(&self, body: &str) -> Result<String, String> {
        let plan = self.plan(body)?;
        apply(&plan, &DiskFiles, Durability::Cached).map_err(|error| error.to_string())?;
        Ok(plan.summary())
    }

    /// Returns everything below the directory: for a link its target, for a directory `None`.
    pub fn tree(&self) -> BTreeMap<String, Option<Vec<u8>>> {
        let mut tree = BTreeMap::new();
        walk(self.path(), self.path(), &mut tree);
        tree
    }
}

fn walk(root: &Path, directory: &Path, tree: &mut BTreeMap<String, Option<Vec<u8>>>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        let kind = fs::symlink_metadata(&path).unwrap();
        if kind.is_symlink() {
            tree.insert(name, Some(fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()));
        } else if kind.is_dir() {
            tree.insert(name, None);
            walk(root, &path, tree);
        } else {
            tree.insert(name, Some(fs::read(&path).unwrap()));
        }
    }
}

pub fn patch(body: &str) -> String {
    format!("*** Begin Patch\n{body}\n*** End Patch\n")
}
