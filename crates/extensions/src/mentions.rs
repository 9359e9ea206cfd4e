//! Parses mentions in a message: skills as `$name` or a `skill` input, apps as `$slug` or a `mention` input, plugins as a
//! `mention` input.
//!
//! In a text, a link such as `[$name](/path/SKILL.md)`, `[$name](app://id)` or `[@name](plugin://name@market)` identifies
//! the skill, app or plugin. A bare `$name` is resolved by [`MessageMentions::choose`] against the skills of the thread,
//! and against its apps if no skill has that name.

use std::path::Path;

use codicil_protocol::UserInput;

use crate::skills::Skill;

const PLUGIN: &str = "plugin://";
const SKILL: &str = "skill://";
const APP: &str = "app://";

/// The mentions of one message in order of appearance, without duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageMentions {
    /// Paths of skill files.
    pub skill_paths: Vec<String>,
    /// Names of skills that are mentioned without a path. A name may also be the slug of an app.
    pub skill_names: Vec<String>,
    /// Ids of plugins.
    pub plugins: Vec<String>,
    /// Ids of apps.
    pub apps: Vec<String>,
}

impl MessageMentions {
    pub fn of(input: &[UserInput]) -> Self {
        let mut mentions = Self::default();
        let mut named = Vec::new();
        for input in input {
            match input {
                UserInput::Skill { name, path } => {
                    mentions.add_skill_path(path);
                    named.push(name.as_str());
                }
                UserInput::Mention { path, .. } => {
                    mentions.add_plugin(path);
                    mentions.add_app(path);
                }
                UserInput::Text { text, .. } => mentions.read(text),
                UserInput::Image { .. }
                | UserInput::LocalImage { .. }
                | UserInput::Audio { .. }
                | UserInput::LocalAudio { .. }
                | UserInput::Unrecognized(_) => {}
            }
        }
        // A `skill` input identifies the skill of that name, or is for a skill that is not known here.
        mentions.skill_names.retain(|name| !named.contains(&name.as_str()));
        mentions
    }

    pub fn is_empty(&self) -> bool {
        self.skill_paths.is_empty()
            && self.skill_names.is_empty()
            && self.plugins.is_empty()
            && self.apps.is_empty()
    }

    /// Returns the mentioned skills that are enabled. A name that two of them share selects neither: the
    /// model sees both in its list. Resolves symbolic links, so this blocks on the disk.
    pub fn choose<'s>(&self, skills: &'s [Skill]) -> Vec<&'s Skill> {
        let enabled = || skills.iter().filter(|skill| skill.metadata.enabled);
        let by_path = self.skill_paths.iter().filter_map(|path| {
            let named = Path::new(path);
            let real = named.canonicalize().ok();
            let is_meant = |known: &Path| known == named || Some(known) == real.as_deref();
            enabled().find(|skill| is_meant(Path::new(&skill.metadata.path)))
        });
        let by_name = self.skill_names.iter().filter_map(|name| {
            let mut fitting = enabled().filter(|skill| skill.metadata.name == *name);
            fitting.next().filter(|_| fitting.next().is_none())
        });
        let mut chosen: Vec<&Skill> = Vec::new();
        for skill in by_path.chain(by_name) {
            if !chosen.iter().any(|other| other.metadata.path == skill.metadata.path) {
                chosen.push(skill);
            }
        }
        chosen
    }

    fn read(&mut self, text: &str) {
        let mut before = None;
        for (at, letter) in text.char_indices() {
            let rest = text.get(at + letter.len_utf8()..).unwrap_or_default();
            match letter {
                '$' if !before.is_some_and(is_word_character) => self.read_name(before, rest),
                '@' if before == Some('[') => {
                    if let Some((_, target)) = link(rest) {
                        self.add_plugin(target);
                    }
                }
                _ => {}
            }
            before = Some(letter);
        }
    }

    fn read_name(&mut self, before: Option<char>, rest: &str) {
        if let Some((_, target)) = link(rest).filter(|_| before == Some('[')) {
            return if target.starts_with(APP) { self.add_app(target) } else { self.add_skill_path(target) };
        }
        let end = rest.find(|letter: char| !is_name_character(letter)).unwrap_or(rest.len());
        let name = rest.get(..end).unwrap_or_default().trim_end_matches([':', '-']);
        if !name.is_empty() {
            add(&mut self.skill_names, name);
        }
    }

    fn add_skill_path(&mut self, path: &str) {
        add(&mut self.skill_paths, path.strip_prefix(SKILL).unwrap_or(path));
    }

    fn add_app(&mut self, path: &str) {
        if let Some(id) = path.strip_prefix(APP).filter(|id| !id.is_empty()) {
            add(&mut self.apps, id);
        }
    }

    fn add_plugin(&mut self, path: &str) {
        if let Some(id) = path.strip_prefix(PLUGIN) {
            add(&mut self.plugins, id);
        }
    }
}

