//! The languages that [`highlight`](super::highlight) knows: how their comments, strings and words look.

/// The lexical syntax of a language.
#[derive(Debug, PartialEq, Eq)]
pub struct Language {
    /// Names in code fences and file extensions, in lower case. The first one is the language's name.
    pub(super) names: &'static [&'static str],
    /// What begins a comment that ends with its line.
    pub(super) line_comments: &'static [&'static str],
    /// What begins and ends a comment that may span lines.
    pub(super) block_comments: &'static [(&'static str, &'static str)],
    pub(super) strings: &'static [StringSyntax],
    /// Words separated by spaces.
    pub(super) keywords: &'static str,
    /// Constants and built-in values, separated by spaces.
    pub(super) constants: &'static str,
    pub(super) traits: Traits,
}

/// How a string looks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StringSyntax {
    pub(super) open: &'static str,
    pub(super) close: &'static str,
    /// Whether a backslash takes the next character's meaning away.
    pub(super) has_escapes: bool,
    /// Whether the string may span lines.
    pub(super) is_multiline: bool,
}

/// What else sets a language apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Traits {
    /// Keywords in any case, as in SQL.
    pub(super) ignores_case: bool,
    /// Names that begin with a capital are types.
    pub(super) has_capital_types: bool,
    /// A name before `=` or `:` is a key, as in TOML and YAML.
    pub(super) has_keys: bool,
    /// `#[…]` or `@name` is an attribute.
    pub(super) has_attributes: bool,
    /// `<name` begins a tag.
    pub(super) has_tags: bool,
    /// `-` is part of a word, as in CSS and Lisp.
    pub(super) has_dashed_words: bool,
    /// Lines that begin with `+` and `-` are added and removed.
    pub(super) is_diff: bool,
}

const fn string(open: &'static str, close: &'static str) -> StringSyntax {
    StringSyntax { open, close, has_escapes: true, is_multiline: false }
}

const fn multiline(open: &'static str, close: &'static str) -> StringSyntax {
    StringSyntax { open, close, has_escapes: true, is_multiline: true }
}

const fn raw(open: &'static str, close: &'static str) -> StringSyntax {
    StringSyntax { open, close, has_escapes: false, is_multiline: true }
}

const PLAIN: Traits = Traits {
    ignores_case: false,
    has_capital_types: false,
    has_keys: false,
    has_attributes: false,
    has_tags: false,
    has_dashed_words: false,
    is_diff: false,
};
const TYPED: Traits = Traits { has_capital_types: true, has_attributes: true, ..PLAIN };
const KEYED: Traits = Traits { has_keys: true, has_dashed_words: true, ..PLAIN };

const C_COMMENTS: &[(&str, &str)] = &[("/*", "*/")];
const QUOTES: &[StringSyntax] = &[string("\"", "\""), string("'", "'")];
const BOOLEANS: &str = "true false null";

const C_KEYWORDS: &str = "alignas alignof auto bool break case catch char class co_await co_return concept const \
            consteval constexpr continue decltype default delete do double else enum explicit export \
            extern final float for friend goto if inline int long mutable namespace new noexcept \
            operator override private protected public register requires return short signed sizeof \
            static static_cast struct switch template this throw try typedef typename union unsigned \
            using virtual void volatile while";

