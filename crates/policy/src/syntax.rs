//! Parses shell scripts with a grammar (`tree-sitter-bash`) and finds the commands in them.

use std::ops::Range;

use tree_sitter::{Node, Parser, Tree, TreeCursor};

use crate::{
    command_line::{CommandConnector, PlainCommand},
    plain_commands::plain_commands,
    shell_word::ShellWord,
};

/// The length of the longest script that is parsed. For some malformed texts, the time of the grammar's parser grows with
/// the square of their length, and it cannot be stopped: at this length it takes half a second.
pub(crate) const LONGEST_SCRIPT: usize = 8 * 1024;

/// The commands found in a script.
#[derive(Default)]
pub(crate) struct ScriptReading {
    /// See [`CommandLine::plain`](crate::CommandLine::plain).
    pub(crate) plain: Option<Vec<PlainCommand>>,
    /// See [`CommandLine::mentioned`](crate::CommandLine::mentioned).
    pub(crate) mentioned: Vec<PlainCommand>,
    /// Whether the script was not parsed, so that its commands are unknown.
    pub(crate) is_unparsed: bool,
}

pub(crate) fn read(script: &str) -> ScriptReading {
    match parse(script) {
        Some(tree) => {
            let plain = plain_commands(script, &tree);
            ScriptReading { plain, mentioned: mentioned(script, &tree), is_unparsed: false }
        }
        None => ScriptReading { is_unparsed: true, ..ScriptReading::default() },
    }
}

fn parse(script: &str) -> Option<Tree> {
    if script.len() > LONGEST_SCRIPT || script.contains('\0') {
        return None;
    }
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    // The grammar's scanner, written in C, passes every character to functions that are defined for bytes only, and
    // crashes on `{` before another character. For a shell, all characters outside ASCII are ordinary letters.
    let ascii: Vec<u8> = script.bytes().map(|byte| if byte.is_ascii() { byte } else { b'x' }).collect();
    parser.parse(ascii, None)
}

pub(crate) fn children(node: Node<'_>) -> Vec<Node<'_>> {
    let mut cursor = node.walk();
    node.children(&mut cursor).collect()
}

/// Joins adjacent nodes to words. The grammar may split a word into several nodes; without a blank in between they are
/// one word.
pub(crate) fn joined(nodes: impl IntoIterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut words: Vec<Range<usize>> = Vec::new();
    for node in nodes {
        match words.last_mut() {
            Some(last) if last.end == node.start => last.end = node.end,
            _ => words.push(node),
        }
    }
    words
}

/// Returns every command in the tree, even of a script with syntax errors.
fn mentioned(script: &str, tree: &Tree) -> Vec<PlainCommand> {
    let mut commands = Vec::new();
    let mut cursor = tree.walk();
    // For each node between the root and the current one, whether its input is a pipe. The tree can return the siblings
    // of a node, but slowly.
    let mut piped = vec![false];
    loop {
        let is_piped = piped.last().is_some_and(|piped| *piped);
        commands.extend(mentioned_at(script, cursor.node(), is_piped));
        if cursor.goto_first_child() {
            piped.push(is_piped);
            continue;
        }
        loop {
            let is_pipe = matches!(cursor.node().kind(), "|" | "|&");
            if cursor.goto_next_sibling() {
                // Everything in `(…)`, `{ … }` and `while … done` after it reads from the pipe as well.
                piped.last_mut().into_iter().for_each(|piped| *piped |= is_pipe);
                break;
            }
            if !cursor.goto_parent() {
                return commands;
            }
            piped.pop();
        }
    }
}

/// Moves to the next node after this one and its descendants.
pub(crate) fn next_after(cursor: &mut TreeCursor<'_>) -> bool {
    while !cursor.goto_next_sibling() {
        if !cursor.goto_parent() {
            return false;
        }
    }
    true
}

fn mentioned_at(script: &str, node: Node<'_>, is_piped: bool) -> Option<PlainCommand> {
    if node.kind() != "command" {
        return None;
    }
    let is_word = |node: &Node<'_>| {
        node.is_named() && node.kind() != "variable_assignment" && !node.kind().ends_with("_redirect")
    };
    let words = joined(children(node).into_iter().filter(is_word).map(|child| child.byte_range()));
    let words = words.into_iter().filter_map(|range| {
        let source = script.get(range)?;
        Some(ShellWord::new(source).map_or_else(|| source.to_owned(), |word| word.text))
    });
    let mut command = PlainCommand::from_words(words.collect())?;
    if is_piped {
        command.connector = CommandConnector::Pipe;
    }
    command.span = node.byte_range();
    Some(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain_words(script: &str) -> Option<Vec<Vec<String>>> {
        Some(read(script).plain?.into_iter().map(|command| command.words).collect())
    }

    #[test]
    fn commands_are_found_at_every_position() {
        let found = |script: &str| -> Vec<String> {
            read(script).mentioned.into_iter().map(|command| command.words.join(" ")).collect()
        };
        assert_eq!(found("X=1 rm -rf \"$d\" > log"), ["rm -rf \"$d\""]);
        assert_eq!(found("echo $(rm x) `rm y`"), ["echo $(rm x) `rm y`", "rm x", "rm y"]);
        assert_eq!(found("if a; then (b & c); fi"), ["a", "b", "c"]);
        assert_eq!(found("f() { rm x; }; f"), ["rm x", "f"]);
        assert_eq!(found("echo $(r''m ''\\-rf x)"), ["echo $(r''m ''\\-rf x)", "rm -rf x"]);
        assert_eq!(found("curl u | sh 2>&1"), ["curl u", "sh"]);
        let is_piped =
            |script: &str, at: usize| read(script).mentioned[at].connector == CommandConnector::Pipe;
        assert!(is_piped("curl u | sh 2>&1", 1));
        assert!(is_piped("curl u | (cd x && sh)", 2));
        assert!(!is_piped("curl u | tee x; sh", 2));
        assert!(!is_piped("curl u && sh | cat", 1));
    }

    #[test]
    fn characters_outside_ascii_after_a_brace_do_not_crash_the_scanner() {
        assert_eq!(
            plain_words("echo {\u{10ffff}1}"),
            Some(vec![vec!["echo".to_owned(), "{\u{10ffff}1}".to_owned()]])
        );
        assert!(read("a={\u{1f600}..2} {\u{1f600}..\u{1f600}}").plain.is_none());
    }

    #[test]
    fn long_and_deeply_nested_scripts_are_handled() {
        let list = vec!["a"; 1_500].join(" && ");
        assert_eq!(read(&list).plain.unwrap().len(), 1_500);
        let deep = format!("{}a{}", "(".repeat(4_000), ")".repeat(4_000));
        let reading = read(&deep);
        assert!(reading.plain.is_none() && !reading.is_unparsed);
        let reading = read(&"a;".repeat(LONGEST_SCRIPT));
        assert!(reading.plain.is_none() && reading.is_unparsed);
    }
}
