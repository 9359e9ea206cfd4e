//! The bundled skills. They are part of the binary and are written to the home at the first search for
//! skills, so that a model can read them like any other.
//!
//! Only files that differ are written, and other files of the folder do not change: another program that
//! shares the home may keep its own skills there.

use std::{fs, io, path::Path};

/// A file of a bundled skill.
struct BundledFile {
    path: &'static str,
    text: &'static str,
}

macro_rules! bundled {
    ($($path:literal),* $(,)?) => {
        &[$(BundledFile { path: $path, text: include_str!(concat!("../../bundled/", $path)) }),*]
    };
}

const FILES: &[BundledFile] = bundled![
    "install-skill/SKILL.md",
    "install-skill/agents/openai.yaml",
    "review-change/SKILL.md",
    "review-change/agents/openai.yaml",
    "write-skill/SKILL.md",
    "write-skill/agents/openai.yaml",
];

/// Writes the bundled skills. A failure is only logged: other skills work without them.
pub(crate) fn install(folder: &Path) {
    for file in FILES {
        let path = folder.join(file.path);
        if let Err(error) = write_if_different(&path, file.text) {
            tracing::warn!("cannot write the bundled skill {}: {error}", path.display());
            return;
        }
    }
}

fn write_if_different(path: &Path, text: &str) -> io::Result<()> {
    if fs::read(path).is_ok_and(|existing| existing == text.as_bytes()) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)?;
    codicil_config::replace_private(path, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skills::scan::{RootKind, SkillRoot, scan};

    #[test]
    fn the_bundled_skills_are_valid() {
        let home = tempfile::tempdir().unwrap();
        install(home.path());
        let found = scan(&SkillRoot { path: home.path().to_owned(), kind: RootKind::System });
        let names: Vec<_> = found.skills.iter().map(|skill| skill.metadata.name.as_str()).collect();
        assert_eq!(names, ["install-skill", "review-change", "write-skill"]);
        assert!(found.errors.is_empty(), "{:?}", found.errors);
        assert!(found.skills.iter().all(|skill| skill.metadata.interface.is_some()));
    }

    #[test]
    fn only_files_that_differ_are_written() {
        let home = tempfile::tempdir().unwrap();
        install(home.path());
        let kept = home.path().join(FILES[0].path);
        let changed = home.path().join(FILES[2].path);
        fs::write(&changed, "old").unwrap();
        fs::write(home.path().join("other"), "mine").unwrap();
        let before = fs::metadata(&kept).unwrap().modified().unwrap();

        install(home.path());

        assert_eq!(fs::metadata(&kept).unwrap().modified().unwrap(), before);
        assert_eq!(fs::read_to_string(&changed).unwrap(), FILES[2].text);
        assert_eq!(fs::read_to_string(home.path().join("other")).unwrap(), "mine");
        let files = fs::read_dir(changed.parent().unwrap()).unwrap().count();
        assert_eq!(files, 2, "a temporary file remains");
    }
}
