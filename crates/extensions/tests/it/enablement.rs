//! Turning skills on and off.

use codicil_protocol::{AbsolutePathBuf, SkillsConfigWriteParams};

use crate::support::{Place, own};

fn by_path(path: AbsolutePathBuf, enabled: bool) -> SkillsConfigWriteParams {
    SkillsConfigWriteParams { path: Some(path), name: None, enabled }
}

fn by_name(name: &str, enabled: bool) -> SkillsConfigWriteParams {
    SkillsConfigWriteParams { path: None, name: Some(name.to_owned()), enabled }
}

impl Place {
    fn switch(&self, params: &SkillsConfigWriteParams) {
        assert_eq!(self.extensions.skills.set_enabled(params).unwrap().effective_enabled, params.enabled);
    }

    fn is_on(&self, name: &str) -> bool {
        let skills = own(self.list_at(&self.work()).skills);
        skills.iter().find(|skill| skill.name == name).unwrap().enabled
    }
}

#[test]
fn a_skill_is_switched_by_its_file_or_its_name() {
    let place = Place::new();
    place.write("home/config.toml", "# mine\nmodel = \"m\" # keep\n");
    place.skill("home/skills", "one");
    place.skill("home/skills", "two");
    let file = place.absolute("home/skills/one/SKILL.md");

    place.switch(&by_path(file.clone(), false));
    assert_eq!((place.is_on("one"), place.is_on("two")), (false, true));
    assert!(place.config_text().contains("[[skills.config]]"), "{}", place.config_text());
    place.switch(&by_path(file.clone(), true));
    assert!(place.is_on("one"));
    assert_eq!(place.config_text().trim(), "# mine\nmodel = \"m\" # keep", "nothing is left of it");
    place.switch(&by_name(" two ", false));
    assert_eq!((place.is_on("one"), place.is_on("two")), (true, false));
    place.switch(&by_name("one", false));
    place.switch(&by_path(file, true));
    assert_eq!(
        (place.is_on("one"), place.is_on("two")),
        (true, false),
        "a file counts although its name is off"
    );
    place.switch(&by_name("two", true));
    assert!(place.is_on("two"));
}

#[test]
fn entries_written_by_hand_count_in_their_order() {
    let place = Place::new();
    place.skill("home/skills", "one");
    let entry =
        |key: &str, value: &str, on: bool| format!("[[skills.config]]\n{key} = '{value}'\nenabled = {on}\n");
    let check = |text: String, expected: bool| {
        place.write("home/config.toml", &text);
        assert_eq!(place.is_on("one"), expected, "{text}");
    };
    check(entry("name", "one", false) + &entry("name", "one", true), true);
    check(entry("path", "skills/one/SKILL.md", false), false);
    check(entry("name", "one", false) + &entry("path", "skills/one/SKILL.md", true), true);
    check(entry("name", "other", false), true);
}

#[test]
fn a_wish_names_a_skill_in_exactly_one_way() {
    let place = Place::new();
    let file = place.absolute("home/skills/one/SKILL.md");
    let refused = |params: SkillsConfigWriteParams| {
        place.extensions.skills.set_enabled(&params).unwrap_err().to_string()
    };
    let sentence = "skills/config/write requires exactly one of path or name";
    assert_eq!(refused(SkillsConfigWriteParams { path: None, name: None, enabled: true }), sentence);
    assert_eq!(refused(by_name("  ", true)), sentence);
    assert_eq!(refused(SkillsConfigWriteParams { name: Some("x".into()), ..by_path(file, true) }), sentence);
    assert_eq!(place.config_text(), "");
}
