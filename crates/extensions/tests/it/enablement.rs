//! Enabling and disabling skills.

use codicil_protocol::{AbsolutePathBuf, SkillsConfigWriteParams};

use crate::support::{TestHomes, own};

fn by_path(path: AbsolutePathBuf, enabled: bool) -> SkillsConfigWriteParams {
    SkillsConfigWriteParams { path: Some(path), name: None, enabled }
}

fn by_name(name: &str, enabled: bool) -> SkillsConfigWriteParams {
    SkillsConfigWriteParams { path: None, name: Some(name.to_owned()), enabled }
}

impl TestHomes {
    fn set_enabled(&self, params: &SkillsConfigWriteParams) {
        assert_eq!(self.extensions.skills.set_enabled(params).unwrap().effective_enabled, params.enabled);
    }

    fn is_enabled(&self, name: &str) -> bool {
        let skills = own(self.list_at(&self.work()).skills);
        skills.iter().find(|skill| skill.name == name).unwrap().enabled
    }
}

#[test]
fn a_skill_is_selected_by_its_file_or_its_name() {
    let homes = TestHomes::new();
    homes.write("home/config.toml", "# mine\nmodel = \"m\" # keep\n");
    homes.skill("home/skills", "one");
    homes.skill("home/skills", "two");
    let file = homes.absolute("home/skills/one/SKILL.md");

    homes.set_enabled(&by_path(file.clone(), false));
    assert_eq!((homes.is_enabled("one"), homes.is_enabled("two")), (false, true));
    assert!(homes.config_text().contains("[[skills.config]]"), "{}", homes.config_text());
    homes.set_enabled(&by_path(file.clone(), true));
    assert!(homes.is_enabled("one"));
    assert_eq!(homes.config_text().trim(), "# mine\nmodel = \"m\" # keep", "the entry remains");
    homes.set_enabled(&by_name(" two ", false));
    assert_eq!((homes.is_enabled("one"), homes.is_enabled("two")), (true, false));
    homes.set_enabled(&by_name("one", false));
    homes.set_enabled(&by_path(file, true));
    assert_eq!(
        (homes.is_enabled("one"), homes.is_enabled("two")),
        (true, false),
        "an entry for the file overrides one for the name"
    );
    homes.set_enabled(&by_name("two", true));
    assert!(homes.is_enabled("two"));
}

#[test]
fn the_last_matching_entry_decides() {
    let homes = TestHomes::new();
    homes.skill("home/skills", "one");
    let entry =
        |key: &str, value: &str, on: bool| format!("[[skills.config]]\n{key} = '{value}'\nenabled = {on}\n");
    let check = |text: String, expected: bool| {
        homes.write("home/config.toml", &text);
        assert_eq!(homes.is_enabled("one"), expected, "{text}");
    };
    check(entry("name", "one", false) + &entry("name", "one", true), true);
    check(entry("path", "skills/one/SKILL.md", false), false);
    check(entry("name", "one", false) + &entry("path", "skills/one/SKILL.md", true), true);
    check(entry("name", "other", false), true);
}

#[test]
fn a_request_has_either_a_path_or_a_name() {
    let homes = TestHomes::new();
    let file = homes.absolute("home/skills/one/SKILL.md");
    let refused = |params: SkillsConfigWriteParams| {
        homes.extensions.skills.set_enabled(&params).unwrap_err().to_string()
    };
    let sentence = "skills/config/write requires exactly one of path or name";
    assert_eq!(refused(SkillsConfigWriteParams { path: None, name: None, enabled: true }), sentence);
    assert_eq!(refused(by_name("  ", true)), sentence);
    assert_eq!(refused(SkillsConfigWriteParams { name: Some("x".into()), ..by_path(file, true) }), sentence);
    assert_eq!(homes.config_text(), "");
}
