use std::process::Command;

use codicil_config::{ConfigSources, HomeDirectory, SystemFiles};
use tempfile::TempDir;

use super::*;

struct Scene {
    home: TempDir,
    market: TempDir,
    marketplaces: Marketplaces,
}

impl Scene {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let market = tempfile::tempdir().unwrap();
        write(market.path(), "market");
        let config = ConfigStore::new(ConfigSources {
            system: SystemFiles { config: Vec::new(), requirements: Vec::new() },
            ..ConfigSources::of(HomeDirectory::new(home.path()).unwrap())
        });
        Self { home, market, marketplaces: Marketplaces::new(config) }
    }

    async fn add(&self, source: &str) -> Result<MarketplaceAddResponse, MarketplaceError> {
        let params = MarketplaceAddParams { source: source.to_owned(), ref_name: None, sparse_paths: None };
        self.marketplaces.add(params, self.market.path()).await
    }

    fn config(&self) -> String {
        fs::read_to_string(self.home.path().join("config.toml")).unwrap_or_default()
    }

    /// Makes a repository of the marketplace and returns its source. Requests cannot name a local repository.
    fn repository(&self) -> GitSource {
        self.git(&["init", "--quiet", "-b", "main"]);
        self.commit();
        let url = self.market.path().to_str().unwrap().to_owned();
        GitSource { url, reference: None, sparse_paths: Vec::new() }
    }

    fn commit(&self) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "--quiet", "-m", "x"]);
    }

    fn git(&self, arguments: &[&str]) {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=t", "-c", "user.email=t@t"]).args(arguments);
        assert!(git.current_dir(self.market.path()).status().unwrap().success(), "{arguments:?}");
    }
}

fn write(root: &Path, name: &str) {
    let folder = root.join(".agents/plugins");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("marketplace.json"), json!({ "name": name, "plugins": [] }).to_string()).unwrap();
}

#[tokio::test]
async fn a_local_directory_is_used_in_place() {
    let scene = Scene::new();
    let root = scene.market.path().canonicalize().unwrap();
    let added = scene.add(root.to_str().unwrap()).await.unwrap();
    assert_eq!((added.marketplace_name.as_str(), added.already_added), ("market", false));
    assert_eq!(*added.installed_root, *root);
    assert!(scene.add(".").await.unwrap().already_added);
    assert_eq!(scene.marketplaces.roots(), std::slice::from_ref(&root));
    let upgraded = scene.marketplaces.upgrade(None).await.unwrap();
    assert!(upgraded.selected_marketplaces.is_empty() && upgraded.errors.is_empty());
    let error = scene.marketplaces.upgrade(Some("market".into())).await.unwrap_err();
    assert_eq!(error.to_string(), "marketplace `market` is not configured as a Git marketplace");

    let removed = scene.marketplaces.remove("market".into()).await.unwrap();
    assert_eq!(removed.installed_root, None);
    assert!(root.exists() && !scene.config().contains("market"), "{}", scene.config());
    let error = scene.marketplaces.remove("market".into()).await.unwrap_err();
    assert_eq!(error.to_string(), "marketplace `market` is not configured or installed");
}

#[tokio::test]
async fn a_second_source_of_the_same_name_is_refused() {
    let scene = Scene::new();
    scene.add(".").await.unwrap();
    let other = tempfile::tempdir().unwrap();
    write(other.path(), "market");
    let error = scene.add(other.path().to_str().unwrap()).await.unwrap_err();
    assert!(error.to_string().contains("already added from a different source"), "{error}");
}

