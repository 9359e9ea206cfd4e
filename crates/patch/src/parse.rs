//! Parses the patch format. The format is small and line-based. The parser is written by hand for the sake of its errors:
//! a model uses them to correct the patch.

use crate::{
    error::{ParseError, ParseProblem, excerpt},
    operation::{Patch, PatchLine, PatchOperation, PatchSection},
    shell::heredoc_delimiter,
    work::{LARGEST_PATCH, MOST_OPERATIONS},
};

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const UPDATE: &str = "*** Update File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";

pub(crate) fn parse(text: &str) -> Result<Patch, ParseError> {
    if text.len() > LARGEST_PATCH {
        return Err(problem(1, ParseProblem::TooLong));
    }
    let lines: Vec<_> =
        text.lines().enumerate().map(|(index, text)| NumberedLine { number: index + 1, text }).collect();
    let mut parser = PatchParser { lines: body(&lines)? };
    let mut operations = Vec::new();
    while let Some(operation) = parser.operation()? {
        operations.push(operation);
        if operations.len() > MOST_OPERATIONS {
            return Err(problem(1, ParseProblem::TooManyOperations));
        }
    }
    if operations.is_empty() {
        return Err(problem(lines.len(), ParseProblem::NoOperation));
    }
    Ok(Patch { operations })
}

#[derive(Clone, Copy)]
struct NumberedLine<'a> {
    number: usize,
    text: &'a str,
}

/// Returns the lines between the first and the last marker.
fn body<'a, 'b>(lines: &'b [NumberedLine<'a>]) -> Result<&'b [NumberedLine<'a>], ParseError> {
    let lines = without_heredoc(trim_blank(lines));
    let (begin, rest) = match lines {
        [first, rest @ ..] if first.text.trim() == BEGIN => (first, rest),
        [first, ..] => return Err(problem(first.number, ParseProblem::NoBegin(excerpt(first.text)))),
        [] => return Err(problem(1, ParseProblem::NoBegin(String::new()))),
    };
    match rest {
        [body @ .., last] if last.text.trim() == END => Ok(body),
        [.., last] => Err(problem(last.number, ParseProblem::NoEnd(excerpt(last.text)))),
        [] => Err(problem(begin.number, ParseProblem::NoEnd(excerpt(begin.text)))),
    }
}

fn trim_blank<'a, 'b>(mut lines: &'b [NumberedLine<'a>]) -> &'b [NumberedLine<'a>] {
    while let [first, rest @ ..] = lines
        && first.text.trim().is_empty()
    {
        lines = rest;
    }
    while let [rest @ .., last] = lines
        && last.text.trim().is_empty()
    {
        lines = rest;
    }
    lines
}

/// Removes a heredoc, which models add even where no shell is involved.
fn without_heredoc<'a, 'b>(lines: &'b [NumberedLine<'a>]) -> &'b [NumberedLine<'a>] {
    match lines {
        [first, inner @ .., last]
            if heredoc_delimiter(first.text).is_some_and(|delimiter| delimiter == last.text.trim()) =>
        {
            trim_blank(inner)
        }
        _ => lines,
    }
}

fn problem(line: usize, problem: ParseProblem) -> ParseError {
    ParseError { line, problem }
}

struct PatchParser<'a, 'b> {
    lines: &'b [NumberedLine<'a>],
}

