//! Any text as a patch of any file is refused, or planned and described, without a panic.
#![no_main]

use std::{
    io,
    path::{Path, PathBuf},
};

use codicil_patch::{FileEntry, FollowLinks, Patch, PatchPlan, ReadFiles, find_in_command};
use libfuzzer_sys::fuzz_target;

/// One file, named `f`.
struct OneFile<'a>(&'a [u8]);

impl ReadFiles for OneFile<'_> {
    fn look(&self, path: &Path) -> io::Result<Option<FileEntry>> {
        Ok((path == Path::new("/f")).then(|| FileEntry::regular(self.0)))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(path == Path::new("/f"))
    }

    fn resolve(&self, path: &Path, _: FollowLinks) -> io::Result<PathBuf> {
        Ok(path.to_owned())
    }
}

fuzz_target!(|input: (&str, &[u8])| {
    let (text, file) = input;
    let _ = find_in_command(&["bash".to_owned(), "-lc".to_owned(), text.to_owned()]);
    // Most inputs would fail without the markers, so they are tried with them as well.
    let framed = format!("*** Begin Patch\n*** Update File: f\n{text}\n*** End Patch");
    for text in [text, &framed] {
        let Ok(patch) = Patch::parse(text) else { continue };
        assert_eq!(patch.requested_changes(Path::new("/w")).len(), patch.operations.len());
        if let Ok(plan) = PatchPlan::new(&patch, Path::new("/"), &OneFile(file)) {
            let _ = (plan.summary(), plan.file_changes());
        }
    }
});
