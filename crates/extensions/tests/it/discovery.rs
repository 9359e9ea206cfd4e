//! Where skills are found, and what the search tolerates.

use std::fs;

use codicil_protocol::{SkillScope, SkillsListExtraRootsForCwd, SkillsListParams};

use crate::support::{TestHomes, own, pool_options, skill_text};

#[test]
fn skills_come_from_the_repository_the_user_and_the_system() {
    let homes = TestHomes::new();
    homes.skill("work/.agents/skills", "of-agents");
    homes.skill("work/.codex/skills", "of-codex");
    homes.skill("home/skills", "of-home");
    homes.skill("user/.agents/skills", "of-user");
    homes.skill("etc/skills", "of-machine");
    let named = |name: &str, scope| (name.to_owned(), scope);

    assert_eq!(
        homes.names(),
        [
            named("of-agents", SkillScope::Repo),
            named("of-codex", SkillScope::Repo),
            named("of-home", SkillScope::User),
            named("of-user", SkillScope::User),
            named("of-machine", SkillScope::Admin),
        ]
    );
}

#[test]
fn the_search_ends_at_the_root_of_the_repository() {
    let homes = TestHomes::new();
    homes.skill(".agents/skills", "above");
    homes.skill("work/.agents/skills", "at-root");
    homes.skill("work/a/b/.codex/skills", "at-cwd");
    homes.skill("work/a/c/.codex/skills", "beside");

    let skills = own(homes.list_at(&homes.path("work/a/b")).skills);

    let names: Vec<_> = skills.iter().map(|skill| skill.name.as_str()).collect();
    assert_eq!(names, ["at-cwd", "at-root"]);
}

#[test]
fn bundled_skills_are_listed_unless_turned_off() {
    let homes = TestHomes::new();
    let bundled = || {
        let skills = homes.list_at(&homes.work()).skills.into_iter();
        skills.filter(|skill| skill.scope == SkillScope::System).count()
    };
    assert_eq!(bundled(), 3);
    assert!(homes.path("home/skills/.system/write-skill/SKILL.md").is_file());
    homes.write("home/config.toml", "[skills.bundled]\nenabled = false\n");
    assert_eq!(bundled(), 0);
}

#[test]
fn an_invalid_file_is_reported_next_to_valid_skills() {
    let homes = TestHomes::new();
    homes.skill("home/skills", "good");
    let bad = homes.write("home/skills/bad/SKILL.md", "no front matter");
    let worse = homes.write("work/.codex/skills/worse/SKILL.md", "---\nname: [\n---\n");

    let entry = homes.list_at(&homes.work());

    assert_eq!(own(entry.skills).len(), 1);
    let mut paths: Vec<_> = entry.errors.iter().map(|error| error.path.clone()).collect();
    paths.sort();
    assert_eq!(paths, [bad, worse].map(|path| path.to_string_lossy().into_owned()));
    assert!(entry.errors.iter().all(|error| !error.message.is_empty()));
}

#[test]
fn the_details_of_a_skill_are_listed() {
    let homes = TestHomes::new();
    let text = "---\nname: shown\ndescription: d\nmetadata:\n  short-description: short\n---\n";
    homes.write("home/skills/shown/SKILL.md", text);
    let yaml = "interface:\n  display_name: Shown\n  icon_small: ./assets/a.svg\n  brand_color: '#112233'\n\
                dependencies:\n  tools:\n    - {type: mcp, value: docs, transport: streamable_http, url: 'https://x'}\n";
    homes.write("home/skills/shown/agents/openai.yaml", yaml);

    let skill = own(homes.list_at(&homes.work()).skills).remove(0);

    assert_eq!(skill.short_description.as_deref(), Some("short"));
    let interface = skill.interface.unwrap();
    let icon = homes.path("home/skills/shown/assets/a.svg");
    assert_eq!(interface.icon_small.as_deref(), icon.to_str());
    assert_eq!((interface.display_name.as_deref(), interface.icon_large), (Some("Shown"), None));
    assert_eq!(skill.dependencies.unwrap().tools[0].url.as_deref(), Some("https://x"));
}

#[test]
fn skills_are_cached_until_a_forced_reload() {
    let homes = TestHomes::new();
    let file = homes.skill("home/skills", "mine");
    let listed = |force_reload| {
        own(homes.list(SkillsListParams { force_reload, ..SkillsListParams::default() }).skills)
    };
    assert_eq!(listed(None)[0].description, "Does a thing");
    fs::write(&file, skill_text("mine", "Does another")).unwrap();
    assert_eq!(listed(None)[0].description, "Does a thing");
    assert_eq!(listed(Some(true))[0].description, "Does another");
    assert_eq!(listed(None)[0].description, "Does another");
}