impl<'a> PatchParser<'a, '_> {
    fn peek(&self) -> Option<NumberedLine<'a>> {
        self.lines.first().copied()
    }

    fn next(&mut self) -> Option<NumberedLine<'a>> {
        let (first, rest) = self.lines.split_first()?;
        self.lines = rest;
        Some(*first)
    }

    fn skip_blank(&mut self) {
        while self.peek().is_some_and(|line| line.text.trim().is_empty()) {
            self.next();
        }
    }

    fn operation(&mut self) -> Result<Option<PatchOperation>, ParseError> {
        self.skip_blank();
        let Some(header) = self.next() else { return Ok(None) };
        let text = header.text.trim();
        let operation = if let Some(path) = text.strip_prefix(ADD) {
            PatchOperation::Add { path: path_after(path, header)?, content: self.new_content()? }
        } else if let Some(path) = text.strip_prefix(DELETE) {
            let path = path_after(path, header)?;
            self.nothing_below()?;
            PatchOperation::Delete { path }
        } else if let Some(path) = text.strip_prefix(UPDATE) {
            self.update(path_after(path, header)?, header)?
        } else {
            return Err(problem(header.number, ParseProblem::NoHeader(excerpt(header.text))));
        };
        Ok(Some(operation))
    }

    fn new_content(&mut self) -> Result<String, ParseError> {
        let mut content = String::new();
        while let Some(line) = self.peek() {
            match line.text.strip_prefix('+') {
                Some(text) => {
                    content.push_str(text);
                    content.push('\n');
                    self.next();
                }
                None => {
                    self.skip_blank();
                    break;
                }
            }
        }
        match self.peek() {
            Some(line) if !is_header(line.text.trim()) => {
                Err(problem(line.number, ParseProblem::NoPlus(excerpt(line.text))))
            }
            _ => Ok(content),
        }
    }

    fn nothing_below(&mut self) -> Result<(), ParseError> {
        self.skip_blank();
        match self.peek() {
            Some(line) if !is_header(line.text.trim()) => {
                Err(problem(line.number, ParseProblem::DeleteWithLines(excerpt(line.text))))
            }
            _ => Ok(()),
        }
    }

    fn update(&mut self, path: String, header: NumberedLine<'_>) -> Result<PatchOperation, ParseError> {
        let mut move_to = None;
        if let Some(line) = self.peek()
            && let Some(target) = line.text.trim().strip_prefix(MOVE)
        {
            self.next();
            move_to = Some(path_after(target, line)?);
        }
        let mut sections = Vec::new();
        while let Some(section) = self.section()? {
            sections.push(section);
        }
        if sections.is_empty() && move_to.is_none() {
            return Err(problem(header.number, ParseProblem::EmptyUpdate(excerpt(&path))));
        }
        Ok(PatchOperation::Update { path, move_to, sections })
    }

    /// Parses the next section of an update. Returns `None` before the next file and at the end of the patch.
    fn section(&mut self) -> Result<Option<PatchSection>, ParseError> {
        let Some(first) = self.peek().filter(|line| !is_header(line.text)) else { return Ok(None) };
        let mut section = PatchSection { line: first.number, ..PatchSection::default() };
        let mut is_marked = false;
        while let Some(anchor) = self.peek().and_then(|line| line.text.strip_prefix("@@")) {
            self.next();
            is_marked = true;
            if !anchor.trim().is_empty() {
                section.anchors.push(anchor.trim().to_owned());
            }
        }
        self.section_lines(&mut section)?;
        if section.lines.iter().all(PatchLine::is_blank_context) {
            if is_marked || section.at_end {
                return Err(problem(first.number, ParseProblem::EmptySection));
            }
            // Blank lines between the header and the next file.
            return self.section();
        }
        Ok(Some(section))
    }

    fn section_lines(&mut self, section: &mut PatchSection) -> Result<(), ParseError> {
        while let Some(line) = self.peek() {
            if is_header(line.text) || line.text.starts_with("@@") {
                return Ok(());
            }
            self.next();
            if line.text.trim_end() == END_OF_FILE {
                section.at_end = true;
                return self.after_end_of_file();
            }
            section.lines.push(section_line(line)?);
        }
        Ok(())
    }

    fn after_end_of_file(&mut self) -> Result<(), ParseError> {
        self.skip_blank();
        match self.peek() {
            Some(line) if !is_header(line.text) && !line.text.starts_with("@@") => {
                Err(problem(line.number, ParseProblem::AfterEndOfFile(excerpt(line.text))))
            }
            _ => Ok(()),
        }
    }
}

fn section_line(line: NumberedLine<'_>) -> Result<PatchLine, ParseError> {
    let mut rest = line.text.chars();
    match rest.next() {
        // Models often omit the space of a blank context line.
        None => Ok(PatchLine::Keep(String::new())),
        Some(' ') => Ok(PatchLine::Keep(rest.as_str().to_owned())),
        Some('-') => Ok(PatchLine::Remove(rest.as_str().to_owned())),
        Some('+') => Ok(PatchLine::Add(rest.as_str().to_owned())),
        Some(_) if line.text.starts_with(MOVE) => Err(problem(line.number, ParseProblem::MisplacedMove)),
        Some(_) => Err(problem(line.number, ParseProblem::NoMark(excerpt(line.text)))),
    }
}

fn path_after(text: &str, header: NumberedLine<'_>) -> Result<String, ParseError> {
    match text.trim() {
        "" => Err(problem(header.number, ParseProblem::NoPath)),
        path => Ok(path.to_owned()),
    }
}

/// Returns whether a line is a header. Inside an update, a header with a space before it is a line of the file.
fn is_header(text: &str) -> bool {
    [ADD, DELETE, UPDATE].iter().any(|header| text.starts_with(header))
}
