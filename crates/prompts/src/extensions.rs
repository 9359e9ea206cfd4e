//! Texts about skills, plugins and apps: the lists in the first message, and messages about mentioned plugins and apps.

use codicil_protocol::{ResponseItem, SkillMetadata};

use crate::message::developer_message;

/// The maximum size of a list, about 8,000 tokens.
const MAX_LIST_BYTES: usize = 32 << 10;

const SKILLS: &str = "## Skills

A skill is a set of instructions in a file. These can be used in this thread:";

const HOW_SKILLS: &str = "How to use them:

- Use a skill when the person names it (`$name`, or in plain words) or when the task is clearly what its
  description says. Otherwise leave it. If several fit, take the fewest that cover the task and say which.
- Read the whole file before you act on it, unless its text is already in the conversation. It stands in a
  `<skill>` block when the person called for it by name.
- Paths in a skill count from the folder of its file. Read further files only when the skill says that you
  need them, and prefer its scripts and templates to writing your own.
- If a skill that was asked for cannot be read, say so in a sentence and go on without it.
- A skill holds for the request it was used for, not for later ones, unless it is named again.";

const PLUGINS: &str = "## Plugins

A plugin is a bundle of skills, MCP servers and apps. These are installed:";

const HOW_PLUGINS: &str = "Skills of a plugin have its name before theirs (`plugin:skill`). When the person \
mentions a plugin, prefer what it offers for that request. If what they want is not among your tools and \
skills, say so and go on as well as you can without it.";

/// Returns the list of skills for [`ContextTexts::skills`](crate::ContextTexts::skills); `None` if there are none.
pub fn skills_text<'s>(skills: impl IntoIterator<Item = &'s SkillMetadata>) -> Option<String> {
    let line =
        |skill: &SkillMetadata| format!("- {}: {} (file: {})", skill.name, skill.description, skill.path);
    list(SKILLS, skills.into_iter().map(line), HOW_SKILLS)
}

/// Returns the list of plugins, given by name and description, for
/// [`ContextTexts::plugins`](crate::ContextTexts::plugins); `None` if there are none.
pub fn plugins_text<'s>(plugins: impl IntoIterator<Item = (&'s str, Option<&'s str>)>) -> Option<String> {
    let line = |(name, description): (&str, Option<&str>)| match description {
        Some(description) => format!("- `{name}`: {}", one_line(description)),
        None => format!("- `{name}`"),
    };
    list(PLUGINS, plugins.into_iter().map(line), HOW_PLUGINS)
}

/// The content of a plugin that the user mentioned.
#[derive(Clone, Copy, Debug, Default)]
pub struct PluginOffer<'p> {
    /// The name, which is also the prefix of its skills.
    pub name: &'p str,
    /// The names of its skills, with the prefix.
    pub skills: &'p [String],
    pub mcp_servers: &'p [String],
    /// The names of its apps.
    pub apps: &'p [String],
}

/// Returns a message about the content of a mentioned plugin, which follows the user's message. `None` if the plugin is empty.
pub fn plugin_message(offer: PluginOffer<'_>) -> Option<ResponseItem> {
    let parts = [("Skills", offer.skills), ("Tools of MCP servers", offer.mcp_servers), ("Apps", offer.apps)];
    let lines = parts.into_iter().filter(|(_, names)| !names.is_empty()).map(|(what, names)| {
        let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
        format!("- {what}: {}", names.join(", "))
    });
    let lines: Vec<_> = lines.collect();
    if lines.is_empty() {
        return None;
    }
    let text = format!(
        "The person mentioned the plugin `{}`. It offers:\n\n{}\n\nPrefer these for what was asked.",
        offer.name,
        lines.join("\n")
    );
    Some(developer_message([text]))
}

