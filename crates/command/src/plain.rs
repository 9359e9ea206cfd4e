//! Plain commands: what a script that holds nothing else is made of.
//!
//! Strict, because plain commands may be let through without a question. Where the grammar and a shell could
//! disagree, a script is not plain: every byte must belong to a word or an operator that is known, and a
//! second, independent splitter must see the same words.

use std::ops::Range;

use tree_sitter::{Node, Tree};

use crate::{
    line::{Connector, PlainCommand},
    syntax::{children, next_after},
    word::Word,
};

/// The commands of a plain script, in order.
pub(crate) fn plain(script: &str, tree: &Tree) -> Option<Vec<PlainCommand>> {
    if tree.root_node().has_error() || script.chars().any(is_ambiguous) {
        return None;
    }
    let mut reader = PlainReader { script, commands: Vec::new(), connector: None, end: 0 };
    // The tree of `a && b && …` is as deep as the script is long, so it is walked without recursion.
    let mut cursor = tree.walk();
    loop {
        let is_inside = reader.visit(cursor.node())? && cursor.goto_first_child();
        if !is_inside && !next_after(&mut cursor) {
            reader.skip_to(script.len(), is_separator)?;
            return (!reader.commands.is_empty()).then_some(reader.commands);
        }
    }
}

/// Characters that the grammar takes for space and shells do not, or the other way round.
fn is_ambiguous(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        c => c.is_control() || (c.is_whitespace() && c != ' '),
    }
}

struct PlainReader<'a> {
    script: &'a str,
    commands: Vec<PlainCommand>,
    /// The operator since the last command.
    connector: Option<Connector>,
    /// How far the script has been accounted for.
    end: usize,
}

impl PlainReader<'_> {
    /// `None` when the script is not plain, else whether to look at the node's children.
    fn visit(&mut self, node: Node<'_>) -> Option<bool> {
        if node.is_named() {
            match node.kind() {
                "program" | "list" | "pipeline" => return Some(true),
                "command" => self.command(node)?,
                "comment" => self.token(node, is_separator)?,
                _ => return None,
            }
            return Some(false);
        }
        let connector = match node.kind() {
            "&&" => Some(Connector::And),
            "||" => Some(Connector::Or),
            "|" => Some(Connector::Pipe),
            ";" => Some(Connector::Then),
            "\n" => self.connector,
            _ => return None,
        };
        self.connector = connector;
        self.token(node, is_separator)?;
        Some(false)
    }

    fn command(&mut self, node: Node<'_>) -> Option<()> {
        let mut words = Vec::new();
        let mut sources = Vec::new();
        let mut expands = false;
        let is_first = self.commands.is_empty();
        for (index, child) in children(node).into_iter().enumerate() {
            if !matches!(
                child.kind(),
                "command_name" | "word" | "number" | "string" | "raw_string" | "concatenation"
            ) {
                return None;
            }
            self.token(child, if index == 0 { is_separator } else { is_space })?;
            let source = self.script.get(child.byte_range())?;
            let word = Word::new(source)?;
            // A program whose name is a pattern could be any program.
            if index == 0 && (word.expands || word.text.is_empty()) {
                return None;
            }
            expands |= word.expands;
            words.push(word.text);
            sources.push(source);
        }
        if words.is_empty() || shlex::split(&sources.join(" "))? != words {
            return None;
        }
        let default = if is_first { Connector::Start } else { Connector::Then };
        let connector = self.connector.take().unwrap_or(default);
        self.commands.push(PlainCommand { words, connector, expands, span: node.byte_range() });
        Some(())
    }

    /// Accounts for a node and for the gap before it, which must be made of `filler`.
    fn token(&mut self, node: Node<'_>, filler: fn(char) -> bool) -> Option<()> {
        let Range { start, end } = node.byte_range();
        self.skip_to(start, filler)?;
        self.end = end;
        Some(())
    }

    fn skip_to(&mut self, start: usize, filler: fn(char) -> bool) -> Option<()> {
        let gap = self.script.get(self.end..start)?;
        let bare = gap.replace("\\\n", "");
        // A continued line with nothing else between joins two words into one.
        let joins = bare.is_empty() && !gap.is_empty();
        (bare.chars().all(filler) && !joins).then_some(())
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

fn is_separator(c: char) -> bool {
    is_space(c) || c == '\n'
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::read;

    fn plain_words(script: &str) -> Option<Vec<Vec<String>>> {
        Some(read(script).plain?.into_iter().map(|command| command.words).collect())
    }

    fn check(script: &str, expected: &[&[&str]]) {
        let expected = expected.iter().map(|words| words.iter().map(|word| (*word).to_owned()).collect());
        assert_eq!(plain_words(script), Some(expected.collect()), "{script}");
    }

    #[test]
    fn plain_commands() {
        check("ls", &[&["ls"]]);
        check("  ls -la  sub ", &[&["ls", "-la", "sub"]]);
        check("a && b | c; d || e\nf", &[&["a"], &["b"], &["c"], &["d"], &["e"], &["f"]]);
        check("ls; ", &[&["ls"]]);
        check("a &&\n  b # why\n# so\n", &[&["a"], &["b"]]);
        check("a \\\n  b", &[&["a", "b"]]);
        check("echo 'a b' \"c d\" e\\ f --g=\"h i\"", &[&["echo", "a b", "c d", "e f", "--g=h i"]]);
        check("'ls' \"-l\"", &[&["ls", "-l"]]);
        check("rg -n \"foo|bar$\" -g '*.rs' src", &[&["rg", "-n", "foo|bar$", "-g", "*.rs", "src"]]);
        check("ls *.txt", &[&["ls", "*.txt"]]);
        check("head -5 x", &[&["head", "-5", "x"]]);
        check("git show HEAD^:f HEAD~1..HEAD", &[&["git", "show", "HEAD^:f", "HEAD~1..HEAD"]]);
        check("echo '' é", &[&["echo", "", "é"]]);
    }

    #[test]
    fn everything_else_is_not_plain() {
        for script in [
            "",
            " ",
            "# only a comment",
            "ls > x",
            "ls 2>&1",
            "ls < x",
            "cat <<EOF\nx\nEOF",
            "ls &",
            "a & b",
            "a |& b",
            "! ls",
            "(ls)",
            "{ ls; }",
            "echo $(date)",
            "echo `date`",
            "echo $HOME",
            "echo \"$HOME\"",
            "echo $'a'",
            "FOO=1 ls",
            "x=1",
            "export A=b",
            "for i in 1 2; do ls; done",
            "if true; then ls; fi",
            "f() { ls; }",
            "[ -f x ]",
            "[[ -f x ]]",
            "ls {a,b}",
            "echo @(a|b)",
            "ls |",
            "ls &&",
            "echo a;; b",
            "ls $",
            "echo 'open",
            "*/ls",
            "'' x",
            "a\\\nb c",
            "ls\r\nrm",
            "ls\u{a0}x",
            "ls \u{2028} x",
            "ls\0",
            "echo \"a\\\nb\"c$x",
            "ls <(rm x)",
            "echo ${x:-y}",
            "case x in a) ls;; esac",
            "ls\u{b}x",
        ] {
            assert_eq!(plain_words(script), None, "{script:?}");
        }
    }

    #[test]
    fn connectors_are_kept() {
        let commands = read("a && b | c; d || e\nf").plain.unwrap();
        let connectors: Vec<_> = commands.iter().map(|command| command.connector).collect();
        use Connector::*;
        assert_eq!(connectors, [Start, And, Pipe, Then, Or, Then]);
    }
}