/// Every language, in order of name.
pub(super) const LANGUAGES: &[Language] = &[
    Language {
        names: &["bash", "sh", "shell", "zsh", "console", "fish", "env"],
        line_comments: &["#"],
        block_comments: &[],
        strings: &[multiline("\"", "\""), raw("'", "'")],
        keywords: "case do done elif else esac exit export fi for function if in local readonly return \
            select set shift source then trap unset until while",
        constants: "true false",
        traits: Traits { has_dashed_words: true, ..PLAIN },
    },
    Language {
        names: &["c", "h", "cpp", "c++", "cc", "cxx", "hpp", "hh", "m", "objc", "cu", "glsl", "proto"],
        line_comments: &["//"],
        block_comments: C_COMMENTS,
        strings: QUOTES,
        keywords: C_KEYWORDS,
        constants: "true false NULL nullptr",
        traits: Traits { has_attributes: false, ..TYPED },
    },
    Language {
        names: &["csharp", "cs", "c#"],
        line_comments: &["//"],
        block_comments: C_COMMENTS,
        strings: &[raw("@\"", "\""), string("\"", "\""), string("'", "'")],
        keywords: "abstract as async await base bool break byte case catch char class const continue \
            decimal default delegate do double else enum event explicit extern finally fixed float \
            for foreach get goto if implicit in int interface internal is lock long namespace new \
            object operator out override params private protected public readonly record ref return \
            sealed set static string struct switch this throw try typeof using var virtual void \
            while yield",
        constants: BOOLEANS,
        traits: TYPED,
    },
    Language {
        names: &["css", "scss", "less"],
        line_comments: &[],
        block_comments: C_COMMENTS,
        strings: QUOTES,
        keywords: "and from important media not only or supports to",
        constants: "auto inherit initial none unset",
        traits: Traits { has_attributes: true, ..KEYED },
    },
    Language {
        names: &["diff", "patch"],
        line_comments: &[],
        block_comments: &[],
        strings: &[],
        keywords: "",
        constants: "",
        traits: Traits { is_diff: true, ..PLAIN },
    },
    Language {
        names: &["dockerfile", "containerfile"],
        line_comments: &["#"],
        block_comments: &[],
        strings: QUOTES,
        keywords: "add arg as cmd copy entrypoint env expose from healthcheck label onbuild run shell \
            stopsignal user volume workdir",
        constants: "",
        traits: Traits { ignores_case: true, has_dashed_words: true, ..PLAIN },
    },
    Language {
        names: &["elixir", "ex", "exs", "erlang", "erl"],
        line_comments: &["#", "%"],
        block_comments: &[],
        strings: &[multiline("\"\"\"", "\"\"\""), string("\"", "\""), string("'", "'")],
        keywords: "after alias and case catch cond def defmodule defp defstruct do else end fn for if \
            import in not or quote raise receive require rescue try unless use when with",
        constants: "true false nil",
        traits: TYPED,
    },
    Language {
        names: &["go", "golang"],
        line_comments: &["//"],
        block_comments: C_COMMENTS,
        strings: &[raw("`", "`"), string("\"", "\""), string("'", "'")],
        keywords: "any bool break byte case chan const continue default defer else error fallthrough \
            float32 float64 for func go goto if import int int32 int64 interface map package range \
            return rune select string struct switch type uint uint8 var",
        constants: "true false nil iota",
        traits: Traits { has_attributes: false, ..TYPED },
    },
    Language {
        names: &["haskell", "hs", "ocaml", "ml", "elm"],
        line_comments: &["--"],
        block_comments: &[("{-", "-}"), ("(*", "*)")],
        strings: &[string("\"", "\"")],
        keywords: "and begin case class data deriving do else end fun if import in infix instance let match \
            module newtype of open rec then type val where with",
        constants: "True False true false",
        traits: Traits { has_attributes: false, ..TYPED },
    },
    Language {
        names: &["html", "xml", "svg", "htm", "xhtml", "vue", "svelte", "plist"],
        line_comments: &[],
        block_comments: &[("<!--", "-->")],
        strings: QUOTES,
        keywords: "",
        constants: "",
        traits: Traits { has_tags: true, has_dashed_words: true, ..PLAIN },
    },
    Language {
        names: &["ini", "toml", "cfg", "conf", "properties", "editorconfig", "service"],
        line_comments: &["#", ";"],
        block_comments: &[],
        strings: &[multiline("\"\"\"", "\"\"\""), raw("'''", "'''"), string("\"", "\""), string("'", "'")],
        keywords: "",
        constants: BOOLEANS,
        traits: KEYED,
    },
    Language {
        names: &["java", "kotlin", "kt", "kts", "scala", "groovy", "gradle", "dart"],
        line_comments: &["//"],
        block_comments: C_COMMENTS,
        strings: &[multiline("\"\"\"", "\"\"\""), string("\"", "\""), string("'", "'")],
        keywords: "abstract as assert async await boolean break byte case catch char class companion const \
            continue data def default do double else enum extends final finally float for fun if \
            implements implicit import in instanceof int interface internal is lateinit lazy long \
            match native new object open override package private protected public record return \
            sealed short static super suspend switch synchronized this throw throws trait try type \
            val var void volatile when while with yield",
        constants: BOOLEANS,
        traits: TYPED,
    },
    Language {
        names: &["javascript", "js", "jsx", "mjs", "cjs", "typescript", "ts", "tsx", "mts", "cts"],
        line_comments: &["//"],
        block_comments: C_COMMENTS,
        strings: &[multiline("`", "`"), string("\"", "\""), string("'", "'")],
        keywords: "abstract any as async await boolean break case catch class const continue declare \
            default delete do else enum export extends finally for from function get if implements \
            import in infer instanceof interface is keyof let namespace never new number of private \
            protected public readonly return satisfies set static string super switch this throw try \
            type typeof unknown var void while with yield",
        constants: "true false null undefined NaN Infinity",
        traits: TYPED,
    },
    Language {
        names: &["json", "jsonl", "json5", "jsonc", "ndjson"],
        line_comments: &["//"],
        block_comments: C_COMMENTS,
        strings: &[string("\"", "\"")],
        keywords: "",
        constants: BOOLEANS,
        traits: KEYED,
    },
    Language {
        names: &["lisp", "clojure", "clj", "scheme", "scm", "el", "rkt"],
        line_comments: &[";"],
        block_comments: &[("#|", "|#")],
        strings: &[multiline("\"", "\"")],
        keywords: "and cond def define defmacro defn defun do fn if lambda let let* loop ns or quote recur \
            require setq when",
        constants: "nil t true false",
        traits: Traits { has_dashed_words: true, ..PLAIN },
    },
    Language {
        names: &["lua"],
        line_comments: &["--"],
        block_comments: &[("--[[", "]]")],
        strings: &[raw("[[", "]]"), string("\"", "\""), string("'", "'")],
        keywords: "and break do else elseif end for function goto if in local not or repeat return then \
            until while",
        constants: "true false nil",
        traits: PLAIN,
    },
    Language {
        names: &["makefile", "make", "mk", "cmake", "just", "justfile"],
        line_comments: &["#"],
        block_comments: &[],
        strings: QUOTES,
        keywords: "define else endef endif export ifdef ifeq ifndef ifneq include",
        constants: "",
        traits: KEYED,
    },
    Language {
        names: &["nix"],
        line_comments: &["#"],
        block_comments: C_COMMENTS,
        strings: &[raw("''", "''"), multiline("\"", "\"")],
        keywords: "assert else if import in inherit let or rec then with",
        constants: BOOLEANS,
        traits: KEYED,
    },
    Language {
        names: &["php"],
        line_comments: &["//", "#"],
        block_comments: C_COMMENTS,
        strings: &[multiline("\"", "\""), multiline("'", "'")],
        keywords: "abstract array as break case catch class const continue declare default do echo else \
            elseif enum extends final finally fn for foreach function global if implements interface \
            match namespace new private protected public readonly require return static string \
            switch throw trait try use var void while yield",
        constants: BOOLEANS,
        traits: TYPED,
    },
    Language {
        names: &["python", "py", "pyi", "python3", "starlark", "bzl", "gd"],
        line_comments: &["#"],
        block_comments: &[],
        strings: &[
            multiline("\"\"\"", "\"\"\""),
            multiline("'''", "'''"),
            string("\"", "\""),
            string("'", "'"),
        ],
        keywords: "and as assert async await break case class continue def del elif else except finally for \
            from global if import in is lambda match nonlocal not or pass raise return try type \
            while with yield",
        constants: "True False None self cls",
        traits: TYPED,
    },
    Language {
        names: &["r"],
        line_comments: &["#"],
        block_comments: &[],
        strings: QUOTES,
        keywords: "break else for function if in library next repeat return while",
        constants: "TRUE FALSE NULL NA Inf",
        traits: PLAIN,
    },
    Language {
        names: &["ruby", "rb", "rake", "gemspec", "crystal", "cr", "perl", "pl"],
        line_comments: &["#"],
        block_comments: &[("=begin", "=end")],
        strings: &[multiline("\"", "\""), multiline("'", "'")],
        keywords: "alias and begin break case class def do else elsif end ensure for if in include loop \
            module my next not or our private raise require rescue return self sub super then unless \
            until use when while yield",
        constants: "true false nil",
        traits: TYPED,
    },
    Language {
        names: &["rust", "rs"],
        line_comments: &["//"],
        block_comments: C_COMMENTS,
        // A quote also begins a lifetime; the lexer tells them apart.
        strings: &[
            raw("r##\"", "\"##"),
            raw("r#\"", "\"#"),
            raw("r\"", "\""),
            multiline("\"", "\""),
            string("'", "'"),
        ],
        keywords: "as async await bool break char const continue crate dyn else enum extern f32 f64 fn for \
            i128 i16 i32 i64 i8 if impl in isize let loop macro_rules match mod move mut pub ref \
            return static str struct super trait type u128 u16 u32 u64 u8 union unsafe use usize \
            where while",
        constants: "true false self Self None Some Ok Err",
        traits: TYPED,
    },
    Language {
        names: &["sql", "sqlite", "postgres", "mysql", "psql"],
        line_comments: &["--"],
        block_comments: C_COMMENTS,
        strings: &[multiline("'", "'"), string("\"", "\"")],
        keywords: "add all alter and as asc begin between by case check column commit constraint create \
            cross default delete desc distinct drop else end exists foreign from group having if in \
            index inner insert integer into is join key left like limit not offset on or order outer \
            primary references returning rollback select set table text then transaction union \
            unique update using values view when where with",
        constants: BOOLEANS,
        traits: Traits { ignores_case: true, ..PLAIN },
    },
    Language {
        names: &["swift"],
        line_comments: &["//"],
        block_comments: C_COMMENTS,
        strings: &[multiline("\"\"\"", "\"\"\""), string("\"", "\"")],
        keywords: "actor as async await break case catch class continue defer do else enum extension \
            fileprivate for func guard if import in init inout internal is lazy let open override \
            private protocol public repeat rethrows return self some static struct super switch \
            throw throws try typealias var weak where while",
        constants: "true false nil",
        traits: TYPED,
    },
    Language {
        names: &["terraform", "tf", "hcl"],
        line_comments: &["#", "//"],
        block_comments: C_COMMENTS,
        strings: &[string("\"", "\"")],
        keywords: "data for for_each if in locals module output provider resource variable",
        constants: BOOLEANS,
        traits: KEYED,
    },
    Language {
        names: &["yaml", "yml"],
        line_comments: &["#"],
        block_comments: &[],
        strings: QUOTES,
        keywords: "",
        constants: "true false null yes no",
        traits: KEYED,
    },
    Language {
        names: &["zig"],
        line_comments: &["//"],
        block_comments: &[],
        strings: QUOTES,
        keywords: "and anytype break catch comptime const continue defer else enum errdefer error export \
            extern fn for if inline or orelse packed pub return struct switch test try union \
            usingnamespace var volatile while",
        constants: "true false null undefined",
        traits: TYPED,
    },
];
