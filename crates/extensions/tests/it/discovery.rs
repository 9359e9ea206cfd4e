//! Where skills are found, and what does not stop the search.

use std::fs;

use codicil_protocol::{SkillScope, SkillsListExtraRootsForCwd, SkillsListParams};

use crate::support::{Place, own, skill_text};

#[test]
fn skills_come_from_the_repository_the_person_and_the_machine() {
    let place = Place::new();
    place.skill("work/.agents/skills", "of-agents");
    place.skill("work/.codex/skills", "of-codex");
    place.skill("home/skills", "of-home");
    place.skill("user/.agents/skills", "of-user");
    place.skill("etc/skills", "of-machine");
    let named = |name: &str, scope| (name.to_owned(), scope);

    assert_eq!(
        place.names(),
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
fn the_search_goes_up_to_the_root_of_the_repository_and_no_further() {
    let place = Place::new();
    place.skill(".agents/skills", "above");
    place.skill("work/.agents/skills", "at-root");
    place.skill("work/a/b/.codex/skills", "at-cwd");
    place.skill("work/a/c/.codex/skills", "beside");

    let skills = own(place.list_at(&place.path("work/a/b")).skills);

    let names: Vec<_> = skills.iter().map(|skill| skill.name.as_str()).collect();
    assert_eq!(names, ["at-cwd", "at-root"]);
}

#[test]
fn bundled_skills_are_listed_unless_turned_off() {
    let place = Place::new();
    let bundled = || {
        let skills = place.list_at(&place.work()).skills.into_iter();
        skills.filter(|skill| skill.scope == SkillScope::System).count()
    };
    assert_eq!(bundled(), 3);
    assert!(place.path("home/skills/.system/write-skill/SKILL.md").is_file());
    place.write("home/config.toml", "[skills.bundled]\nenabled = false\n");
    assert_eq!(bundled(), 0);
}

#[test]
fn a_bad_file_is_an_error_beside_the_good_ones() {
    let place = Place::new();
    place.skill("home/skills", "good");
    let bad = place.write("home/skills/bad/SKILL.md", "no front matter");
    let worse = place.write("work/.codex/skills/worse/SKILL.md", "---\nname: [\n---\n");

    let entry = place.list_at(&place.work());

    assert_eq!(own(entry.skills).len(), 1);
    let mut paths: Vec<_> = entry.errors.iter().map(|error| error.path.clone()).collect();
    paths.sort();
    assert_eq!(paths, [bad, worse].map(|path| path.to_string_lossy().into_owned()));
    assert!(entry.errors.iter().all(|error| !error.message.is_empty()));
}

#[test]
fn what_a_skill_says_of_itself_is_listed() {
    let place = Place::new();
    let text = "---\nname: shown\ndescription: d\nmetadata:\n  short-description: short\n---\n";
    place.write("home/skills/shown/SKILL.md", text);
    let yaml = "interface:\n  display_name: Shown\n  icon_small: ./assets/a.svg\n  brand_color: '#112233'\n\
                dependencies:\n  tools:\n    - {type: mcp, value: docs, transport: streamable_http, url: 'https://x'}\n";
    place.write("home/skills/shown/agents/openai.yaml", yaml);

    let skill = own(place.list_at(&place.work()).skills).remove(0);

    assert_eq!(skill.short_description.as_deref(), Some("short"));
    let interface = skill.interface.unwrap();
    let icon = place.path("home/skills/shown/assets/a.svg");
    assert_eq!(interface.icon_small.as_deref(), icon.to_str());
    assert_eq!((interface.display_name.as_deref(), interface.icon_large), (Some("Shown"), None));
    assert_eq!(skill.dependencies.unwrap().tools[0].url.as_deref(), Some("https://x"));
}

#[test]
fn what_was_found_is_remembered_until_it_is_to_be_read_again() {
    let place = Place::new();
    let file = place.skill("home/skills", "mine");
    let listed = |force_reload| {
        own(place.list(SkillsListParams { force_reload, ..SkillsListParams::default() }).skills)
    };
    assert_eq!(listed(None)[0].description, "Does a thing");
    fs::write(&file, skill_text("mine", "Does another")).unwrap();
    assert_eq!(listed(None)[0].description, "Does a thing");
    assert_eq!(listed(Some(true))[0].description, "Does another");
    assert_eq!(listed(None)[0].description, "Does another");
}

#[test]
fn extra_roots_count_for_their_directory() {
    let place = Place::new();
    place.skill("shared", "extra");
    let roots = |cwd: &str, root: String| {
        let entry = SkillsListExtraRootsForCwd { cwd: cwd.to_owned(), extra_user_roots: vec![root] };
        SkillsListParams { per_cwd_extra_user_roots: Some(vec![entry]), ..SkillsListParams::default() }
    };
    let (work, shared) = (place.work(), place.path("shared").to_string_lossy().into_owned());
    let work = work.to_str().unwrap();

    let skills = own(place.list(roots(work, shared.clone())).skills);
    assert_eq!((skills[0].name.as_str(), &skills[0].scope), ("extra", &SkillScope::User));
    assert!(own(place.list(roots("/elsewhere", shared)).skills).is_empty());
    let error = place.extensions.skills.list(&roots(work, "relative".to_owned()), &place.work()).unwrap_err();
    assert!(error.to_string().ends_with("paths must be absolute: relative"), "{error}");
    assert!(place.extensions.skills.list(&roots("/elsewhere", "relative".to_owned()), &place.work()).is_ok());
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_loops_end() {
    use std::os::unix::fs::symlink;
    let place = Place::new();
    let file = place.skill("elsewhere", "linked");
    fs::create_dir_all(place.path("home/skills/deep")).unwrap();
    symlink(place.path("elsewhere/linked"), place.path("home/skills/linked")).unwrap();
    symlink(place.path("home/skills"), place.path("home/skills/deep/loop")).unwrap();
    symlink(place.path("elsewhere/linked"), place.path("home/skills/again")).unwrap();
    symlink(place.path("nowhere"), place.path("home/skills/broken")).unwrap();

    let skills = own(place.list_at(&place.work()).skills);

    let paths: Vec<_> = skills.iter().map(|skill| skill.path.as_str()).collect();
    assert_eq!(paths, [file.to_str().unwrap()]);
}

#[test]
fn the_search_has_bounds() {
    let place = Place::new();
    place.skill("home/skills/1/2/3/4/5", "deep-enough");
    place.skill("home/skills/1/2/3/4/5/6", "too-deep");
    place.skill("home/skills/.hidden", "hidden");
    let names = place.names();
    assert_eq!(names.len(), 1);
    assert_eq!(names[0].0, "deep-enough");
}

#[test]
fn a_home_that_is_a_repository_is_searched_once() {
    let place = Place::new();
    let file = place.skill("work/.codex/skills", "mine");
    let sources = codicil_config::ConfigSources::of(
        codicil_config::HomeDirectory::new(place.path("work/.codex")).unwrap(),
    );
    let config = codicil_config::ConfigStore::new(sources);
    let extensions = codicil_extensions::Extensions::new(
        config,
        None,
        std::sync::Arc::new(codicil_extensions::NoAccount),
        || {},
    );
    let listed = extensions.skills.list(&SkillsListParams::default(), &place.work()).unwrap();
    let skills = own(listed.data[0].skills.clone());
    assert_eq!((skills.len(), skills[0].path.as_str()), (1, file.to_str().unwrap()));
    assert_eq!(skills[0].scope, SkillScope::User);
}

#[test]
fn a_thread_that_moved_has_the_skills_of_where_it_is() {
    let place = Place::new();
    place.skill("work/.agents/skills", "here");
    place.skill("other/.agents/skills", "there");
    let begun = place.load();
    let names = |folder: &str| -> Vec<_> {
        let found = place.extensions.skills.at(&place.path(folder), &begun).skills.into_iter();
        own(found.map(|skill| skill.metadata).collect()).into_iter().map(|skill| skill.name).collect()
    };
    assert_eq!(names("work"), ["here"]);
    assert_eq!(names("other"), ["there"]);
}