#[test]
fn extra_roots_apply_to_their_directory() {
    let homes = TestHomes::new();
    homes.skill("shared", "extra");
    let roots = |cwd: &str, root: String| {
        let entry = SkillsListExtraRootsForCwd { cwd: cwd.to_owned(), extra_user_roots: vec![root] };
        SkillsListParams { per_cwd_extra_user_roots: Some(vec![entry]), ..SkillsListParams::default() }
    };
    let work = homes.work();
    let work = work.to_str().unwrap();
    let shared = homes.path("shared").to_string_lossy().into_owned();

    let skills = own(homes.list(roots(work, shared.clone())).skills);
    assert_eq!((skills[0].name.as_str(), &skills[0].scope), ("extra", &SkillScope::User));
    assert!(own(homes.list(roots("/elsewhere", shared)).skills).is_empty());
    let error = homes.extensions.skills.list(&roots(work, "relative".to_owned()), &homes.work()).unwrap_err();
    assert!(error.to_string().ends_with("paths must be absolute: relative"), "{error}");
    assert!(homes.extensions.skills.list(&roots("/elsewhere", "relative".to_owned()), &homes.work()).is_ok());
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_loops_end() {
    use std::os::unix::fs::symlink;
    let homes = TestHomes::new();
    let file = homes.skill("elsewhere", "linked");
    fs::create_dir_all(homes.path("home/skills/deep")).unwrap();
    symlink(homes.path("elsewhere/linked"), homes.path("home/skills/linked")).unwrap();
    symlink(homes.path("home/skills"), homes.path("home/skills/deep/loop")).unwrap();
    symlink(homes.path("elsewhere/linked"), homes.path("home/skills/again")).unwrap();
    symlink(homes.path("nowhere"), homes.path("home/skills/broken")).unwrap();

    let skills = own(homes.list_at(&homes.work()).skills);

    let paths: Vec<_> = skills.iter().map(|skill| skill.path.as_str()).collect();
    assert_eq!(paths, [file.to_str().unwrap()]);
}

#[test]
fn the_search_is_limited() {
    let homes = TestHomes::new();
    homes.skill("home/skills/1/2/3/4/5", "deep-enough");
    homes.skill("home/skills/1/2/3/4/5/6", "too-deep");
    homes.skill("home/skills/.hidden", "hidden");
    let names = homes.names();
    assert_eq!(names.len(), 1);
    assert_eq!(names[0].0, "deep-enough");
}

#[test]
fn a_home_that_is_a_repository_is_searched_once() {
    let homes = TestHomes::new();
    let file = homes.skill("work/.codex/skills", "mine");
    let home = codicil_config::HomeDirectory::new(homes.path("work/.codex")).unwrap();
    let system = codicil_config::SystemFiles { config: Vec::new(), requirements: Vec::new() };
    let sources = codicil_config::ConfigSources { system, ..codicil_config::ConfigSources::of(home) };
    let config = codicil_config::ConfigStore::new(sources);
    let extensions = codicil_extensions::Extensions::new(
        config,
        None,
        std::sync::Arc::new(codicil_extensions::NoAccount),
        codicil_mcp::ServerPool::new(pool_options(&homes.path("home"))),
        || {},
    );
    let listed = extensions.skills.list(&SkillsListParams::default(), &homes.work()).unwrap();
    let skills = own(listed.data[0].skills.clone());
    assert_eq!((skills.len(), skills[0].path.as_str()), (1, file.to_str().unwrap()));
    assert_eq!(skills[0].scope, SkillScope::User);
}

#[test]
fn a_thread_has_the_skills_of_its_current_directory() {
    let homes = TestHomes::new();
    homes.skill("work/.agents/skills", "here");
    homes.skill("other/.agents/skills", "there");
    fs::create_dir(homes.path("other/.git")).unwrap();
    let started = homes.load();
    let names = |folder: &str| -> Vec<_> {
        let found = homes.extensions.skills.at(&homes.path(folder), &started).skills.into_iter();
        own(found.map(|skill| skill.metadata).collect()).into_iter().map(|skill| skill.name).collect()
    };
    assert_eq!(names("work"), ["here"]);
    assert_eq!(names("other"), ["there"]);
}