#[tokio::test]
async fn a_repository_is_copied_and_upgraded_when_it_has_changed() {
    let scene = Scene::new();
    let source = scene.repository();
    let added = scene.marketplaces.add_git(source.clone()).await.unwrap();
    let root = scene.home.path().join("marketplaces/market");
    assert_eq!(*added.installed_root, *root);
    assert!(root.join(".agents/plugins/marketplace.json").is_file());
    assert!(scene.config().contains("source_type = \"git\""), "{}", scene.config());
    assert!(scene.marketplaces.add_git(source).await.unwrap().already_added);

    let same = scene.marketplaces.upgrade(None).await.unwrap();
    assert_eq!((same.selected_marketplaces.len(), same.upgraded_roots.len()), (1, 0));
    fs::write(scene.market.path().join("new.txt"), "new").unwrap();
    scene.commit();
    let upgraded = scene.marketplaces.upgrade(Some("market".into())).await.unwrap();
    assert_eq!(upgraded.upgraded_roots.len(), 1, "{upgraded:?}");
    assert!(root.join("new.txt").is_file());

    let left: Vec<_> = fs::read_dir(scene.home.path().join("marketplaces")).unwrap().collect();
    assert_eq!(left.len(), 1, "no folder is left behind: {left:?}");
    let removed = scene.marketplaces.remove("market".into()).await.unwrap();
    assert!(removed.installed_root.is_some() && !root.exists());
}

#[tokio::test]
async fn a_failed_upgrade_is_reported_and_keeps_the_copy() {
    let scene = Scene::new();
    let source = scene.repository();
    scene.marketplaces.add_git(source).await.unwrap();
    fs::rename(scene.market.path().join(".git"), scene.market.path().join("gone")).unwrap();
    let upgraded = scene.marketplaces.upgrade(None).await.unwrap();
    assert_eq!(upgraded.errors.len(), 1, "{upgraded:?}");
    assert!(scene.home.path().join("marketplaces/market/.agents").is_dir());
}

#[tokio::test]
async fn a_directory_without_a_manifest_is_refused() {
    let scene = Scene::new();
    let empty = tempfile::tempdir().unwrap();
    let error = scene.add(empty.path().to_str().unwrap()).await.unwrap_err().to_string();
    assert!(error.ends_with("marketplace root does not contain a supported manifest"), "{error}");
}

#[tokio::test]
async fn links_of_a_repository_lead_nowhere() {
    let scene = Scene::new();
    std::os::unix::fs::symlink("/etc", scene.market.path().join("outside")).unwrap();
    let source = scene.repository();
    scene.marketplaces.add_git(source).await.unwrap();
    let outside = scene.home.path().join("marketplaces/market/outside");
    assert!(fs::symlink_metadata(&outside).unwrap().is_file());
    assert_eq!(fs::read_to_string(outside).unwrap(), "/etc");
}

#[tokio::test]
async fn a_transport_that_runs_commands_is_refused() {
    let scene = Scene::new();
    let made = scene.home.path().join("made");
    let url = format!("ext::touch {}", made.display());
    let source = GitSource { url, reference: None, sparse_paths: Vec::new() };
    let error = scene.marketplaces.add_git(source).await.unwrap_err();
    assert!(matches!(error, MarketplaceError::Git { .. }), "{error}");
    assert!(!made.exists());
}

#[tokio::test]
async fn options_are_not_references() {
    let scene = Scene::new();
    let source = scene.repository();
    for reference in ["--upload-pack=touch x", "-b"] {
        let source = GitSource { reference: Some(reference.to_owned()), ..source.clone() };
        let error = scene.marketplaces.add_git(source).await.unwrap_err();
        assert!(matches!(error, MarketplaceError::Reference(_)), "{error}");
    }
    let tagged = GitSource { reference: Some("main".to_owned()), ..source };
    assert!(!scene.marketplaces.add_git(tagged).await.unwrap().already_added);
}

#[tokio::test]
async fn errors_do_not_show_passwords() {
    let scene = Scene::new();
    let error = scene.add("http://ada:secret@127.0.0.1:1/market.git").await.unwrap_err().to_string();
    assert!(error.starts_with("git clone failed: ") && !error.contains("secret"), "{error}");
}
