//! From tokens to rules.

use crate::network::Host;

use super::{
    Rules,
    error::Problem,
    rule::{NetworkRule, Rule, RuleDecision, protocol_named},
    tokens::{Token, tokens},
};

type Located<T> = Result<T, (usize, Problem)>;

pub(super) fn parse(text: &str) -> Located<Rules> {
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens: &tokens, line: 1 };
    let mut rules = Rules::default();
    while let Some(call) = parser.call()? {
        let line = call.line;
        let added = match call.function.as_str() {
            "prefix_rule" => prefix_rule(call).map(|rule| rules.commands.push(rule)),
            "network_rule" => network_rule(call).map(|rule| rules.networks.push(rule)),
            // Says where programs live, which changes nothing here: see `Rule::matches`.
            "host_executable" => Ok(()),
            _ => Err(Problem::Function(call.function)),
        };
        added.map_err(|problem| (line, problem))?;
    }
    Ok(rules)
}

struct Call {
    function: String,
    line: usize,
    arguments: Vec<(String, Value)>,
}

impl Call {
    fn take(&mut self, name: &str) -> Option<Value> {
        let at = self.arguments.iter().position(|(given, _)| given == name)?;
        Some(self.arguments.remove(at).1)
    }

    fn take_text(&mut self, name: &'static str) -> Result<Option<String>, Problem> {
        match self.take(name) {
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(Value::List(_)) => Err(Problem::Text(name)),
            Some(Value::None) | None => Ok(None),
        }
    }

    /// What is left after everything known has been taken.
    fn finish(self) -> Result<(), Problem> {
        match self.arguments.into_iter().next() {
            Some((name, _)) => Err(Problem::Argument(name)),
            None => Ok(()),
        }
    }
}

#[derive(Clone)]
enum Value {
    Text(String),
    /// Of texts and of lists of texts, the deepest that any argument is.
    List(Vec<Element>),
    None,
}

#[derive(Clone)]
enum Element {
    Text(String),
    List(Vec<String>),
}

fn prefix_rule(mut call: Call) -> Result<Rule, Problem> {
    let pattern = pattern(call.take("pattern").ok_or(Problem::Missing("pattern"))?)?;
    let decision = match call.take_text("decision")? {
        Some(decision) => decision_named(&decision)?,
        None => RuleDecision::Allow,
    };
    let rule = Rule { pattern, decision, justification: call.take_text("justification")? };
    for example in examples(call.take("match"), "match")? {
        if !rule.matches(&example) {
            return Err(Problem::NoMatch(example.join(" ")));
        }
    }
    for example in examples(call.take("not_match"), "not_match")? {
        if rule.matches(&example) {
            return Err(Problem::Match(example.join(" ")));
        }
    }
    call.finish()?;
    Ok(rule)
}

fn network_rule(mut call: Call) -> Result<NetworkRule, Problem> {
    let host = call.take_text("host")?.ok_or(Problem::Missing("host"))?;
    let host = Host::parse(host.trim()).ok_or(Problem::Host(host))?;
    let protocol = call.take_text("protocol")?;
    let named = |name: String| protocol_named(&name).ok_or(Problem::Protocol(name));
    let protocol = protocol.map(named).transpose()?;
    let decision = call.take_text("decision")?.ok_or(Problem::Missing("decision"))?;
    let decision = if decision == "deny" { RuleDecision::Forbidden } else { decision_named(&decision)? };
    let justification = call.take_text("justification")?;
    call.finish()?;
    Ok(NetworkRule { host, protocol, decision, justification })
}

fn decision_named(name: &str) -> Result<RuleDecision, Problem> {
    match name {
        "allow" => Ok(RuleDecision::Allow),
        "prompt" => Ok(RuleDecision::Prompt),
        "forbidden" => Ok(RuleDecision::Forbidden),
        name => Err(Problem::Decision(name.to_owned())),
    }
}

fn pattern(value: Value) -> Result<Vec<Vec<String>>, Problem> {
    let Value::List(elements) = value else { return Err(Problem::Pattern) };
    let alternatives = elements.into_iter().map(|element| match element {
        Element::Text(word) => vec![word],
        Element::List(words) => words,
    });
    let pattern: Vec<_> = alternatives.collect();
    if pattern.is_empty() || pattern.iter().any(Vec::is_empty) {
        return Err(Problem::Pattern);
    }
    Ok(pattern)
}