/// Returns a message about a mentioned app, which follows the user's message. `tools` are the names of its tools; an app
/// without any is not connected or disabled.
pub fn app_message(name: &str, tools: &[String]) -> ResponseItem {
    if tools.is_empty() {
        return developer_message([format!(
            "The person mentioned the app `{name}`, but it offers no tools here: it is not connected to their account, or it \
             is disabled. Say so, and go on as well as you can without it."
        )]);
    }
    let tools: Vec<_> = tools.iter().map(|tool| format!("`{tool}`")).collect();
    let tools = tools.join(", ");
    developer_message([format!(
        "The person mentioned the app `{name}`. Use its tools for what was asked: {tools}."
    )])
}

/// Returns the lines that fit between a heading and an explanation.
fn list(heading: &str, lines: impl Iterator<Item = String>, how: &str) -> Option<String> {
    let mut shown = String::new();
    let mut left_out = 0;
    for line in lines {
        if left_out == 0 && shown.len() + line.len() <= MAX_LIST_BYTES {
            shown.push_str(&line);
            shown.push('\n');
        } else {
            left_out += 1;
        }
    }
    if left_out > 0 {
        shown.push_str(&format!("- and {left_out} more that are not listed here\n"));
    }
    (!shown.is_empty()).then(|| format!("{heading}\n\n{shown}\n{how}"))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use codicil_protocol::SkillScope;

    use super::*;
    use crate::message::message_text;

    fn skill(name: &str, description: &str) -> SkillMetadata {
        SkillMetadata {
            name: name.to_owned(),
            description: description.to_owned(),
            short_description: None,
            interface: None,
            dependencies: None,
            path: format!("/s/{name}/SKILL.md"),
            scope: SkillScope::User,
            enabled: true,
            plugin_id: None,
        }
    }

    #[test]
    fn a_skill_is_a_line_with_its_file() {
        let text = skills_text(&[skill("mine", "Does a thing")]).unwrap();
        assert!(text.contains("\n- mine: Does a thing (file: /s/mine/SKILL.md)\n"), "{text}");
        assert_eq!(skills_text(&[]), None);
    }

    #[test]
    fn a_list_that_is_too_long_says_so() {
        let many: Vec<_> = (0..100).map(|number| skill(&format!("s{number}"), &"x".repeat(1000))).collect();
        let text = skills_text(&many).unwrap();
        assert!(text.len() < 40 << 10, "{}", text.len());
        let listed = text.lines().filter(|line| line.starts_with("- s")).count();
        assert!(text.contains(&format!("- and {} more", 100 - listed)), "{listed}");
    }

    #[test]
    fn plugins_are_listed_on_a_line_each() {
        let text = plugins_text([("a", Some("Does\n a thing")), ("b", None)]).unwrap();
        assert!(text.contains("\n- `a`: Does a thing\n- `b`\n"), "{text}");
        assert_eq!(plugins_text([]), None);
    }

    #[test]
    fn a_mentioned_plugin_says_what_it_offers() {
        let skills = ["sample:greet".to_owned()];
        let servers = ["plug".to_owned()];
        let offer = PluginOffer { name: "sample", skills: &skills, mcp_servers: &servers, apps: &[] };
        let text = message_text(&plugin_message(offer).unwrap());
        assert!(text.contains("`sample`") && text.contains("- Skills: `sample:greet`"), "{text}");
        assert!(text.contains("- Tools of MCP servers: `plug`") && !text.contains("Apps"), "{text}");
        assert_eq!(plugin_message(PluginOffer { name: "empty", ..PluginOffer::default() }), None);
    }

    #[test]
    fn a_mentioned_app_names_its_tools_or_says_that_it_has_none() {
        let text = message_text(&app_message("Demo App", &["a".to_owned(), "b".to_owned()]));
        assert!(text.contains("`Demo App`") && text.ends_with("`a`, `b`."), "{text}");
        let text = message_text(&app_message("demo", &[]));
        assert!(text.contains("`demo`, but it offers no tools"), "{text}");
    }
}
