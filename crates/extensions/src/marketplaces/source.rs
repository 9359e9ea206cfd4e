//! Where a marketplace comes from: a local directory, or a git repository.

use std::path::{Path, PathBuf};

use codicil_config::MarketplaceSettings;

use super::MarketplaceError;

/// The longest URL of a repository.
const MAX_URL_BYTES: usize = 2048;

/// The source of a marketplace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MarketplaceSource {
    /// A directory that is used in place.
    Local(PathBuf),
    Git(GitSource),
}

/// A repository, of which a copy is kept in the home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GitSource {
    pub url: String,
    /// A branch, tag or commit; `None` for the default branch.
    pub reference: Option<String>,
    /// The paths to check out; empty for all.
    pub sparse_paths: Vec<String>,
}

impl MarketplaceSource {
    /// Reads the source of a request: `owner/repo`, a git URL or a local path, which is relative to `cwd`. A repository
    /// may name its reference after `#` or, in the short form, `@`.
    pub fn parse(
        text: &str,
        reference: Option<&str>,
        sparse_paths: &[String],
        cwd: &Path,
    ) -> Result<Self, MarketplaceError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(MarketplaceError::EmptySource);
        }
        if is_local(text) {
            if reference.is_some() {
                return Err(MarketplaceError::LocalReference);
            }
            if !sparse_paths.is_empty() {
                return Err(MarketplaceError::LocalSparsePaths);
            }
            let path = cwd.join(expand_home(text)).canonicalize().map_err(MarketplaceError::Unresolved)?;
            return if path.is_dir() { Ok(Self::Local(path)) } else { Err(MarketplaceError::NotADirectory) };
        }
        let is_plain = |letter: char| !letter.is_whitespace() && !letter.is_control();
        if text.len() > MAX_URL_BYTES || !text.chars().all(is_plain) {
            return Err(MarketplaceError::SourceFormat);
        }
        let (url, in_text) = git_url(text).ok_or(MarketplaceError::SourceFormat)?;
        Ok(Self::Git(GitSource {
            url,
            reference: reference.map(str::to_owned).or(in_text).filter(|name| !name.is_empty()),
            sparse_paths: sparse_paths.to_vec(),
        }))
    }

    /// Reads an entry of the configuration. Returns `None` for one without a usable source.
    pub fn configured(settings: &MarketplaceSettings) -> Option<Self> {
        let source = settings.source.clone()?;
        match settings.source_type.as_deref() {
            Some("local") => Some(Self::Local(source.into())),
            Some("git") => Some(Self::Git(GitSource {
                url: source,
                reference: settings.reference.clone(),
                sparse_paths: settings.sparse_paths.clone(),
            })),
            _ => None,
        }
    }
}

fn is_local(text: &str) -> bool {
    ["/", "./", "../", "~/"].iter().any(|prefix| text.starts_with(prefix)) || matches!(text, "." | ".." | "~")
}

fn expand_home(text: &str) -> PathBuf {
    match (text.strip_prefix('~'), std::env::home_dir()) {
        (Some(below), Some(home)) => home.join(below.trim_start_matches('/')),
        _ => PathBuf::from(text),
    }
}

/// Returns the URL and the reference of a git source.
fn git_url(text: &str) -> Option<(String, Option<String>)> {
    let (base, reference) = match text.split_once('#') {
        Some((base, reference)) => (base, Some(reference.to_owned())),
        None => (text, None),
    };
    let rest = ["https://", "http://", "ssh://"].iter().find_map(|scheme| base.strip_prefix(scheme));
    // `ssh` would take such a host for an option.
    let is_url = rest.is_some_and(|rest| !rest.starts_with('-') && !rest.contains("@-"));
    if is_url || is_scp_form(base) {
        return Some((base.to_owned(), reference));
    }
    let (base, reference) = match base.split_once('@') {
        Some((base, at)) => (base, reference.or(Some(at.to_owned()))),
        None => (base, reference),
    };
    let (owner, repository) = base.split_once('/')?;
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with(['-', '.'])
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-".contains(letter))
    };
    let repository = repository.strip_suffix(".git").unwrap_or(repository);
    (is_name(owner) && is_name(repository))
        .then(|| (format!("https://github.com/{owner}/{repository}.git"), reference))
}

/// Returns whether a text has the form `user@host:path`.
fn is_scp_form(text: &str) -> bool {
    text.split_once('@').and_then(|(user, rest)| Some((user, rest.split_once(':')?))).is_some_and(
        |(user, (host, path))| {
            let is_option = |text: &str| text.is_empty() || text.starts_with('-');
            !is_option(user) && !is_option(host) && !is_option(path)
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(text: &str) -> Option<(String, Option<String>)> {
        match MarketplaceSource::parse(text, None, &[], Path::new("/")) {
            Ok(MarketplaceSource::Git(source)) => Some((source.url, source.reference)),
            _ => None,
        }
    }

    #[test]
    fn git_sources_are_recognized() {
        let check = |text: &str, url: &str, reference: Option<&str>| {
            assert_eq!(git(text), Some((url.to_owned(), reference.map(str::to_owned))), "{text}");
        };
        check("owner/repo", "https://github.com/owner/repo.git", None);
        check("owner/repo.git", "https://github.com/owner/repo.git", None);
        check("owner/repo@v1", "https://github.com/owner/repo.git", Some("v1"));
        check("owner/repo#main", "https://github.com/owner/repo.git", Some("main"));
        check("https://example.com/a.git#v2", "https://example.com/a.git", Some("v2"));
        check("ssh://git@example.com/a", "ssh://git@example.com/a", None);
        check("git@example.com:a/b.git", "git@example.com:a/b.git", None);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "relative/dir/x",
            "name",
            "file:///x.git",
            "-x/y",
            "ext::sh -c id",
            "owner/-x",
            "--upload-pack=x",
            "ssh://-oProxyCommand=x/y",
            "ssh://git@-oProxyCommand=x/y",
            "git@-oProxyCommand=x:y",
            "git@host:-y",
            "http://host/a b",
            "http://host/a\nb",
        ] {
            let parsed = MarketplaceSource::parse(text, None, &[], Path::new("/"));
            assert!(matches!(parsed, Err(MarketplaceError::SourceFormat)), "{text}: {parsed:?}");
        }
        let empty = MarketplaceSource::parse(" ", None, &[], Path::new("/"));
        assert!(matches!(empty, Err(MarketplaceError::EmptySource)));
    }

    #[test]
    fn a_local_source_is_a_directory_without_a_reference() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let text = root.to_str().unwrap();
        let parse = |text: &str, reference, sparse: &[String]| {
            MarketplaceSource::parse(text, reference, sparse, &root)
        };
        assert_eq!(parse(text, None, &[]).unwrap(), MarketplaceSource::Local(root.clone()));
        assert_eq!(parse(".", None, &[]).unwrap(), MarketplaceSource::Local(root.clone()));
        assert!(matches!(parse(text, Some("main"), &[]), Err(MarketplaceError::LocalReference)));
        assert!(matches!(parse(text, None, &["a".into()]), Err(MarketplaceError::LocalSparsePaths)));
        assert!(matches!(parse("./missing", None, &[]), Err(MarketplaceError::Unresolved(_))));
    }
}
