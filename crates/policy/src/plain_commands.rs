//! Reads the plain commands of a script that has nothing else.
//!
//! It is strict, because plain commands may run without a question. Where the grammar and a shell could disagree, a script
//! is not plain: every byte must belong to a word, an operator or a comment, in an order that shells accept, and a second,
//! independent splitter (`shlex`) must find the same words. The grammar only proposes where words are: nodes without a
//! blank between them are one word.

use std::ops::Range;

use tree_sitter::{Node, Tree};

use crate::{
    command_line::{CommandConnector, PlainCommand},
    shell_word::ShellWord,
    syntax::{children, joined, next_after},
};

/// Returns the commands of a plain script, in order, or `None` if the script is not plain.
pub(crate) fn plain_commands(script: &str, tree: &Tree) -> Option<Vec<PlainCommand>> {
    if tree.root_node().has_error() || script.chars().any(is_ambiguous) {
        return None;
    }
    let mut reader =
        PlainReader { script, commands: Vec::new(), connector: None, end: 0, before: PreviousNode::Line };
    // The tree of `a && b && …` is as deep as the script is long, so it is traversed without recursion.
    let mut cursor = tree.walk();
    loop {
        let is_inside = reader.visit(cursor.node())? && cursor.goto_first_child();
        if !is_inside && !next_after(&mut cursor) {
            return reader.finish();
        }
    }
}

/// Returns whether the grammar and shells disagree about whether a character separates words.
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
    connector: Option<CommandConnector>,
    /// The end of the part of the script that has been read.
    end: usize,
    before: PreviousNode,
}

/// The kind of node that was read last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PreviousNode {
    /// The end of a line, or the start of the script.
    Line,
    Command,
    Operator,
    Comment,
}

/// The blanks between two nodes, without continued lines.
#[derive(Default)]
struct NodeGap {
    has_blank: bool,
    has_line: bool,
}

impl PlainReader<'_> {
    /// Reads a node. Returns whether its children are to be visited, or `None` if the script is not plain.
    fn visit(&mut self, node: Node<'_>) -> Option<bool> {
        match node.kind() {
            "program" | "list" | "pipeline" => return Some(true),
            "command" => self.command(node)?,
            "comment" => self.comment(node)?,
            "\n" => self.line_end(node)?,
            "&&" => self.operator(node, CommandConnector::And)?,
            "||" => self.operator(node, CommandConnector::Or)?,
            "|" => self.operator(node, CommandConnector::Pipe)?,
            ";" => self.operator(node, CommandConnector::Then)?,
            _ => return None,
        }
        Some(false)
    }

    fn command(&mut self, node: Node<'_>) -> Option<()> {
        let ranges = self.word_ranges(node)?;
        let span = ranges.first()?.start..ranges.last()?.end;
        let gap = self.gap(span.start)?;
        let may_start = gap.has_line || matches!(self.before, PreviousNode::Line | PreviousNode::Operator);
        let (words, expands) = self.words(&ranges)?;
        if !may_start || shlex::split(&self.without_continuations(&ranges)?)? != words {
            return None;
        }
        let default = if self.commands.is_empty() { CommandConnector::Start } else { CommandConnector::Then };
        let connector = self.connector.take().unwrap_or(default);
        self.end = span.end;
        self.before = PreviousNode::Command;
        self.commands.push(PlainCommand { words, connector, expands, span });
        Some(())
    }

    /// Returns the positions of a command's words.
    fn word_ranges(&self, node: Node<'_>) -> Option<Vec<Range<usize>>> {
        const WORDS: [&str; 6] = ["command_name", "word", "number", "string", "raw_string", "concatenation"];
        let children = children(node);
        let is_word = |child: &Node<'_>| WORDS.contains(&child.kind()) && !child.byte_range().is_empty();
        let words = joined(children.iter().map(Node::byte_range));
        let is_apart = |pair: &[Range<usize>]| match pair {
            [before, after] => {
                let gap = self.script.get(before.end..after.start).and_then(gap);
                gap.is_some_and(|gap| gap.has_blank && !gap.has_line)
            }
            _ => true,
        };
        (children.iter().all(is_word) && words.windows(2).all(is_apart)).then_some(words)
    }

    fn words(&self, ranges: &[Range<usize>]) -> Option<(Vec<String>, bool)> {
        let mut words = Vec::with_capacity(ranges.len());
        let mut expands = false;
        for (index, range) in ranges.iter().enumerate() {
            let source = self.script.get(range.clone())?;
            let word = ShellWord::new(source)?;
            if index == 0 && !is_program(&word, source) {
                return None;
            }
            expands |= word.expands;
            words.push(word.text);
        }
        Some((words, expands))
    }

    /// Returns the source of a command without continued lines, which the second splitter takes for words.
    fn without_continuations(&self, ranges: &[Range<usize>]) -> Option<String> {
        let mut source = String::new();
        let mut end = ranges.first()?.start;
        for range in ranges {
            source.push_str(&self.script.get(end..range.start)?.replace("\\\n", ""));
            source.push_str(self.script.get(range.clone())?);
            end = range.end;
        }
        Some(source)
    }

    fn comment(&mut self, node: Node<'_>) -> Option<()> {
        let gap = self.gap(node.start_byte())?;
        // `a#b` is a word.
        let is_apart = gap.has_blank
            || gap.has_line
            || matches!(self.before, PreviousNode::Line | PreviousNode::Operator);
        self.end = node.end_byte();
        self.before = PreviousNode::Comment;
        is_apart.then_some(())
    }

    fn line_end(&mut self, node: Node<'_>) -> Option<()> {
        self.gap(node.start_byte())?;
        self.end = node.end_byte();
        self.before = PreviousNode::Line;
        Some(())
    }

    fn operator(&mut self, node: Node<'_>, connector: CommandConnector) -> Option<()> {
        let gap = self.gap(node.start_byte())?;
        if self.before != PreviousNode::Command || gap.has_line {
            return None;
        }
        self.end = node.end_byte();
        self.before = PreviousNode::Operator;
        self.connector = Some(connector);
        Some(())
    }

    fn finish(self) -> Option<Vec<PlainCommand>> {
        self.gap(self.script.len())?;
        let is_complete = matches!(self.connector, None | Some(CommandConnector::Then));
        (is_complete && !self.commands.is_empty()).then_some(self.commands)
    }

    fn gap(&self, start: usize) -> Option<NodeGap> {
        gap(self.script.get(self.end..start)?)
    }
}