/// Parses `name](target)`, the rest of a link.
fn link(rest: &str) -> Option<(&str, &str)> {
    let end = rest.find(|letter: char| !is_name_character(letter))?;
    let (name, rest) = rest.split_at(end);
    let (target, _) = rest.strip_prefix("](")?.split_once(')')?;
    (!name.is_empty()).then(|| (name, target.trim()))
}

fn add(list: &mut Vec<String>, text: &str) {
    if !list.iter().any(|known| known == text) {
        list.push(text.to_owned());
    }
}

fn is_name_character(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | ':')
}

/// Returns whether a `$` after this character is not a mention, as in `US$5` and `\$HOME`.
fn is_word_character(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '$' | '\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> UserInput {
        UserInput::Text { text: text.to_owned(), text_elements: Vec::new() }
    }

    #[test]
    fn mentions_in_a_text() {
        let check = |said: &str, names: &[&str], paths: &[&str], plugins: &[&str]| {
            let found = MessageMentions::of(&[text(said)]);
            assert_eq!(found.skill_names, names, "{said}");
            assert_eq!(found.skill_paths, paths, "{said}");
            assert_eq!(found.plugins, plugins, "{said}");
        };
        check("$mine do it", &["mine"], &[], &[]);
        check("use $one, $two-b and $p:q: now. $one again", &["one", "two-b", "p:q"], &[], &[]);
        check("($a) \"$b\" $c.", &["a", "b", "c"], &[], &[]);
        check("US$5 costs a\\$b $$x $ $- nothing", &[], &[], &[]);
        check(
            "[$mine](/s/SKILL.md) and [$x](skill:///t/SKILL.md)",
            &[],
            &["/s/SKILL.md", "/t/SKILL.md"],
            &[],
        );
        check("[@sample](plugin://sample@market) @sample", &[], &[], &["sample@market"]);
        check("[$open](", &["open"], &[], &[]);
        check("größe$ä $ü", &[], &[], &[]);
        check("", &[], &[], &[]);
    }

    #[test]
    fn apps_are_mentioned_by_id_or_slug() {
        let mention = UserInput::Mention { name: "Demo App".into(), path: "app://demo".into() };
        let said = text("$demo-app and [$calendar](app://cal_1), [$calendar](app://cal_1) [$x](app://)");
        let found = MessageMentions::of(&[said, mention]);
        assert_eq!(found.apps, ["cal_1", "demo"]);
        assert_eq!(found.skill_names, ["demo-app"]);
        assert!(found.skill_paths.is_empty() && !found.is_empty(), "{found:?}");
    }

    #[test]
    fn an_input_overrides_a_name() {
        let skill = UserInput::Skill { name: "mine".into(), path: "/s/SKILL.md".into() };
        let app = UserInput::Mention { name: "App".into(), path: "app://demo".into() };
        let plugin = UserInput::Mention { name: "Sample".into(), path: "plugin://sample@m".into() };
        let found = MessageMentions::of(&[text("$mine $other"), skill, app, plugin.clone(), plugin]);
        assert_eq!(found.skill_names, ["other"]);
        assert_eq!(found.skill_paths, ["/s/SKILL.md"]);
        assert_eq!(found.plugins, ["sample@m"]);
    }
}