fn examples(value: Option<Value>, name: &'static str) -> Result<Vec<Vec<String>>, Problem> {
    let elements = match value {
        Some(Value::List(elements)) => elements,
        Some(Value::Text(_)) => return Err(Problem::Examples(name)),
        Some(Value::None) | None => return Ok(Vec::new()),
    };
    let words = elements.into_iter().map(|element| match element {
        Element::Text(line) => shlex::split(&line).ok_or(Problem::Examples(name)),
        Element::List(words) => Ok(words),
    });
    words.collect()
}

struct Parser<'a> {
    tokens: &'a [(usize, Token)],
    line: usize,
}

impl Parser<'_> {
    fn next(&mut self) -> Option<&Token> {
        let ((line, token), rest) = self.tokens.split_first()?;
        self.line = *line;
        self.tokens = rest;
        Some(token)
    }

    fn skip(&mut self, mark: char) -> bool {
        let is_next = matches!(self.tokens.first(), Some((_, Token::Mark(found))) if *found == mark);
        if is_next {
            self.next();
        }
        is_next
    }

    fn unexpected<T>(&mut self, expected: &'static str) -> Located<T> {
        let found = self.tokens.first();
        let line = found.map_or(self.line, |(line, _)| *line);
        let found = Token::describe(found.map(|(_, token)| token));
        Err((line, Problem::Unexpected { expected, found }))
    }

    fn call(&mut self) -> Located<Option<Call>> {
        let (line, function) = match self.tokens.first() {
            None => return Ok(None),
            Some((line, Token::Name(name))) => (*line, name.clone()),
            Some(_) => return self.unexpected("a rule such as `prefix_rule(...)`"),
        };
        self.next();
        if !self.skip('(') {
            return self.unexpected("`(`");
        }
        let mut arguments: Vec<(String, Value)> = Vec::new();
        while !self.skip(')') {
            let (name, value) = self.argument()?;
            if arguments.iter().any(|(given, _)| *given == name) {
                return Err((self.line, Problem::Twice(name)));
            }
            arguments.push((name, value));
            if !self.skip(',') && !matches!(self.tokens.first(), Some((_, Token::Mark(')')))) {
                return self.unexpected("`,` or `)`");
            }
        }
        Ok(Some(Call { function, line, arguments }))
    }

    fn argument(&mut self) -> Located<(String, Value)> {
        let Some((_, Token::Name(name))) = self.tokens.first() else {
            return self.unexpected("an argument such as `pattern=[...]`");
        };
        let name = name.clone();
        self.next();
        if !self.skip('=') {
            return self.unexpected("`=`");
        }
        Ok((name, self.value()?))
    }

    fn value(&mut self) -> Located<Value> {
        if self.skip('[') {
            return Ok(Value::List(self.list(Self::element)?));
        }
        match self.tokens.first() {
            Some((_, Token::Text(_))) => Ok(Value::Text(self.text()?)),
            Some((_, Token::Name(name))) if name == "None" => {
                self.next();
                Ok(Value::None)
            }
            _ => self.unexpected("a string or a list"),
        }
    }

    fn element(&mut self) -> Located<Element> {
        if self.skip('[') {
            return Ok(Element::List(self.list(Self::text)?));
        }
        Ok(Element::Text(self.text()?))
    }

    fn list<T>(&mut self, element: fn(&mut Self) -> Located<T>) -> Located<Vec<T>> {
        let mut elements = Vec::new();
        while !self.skip(']') {
            elements.push(element(self)?);
            if !self.skip(',') && !matches!(self.tokens.first(), Some((_, Token::Mark(']')))) {
                return self.unexpected("`,` or `]`");
            }
        }
        Ok(elements)
    }

    fn text(&mut self) -> Located<String> {
        let Some((_, Token::Text(text))) = self.tokens.first() else { return self.unexpected("a string") };
        let text = text.clone();
        self.next();
        Ok(text)
    }
}