/// Reads the text between two nodes. Returns `None` if it has anything but blanks and ends of lines.
fn gap(text: &str) -> Option<NodeGap> {
    let bare = text.replace("\\\n", "");
    let mut gap = NodeGap::default();
    for c in bare.chars() {
        match c {
            ' ' | '\t' => gap.has_blank = true,
            '\n' => gap.has_line = true,
            _ => return None,
        }
    }
    // A continued line without a blank may join the words before and after it.
    (text.is_empty() || !bare.is_empty()).then_some(gap)
}

/// Returns whether a first word names a program, and is not a pattern, an assignment or a keyword of the shell.
fn is_program(word: &ShellWord, source: &str) -> bool {
    const SYNTAX: [&str; 21] = [
        "!", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function",
        "if", "in", "select", "then", "until", "while", "{", "}",
    ];
    !word.expands && !word.text.is_empty() && !word.text.contains('=') && !SYNTAX.contains(&source)
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
        check("a;b;c", &[&["a"], &["b"], &["c"]]);
        check("a && # why\n b", &[&["a"], &["b"]]);
    }

    #[test]
    fn adjacent_quoted_and_bare_text_is_one_word() {
        check("qz ''\\$x", &[&["qz", "$x"]]);
        check("qz \"a\"\\;'b'c\\ d", &[&["qz", "a;bc d"]]);
        check("l''s -l\"\"a", &[&["ls", "-la"]]);
        check("''ls", &[&["ls"]]);
        check("qz 1'2'3", &[&["qz", "123"]]);
        check("qz ''#x", &[&["qz", "#x"]]);
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
            "a\n&& b",
            "a;;b",
            "a &&",
            "echo $\\\nHOME",
            "echo \"$\\\nHOME\"",
            "echo {a},b}",
            "echo {x\"}\",y}",
            "echo =ls",
            "'a'=b c",
            "a[1]=b",
            "a+=b",
            "coproc ls",
            "} ls",
        ] {
            assert_eq!(plain_words(script), None, "{script:?}");
        }
    }

    #[test]
    fn connectors_are_kept() {
        let commands = read("a && b | c; d || e\nf").plain.unwrap();
        let connectors: Vec<_> = commands.iter().map(|command| command.connector).collect();
        use CommandConnector::*;
        assert_eq!(connectors, [Start, And, Pipe, Then, Or, Then]);
    }
}
